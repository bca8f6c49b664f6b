/* Owns: taking and reading snapshots of metrics. Any thread. */
#include "server/metrics_snapshot.h"

#include <time.h>

#include "base/alloc.h"
#include "server/server.h"

static const uvhttp__metrics_snapshot_t *full(const uvhttp_metrics_snapshot_t *snapshot) {
    return (const uvhttp__metrics_snapshot_t *)snapshot;
}

/* --- taking --- */

/* The loops' state is there, and other threads may look at it, once the engine is known. */
static bool has_loops(const uvhttp_server_t *server) {
    return atomic_load_explicit(&server->tcp_server->engine, memory_order_acquire) != NULL;
}

static uint64_t counter(const uvhttp__counters_t *shard, unsigned index) {
    return atomic_load_explicit(&shard->values[index], memory_order_relaxed);
}
#define COUNTER_OF(shard, name) counter((shard), UVHTTP__COUNTER_##name)

static void read_loop(const uvhttp__tcp_loop_t *tcp, uvhttp__metrics_loop_t *loop) {
    const uvhttp__http_loop_t *http = tcp->user;
    const uvhttp__counters_t *counters = &tcp->counters;
    uint64_t closed = COUNTER_OF(counters, connections_closed), accepted = COUNTER_OF(counters, connections_accepted);
    *loop = (uvhttp__metrics_loop_t){.shown = {.index = tcp->index,
                                               .connections = accepted > closed ? accepted - closed : 0,
                                               .requests = COUNTER_OF(counters, requests),
                                               .bytes_received = COUNTER_OF(counters, bytes_received),
                                               .bytes_sent = COUNTER_OF(counters, bytes_sent),
                                               .iterations = COUNTER_OF(counters, engine_iterations),
                                               .cpu_ns = uvhttp__tcp_loop_cpu_ns(tcp)}};
    if (!http || !http->metrics) return;
    loop->shown.busy_ns = atomic_load_explicit(&http->metrics->busy_ns, memory_order_relaxed);
    for (unsigned i = 0; i < UVHTTP__DURATION_COUNTS; i++)
        loop->durations[i] = atomic_load_explicit(&http->metrics->iterations[i], memory_order_relaxed);
}

static bool read_loops(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot) {
    uint32_t count = server->tcp_server->loop_count;
    if (!has_loops(server)) return true;
    snapshot->loops = uvhttp__malloc(count * sizeof *snapshot->loops);
    if (!snapshot->loops) return false;
    for (uint32_t i = 0; i < count; i++) read_loop(&server->tcp_server->loops[i], &snapshot->loops[i]);
    snapshot->shown.loop_count = count;
    return true;
}

static bool copy_buckets(const uvhttp__histogram_t *histogram, uvhttp__metrics_snapshot_t *snapshot) {
    snapshot->response_times = uvhttp__malloc(UVHTTP__HISTOGRAM_BUCKETS * sizeof *snapshot->response_times);
    if (!snapshot->response_times) return false;
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t count = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        if (count == 0) continue;
        snapshot->response_times[snapshot->shown.response_time_count++] =
            (uvhttp_metrics_bucket_t){uvhttp__histogram_low(i), uvhttp__histogram_high(i), count};
    }
    return true;
}

static void read_queue(const uvhttp_server_t *server, uvhttp__histogram_t *sum, uvhttp_metrics_snapshot_t *shown) {
    uvhttp__work_stats_t work;
    uvhttp__histogram_init(sum);
    uvhttp__work_read(server->service.work, &work, sum);
    shown->work_queue_count = uvhttp__histogram_count(sum);
    shown->work_queue_sum_ns = atomic_load_explicit(&sum->sum, memory_order_relaxed);
}

static bool read_times(const uvhttp_server_t *server, uvhttp__metrics_snapshot_t *snapshot) {
    uvhttp__histogram_t *sum = uvhttp__alloc_aligned(64, sizeof *sum);
    if (!sum) return false;
    read_queue(server, sum, &snapshot->shown);
    uvhttp__histogram_init(sum);
    for (uint32_t i = 0; has_loops(server) && i < server->tcp_server->loop_count; i++) {
        const uvhttp__http_loop_t *http = server->tcp_server->loops[i].user;
        if (http) uvhttp__histogram_merge(sum, &http->response_time);
    }
    bool copied = copy_buckets(sum, snapshot);
    uvhttp__free_aligned(sum);
    return copied;
}

static uint64_t unix_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uvhttp_metrics_snapshot_t *uvhttp_metrics_take(const uvhttp_server_t *server) {
    uvhttp__metrics_snapshot_t *snapshot = server ? uvhttp__calloc(1, sizeof *snapshot) : NULL;
    if (!snapshot) return NULL;
    const char *reason, *engine = uvhttp__tcp_server_engine(server->tcp_server, &reason);
    snapshot->shown = (uvhttp_metrics_snapshot_t){.struct_size = sizeof(uvhttp_metrics_snapshot_t),
                                                  .recording = server->service.config.metrics,
                                                  .version = uvhttp_version(),
                                                  .engine = engine ? engine : "",
                                                  .time_unix_ns = unix_ns(),
                                                  .uptime_ns = uvhttp__clock_ns() - server->created_ns,
                                                  .duration_bound_count = UVHTTP__DURATION_BOUNDS,
                                                  .size_bound_count = UVHTTP__SIZE_BOUNDS,
                                                  .duration_bounds_ns = uvhttp__duration_bounds,
                                                  .size_bounds = uvhttp__size_bounds};
    if (uvhttp__metrics_read_series(server, snapshot) && uvhttp__metrics_read_rows(server, snapshot) &&
        read_loops(server, snapshot) && read_times(server, snapshot))
        return &snapshot->shown;
    uvhttp_metrics_free(&snapshot->shown);
    return NULL;
}

void uvhttp_metrics_free(uvhttp_metrics_snapshot_t *snapshot) {
    if (!snapshot) return;
    uvhttp__metrics_snapshot_t *own = (uvhttp__metrics_snapshot_t *)snapshot;
    uvhttp__free(own->rows);
    uvhttp__free(own->loops);
    uvhttp__free(own->series);
    uvhttp__free(own->exemplars);
    uvhttp__free(own->response_times);
    uvhttp__free(own);
}

/* --- reading --- */

const uvhttp_metrics_process_t *uvhttp_metrics_process(const uvhttp_metrics_snapshot_t *snapshot) {
    return snapshot ? &full(snapshot)->process : NULL;
}

const uvhttp_metric_t *uvhttp_metrics_metric(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index) {
    return snapshot && index < snapshot->metric_count ? &full(snapshot)->rows[index].shown : NULL;
}

const uvhttp_metrics_loop_t *uvhttp_metrics_loop(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index) {
    return snapshot && index < snapshot->loop_count ? &full(snapshot)->loops[index].shown : NULL;
}

const uvhttp_metrics_series_t *uvhttp_metrics_series(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index) {
    return snapshot && index < snapshot->series_count ? &full(snapshot)->series[index].shown : NULL;
}

const uvhttp_metrics_bucket_t *uvhttp_metrics_response_time(const uvhttp_metrics_snapshot_t *snapshot, uint32_t index) {
    return snapshot && index < snapshot->response_time_count ? &full(snapshot)->response_times[index] : NULL;
}

char *uvhttp_metrics_text(const uvhttp_metrics_snapshot_t *snapshot, uvhttp_metrics_format_t format, size_t *size) {
    uvhttp__writer_t writer = {0};
    if (!snapshot) return NULL;
    if (format == UVHTTP_METRICS_JSON)
        uvhttp__metrics_write_json(&writer, full(snapshot));
    else
        uvhttp__metrics_write_text(&writer, full(snapshot), format == UVHTTP_METRICS_OPENMETRICS);
    return uvhttp__writer_finish(&writer, size);
}

void uvhttp_metrics_text_free(char *text) {
    uvhttp__free(text);
}
