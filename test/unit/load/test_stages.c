/* Owns: the tests of stages: what they may look like, and when their requests are due. */
#include <cmocka.h>

#include "load/arrivals.h"
#include "load/stages.h"
#include "support/run.h"

enum { MS = 1000000 };

#define S UINT64_C(1000000000)

static load_stages_t parse(const char *text) {
    load_stages_t stages;
    const char *wrong = load_stages_parse(&stages, text);
    if (wrong) fail_msg("%s: %s", text, wrong);
    return stages;
}

static bool is_near(uint64_t ns, uint64_t expected) {
    return ns + 1000 > expected && ns < expected + 1000;
}

static void test_a_ramp_has_as_many_requests_as_its_area(void **state) {
    (void)state;
    load_stages_t stages = parse("10s:1000,30s:5k,10s:0");
    assert_int_equal(stages.count, 3);
    assert_int_equal(stages.duration_ns, 50 * S);
    assert_true(stages.requests > 119999.9 && stages.requests < 120000.1); /* 5000, 90000 and 25000 */
    uint32_t at = 0;
    assert_true(is_near(load_stages_due(&stages, 0, &at), 0));
    assert_true(is_near(load_stages_due(&stages, 1250, &at), 5 * S)); /* a quarter of the area in half of the time */
    assert_true(is_near(load_stages_due(&stages, 5000, &at), 10 * S));
    assert_int_equal(at, 1);
    assert_true(is_near(load_stages_due(&stages, 5000 + 30000, &at), 25 * S));
    assert_true(is_near(load_stages_due(&stages, 95000 + 18750, &at), 45 * S));
    assert_int_equal(at, 2);
    assert_true(load_stages_due(&stages, 120000, &at) == UINT64_MAX);
}

static void test_a_stage_of_no_duration_is_a_step(void **state) {
    (void)state;
    load_stages_t stages = parse("0s:100,1s:100,0s:200,1s:200,0s:0");
    uint32_t at = 0;
    for (int i = 0; i < 100; i++) assert_true(is_near(load_stages_due(&stages, i, &at), (uint64_t)i * 10 * MS));
    for (int i = 0; i < 200; i++)
        assert_true(is_near(load_stages_due(&stages, 100 + i, &at), S + (uint64_t)i * 5 * MS));
    assert_true(load_stages_due(&stages, 300, &at) == UINT64_MAX);
    assert_int_equal(load_stages_find(&stages, 0), 1);
    assert_int_equal(load_stages_find(&stages, S - 1), 1);
    assert_int_equal(load_stages_find(&stages, S), 3);
    assert_int_equal(load_stages_find(&stages, 9 * S), 3);
}

static void test_shares_together_are_the_whole(void **state) {
    (void)state;
    load_stages_t stages = parse("1s:100,1s:0");
    uint32_t at = 0;
    load_arrivals_t parts[3];
    for (uint32_t i = 0; i < 3; i++) load_arrivals_init_stages(&parts[i], 7 * S, &stages, i, 3, false, 1);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(parts[i % 3].next_ns, 7 * S + load_stages_due(&stages, i, &at));
        load_arrivals_take(&parts[i % 3]);
    }
    for (uint32_t i = 0; i < 3; i++) assert_true(parts[i].next_ns == UINT64_MAX);
}

static void test_poisson_stages_have_about_the_area_and_a_seed_repeats_them(void **state) {
    (void)state;
    load_stages_t stages = parse("1s:10000,1s:10000");
    load_arrivals_t one, same;
    load_arrivals_init_stages(&one, 0, &stages, 0, 1, true, 42);
    load_arrivals_init_stages(&same, 0, &stages, 0, 1, true, 42);
    uint32_t first = 0, count = 0;
    uint64_t before = 0;
    while (one.next_ns != UINT64_MAX) {
        assert_int_equal(one.next_ns, same.next_ns);
        assert_true(one.next_ns >= before);
        before = one.next_ns;
        first += one.next_ns < S;
        count++;
        load_arrivals_take(&one);
        load_arrivals_take(&same);
    }
    assert_true(count > 14400 && count < 15600); /* 15000 and five standard deviations */
    assert_true(first > 4600 && first < 5400);
}

static void test_what_are_no_stages_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",      "10s",           "10s:",    ":5",        "10s:x",   "10s:-5",
                                        "x:5",   "1s:1,",         "1s:1,,1", "1s:1;2s:2", "10s:nan", "10s:0",
                                        "0s:50", "1s:99999999999"};
    load_stages_t stages;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!load_stages_parse(&stages, wrong[i])) fail_msg("accepted: %s", wrong[i]);
}

int main(void) {
    return RUN_TESTS(test_a_ramp_has_as_many_requests_as_its_area, test_a_stage_of_no_duration_is_a_step,
                     test_shares_together_are_the_whole,
                     test_poisson_stages_have_about_the_area_and_a_seed_repeats_them,
                     test_what_are_no_stages_is_refused);
}
