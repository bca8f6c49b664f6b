/* Owns: what is left of coroutines in a build without them: nobody runs in one. May include: io, base, obs. */
#include "exec/coro.h"

bool uvhttp_coro_active(void) {
    return false;
}

int uvhttp_coro_sleep(uint32_t ms) {
    (void)ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_yield(void) {
    return UVHTTP_E_STATE;
}

int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg) {
    (void)cleanup, (void)arg;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_work(void (*run)(void *arg), void *arg) {
    (void)run, (void)arg;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_read_body(struct uvhttp_request *req, uvhttp_str_t *piece, uint32_t timeout_ms) {
    (void)req, (void)piece, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_spawn(void (*run)(void *arg), void *arg, uvhttp_coro_t **coro) {
    (void)run, (void)arg;
    if (coro) *coro = NULL;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_join(uvhttp_coro_t *coro, uint32_t timeout_ms) {
    (void)coro, (void)timeout_ms;
    return UVHTTP_E_STATE;
}

int uvhttp_coro_cancel(uvhttp_coro_t *coro) {
    (void)coro;
    return UVHTTP_E_STATE;
}
