/* Owns: the tests of the search for the capacity: which rates it measures. */
#include <cmocka.h>

#include "load/capacity.h"
#include "support/run.h"

/* A server that meets the objectives up to this rate. Returns what the search finds. */
static load_search_t find(double first, double capacity) {
    load_search_t search = {.rate = first};
    for (;;) {
        load_probe_t probe = {.rate = search.rate, .met = search.rate <= capacity, .generator_limited = true};
        if (!load_search_add(&search, &probe)) return search;
    }
}

static void test_a_capacity_is_found_within_the_precision_from_below(void **state) {
    (void)state;
    for (double capacity = 3; capacity < 3e6; capacity *= 1.7) {
        load_search_t search = find(1000, capacity);
        assert_true(search.met <= capacity && capacity < search.missed);
        assert_true(search.missed <= search.met * (1 + LOAD_CAPACITY_PRECISION));
        assert_true(search.probes < 25);
        assert_true(search.generator_limited); /* as the lowest that missed was */
    }
}

static void test_a_server_that_meets_nothing_or_everything_ends_the_search(void **state) {
    (void)state;
    load_search_t search = find(1000, 0);
    assert_true(search.met <= 0 && search.probes < LOAD_PROBES_MAX);
    search = find(1000, 1e300);
    assert_true(search.missed <= 0 && search.met > 5e7 && search.probes < LOAD_PROBES_MAX);
}

int main(void) {
    return RUN_TESTS(test_a_capacity_is_found_within_the_precision_from_below,
                     test_a_server_that_meets_nothing_or_everything_ends_the_search);
}
