/* Owns: what the coroutine of a request waits for: its body, and space in its output queue; and what ends such a wait.
 */
#include "exchange/coroutine.h"
#include "exchange/coroutine_state.h"
#include "exchange/pull.h"

typedef uvhttp__coroutine_t coroutine_t;

/* --- bodies --- */

/* The coroutine of a request, if the caller runs in it (or in one that it has spawned). */
static coroutine_t *coroutine_here(const uvhttp__exchange_t *exchange) {
    const uvhttp_coro_t *coro = uvhttp__coro_current();
    return coro && exchange->coroutine && coro->owner == exchange->coroutine ? exchange->coroutine : NULL;
}

/* Until a piece has come, or the end. */
static int await_piece(coroutine_t *coroutine, uvhttp_request_t *req, uint32_t timeout_ms) {
    while (!uvhttp__pull_ready(&coroutine->pull)) {
        uvhttp_coro_t *coro = uvhttp__coro_current();
        int status = uvhttp__coro_may_wait(coro);
        if (status != UVHTTP_OK) return status;
        (void)uvhttp_request_resume_body(req);
        coroutine->reader = coro;
        status = uvhttp__coro_wait(coro, timeout_ms);
        coroutine->reader = NULL;
        if (status == UVHTTP_OK || uvhttp__pull_ready(&coroutine->pull)) continue;
        /* Nothing comes while the coroutine does something else. A read that does not wait has asked for the next one.
         */
        if (timeout_ms > 0) (void)uvhttp_request_pause_body(req);
        return status;
    }
    return UVHTTP_OK;
}

int uvhttp_coro_read_body(uvhttp_request_t *req, uvhttp_str_t *piece, uint32_t timeout_ms) {
    if (piece) *piece = (uvhttp_str_t){NULL, 0};
    if (!req || !piece) return UVHTTP_E_INVALID;
    uvhttp__exchange_t *exchange = UVHTTP__CONTAINER_OF(req, uvhttp__exchange_t, request);
    coroutine_t *coroutine = uvhttp_coro_active() ? coroutine_here(exchange) : NULL;
    if (!coroutine || coroutine->reader) return UVHTTP_E_STATE;
    int status = await_piece(coroutine, req, timeout_ms);
    return status == UVHTTP_OK ? uvhttp__pull_take(&coroutine->pull, piece) : status;
}

/* --- output --- */

int uvhttp__coroutine_wait_capacity(uvhttp__exchange_t *exchange) {
    coroutine_t *coroutine = coroutine_here(exchange);
    if (!coroutine || coroutine->writer) return UVHTTP_E_LIMIT;
    uvhttp_coro_t *coro = uvhttp__coro_current();
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    coroutine->writer = coro;
    status = uvhttp__coro_wait(coro, UVHTTP_NEVER);
    coroutine->writer = NULL;
    return status;
}

void uvhttp__coroutine_drained(uvhttp__exchange_t *exchange) {
    if (exchange->coroutine->writer) uvhttp__coro_wake(exchange->coroutine->writer, UVHTTP_OK);
}

/* --- the client has gone --- */

void uvhttp__coroutine_abort(uvhttp__exchange_t *exchange) {
    uvhttp__coro_cancel(exchange->coroutine->coro);
}
