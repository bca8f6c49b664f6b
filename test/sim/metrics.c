/* Owns: the model of the metrics: what the clients and the kernel know of requests, responses, bytes and connections,
 * compared with the counters while nobody runs, and with a whole snapshot when the server has ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp/metrics.h>
#include <uvhttp/server.h>

#include "client.h"

enum {
    COUNTERS_MAX = 512,
    KEYS_MAX = 2048,
    TIMER_MS = 2,     /* that a timer may be early, or time that is rounded */
    QUIET_EVERY = 64, /* moments at which nobody runs */
};

bool sim_metered;
uint32_t sim_series_max;
sim_traffic_t sim_traffic;

/* Responses that clients have whole, of requests with the same attributes. */
typedef struct key {
    uint16_t route, status; /* route: as request_t.kind */
    bool head, h2, tls;
    uint64_t count;
} response_kind_t;

/* Requests for a route. */
typedef struct route_model {
    uint64_t asked, whole;   /* whole: those whose client has the response */
    uint64_t response_bytes; /* of them: as they came */
    uint64_t refused;        /* of them: by somebody else than the handler */
    uint64_t bodies, ms;     /* of all of them: bytes of bodies; how long handlers wait */
} route_model_t;

static response_kind_t keys[KEYS_MAX];
static uint32_t key_count;
static route_model_t routes[ROUTES + 1];
static uint64_t classes[6], strays;
static bool lawless, ended;
static uint32_t quiet_moments;
static uint64_t last[COUNTERS_MAX]; /* of counters, in their order */
static const char *counter_names[COUNTERS_MAX];
static uint32_t name_count;

void sim_metrics_reset(uint64_t seed) {
    sim_random_t random = sim_random_of(seed, 0x3e);
    sim_metered = sim_one_in(&random, 2);
    sim_series_max = sim_one_in(&random, 6) ? 1 + sim_below(&random, 8) : SIM_SERIES_ENOUGH;
    sim_traffic = (sim_traffic_t){0};
    key_count = quiet_moments = 0;
    memset(routes, 0, sizeof routes);
    memset(classes, 0, sizeof classes);
    memset(last, 0, sizeof last);
    strays = 0;
    lawless = ended = false;
}

/* --- what clients know --- */

void sim_metrics_asked(const request_t *request, uint32_t body, uint32_t ms) {
    routes[request->kind].asked++;
    routes[request->kind].ms += ms;
    routes[request->kind].bodies += body;
}

void sim_metrics_strayed(void) {
    strays++;
}

void sim_metrics_lawless(void) {
    lawless = true;
}

bool sim_metrics_are_lawless(void) {
    return lawless;
}

uint64_t sim_metrics_have(route_t route, int status) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < key_count; i++)
        if (keys[i].route == (uint32_t)route + 1 && keys[i].status == status) count += keys[i].count;
    return count;
}

static response_kind_t *find_key(response_kind_t wanted) {
    for (uint32_t i = 0; i < key_count; i++)
        if (keys[i].route == wanted.route && keys[i].status == wanted.status && keys[i].head == wanted.head &&
            keys[i].h2 == wanted.h2 && keys[i].tls == wanted.tls)
            return &keys[i];
    if (key_count == KEYS_MAX) sim_fail("too many kinds of responses");
    keys[key_count] = wanted;
    return &keys[key_count++];
}

void sim_metrics_responded(const client_t *client, const request_t *request, int status, bool by_handler) {
    classes[status / 100]++;
    if (!request) return; /* to what was no request */
    route_model_t *route = &routes[request->kind];
    route->whole++;
    route->response_bytes += request->received;
    route->refused += !by_handler;
    find_key((response_kind_t){.route = request->kind,
                               .status = (uint16_t)status,
                               .head = request->head,
                               .h2 = client->h2 != NULL,
                               .tls = client->transport.tls})
        ->count++;
}

/* --- while nobody runs --- */

typedef struct reading {
    uint64_t values[COUNTERS_MAX];
    uint32_t count;
    uint64_t accepted, closed, received, sent, refusals, errors;
} reading_t;

static bool only_grows(const char *name) {
    static const char *const gauges[] = {"connections_limit", "static_cache_bytes", "work_threads",
                                         "work_running",      "work_waiting",       "coroutine_stacks"};
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        if (strcmp(name, gauges[i]) == 0) return false;
    return true;
}

/* Names of refusals are no static texts. */
static const char *name_of(const char *name) {
    static const char late[] = "rejected_response_timeout";
    if (strncmp(name, "rejected_", 9) != 0) return name;
    return strcmp(name, late) == 0 ? late : "";
}

uint64_t sim_metrics_last(const char *name) {
    for (uint32_t i = 0; i < name_count; i++)
        if (strcmp(counter_names[i], name) == 0) return last[i];
    sim_fail("there is no counter %s", name);
}

static void read_counter(const char *name, const char *help, uint64_t value, void *user) {
    reading_t *reading = user;
    (void)help;
    if (reading->count == COUNTERS_MAX) sim_fail("too many counters");
    uint64_t before = last[reading->count];
    if (value < before && only_grows(name))
        sim_fail("counter %s falls from %llu to %llu", name, (unsigned long long)before, (unsigned long long)value);
    if (value > UINT64_MAX / 2) sim_fail("counter %s is below 0", name);
    last[reading->count] = reading->values[reading->count] = value;
    counter_names[reading->count++] = name_of(name);
    name_count = reading->count;
    if (strcmp(name, "connections_accepted") == 0) reading->accepted = value;
    if (strcmp(name, "connections_closed") == 0) reading->closed = value;
    if (strcmp(name, "bytes_received") == 0) reading->received = value;
    if (strcmp(name, "bytes_sent") == 0) reading->sent = value;
    if (strcmp(name, "accept_errors") == 0) reading->errors = value;
}

static void compare(const char *what, uint64_t counted, uint64_t known) {
    if (counted != known)
        sim_fail("%s: %llu are counted, and there were %llu", what, (unsigned long long)counted,
                 (unsigned long long)known);
}

/* io_uring: a loop that waits counts what it has sent last when it wakes. */
static bool counts_late(void) {
    const char *reason, *engine = uvhttp_server_engine(sim_server, &reason);
    return engine && strcmp(engine, "epoll") != 0;
}

/* Something may be on its way in a ring, or to a thread that could run. */
static bool may_lag(void) {
    return sim_kernel_is_excused() || sim_threads_stall();
}

/* The last sends of a loop that failed, for lack of memory for an entry, say, are not counted. */
static bool has_failed(const uvhttp_server_t *server) {
    return strstr(uvhttp_server_error_text(server), ": io_uring: ") != NULL;
}

static void check_traffic(const reading_t *reading, bool quiet) {
    if (reading->accepted > sim_traffic.accepted ||
        (!sim_failing && reading->accepted + sim_traffic.accepted_late < sim_traffic.accepted))
        compare("connections accepted", reading->accepted, sim_traffic.accepted);
    if (quiet && !may_lag())
        compare("connections now", reading->accepted - reading->closed, sim_traffic.accepted - sim_traffic.closed);
    const bool lags = sim_ring_has_lost || sim_ring_has_died || (quiet && may_lag());
    if (reading->received > sim_traffic.received || !lags)
        compare("bytes received", reading->received, sim_traffic.received);
    if (reading->sent > sim_traffic.sent || !(lags || (quiet ? counts_late() : has_failed(sim_server))))
        compare("bytes sent", reading->sent, sim_traffic.sent);
    compare("errors of accept", reading->errors, sim_traffic.accept_errors);
}

void sim_metrics_check_quiet(void) {
    reading_t reading = {.count = 0};
    if (!sim_server || ended || sim_guest_is_blocked() || ++quiet_moments % QUIET_EVERY) return;
    uvhttp_server_counters(sim_server, read_counter, &reading);
    check_traffic(&reading, true);
}

/* --- when the server has ended --- */

typedef struct series_sums {
    uint64_t all, overflow;
    uint64_t count[ROUTES + 1], response_bytes[ROUTES + 1], request_bytes[ROUTES + 1], duration_ns[ROUTES + 1];
} series_sums_t;

static uint32_t kind_of(const char *pattern) {
    char text[64];
    for (uint32_t i = 0; i < ROUTES; i++) {
        snprintf(text, sizeof text, i == FILES ? "/%s/*" : "/%s/:tag", sim_route_names[i]);
        if (strncmp(pattern, text, strlen(text)) == 0) return i + 1;
    }
    return 0;
}

static uint64_t sum(const uint64_t *counts, uint32_t bounds) {
    uint64_t all = 0;
    for (uint32_t i = 0; i <= bounds; i++) all += counts[i];
    return all;
}

/* Whether a sum is one of so many values in these buckets. */
static void check_histogram(const uvhttp_metrics_series_t *series, const char *what, const uint64_t *counts,
                            const uint64_t *bounds, uint32_t bound_count, uint64_t total) {
    uint64_t least = 0, most = 0;
    if (sum(counts, bound_count) != series->count)
        sim_fail("%s of %s: %llu of %llu requests", what, series->route, (unsigned long long)sum(counts, bound_count),
                 (unsigned long long)series->count);
    for (uint32_t i = 0; i <= bound_count; i++) {
        least += counts[i] * (i > 0 ? bounds[i - 1] + 1 : 0);
        if (i < bound_count) most += counts[i] * bounds[i];
    }
    if (total < least || (counts[bound_count] == 0 && total > most))
        sim_fail("%s of %s: the sum %llu does not fit the buckets, %llu to %llu", what, series->route,
                 (unsigned long long)total, (unsigned long long)least, (unsigned long long)most);
}

static void check_series(const uvhttp_metrics_snapshot_t *snapshot, const uvhttp_metrics_series_t *series) {
    check_histogram(series, "durations", series->duration_counts, snapshot->duration_bounds_ns,
                    snapshot->duration_bound_count, series->duration_sum_ns);
    check_histogram(series, "bodies of requests", series->request_body_counts, snapshot->size_bounds,
                    snapshot->size_bound_count, series->request_body_sum);
    check_histogram(series, "bodies of responses", series->response_body_counts, snapshot->size_bounds,
                    snapshot->size_bound_count, series->response_body_sum);
    if (series->overflow) return;
    if ((series->status == 0 || series->status >= 500) && !*series->error_type)
        sim_fail("a series of %s with status %u has no error_type", series->route, series->status);
}

static void add_series(series_sums_t *sums, const uvhttp_metrics_series_t *series) {
    uint32_t kind = kind_of(series->route);
    sums->all += series->count;
    if (series->overflow) sums->overflow += series->count;
    sums->count[kind] += series->count;
    sums->response_bytes[kind] += series->response_body_sum;
    sums->request_bytes[kind] += series->request_body_sum;
    sums->duration_ns[kind] += series->duration_sum_ns;
}

/* So many have this error_type or none; "" and a status mean that it was whole. */
static uint64_t count_whole(const uvhttp_metrics_snapshot_t *snapshot, const response_kind_t *key) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < snapshot->series_count; i++) {
        const uvhttp_metrics_series_t *it = uvhttp_metrics_series(snapshot, i);
        const char *method = key->head ? "HEAD" : key->route > ECHO ? "POST" : "GET";
        if (it->status == key->status && kind_of(it->route) == key->route && strcmp(it->method, method) == 0 &&
            strcmp(it->protocol, key->h2 ? "2" : "1.1") == 0 && strcmp(it->scheme, key->tls ? "https" : "http") == 0 &&
            strcmp(it->error_type, "aborted") != 0)
            count += it->count;
    }
    return count;
}

static void check_keys(const uvhttp_metrics_snapshot_t *snapshot) {
    for (uint32_t i = 0; i < key_count; i++) {
        const response_kind_t *key = &keys[i];
        if (key->route == 0 || (sim_failing && key->status >= 300)) continue;
        uint64_t counted = count_whole(snapshot, key);
        if (counted < key->count)
            sim_fail("%llu requests for %s with status %u over %s%s are counted, and clients have %llu",
                     (unsigned long long)counted, sim_route_names[key->route - 1], key->status,
                     key->h2 ? "HTTP/2" : "HTTP/1", key->tls ? " with TLS" : "", (unsigned long long)key->count);
    }
}

/* Its body, before there is a response. */
static bool is_read(route_t route) {
    return route == ECHO || route == UPLOAD || route == SPOOL || route == LIVE || route == COBODY;
}

/* For as long as the request says. */
static bool waits(route_t route) {
    return route == DEFER || route == CORO || route == JOB || route == WORK;
}

static void check_route(const series_sums_t *sums, uint32_t kind) {
    const route_model_t *route = &routes[kind];
    const char *name = sim_route_names[kind - 1];
    if (sums->count[kind] < route->whole || (!lawless && sums->count[kind] > route->asked + strays))
        sim_fail("%llu requests for %s are counted, of %llu, %llu of which have a response",
                 (unsigned long long)sums->count[kind], name, (unsigned long long)route->asked,
                 (unsigned long long)route->whole);
    if (lawless || strays > 0 || route->whole < route->asked || sim_failing) return;
    compare(name, sums->response_bytes[kind], route->response_bytes);
    if (route->refused > 0) return;
    if (is_read(kind - 1)) compare(name, sums->request_bytes[kind], route->bodies);
    uint64_t least_ms =
        waits(kind - 1) && route->ms > TIMER_MS * route->whole ? route->ms - TIMER_MS * route->whole : 0;
    if (sums->duration_ns[kind] < least_ms * SIM_MS)
        sim_fail("%llu requests for %s lasted %llu ms in all, and the handlers waited for %llu",
                 (unsigned long long)route->whole, name, (unsigned long long)(sums->duration_ns[kind] / SIM_MS),
                 (unsigned long long)route->ms);
}

static void check_all_series(const uvhttp_metrics_snapshot_t *snapshot, series_sums_t *sums) {
    for (uint32_t i = 0; i < snapshot->series_count; i++) {
        const uvhttp_metrics_series_t *series = uvhttp_metrics_series(snapshot, i);
        check_series(snapshot, series);
        add_series(sums, series);
    }
    if (sums->overflow > 0) return;
    check_keys(snapshot);
    for (uint32_t kind = 1; kind <= ROUTES && !sim_failing; kind++) check_route(sums, kind);
}

static uint64_t value_of(const uvhttp_metrics_snapshot_t *snapshot, const char *name) {
    for (uint32_t i = 0; i < snapshot->metric_count; i++)
        if (strcmp(uvhttp_metrics_metric(snapshot, i)->name, name) == 0)
            return uvhttp_metrics_metric(snapshot, i)->value;
    sim_fail("there is no metric %s", name);
}

static void check_between(const char *what, uint64_t counted, uint64_t least, uint64_t more) {
    if (counted < least || (!lawless && counted > least + more))
        sim_fail("%s: %llu are counted, and there were %llu, or up to %llu more", what, (unsigned long long)counted,
                 (unsigned long long)least, (unsigned long long)more);
}

static void check_responses(const uvhttp_metrics_snapshot_t *snapshot) {
    static const char *const names[] = {"", "", "responses_2xx", "responses_3xx", "responses_4xx", "responses_5xx"};
    uint64_t asked = 0, whole = 0;
    for (uint32_t kind = 0; kind <= ROUTES; kind++) {
        asked += routes[kind].asked;
        whole += routes[kind].whole;
    }
    for (int i = 2; i <= 5; i++)
        check_between(names[i], value_of(snapshot, names[i]), classes[i], asked - whole + strays);
    check_between("requests", value_of(snapshot, "requests") + value_of(snapshot, "requests_faulty_head"), whole,
                  asked - whole + strays);
}

static void check_loops(const uvhttp_metrics_snapshot_t *snapshot, const reading_t *reading) {
    uint64_t received = 0, sent = 0, requests = 0;
    for (uint32_t i = 0; i < snapshot->loop_count; i++) {
        const uvhttp_metrics_loop_t *loop = uvhttp_metrics_loop(snapshot, i);
        if (loop->connections) sim_fail("loop %u has connections at the end", i);
        received += loop->bytes_received;
        sent += loop->bytes_sent;
        requests += loop->requests;
    }
    compare("bytes received by loops", received, reading->received);
    compare("bytes sent by loops", sent, reading->sent);
    compare("requests of loops", requests, value_of(snapshot, "requests"));
}

static void check_times(const uvhttp_metrics_snapshot_t *snapshot) {
    uint64_t times = 0, responses = 0;
    for (uint32_t i = 0; i < snapshot->response_time_count; i++) {
        const uvhttp_metrics_bucket_t *bucket = uvhttp_metrics_response_time(snapshot, i);
        times += bucket->count;
    }
    responses = value_of(snapshot, "responses_2xx") + value_of(snapshot, "responses_3xx") +
                value_of(snapshot, "responses_4xx") + value_of(snapshot, "responses_5xx");
    check_between("response times", times, responses, value_of(snapshot, "responses_1xx")); /* 101 has one */
}

static void check_gauges(const uvhttp_metrics_snapshot_t *snapshot) {
    static const char *const gauges[] = {"connections", "active_requests", "work_running", "work_waiting"};
    const size_t count = sizeof gauges / sizeof *gauges - (sim_is_guest ? 2 : 0); /* free waits for the work */
    for (size_t i = 0; i < count; i++)
        if (value_of(snapshot, gauges[i]) != 0)
            sim_fail("%s is %llu at the end", gauges[i], (unsigned long long)value_of(snapshot, gauges[i]));
}

void sim_metrics_check_end(uvhttp_server_t *server) {
    reading_t reading = {.count = 0};
    ended = true;
    uvhttp_server_counters(server, read_counter, &reading);
    check_traffic(&reading, false);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(server);
    if (!snapshot && sim_failing) return;
    if (!snapshot) sim_fail("no snapshot of the metrics");
    check_gauges(snapshot);
    check_loops(snapshot, &reading);
    check_times(snapshot);
    check_responses(snapshot);
    if (sim_metered) {
        series_sums_t sums = {0};
        check_all_series(snapshot, &sums);
        compare("requests in series", sums.all,
                value_of(snapshot, "requests") + value_of(snapshot, "requests_faulty_head"));
        compare("requests without a series", sums.overflow, value_of(snapshot, "metrics_series_overflows"));
    }
    uvhttp_metrics_free(snapshot);
}
