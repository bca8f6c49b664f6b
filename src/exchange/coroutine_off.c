/* Owns: what the server calls of coroutines, in a build without them: routes that ask for one are refused (exec.c). */
#include "exchange/coroutine.h"

void uvhttp__coroutine_service_init(uvhttp__service_t *service) {
    (void)service;
}

void uvhttp__coroutine_loop_start(uvhttp__http_loop_t *loop) {
    uvhttp__list_init(&loop->coros.ready);
}

void uvhttp__coroutine_loop_drain(uvhttp__http_loop_t *loop) {
    (void)loop;
}

bool uvhttp__coroutine_loop_is_busy(const uvhttp__http_loop_t *loop) {
    (void)loop;
    return false;
}

void uvhttp__coroutine_loop_stop(uvhttp__http_loop_t *loop) {
    (void)loop;
}

void uvhttp__coroutine_abort(uvhttp__exchange_t *exchange) {
    (void)exchange;
}

void uvhttp__coroutine_drained(uvhttp__exchange_t *exchange) {
    (void)exchange;
}

int uvhttp__coroutine_wait_capacity(uvhttp__exchange_t *exchange) {
    (void)exchange;
    return UVHTTP_E_LIMIT;
}

int uvhttp_coro_read_body(uvhttp_request_t *req, uvhttp_str_t *piece, uint32_t timeout_ms) {
    (void)req, (void)timeout_ms;
    if (piece) *piece = (uvhttp_str_t){NULL, 0};
    return UVHTTP_E_STATE;
}
