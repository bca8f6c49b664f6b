/* Owns: exhaustive checks of decimal numbers of 64 bits, read and written: what Content-Length of HTTP/2 and of
 * responses goes through. All texts of up to four bytes of digits and what stands next to them, and the numbers around
 * each power of two and of ten, beyond 64 bits too: a step overflows at one of these or nowhere. Against arithmetic in
 * 128 bits. */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/error.h>

#include "base/str.h"
#include "support/boundaries.h"
#include "support/run.h"

static void expect_read(const char *text, size_t size) {
    uint64_t value = 0;
    wide_t expected = 0;
    bool good = size > 0;
    for (size_t i = 0; i < size; i++) {
        good = good && text[i] >= '0' && text[i] <= '9';
        if (good && expected <= UINT64_MAX) expected = expected * 10 + (unsigned)(text[i] - '0');
    }
    good = good && expected <= UINT64_MAX;
    assert_int_equal(uvhttp__str_parse_u64((uvhttp_str_t){text, size}, &value) == UVHTTP_OK, good);
    assert_true(value == (good ? expected : 0)); /* left alone on failure */
}

static void expect_written(uint64_t value) {
    char out[UVHTTP__DECIMAL_MAX], expected[WIDE_TEXT_MAX];
    size_t size = wide_print_decimal(value, expected);
    assert_true(size <= sizeof out);
    assert_int_equal(uvhttp__write_decimal(out, value), size);
    assert_memory_equal(out, expected, size);
}

static void test_every_short_text(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789 +-/:,.xa\xb2";
    enum { LETTERS = sizeof alphabet }; /* with its NUL */
    for (size_t size = 0, count = 1; size <= 4; size++, count *= LETTERS) {
        for (size_t n = 0; n < count; n++) {
            char text[4];
            for (size_t i = 0, rest = n; i < size; i++, rest /= LETTERS) text[i] = alphabet[rest % LETTERS];
            expect_read(text, size);
        }
    }
}

static void test_numbers_around_each_power(void **state) {
    (void)state;
    static boundaries_t numbers;
    for (unsigned base = 2; base <= 10; base += 8) {
        boundaries_of(base, (wide_t)1 << 80, &numbers);
        for (size_t i = 0; i < numbers.count; i++) {
            for (int zeros = 0; zeros <= 24; zeros++) {
                char text[128], number[WIDE_TEXT_MAX];
                wide_print_decimal(numbers.values[i], number);
                int size = snprintf(text, sizeof text, "%.*s%s", zeros, "000000000000000000000000", number);
                expect_read(text, (size_t)size);
            }
            if (numbers.values[i] <= UINT64_MAX) expect_written((uint64_t)numbers.values[i]);
        }
    }
    for (uint64_t value = 0; value < 1 << 20; value++) expect_written(value);
}

int main(void) {
    return RUN_TESTS(test_every_short_text, test_numbers_around_each_power);
}
