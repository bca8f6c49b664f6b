/* Owns: the reports of a result: text like wrk's, and JSON with everything that was counted. May include: base, io,
 * obs. */
#ifndef UVHTTP_TOOLS_LOAD_REPORT_H
#define UVHTTP_TOOLS_LOAD_REPORT_H

#include "load/capacity.h"
#include "load/plan.h"
#include "load/samples.h"
#include "load/stats.h"
#include "load/steady.h"

typedef struct load_result {
    const load_options_t *options;
    const load_plan_t *plan;
    const load_stats_t *stats; /* of all threads */
    const char *engine;
    const load_warmup_t *warmup; /* NULL: its time was given */
    double busiest;              /* CPU of the busiest thread in the window, as a share of its time */
    bool interrupted;
    uint64_t missing; /* of --requests: those that have neither a response nor an error */
    const load_sample_t *samples;
    uint32_t sample_count;
    const load_capacity_t *capacity; /* NULL: it was not searched for */
} load_result_t;

/* A thread that was on the processor for more than this share of the window was the limit, or near it. */
#define LOAD_SATURATED 0.95

double load_elapsed_s(const load_result_t *result);
double load_cpu_us_per_response(const load_result_t *result);
/* Closed loop: the share of their time that the connections waited for responses. By Little's law near 1; what is
 * missing was spent in this program. */
double load_waiting_share(const load_result_t *result);

/* What bodies were compared with. */
const char *load_verification(const load_options_t *options);

void load_report_text(const load_result_t *result, FILE *out);
void load_report_json(const load_result_t *result, FILE *out);

#endif
