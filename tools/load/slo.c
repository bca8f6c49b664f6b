/* Owns: objectives of a run. May include: base, io, obs. */
#include "load/slo.h"

#include <stdlib.h>
#include <string.h>

#include "load/options.h"
#include "load/stats.h"

static const char expected[] =
    "expected objectives such as p99<5ms, mean<1ms, max<1s, errors<0.1%, errors<1 or rate>1000";

static bool set_metric(load_objective_t *objective, const char *name) {
    static const struct {
        const char *name;
        load_metric_t metric;
    } names[] = {{"mean", LOAD_METRIC_MEAN},
                 {"max", LOAD_METRIC_MAX},
                 {"errors", LOAD_METRIC_ERRORS},
                 {"rate", LOAD_METRIC_RATE}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        objective->metric = names[i].metric;
        if (strcmp(name, names[i].name) == 0) return true;
    }
    char *end;
    objective->metric = LOAD_METRIC_PERCENTILE;
    if (name[0] != 'p' || name[1] < '0' || name[1] > '9') return false;
    objective->percentile = strtod(name + 1, &end);
    return *end == '\0' && objective->percentile > 0 && objective->percentile < 100;
}

static bool set_bound(load_objective_t *objective, const char *text) {
    char *end;
    uint64_t ns;
    if (text[0] < '0' || text[0] > '9') return false;
    switch (objective->metric) {
        case LOAD_METRIC_RATE: return load_parse_rate(text, &objective->bound);
        case LOAD_METRIC_ERRORS:
            objective->bound = strtod(text, &end);
            if (*end == '%') {
                objective->metric = LOAD_METRIC_ERROR_SHARE;
                objective->bound /= 100;
                end++;
            }
            return *end == '\0' && objective->bound <= 1e18;
        default:
            /* A bare number would be seconds: too easily meant as ms. */
            if (strspn(text, "0123456789.") == strlen(text) || !load_parse_duration(text, &ns)) return false;
            objective->bound = (double)ns;
            return true;
    }
}

static bool parse_objective(load_objective_t *objective, const char *text, size_t size) {
    char name[LOAD_OBJECTIVE_SIZE];
    if (size >= LOAD_OBJECTIVE_SIZE) return false;
    *objective = (load_objective_t){.bound = 0};
    memcpy(objective->text, text, size);
    size_t at = strcspn(objective->text, "<>");
    if (at == size) return false;
    memcpy(name, objective->text, at);
    name[at] = '\0';
    objective->is_minimum = objective->text[at] == '>';
    return set_metric(objective, name) && objective->is_minimum == (objective->metric == LOAD_METRIC_RATE) &&
           set_bound(objective, objective->text + at + 1);
}

const char *load_slo_parse(load_slo_t *slo, const char *text) {
    slo->count = 0;
    for (;; text++) {
        size_t size = strcspn(text, ",");
        if (slo->count == LOAD_OBJECTIVES_MAX) return "at most 16 objectives";
        if (!parse_objective(&slo->items[slo->count], text, size)) return expected;
        slo->count++;
        text += size;
        if (*text == '\0') return NULL;
    }
}

bool load_slo_bounds_errors(const load_slo_t *slo) {
    for (uint32_t i = 0; i < slo->count; i++)
        if (slo->items[i].metric == LOAD_METRIC_ERRORS || slo->items[i].metric == LOAD_METRIC_ERROR_SHARE) return true;
    return false;
}

uint64_t load_slo_latency_max(const load_slo_t *slo) {
    double max = 0;
    for (uint32_t i = 0; i < slo->count; i++)
        if (slo->items[i].metric <= LOAD_METRIC_MAX && slo->items[i].bound > max) max = slo->items[i].bound;
    return (uint64_t)max;
}

double load_objective_value(const load_objective_t *objective, const load_stats_t *stats, double elapsed_s) {
    double errors = (double)load_stats_errors(stats), responses = (double)stats->responses;
    switch (objective->metric) {
        case LOAD_METRIC_PERCENTILE:
            return (double)uvhttp__histogram_percentile(&stats->latency, objective->percentile);
        case LOAD_METRIC_MEAN: return uvhttp__histogram_mean(&stats->latency);
        case LOAD_METRIC_MAX: return (double)uvhttp__histogram_max(&stats->latency);
        case LOAD_METRIC_ERRORS: return errors;
        case LOAD_METRIC_ERROR_SHARE: return load_stats_error_share(stats);
        default: return elapsed_s > 0 ? responses / elapsed_s : 0;
    }
}

bool load_objective_met(const load_objective_t *objective, const load_stats_t *stats, double elapsed_s) {
    double value = load_objective_value(objective, stats, elapsed_s);
    if (stats->responses == 0 || stats->requests == 0) return false;
    return objective->is_minimum ? value > objective->bound : value < objective->bound;
}

bool load_slo_met(const load_slo_t *slo, const load_stats_t *stats, double elapsed_s) {
    bool met = true;
    for (uint32_t i = 0; i < slo->count; i++) met = met && load_objective_met(&slo->items[i], stats, elapsed_s);
    return met;
}
