/* Owns: the tests of objectives: what they may look like, and when a result meets them. */
#include <cmocka.h>
#include <string.h>

#include "load/slo.h"
#include "load/stats.h"
#include "support/run.h"

enum { MS = 1000000 };

static load_stats_t stats;

/* 1 to 100 ms, so that P99 is 99 ms within the histogram's 1.6 %. */
static void set_stats(void) {
    load_stats_init(&stats);
    for (uint64_t i = 1; i <= 100; i++) uvhttp__histogram_record(&stats.latency, i * MS);
    stats.requests = stats.responses = stats.responses_total = 100;
}

static bool met(const char *text) {
    load_slo_t slo;
    const char *wrong = load_slo_parse(&slo, text);
    if (wrong) fail_msg("%s: %s", text, wrong);
    return load_slo_met(&slo, &stats, 2);
}

static void test_each_metric_is_judged_in_its_unit(void **state) {
    (void)state;
    set_stats();
    assert_true(met("p99<110ms,p50<60ms,p99.9<1s,mean<51ms,max<101ms,errors<1,errors<0.1%,rate>49"));
    assert_false(met("p99<90ms"));
    assert_false(met("p50<40ms"));
    assert_false(met("mean<50ms"));
    assert_false(met("max<100ms")); /* less, not as much */
    assert_false(met("rate>50"));
    assert_false(met("p50<60ms,p99<90ms")); /* all of them */
}

static void test_errors_are_a_number_or_a_share_of_what_was_tried(void **state) {
    (void)state;
    set_stats();
    load_stats_error(&stats, LOAD_ERROR_status, 1, "of the 100 responses");
    assert_true(met("errors<2,errors<1.1%"));
    assert_false(met("errors<1"));
    assert_false(met("errors<1%"));
    load_stats_error(&stats, LOAD_ERROR_timeout, 100, "beyond the 100 responses");
    assert_true(met("errors<51%"));
    assert_false(met("errors<50%"));
}

/* Errors count from the first connection on, and so do the responses that they are a share of. */
static void test_errors_of_the_warm_up_are_a_share_of_its_responses_too(void **state) {
    (void)state;
    set_stats();
    stats.responses_total = 1000; /* 900 of them before the window */
    load_stats_error(&stats, LOAD_ERROR_status, 100, "a tenth, before the window and in it");
    assert_true(met("errors<10.1%"));
    assert_false(met("errors<10%"));
}

/* GOAWAY brings words of the server, which the text shows. */
static void test_the_words_of_a_server_do_not_control_the_terminal(void **state) {
    (void)state;
    load_stats_init(&stats);
    load_stats_error(&stats, LOAD_ERROR_reset, 1, "GOAWAY: %s",
                     "\033[2Jno\nmore\x9b"
                     "1m");
    assert_string_equal(stats.examples[LOAD_ERROR_reset], "GOAWAY: ?[2Jno?more?1m");
}

static void test_nothing_is_met_without_a_response(void **state) {
    (void)state;
    load_stats_init(&stats);
    assert_false(met("p99<1s"));
    assert_false(met("errors<1"));
    stats.responses = 1; /* to a request that was due before the window */
    assert_false(met("p99<1s"));
}

static void test_what_is_no_objective_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",         "p99",        "p99<",     "p99<5",    "p99>5ms",   "p100<5ms",
        "p0<5ms",   "p<5ms",      "px<5ms",   "rate<5",   "rate>",     "rate>x",
        "errors<x", "errors<1%%", "errors>1", "<5ms",     "p99<5ms,",  "mean<5ms;max<1s",
        "max<-1s",  "p99<5ms ",   "mean<nan", "rate>nan", "errors<-1", "p99=5ms",
    };
    load_slo_t slo;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!load_slo_parse(&slo, wrong[i])) fail_msg("accepted: %s", wrong[i]);
    char many[] =
        "max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,max<1s,"
        "max<1s,max<1s";
    assert_string_equal(load_slo_parse(&slo, many), "at most 16 objectives");
}

static void test_what_bounds_what_is_known(void **state) {
    (void)state;
    load_slo_t slo;
    assert_null(load_slo_parse(&slo, "p99<5ms,max<2s,rate>1k"));
    assert_false(load_slo_bounds_errors(&slo));
    assert_int_equal(load_slo_latency_max(&slo), UINT64_C(2000000000));
    assert_null(load_slo_parse(&slo, "errors<0.1%"));
    assert_true(load_slo_bounds_errors(&slo));
    assert_int_equal(load_slo_latency_max(&slo), 0);
}

int main(void) {
    return RUN_TESTS(test_each_metric_is_judged_in_its_unit, test_errors_are_a_number_or_a_share_of_what_was_tried,
                     test_errors_of_the_warm_up_are_a_share_of_its_responses_too,
                     test_the_words_of_a_server_do_not_control_the_terminal, test_nothing_is_met_without_a_response,
                     test_what_is_no_objective_is_refused, test_what_bounds_what_is_known);
}
