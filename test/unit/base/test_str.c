#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/random.h"
#include "support/run.h"

static void test_equal_compares_size_and_bytes(void **state) {
    (void)state;
    assert_true(uvhttp__str_equal(UVHTTP__STR("abc"), UVHTTP__STR("abc")));
    assert_false(uvhttp__str_equal(UVHTTP__STR("abc"), UVHTTP__STR("abd")));
    assert_false(uvhttp__str_equal(UVHTTP__STR("abc"), UVHTTP__STR("ab")));
    assert_true(uvhttp__str_equal((uvhttp_str_t){NULL, 0}, UVHTTP__STR("")));
    assert_true(uvhttp__str_equal(UVHTTP__STR("a\0b"), UVHTTP__STR("a\0b")));
    assert_int_equal(UVHTTP__STR("a\0b").size, 3);
    assert_int_equal(uvhttp__str_from(NULL).size, 0);
}

/* What the fast comparison must agree with. */
static bool slow_equal_nocase(const char *a, const char *b, size_t size) {
    for (size_t i = 0; i < size; i++) {
        char x = a[i], y = b[i];
        if (x >= 'A' && x <= 'Z') x = (char)(x + 32);
        if (y >= 'A' && y <= 'Z') y = (char)(y + 32);
        if (x != y) return false;
    }
    return true;
}

static void test_nocase_agrees_with_the_plain_loop_forevery_pair_of_bytes_at_every_place(void **state) {
    (void)state;
    for (size_t size = 1; size <= 20; size++) {
        for (size_t place = 0; place < size; place++) {
            for (int x = 0; x < 256; x++) {
                for (int y = 0; y < 256; y++) {
                    if ((x ^ y) & ~0xa0 && (x * 7 + y) % 16) continue; /* all near misses, a part of the others */
                    char a[20], b[20];
                    memset(a, 'k', size), memset(b, 'K', size);
                    a[place] = (char)x, b[place] = (char)y;
                    uvhttp_str_t left = {a, size}, right = {b, size};
                    bool expected = slow_equal_nocase(a, b, size);
                    if (uvhttp__str_equal_nocase(left, right) != expected)
                        fail_msg("size %zu, bytes %d and %d at %zu", size, x, y, place);
                }
            }
        }
    }
}

static void test_nocase_reads_nothing_outside(void **state) {
    (void)state;
    for (size_t size = 0; size <= 40; size++) { /* exact blocks: AddressSanitizer sees a byte too many */
        char *a = malloc(size + !size), *b = malloc(size + !size);
        memset(a, 'a', size), memset(b, 'A', size);
        assert_true(uvhttp__str_equal_nocase((uvhttp_str_t){a, size}, (uvhttp_str_t){b, size}));
        free(a), free(b);
    }
    assert_false(uvhttp__str_equal_nocase(UVHTTP__STR("close"), UVHTTP__STR("closed")));
}

static void test_lower_changes_upper_case_letters_only(void **state) {
    (void)state;
    for (int c = 0; c < 256; c++) {
        int expected = c >= 'A' && c <= 'Z' ? c + 32 : c;
        assert_int_equal(uvhttp__lower[c], expected);
        assert_int_equal((uint8_t)uvhttp__char_lower((char)c), expected);
    }
}

static void test_starts_with(void **state) {
    (void)state;
    assert_true(uvhttp__str_starts_with(UVHTTP__STR("/api/x"), UVHTTP__STR("/api")));
    assert_true(uvhttp__str_starts_with(UVHTTP__STR("x"), (uvhttp_str_t){NULL, 0}));
    assert_false(uvhttp__str_starts_with(UVHTTP__STR("/ap"), UVHTTP__STR("/api")));
    assert_false(uvhttp__str_starts_with(UVHTTP__STR("/API"), UVHTTP__STR("/api")));
    assert_true(uvhttp__str_starts_with_nocase(UVHTTP__STR("Bearer x"), UVHTTP__STR("bearer ")));
    assert_false(uvhttp__str_starts_with_nocase(UVHTTP__STR("Bear"), UVHTTP__STR("bearer ")));
}

static void test_trim_takes_space_and_tab_only(void **state) {
    (void)state;
    assert_true(uvhttp__str_equal(uvhttp__str_trim(UVHTTP__STR(" \t a b\t ")), UVHTTP__STR("a b")));
    assert_int_equal(uvhttp__str_trim(UVHTTP__STR(" \t ")).size, 0);
    assert_int_equal(uvhttp__str_trim((uvhttp_str_t){NULL, 0}).size, 0);
    assert_int_equal(uvhttp__str_trim(UVHTTP__STR("\va\n")).size, 3);
}

static void test_parse_u64_takes_digits_up_to_the_maximum(void **state) {
    (void)state;
    uint64_t value = 7;
    assert_int_equal(uvhttp__str_parse_u64(UVHTTP__STR("0"), &value), UVHTTP_OK);
    assert_int_equal(value, 0);
    assert_int_equal(uvhttp__str_parse_u64(UVHTTP__STR("00042"), &value), UVHTTP_OK);
    assert_int_equal(value, 42);
    assert_int_equal(uvhttp__str_parse_u64(UVHTTP__STR("18446744073709551615"), &value), UVHTTP_OK);
    assert_true(value == UINT64_MAX);
}

static void test_parse_u64_refuses_overflow_and_everything_else(void **state) {
    (void)state;
    uint64_t value = 7;
    static const char *const overflows[] = {"18446744073709551616", "99999999999999999999",
                                            "18446744073709551620", "184467440737095516150",
                                            "28446744073709551615", "100000000000000000000000000000000000000000"};
    for (size_t i = 0; i < sizeof overflows / sizeof *overflows; i++)
        assert_int_equal(uvhttp__str_parse_u64(uvhttp__str_from(overflows[i]), &value), UVHTTP_E_LIMIT);
    static const char *const invalid[] = {"",  "-1", "+1", " 1", "1 ", "0x1", "1,1", "a", "99999999999999999999x",
                                          ":", "/"};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        assert_int_equal(uvhttp__str_parse_u64(uvhttp__str_from(invalid[i]), &value), UVHTTP_E_INVALID);
    assert_int_equal(value, 7);
}

static void test_percent_decode(void **state) {
    (void)state;
    char out[32];
    size_t size = 99;
    assert_int_equal(uvhttp__percent_decode(UVHTTP__STR("a%20b+%2Fc%e4%00"), out, &size, false), UVHTTP_OK);
    assert_int_equal(size, 8);
    assert_memory_equal(out, "a b+/c\xe4\0", 8);
    assert_int_equal(uvhttp__percent_decode(UVHTTP__STR("a+b%2b"), out, &size, true), UVHTTP_OK);
    assert_int_equal(size, 4);
    assert_memory_equal(out, "a b+", 4);
    assert_int_equal(uvhttp__percent_decode(UVHTTP__STR("%2525"), out, &size, false), UVHTTP_OK);
    assert_memory_equal(out, "%25", size);
    assert_int_equal(uvhttp__percent_decode((uvhttp_str_t){NULL, 0}, out, &size, false), UVHTTP_OK);
    assert_int_equal(size, 0);
    char same[] = "%41%42c";
    assert_int_equal(uvhttp__percent_decode((uvhttp_str_t){same, 7}, same, &size, false), UVHTTP_OK);
    assert_int_equal(size, 3);
    assert_memory_equal(same, "ABc", 3);
}

static void test_percent_decode_refuses_bad_escapes(void **state) {
    (void)state;
    static const char *const bad[] = {"%",   "%4",  "a%",  "a%4", "%4g", "%g4", "%%41",
                                      "% 1", "%-1", "%4%", "%:0", "%0@", "%`0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t size, in_size = strlen(bad[i]);
        char *in = malloc(in_size), out[16]; /* exact, so that reading on is seen */
        memcpy(in, bad[i], in_size);
        assert_int_equal(uvhttp__percent_decode((uvhttp_str_t){in, in_size}, out, &size, false), UVHTTP_E_INVALID);
        free(in);
    }
}

static void test_percent_decode_undoes_encoding_of_any_bytes(void **state) {
    (void)state;
    test_random_t random = {1};
    for (int round = 0; round < 2000; round++) {
        char plain[40], coded[120], out[120];
        size_t plain_size = test_random_below(&random, sizeof plain), coded_size = 0, size;
        for (size_t i = 0; i < plain_size; i++) {
            plain[i] = (char)test_random_next(&random);
            const char *digits = test_random_below(&random, 2) ? "0123456789abcdef" : "0123456789ABCDEF";
            if (plain[i] == '%' || test_random_below(&random, 2)) {
                coded[coded_size++] = '%';
                coded[coded_size++] = digits[(uint8_t)plain[i] >> 4];
                coded[coded_size++] = digits[plain[i] & 15];
            } else {
                coded[coded_size++] = plain[i];
            }
        }
        assert_int_equal(uvhttp__percent_decode((uvhttp_str_t){coded, coded_size}, out, &size, false), UVHTTP_OK);
        assert_int_equal(size, plain_size);
        assert_memory_equal(out, plain, size);
    }
}

static void expect_decimal(uint64_t n) {
    char out[64], expected[64];
    memset(out, 'x', sizeof out);
    size_t size = uvhttp__write_decimal(out, n);
    assert_true(size <= UVHTTP__DECIMAL_MAX);
    assert_int_equal(size, snprintf(expected, sizeof expected, "%" PRIu64, n));
    assert_memory_equal(out, expected, size);
    assert_true(out[size] == 'x');
}

static void test_write_decimal_against_printf(void **state) {
    (void)state;
    for (uint64_t n = 0; n < 20000; n++) expect_decimal(n);
    for (uint64_t power = 1;; power *= 10) {
        expect_decimal(power - 1);
        expect_decimal(power);
        expect_decimal(power + 1);
        if (power > UINT64_MAX / 10) break;
    }
    expect_decimal(UINT64_MAX);
    test_random_t random = {42};
    for (int i = 0; i < 20000; i++) expect_decimal(test_random_next(&random) >> (i % 64));
}

static void test_only_ascii_letters_have_a_case(void **state) {
    (void)state;
    for (int c = 0; c < 256; c++) {
        bool small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
        assert_int_equal(uvhttp__char_upper((char)c), (char)(small ? c - 32 : c));
        assert_int_equal(uvhttp__char_lower((char)c), (char)(large ? c + 32 : c));
    }
    char text[] = "A\xc4z[I";
    uvhttp__text_lower(text);
    assert_string_equal(text, "a\xc4z[i");
    assert_true(uvhttp__text_equal_nocase("Epoll-I", "ePOLL-i"));
    assert_false(uvhttp__text_equal_nocase("\xc4", "\xe4"));
    assert_false(uvhttp__text_equal_nocase("a", "ab"));
    assert_true(uvhttp__text_equal_nocase("", ""));
}

int main(void) {
    return RUN_TESTS(test_only_ascii_letters_have_a_case, test_equal_compares_size_and_bytes,
                     test_nocase_agrees_with_the_plain_loop_forevery_pair_of_bytes_at_every_place,
                     test_nocase_reads_nothing_outside, test_lower_changes_upper_case_letters_only, test_starts_with,
                     test_trim_takes_space_and_tab_only, test_parse_u64_takes_digits_up_to_the_maximum,
                     test_parse_u64_refuses_overflow_and_everything_else, test_write_decimal_against_printf,
                     test_percent_decode, test_percent_decode_refuses_bad_escapes,
                     test_percent_decode_undoes_encoding_of_any_bytes);
}
