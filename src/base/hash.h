/* Owns: the hash of byte strings (XXH3, 64 bits), and random numbers of the process. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_HASH_H
#define UVHTTP_SRC_BASE_HASH_H

#include <stdatomic.h>
#include <uvhttp/types.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* For tables whose keys are ours (routes, names). */
static inline uint64_t uvhttp__hash(const void *data, size_t size) {
    return XXH3_64bits(data, size);
}

/* For tables whose keys a peer chooses: seed it with uvhttp__hash_seed(). Makes collisions hard to prepare, but XXH3 is
 * no cryptographic hash: bound the length of a chain all the same. */
static inline uint64_t uvhttp__hash_seeded(const void *data, size_t size, uint64_t seed) {
    return XXH3_64bits_withSeed(data, size, seed);
}

/* A random number that is drawn once, at the first call with a `number` that is 0, and never is 0. half: 0 or 1, which
 * half of the process' start-up randomness it is when the kernel has no other yet. Any thread. */
uint64_t uvhttp__random_once(_Atomic uint64_t *number, size_t half);

/* A random number, another one with each call; of threads that call when the kernel has none yet, too. Any thread. */
uint64_t uvhttp__random(void);

/* A random number, the same in the whole process, from the kernel. Any thread. */
uint64_t uvhttp__hash_seed(void);

#endif
