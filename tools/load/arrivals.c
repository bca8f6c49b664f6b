/* Owns: when the requests of an open loop are due. May include: base. */
#include "load/arrivals.h"

#include <math.h>

/* splitmix64: every seed is a good one. */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Multiplied out from the start, so that nothing adds up over hours. */
static void set_constant(load_arrivals_t *arrivals) {
    double elapsed = arrivals->phase_ns + (double)arrivals->count * arrivals->gap_ns;
    arrivals->next_ns = arrivals->start_ns + (uint64_t)elapsed;
}

static void set_poisson(load_arrivals_t *arrivals) {
    double uniform = ((double)(next_random(&arrivals->random) >> 11) + 0.5) * 0x1p-53; /* never 0, never 1 */
    arrivals->elapsed_ns -= log(uniform) * arrivals->gap_ns;
    arrivals->next_ns = arrivals->start_ns + (uint64_t)arrivals->elapsed_ns;
}

void load_arrivals_init(load_arrivals_t *arrivals, uint64_t start_ns, double rate, uint32_t share, uint32_t shares,
                        bool is_poisson, uint64_t seed) {
    *arrivals = (load_arrivals_t){
        .start_ns = start_ns,
        .gap_ns = 1e9 / rate * shares,
        .phase_ns = 1e9 / rate * share,
        .is_poisson = is_poisson,
        .random = seed * UINT64_C(0xd1342543de82ef95) + share,
    };
    (void)next_random(&arrivals->random);
    if (is_poisson)
        set_poisson(arrivals);
    else
        set_constant(arrivals);
}

void load_arrivals_take(load_arrivals_t *arrivals) {
    arrivals->count++;
    if (arrivals->is_poisson)
        set_poisson(arrivals);
    else
        set_constant(arrivals);
}
