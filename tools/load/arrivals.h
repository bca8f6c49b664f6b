/* Owns: when the requests of an open loop are due: a sequence that depends on rate, kind and seed only, never on how
 * the server behaves. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_ARRIVALS_H
#define UVHTTP_TOOLS_LOAD_ARRIVALS_H

#include <uvhttp/types.h>

typedef struct load_arrivals {
    uint64_t start_ns;
    uint64_t next_ns;  /* when the next request is due */
    double gap_ns;     /* mean */
    double elapsed_ns; /* Poisson: from the start to the next one */
    uint64_t count;    /* constant: how many were taken */
    uint64_t random;   /* state of the generator */
    double phase_ns;   /* constant: the first one is this much after the start */
    bool is_poisson;
} load_arrivals_t;

/* One of `shares` equal parts of `rate` requests per second. Together constant parts are evenly spaced, and Poisson
 * parts, which differ by their seeds, are again a Poisson process. */
void load_arrivals_init(load_arrivals_t *arrivals, uint64_t start_ns, double rate, uint32_t share, uint32_t shares,
                        bool is_poisson, uint64_t seed);

/* Takes the next one: next_ns is the one after it. */
void load_arrivals_take(load_arrivals_t *arrivals);

#endif
