/* Owns: random numbers of the process. May include: hash. */
#include "base/hash.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

/* Returns 0 without any: an old kernel, or one that has just started. */
static uint64_t from_kernel(void) {
    uint64_t number = 0;
    return getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number ? number : 0;
}

/* Every process was given 16 random bytes. */
static uint64_t from_start(size_t half) {
    uint64_t number = 0;
    const char *random = (const char *)getauxval(AT_RANDOM);
    if (random) memcpy(&number, random + 8 * half, sizeof number);
    return number;
}

static uint64_t draw(size_t half) {
    uint64_t number = from_kernel();
    if (number == 0) number = from_start(half);
    return number ? number : 1;
}

uint64_t uvhttp__random_once(_Atomic uint64_t *number, size_t half) {
    uint64_t known = atomic_load_explicit(number, memory_order_relaxed);
    if (known) return known;
    uint64_t made = draw(half);
    /* When several threads come first at once, one wins and all use its number. */
    return atomic_compare_exchange_strong(number, &known, made) ? made : known;
}

uint64_t uvhttp__random(void) {
    static _Atomic uint64_t calls;
    uint64_t number = from_kernel();
    if (number) return number;
    uint64_t call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return from_start(0) ^ uvhttp__hash(&call, sizeof call);
}

uint64_t uvhttp__hash_seed(void) {
    static _Atomic uint64_t seed;
    return uvhttp__random_once(&seed, 0);
}
