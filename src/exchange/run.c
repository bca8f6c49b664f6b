/* Owns: the way of a request from its head through routing and middleware to the handler. */
#include "exchange/run.h"

#include "base/hot.h"
#include "exchange/respond.h"
#include "exchange/watchdog.h"

/* 405 and OPTIONS name what there is (RFC 9110 sections 15.5.6 and 9.3.7). */
static void answer_unrouted(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    const uvhttp__unrouted_t unrouted = exchange->way.unrouted;
    if (unrouted.why < 0) {
        uvhttp__counters_error(&exchange->worker->worker->counters, unrouted.why);
        uvhttp__response_fail_by(res, unrouted.why, uvhttp_error_http_status(unrouted.why), "Bad Request\n");
        return;
    }
    if (unrouted.why == UVHTTP__MATCH_NOT_FOUND) {
        uvhttp__response_fail(res, 404, "Not Found\n");
        return;
    }
    if (unrouted.why == UVHTTP__MATCH_METHOD_NOT_ALLOWED && exchange->request.head.method == UVHTTP_METHOD_OTHER)
        uvhttp__response_fail(res, 501, "Not Implemented\n"); /* a method that nobody knows (RFC 9110 section 9.1) */
    else if (unrouted.why == UVHTTP__MATCH_METHOD_NOT_ALLOWED)
        uvhttp__response_fail(res, 405, "Method Not Allowed\n");
    else
        (void)uvhttp_response_empty(res, 204);
    char text[UVHTTP__ALLOW_TEXT_MAX];
    size_t size = uvhttp__allow_text(unrouted.allow, text);
    (void)uvhttp__response_put_header(res, (uvhttp_str_t){"Allow", 5}, (uvhttp_str_t){text, size}, true);
}

static NOINLINE void route_otherwise(uvhttp__exchange_t *exchange) {
    uvhttp__match_t match;
    int status = uvhttp__router_route(exchange->worker->service->router, &exchange->request, &match);
    exchange->way = (uvhttp__way_t){.chain = match.chain, .route = match.route};
    int why = status != UVHTTP_OK ? status : (int)match.outcome;
    if (!match.route)
        exchange->way.unrouted = (uvhttp__unrouted_t){.allow = (uint16_t)match.allow, .why = (int16_t)why};
}

/* Returns the route, which is exchange->way.route. */
static inline const uvhttp_route_t *route(uvhttp__exchange_t *exchange) {
    const uvhttp_route_t *found = uvhttp__router_find(exchange->worker->service->router, &exchange->request);
    if (UNLIKELY(!found)) {
        route_otherwise(exchange);
        return exchange->way.route;
    }
    uvhttp__way_t *way = &exchange->way;
    way->chain = found->chain;
    way->route = found;
    way->next = 0;
    return found;
}

static uvhttp_flow_t way_go_timed(uvhttp__exchange_t *exchange) {
    uint64_t begin_ns = uvhttp__clock_ns();
    uvhttp_flow_t flow = uvhttp__way_go(&exchange->way, &exchange->request, &exchange->response);
    uvhttp__watch_handler(exchange->worker, exchange->way.route, uvhttp__clock_ns() - begin_ns);
    return flow;
}

/* The rest of the chain, the handler, and what is said if there is none. */
static inline void go(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__http_worker_t *worker = exchange->worker;
    worker->last_route = exchange->way.route;
    if ((__builtin_expect(worker->timed, false)
             ? way_go_timed(exchange)
             : uvhttp__way_go(&exchange->way, &exchange->request, res)) == UVHTTP_STOP)
        exchange->may_go_on = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!exchange->way.route && !uvhttp__response_is_answered(res))
        answer_unrouted(exchange);
}

void uvhttp__exchange_go(uvhttp__exchange_t *exchange) {
    go(exchange);
}

/* The handler alone, if nothing stands in front of it; else all of the way. */
static inline void go_on_route(uvhttp__exchange_t *exchange, const uvhttp_route_t *route) {
    uvhttp__http_worker_t *worker = exchange->worker;
    if (UNLIKELY(!route || route->chain->count > 0 || worker->timed)) {
        go(exchange);
        return;
    }
    worker->last_route = route;
    route->handler(&exchange->request, &exchange->response, route->user);
}

UVHTTP__HOT bool uvhttp__exchange_run(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    if (UNLIKELY(exchange->request.head.form == UVHTTP__FORM_AUTHORITY)) {
        /* A tunnel is not ours to open (RFC 9110 section 9.3.6). */
        exchange->way = (uvhttp__way_t){.chain = NULL};
        uvhttp__response_fail(res, 501, "Not Implemented\n");
    } else {
        go_on_route(exchange, route(exchange));
    }
    const unsigned others = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_BY_SERVER;
    bool complete = (res->flags & (UVHTTP__RESPONSE_ANSWERED | others)) == UVHTTP__RESPONSE_ANSWERED;
    if (LIKELY(complete && !exchange->deferred)) { /* a handle must learn of the response first */
        uvhttp__response_finish(res);
        uvhttp__response_commit(res);
        exchange->responded = true;
        return true;
    }
    uvhttp__exchange_conclude(exchange);
    return false;
}

const uvhttp_route_options_t *uvhttp__exchange_route(uvhttp__exchange_t *exchange) {
    const uvhttp_route_t *found = route(exchange);
    return found ? &found->options : NULL;
}

/* What needs the body of a request that no route matches is left out: the body would be read for nothing. */
bool uvhttp__exchange_run_head(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__way_t *way = &exchange->way;
    exchange->worker->last_route = way->route;
    uvhttp_flow_t flow = uvhttp__way_run_middleware(way, way->chain->head_count, &exchange->request, res);
    if (flow == UVHTTP_NEXT && way->route) return true;
    if (flow == UVHTTP_STOP)
        exchange->may_go_on = exchange->body_waits = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!uvhttp__response_is_answered(res))
        answer_unrouted(exchange);
    uvhttp__exchange_conclude(exchange);
    return false;
}
