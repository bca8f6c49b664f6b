/* Owns: pseudo-random numbers that a seed reproduces. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_RANDOM_H
#define UVHTTP_TOOLS_LOAD_RANDOM_H

#include <stdint.h>

/* The finalizer of splitmix64: a bijection, so that different inputs give different outputs. */
static inline uint64_t load_mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* splitmix64: every seed is a good one. */
static inline uint64_t load_random_next(uint64_t *state) {
    return load_mix64(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
