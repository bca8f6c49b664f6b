/* Owns: tests of the public functions for texts (include/uvhttp/str.h) but JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/str.h>

#include <cmocka.h>

#include "support/comma_locale.h"
#include "support/run.h"

static uvhttp_str_t str(const char *text) {
    return (uvhttp_str_t){text, text ? strlen(text) : 0};
}

static void test_equal_compares_all_bytes(void **state) {
    (void)state;
    assert_true(uvhttp_str_equal(str("yes"), "yes"));
    assert_false(uvhttp_str_equal(str("yes"), "yes "));
    assert_false(uvhttp_str_equal(str("yes"), "ye"));
    assert_false(uvhttp_str_equal(str("yes"), "Yes"));
    assert_false(uvhttp_str_equal((uvhttp_str_t){"a\0b", 3}, "a"));
    assert_true(uvhttp_str_equal_n((uvhttp_str_t){"a\0b", 3}, "a\0b", 3));
    assert_false(uvhttp_str_equal_n((uvhttp_str_t){"a\0b", 3}, "a\0c", 3));
    assert_false(uvhttp_str_equal_n(str("yes"), "yesno", 4));
    assert_true(uvhttp_str_equal_n(str("yes"), "yesno", 3));
}

static void test_a_text_that_is_null_equals_nothing_but_the_empty_one(void **state) {
    (void)state;
    const uvhttp_str_t none = {NULL, 0};
    assert_true(uvhttp_str_equal(none, ""));
    assert_true(uvhttp_str_equal(none, NULL));
    assert_true(uvhttp_str_equal_n(none, NULL, 5));
    assert_true(uvhttp_str_equal_ci(none, ""));
    assert_true(uvhttp_str_starts_with(none, ""));
    assert_false(uvhttp_str_equal(none, "a"));
    assert_false(uvhttp_str_equal_ci(none, "a"));
    assert_false(uvhttp_str_starts_with(none, "a"));
    assert_false(uvhttp_str_equal(str("a"), NULL));
}

static void test_equal_ci_ignores_the_case_of_ascii_alone(void **state) {
    (void)state;
    assert_true(uvhttp_str_equal_ci(str("Keep-Alive, X-FORWARDED"), "keep-alive, x-forwarded"));
    assert_false(uvhttp_str_equal_ci(str("keep"), "keeps"));
    assert_false(uvhttp_str_equal_ci(str("\xc3\x84"), "\xc3\xa4"));
    assert_false(uvhttp_str_equal_ci(str("@[`{"), "`{@["));
}

static void test_starts_with(void **state) {
    (void)state;
    assert_true(uvhttp_str_starts_with(str("/api/items"), "/api"));
    assert_true(uvhttp_str_starts_with(str("/api"), "/api"));
    assert_true(uvhttp_str_starts_with(str("/api"), ""));
    assert_false(uvhttp_str_starts_with(str("/ap"), "/api"));
    assert_false(uvhttp_str_starts_with(str("/API"), "/api"));
}

static void test_whole_numbers_of_64_bits(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"7", 7},
                {"-7", -7},
                {"007", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775807", -INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t value = 42;
        assert_int_equal(uvhttp_str_to_int64(str(good[i].text), &value), UVHTTP_OK);
        assert_int_equal(value, good[i].value);
    }
    const struct {
        const char *text;
        int status;
    } bad[] = {{"", UVHTTP_E_INVALID},
               {NULL, UVHTTP_E_INVALID},
               {"-", UVHTTP_E_INVALID},
               {"+1", UVHTTP_E_INVALID},
               {"--1", UVHTTP_E_INVALID},
               {" 1", UVHTTP_E_INVALID},
               {"1 ", UVHTTP_E_INVALID},
               {"1.0", UVHTTP_E_INVALID},
               {"0x1", UVHTTP_E_INVALID},
               {"1e3", UVHTTP_E_INVALID},
               {"9223372036854775808", UVHTTP_E_LIMIT},
               {"-9223372036854775809", UVHTTP_E_LIMIT},
               {"99999999999999999999999999", UVHTTP_E_LIMIT}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t value = 42;
        assert_int_equal(uvhttp_str_to_int64(str(bad[i].text), &value), bad[i].status);
        assert_int_equal(value, 42);
    }
    assert_int_equal(uvhttp_str_to_int64(str("1"), NULL), UVHTTP_E_INVALID);
    int64_t cut;
    assert_int_equal(uvhttp_str_to_int64((uvhttp_str_t){"12345", 3}, &cut), UVHTTP_OK);
    assert_int_equal(cut, 123);
}

static void expect_double(const char *text, double expected) {
    double value = 42;
    assert_int_equal(uvhttp_str_to_double(str(text), &value), UVHTTP_OK);
    assert_memory_equal(&value, &expected, sizeof value);
}

static void test_doubles_are_read_as_json_writes_them(void **state) {
    (void)state;
    expect_double("0", 0);
    expect_double("-0", -0.0);
    expect_double("1.5", 1.5);
    expect_double("-12.25e2", -1225);
    expect_double("1E+2", 100);
    expect_double("25e-1", 2.5);
    expect_double("0.1", 0.1);
    expect_double("1.7976931348623157e308", 1.7976931348623157e308);
    expect_double("5e-324", 5e-324);
    expect_double("1e-999", 0);
    expect_double("9007199254740993", 9007199254740992.0); /* a tie goes to the even one */
    static const char *const malformed[] = {"",   NULL,  "-",   "+1",  ".5",  "5.",  "01",  "1e",   "1e+",     "1 ",
                                            " 1", "0x1", "inf", "nan", "1,5", "1_0", "--1", "1.e1", "Infinity"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        double value = 42;
        assert_int_equal(uvhttp_str_to_double(str(malformed[i]), &value), UVHTTP_E_INVALID);
        assert_true(value == 42);
    }
    double value = 42;
    assert_int_equal(uvhttp_str_to_double(str("1e999"), &value), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp_str_to_double(str("-1e999"), &value), UVHTTP_E_LIMIT);
    assert_true(value == 42);
    assert_int_equal(uvhttp_str_to_double(str("1"), NULL), UVHTTP_E_INVALID);
}

static void test_a_double_has_a_longest_text(void **state) {
    (void)state;
    char digits[UVHTTP_STR_DOUBLE_SIZE_MAX + 1];
    memset(digits, '0', sizeof digits);
    digits[1] = '.';
    double value = 42;
    assert_int_equal(uvhttp_str_to_double((uvhttp_str_t){digits, sizeof digits}, &value), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp_str_to_double((uvhttp_str_t){digits, sizeof digits - 1}, &value), UVHTTP_OK);
    assert_true(value == 0);
}

static void test_the_locale_of_the_process_does_not_matter(void **state) {
    (void)state;
    test_comma_locale_begin();
    expect_double("1.5", 1.5);
    assert_true(strtod("1,5", NULL) == 1.5); /* the thread's locale is as it was */
    test_comma_locale_end();
}

static void test_a_copy_is_terminated(void **state) {
    (void)state;
    char *copy = uvhttp_str_dup((uvhttp_str_t){"a\0bc", 3});
    assert_memory_equal(copy, "a\0b", 4);
    uvhttp_free(copy);
    copy = uvhttp_str_dup((uvhttp_str_t){NULL, 0});
    assert_string_equal(copy, "");
    uvhttp_free(copy);
    uvhttp_free(NULL);
}

static void test_media_types(void **state) {
    (void)state;
    static const char *const good[] = {"application/json",
                                       "Application/JSON",
                                       "application/json; charset=utf-8",
                                       "application/json;charset=utf-8",
                                       " application/json\t; a=\"b;c\"",
                                       "application/json;"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true(uvhttp_media_type_is(str(good[i]), "application/json"));
    static const char *const bad[] = {"application/json5",
                                      "application",
                                      "application/jso",
                                      "text/json",
                                      "application/json, text/html",
                                      "application/json x",
                                      "; application/json",
                                      "",
                                      NULL};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(uvhttp_media_type_is(str(bad[i]), "application/json"));
    assert_false(uvhttp_media_type_is(str(""), ""));
    assert_false(uvhttp_media_type_is(str(NULL), NULL));
    assert_false(uvhttp_media_type_is(str("a/b"), NULL));
    assert_true(uvhttp_media_type_is(str("text/html"), "TEXT/HTML"));
}

int main(void) {
    return RUN_TESTS(test_equal_compares_all_bytes, test_a_text_that_is_null_equals_nothing_but_the_empty_one,
                     test_equal_ci_ignores_the_case_of_ascii_alone, test_starts_with, test_whole_numbers_of_64_bits,
                     test_doubles_are_read_as_json_writes_them, test_a_double_has_a_longest_text,
                     test_the_locale_of_the_process_does_not_matter, test_a_copy_is_terminated, test_media_types);
}
