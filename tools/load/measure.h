/* Owns: one measurement, from new loops and connections to the counts of all threads. May include: base, io, obs,
 * http1.
 */
#ifndef UVHTTP_TOOLS_LOAD_MEASURE_H
#define UVHTTP_TOOLS_LOAD_MEASURE_H

#include "load/report.h"
#include "load/samples.h"

typedef struct load_measurement {
    load_stats_t stats;
    load_sampler_t sampler;
    load_warmup_t warmup;
    const char *engine;
    double busiest; /* CPU of the busiest thread in the window, as a share of its time */
    bool interrupted;
    uint64_t missing; /* of --requests: those that have neither a response nor an error */
} load_measurement_t;

/* Measures plan->options. `hdr_log` gets an interval for each second, or is NULL. Returns 0, or LOAD_ERROR after a line
 * on `err`; deinit in any case. */
int load_measure(load_measurement_t *measurement, load_plan_t *plan, FILE *hdr_log, FILE *err);
void load_measurement_deinit(load_measurement_t *measurement);

/* What there is to report; it points into both. */
load_result_t load_measurement_result(const load_measurement_t *measurement, const load_plan_t *plan);

#endif
