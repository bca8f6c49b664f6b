/* Owns: the tests of when a server has warmed up. */
#include <cmocka.h>

#include "load/steady.h"
#include "support/run.h"

enum { MS = 1000000 };

/* So many slices of 100 answers each, whose latency grows by `growth` from slice to slice. Returns the first, from 1
 * on, with which it was steady; 0: none. */
static uint32_t first_steady(uint32_t slices, double latency_ns, double growth) {
    load_steady_t steady = {0};
    uint64_t responses = 0, sum_ns = 0;
    for (uint32_t i = 1; i <= slices; i++, latency_ns *= growth) {
        responses += 100;
        sum_ns += (uint64_t)(100 * latency_ns);
        if (load_steady_add(&steady, responses, sum_ns)) return i;
    }
    return 0;
}

static void test_a_steady_server_is_known_after_ten_slices(void **state) {
    (void)state;
    assert_int_equal(first_steady(30, MS, 1), LOAD_STEADY_SLICES);
    assert_int_equal(first_steady(30, MS, 1.009), LOAD_STEADY_SLICES); /* 4.4 % in five slices */
}

static void test_a_server_that_gets_slower_or_faster_is_not_steady(void **state) {
    (void)state;
    assert_int_equal(first_steady(300, MS, 1.012), 0); /* 5.8 % in five slices */
    assert_int_equal(first_steady(300, MS * 1e6, 1 / 1.012), 0);
}

static void test_what_came_before_the_newest_slices_is_forgotten(void **state) {
    (void)state;
    load_steady_t steady = {0};
    uint64_t responses = 0, sum_ns = 0;
    for (uint32_t i = 1; i <= 40; i++) {
        responses += 100;
        sum_ns += UINT64_C(100) * (i <= 15 ? (30 - i) * (30 - i) : 100) * MS;
        assert_int_equal(load_steady_add(&steady, responses, sum_ns), i >= 25);
    }
    assert_true(steady.apart < 1e-9);
    assert_int_equal(steady.slices, 40);
}

static void test_a_server_that_does_not_respond_is_not_steady(void **state) {
    (void)state;
    load_steady_t steady = {0};
    for (uint32_t i = 0; i < 20; i++) assert_false(load_steady_add(&steady, 0, 0));
    for (uint64_t i = 1; i <= 5; i++) assert_false(load_steady_add(&steady, i, i * MS)); /* the older half has none */
    assert_true(steady.apart >= 1);
    assert_true(load_steady_add(&steady, 6, 6 * MS));
}

static void test_few_responses_in_some_slices_are_enough(void **state) {
    (void)state;
    load_steady_t steady = {0};
    uint64_t responses = 0;
    bool is_steady = false;
    for (uint32_t i = 1; i <= LOAD_STEADY_SLICES; i++) { /* an answer after 200 ms, in every other slice */
        responses += i % 2 == 0;
        is_steady = load_steady_add(&steady, responses, responses * 200 * MS);
    }
    assert_true(is_steady);
}

int main(void) {
    return RUN_TESTS(test_a_steady_server_is_known_after_ten_slices,
                     test_a_server_that_gets_slower_or_faster_is_not_steady,
                     test_what_came_before_the_newest_slices_is_forgotten,
                     test_a_server_that_does_not_respond_is_not_steady, test_few_responses_in_some_slices_are_enough);
}
