/* Owns: handles through which other threads reach an object of a loop: they outlive it, and the loop. May include: io,
 * base, obs. */
#ifndef UVHTTP_SRC_CONN_LOOP_REF_H
#define UVHTTP_SRC_CONN_LOOP_REF_H

#include "io/io.h"

typedef struct uvhttp__loop_ref uvhttp__loop_ref_t;

/* Part of the memory of the caller, which `run` frees. */
typedef struct uvhttp__loop_call {
    uvhttp__post_t post;
    uvhttp__loop_ref_t *ref;
    void (*run)(struct uvhttp__loop_call *call, void *target); /* target NULL: it is gone */
} uvhttp__loop_call_t;

/* Loop's thread. Another reference to the handle of `target`, which *slot holds from the first call on: one for the
 * target itself, until uvhttp__loop_ref_close. NULL if out of memory. */
uvhttp__loop_ref_t *uvhttp__loop_ref_get(uvhttp__loop_ref_t **slot, uvhttp__loop_t *loop, void *target);
/* Loop's thread, before the loop ends: the target is gone. *slot may be NULL, and is NULL afterwards. */
void uvhttp__loop_ref_close(uvhttp__loop_ref_t **slot);

/* Any thread: */
/* call->run is called on the loop's thread, soon. Returns 0, or UVHTTP_E_ABORTED: the target is gone, and run is not
 * called. The calls of one thread keep their order. */
int uvhttp__loop_ref_call(uvhttp__loop_ref_t *ref, uvhttp__loop_call_t *call);
void uvhttp__loop_ref_retain(uvhttp__loop_ref_t *ref);
void uvhttp__loop_ref_release(uvhttp__loop_ref_t *ref); /* may be NULL */

#endif
