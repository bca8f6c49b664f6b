/* Owns: when the requests of an open loop are due: a sequence that depends on rate, kind and seed only, never on how
 * the server behaves. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_ARRIVALS_H
#define UVHTTP_TOOLS_LOAD_ARRIVALS_H

#include <uvhttp/types.h>

#include "load/stages.h"

typedef struct load_arrivals {
    uint64_t start_ns;
    uint64_t next_ns;  /* when the next request is due */
    double gap_ns;     /* mean */
    double elapsed_ns; /* Poisson: from the start to the next one */
    uint64_t count;    /* constant: how many were accepted */
    uint64_t random;   /* state of the generator */
    double phase_ns;   /* constant: the first one is this much after the start */
    bool is_poisson;
    const load_stages_t *stages; /* NULL: one rate */
    double share, shares;        /* with stages */
    double position;             /* with stages: requests of all shares that are due before the next one */
    uint32_t stage;              /* with stages: of the next one */
} load_arrivals_t;

/* One of `shares` equal parts of `rate` requests per second. Together constant parts are evenly spaced, and Poisson
 * parts, which differ by their seeds, are again a Poisson process. */
void load_arrivals_init(load_arrivals_t *arrivals, uint64_t start_ns, double rate, uint32_t share, uint32_t shares,
                        bool is_poisson, uint64_t seed);

/* The same with a rate that changes. `stages` outlives it. next_ns is UINT64_MAX after the last one. */
void load_arrivals_init_stages(load_arrivals_t *arrivals, uint64_t start_ns, const load_stages_t *stages,
                               uint32_t share, uint32_t shares, bool is_poisson, uint64_t seed);

/* Takes the next one: next_ns is the one after it. */
void load_arrivals_take(load_arrivals_t *arrivals);

#endif
