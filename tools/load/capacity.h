/* Owns: the search for the highest rate that meets the objectives (--capacity). May include: base, io, obs, http1. */
#ifndef UVHTTP_TOOLS_LOAD_CAPACITY_H
#define UVHTTP_TOOLS_LOAD_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "load/options.h"

enum { LOAD_PROBES_MAX = 48 };

/* Until the rates that do and do not meet the objectives are this near. */
#define LOAD_CAPACITY_PRECISION 0.05

typedef struct load_probe {
    double rate;
    bool met;
    bool generator_limited;   /* this program was the limit: the server may do more */
    bool connections_limited; /* requests waited for a free connection */
    uint64_t requests, errors, p99_ns;
} load_probe_t;

/* Sans-I/O: which rate is to be measured next. Zeroed, with rate and rate_min set. */
typedef struct load_search {
    double rate;        /* to measure next */
    double rate_min;    /* with a lower one there would be too few requests to judge */
    double met, missed; /* the highest that met, the lowest that missed above it; 0: none yet */
    bool generator_limited, connections_limited; /* of `missed` */
    uint32_t probes;
} load_search_t;

/* Takes the result of `search->rate`. Returns whether there is another one to measure. */
bool load_search_add(load_search_t *search, const load_probe_t *probe);

typedef struct load_capacity {
    load_probe_t probes[LOAD_PROBES_MAX];
    uint32_t count;
    double rate;      /* 0: no rate met the objectives */
    bool confirmed;   /* a longer measurement met them too */
    bool lower_bound; /* the generator was the limit, or the search ended before a rate missed them */
    bool out_of_time;
    bool generator_limited, connections_limited; /* at the lowest rate that missed */
    double elapsed_s;
    load_options_t options; /* of the last measurement */
} load_capacity_t;

struct load_measurement;
struct load_plan;

/* Searches, with plan->options as what to search for, and prints a line for each probe to `out` (NULL: none). The last
 * measurement, the confirming one if there is one, is left in `last`. Returns 0 or an exit code after a line on
 * `err`. Interrupted: last->interrupted. */
int load_find_capacity(load_capacity_t *capacity, struct load_measurement *last, struct load_plan *plan, FILE *hdr_log,
                       FILE *out, FILE *err);

#endif
