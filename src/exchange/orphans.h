/* Owns: how many exchanges a connection has left behind: their client has gone or was given another response, and their
 * handler, job, coroutine or deferred handle has not ended. Whoever limits what a client may have under way counts them
 * too (CVE-2023-44487). The count outlives the connection; the last exchange frees it, on any thread. May include:
 * base. */
#ifndef UVHTTP_SRC_EXCHANGE_ORPHANS_H
#define UVHTTP_SRC_EXCHANGE_ORPHANS_H

#include <stdatomic.h>

#include "base/alloc.h"

typedef struct uvhttp__orphans {
    _Atomic uint32_t references; /* one of each of them, and one of the connection */
    void *shared; /* on the heap: what all exchanges of the connection refer to, for as long as one of them may; or NULL
                   */
} uvhttp__orphans_t;

/* The connection's; NULL: no memory. */
static inline uvhttp__orphans_t *uvhttp__orphans_new(void) {
    uvhttp__orphans_t *orphans = uvhttp__malloc(sizeof *orphans);
    if (!orphans) return NULL;
    atomic_init(&orphans->references, 1);
    orphans->shared = NULL;
    return orphans;
}

/* Any thread: one of them has ended, or the connection has. */
static inline void uvhttp__orphans_leave(uvhttp__orphans_t *orphans) {
    if (atomic_fetch_sub_explicit(&orphans->references, 1, memory_order_acq_rel) != 1) return;
    uvhttp__free(orphans->shared);
    uvhttp__free(orphans);
}

/* The connection's thread: one more. */
static inline uvhttp__orphans_t *uvhttp__orphans_join(uvhttp__orphans_t *orphans) {
    atomic_fetch_add_explicit(&orphans->references, 1, memory_order_relaxed);
    return orphans;
}

/* The connection's thread. */
static inline uint32_t uvhttp__orphans_count(const uvhttp__orphans_t *orphans) {
    return atomic_load_explicit(&orphans->references, memory_order_relaxed) - 1;
}

#endif
