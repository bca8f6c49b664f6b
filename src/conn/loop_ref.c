/* Owns: see loop_ref.h. May include: io, base, obs. */
#include "conn/loop_ref.h"

#include <pthread.h>
#include <uvhttp/error.h>

#include "base/alloc.h"
#include "base/ref.h"

struct uvhttp__loop_ref {
    uvhttp__ref_t count;  /* the target holds one until it is gone */
    uvhttp__loop_t *loop; /* lives longer than the target */
    void *target;         /* loop's thread only; NULL once it is gone */
    pthread_mutex_t lock; /* a call is posted while `open`, and the loop cannot end between the look and the post */
    bool open;
};

uvhttp__loop_ref_t *uvhttp__loop_ref_get(uvhttp__loop_ref_t **slot, uvhttp__loop_t *loop, void *target) {
    if (!*slot) {
        uvhttp__loop_ref_t *ref = uvhttp__malloc(sizeof *ref);
        if (!ref) return NULL;
        uvhttp__ref_init(&ref->count);
        ref->loop = loop;
        ref->target = target;
        pthread_mutex_init(&ref->lock, NULL);
        ref->open = true;
        *slot = ref;
    }
    uvhttp__ref_acquire(&(*slot)->count);
    return *slot;
}

void uvhttp__loop_ref_retain(uvhttp__loop_ref_t *ref) {
    if (ref) uvhttp__ref_acquire(&ref->count);
}

void uvhttp__loop_ref_release(uvhttp__loop_ref_t *ref) {
    if (!ref || !uvhttp__ref_release(&ref->count)) return;
    pthread_mutex_destroy(&ref->lock);
    uvhttp__free(ref);
}

static void run_call(uvhttp__post_t *post) {
    uvhttp__loop_call_t *call = UVHTTP__CONTAINER_OF(post, uvhttp__loop_call_t, post);
    uvhttp__loop_ref_t *ref = call->ref;
    call->run(call, ref->target);
    uvhttp__loop_ref_release(ref);
}

int uvhttp__loop_ref_call(uvhttp__loop_ref_t *ref, uvhttp__loop_call_t *call) {
    if (!ref) return UVHTTP_E_INVALID;
    call->post.run = run_call;
    call->ref = ref;
    pthread_mutex_lock(&ref->lock);
    bool open = ref->open;
    if (open) {
        uvhttp__ref_acquire(&ref->count);
        uvhttp__loop_post(ref->loop, &call->post);
    }
    pthread_mutex_unlock(&ref->lock);
    return open ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

void uvhttp__loop_ref_close(uvhttp__loop_ref_t **slot) {
    uvhttp__loop_ref_t *ref = *slot;
    if (!ref) return;
    ref->target = NULL;
    pthread_mutex_lock(&ref->lock);
    ref->open = false;
    pthread_mutex_unlock(&ref->lock);
    uvhttp__loop_ref_release(ref);
    *slot = NULL;
}
