/* Owns: the comparison of two results. May include: base, io. */
#include "load/compare.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "load/json_read.h"
#include "load/units.h"

/* --- statistics --- */

typedef struct series {
    double mean, variance, count; /* of the logarithms; count: as if they were independent of each other */
    size_t used;
} series_t;

/* Seconds that have no rate: those behind the window, in which an open loop waits for its last responses. */
#define NO_RATE (-1)

/* A latency of zero is one of a second without a response, which has none. */
static bool counts(double value, bool is_rate) {
    return is_rate ? value >= 0 : value > 0;
}

/* Of latencies the mean is that of the logarithms; of rates it is the logarithm of the mean, because a second without a
 * response counts too. */
static double mean_of(const double *values, size_t count, bool is_rate, size_t *used) {
    double sum = 0;
    *used = 0;
    for (size_t i = 0; i < count; i++) {
        if (!counts(values[i], is_rate)) continue;
        sum += is_rate ? values[i] : log(values[i]);
        ++*used;
    }
    double mean = *used > 0 ? sum / (double)*used : 0;
    return is_rate ? log(mean) : mean;
}

static double distance_of(double value, double mean, bool is_rate) {
    if (!is_rate) return log(value) - mean;
    return value > 0 ? value / exp(mean) - 1 : -1; /* the slope of the logarithm at the mean */
}

static series_t describe(const double *values, size_t count, bool is_rate) {
    series_t series = {.used = 0};
    double squares = 0, products = 0, before = 0;
    series.mean = mean_of(values, count, is_rate, &series.used);
    if (series.used < 2) return series;
    for (size_t i = 0; i < count; i++) {
        if (!counts(values[i], is_rate)) continue;
        double distance = distance_of(values[i], series.mean, is_rate);
        squares += distance * distance;
        products += distance * before;
        before = distance;
    }
    series.variance = squares / (double)(series.used - 1);
    double correlation = squares > 0 ? products / squares : 0;
    series.count = (double)series.used;
    if (correlation > 0) series.count *= (1 - correlation) / (1 + correlation);
    if (series.count < 2) series.count = 2;
    return series;
}

/* The 97.5 % quantile of Student's distribution: its expansion around the normal one, and a factor for what that misses
 * of few degrees. Within 0.4 % from 1 degree on. */
static double student(double degrees) {
    static const double z = 1.959964, missing = 0.269;
    double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, cube = degrees * degrees * degrees;
    double expansion = z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
                       (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * cube);
    return expansion * exp(missing / cube);
}

static load_ratio_t ratio_of(series_t a, series_t b) {
    load_ratio_t ratio = {.ratio = exp(b.mean - a.mean)};
    if (a.used < LOAD_COMPARED_SAMPLES_MIN || b.used < LOAD_COMPARED_SAMPLES_MIN || isnan(ratio.ratio)) return ratio;
    double x = a.variance / a.count, y = b.variance / b.count, error = sqrt(x + y);
    double degrees = x + y > 0 ? (x + y) * (x + y) / (x * x / (a.count - 1) + y * y / (b.count - 1)) : 1e9;
    double reach = error > 0 ? student(degrees < 1 ? 1 : degrees) * error : 0;
    ratio.low = ratio.ratio * exp(-reach);
    ratio.high = ratio.ratio * exp(reach);
    ratio.has_interval = true;
    return ratio;
}

load_ratio_t load_ratio_of(load_samples_kind_t kind, const double *a, size_t a_count, const double *b, size_t b_count) {
    return ratio_of(describe(a, a_count, kind == LOAD_SAMPLES_RATES), describe(b, b_count, kind == LOAD_SAMPLES_RATES));
}

/* --- results --- */

enum { RATE, MEAN, P50, P99, SERIES };

typedef struct result {
    const char *path;
    char *text;
    double *samples[SERIES];
    size_t count;
    double errors, error_share;
    bool is_open;
} result_t;

static bool is_result(const char *text) {
    const char *schema = load_json_skip(text) ? load_json_find(text, "schema") : NULL;
    double number;
    return schema && strncmp(schema, "\"uvhttp-load/1\"", 15) == 0 &&
           load_json_number(text, "results.requests_per_second", &number) &&
           load_json_number(text, "results.answers", &number) && load_json_number(text, "latency.p99", &number) &&
           load_json_number(text, "results.errors.total", &number);
}

/* How much of a sample has to be within the window for a rate. */
#define WITHIN_MIN 0.9

static double rate_of(const char *sample, double seconds, double window_s) {
    double at_s = 0, responses = 0;
    (void)load_json_number(sample, "at_s", &at_s);
    (void)load_json_number(sample, "answers", &responses);
    bool is_within = window_s - (at_s - seconds) >= WITHIN_MIN * seconds;
    return is_within ? responses / seconds : NO_RATE;
}

/* Of the whole seconds: a shorter rest at the end would count as much as they do. */
static bool read_samples(result_t *result) {
    double window_s = HUGE_VAL;
    (void)load_json_number(result->text, "results.elapsed_s", &window_s);
    const char *samples = load_json_find(result->text, "samples"), *first = samples ? load_json_first(samples) : NULL;
    size_t count = 0;
    for (const char *at = first; at; at = load_json_next(at)) count++;
    for (int i = 0; i < SERIES; i++) {
        result->samples[i] = uvhttp__calloc(count + 1, sizeof(double));
        if (!result->samples[i]) return false;
    }
    for (const char *at = first; at; at = load_json_next(at)) {
        double seconds = 0, mean = 0, p50 = 0, p99 = 0;
        (void)(load_json_number(at, "seconds", &seconds) && load_json_number(at, "mean", &mean) &&
               load_json_number(at, "p50", &p50) && load_json_number(at, "p99", &p99));
        if (seconds < 0.5) continue;
        result->samples[RATE][result->count] = rate_of(at, seconds, window_s);
        result->samples[MEAN][result->count] = mean;
        result->samples[P50][result->count] = p50;
        result->samples[P99][result->count++] = p99;
    }
    return true;
}

static void read_errors(result_t *result) {
    static const char *const responded[] = {"results.errors.status", "results.errors.body"};
    double tried = 0, number;
    (void)load_json_number(result->text, "results.errors.total", &result->errors);
    /* The errors are those of the whole run, whose responses older results do not have. */
    if (!load_json_number(result->text, "results.answers_total", &tried))
        (void)load_json_number(result->text, "results.answers", &tried);
    tried += result->errors;
    for (size_t i = 0; i < sizeof responded / sizeof *responded; i++)
        if (load_json_number(result->text, responded[i], &number)) tried -= number;
    result->error_share = result->errors <= 0 ? 0 : tried > result->errors ? result->errors / tried : 1;
}

static bool read_result(result_t *result, const char *path, FILE *err) {
    size_t size;
    *result = (result_t){.path = path, .text = load_read_file(path, &size)};
    if (!result->text) {
        fprintf(err, "uvhttp-load: %s: cannot be read: %s\n", path, strerrordesc_np(errno));
        return false;
    }
    if (!is_result(result->text)) {
        fprintf(err, "uvhttp-load: %s: not a result of uvhttp-load: give a file that --json wrote\n", path);
        return false;
    }
    if (!read_samples(result)) {
        fputs("uvhttp-load: out of memory\n", err);
        return false;
    }
    const char *loop = load_json_find(result->text, "options.loop");
    result->is_open = loop && strncmp(loop, "\"open\"", 6) == 0;
    read_errors(result);
    return true;
}

static void free_result(result_t *result) {
    uvhttp__free(result->text);
    for (int i = 0; i < SERIES; i++) uvhttp__free(result->samples[i]);
}

/* --- the comparison --- */

typedef struct comparison {
    const result_t *a, *b;
    double threshold; /* negative: none */
    bool worse, undecided;
    bool open; /* an interval holds what is worse by more than the threshold, and what is not */
    FILE *out;
} comparison_t;

/* "tie", "better" or "worse"; of too few samples there is nothing to say. */
static const char *judge(comparison_t *comparison, const load_ratio_t *ratio, bool more_is_better) {
    if (!ratio->has_interval) {
        comparison->undecided = true;
        return "too few samples";
    }
    double worst = more_is_better ? 1 - ratio->low : ratio->high - 1;
    if (worst > comparison->threshold) comparison->open = true;
    if (ratio->low <= 1 && ratio->high >= 1) return "tie";
    bool better = (ratio->ratio > 1) == more_is_better;
    double by = more_is_better ? 1 - ratio->ratio : ratio->ratio - 1;
    if (!better && comparison->threshold >= 0 && by > comparison->threshold) comparison->worse = true;
    return better ? "better" : "worse";
}

static void print_row(comparison_t *comparison, const char *name, const char *field, int series) {
    double a = 0, b = 0;
    load_text_t a_text, b_text;
    const char *(*write)(load_text_t, double) = series == RATE ? load_write_count : load_write_time;
    (void)load_json_number(comparison->a->text, field, &a);
    (void)load_json_number(comparison->b->text, field, &b);
    fprintf(comparison->out, "  %-12s %12s %12s", name, write(a_text, a), write(b_text, b));
    if (a > 0)
        fprintf(comparison->out, " %8.3f", b / a);
    else
        fprintf(comparison->out, " %8s", "-");
    if (series == SERIES) {
        fputc('\n', comparison->out);
        return;
    }
    load_ratio_t ratio =
        load_ratio_of(series == RATE ? LOAD_SAMPLES_RATES : LOAD_SAMPLES_TIMES, comparison->a->samples[series],
                      comparison->a->count, comparison->b->samples[series], comparison->b->count);
    const char *verdict = judge(comparison, &ratio, series == RATE);
    if (ratio.has_interval)
        fprintf(comparison->out, "  %.3f .. %.3f  %s\n", ratio.low, ratio.high, verdict);
    else
        fprintf(comparison->out, "  %s\n", verdict);
}

static void print_errors(comparison_t *comparison) {
    const result_t *a = comparison->a, *b = comparison->b;
    bool more = b->error_share > a->error_share;
    char a_text[32], b_text[32];
    snprintf(a_text, sizeof a_text, "%.0f", a->errors);
    snprintf(b_text, sizeof b_text, "%.0f", b->errors);
    fprintf(comparison->out, "  %-12s %12s %12s  %.4f%% and %.4f%% of the requests%s\n", "Errors", a_text, b_text,
            a->error_share * 100, b->error_share * 100, more ? ": worse" : "");
    if (more && comparison->threshold >= 0) comparison->worse = true;
}

static void print_notes(const comparison_t *comparison) {
    FILE *out = comparison->out;
    fprintf(
        out,
        "\nThe intervals are those of 95 %% for the ratio of the seconds of each run (%zu and %zu); a tie is one that "
        "includes 1.\nOne run of each: what differs from run to run is not in them.\n",
        comparison->a->count, comparison->b->count);
    if (comparison->undecided)
        fprintf(out, "Too few samples: each run needs at least %d seconds (-d 10s is better).\n",
                LOAD_COMPARED_SAMPLES_MIN);
    if (comparison->a->is_open != comparison->b->is_open)
        fputs("One is a closed loop and the other an open one: their latencies are not the same thing.\n", out);
}

static int compare(comparison_t *comparison) {
    fprintf(comparison->out, "A: %s\nB: %s\n\n  %-12s %12s %12s %8s  interval of B/A\n", comparison->a->path,
            comparison->b->path, "", "A", "B", "B/A");
    print_row(comparison, "Requests/sec", "results.requests_per_second", RATE);
    print_row(comparison, "Mean", "latency.mean", MEAN);
    print_row(comparison, "P50", "latency.p50", P50);
    print_row(comparison, "P90", "latency.p90", SERIES);
    print_row(comparison, "P99", "latency.p99", P99);
    print_row(comparison, "P99.9", "latency.p99_9", SERIES);
    print_row(comparison, "Max", "latency.max", SERIES);
    print_errors(comparison);
    print_notes(comparison);
    if (comparison->threshold < 0) return LOAD_OK;
    if (comparison->worse) {
        fprintf(comparison->out, "B is worse by more than %g %%.\n", comparison->threshold * 100);
        return LOAD_MISSED;
    }
    if (comparison->undecided) return LOAD_UNSTABLE;
    fprintf(comparison->out,
            comparison->open ? "That B is worse by more than %g %% is neither shown nor ruled out: longer runs (-d)?\n"
                             : "B is not worse by more than %g %%.\n",
            comparison->threshold * 100);
    return LOAD_OK;
}

int load_compare(const load_options_t *options, FILE *out, FILE *err) {
    result_t a = {.path = NULL}, b = {.path = NULL};
    int code = LOAD_USAGE;
    if (read_result(&a, options->compared[0], err) && read_result(&b, options->compared[1], err)) {
        comparison_t comparison = {.a = &a, .b = &b, .threshold = options->threshold, .out = out};
        code = compare(&comparison);
    }
    free_result(&a);
    free_result(&b);
    return code;
}
