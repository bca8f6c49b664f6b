/* Owns: coroutines that a coroutine spawns and joins. May include: io, base, obs. */
#include "exec/coro.h"

int uvhttp_coro_spawn(void (*run)(void *arg), void *arg, uvhttp_coro_t **made) {
    uvhttp_coro_t *parent = uvhttp__coro_current();
    if (made) *made = NULL;
    if (!run || !made) return UVHTTP_E_INVALID;
    int status = uvhttp__coro_may_wait_patiently(parent);
    if (status != UVHTTP_OK) return status;
    const uvhttp__coro_start_t start = {
        .run = run, .arg = arg, .ops = parent->ops, .owner = parent->owner, .label = parent->label};
    uvhttp_coro_t *child;
    status = uvhttp__coro_create(parent->sched, &start, &child);
    if (status != UVHTTP_OK) return status;
    child->parent = parent;
    child->prepared = true; /* the request is, by its parent */
    uvhttp__list_push_back(&parent->children, &child->sibling_link);
    *made = child;
    return UVHTTP_OK;
}

int uvhttp_coro_join(uvhttp_coro_t *child, uint32_t timeout_ms) {
    uvhttp_coro_t *coro = uvhttp__coro_current();
    if (!child) return UVHTTP_E_INVALID;
    if (!coro || child->parent != coro) return UVHTTP_E_STATE;
    if (child->state != UVHTTP__CORO_DONE) {
        /* Who cancels the caller has cancelled the child: it will end, and its argument may be the caller's variable.
         */
        child->joiner = coro;
        int status = uvhttp__coro_wait_patiently(coro, timeout_ms);
        child->joiner = NULL;
        if (child->state != UVHTTP__CORO_DONE) return status;
    }
    uvhttp__coro_reap(child);
    return UVHTTP_OK;
}

int uvhttp_coro_cancel(uvhttp_coro_t *child) {
    uvhttp_coro_t *coro = uvhttp__coro_current();
    if (!child) return UVHTTP_E_INVALID;
    if (!coro || child->parent != coro) return UVHTTP_E_STATE;
    uvhttp__coro_cancel(child);
    return UVHTTP_OK;
}
