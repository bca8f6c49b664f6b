/* Owns: what changed between two snapshots, as JSON for the dashboard: a point of its charts, and the tables of loops
 * and routes. May include: as server.h. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "obs/series.h"
#include "server/admin_internal.h"

typedef uvhttp_metrics_snapshot_t snapshot_t;

static double seconds_between(const snapshot_t *before, const snapshot_t *now) {
    double seconds = ((double)now->uptime_ns - (double)before->uptime_ns) / 1e9;
    return seconds > 0.001 ? seconds : 0.001;
}

/* Of a counter, which only grows; shards may have been read at slightly different moments. */
static uint64_t growth(uint64_t before, uint64_t now) {
    return now > before ? now - before : 0;
}

/* --- response times --- */

/* The buckets of both are in the same order; `at` continues where the search for the bucket before has ended. */
static uint64_t count_before(const snapshot_t *before, const uvhttp_metrics_bucket_t *bucket, uint32_t *at) {
    for (; *at < before->response_time_count; ++*at) {
        const uvhttp_metrics_bucket_t *old = uvhttp_metrics_response_time(before, *at);
        if (old->low_ns > bucket->low_ns) return 0;
        if (old->low_ns == bucket->low_ns) return old->count;
    }
    return 0;
}

/* 4 rows per decade from 100 ns on: 178, 316, 562, 1000, 1778 ... */
static unsigned row_of(uint64_t ns) {
    static const uint64_t quarters[] = {178, 316, 562, 1000};
    unsigned row = 0;
    for (uint64_t scale = 1; row < UVHTTP__ADMIN_HEAT_ROWS; scale *= 10)
        for (unsigned quarter = 0; quarter < 4; quarter++, row++)
            if (ns < quarters[quarter] * scale)
                return row < UVHTTP__ADMIN_HEAT_ROWS ? row : UVHTTP__ADMIN_HEAT_ROWS - 1;
    return UVHTTP__ADMIN_HEAT_ROWS - 1;
}

typedef struct times {
    uint64_t count, max_ns;
    uint64_t rows[UVHTTP__ADMIN_HEAT_ROWS];
} times_t;

static void read_times(const snapshot_t *before, const snapshot_t *now, times_t *times) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < now->response_time_count; i++) {
        const uvhttp_metrics_bucket_t *bucket = uvhttp_metrics_response_time(now, i);
        uint64_t count = growth(count_before(before, bucket, &at), bucket->count);
        if (count == 0) continue;
        uint64_t middle = bucket->low_ns + (bucket->high_ns - bucket->low_ns) / 2;
        times->count += count;
        times->max_ns = middle;
        times->rows[row_of(middle)] += count;
    }
}

static uint64_t percentile(const snapshot_t *before, const snapshot_t *now, uint64_t count, double part) {
    uint64_t wanted = (uint64_t)((double)count * part + 0.999999), seen = 0, middle = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < now->response_time_count && seen < wanted; i++) {
        const uvhttp_metrics_bucket_t *bucket = uvhttp_metrics_response_time(now, i);
        seen += growth(count_before(before, bucket, &at), bucket->count);
        middle = bucket->low_ns + (bucket->high_ns - bucket->low_ns) / 2;
    }
    return middle;
}

static void add_times(uvhttp__writer_t *json, const snapshot_t *before, const snapshot_t *now) {
    times_t times = {0};
    read_times(before, now, &times);
    if (times.count == 0) {
        uvhttp__write_text(json, ",\"ms\":null,\"heat\":null");
        return;
    }
    uvhttp__write_format(json, ",\"ms\":[%.4f,%.4f,%.4f,%.4f,%.4f],\"heat\":[",
                         (double)percentile(before, now, times.count, 0.5) / 1e6,
                         (double)percentile(before, now, times.count, 0.9) / 1e6,
                         (double)percentile(before, now, times.count, 0.99) / 1e6,
                         (double)percentile(before, now, times.count, 0.999) / 1e6, (double)times.max_ns / 1e6);
    for (unsigned row = 0; row < UVHTTP__ADMIN_HEAT_ROWS; row++) {
        uvhttp__write_comma(json);
        uvhttp__write_number(json, times.rows[row]);
    }
    uvhttp__write_text(json, "]");
}

/* --- counters --- */

/* By its name: a metric that is not known is in no snapshot, so that the others move up. */
static const uvhttp_metric_t *find(const snapshot_t *snapshot, const char *name) {
    for (uint32_t i = 0; i < snapshot->metric_count; i++) {
        const uvhttp_metric_t *metric = uvhttp_metrics_metric(snapshot, i);
        if (strcmp(metric->name, name) == 0) return metric;
    }
    return NULL;
}

static uint64_t counter_of(const snapshot_t *snapshot, const char *name) {
    const uvhttp_metric_t *metric = find(snapshot, name);
    return metric ? metric->value : 0;
}

static double rate_of(const snapshot_t *before, const snapshot_t *now, const char *name) {
    return (double)growth(counter_of(before, name), counter_of(now, name)) / seconds_between(before, now);
}

/* Of errors, by the start of the name. */
static double rate_of_all(const snapshot_t *before, const snapshot_t *now, const char *prefix) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < now->metric_count; i++) {
        const uvhttp_metric_t *metric = uvhttp_metrics_metric(now, i);
        if (strncmp(metric->name, prefix, strlen(prefix)) != 0) continue;
        const uvhttp_metric_t *old = find(before, metric->name);
        if (old) sum += growth(old->value, metric->value);
    }
    return (double)sum / seconds_between(before, now);
}

static double cpu_percent(const snapshot_t *before, const snapshot_t *now) {
    const uvhttp_metrics_process_t *a = uvhttp_metrics_process(before), *b = uvhttp_metrics_process(now);
    uint64_t ns = growth(a->cpu_user_ns, b->cpu_user_ns) + growth(a->cpu_system_ns, b->cpu_system_ns);
    return (double)ns / 1e7 / seconds_between(before, now);
}

void uvhttp__admin_write_point(uvhttp__writer_t *json, const snapshot_t *before, const snapshot_t *now) {
    const uvhttp_metrics_process_t *process = uvhttp_metrics_process(now);
    uvhttp__write_format(json, "{\"t\":%" PRIu64 ",\"rate\":%.1f,\"status\":[%.1f,%.1f,%.1f,%.1f]",
                         now->time_unix_ns / 1000000, rate_of(before, now, "requests"),
                         rate_of(before, now, "responses_2xx"), rate_of(before, now, "responses_3xx"),
                         rate_of(before, now, "responses_4xx"), rate_of(before, now, "responses_5xx"));
    uvhttp__write_format(json, ",\"errors\":[%.1f,%.1f,%.1f,%.1f]", rate_of_all(before, now, "rejected_"),
                         rate_of_all(before, now, "resets_"), rate_of_all(before, now, "timeouts_"),
                         rate_of(before, now, "aborted"));
    uvhttp__write_format(json,
                         ",\"cpu\":%.1f,\"rss\":%" PRIu64 ",\"fds\":%" PRIu64 ",\"connections\":%" PRIu64
                         ",\"active\":%" PRIu64 ",\"accepted\":%.1f,\"in\":%.0f,\"out\":%.0f",
                         cpu_percent(before, now), process->resident_bytes,
                         process->open_descriptors == UINT64_MAX ? 0 : process->open_descriptors, now->connections,
                         now->active_requests, rate_of(before, now, "connections_accepted"),
                         rate_of(before, now, "bytes_received"), rate_of(before, now, "bytes_sent"));
    add_times(json, before, now);
    uvhttp__write_text(json, "}");
}

/* --- loops --- */

static void add_loops(uvhttp__writer_t *json, const snapshot_t *before, const snapshot_t *now) {
    double seconds = seconds_between(before, now);
    for (uint32_t i = 0; i < now->loop_count; i++) {
        const uvhttp_metrics_loop_t *loop = uvhttp_metrics_loop(now, i), *old = uvhttp_metrics_loop(before, i);
        if (!old) continue;
        uvhttp__write_comma(json);
        uvhttp__write_format(json,
                             "{\"index\":%" PRIu32 ",\"connections\":%" PRIu64
                             ",\"rate\":%.1f,\"in\":%.0f,\"out\":%.0f,"
                             "\"iterations\":%.1f,\"cpu\":%.1f}",
                             loop->index, loop->connections, (double)growth(old->requests, loop->requests) / seconds,
                             (double)growth(old->bytes_received, loop->bytes_received) / seconds,
                             (double)growth(old->bytes_sent, loop->bytes_sent) / seconds,
                             (double)growth(old->iterations, loop->iterations) / seconds,
                             (double)growth(old->cpu_ns, loop->cpu_ns) / 1e7 / seconds);
    }
}

/* --- routes --- */

typedef struct route {
    const char *pattern, *method;
    uint64_t total, recent, errors;
    uint64_t counts[UVHTTP__DURATION_COUNTS]; /* of this second */
} route_t;

typedef struct routes {
    route_t rows[UVHTTP__ADMIN_ROUTES_MAX];
    uint32_t count, left_out;
} routes_t;

/* NULL: there are too many. */
static route_t *route_for(routes_t *routes, const uvhttp_metrics_series_t *series) {
    for (uint32_t i = 0; i < routes->count; i++)
        if (strcmp(routes->rows[i].pattern, series->route) == 0 && strcmp(routes->rows[i].method, series->method) == 0)
            return &routes->rows[i];
    if (routes->count == UVHTTP__ADMIN_ROUTES_MAX) return NULL;
    route_t *row = &routes->rows[routes->count++];
    *row = (route_t){.pattern = series->route, .method = series->method};
    return row;
}

static bool same_series(const uvhttp_metrics_series_t *a, const uvhttp_metrics_series_t *b) {
    return a->status == b->status && a->overflow == b->overflow && strcmp(a->route, b->route) == 0 &&
           strcmp(a->method, b->method) == 0 && strcmp(a->protocol, b->protocol) == 0 &&
           strcmp(a->scheme, b->scheme) == 0 && strcmp(a->error_type, b->error_type) == 0;
}

/* Most often it has the same index. */
static const uvhttp_metrics_series_t *series_before(const snapshot_t *before, const uvhttp_metrics_series_t *series,
                                                    uint32_t index) {
    const uvhttp_metrics_series_t *old = uvhttp_metrics_series(before, index);
    if (old && same_series(old, series)) return old;
    for (uint32_t i = 0; (old = uvhttp_metrics_series(before, i)); i++)
        if (same_series(old, series)) return old;
    return NULL;
}

static void add_series(routes_t *routes, const snapshot_t *before, const snapshot_t *now, uint32_t index) {
    const uvhttp_metrics_series_t *series = uvhttp_metrics_series(now, index);
    const uvhttp_metrics_series_t *old = series_before(before, series, index);
    route_t *row = route_for(routes, series);
    if (!row) {
        routes->left_out++;
        return;
    }
    row->total += series->count;
    row->recent += growth(old ? old->count : 0, series->count);
    if (series->status >= 500 || series->error_type[0]) row->errors += series->count;
    for (uint32_t i = 0; i < UVHTTP__DURATION_COUNTS; i++)
        row->counts[i] += growth(old ? old->duration_counts[i] : 0, series->duration_counts[i]);
}

/* The upper bound of the bucket of the percentile, ms; -1: above all bounds, or nothing was measured. */
static double bound_of(const route_t *row, const snapshot_t *now, double part) {
    uint64_t count = 0, seen = 0;
    for (uint32_t i = 0; i < UVHTTP__DURATION_COUNTS; i++) count += row->counts[i];
    uint64_t wanted = (uint64_t)((double)count * part + 0.999999);
    for (uint32_t i = 0; i < UVHTTP__DURATION_BOUNDS && count > 0; i++) {
        seen += row->counts[i];
        if (seen >= wanted) return (double)now->duration_bounds_ns[i] / 1e6;
    }
    return -1;
}

static void add_routes(uvhttp__writer_t *json, const snapshot_t *before, const snapshot_t *now, routes_t *routes) {
    for (uint32_t i = 0; i < now->series_count; i++) add_series(routes, before, now, i);
    double seconds = seconds_between(before, now);
    for (uint32_t i = 0; i < routes->count; i++) {
        const route_t *row = &routes->rows[i];
        uvhttp__write_comma(json);
        uvhttp__write_text(json, "{");
        uvhttp__write_member(json, "route", row->pattern);
        uvhttp__write_member(json, "method", row->method);
        uvhttp__write_format(
            json, ",\"rate\":%.1f,\"total\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"p50\":%.3f,\"p99\":%.3f}",
            (double)row->recent / seconds, row->total, row->errors, bound_of(row, now, 0.5), bound_of(row, now, 0.99));
    }
}

void uvhttp__admin_write_details(uvhttp__writer_t *json, const snapshot_t *before, const snapshot_t *now) {
    routes_t *routes = uvhttp__calloc(1, sizeof *routes);
    json->failed = json->failed || !routes;
    if (!routes) return;
    uvhttp__write_format(json, "\"uptime_s\":%.0f,\"loops\":[", (double)now->uptime_ns / 1e9);
    add_loops(json, before, now);
    uvhttp__write_format(json, "],\"recording\":%s,\"routes\":[", now->recording ? "true" : "false");
    add_routes(json, before, now, routes);
    uvhttp__write_format(json,
                         "],\"routes_left_out\":%" PRIu32 ",\"totals\":{\"requests\":%" PRIu64 ",\"accepted\":%" PRIu64
                         ",\"2xx\":%" PRIu64 ",\"3xx\":%" PRIu64 ",\"4xx\":%" PRIu64 ",\"5xx\":%" PRIu64 "}",
                         routes->left_out, counter_of(now, "requests"), counter_of(now, "connections_accepted"),
                         counter_of(now, "responses_2xx"), counter_of(now, "responses_3xx"),
                         counter_of(now, "responses_4xx"), counter_of(now, "responses_5xx"));
    uvhttp__free(routes);
}
