/* Owns: the tests of the comparison: its intervals, and the JSON that it reads. */
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "load/compare.h"
#include "load/json_read.h"
#include "support/run.h"

enum { COUNT = 20 };

/* Values around `mean` that differ by up to `spread`, without a trend. */
static void fill(double values[COUNT], double mean, double spread, unsigned seed) {
    for (unsigned i = 0; i < COUNT; i++) {
        seed = seed * 1103515245 + 12345;
        values[i] = mean * (1 + spread * ((double)(seed >> 16 & 1023) / 511.5 - 1));
    }
}

static void test_equal_series_tie_and_different_ones_do_not(void **state) {
    (void)state;
    double a[COUNT], b[COUNT];
    unsigned ties = 0;
    for (unsigned seed = 1; seed <= 100; seed++) {
        fill(a, 1000, 0.05, seed);
        fill(b, 1000, 0.05, seed + 1000);
        load_ratio_t same = load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, COUNT);
        assert_true(same.has_interval && same.low < same.ratio && same.ratio < same.high);
        ties += same.low <= 1 && same.high >= 1;
        fill(b, 900, 0.05, seed + 1000);
        load_ratio_t lower = load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, COUNT);
        assert_true(lower.high < 1 && lower.ratio > 0.87 && lower.ratio < 0.93);
    }
    assert_true(ties >= 88); /* of 95 */
}

static void test_samples_that_follow_each_other_count_for_less(void **state) {
    (void)state;
    double a[COUNT], b[COUNT], sorted[COUNT];
    fill(a, 1000, 0.05, 1);
    for (unsigned i = 0; i < COUNT; i++) b[i] = 950 + 5 * (i * 7 % COUNT);
    for (unsigned i = 0; i < COUNT; i++) sorted[i] = 950 + 5 * i; /* the same values, as a trend */
    load_ratio_t mixed = load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, COUNT),
                 trend = load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, sorted, COUNT);
    assert_true(trend.high - trend.low > 1.5 * (mixed.high - mixed.low));
}

static void test_few_samples_have_no_interval(void **state) {
    (void)state;
    double a[COUNT], b[COUNT];
    fill(a, 1000, 0.05, 1);
    fill(b, 500, 0.05, 2);
    assert_false(load_ratio_of(LOAD_SAMPLES_TIMES, a, LOAD_COMPARED_SAMPLES_MIN - 1, b, COUNT).has_interval);
    assert_false(load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, 0).has_interval);
    assert_true(
        load_ratio_of(LOAD_SAMPLES_TIMES, a, LOAD_COMPARED_SAMPLES_MIN, b, LOAD_COMPARED_SAMPLES_MIN).has_interval);
    b[0] = b[1] = 0; /* a second without a response */
    assert_false(load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, LOAD_COMPARED_SAMPLES_MIN).has_interval);
    for (unsigned i = 0; i < COUNT; i++) a[i] = b[i] = 7;
    load_ratio_t same = load_ratio_of(LOAD_SAMPLES_TIMES, a, COUNT, b, COUNT);
    assert_true(same.low <= 1 && same.high >= 1);
}

/* Half of the seconds without a response are half of the rate, however steady the other half is. */
static void test_the_interval_of_a_handful_of_samples_is_that_of_student(void **state) {
    (void)state;
    static const double reach = 0.10266; /* 9.504 times the error: the 97.5 % quantile of 1.14 degrees of freedom */
    double a[LOAD_COMPARED_SAMPLES_MIN], b[LOAD_COMPARED_SAMPLES_MIN];
    for (unsigned i = 0; i < LOAD_COMPARED_SAMPLES_MIN; i++) {
        a[i] = 1;
        b[i] = exp(0.01 * i); /* a trend counts as 2.14 samples that do not follow each other */
    }
    load_ratio_t ratio = load_ratio_of(LOAD_SAMPLES_TIMES, a, LOAD_COMPARED_SAMPLES_MIN, b, LOAD_COMPARED_SAMPLES_MIN);
    assert_float_equal(ratio.ratio, exp(0.02), 1e-9);
    assert_float_equal(log(ratio.high / ratio.ratio), reach, 0.01 * reach);
    assert_float_equal(log(ratio.ratio / ratio.low), reach, 0.01 * reach);
}

static void test_seconds_without_a_response_lower_the_rate(void **state) {
    (void)state;
    double a[COUNT], b[COUNT], none[COUNT] = {0};
    fill(a, 1000, 0.05, 1);
    fill(b, 1000, 0.05, 2);
    for (unsigned i = 0; i < COUNT; i += 2) b[i] = 0;
    load_ratio_t stalls = load_ratio_of(LOAD_SAMPLES_RATES, a, COUNT, b, COUNT);
    assert_true(stalls.has_interval && stalls.ratio > 0.45 && stalls.ratio < 0.55 && stalls.high < 1);
    load_ratio_t silent = load_ratio_of(LOAD_SAMPLES_RATES, a, COUNT, none, COUNT);
    assert_true(silent.has_interval && silent.ratio <= 0 && silent.high <= 0);
    assert_true(load_ratio_of(LOAD_SAMPLES_RATES, none, COUNT, a, COUNT).low > 1);
    assert_false(load_ratio_of(LOAD_SAMPLES_RATES, none, COUNT, none, COUNT).has_interval);
    fill(b, 900, 0.05, 3);
    load_ratio_t lower = load_ratio_of(LOAD_SAMPLES_RATES, a, COUNT, b, COUNT);
    assert_true(lower.low < lower.ratio && lower.ratio < lower.high && lower.high < 1);
    assert_true(lower.ratio > 0.87 && lower.ratio < 0.93);
}

static void test_values_are_found_by_their_path(void **state) {
    (void)state;
    static const char text[] =
        " {\"a\": {\"b\": -1.5e3 , \"c\": [ {\"d\": 1}, {\"d\" :2} ]},\n \"e\\\"\": null, \"f\": [], "
        "\"g\": \"x\", \"h\": {}}";
    double number;
    assert_ptr_equal(load_json_skip(text), text + strlen(text));
    assert_true(load_json_number(text, "a.b", &number) && number > -1501 && number < -1499);
    const char *first = load_json_first(load_json_find(text, "a.c")), *second = load_json_next(first);
    assert_true(load_json_number(first, "d", &number) && number < 1.5);
    assert_true(load_json_number(second, "d", &number) && number > 1.5);
    assert_null(load_json_next(second));
    assert_null(load_json_first(load_json_find(text, "f")));
    assert_null(load_json_find(text, "a.x"));
    assert_null(load_json_find(text, "g.x"));
    assert_null(load_json_find(text, "h.x"));
    assert_false(load_json_number(text, "g", &number));
    assert_false(load_json_number(text, "a", &number));
}

static void test_malformed_json_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",      "{",     "[",        "\"x", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
                                        "[1 2]", "{a:1}", "{\"a\":1", "[1,", "\"\\",    "{\"a\" 1}"};
    char deep[101];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (load_json_skip(wrong[i])) fail_msg("accepted: %s", wrong[i]);
    memset(deep, '[', 100);
    deep[100] = '\0';
    assert_null(load_json_skip(deep));
}

int main(void) {
    return RUN_TESTS(test_equal_series_tie_and_different_ones_do_not,
                     test_samples_that_follow_each_other_count_for_less, test_few_samples_have_no_interval,
                     test_the_interval_of_a_handful_of_samples_is_that_of_student,
                     test_seconds_without_a_response_lower_the_rate, test_values_are_found_by_their_path,
                     test_malformed_json_is_refused);
}
