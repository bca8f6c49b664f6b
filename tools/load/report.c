/* Owns: the text, in the words of wrk where it says the same. May include: base, io, obs. */
#include "load/report.h"

#include <string.h>

double load_elapsed_s(const load_result_t *result) {
    return (double)(result->stats->end_ns - result->stats->begin_ns) / 1e9;
}

double load_cpu_us_per_answer(const load_result_t *result) {
    const load_stats_t *stats = result->stats;
    double ns = (double)(stats->cpu.user_ns + stats->cpu.system_ns);
    return stats->answers ? ns / 1000 / (double)stats->answers : 0;
}

double load_waiting_share(const load_result_t *result) {
    const load_options_t *options = result->options;
    double ns = uvhttp__histogram_mean(&result->stats->latency) * (double)result->stats->requests;
    double all = load_elapsed_s(result) * 1e9 * options->connections * options->pipeline;
    return all > 0 ? ns / all : 0;
}

/* --- units, as wrk writes them --- */

typedef char text_t[24];

static const char *write_unit(text_t text, double value, const char *const *units, double step) {
    while (units[1] && value >= step * 0.995) {
        value /= step;
        units++;
    }
    snprintf(text, sizeof(text_t), "%.2f%s", value, *units);
    return text;
}

static const char *write_time(text_t text, double ns) {
    static const char *const units[] = {"us", "ms", "s", NULL};
    return write_unit(text, ns / 1000, units, 1000);
}

static const char *write_count(text_t text, double value) {
    static const char *const units[] = {"", "k", "M", "G", NULL};
    return write_unit(text, value, units, 1000);
}

static const char *write_bytes(text_t text, double value) {
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", NULL};
    return write_unit(text, value, units, 1024);
}

/* --- parts --- */

static void print_row(FILE *out, const char *name, const uvhttp__histogram_t *values,
                      const char *(*write)(text_t text, double value)) {
    text_t mean, stdev, max;
    fprintf(out, "    %-9s%9s %9s %9s %9.2f%%\n", name, write(mean, uvhttp__histogram_mean(values)),
            write(stdev, uvhttp__histogram_stdev(values)), write(max, (double)uvhttp__histogram_max(values)),
            load_within_stdev(values));
}

static void print_percentiles(FILE *out, const char *title, const uvhttp__histogram_t *values) {
    static const double percents[] = {50, 75, 90, 95, 99, 99.9, 99.99};
    fprintf(out, "  %s\n", title);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        text_t text;
        fprintf(out, "%7.5g%% %9s\n", percents[i],
                write_time(text, (double)uvhttp__histogram_percentile(values, percents[i])));
    }
}

static void print_head(const load_result_t *result, FILE *out) {
    const load_options_t *options = result->options;
    text_t duration, rate;
    if (options->requests > 0)
        fprintf(out, "Running %llu requests", (unsigned long long)options->requests);
    else
        fprintf(out, "Running %s test", write_time(duration, (double)options->duration_ns));
    fprintf(out, " @ %s (%s)\n", options->url, result->plan->address);
    fprintf(out, "  %u threads and %u connections", options->threads, options->connections);
    if (options->pipeline > 1) fprintf(out, ", pipelines of %u", options->pipeline);
    if (options->rate > 0)
        fprintf(out, ", open loop: %s/s, %s arrivals", write_count(rate, options->rate),
                options->arrivals == LOAD_POISSON ? "Poisson" : "constant");
    else
        fputs(", closed loop", out);
    fprintf(out, "; %s\n", result->engine);
}

static void print_errors(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    const uint64_t *errors = stats->errors;
    if (load_stats_errors(stats) == 0) return;
    if (errors[LOAD_ERROR_connect] + errors[LOAD_ERROR_read] + errors[LOAD_ERROR_write] + errors[LOAD_ERROR_timeout])
        fprintf(out, "  Socket errors: connect %llu, read %llu, write %llu, timeout %llu\n",
                (unsigned long long)errors[LOAD_ERROR_connect], (unsigned long long)errors[LOAD_ERROR_read],
                (unsigned long long)errors[LOAD_ERROR_write], (unsigned long long)errors[LOAD_ERROR_timeout]);
    for (int kind = 0; kind < LOAD_ERROR_KINDS; kind++)
        if (errors[kind] > 0)
            fprintf(out, "  %llu %s errors (%s), the first: %s\n", (unsigned long long)errors[kind],
                    load_error_names[kind], load_error_whats[kind], stats->examples[kind]);
}

static void print_generator(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    fprintf(out, "  Generator: %.2f us of CPU per request, busiest thread %.0f%%, %llu context switches\n",
            load_cpu_us_per_answer(result), result->busiest * 100, (unsigned long long)stats->cpu.switches);
    if (result->busiest > LOAD_SATURATED)
        fputs("  The generator was saturated: these figures are its own, not the server's; more threads (-t) if there "
              "are processors\n",
              out);
}

static void print_warmup(const load_warmup_t *warmup, FILE *out) {
    text_t text;
    fprintf(out, "  Warm-up of %s", write_time(text, (double)warmup->elapsed_ns));
    if (warmup->steady.slices >= LOAD_STEADY_SLICES)
        fprintf(out, ", then the latency of half a second was %.1f%% from that of the one before",
                warmup->steady.apart * 100);
    fputs(warmup->is_steady ? "\n" : ": not steady yet\n", out);
}

void load_report_text(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    double elapsed = load_elapsed_s(result), per_second = elapsed > 0 ? 1 / elapsed : 0;
    bool is_open = result->options->rate > 0;
    text_t text, rate;
    print_head(result, out);
    if (result->warmup) print_warmup(result->warmup, out);
    fputs("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n", out);
    print_row(out, "Latency", &stats->latency, write_time);
    print_row(out, "Req/Sec", &stats->rates, write_count);
    print_percentiles(out,
                      is_open ? "Latency Distribution, from the moment that a request was due" : "Latency Distribution",
                      &stats->latency);
    if (is_open) print_percentiles(out, "Uncorrected: from the moment that it was sent", &stats->service);
    fprintf(out, "  %llu requests in %s, %s read\n", (unsigned long long)stats->requests,
            write_time(text, elapsed * 1e9), write_bytes(rate, (double)stats->bytes));
    if (stats->connections > result->options->connections)
        fprintf(out, "  %llu connections opened, %s on average\n", (unsigned long long)stats->connections,
                write_time(text, uvhttp__histogram_mean(&stats->connect)));
    print_errors(result, out);
    print_generator(result, out);
    if (result->interrupted) fputs("  Interrupted: this is what there was until then\n", out);
    fprintf(out, "Requests/sec: %10.2f\nTransfer/sec: %10s\n", (double)stats->answers * per_second,
            write_bytes(text, (double)stats->bytes * per_second));
}
