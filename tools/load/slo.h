/* Owns: objectives of a run (--slo) and whether a result meets them. May include: base, io, obs. */
#ifndef UVHTTP_TOOLS_LOAD_SLO_H
#define UVHTTP_TOOLS_LOAD_SLO_H

#include <stdbool.h>
#include <stdint.h>

enum { LOAD_OBJECTIVES_MAX = 16, LOAD_OBJECTIVE_SIZE = 48 };

typedef enum load_metric {
    LOAD_METRIC_PERCENTILE, /* of the latency */
    LOAD_METRIC_MEAN,
    LOAD_METRIC_MAX,
    LOAD_METRIC_ERRORS,      /* number */
    LOAD_METRIC_ERROR_SHARE, /* of all attempts */
    LOAD_METRIC_RATE         /* responses per second */
} load_metric_t;

typedef struct load_objective {
    char text[LOAD_OBJECTIVE_SIZE]; /* as it was given */
    load_metric_t metric;
    bool is_minimum;   /* "rate>N"; all others are maxima */
    double percentile; /* 0 to 100 */
    double bound;      /* ns, a number, or a share from 0 to 1 */
} load_objective_t;

typedef struct load_slo {
    load_objective_t items[LOAD_OBJECTIVES_MAX];
    uint32_t count; /* 0: none was given */
} load_slo_t;

/* "p99<5ms,errors<0.1%,rate>1000". Returns NULL, or what is wrong, a constant. */
const char *load_slo_parse(load_slo_t *slo, const char *text);

/* Whether the objectives say how many errors are acceptable. */
bool load_slo_bounds_errors(const load_slo_t *slo);
/* The greatest bound of a latency in ns; 0: there is none. */
uint64_t load_slo_latency_max(const load_slo_t *slo);

struct load_stats;
/* What the result has for an objective, in its unit, and whether that meets it. Nothing is met without a response. */
double load_objective_value(const load_objective_t *objective, const struct load_stats *stats, double elapsed_s);
bool load_objective_met(const load_objective_t *objective, const struct load_stats *stats, double elapsed_s);
bool load_slo_met(const load_slo_t *slo, const struct load_stats *stats, double elapsed_s);

#endif
