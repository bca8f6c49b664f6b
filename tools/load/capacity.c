/* Owns: the search for the highest rate that meets the objectives. May include: base, io, obs, http1. */
#include "load/capacity.h"

#include <math.h>

#include "load/measure.h"
#include "load/units.h"

#define SECOND_NS UINT64_C(1000000000)

enum { FIRST_RATE = 1000, CONFIRM_FACTOR = 2, CONFIRM_TRIES = 5, REQUESTS_MIN = 20 };

/* A rate that is not confirmed is lowered to this share of it. */
#define STEP_DOWN 0.9

#define RATE_MAX 1e8

bool load_search_add(load_search_t *search, const load_probe_t *probe) {
    if (probe->met && probe->rate > search->met) search->met = probe->rate;
    if (!probe->met && (search->missed <= 0 || probe->rate < search->missed)) {
        search->missed = probe->rate;
        search->generator_limited = probe->generator_limited;
        search->connections_limited = probe->connections_limited;
    }
    search->probes++;
    if (search->missed <= 0)
        search->rate = probe->rate * 2;
    else if (search->met <= 0)
        search->rate = search->missed / 4;
    else
        search->rate = sqrt(search->met * search->missed);
    if (search->probes == LOAD_PROBES_MAX - CONFIRM_TRIES || search->rate > RATE_MAX) return false;
    if (search->met <= 0) return search->rate >= search->rate_min;
    return search->missed <= 0 || search->missed > search->met * (1 + LOAD_CAPACITY_PRECISION);
}

/* Whether a miss says more about this program than about the server: it had no processor time left, or its own delays
 * make up most of the tail. */
static bool is_generator_limited(const load_measurement_t *measurement) {
    uint64_t late_ns = uvhttp__histogram_percentile(&measurement->stats.lateness, 99);
    uint64_t p99_ns = uvhttp__histogram_percentile(&measurement->stats.latency, 99);
    return measurement->busiest > LOAD_SATURATED || late_ns > p99_ns / 2;
}

/* The tail is made of waiting for a free connection. */
static bool is_connections_limited(const load_measurement_t *measurement) {
    uint64_t sent_p99_ns = uvhttp__histogram_percentile(&measurement->stats.service, 99);
    return sent_p99_ns < uvhttp__histogram_percentile(&measurement->stats.latency, 99) / 2;
}

typedef struct finder {
    load_capacity_t *capacity;
    load_measurement_t *last;
    load_plan_t *plan;
    uint64_t start_ns;
    FILE *hdr_log, *out, *err;
} finder_t;

static void print_probe(const finder_t *finder, const load_probe_t *probe) {
    load_text_t p99;
    if (!finder->out) return;
    fprintf(finder->out, "  %11.1f/s  P99 %9s  %6llu errors  %s%s\n", probe->rate,
            load_write_time(p99, (double)probe->p99_ns), (unsigned long long)probe->errors,
            probe->met ? "met" : "missed",
            !probe->met && probe->generator_limited ? " (the generator was the limit)" : "");
    fflush(finder->out);
}

/* A measurement with fresh connections. False: stop, and *code says why unless it was interrupted. */
static bool measure(finder_t *finder, double rate, uint64_t duration_ns, FILE *hdr_log, int *code) {
    load_measurement_t *last = finder->last;
    load_options_t *options = &finder->capacity->options;
    options->rate = rate;
    options->duration_ns = duration_ns;
    load_measurement_deinit(last);
    *code = load_measure(last, finder->plan, hdr_log, finder->err);
    if (*code != 0 || last->interrupted) return false;
    bool spares_errors = load_slo_bounds_errors(&options->slo);
    load_probe_t *probe = &finder->capacity->probes[finder->capacity->count++];
    *probe = (load_probe_t){
        .rate = rate,
        .requests = last->stats.requests,
        .errors = load_stats_errors(&last->stats),
        .p99_ns = uvhttp__histogram_percentile(&last->stats.latency, 99),
        .generator_limited = is_generator_limited(last),
        .connections_limited = is_connections_limited(last),
    };
    double elapsed_s = (double)(last->stats.end_ns - last->stats.start_ns) / 1e9;
    probe->met = load_slo_met(&options->slo, &last->stats, elapsed_s) && (spares_errors || probe->errors == 0);
    print_probe(finder, probe);
    return true;
}

/* How long a measurement takes at most. */
static uint64_t time_of(const load_options_t *options, uint64_t window_ns) {
    return window_ns + options->warmup_ns + options->drain_ns;
}

static bool has_time(const finder_t *finder, uint64_t window_ns) {
    const load_options_t *options = &finder->capacity->options;
    return uvhttp__clock_ns() - finder->start_ns + time_of(options, window_ns) <= options->capacity_ns;
}

static int too_short(const load_options_t *options, FILE *err) {
    load_text_t given, needed;
    fprintf(err,
            "uvhttp-load: --capacity=%s: one measurement may take %s (-d, -w, --timeout); give it several times that\n",
            load_write_time(given, (double)options->capacity_ns),
            load_write_time(needed, (double)time_of(options, options->duration_ns)));
    return LOAD_USAGE;
}

/* Returns whether a rate was confirmed. */
static bool confirm(finder_t *finder, uint64_t window_ns, int *code) {
    load_capacity_t *capacity = finder->capacity;
    for (unsigned i = 0; i < CONFIRM_TRIES; i++) {
        if (!has_time(finder, window_ns * CONFIRM_FACTOR)) return false;
        if (finder->out) fputs("  Confirming:\n", finder->out);
        if (!measure(finder, capacity->rate, window_ns * CONFIRM_FACTOR, finder->hdr_log, code)) return false;
        const load_probe_t *probe = &capacity->probes[capacity->count - 1];
        if (probe->met) return true;
        capacity->lower_bound = capacity->generator_limited = probe->generator_limited;
        capacity->connections_limited = probe->connections_limited && !probe->generator_limited;
        if (i + 1 < CONFIRM_TRIES) capacity->rate *= STEP_DOWN;
    }
    return false;
}

int load_find_capacity(load_capacity_t *capacity, load_measurement_t *last, load_plan_t *plan, FILE *hdr_log, FILE *out,
                       FILE *err) {
    const load_options_t *given = plan->options;
    finder_t finder = {.capacity = capacity,
                       .last = last,
                       .plan = plan,
                       .hdr_log = hdr_log,
                       .out = out,
                       .err = err,
                       .start_ns = uvhttp__clock_ns()};
    load_search_t search = {.rate = given->rate > 0 ? given->rate : FIRST_RATE,
                            .rate_min = REQUESTS_MIN * 1e9 / (double)given->duration_ns};
    int code = 0;
    bool goes_on = true;
    *capacity = (load_capacity_t){.options = *given};
    /* What comes later than twice the greatest objective has missed it: no need to wait for it. */
    uint64_t enough_ns = 2 * load_slo_latency_max(&given->slo);
    if (enough_ns < SECOND_NS) enough_ns = SECOND_NS;
    if (capacity->options.drain_ns > enough_ns) capacity->options.drain_ns = enough_ns;
    if (time_of(&capacity->options, given->duration_ns) > given->capacity_ns) return too_short(&capacity->options, err);
    plan->options = &capacity->options;
    while (goes_on) {
        capacity->out_of_time = !has_time(&finder, given->duration_ns);
        if (capacity->out_of_time || !measure(&finder, search.rate, given->duration_ns, NULL, &code)) break;
        goes_on = load_search_add(&search, &capacity->probes[capacity->count - 1]);
    }
    capacity->rate = search.met;
    capacity->connections_limited = search.connections_limited && !search.generator_limited;
    capacity->generator_limited = search.generator_limited;
    capacity->lower_bound = search.missed <= 0 || search.generator_limited || capacity->out_of_time;
    if (code == 0 && !last->interrupted && capacity->rate > 0)
        capacity->confirmed = confirm(&finder, given->duration_ns, &code);
    capacity->elapsed_s = (double)(uvhttp__clock_ns() - finder.start_ns) / 1e9;
    plan->options = given;
    return code;
}
