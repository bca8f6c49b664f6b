/* Owns: when the requests of an open loop are due. May include: base. */
#include "load/arrivals.h"

#include <math.h>

#include "load/random.h"

/* Multiplied out from the start, so that nothing adds up over hours. */
static void set_constant(load_arrivals_t *arrivals) {
    double elapsed = arrivals->phase_ns + (double)arrivals->count * arrivals->gap_ns;
    arrivals->next_ns = arrivals->start_ns + (uint64_t)elapsed;
}

/* Of the exponential distribution with mean 1. */
static double next_exponential(load_arrivals_t *arrivals) {
    return -log(((double)(load_random_next(&arrivals->random) >> 11) + 0.5) * 0x1p-53); /* never 0, never 1 */
}

static void set_poisson(load_arrivals_t *arrivals) {
    arrivals->elapsed_ns += next_exponential(arrivals) * arrivals->gap_ns;
    arrivals->next_ns = arrivals->start_ns + (uint64_t)arrivals->elapsed_ns;
}

/* Requests are evenly spaced, or a Poisson process, in the number that is due; the stages convert that to time. */
static void set_staged(load_arrivals_t *arrivals) {
    if (arrivals->is_poisson)
        arrivals->position += next_exponential(arrivals) * arrivals->shares;
    else
        arrivals->position = arrivals->share + (double)arrivals->count * arrivals->shares;
    uint64_t due = load_stages_due(arrivals->stages, arrivals->position, &arrivals->stage);
    arrivals->next_ns = due == UINT64_MAX ? UINT64_MAX : arrivals->start_ns + due;
}

static void set_next(load_arrivals_t *arrivals) {
    if (arrivals->stages)
        set_staged(arrivals);
    else if (arrivals->is_poisson)
        set_poisson(arrivals);
    else
        set_constant(arrivals);
}

static uint64_t first_random(uint64_t seed, uint32_t share) {
    uint64_t state = seed * UINT64_C(0xd1342543de82ef95) + share;
    (void)load_random_next(&state);
    return state;
}

void load_arrivals_init(load_arrivals_t *arrivals, uint64_t start_ns, double rate, uint32_t share, uint32_t shares,
                        bool is_poisson, uint64_t seed) {
    *arrivals = (load_arrivals_t){
        .start_ns = start_ns,
        .gap_ns = 1e9 / rate * shares,
        .phase_ns = 1e9 / rate * share,
        .is_poisson = is_poisson,
        .random = first_random(seed, share),
    };
    set_next(arrivals);
}

void load_arrivals_init_stages(load_arrivals_t *arrivals, uint64_t start_ns, const load_stages_t *stages,
                               uint32_t share, uint32_t shares, bool is_poisson, uint64_t seed) {
    *arrivals = (load_arrivals_t){
        .start_ns = start_ns,
        .stages = stages,
        .share = share,
        .shares = shares,
        .is_poisson = is_poisson,
        .random = first_random(seed, share),
    };
    set_next(arrivals);
}

void load_arrivals_take(load_arrivals_t *arrivals) {
    arrivals->count++;
    set_next(arrivals);
}
