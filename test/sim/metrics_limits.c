/* Owns: counters that may count only in some seeds: each limit has one, and is there for a reason; and counters of
 * which clients know a part. */
#include <string.h>

#include "client.h"

typedef struct rule {
    const char *name;
    bool may_count;
} rule_t;

static void check_rules(const rule_t *rules, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = sim_metrics_last(rules[i].name);
        if (value > 0 && !rules[i].may_count && !sim_failing)
            sim_fail("%s is %llu, for no reason that there is", rules[i].name, (unsigned long long)value);
    }
}

/* What this seed's server never reaches. */
static void check_limits(void) {
    const bool lawless = sim_metrics_are_lawless();
    const rule_t rules[] = {
        {"connections_evicted", sim_places_are_few},
        {"connections_waited", sim_places_are_few},
        {"connections_refused_address", sim_address_max > 0},
        {"accept_paused", sim_traffic.accept_errors > 0},
        {"metrics_series_overflows", sim_metered && (sim_crowd || sim_series_max < SIM_SERIES_ENOUGH)},
        {"work_refused", !sim_threads_are_patient},
        {"work_queue_timeouts", !sim_threads_are_patient},
        {"work_slow", sim_jobs_are_watched},
        {"handler_blocked", false},
        {"coroutines_refused", false},
        {"spool_full", sim_spool_max > 0},
        {"refused_auth", false},
        {"refused_cors", false},
        {"middleware_no_memory", false},
        {"rejected_response_timeout", sim_response_timeout_ms > 0},
        {"tls_handshakes", sim_tls_listens},
        {"tls_kernel", false},
        {"tls_kernel_refused", false},
        {"tls_kernel_ended", false},
        {"tls_resumption_refused", false},
        {"trace_spans", sim_traces},
        {"http2_windows_exceeded", lawless},
        {"http2_memory_exceeded", sim_h2_memory_max > 0 || lawless},
        {"http2_header_blocks_too_large", lawless},
        {"http2_continuation_floods", lawless},
        {"http2_settings_too_large", lawless},
        {"http2_control_floods", lawless},
        {"http2_reset_floods", lawless},
        {"http2_control_overflows", lawless},
        {"http2_connection_errors", lawless},
        {"http2_length_mismatches", lawless},
    };
    check_rules(rules, sizeof rules / sizeof *rules);
}

static uint64_t sum_of(const char *const *names) {
    uint64_t sum = 0;
    for (; *names; names++) sum += sim_metrics_last(*names);
    return sum;
}

static void expect_most(const char *what, uint64_t counted, uint64_t most) {
    if (counted > most)
        sim_fail("%s: %llu are counted, and there were at most %llu", what, (unsigned long long)counted,
                 (unsigned long long)most);
}

static void expect_least(const char *what, uint64_t counted, uint64_t least) {
    if (counted < least && !sim_failing)
        sim_fail("%s: %llu are counted, and there were at least %llu", what, (unsigned long long)counted,
                 (unsigned long long)least);
}

static uint64_t have(route_t route, int status) {
    return sim_metrics_have(route, status);
}

/* What clients have received says what handlers have done. */
static void check_least(void) {
    static const char *const files[] = {"static_hits", "static_misses", NULL};
    static const char *const limited[] = {"rate_limited", NULL};
    static const char *const coroutines[] = {"coroutines", NULL};
    static const char *const requests[] = {"client_requests", NULL};
    static const char *const deferred[] = {"deferred", NULL};
    static const char *const jobs[] = {"work_jobs", NULL};
    expect_least("static files", sum_of(files), have(FILES, 200) + have(FILES, 206));
    expect_least("requests above a rate", sum_of(limited), have(LIMIT, 429) + have(QUOTA, 429));
    expect_least("coroutines", sum_of(coroutines),
                 have(CORO, 200) + have(COBODY, 200) + have(COGATE, 200) + have(CODIAL, 200));
    expect_least("requests to others", sum_of(requests), have(GATE, 200) + have(COGATE, 200));
    expect_least("deferred responses", sum_of(deferred),
                 have(DEFER, 200) + have(JOB, 200) + have(STREAM, 200) + have(SIZED, 200));
    expect_least("jobs", sum_of(jobs), have(JOB, 200) + have(WORK, 200) + have(SPOOL, 200) + have(LIVE, 200));
    if (sim_response_timeout_ms)
        expect_least("responses that were late", sim_metrics_last("rejected_response_timeout"),
                     have(DEFER, 503) + have(CORO, 503));
}

static void check_resets(void) {
    static const char *const resets[] = {"resets_idle", "resets_reading", "resets_writing", "resets_closing", NULL};
    expect_most("resets by clients", sum_of(resets), sim_traffic.resets);
}

static void check_tls(void) {
    static const char *const versions[] = {"tls_version_1_2", "tls_version_1_3", NULL};
    uint64_t handshakes = sim_metrics_last("tls_handshakes");
    expect_least("handshakes", handshakes, sim_traffic.handshakes);
    expect_most("handshakes", handshakes, sim_traffic.accepted);
    if (sum_of(versions) != handshakes) sim_fail("a handshake of no version");
}

void sim_metrics_check_limits(void) {
    check_limits();
    check_least();
    check_resets();
    check_tls();
}
