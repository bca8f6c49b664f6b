/* Owns: the JSON (docs/load.md lists its fields). May include: base, io, obs. */
#include "build_info.h"
#include "load/report.h"

static void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < ' ' || *c >= 127)
            fprintf(out, "\\u%04x", *c); /* a byte of who knows which encoding: Latin-1 cannot fail */
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

static void print_count(FILE *out, const char *name, uint64_t value) {
    fprintf(out, ", \"%s\": %llu", name, (unsigned long long)value);
}

static void print_flag(FILE *out, const char *name, bool value) {
    fprintf(out, ", \"%s\": %s", name, value ? "true" : "false");
}

static void print_real(FILE *out, const char *name, double value) {
    fprintf(out, ", \"%s\": %.9g", name, value);
}

/* Every bucket that is not empty, by its least value: whoever adds up buckets with the same least value has merged
 * exactly. */
static void print_buckets(FILE *out, const uvhttp__histogram_t *histogram) {
    const char *comma = "";
    fputs(", \"buckets\": [", out);
    for (unsigned i = 0; i < UVHTTP__HISTOGRAM_BUCKETS; i++) {
        uint64_t count = atomic_load_explicit(&histogram->buckets[i], memory_order_relaxed);
        if (count == 0) continue;
        fprintf(out, "%s[%llu, %llu]", comma, (unsigned long long)uvhttp__histogram_low(i), (unsigned long long)count);
        comma = ", ";
    }
    fputc(']', out);
}

static void print_histogram_open(FILE *out, const char *name, const char *unit, const uvhttp__histogram_t *histogram) {
    static const struct {
        const char *name;
        double percent;
    } percentiles[] = {{"p50", 50}, {"p75", 75},     {"p90", 90},      {"p95", 95},
                       {"p99", 99}, {"p99_9", 99.9}, {"p99_99", 99.99}};
    fprintf(out, ",\n  \"%s\": {\"unit\": \"%s\"", name, unit);
    print_count(out, "count", uvhttp__histogram_count(histogram));
    print_real(out, "mean", uvhttp__histogram_mean(histogram));
    print_real(out, "stdev", uvhttp__histogram_stdev(histogram));
    print_real(out, "within_stdev_percent", load_within_stdev(histogram));
    print_count(out, "min", uvhttp__histogram_min(histogram));
    print_count(out, "max", uvhttp__histogram_max(histogram));
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
        print_count(out, percentiles[i].name, uvhttp__histogram_percentile(histogram, percentiles[i].percent));
    print_buckets(out, histogram);
}

static void print_histogram(FILE *out, const char *name, const char *unit, const uvhttp__histogram_t *histogram) {
    print_histogram_open(out, name, unit, histogram);
    fputc('}', out);
}

static void print_options(const load_options_t *options, FILE *out) {
    fprintf(out, ",\n  \"options\": {\"loop\": \"%s\"", options->is_open ? "open" : "closed");
    print_count(out, "threads", options->threads);
    print_count(out, "connections", options->connections);
    print_count(out, "pipeline", options->pipeline);
    if (options->scheme == LOAD_HTTP) print_flag(out, "http2", options->http2);
    print_real(out, "duration_s", (double)options->duration_ns / 1e9);
    print_real(out, "warmup_s", (double)options->warmup_ns / 1e9);
    fprintf(out, ", \"warmup_auto\": %s", options->warmup_auto ? "true" : "false");
    print_count(out, "requests", options->requests);
    print_real(out, "rate", options->rate);
    fprintf(out, ", \"arrivals\": \"%s\"", options->arrivals == LOAD_POISSON ? "poisson" : "constant");
    print_count(out, "seed", options->seed);
    print_real(out, "think_s", (double)options->think_ns / 1e9);
    print_count(out, "requests_per_connection", options->requests_per_connection);
    print_count(out, "send_rate", options->send_rate);
    print_count(out, "receive_rate", options->receive_rate);
    print_real(out, "timeout_s", (double)options->timeout_ns / 1e9);
    if (options->scheme != LOAD_HTTP || options->echo) print_count(out, "payload_size", options->payload_size);
    if (options->scheme == LOAD_HTTP) {
        fprintf(out, ", \"echo\": %s", options->echo ? "true" : "false");
        fputs(", \"method\": ", out);
        print_text(out, options->method);
        print_count(out, "body_size", options->body_size);
    }
    fputc('}', out);
}

static void print_results(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    double elapsed = load_elapsed_s(result), per_second = elapsed > 0 ? 1 / elapsed : 0;
    fprintf(out, ",\n  \"results\": {\"elapsed_s\": %.9g", elapsed);
    print_count(out, "requests", stats->requests);
    print_count(out, "answers", stats->responses);
    print_real(out, "requests_per_second", (double)stats->responses * per_second);
    print_count(out, "bytes", stats->bytes);
    print_real(out, "bytes_per_second", (double)stats->bytes * per_second);
    print_count(out, "unanswered", stats->pending);
    print_count(out, "connections_opened", stats->connections);
    print_count(out, "answers_total", stats->responses_total);
    const char *comma = "";
    fputs(", \"statuses\": {", out);
    for (int status = 100; status < LOAD_STATUS_MAX; status++) {
        if (stats->statuses[status] == 0) continue;
        fprintf(out, "%s\"%d\": %llu", comma, status, (unsigned long long)stats->statuses[status]);
        comma = ", ";
    }
    fprintf(out, "}, \"errors\": {\"total\": %llu", (unsigned long long)load_stats_errors(stats));
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++) print_count(out, load_error_names[kind], stats->errors[kind]);
    comma = "";
    fputs("}, \"first_errors\": {", out);
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++) {
        if (stats->errors[kind] == 0) continue;
        fprintf(out, "%s\"%s\": ", comma, load_error_names[kind]);
        print_text(out, stats->examples[kind]);
        comma = ", ";
    }
    fputs("}}", out);
}

static void print_generator(const load_result_t *result, FILE *out) {
    const load_cpu_t *cpu = &result->stats->cpu;
    fprintf(out, ",\n  \"generator\": {\"engine\": \"%s\"", result->engine);
    print_real(out, "cpu_user_s", (double)cpu->user_ns / 1e9);
    print_real(out, "cpu_system_s", (double)cpu->system_ns / 1e9);
    print_real(out, "cpu_us_per_request", load_cpu_us_per_response(result));
    print_real(out, "busiest_thread", result->busiest);
    print_count(out, "context_switches", cpu->switches);
    fprintf(out, ", \"saturated\": %s", result->busiest > LOAD_SATURATED ? "true" : "false");
    if (!result->options->is_open) print_real(out, "waiting_share", load_waiting_share(result));
    if (result->options->is_open) {
        print_count(out, "late_p99_ns", uvhttp__histogram_percentile(&result->stats->lateness, 99));
        print_count(out, "late_max_ns", uvhttp__histogram_max(&result->stats->lateness));
    }
    fputc('}', out);
}

static void print_warmup(const load_warmup_t *warmup, FILE *out) {
    fprintf(out, ",\n  \"warmup\": {\"steady\": %s", warmup->is_steady ? "true" : "false");
    print_real(out, "elapsed_s", (double)warmup->elapsed_ns / 1e9);
    print_count(out, "slices", warmup->steady.slices);
    print_real(out, "apart", warmup->steady.apart);
    fputc('}', out);
}

static void print_samples(const load_result_t *result, FILE *out) {
    fputs(",\n  \"samples\": [", out);
    for (uint32_t i = 0; i < result->sample_count; i++) {
        const load_sample_t *sample = &result->samples[i];
        fprintf(out, "%s\n    {\"at_s\": %.6f, \"seconds\": %.6f", i > 0 ? "," : "", sample->at_s, sample->seconds);
        print_count(out, "answers", sample->responses);
        print_count(out, "errors", sample->errors);
        print_real(out, "mean", sample->mean_ns);
        print_count(out, "p50", sample->p50_ns);
        print_count(out, "p99", sample->p99_ns);
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_stages(const load_result_t *result, FILE *out) {
    const char *comma = "";
    if (result->stats->stage_count == 0) return;
    fputs(",\n  \"stages\": [", out);
    for (uint32_t i = 0; i < result->stats->stage_count; i++) {
        const load_stage_t *stage = &result->options->stages.items[i];
        const load_stage_stats_t *stats = &result->stats->stages[i];
        const uvhttp__histogram_t *latency = &stats->latency;
        fprintf(out, "%s\n    {\"begin_s\": %.9g", comma, (double)stage->start_ns / 1e9);
        comma = ",";
        print_real(out, "duration_s", (double)stage->duration_ns / 1e9);
        print_real(out, "rate_begin", stage->rate_begin);
        print_real(out, "rate_end", stage->rate_end);
        print_count(out, "due", stats->due);
        print_count(out, "requests", uvhttp__histogram_count(latency));
        print_count(out, "errors", stats->errors);
        print_real(out, "mean", uvhttp__histogram_mean(latency));
        print_count(out, "p50", uvhttp__histogram_percentile(latency, 50));
        print_count(out, "p99", uvhttp__histogram_percentile(latency, 99));
        print_count(out, "max", uvhttp__histogram_max(latency));
        fputc('}', out);
    }
    fputc(']', out);
}

static void print_slo(const load_result_t *result, FILE *out) {
    const load_slo_t *slo = &result->options->slo;
    double elapsed = load_elapsed_s(result);
    if (slo->count == 0) return;
    fprintf(out, ",\n  \"slo\": {\"met\": %s, \"objectives\": [",
            load_slo_met(slo, result->stats, elapsed) ? "true" : "false");
    for (uint32_t i = 0; i < slo->count; i++) {
        const load_objective_t *objective = &slo->items[i];
        fprintf(out, "%s{\"objective\": ", i > 0 ? ", " : "");
        print_text(out, objective->text);
        print_real(out, "bound", objective->bound);
        print_real(out, "value", load_objective_value(objective, result->stats, elapsed));
        fprintf(out, ", \"met\": %s}", load_objective_met(objective, result->stats, elapsed) ? "true" : "false");
    }
    fputs("]}", out);
}

static void print_capacity(const load_capacity_t *capacity, FILE *out) {
    if (!capacity) return;
    fprintf(out, ",\n  \"capacity\": {\"rate\": %.9g", capacity->rate);
    print_flag(out, "confirmed", capacity->confirmed);
    print_flag(out, "lower_bound", capacity->lower_bound);
    print_flag(out, "out_of_time", capacity->out_of_time);
    print_flag(out, "generator_limited", capacity->generator_limited);
    print_flag(out, "connections_limited", capacity->connections_limited);
    print_real(out, "elapsed_s", capacity->elapsed_s);
    fputs(", \"probes\": [", out);
    for (uint32_t i = 0; i < capacity->count; i++) {
        const load_probe_t *probe = &capacity->probes[i];
        fprintf(out, "%s\n    {\"rate\": %.9g", i > 0 ? "," : "", probe->rate);
        print_flag(out, "met", probe->met);
        print_flag(out, "generator_limited", probe->generator_limited);
        print_flag(out, "connections_limited", probe->connections_limited);
        print_count(out, "requests", probe->requests);
        print_count(out, "errors", probe->errors);
        print_count(out, "p99", probe->p99_ns);
        fputc('}', out);
    }
    fputs("]}", out);
}

void load_report_json(const load_result_t *result, FILE *out) {
    fprintf(out, "{\"schema\": \"uvhttp-load/1\", \"version\": \"%s\"", UVHTTP_BUILD_VERSION);
    fprintf(out, ", \"interrupted\": %s,\n  \"target\": {\"url\": ", result->interrupted ? "true" : "false");
    print_text(out, result->options->url);
    fputs(", \"address\": ", out);
    print_text(out, result->plan->address);
    fputc('}', out);
    print_options(result->options, out);
    if (result->warmup) print_warmup(result->warmup, out);
    fprintf(out, ",\n  \"verification\": {\"status\": %s, \"body\": \"%s\"}",
            result->options->scheme == LOAD_HTTP ? "true" : "false", load_verification(result->options));
    print_results(result, out);
    print_generator(result, out);
    print_histogram_open(out, "latency", "ns", &result->stats->latency);
    print_count(out, "timeouts_included", result->stats->timeouts_included);
    fputc('}', out);
    if (result->options->is_open) print_histogram(out, "latency_uncorrected", "ns", &result->stats->service);
    print_histogram(out, "connect", "ns", &result->stats->connect);
    print_histogram(out, "rate_samples", "1/s", &result->stats->rates);
    print_samples(result, out);
    print_stages(result, out);
    print_slo(result, out);
    print_capacity(result->capacity, out);
    fputs("\n}\n", out);
}
