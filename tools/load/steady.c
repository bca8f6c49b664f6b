/* Owns: when a server has warmed up. May include: base. */
#include "load/steady.h"

enum { HALF = LOAD_STEADY_SLICES / 2 };

/* Of HALF slices from the n-th on, of which the oldest is 0; 0 without an answer. */
static double mean_from(const load_steady_t *steady, uint32_t n) {
    double responses = 0, latency_ns = 0;
    for (uint32_t i = 0; i < HALF; i++) {
        uint32_t at = (steady->slices + n + i) % LOAD_STEADY_SLICES;
        responses += (double)steady->responses[at];
        latency_ns += (double)steady->latency_ns[at];
    }
    return responses > 0 ? latency_ns / responses : 0;
}

bool load_steady_add(load_steady_t *steady, uint64_t responses, uint64_t latency_ns) {
    uint32_t at = steady->slices % LOAD_STEADY_SLICES;
    steady->responses[at] = responses - steady->responses_before;
    steady->latency_ns[at] = latency_ns - steady->latency_ns_before;
    steady->responses_before = responses;
    steady->latency_ns_before = latency_ns;
    steady->slices++;
    steady->apart = 1;
    if (steady->slices < LOAD_STEADY_SLICES) return false;
    double older = mean_from(steady, 0), newer = mean_from(steady, HALF);
    if (older <= 0 || newer <= 0) return false;
    steady->apart = older > newer ? (older - newer) / older : (newer - older) / newer;
    return steady->apart <= LOAD_STEADY_MAX;
}
