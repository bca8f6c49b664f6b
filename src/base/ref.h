/* Owns: the atomic reference count. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_REF_H
#define UVHTTP_SRC_BASE_REF_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct uvhttp__ref {
    _Atomic uint32_t count;
} uvhttp__ref_t;

static inline void uvhttp__ref_init(uvhttp__ref_t *ref) {
    atomic_init(&ref->count, 1);
}

/* Only somebody who holds a reference may take another. */
static inline void uvhttp__ref_acquire(uvhttp__ref_t *ref) {
    uint32_t before = atomic_fetch_add_explicit(&ref->count, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    (void)before;
}

/* Returns true to the caller that released the last reference: it may free the object, and sees everything that other
 * threads did before they released theirs. */
static inline bool uvhttp__ref_release(uvhttp__ref_t *ref) {
    uint32_t before = atomic_fetch_sub_explicit(&ref->count, 1, memory_order_acq_rel);
    assert(before > 0);
    return before == 1;
}

#endif
