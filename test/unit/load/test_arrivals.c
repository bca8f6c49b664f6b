/* Owns: tests of when the requests of an open loop are due. */
#include <cmocka.h>
#include <string.h>

#include "load/arrivals.h"
#include "support/run.h"

enum { COUNT = 100000 };

static void test_constant_shares_are_evenly_spaced_together(void **state) {
    (void)state;
    load_arrivals_t shares[3];
    for (uint32_t i = 0; i < 3; i++) load_arrivals_init(&shares[i], 1000, 3e6, i, 3, false, 1);
    uint64_t before = 1000;
    for (int i = 0; i < COUNT; i++) {
        load_arrivals_t *next = &shares[i % 3];
        uint64_t gap = next->next_ns - before;
        if (i == 0)
            assert_int_equal(gap, 0);
        else
            assert_in_range(gap, 333, 334);
        before = next->next_ns;
        load_arrivals_take(next);
    }
    /* Nothing has added up. */
    assert_in_range(shares[0].next_ns, 1000 + COUNT / 3 * 1000, 1000 + COUNT / 3 * 1000 + 1000);
}

static void test_poisson_gaps_have_the_mean_and_spread_of_an_exponential(void **state) {
    (void)state;
    load_arrivals_t arrivals;
    load_arrivals_init(&arrivals, 0, 1e6, 1, 4, true, 42); /* a quarter of a million a second: 4 us */
    double sum = 0, squares = 0;
    uint64_t before = 0, shorter = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(arrivals.next_ns >= before);
        double gap = (double)(arrivals.next_ns - before);
        sum += gap;
        squares += gap * gap;
        shorter += gap < 4000;
        before = arrivals.next_ns;
        load_arrivals_take(&arrivals);
    }
    double mean = sum / COUNT, variance = squares / COUNT - mean * mean;
    assert_true(mean > 3950 && mean < 4050);
    assert_true(variance > 4000.0 * 4000.0 * 0.96 && variance < 4000.0 * 4000.0 * 1.04);
    assert_in_range(shorter, (uint64_t)(COUNT * 0.625), (uint64_t)(COUNT * 0.64)); /* 1 - 1/e */
}

static void test_a_seed_gives_the_same_arrivals_again_and_another_gives_others(void **state) {
    (void)state;
    load_arrivals_t a, b, other_seed, other_share;
    load_arrivals_init(&a, 7, 1000, 0, 2, true, 5);
    load_arrivals_init(&b, 7, 1000, 0, 2, true, 5);
    load_arrivals_init(&other_seed, 7, 1000, 0, 2, true, 6);
    load_arrivals_init(&other_share, 7, 1000, 1, 2, true, 5);
    int same_seed = 0, same_share = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(a.next_ns, b.next_ns);
        same_seed += a.next_ns == other_seed.next_ns;
        same_share += a.next_ns == other_share.next_ns;
        load_arrivals_take(&a);
        load_arrivals_take(&b);
        load_arrivals_take(&other_seed);
        load_arrivals_take(&other_share);
    }
    assert_true(same_seed < 5 && same_share < 5);
}

int main(void) {
    return RUN_TESTS(test_constant_shares_are_evenly_spaced_together,
                     test_poisson_gaps_have_the_mean_and_spread_of_an_exponential,
                     test_a_seed_gives_the_same_arrivals_again_and_another_gives_others);
}
