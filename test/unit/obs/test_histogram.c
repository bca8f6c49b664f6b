#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "obs/histogram.h"
#include "support/random.h"

static uvhttp__histogram_t histogram, other;

static int setup(void **state) {
    (void)state;
    uvhttp__histogram_init(&histogram);
    uvhttp__histogram_init(&other);
    return 0;
}

static void expect_near(double value, double expected, double relative) {
    double distance = value > expected ? value - expected : expected - value;
    if (distance > expected * relative) fail_msg("%f is not within %f of %f", value, relative, expected);
}

static void test_empty_histogram_returns_zero(void **state) {
    (void)state;
    assert_int_equal(uvhttp__histogram_count(&histogram), 0);
    assert_int_equal(uvhttp__histogram_min(&histogram), 0);
    assert_int_equal(uvhttp__histogram_max(&histogram), 0);
    assert_true(uvhttp__histogram_mean(&histogram) == 0);
    assert_true(uvhttp__histogram_stdev(&histogram) == 0);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 50), 0);
}

static void test_buckets_cover_all_values_without_gap(void **state) {
    (void)state;
    assert_int_equal(uvhttp__histogram_low(0), 0);
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t low = uvhttp__histogram_low(i), high = uvhttp__histogram_high(i);
        assert_true(low <= high);
        assert_int_equal(uvhttp__histogram_index(low), i);
        assert_int_equal(uvhttp__histogram_index(high), i);
        assert_true((high - low) * 32 <= low || high == low);
        if (i + 1 < UVHTTP__HISTOGRAM_BUCKETS) assert_true(uvhttp__histogram_low(i + 1) == high + 1);
    }
    assert_true(uvhttp__histogram_high(UVHTTP__HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
}

static void test_small_values_are_exact(void **state) {
    (void)state;
    for (uint64_t v = 0; v < 64; v++) uvhttp__histogram_record(&histogram, v);
    for (unsigned i = 1; i <= 64; i++)
        assert_int_equal(uvhttp__histogram_percentile(&histogram, 100.0 * i / 64), i - 1);
}

static void test_extremes_and_zero_are_recorded(void **state) {
    (void)state;
    uvhttp__histogram_record(&histogram, 0);
    assert_int_equal(uvhttp__histogram_count(&histogram), 1);
    assert_int_equal(uvhttp__histogram_min(&histogram), 0);
    uvhttp__histogram_record(&histogram, UINT64_MAX);
    assert_true(uvhttp__histogram_max(&histogram) == UINT64_MAX);
    assert_true(uvhttp__histogram_percentile(&histogram, 100) == UINT64_MAX);
    uvhttp__histogram_init(&histogram);
    uvhttp__histogram_record(&histogram, UINT64_MAX);
    assert_true(uvhttp__histogram_min(&histogram) == UINT64_MAX);
    assert_int_equal(uvhttp__histogram_count(&histogram), 1);
}

static void test_record_n_counts_n_times_and_zero_times_nothing(void **state) {
    (void)state;
    uvhttp__histogram_record_n(&histogram, 1000, 5);
    uvhttp__histogram_record_n(&histogram, 1, 0);
    assert_int_equal(uvhttp__histogram_count(&histogram), 5);
    assert_int_equal(uvhttp__histogram_min(&histogram), 1000);
    assert_true(uvhttp__histogram_mean(&histogram) == 1000);
}

static void test_percentile_counts_by_nearest_rank(void **state) {
    (void)state;
    for (int i = 0; i < 999; i++) uvhttp__histogram_record(&histogram, 10);
    uvhttp__histogram_record(&histogram, 50);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 0), 10);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 99.9), 10);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 99.91), 50);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 100), 50);
}

static void test_percentile_stays_within_min_and_max(void **state) {
    (void)state;
    uvhttp__histogram_record(&histogram, 1000003);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 50), 1000003);
    assert_int_equal(uvhttp__histogram_percentile(&histogram, 0.001), 1000003);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void test_figures_agree_with_sorted_values(void **state) {
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    static const double percents[] = {0, 0.1, 1, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100};
    for (uint64_t seed = 1; seed <= 5; seed++) {
        test_random_t random = {seed};
        uvhttp__histogram_init(&histogram);
        double sum = 0, squares = 0;
        for (int i = 0; i < COUNT; i++) { /* from 1 us to 60 s, as many in each power of two */
            uint64_t range = UINT64_C(1) << (10 + test_random_below(&random, 26));
            values[i] = 1000 + test_random_below(&random, range);
            uvhttp__histogram_record(&histogram, values[i]);
            sum += (double)values[i];
        }
        for (int i = 0; i < COUNT; i++) {
            double distance = (double)values[i] - sum / COUNT;
            squares += distance * distance;
        }
        qsort(values, COUNT, sizeof *values, compare);
        for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
            double exact = percents[i] / 100 * COUNT;
            int rank = (int)(exact + 0.999999);
            uint64_t expected = values[rank < 1 ? 0 : rank - 1];
            expect_near((double)uvhttp__histogram_percentile(&histogram, percents[i]), (double)expected, 1.0 / 64);
        }
        assert_int_equal(uvhttp__histogram_count(&histogram), COUNT);
        assert_int_equal(uvhttp__histogram_min(&histogram), values[0]);
        assert_int_equal(uvhttp__histogram_max(&histogram), values[COUNT - 1]);
        expect_near(uvhttp__histogram_mean(&histogram), sum / COUNT, 1e-9);
        double stdev = uvhttp__histogram_stdev(&histogram);
        expect_near(stdev * stdev, squares / COUNT, 0.02);
    }
}

static void test_merge_is_as_if_all_were_recorded_in_one(void **state) {
    (void)state;
    static uvhttp__histogram_t together;
    uvhttp__histogram_init(&together);
    test_random_t random = {9};
    for (int i = 0; i < 10000; i++) {
        uint64_t value = test_random_next(&random) >> test_random_below(&random, 60);
        uvhttp__histogram_record(i % 3 ? &histogram : &other, value);
        uvhttp__histogram_record(&together, value);
    }
    static uvhttp__histogram_t empty;
    uvhttp__histogram_init(&empty);
    uvhttp__histogram_merge(&histogram, &other);
    uvhttp__histogram_merge(&histogram, &empty);
    uvhttp__histogram_merge(&empty, &histogram);
    assert_int_equal(uvhttp__histogram_count(&empty), 10000);
    assert_memory_equal(&empty, &together, sizeof together);
}

enum { ROUNDS = 200000 };
static atomic_bool done;

static void *record_many(void *arg) {
    (void)arg;
    for (uint64_t i = 0; i < ROUNDS; i++) uvhttp__histogram_record(&histogram, 1000 + i % 5000);
    atomic_store(&done, true);
    return NULL;
}

static void test_snapshot_of_another_thread_is_consistent(void **state) {
    (void)state;
    pthread_t thread;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&thread, NULL, record_many, NULL), 0);
    uint64_t last = 0;
    static uvhttp__histogram_t snapshot;
    while (!atomic_load(&done)) {
        uvhttp__histogram_init(&snapshot);
        uvhttp__histogram_merge(&snapshot, &histogram);
        uint64_t count = uvhttp__histogram_count(&snapshot);
        assert_true(count >= last && count <= ROUNDS);
        last = count;
        uint64_t median = uvhttp__histogram_percentile(&snapshot, 50);
        if (count) assert_true(median >= 1000 && median < 6000);
    }
    pthread_join(thread, NULL);
    assert_int_equal(uvhttp__histogram_count(&histogram), ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_empty_histogram_returns_zero, setup),
        cmocka_unit_test_setup(test_buckets_cover_all_values_without_gap, setup),
        cmocka_unit_test_setup(test_small_values_are_exact, setup),
        cmocka_unit_test_setup(test_extremes_and_zero_are_recorded, setup),
        cmocka_unit_test_setup(test_record_n_counts_n_times_and_zero_times_nothing, setup),
        cmocka_unit_test_setup(test_percentile_counts_by_nearest_rank, setup),
        cmocka_unit_test_setup(test_percentile_stays_within_min_and_max, setup),
        cmocka_unit_test_setup(test_figures_agree_with_sorted_values, setup),
        cmocka_unit_test_setup(test_merge_is_as_if_all_were_recorded_in_one, setup),
        cmocka_unit_test_setup(test_snapshot_of_another_thread_is_consistent, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
