/* Owns: reading counters and histograms of all loops. Any thread. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/str.h"
#include "server/metrics_snapshot.h"
#include "server/server.h"

void uvhttp__metrics_read_counters(const uvhttp_server_t *server, uvhttp__counter_sums_t *sums) {
    uvhttp__work_stats_t work;
    uvhttp__tcp_server_counters(server->tcp_server, sums);
    uvhttp__work_read(server->service.work, &work, NULL);
    sums->values[UVHTTP__COUNTER_work_jobs] = work.jobs;
    sums->values[UVHTTP__COUNTER_work_refused] = work.refused;
    sums->values[UVHTTP__COUNTER_work_cancelled] = work.cancelled;
    sums->values[UVHTTP__COUNTER_work_slow] = work.slow;
    sums->values[UVHTTP__COUNTER_work_threads_started] = work.threads_started;
    sums->values[UVHTTP__COUNTER_work_threads_ended] = work.threads_ended;
    sums->values[UVHTTP__COUNTER_work_threads] = work.threads;
    sums->values[UVHTTP__COUNTER_work_running] = work.running;
    sums->values[UVHTTP__COUNTER_work_waiting] = work.waiting;
    if (!server->tracer) return;
    uvhttp__exporter_stats_t spans;
    uvhttp__tracer_read(server->tracer, &spans);
    sums->values[UVHTTP__COUNTER_trace_spans_exported] = spans.exported;
    sums->values[UVHTTP__COUNTER_trace_spans_failed] = spans.failed;
    sums->values[UVHTTP__COUNTER_trace_export_retries] = spans.retries;
}

static void read_queue_times(const uvhttp_server_t *server, uvhttp_metrics_t *metrics) {
    uvhttp__histogram_t *sum = uvhttp__alloc_aligned(64, sizeof *sum);
    if (!sum) return;
    uvhttp__work_stats_t work;
    uvhttp__histogram_init(sum);
    uvhttp__work_read(server->service.work, &work, sum);
    metrics->work_queue_time_count = uvhttp__histogram_count(sum);
    metrics->work_queue_time_mean_ns = uvhttp__histogram_mean(sum);
    metrics->work_queue_time_p50_ns = uvhttp__histogram_percentile(sum, 50);
    metrics->work_queue_time_p99_ns = uvhttp__histogram_percentile(sum, 99);
    metrics->work_queue_time_max_ns = uvhttp__histogram_max(sum);
    uvhttp__free_aligned(sum);
}

static void read_times(const uvhttp_server_t *server, uvhttp_metrics_t *metrics) {
    /* Once the engine is known, the state of the loops exists and other threads may read it. */
    if (!atomic_load_explicit(&server->tcp_server->engine, memory_order_acquire)) return;
    uvhttp__histogram_t *sum = uvhttp__alloc_aligned(64, sizeof *sum);
    if (!sum) return;
    uvhttp__histogram_init(sum);
    for (uint32_t i = 0; i < server->tcp_server->loop_count; i++) {
        const uvhttp__http_loop_t *http = server->tcp_server->loops[i].user;
        if (http) uvhttp__histogram_merge(sum, &http->response_time);
    }
    metrics->response_time_count = uvhttp__histogram_count(sum);
    metrics->response_time_mean_ns = uvhttp__histogram_mean(sum);
    metrics->response_time_p50_ns = uvhttp__histogram_percentile(sum, 50);
    metrics->response_time_p90_ns = uvhttp__histogram_percentile(sum, 90);
    metrics->response_time_p99_ns = uvhttp__histogram_percentile(sum, 99);
    metrics->response_time_p999_ns = uvhttp__histogram_percentile(sum, 99.9);
    metrics->response_time_max_ns = uvhttp__histogram_max(sum);
    uvhttp__free_aligned(sum);
}

static void read_all(const uvhttp_server_t *server, uvhttp_metrics_t *full) {
    uvhttp__counter_sums_t sums;
    uvhttp__metrics_read_counters(server, &sums);
    *full = (uvhttp_metrics_t){.requests = UVHTTP__COUNTER(&sums, requests),
                               .connections_accepted = UVHTTP__COUNTER(&sums, connections_accepted),
                               .connections_active = uvhttp__counters_connections(&sums),
                               .bytes_received = UVHTTP__COUNTER(&sums, bytes_received),
                               .bytes_sent = UVHTTP__COUNTER(&sums, bytes_sent),
                               .responses_1xx = UVHTTP__COUNTER(&sums, responses_1xx),
                               .responses_2xx = UVHTTP__COUNTER(&sums, responses_2xx),
                               .responses_3xx = UVHTTP__COUNTER(&sums, responses_3xx),
                               .responses_4xx = UVHTTP__COUNTER(&sums, responses_4xx),
                               .responses_5xx = UVHTTP__COUNTER(&sums, responses_5xx)};
    read_times(server, full);
    read_queue_times(server, full);
}

void uvhttp_server_metrics_sized(const uvhttp_server_t *server, uvhttp_metrics_t *metrics, size_t metrics_size) {
    uvhttp_metrics_t full = {0};
    if (!metrics) return;
    if (server) read_all(server, &full);
    uvhttp__sized_write(metrics, metrics_size, &full, sizeof full);
}

static const int codes[] = {
#define CODE(name, number, status, message) UVHTTP_E_##name,
    UVHTTP_ERROR_MAP(CODE)
#undef CODE
};

void uvhttp__metrics_rejected_name(int code, char *text, size_t size) {
    snprintf(text, size, "rejected_%s", uvhttp_error_name(code) + sizeof "UVHTTP_E_" - 1);
    uvhttp__text_lower(text);
}

void uvhttp_server_counters(const uvhttp_server_t *server,
                            void (*each)(const char *name, const char *help, uint64_t value, void *user), void *user) {
    uvhttp__counter_sums_t sums;
    if (!server || !each) return;
    uvhttp__metrics_read_counters(server, &sums);
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++)
        each(uvhttp__counter_row(i)->name, uvhttp__counter_row(i)->help, sums.values[i], user);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char name[64];
        uvhttp__metrics_rejected_name(codes[i], name, sizeof name);
        each(name, uvhttp_error_message(codes[i]), sums.errors[uvhttp__error_index(codes[i])], user);
    }
}

typedef struct wanted {
    const char *name;
    uint64_t value;
} wanted_t;

static void match_counter(const char *name, const char *help, uint64_t value, void *user) {
    wanted_t *wanted = user;
    (void)help;
    if (strcmp(name, wanted->name) == 0) wanted->value = value;
}

uint64_t uvhttp_server_counter(const uvhttp_server_t *server, const char *name) {
    wanted_t wanted = {.name = name};
    if (name) uvhttp_server_counters(server, match_counter, &wanted);
    return wanted.value;
}
