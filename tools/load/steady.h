/* Owns: when a server has warmed up: its latency has stopped to change. Sans-I/O. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_STEADY_H
#define UVHTTP_TOOLS_LOAD_STEADY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOAD_STEADY_SLICE_MS = 100,
    LOAD_STEADY_SLICES = 10, /* that are looked at, the newest; a half of them is compared with the other */
};

/* By which the mean latencies of both halves may be apart. */
#define LOAD_STEADY_MAX 0.05

/* Zero is how it begins. */
typedef struct load_steady {
    uint64_t responses[LOAD_STEADY_SLICES]; /* a ring */
    uint64_t latency_ns[LOAD_STEADY_SLICES];
    uint64_t responses_before, latency_ns_before; /* totals until the newest slice */
    uint32_t slices;                              /* so far */
    double apart;                                 /* of the greater mean; 1 as long as nobody knows */
} load_steady_t;

/* Takes another slice, as totals since the start: responses, and the sum of their latencies. Returns whether the newest
 * LOAD_STEADY_SLICES are steady; there have to be so many, and responses in both halves of them. */
bool load_steady_add(load_steady_t *steady, uint64_t responses, uint64_t latency_ns);

/* What --warmup auto has decided. */
typedef struct load_warmup {
    load_steady_t steady;
    bool is_steady;      /* false: the time was up before */
    uint64_t elapsed_ns; /* from the first request to the window, or to the last slice of a run that ended before */
} load_warmup_t;

#endif
