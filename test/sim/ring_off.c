/* Owns: the absence of rings, in a build without io_uring. */
#include "kernel.h"

bool sim_ring_ready(const struct sim_ring *ring) {
    (void)ring;
    return false;
}

uint64_t sim_ring_next_ns(const struct sim_ring *ring) {
    (void)ring;
    return SIM_NEVER;
}

void sim_rings_reset(uint64_t seed) {
    (void)seed;
}

void sim_rings_look(void) {}

void sim_rings_check_guests(bool waits) {
    (void)waits;
}
