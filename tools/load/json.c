/* Owns: the JSON (docs/load.md lists its fields). May include: base, io, obs. */
#include "build_info.h"
#include "load/report.h"

static void print_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < ' ' || *c >= 127)
            fprintf(out, "\\u%04x", *c); /* a byte of who knows which encoding: Latin-1 can not fail */
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

static void print_count(FILE *out, const char *name, uint64_t value) {
    fprintf(out, ", \"%s\": %llu", name, (unsigned long long)value);
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

static void print_histogram(FILE *out, const char *name, const char *unit, const uvhttp__histogram_t *histogram) {
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
    fputc('}', out);
}

static void print_options(const load_options_t *options, FILE *out) {
    fprintf(out, ",\n  \"options\": {\"loop\": \"%s\"", options->rate > 0 ? "open" : "closed");
    print_count(out, "threads", options->threads);
    print_count(out, "connections", options->connections);
    print_count(out, "pipeline", options->pipeline);
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
    if (options->scheme != LOAD_HTTP) {
        print_count(out, "payload_size", options->payload_size);
    } else {
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
    print_count(out, "answers", stats->answers);
    print_real(out, "requests_per_second", (double)stats->answers * per_second);
    print_count(out, "bytes", stats->bytes);
    print_real(out, "bytes_per_second", (double)stats->bytes * per_second);
    print_count(out, "unanswered", stats->unanswered);
    print_count(out, "connections_opened", stats->connections);
    print_count(out, "answers_total", stats->answers_total);
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
    print_real(out, "cpu_us_per_request", load_cpu_us_per_answer(result));
    print_real(out, "busiest_thread", result->busiest);
    print_count(out, "context_switches", cpu->switches);
    fprintf(out, ", \"saturated\": %s", result->busiest > LOAD_SATURATED ? "true" : "false");
    if (!(result->options->rate > 0)) print_real(out, "waiting_share", load_waiting_share(result));
    fputc('}', out);
}

static void print_warmup(const load_warmup_t *warmup, FILE *out) {
    fprintf(out, ",\n  \"warmup\": {\"steady\": %s", warmup->is_steady ? "true" : "false");
    print_real(out, "elapsed_s", (double)warmup->elapsed_ns / 1e9);
    print_count(out, "slices", warmup->steady.slices);
    print_real(out, "apart", warmup->steady.apart);
    fputc('}', out);
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
    print_results(result, out);
    print_generator(result, out);
    print_histogram(out, "latency", "ns", &result->stats->latency);
    if (result->options->rate > 0) print_histogram(out, "latency_uncorrected", "ns", &result->stats->service);
    print_histogram(out, "connect", "ns", &result->stats->connect);
    print_histogram(out, "rate_samples", "1/s", &result->stats->rates);
    fputs("\n}\n", out);
}
