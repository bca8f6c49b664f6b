/* Owns: the ramps of an open loop (--stages): how the rate changes over time, and when the n-th request is due. May
 * include: base. */
#ifndef UVHTTP_TOOLS_LOAD_STAGES_H
#define UVHTTP_TOOLS_LOAD_STAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { LOAD_STAGES_MAX = 32 };

/* The rate changes linearly from rate_begin to rate_end. A stage of no duration is a step of the rate. */
typedef struct load_stage {
    double rate_begin, rate_end; /* requests per second */
    uint64_t start_ns, duration_ns;
    double count_begin; /* requests that are due before it */
} load_stage_t;

typedef struct load_stages {
    load_stage_t items[LOAD_STAGES_MAX];
    uint32_t count; /* 0: no stages */
    uint64_t duration_ns;
    double requests; /* due in all stages */
} load_stages_t;

/* "10s:1000,30s:5000,10s:0": durations and the rate that each ends with; the first starts from 0. Returns NULL, or what
 * is wrong, a constant. */
const char *load_stages_parse(load_stages_t *stages, const char *text);

/* When n requests have become due, in ns from the start; UINT64_MAX when there are fewer. *at is the stage to look
 * from, 0 at first, and only grows: n does not decrease between calls. */
uint64_t load_stages_due(const load_stages_t *stages, double n, uint32_t *at);

/* The stage of a moment: the last one that has begun, but never an empty one. */
uint32_t load_stages_find(const load_stages_t *stages, uint64_t elapsed_ns);

#endif
