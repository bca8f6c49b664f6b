/* Owns: the text, in the words of wrk where it says the same. May include: base, io, obs. */
#include "load/report.h"

#include <string.h>

#include "load/bars.h"
#include "load/units.h"

double load_elapsed_s(const load_result_t *result) {
    return (double)(result->stats->end_ns - result->stats->start_ns) / 1e9;
}

double load_cpu_us_per_response(const load_result_t *result) {
    const load_stats_t *stats = result->stats;
    double ns = (double)(stats->cpu.user_ns + stats->cpu.system_ns);
    return stats->responses ? ns / 1000 / (double)stats->responses : 0;
}

double load_waiting_share(const load_result_t *result) {
    const load_options_t *options = result->options;
    double ns = uvhttp__histogram_mean(&result->stats->latency) * (double)result->stats->requests;
    double all = load_elapsed_s(result) * 1e9 * options->connections * options->pipeline;
    return all > 0 ? ns / all : 0;
}

const char *load_verification(const load_options_t *options) {
    if (options->echo || options->scheme != LOAD_HTTP) return "echo";
    if (options->expects_hash) return "expected";
    if (options->verify == LOAD_VERIFY_FIRST) return "first";
    return options->expects_length ? "length" : "none";
}

/* --- parts --- */

static void print_row(FILE *out, const char *name, const uvhttp__histogram_t *values,
                      const char *(*write)(load_text_t text, double value)) {
    load_text_t mean, stdev, max;
    fprintf(out, "    %-9s%9s %9s %9s %9.2f%%\n", name, write(mean, uvhttp__histogram_mean(values)),
            write(stdev, uvhttp__histogram_stdev(values)), write(max, (double)uvhttp__histogram_max(values)),
            load_within_stdev(values));
}

static void print_percentiles(FILE *out, const char *title, const uvhttp__histogram_t *values) {
    static const double percents[] = {50, 75, 90, 95, 99, 99.9, 99.99};
    fprintf(out, "  %s\n", title);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        load_text_t text;
        fprintf(out, "%7.5g%% %9s\n", percents[i],
                load_write_time(text, (double)uvhttp__histogram_percentile(values, percents[i])));
    }
}

static void print_head(const load_result_t *result, FILE *out) {
    const load_options_t *options = result->options;
    load_text_t duration, rate;
    if (options->requests > 0)
        fprintf(out, "Running %llu requests", (unsigned long long)options->requests);
    else
        fprintf(out, "Running %s test", load_write_time(duration, (double)options->duration_ns));
    fprintf(out, " @ %s (%s)\n", options->url, result->plan->address);
    fprintf(out, "  %u threads and %u connections", options->threads, options->connections);
    if (options->http2)
        fprintf(out, ", HTTP/2, %u streams each", options->pipeline);
    else if (options->pipeline > 1)
        fprintf(out, ", pipelines of %u", options->pipeline);
    const char *arrivals = options->arrivals == LOAD_POISSON ? "Poisson" : "constant";
    if (options->stages.count > 0)
        fprintf(out, ", open loop: %u stages, %s arrivals", options->stages.count, arrivals);
    else if (options->is_open)
        fprintf(out, ", open loop: %s/s, %s arrivals", load_write_count(rate, options->rate), arrivals);
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
            load_cpu_us_per_response(result), result->busiest * 100, (unsigned long long)stats->cpu.switches);
    if (result->busiest > LOAD_SATURATED)
        fputs("  The generator was saturated: these figures are its own, not the server's; more threads (-t) if there "
              "are processors\n",
              out);
}

static void print_warmup(const load_warmup_t *warmup, FILE *out) {
    load_text_t text;
    fprintf(out, "  Warm-up of %s", load_write_time(text, (double)warmup->elapsed_ns));
    if (warmup->steady.slices >= LOAD_STEADY_SLICES)
        fprintf(out, ", then the latency of half a second was %.1f%% from that of the one before",
                warmup->steady.apart * 100);
    fputs(warmup->is_steady ? "\n" : ": not steady yet\n", out);
}

static void print_bars(const load_result_t *result, FILE *out) {
    if (result->stats->requests == 0) return;
    fputs("  Latency Histogram\n", out);
    load_bars_print(&result->stats->latency, out);
    if (result->stats->timeouts_included > 0)
        fprintf(out, "  Latencies include %llu requests without a response, with the time that they waited\n",
                (unsigned long long)result->stats->timeouts_included);
}

static void print_stages(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    if (stats->stage_count == 0) return;
    fputs("  Stage      Time        Rate          Due      Errors       P50       P99       Max\n", out);
    for (uint32_t i = 0; i < stats->stage_count; i++) {
        const load_stage_t *stage = &result->options->stages.items[i];
        const uvhttp__histogram_t *latency = &stats->stages[i].latency;
        load_text_t from, to, time, p50, p99, max;
        if (stage->duration_ns == 0) continue;
        fprintf(out, "  %5u %9s %8s-%-8s %8llu %11llu %9s %9s %9s\n", i + 1,
                load_write_time(time, (double)stage->duration_ns), load_write_count(from, stage->rate_begin),
                load_write_count(to, stage->rate_end), (unsigned long long)stats->stages[i].due,
                (unsigned long long)stats->stages[i].errors,
                load_write_time(p50, (double)uvhttp__histogram_percentile(latency, 50)),
                load_write_time(p99, (double)uvhttp__histogram_percentile(latency, 99)),
                load_write_time(max, (double)uvhttp__histogram_max(latency)));
    }
}

static void print_slo(const load_result_t *result, FILE *out) {
    const load_slo_t *slo = &result->options->slo;
    double elapsed = load_elapsed_s(result);
    for (uint32_t i = 0; i < slo->count; i++) {
        const load_objective_t *objective = &slo->items[i];
        double value = load_objective_value(objective, result->stats, elapsed);
        load_text_t text;
        switch (objective->metric) {
            case LOAD_METRIC_ERROR_SHARE: snprintf(text, sizeof text, "%.4g%%", value * 100); break;
            case LOAD_METRIC_ERRORS: snprintf(text, sizeof text, "%.0f", value); break;
            case LOAD_METRIC_RATE: load_write_count(text, value); break;
            default: load_write_time(text, value);
        }
        fprintf(out, "  SLO %-16s %s: %s\n", objective->text,
                load_objective_met(objective, result->stats, elapsed) ? "met" : "MISSED",
                result->stats->responses ? text : "no response");
    }
}

static void print_capacity(const load_capacity_t *capacity, FILE *out) {
    if (!(capacity->rate > 0)) {
        fputs("Capacity: no rate that was tried meets the objectives\n", out);
        return;
    }
    fprintf(out,
            capacity->confirmed ? "Capacity: %s%.0f requests/s\n"
                                : "Capacity: not confirmed, about %s%.0f requests/s\n",
            capacity->lower_bound ? ">= " : "", capacity->rate);
    if (capacity->generator_limited)
        fputs("  The generator was the limit, not the server: the server may do more\n", out);
    else if (capacity->lower_bound)
        fprintf(out, "  %s before the search ended: the server may do more\n",
                capacity->out_of_time ? "The time was up" : "Interrupted");
    else if (capacity->connections_limited)
        fputs("  Beyond it requests wait for a free connection: with more connections (-c) it may be higher\n", out);
}

void load_report_text(const load_result_t *result, FILE *out) {
    const load_stats_t *stats = result->stats;
    double elapsed = load_elapsed_s(result), per_second = elapsed > 0 ? 1 / elapsed : 0;
    bool is_open = result->options->is_open;
    load_text_t text, rate;
    print_head(result, out);
    if (result->warmup) print_warmup(result->warmup, out);
    fputs("  Thread Stats   Avg      Stdev     Max   +/- Stdev\n", out);
    print_row(out, "Latency", &stats->latency, load_write_time);
    print_row(out, "Req/Sec", &stats->rates, load_write_count);
    print_percentiles(out,
                      is_open ? "Latency Distribution, from the moment that a request was due" : "Latency Distribution",
                      &stats->latency);
    if (is_open) print_percentiles(out, "Uncorrected: from the moment that it was sent", &stats->service);
    print_bars(result, out);
    print_stages(result, out);
    fprintf(out, "  %llu requests in %s, %s read\n", (unsigned long long)stats->requests,
            load_write_time(text, elapsed * 1e9), load_write_bytes(rate, (double)stats->bytes));
    if (stats->connections > result->options->connections)
        fprintf(out, "  %llu connections opened, %s on average\n", (unsigned long long)stats->connections,
                load_write_time(text, uvhttp__histogram_mean(&stats->connect)));
    print_errors(result, out);
    print_generator(result, out);
    print_slo(result, out);
    if (result->interrupted) fputs("  Interrupted: this is what there was until then\n", out);
    fprintf(out, "Requests/sec: %10.2f\nTransfer/sec: %10s\n", (double)stats->responses * per_second,
            load_write_bytes(text, (double)stats->bytes * per_second));
    if (result->capacity) print_capacity(result->capacity, out);
}
