/* Owns: requests whose handler runs in a coroutine. A handler that does not wait responds as on the loop. With its
 * first wait the exchange gets a deferred handle, whose last reference is the coroutine's: request and response live
 * until the coroutine has ended, even if the client goes. */
#include "exchange/coroutine.h"

#include "exchange/coroutine_state.h"
#include "exchange/deferred.h"
#include "exchange/pull.h"
#include "exchange/respond.h"

typedef uvhttp__coroutine_t coroutine_t;

/* --- the hooks of a coroutine --- */

static int before_wait(void *owner) {
    coroutine_t *coroutine = owner;
    uvhttp__exchange_t *exchange = coroutine->exchange;
    if (coroutine->deferred) return UVHTTP_OK;
    if (uvhttp__exchange_leave(exchange) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    coroutine->deferred = uvhttp__deferred_new(exchange);
    if (!coroutine->deferred) return UVHTTP_E_NOMEM;
    uvhttp__counters_add(&exchange->loop->tcp->counters, coroutines_waited, 1);
    return UVHTTP_OK;
}

/* Before its first wait it is in the scope of its loop. */
static void leave(void *owner) {
    coroutine_t *coroutine = owner;
    uvhttp__response_redefer(&coroutine->exchange->response);
    if (coroutine->traced) uvhttp__trace_leave(&coroutine->scope);
}

static void enter(void *owner) {
    coroutine_t *coroutine = owner;
    uvhttp__response_undefer(&coroutine->exchange->response);
    if (coroutine->traced)
        uvhttp__trace_enter(&coroutine->scope, uvhttp__request_trace_context(&coroutine->exchange->request));
}

static void ended(void *owner) {
    coroutine_t *coroutine = owner;
    uvhttp__exchange_t *exchange = coroutine->exchange;
    uvhttp_deferred_t *deferred = coroutine->deferred;
    exchange->coroutine = NULL;
    uvhttp__pull_close(&coroutine->pull);
    if (coroutine->traced) uvhttp__trace_leave(&coroutine->scope);
    if (!deferred) return;
    if (!exchange->protocol) {
        uvhttp__response_done(&exchange->response, uvhttp__exchange_outcome(exchange));
    } else {
        uvhttp__deferred_detach(deferred);
        /* A connection that is being closed ends its exchange itself, when it has closed. */
        if (!coroutine->serving && exchange->protocol->is_open(exchange)) uvhttp__exchange_conclude(exchange);
    }
    uvhttp_deferred_release(deferred);
}

static const uvhttp__coro_ops_t ops = {.before_wait = before_wait, .leave = leave, .enter = enter, .ended = ended};

/* --- life --- */

static void on_piece(uvhttp__pull_t *pull) {
    const coroutine_t *coroutine = UVHTTP__CONTAINER_OF(pull, coroutine_t, pull);
    if (coroutine->reader) uvhttp__coro_wake(coroutine->reader, UVHTTP_OK);
}

static void run(void *arg) {
    const coroutine_t *coroutine = arg;
    uvhttp__exchange_t *exchange = coroutine->exchange;
    coroutine->route->inner(&exchange->request, &exchange->response, coroutine->route->inner_user);
}

static void refuse(uvhttp__exchange_t *exchange, int status) {
    uvhttp__counters_add(&exchange->loop->tcp->counters, coroutines_refused, 1);
    uvhttp__counters_error(&exchange->loop->tcp->counters, status);
    uvhttp__response_unavailable(&exchange->response, status);
}

void uvhttp__coroutine_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    /* At once, and not with the first wait: what the handler has looked at before must not move. */
    int status = uvhttp__exchange_own(exchange);
    coroutine_t *coroutine = status == UVHTTP_OK ? uvhttp__arena_alloc(&exchange->arena, sizeof *coroutine) : NULL;
    if (!coroutine) {
        refuse(exchange, UVHTTP_E_NOMEM);
        return;
    }
    *coroutine =
        (coroutine_t){.exchange = exchange, .route = user, .traced = exchange->loop->service->traced, .serving = true};
    exchange->coroutine = coroutine;
    uvhttp__pull_open(&coroutine->pull, exchange, on_piece);
    const uvhttp__coro_start_t start = {
        .run = run, .arg = coroutine, .ops = &ops, .owner = coroutine, .label = coroutine->route->pattern};
    uvhttp_coro_t *coro;
    status = uvhttp__coro_begin(&exchange->loop->coros, &start, &coro);
    if (status == UVHTTP_OK && !coro) return; /* `coroutine` may be gone */
    coroutine->coro = coro;
    coroutine->serving = false;
    if (status == UVHTTP_OK) return;
    exchange->coroutine = NULL;
    uvhttp__pull_close(&coroutine->pull);
    refuse(exchange, status);
}

void uvhttp__coroutine_service_init(uvhttp__service_t *service) {
    uvhttp__coro_budget_init(&service->coro_budget, service->config.coroutine_stack_size,
                             service->config.coroutines_max);
}

static void on_idle(uvhttp__coro_sched_t *sched) {
    uvhttp__tcp_loop_check_done(UVHTTP__CONTAINER_OF(sched, uvhttp__http_loop_t, coros)->tcp);
}

void uvhttp__coroutine_loop_start(uvhttp__http_loop_t *loop) {
    uvhttp__coro_sched_open(&loop->coros, &loop->service->coro_budget, loop->tcp->io, &loop->port);
    loop->coros.on_idle = on_idle;
}

void uvhttp__coroutine_loop_drain(uvhttp__http_loop_t *loop) {
    uvhttp__coro_sched_stop(&loop->coros);
}

bool uvhttp__coroutine_loop_is_busy(const uvhttp__http_loop_t *loop) {
    return uvhttp__coro_sched_busy(&loop->coros);
}

void uvhttp__coroutine_loop_stop(uvhttp__http_loop_t *loop) {
    uvhttp__coro_sched_close(&loop->coros);
}
