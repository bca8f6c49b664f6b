/* Owns: seeded random numbers for tests: the same run again from the same seed. */
#ifndef UVHTTP_TEST_SUPPORT_RANDOM_H
#define UVHTTP_TEST_SUPPORT_RANDOM_H

#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random_t;

/* splitmix64 */
static inline uint64_t test_random_next(test_random_t *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* 0..bound - 1 */
static inline uint64_t test_random_below(test_random_t *random, uint64_t bound) {
    return test_random_next(random) % bound;
}

#endif
