/* Owns: what a run did in each second: the samples of the result, the progress line and the intervals of the
 * HdrHistogram log come from it. It runs on the waiting thread and reads the counters of the others. May include: base,
 * io, obs. */
#ifndef UVHTTP_TOOLS_LOAD_SAMPLES_H
#define UVHTTP_TOOLS_LOAD_SAMPLES_H

#include <stdio.h>

#include "load/options.h"
#include "obs/histogram.h"

typedef struct load_sample {
    double at_s;        /* its end, from the beginning of the window */
    double seconds;     /* how long it is: about 1, but for the last one */
    uint64_t responses; /* responses, and timeouts, that the histogram of latencies took in */
    uint64_t errors;
    double mean_ns;
    uint64_t p50_ns, p99_ns;
} load_sample_t;

typedef struct load_sampler {
    uvhttp__histogram_t before, now, delta;
    const load_options_t *options;
    load_sample_t *items;
    uint32_t count, capacity;
    uint64_t start_ns, last_ns; /* of the window, of the last sample; 0: not yet */
    uint64_t errors_begin, errors_before, responses;
    FILE *progress;     /* NULL: none */
    FILE *hdr_log;      /* NULL: none */
    bool hdr_failed;    /* the log lacks an interval */
    uint64_t starts_ms; /* the beginning of the window, since 1970 */
} load_sampler_t;

struct load_run;

/* Zeroed memory will do, with options, progress and hdr_log set. */
void load_sampler_init(load_sampler_t *sampler, const load_options_t *options, FILE *progress, FILE *hdr_log);
void load_sampler_deinit(load_sampler_t *sampler);

/* Takes a sample if it is time. Returns in how many ns it wants to be called again. */
uint64_t load_sampler_tick(load_sampler_t *sampler, struct load_run *run);
/* The threads have ended: takes the rest. */
void load_sampler_end(load_sampler_t *sampler, struct load_run *run);

#endif
