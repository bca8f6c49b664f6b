/* Owns: random numbers of the process. May include: hash, thread. */
#include "base/hash.h"

#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "base/thread.h"

static uint64_t draw(size_t half) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number || number == 0) {
        /* An old kernel, or one that has just started: every process was given 16 random bytes. */
        const char *random = (const char *)getauxval(AT_RANDOM);
        if (random) memcpy(&number, random + 8 * half, sizeof number);
    }
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
    return draw(0) ^ uvhttp__hash(&(uint64_t){uvhttp__thread_number()}, sizeof(uint64_t));
}

uint64_t uvhttp__hash_seed(void) {
    static _Atomic uint64_t seed;
    return uvhttp__random_once(&seed, 0);
}
