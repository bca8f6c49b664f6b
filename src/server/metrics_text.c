/* Owns: a snapshot of metrics as text: Prometheus 0.0.4, or OpenMetrics 1.0 with exemplars. */
#include "server/metrics_snapshot.h"

#define NS UINT64_C(1000000000)
#define FIRST_OTEL_BOUND (UVHTTP__DURATION_BOUNDS - UVHTTP__OTEL_BOUNDS)

typedef struct text {
    uvhttp__writer_t *out;
    bool openmetrics;
} text_t;

static void put(const text_t *text, const char *words) {
    uvhttp__write_text(text->out, words);
}

/* --- families --- */

static void put_comment(const text_t *text, const char *what, const char *family, const char *suffix,
                        const char *value) {
    put(text, what);
    put(text, family);
    put(text, suffix);
    put(text, " ");
    put(text, value);
    put(text, "\n");
}

/* A counter's name ends in _total; OpenMetrics leaves that out of the name of the family. */
static void begin_family(const text_t *text, const char *family, const char *type, const char *unit, const char *help) {
    const char *suffix = !text->openmetrics && strcmp(type, "counter") == 0 ? "_total" : "";
    put_comment(text, "# HELP ", family, suffix, help);
    put_comment(text, "# TYPE ", family, suffix, type);
    if (text->openmetrics && *unit) put_comment(text, "# UNIT ", family, suffix, unit);
}

static void begin_labels(const text_t *text, const char *family, const char *suffix) {
    put(text, family);
    put(text, suffix);
    put(text, "{");
}

static void put_label_value(const text_t *text, const char *value) {
    put(text, "\"");
    for (size_t plain; *value; value += plain) {
        plain = strcspn(value, "\"\\\n");
        uvhttp__write_bytes(text->out, value, plain);
        if (!value[plain]) break;
        put(text, value[plain] == '\n' ? "\\n" : value[plain] == '"' ? "\\\"" : "\\\\");
        plain++;
    }
    put(text, "\"");
}

static void put_label(const text_t *text, const char *name, const char *value) {
    const uvhttp__writer_t *out = text->out;
    if (!*value || out->failed) return;
    if (out->data[out->size - 1] != '{') put(text, ",");
    put(text, name);
    put(text, "=");
    put_label_value(text, value);
}

static void put_value(const text_t *text, uint64_t value, uint64_t scale) {
    put(text, "} ");
    uvhttp__write_scaled(text->out, value, scale, false);
}

static void end_sample(const text_t *text, uint64_t value, uint64_t scale) {
    put_value(text, value, scale);
    put(text, "\n");
}

/* --- counters and gauges --- */

static void put_metric(const text_t *text, const uvhttp_metric_t *metric, const char *family_before) {
    bool is_counter = metric->type == UVHTTP_METRIC_COUNTER;
    if (!family_before || strcmp(family_before, metric->family) != 0)
        begin_family(text, metric->family, is_counter ? "counter" : "gauge", metric->unit, metric->help);
    put(text, metric->family);
    if (is_counter) put(text, "_total");
    if (*metric->labels) {
        put(text, "{");
        put(text, metric->labels);
        put(text, "}");
    }
    put(text, " ");
    uvhttp__write_scaled(text->out, metric->value, metric->scale, false);
    put(text, "\n");
}

static void put_metrics(const text_t *text, const uvhttp__metrics_snapshot_t *snapshot) {
    const char *family = NULL;
    for (uint32_t i = 0; i < snapshot->shown.metric_count; i++) {
        put_metric(text, &snapshot->rows[i].shown, family);
        family = snapshot->rows[i].shown.family;
    }
}

/* --- loops --- */

typedef struct loop_family {
    const char *name, *type, *unit, *help;
    size_t offset; /* in uvhttp_metrics_loop_t */
    uint64_t scale;
} loop_family_t;

#define AT(field) offsetof(uvhttp_metrics_loop_t, field)
static const loop_family_t loop_families[] = {
    {"uvhttp_loop_connections", "gauge", "", "Open connections of a loop", AT(connections), 1},
    {"uvhttp_loop_requests", "counter", "", "Requests that a loop has received", AT(requests), 1},
    {"uvhttp_loop_received_bytes", "counter", "bytes", "Bytes that a loop has received", AT(bytes_received), 1},
    {"uvhttp_loop_sent_bytes", "counter", "bytes", "Bytes of a loop that sockets have accepted", AT(bytes_sent), 1},
    {"uvhttp_loop_iterations", "counter", "", "Iterations of a loop", AT(iterations), 1},
    {"uvhttp_loop_cpu_seconds", "counter", "seconds",
     "CPU time of a loop's thread, kernel included; its rate is the loop's utilisation", AT(cpu_ns), NS},
};
#undef AT

static void put_loop_label(const text_t *text, uint32_t index) {
    put(text, "loop=\"");
    uvhttp__write_number(text->out, index);
    put(text, "\"");
}

static void put_loop_family(const text_t *text, const uvhttp__metrics_snapshot_t *snapshot,
                            const loop_family_t *family) {
    if (snapshot->shown.loop_count == 0) return;
    begin_family(text, family->name, family->type, family->unit, family->help);
    for (uint32_t i = 0; i < snapshot->shown.loop_count; i++) {
        const char *loop = (const char *)&snapshot->loops[i].shown;
        uint64_t value;
        memcpy(&value, loop + family->offset, sizeof value);
        begin_labels(text, family->name, strcmp(family->type, "counter") == 0 ? "_total" : "");
        put_loop_label(text, snapshot->loops[i].shown.index);
        end_sample(text, value, family->scale);
    }
}

/* --- histograms --- */

/* What one histogram is of, and how its samples begin. */
typedef struct histogram {
    const char *family;
    void (*put_labels)(const text_t *text, const void *of);
    const void *of;
    const uint64_t *bounds, *counts;
    uint32_t bound_count; /* counts has one more */
    uint64_t scale, sum;
    const uvhttp__metrics_exemplar_t *exemplars;
} histogram_t;

static void put_exemplar(const text_t *text, const uvhttp__exemplar_view_t *exemplar) {
    put(text, " # {trace_id=\"");
    uvhttp__write_hex(text->out, exemplar->id.trace[0]);
    uvhttp__write_hex(text->out, exemplar->id.trace[1]);
    put(text, "\",span_id=\"");
    uvhttp__write_hex(text->out, exemplar->id.span);
    put(text, "\"");
    put_value(text, exemplar->duration_ns, NS);
    put(text, " ");
    uvhttp__write_scaled(text->out, exemplar->time_ns / 1000000, 1000, true);
}

/* The latest one that is in (above, bound]; NULL: there is none. */
static const uvhttp__exemplar_view_t *find_exemplar(const uvhttp__metrics_exemplar_t *exemplars, uint64_t above,
                                                    uint64_t bound) {
    const uvhttp__exemplar_view_t *found = NULL;
    for (; exemplars; exemplars = exemplars->next) {
        const uvhttp__exemplar_view_t *view = &exemplars->view;
        bool is_inside = view->duration_ns > above && view->duration_ns <= bound;
        if (is_inside && (!found || view->time_ns > found->time_ns)) found = view;
    }
    return found;
}

static void put_bucket(const text_t *text, const histogram_t *histogram, uint64_t above, uint64_t bound,
                       uint64_t count) {
    begin_labels(text, histogram->family, "_bucket");
    histogram->put_labels(text, histogram->of);
    if (!text->out->failed && text->out->data[text->out->size - 1] != '{') put(text, ",");
    put(text, "le=\"");
    if (bound == UINT64_MAX)
        put(text, "+Inf");
    else
        uvhttp__write_scaled(text->out, bound, histogram->scale, true);
    put(text, "\"");
    put_value(text, count, 1);
    const uvhttp__exemplar_view_t *exemplar =
        text->openmetrics ? find_exemplar(histogram->exemplars, above, bound) : NULL;
    if (exemplar) put_exemplar(text, exemplar);
    put(text, "\n");
}

/* Buckets before `first` are part of it. */
static void put_histogram(const text_t *text, const histogram_t *histogram, uint32_t first) {
    uint64_t count = 0, above = 0;
    for (uint32_t i = 0; i <= histogram->bound_count; i++) {
        count += histogram->counts[i];
        if (i < first) continue;
        uint64_t bound = i < histogram->bound_count ? histogram->bounds[i] : UINT64_MAX;
        put_bucket(text, histogram, above, bound, count);
        above = bound;
    }
    begin_labels(text, histogram->family, "_sum");
    histogram->put_labels(text, histogram->of);
    end_sample(text, histogram->sum, histogram->scale);
    begin_labels(text, histogram->family, "_count");
    histogram->put_labels(text, histogram->of);
    end_sample(text, count, 1);
}

/* --- iterations --- */

static void put_loop_labels(const text_t *text, const void *of) {
    put_loop_label(text, ((const uvhttp__metrics_loop_t *)of)->shown.index);
}

static void put_iterations(const text_t *text, const uvhttp__metrics_snapshot_t *snapshot) {
    static const char family[] = "uvhttp_loop_iteration_duration_seconds";
    if (!snapshot->shown.recording || snapshot->shown.loop_count == 0) return;
    begin_family(text, family, "histogram", "seconds",
                 "Duration of a loop's iterations, without waiting and sending; it delays all of their requests");
    for (uint32_t i = 0; i < snapshot->shown.loop_count; i++) {
        const uvhttp__metrics_loop_t *loop = &snapshot->loops[i];
        histogram_t histogram = {
            family, put_loop_labels,     loop, uvhttp__duration_bounds, loop->durations, UVHTTP__DURATION_BOUNDS,
            NS,     loop->shown.busy_ns, NULL};
        put_histogram(text, &histogram, 0);
    }
}

/* --- requests --- */

static void put_series_labels(const text_t *text, const void *of) {
    const uvhttp_metrics_series_t *series = of;
    char status[4] = "";
    if (series->status > 0 && series->status < 1000) {
        status[0] = (char)('0' + series->status / 100);
        status[1] = (char)('0' + series->status / 10 % 10);
        status[2] = (char)('0' + series->status % 10);
    }
    put_label(text, "http_request_method", series->method);
    put_label(text, "http_response_status_code", status);
    put_label(text, "http_route", series->route);
    put_label(text, "network_protocol_version", series->protocol);
    put_label(text, "url_scheme", series->scheme);
    put_label(text, "error_type", series->error_type);
    put_label(text, "otel_metric_overflow", series->overflow ? "true" : "");
}

static void put_durations(const text_t *text, const uvhttp__metrics_snapshot_t *snapshot) {
    static const char family[] = "http_server_request_duration_seconds";
    if (snapshot->shown.series_count == 0) return;
    begin_family(text, family, "histogram", "seconds",
                 "Duration of requests from the loop iteration that received the head until the response is queued");
    for (uint32_t i = 0; i < snapshot->shown.series_count; i++) {
        const uvhttp__metrics_series_t *series = &snapshot->series[i];
        histogram_t histogram = {family,
                                 put_series_labels,
                                 series,
                                 uvhttp__duration_bounds,
                                 series->durations,
                                 UVHTTP__DURATION_BOUNDS,
                                 NS,
                                 series->shown.duration_sum_ns,
                                 series->exemplars};
        put_histogram(text, &histogram, FIRST_OTEL_BOUND);
    }
}

static void put_sizes(const text_t *text, const uvhttp__metrics_snapshot_t *snapshot, bool of_responses) {
    const char *family = of_responses ? "http_server_response_body_size_bytes" : "http_server_request_body_size_bytes";
    if (snapshot->shown.series_count == 0) return;
    begin_family(text, family, "histogram", "bytes",
                 of_responses ? "Bytes of response bodies as sent, without framing" : "Bytes of request bodies");
    for (uint32_t i = 0; i < snapshot->shown.series_count; i++) {
        const uvhttp__metrics_series_t *series = &snapshot->series[i];
        histogram_t histogram = {family,
                                 put_series_labels,
                                 series,
                                 uvhttp__size_bounds,
                                 of_responses ? series->responses : series->requests,
                                 UVHTTP__SIZE_BOUNDS,
                                 1,
                                 of_responses ? series->shown.response_body_sum : series->shown.request_body_sum,
                                 NULL};
        put_histogram(text, &histogram, 0);
    }
}

/* --- the rest --- */

static void put_build(const text_t *text, const uvhttp_metrics_snapshot_t *shown) {
    const char *family = text->openmetrics ? "uvhttp_build" : "uvhttp_build_info";
    begin_family(text, family, text->openmetrics ? "info" : "gauge", "", "Version and backend");
    begin_labels(text, family, text->openmetrics ? "_info" : "");
    put_label(text, "version", shown->version);
    put_label(text, "engine", shown->engine);
    end_sample(text, 1, 1);
}

static void put_work_queue(const text_t *text, const uvhttp_metrics_snapshot_t *shown) {
    static const char family[] = "uvhttp_work_queue_duration_seconds";
    begin_family(text, family, "summary", "seconds", "How long jobs and handlers wait for a worker thread");
    put(text, "uvhttp_work_queue_duration_seconds_sum ");
    uvhttp__write_scaled(text->out, shown->work_queue_sum_ns, NS, false);
    put(text, "\nuvhttp_work_queue_duration_seconds_count ");
    uvhttp__write_number(text->out, shown->work_queue_count);
    put(text, "\n");
}

void uvhttp__metrics_write_text(uvhttp__writer_t *out, const uvhttp__metrics_snapshot_t *snapshot, bool openmetrics) {
    const text_t text = {out, openmetrics};
    put_build(&text, &snapshot->shown);
    put_durations(&text, snapshot);
    put_sizes(&text, snapshot, false);
    put_sizes(&text, snapshot, true);
    put_metrics(&text, snapshot);
    for (size_t i = 0; i < sizeof loop_families / sizeof *loop_families; i++)
        put_loop_family(&text, snapshot, &loop_families[i]);
    put_iterations(&text, snapshot);
    put_work_queue(&text, &snapshot->shown);
    if (openmetrics) put(&text, "# EOF\n");
}
