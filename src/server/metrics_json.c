/* Owns: a snapshot of metrics as JSON (docs/guide/metrics.md). */
#include "server/metrics_snapshot.h"

#define NS UINT64_C(1000000000)

static void number(uvhttp__writer_t *out, const char *name, uint64_t value) {
    uvhttp__write_key(out, name);
    if (value == UINT64_MAX)
        uvhttp__write_text(out, "null");
    else
        uvhttp__write_number(out, value);
}

static void seconds(uvhttp__writer_t *out, const char *name, uint64_t ns) {
    uvhttp__write_key(out, name);
    uvhttp__write_scaled(out, ns, NS, false);
}

static void boolean(uvhttp__writer_t *out, const char *name, bool value) {
    uvhttp__write_key(out, name);
    uvhttp__write_text(out, value ? "true" : "false");
}

static void array(uvhttp__writer_t *out, const char *name, const uint64_t *values, uint32_t count, uint64_t scale) {
    uvhttp__write_key(out, name);
    uvhttp__write_text(out, "[");
    for (uint32_t i = 0; i < count; i++) {
        uvhttp__write_comma(out);
        uvhttp__write_scaled(out, values[i], scale, false);
    }
    uvhttp__write_text(out, "]");
}

static void begin_item(uvhttp__writer_t *out) {
    uvhttp__write_comma(out);
    uvhttp__write_text(out, "{");
}

static void write_process(uvhttp__writer_t *out, const uvhttp_metrics_process_t *process) {
    uvhttp__write_key(out, "process");
    uvhttp__write_text(out, "{");
    seconds(out, "cpu_user_seconds", process->cpu_user_ns);
    seconds(out, "cpu_system_seconds", process->cpu_system_ns);
    number(out, "resident_bytes", process->resident_bytes);
    number(out, "virtual_bytes", process->virtual_bytes);
    number(out, "open_descriptors", process->open_descriptors);
    number(out, "max_descriptors", process->max_descriptors);
    number(out, "threads", process->threads);
    seconds(out, "start_time", process->start_unix_ns);
    uvhttp__write_text(out, "}");
}

static void write_metrics(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot) {
    uvhttp__write_key(out, "metrics");
    uvhttp__write_text(out, "{");
    for (uint32_t i = 0; i < snapshot->shown.metric_count; i++) {
        const uvhttp_metric_t *metric = &snapshot->rows[i].shown;
        uvhttp__write_key(out, metric->name);
        uvhttp__write_scaled(out, metric->value, metric->scale, false);
    }
    uvhttp__write_text(out, "}");
}

static void write_loops(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot) {
    uvhttp__write_key(out, "loops");
    uvhttp__write_text(out, "[");
    for (uint32_t i = 0; i < snapshot->shown.loop_count; i++) {
        const uvhttp_metrics_loop_t *loop = &snapshot->loops[i].shown;
        begin_item(out);
        number(out, "index", loop->index);
        number(out, "connections", loop->connections);
        number(out, "requests", loop->requests);
        number(out, "bytes_received", loop->bytes_received);
        number(out, "bytes_sent", loop->bytes_sent);
        number(out, "iterations", loop->iterations);
        seconds(out, "cpu_seconds", loop->cpu_ns);
        seconds(out, "busy_seconds", loop->busy_ns);
        uvhttp__write_text(out, "}");
    }
    uvhttp__write_text(out, "]");
}

static void write_times(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot) {
    uvhttp__write_key(out, "response_times_ns");
    uvhttp__write_text(out, "[");
    for (uint32_t i = 0; i < snapshot->shown.response_time_count; i++) {
        const uvhttp_metrics_bucket_t *bucket = &snapshot->response_times[i];
        uvhttp__write_comma(out);
        uvhttp__write_text(out, "[");
        uvhttp__write_number(out, bucket->low_ns);
        uvhttp__write_text(out, ",");
        uvhttp__write_number(out, bucket->high_ns);
        uvhttp__write_text(out, ",");
        uvhttp__write_number(out, bucket->count);
        uvhttp__write_text(out, "]");
    }
    uvhttp__write_text(out, "]");
}

static void write_one_series(uvhttp__writer_t *out, const uvhttp_metrics_series_t *series) {
    uvhttp__write_member(out, "route", series->route);
    uvhttp__write_member(out, "method", series->method);
    number(out, "status", series->status);
    uvhttp__write_member(out, "protocol", series->protocol);
    uvhttp__write_member(out, "scheme", series->scheme);
    uvhttp__write_member(out, "error_type", series->error_type);
    if (series->overflow) boolean(out, "overflow", true);
    number(out, "count", series->count);
    seconds(out, "duration_sum", series->duration_sum_ns);
    array(out, "duration_counts", series->duration_counts, UVHTTP__DURATION_COUNTS, 1);
    number(out, "request_body_sum", series->request_body_sum);
    array(out, "request_body_counts", series->request_body_counts, UVHTTP__SIZE_COUNTS, 1);
    number(out, "response_body_sum", series->response_body_sum);
    array(out, "response_body_counts", series->response_body_counts, UVHTTP__SIZE_COUNTS, 1);
}

static void write_series(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot) {
    array(out, "duration_bounds", uvhttp__duration_bounds, UVHTTP__DURATION_BOUNDS, NS);
    array(out, "size_bounds", uvhttp__size_bounds, UVHTTP__SIZE_BOUNDS, 1);
    uvhttp__write_key(out, "series");
    uvhttp__write_text(out, "[");
    for (uint32_t i = 0; i < snapshot->shown.series_count; i++) {
        begin_item(out);
        write_one_series(out, &snapshot->series[i].shown);
        uvhttp__write_text(out, "}");
    }
    uvhttp__write_text(out, "]");
}

void uvhttp__metrics_write_json(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot) {
    const uvhttp_metrics_snapshot_t *shown = &snapshot->shown;
    uvhttp__write_text(out, "{");
    uvhttp__write_member(out, "version", shown->version);
    uvhttp__write_member(out, "engine", shown->engine);
    boolean(out, "recording", shown->recording);
    seconds(out, "time", shown->time_unix_ns);
    seconds(out, "uptime", shown->uptime_ns);
    number(out, "connections", shown->connections);
    number(out, "active_requests", shown->active_requests);
    seconds(out, "work_queue_seconds", shown->work_queue_sum_ns);
    number(out, "work_queue_count", shown->work_queue_count);
    write_process(out, &snapshot->process);
    write_metrics(out, snapshot);
    write_loops(out, snapshot);
    write_times(out, snapshot);
    write_series(out, snapshot);
    uvhttp__write_text(out, "}");
}
