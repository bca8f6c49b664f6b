/* Owns: the references and the state of a deferred handle. What a thread says becomes a message to the loop; a lock
 * decides between it and the client's going, so that a message is only made while the loop is there to run it. */
#include "base/alloc.h"
#include "exchange/deferred.h"

/* Handles share locks: many wait, each with its request, and each is locked for a moment. No thread holds two. */
#define FOUR_OF(...) __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
static pthread_mutex_t locks[] = {FOUR_OF(FOUR_OF(FOUR_OF(PTHREAD_MUTEX_INITIALIZER)))};
enum { LOCKS = sizeof locks / sizeof *locks };

static pthread_mutex_t *lock_of(const uvhttp_deferred_t *deferred) {
    /* Of an address the low bits say little. */
    return &locks[((uintptr_t)deferred >> 5 ^ (uintptr_t)deferred >> 11) % LOCKS];
}

/* --- references --- */

/* Under the lock. */
static void give_to_loop(uvhttp_deferred_t *deferred, uvhttp__post_t *post) {
    if (deferred->held)
        (void)uvhttp__mpsc_push(&deferred->posts, &post->node);
    else
        uvhttp__loop_post(deferred->loop, post);
}

/* Ends the caller's critical section. Nobody else has the handle if neither count is left. */
static void unlock(uvhttp_deferred_t *deferred) {
    bool last = deferred->references == 0 && deferred->uses == 0;
    pthread_mutex_unlock(lock_of(deferred));
    if (!last) return;
    if (deferred->state == UVHTTP__DEFERRED_ABORTED) uvhttp__exchange_free(deferred->exchange);
    uvhttp__free(deferred);
}

/* The last reference to an open handle becomes a message behind those on their way, so that the client gets a 500 if
 * they do not respond. From here on nothing of the application is called back, which may have freed its part. */
void uvhttp_deferred_release(uvhttp_deferred_t *deferred) {
    if (!deferred) return;
    pthread_mutex_lock(lock_of(deferred));
    if (--deferred->references == 0 && deferred->state == UVHTTP__DEFERRED_OPEN) {
        deferred->uses++;
        deferred->state = UVHTTP__DEFERRED_SENT;
        give_to_loop(deferred, &deferred->abandon);
    }
    unlock(deferred);
}

void uvhttp_deferred_retain(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    deferred->references++;
    pthread_mutex_unlock(lock_of(deferred));
}

void uvhttp__deferred_keep(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    deferred->uses++;
    pthread_mutex_unlock(lock_of(deferred));
}

void uvhttp__deferred_let_go(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    deferred->uses--;
    unlock(deferred);
}

/* --- messages --- */

int uvhttp__deferred_post(uvhttp_deferred_t *deferred, uvhttp__post_t *post, uvhttp__deferred_state_t next) {
    pthread_mutex_lock(lock_of(deferred));
    int status = deferred->state == UVHTTP__DEFERRED_ABORTED ? UVHTTP_E_ABORTED
                 : deferred->state == UVHTTP__DEFERRED_SENT  ? UVHTTP_E_STATE
                                                             : UVHTTP_OK;
    if (status == UVHTTP_OK) {
        deferred->state = next;
        deferred->uses++;
        give_to_loop(deferred, post);
    }
    pthread_mutex_unlock(lock_of(deferred));
    return status;
}

void uvhttp__deferred_unhold(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    deferred->held = false;
    uvhttp__mpsc_node_t *next, *node = uvhttp__mpsc_take(&deferred->posts);
    for (; node; node = next) {
        next = node->next;
        uvhttp__loop_post(deferred->loop, UVHTTP__CONTAINER_OF(node, uvhttp__post_t, node));
    }
    pthread_mutex_unlock(lock_of(deferred));
}

/* --- on the loop --- */

void uvhttp__deferred_adopt(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange) {
    exchange->deferred = deferred;
    uvhttp__counters_add(&exchange->loop->tcp->counters, deferred, 1);
}

bool uvhttp__deferred_abort(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    bool open = deferred->state == UVHTTP__DEFERRED_OPEN;
    if (open)
        deferred->state = UVHTTP__DEFERRED_ABORTED;
    else
        deferred->exchange = NULL; /* the response is on its way and will find no exchange */
    pthread_mutex_unlock(lock_of(deferred));
    if (!open) return false;
    if (deferred->on_abort) deferred->on_abort(deferred, deferred->on_abort_user);
    return true;
}

void uvhttp__deferred_detach(uvhttp_deferred_t *deferred) {
    deferred->exchange->deferred = NULL;
    pthread_mutex_lock(lock_of(deferred));
    deferred->state = UVHTTP__DEFERRED_SENT;
    deferred->exchange = NULL;
    pthread_mutex_unlock(lock_of(deferred));
}

bool uvhttp__deferred_is_open(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    bool open = deferred->state == UVHTTP__DEFERRED_OPEN;
    pthread_mutex_unlock(lock_of(deferred));
    return open;
}

/* --- on any thread --- */

bool uvhttp_deferred_aborted(const uvhttp_deferred_t *deferred) {
    pthread_mutex_t *lock = lock_of(deferred);
    pthread_mutex_lock(lock);
    bool aborted = deferred->state == UVHTTP__DEFERRED_ABORTED;
    pthread_mutex_unlock(lock);
    return aborted;
}

uvhttp_request_t *uvhttp_deferred_request(uvhttp_deferred_t *deferred) {
    pthread_mutex_lock(lock_of(deferred));
    uvhttp_request_t *request = deferred->exchange ? &deferred->exchange->request : NULL;
    pthread_mutex_unlock(lock_of(deferred));
    return request;
}
