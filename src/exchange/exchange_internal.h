/* Owns: what the files of src/exchange share, and what the server calls of them. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_EXCHANGE_INTERNAL_H
#define UVHTTP_SRC_EXCHANGE_EXCHANGE_INTERNAL_H

#include "exchange/exchange.h"

/* --- how handlers are run (exec.c) --- */

/* Puts in place what stands before the handler of a route, as its options (or else its registration) say: nothing on
 * the loop, so that such a route costs nothing. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_UNSUPPORTED, remembered. */
int uvhttp__exec_dress(uvhttp__router_t *router, uvhttp__route_t *route);

static inline uint64_t uvhttp__exchange_now_ms(const uvhttp__exchange_t *exchange) {
    return exchange->worker->worker->loop->now_ms;
}
static inline uvhttp__counters_t *uvhttp__exchange_counters(const uvhttp__exchange_t *exchange) {
    return &exchange->worker->worker->counters;
}
/* Whether the application has said what the response is to be, or that it will. */
static inline bool uvhttp__response_is_answered(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED | UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED);
}
/* Whether there is a response that has to leave as soon as the application returns. */
static inline bool uvhttp__response_is_complete(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED) ||
           (uvhttp__response_is(res, UVHTTP__RESPONSE_ANSWERED) && !uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN));
}
/* What the handler of a route runs on. */
static inline uvhttp_exec_t uvhttp__route_mode(const uvhttp__route_t *route) {
    if (route->exec == UVHTTP__EXEC_FIXED) return UVHTTP_EXEC_LOOP;
    return route->options.exec ? route->options.exec : (uvhttp_exec_t)route->exec;
}

/* Makes exchange->outgoing for a streamed response (respond.c). Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_open_outgoing(uvhttp__exchange_t *exchange);

/* --- what a request shows of its connection (origin.c) --- */

extern const uvhttp__request_ops_t uvhttp__exchange_request_ops;

/* A request that knows nothing of its connection yet refers to what all requests of the connection show of it, if they
 * do, and there is memory. */
void uvhttp__exchange_share_origin(uvhttp__exchange_t *exchange);

/* --- the way to the handler (run.c) --- */

/* Routes a request whose body has not come. Returns what its route says, or NULL if there is none. */
const uvhttp_route_options_t *uvhttp__exchange_route(uvhttp__exchange_t *exchange);
/* Runs the middleware that needs no body. True: the request has passed, and its body is wanted. False: it was answered,
 * or waits for a middleware with exchange->body_waits. */
bool uvhttp__exchange_run_head(uvhttp__exchange_t *exchange);
/* The rest of the chain and the handler of a request that was routed. */
void uvhttp__exchange_go(uvhttp__exchange_t *exchange);

/* --- time (deadline.c) --- */

/* The client's time for its body starts, under the limits of the route. */
void uvhttp__exchange_start_rate(uvhttp__exchange_t *exchange);
/* Whether the client has sent too little of its body for too long; counts it. */
bool uvhttp__exchange_client_is_late(uvhttp__exchange_t *exchange);
/* Sets the deadline for what is under way. */
void uvhttp__exchange_watch(uvhttp__exchange_t *exchange);
/* From here on the application is waited for, if its route has a limit. */
void uvhttp__exchange_await(uvhttp__exchange_t *exchange);

/* --- bodies that the application takes as they come (incoming.c) --- */

/* In the exchange's arena; NULL if there is no memory. */
uvhttp__incoming_t *uvhttp__incoming_new(uvhttp__exchange_t *exchange);
/* The client shall send, if there is more to come. */
void uvhttp__incoming_resume(uvhttp__exchange_t *exchange);
/* uvhttp_request_on_body, also for a handler on a worker thread. */
int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user);
/* It will not come whole: tells it, if the handler has asked for it and has not been told. */
void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status);

/* --- bodies on their way in (body.c) --- */

/* The handler of all routes with stream_body; user: the route. */
void uvhttp__body_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* uvhttp_deferred_next: the exchange is no longer deferred. */
void uvhttp__exchange_go_on(uvhttp__exchange_t *exchange, uvhttp_middleware_cb go_on, void *user);

/* --- the server's own responses (own_response.c); the loop's thread --- */

/* The response that is about to leave is the server's: middleware that has not seen the request notes it, and the
 * application may replace it. */
void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange);

/* --- answers (respond.c) --- */

/* The application has returned: its response leaves, now or when it is made; 500 if it has neither responded nor
 * deferred. */
void uvhttp__exchange_conclude(uvhttp__exchange_t *exchange);
/* Any thread: nobody works on it any more. */
static inline void uvhttp__exchange_ended(uvhttp__exchange_t *exchange) {
    if (exchange->orphaned) uvhttp__orphans_leave(exchange->orphans);
    exchange->orphaned = false;
}
/* The rest of uvhttp__exchange_abort, when no worker thread has the exchange any more. */
void uvhttp__exchange_gone(uvhttp__exchange_t *exchange, int status);
/* What to do after the handler, or what a deferred handle ran, has returned. */
void uvhttp__exchange_returned(uvhttp__exchange_t *exchange);

/* --- bodies that are asked for (pull.c); the loop's thread --- */

/* Before the handler runs. Without a streamed body, the whole one is the only piece. */
void uvhttp__pull_open(uvhttp__pull_t *pull, uvhttp__exchange_t *exchange, void (*come)(uvhttp__pull_t *pull));
/* The handler has returned. */
void uvhttp__pull_close(uvhttp__pull_t *pull);
/* False: uvhttp_request_resume_body has it come. */
bool uvhttp__pull_ready(const uvhttp__pull_t *pull);
/* When it is ready. Valid until the body is resumed. Returns 0, UVHTTP_E_EOF or why the rest will never come. */
int uvhttp__pull_take(uvhttp__pull_t *pull, uvhttp_str_t *piece);

/* --- bodies that come before their handler has a thread (spool.c) --- */

/* The loop's thread. Takes the body of a request with exchange->incoming; calls `ready` when it has come whole, and
 * responds when that fails. Lives until the exchange is done. Returns 0 or why not, and then nothing follows. */
int uvhttp__spool_start(uvhttp__exchange_t *exchange, void (*ready)(uvhttp__exchange_t *exchange));
/* The handler's thread: the next piece, valid until the next call. Returns 0, UVHTTP_E_EOF, UVHTTP_E_IO or
 * UVHTTP_E_NOMEM. */
int uvhttp__spool_read(uvhttp__spool_t *spool, uvhttp_str_t *piece);
/* The handler has returned: nothing is read any more. */
void uvhttp__spool_close_file(uvhttp__spool_t *spool);

/* --- handlers on worker threads (worker.c); the loop's thread --- */

/* The handler of all routes with UVHTTP_EXEC_WORKER; user: the route. */
void uvhttp__call_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void uvhttp__calls_open(uvhttp__http_worker_t *worker);
/* The end of a turn: what has been called in it goes to the pool. */
void uvhttp__calls_submit(uvhttp__http_worker_t *worker);
/* The client has gone while there is exchange->call. True: a thread has it still, and what has to be done will be done
 * when it returns. */
bool uvhttp__call_leave(uvhttp__exchange_t *exchange);
/* The client has taken what was queued: a write may go on. */
void uvhttp__call_drained(uvhttp__exchange_t *exchange);

/* --- handlers that block their loop (watchdog.c); the loop's thread --- */

void uvhttp__watch_open(uvhttp__http_worker_t *worker);
/* The turn took so long up to its end. */
void uvhttp__watch_turn(uvhttp__http_worker_t *worker, uint64_t ns);
/* A handler did; only while worker->timed. */
void uvhttp__watch_handler(uvhttp__http_worker_t *worker, const uvhttp__route_t *route, uint64_t ns);

/* --- coroutines (coroutine.c) --- */

void uvhttp__coroutine_service_init(uvhttp__service_t *service);
void uvhttp__coroutine_worker_start(uvhttp__http_worker_t *worker);
/* The server stops: who wants to know is woken. */
void uvhttp__coroutine_worker_drain(uvhttp__http_worker_t *worker);
/* The worker's loop ends, and does not turn any more. */
void uvhttp__coroutine_worker_stop(uvhttp__http_worker_t *worker);
/* At the end of a turn. */
static inline void uvhttp__coroutine_turn_end(uvhttp__http_worker_t *worker) {
    if (__builtin_expect(uvhttp__coro_sched_due(&worker->coros), 0)) uvhttp__coro_sched_run(&worker->coros);
}
/* The handler of all routes with UVHTTP_EXEC_COROUTINE; user: the route. */
void uvhttp__coroutine_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* The client has gone: the exchange and its hooks are left to the end of the coroutine. */
void uvhttp__coroutine_abort(uvhttp__exchange_t *exchange);
/* The client has taken what was queued. */
void uvhttp__coroutine_drained(uvhttp__exchange_t *exchange);
/* Its output is full. Returns 0 if it may try again, UVHTTP_E_LIMIT if the caller does not run in its coroutine, or
 * what a wait returns. */
int uvhttp__coroutine_wait_room(uvhttp__exchange_t *exchange);

#endif
