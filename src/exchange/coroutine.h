/* Owns: handlers in coroutines. The loop's thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_COROUTINE_H
#define UVHTTP_SRC_EXCHANGE_COROUTINE_H

#include "exchange/exchange.h"

void uvhttp__coroutine_service_init(uvhttp__service_t *service);
void uvhttp__coroutine_loop_start(uvhttp__http_loop_t *loop);
/* The server stops: who wants to know is woken. */
void uvhttp__coroutine_loop_drain(uvhttp__http_loop_t *loop);
/* A coroutine has not ended. The loop that drains waits for it, as for a job. */
bool uvhttp__coroutine_loop_is_busy(const uvhttp__http_loop_t *loop);
/* The worker's loop ends, and does not turn any more. */
void uvhttp__coroutine_loop_stop(uvhttp__http_loop_t *loop);
/* At the end of an iteration. */
static inline void uvhttp__coroutine_iteration_end(uvhttp__http_loop_t *loop) {
    if (__builtin_expect(uvhttp__coro_sched_due(&loop->coros), 0)) uvhttp__coro_sched_run(&loop->coros);
}
/* The handler of all routes with UVHTTP_EXEC_COROUTINE; user: the route. */
void uvhttp__coroutine_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* The client has gone: the exchange and its hooks are left to the end of the coroutine. */
void uvhttp__coroutine_abort(uvhttp__exchange_t *exchange);
/* The client has acknowledged the queued output. */
void uvhttp__coroutine_drained(uvhttp__exchange_t *exchange);
/* Its output is full. Returns 0 if it may try again, UVHTTP_E_LIMIT if the caller does not run in its coroutine, or
 * what a wait returns. */
int uvhttp__coroutine_wait_capacity(uvhttp__exchange_t *exchange);

#endif
