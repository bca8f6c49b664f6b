/* Owns: the seed of the process. May include: hash. */
#include "base/hash.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

/* Never 0, which means "not made yet". */
static uint64_t make_seed(void) {
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed || seed == 0) {
        /* An old kernel, or one that has just started: every process was given 16 random bytes. */
        const void *random = (const void *)getauxval(AT_RANDOM);
        if (random) memcpy(&seed, random, sizeof seed);
    }
    return seed ? seed : 1;
}

uint64_t uvhttp__hash_seed(void) {
    static _Atomic uint64_t seed;
    uint64_t known = atomic_load_explicit(&seed, memory_order_relaxed);
    if (known) return known;
    uint64_t made = make_seed();
    /* When several threads come first at once, one wins and all use its number. */
    return atomic_compare_exchange_strong(&seed, &known, made) ? made : known;
}
