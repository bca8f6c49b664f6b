/* Dates of HTTP, written and read. */
#include "base/date.h"
#include "support/run.h"

#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* xorshift64: the same numbers everywhere. */
static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void expect_date(int64_t seconds) {
    char out[UVHTTP__DATE_SIZE + 1], expected[64];
    struct tm tm;
    time_t time = (time_t)seconds;
    out[UVHTTP__DATE_SIZE] = 'x';
    uvhttp__date_write(out, seconds);
    assert_true(out[UVHTTP__DATE_SIZE] == 'x');
    assert_non_null(gmtime_r(&time, &tm));
    /* strftime pads no year before 1000. */
    char format[64];
    snprintf(format, sizeof format, "%%a, %%d %%b %04d %%H:%%M:%%S GMT", tm.tm_year + 1900);
    assert_int_equal(strftime(expected, sizeof expected, format, &tm), UVHTTP__DATE_SIZE);
    if (memcmp(out, expected, UVHTTP__DATE_SIZE) != 0)
        fail_msg("%" PRId64 ": expected %s, got %.29s", seconds, expected, out);
}

static void test_date_against_strftime_forevery_day_of_ten_thousand_years(void **state) {
    (void)state;
    const int64_t first = INT64_C(-62167219200), last = INT64_C(253402300799);
    for (int64_t day = first; day < last; day += 86400) expect_date(day + (day / 86400 % 86400 + 86400) % 86400);
    uint64_t seed = 7;
    for (int i = 0; i < 200000; ++i) expect_date(first + (int64_t)(random_next(&seed) % (uint64_t)(last - first + 1)));
    for (int64_t second = 1709164800 - 86400; second < 1709164800 + 2 * 86400; second += 7) expect_date(second);
    for (int64_t second = -100; second < 100; ++second) expect_date(second);
}

static void test_date_out_of_range_is_the_nearest_in_range(void **state) {
    (void)state;
    char out[UVHTTP__DATE_SIZE];
    uvhttp__date_write(out, INT64_MAX);
    assert_memory_equal(out, "Fri, 31 Dec 9999 23:59:59 GMT", sizeof out);
    uvhttp__date_write(out, INT64_MIN);
    assert_memory_equal(out, "Sat, 01 Jan 0000 00:00:00 GMT", sizeof out);
    uvhttp__date_write(out, 784111777);
    assert_memory_equal(out, "Sun, 06 Nov 1994 08:49:37 GMT", sizeof out); /* the example of RFC 9110 */
}

#define NOW INT64_C(1790000000) /* 2026 */

static void expect_read(const char *text, int64_t expected) {
    int64_t seconds = -1;
    assert_true(uvhttp__date_parse((uvhttp_str_t){text, strlen(text)}, NOW, &seconds));
    assert_int_equal(seconds, expected);
}

static void test_the_three_forms_are_read(void **state) {
    (void)state;
    expect_read("Sun, 06 Nov 1994 08:49:37 GMT", 784111777);
    expect_read("Sunday, 06-Nov-94 08:49:37 GMT", 784111777);
    expect_read("Sun Nov  6 08:49:37 1994", 784111777);
    expect_read("Wednesday, 31-Dec-75 23:59:59 GMT", 3345062399); /* 2075: 49 years ahead */
    expect_read("Friday, 31-Dec-77 23:59:59 GMT", 252460799);     /* 1977: 2077 is 51 years ahead */
    expect_read("Thu, 29 Feb 2024 00:00:00 GMT", 1709164800);
    expect_read("Sat Feb 29 00:00:00 2020", 1582934400);
}

static void test_what_is_written_can_be_read(void **state) {
    (void)state;
    uint64_t seed = 3;
    const int64_t first = INT64_C(-62167219200), last = INT64_C(253402300799);
    for (int i = 0; i < 100000; ++i) {
        int64_t seconds = first + (int64_t)(random_next(&seed) % (uint64_t)(last - first + 1)), again;
        char out[UVHTTP__DATE_SIZE];
        uvhttp__date_write(out, seconds);
        assert_true(uvhttp__date_parse((uvhttp_str_t){out, sizeof out}, NOW, &again));
        assert_int_equal(again, seconds);
    }
}

static void test_what_is_no_date_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "Sun",
                                        "Sun, ",
                                        "yesterday",
                                        "0",
                                        "784111777",
                                        "sun, 06 nov 1994 08:49:37 gmt",
                                        "Sun, 6 Nov 1994 08:49:37 GMT",
                                        "Sun, 06 Nov 1994 08:49:37",
                                        "Sun, 06 Nov 1994 08:49:37 UTC",
                                        "Sun, 06 Nov 1994 08:49:37 GMT ",
                                        "Sun, 06 Nov 1994 24:00:00 GMT",
                                        "Sun, 06 Nov 1994 08:60:00 GMT",
                                        "Sun, 06 Nov 1994 08:49:61 GMT",
                                        "Sunday 06-Nov-94 08:49:37 GMT",
                                        "Sunday,06-Nov-94 08:49:37 GMT",
                                        "Sunday, 06-Nov-94 08:49:37 GMT ",
                                        "Sun Nov  6 08:49:37 1994 ",
                                        "Sun, 31 Jun 1994 08:49:37 GMT",
                                        "Sun, 00 Nov 1994 08:49:37 GMT",
                                        "Wed, 29 Feb 2023 00:00:00 GMT",
                                        "Sun, 06 Foo 1994 08:49:37 GMT",
                                        "Sun, 06-Nov-1994 08:49:37 GMT",
                                        "Sunday, 06 Nov 1994 08:49:37 GMT",
                                        "Sun Nov 6 08:49:37 1994",
                                        "Sun Nov  6 08:49:37 94",
                                        "Sun, 06 Nov 199 08:49:37 GMT"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t seconds = 5;
        size_t size = strlen(wrong[i]);
        char *exact = malloc(size + 1); /* the sanitizer sees who reads on */
        memcpy(exact, wrong[i], size);
        if (uvhttp__date_parse((uvhttp_str_t){exact, size}, NOW, &seconds)) fail_msg("taken: %s", wrong[i]);
        assert_int_equal(seconds, 5);
        free(exact);
    }
}

/* Each form cut at every place, and with each of its bytes replaced. */
static void test_a_date_with_a_byte_that_is_another_is_none(void **state) {
    (void)state;
    static const char *const dates[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                                        "Sun Nov  6 08:49:37 1994", "Sun Nov 16 08:49:37 1994"};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        char text[40];
        size_t size = strlen(dates[i]);
        int64_t seconds;
        for (size_t cut = 0; cut < size; cut++)
            assert_false(uvhttp__date_parse((uvhttp_str_t){dates[i], cut}, NOW, &seconds));
        for (size_t at = 0; at < size; at++) {
            if (strncmp(dates[i] + at, "day,", 4) == 0) at += 3; /* only the start of a long name is looked at */
            for (const char *other = "/:!"; *other; other++) {
                memcpy(text, dates[i], size);
                if (text[at] == *other) continue;
                text[at] = *other;
                if (uvhttp__date_parse((uvhttp_str_t){text, size}, NOW, &seconds)) fail_msg("%.*s", (int)size, text);
            }
        }
    }
    expect_read("Tue, 30 Jun 2015 23:59:60 GMT", 1435708800); /* a leap second */
}

int main(void) {
    return RUN_TESTS(test_date_against_strftime_forevery_day_of_ten_thousand_years,
                     test_date_out_of_range_is_the_nearest_in_range, test_the_three_forms_are_read,
                     test_what_is_written_can_be_read, test_what_is_no_date_is_refused,
                     test_a_date_with_a_byte_that_is_another_is_none);
}
