/* Owns: the way of a request from its head through routing and middleware to the handler. */
#include "exchange/run.h"

#include "base/hot_path.h"
#include "exchange/respond.h"
#include "exchange/stall.h"
#include "exchange/traced.h"
#include "obs/probe.h"

/* 405 and OPTIONS name what there is (RFC 9110 sections 15.5.6 and 9.3.7). */
static void respond_unrouted(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    const uvhttp__unrouted_t unrouted = exchange->cursor.unrouted;
    if (unrouted.why < 0) {
        uvhttp__counters_error(&exchange->loop->tcp->counters, unrouted.why);
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
    int status = uvhttp__router_route(exchange->loop->service->router, &exchange->request, &match);
    exchange->cursor = (uvhttp__middleware_cursor_t){.chain = match.chain, .route = match.route};
    int why = status != UVHTTP_OK ? status : (int)match.outcome;
    if (!match.route)
        exchange->cursor.unrouted = (uvhttp__unrouted_t){.allow = (uint16_t)match.allow, .why = (int16_t)why};
}

/* Returns the route, which is exchange->cursor.route. */
static inline const uvhttp_route_t *route(uvhttp__exchange_t *exchange) {
    const uvhttp_route_t *found = uvhttp__router_find(exchange->loop->service->router, &exchange->request);
    if (UNLIKELY(!found)) {
        route_otherwise(exchange);
        return exchange->cursor.route;
    }
    uvhttp__middleware_cursor_t *cursor = &exchange->cursor;
    cursor->chain = found->chain;
    cursor->route = found;
    cursor->next = 0;
    return found;
}

static uvhttp_flow_t cursor_run_timed(uvhttp__exchange_t *exchange) {
    uint64_t start_ns = uvhttp__clock_ns();
    uvhttp_flow_t flow = uvhttp__middleware_cursor_run(&exchange->cursor, &exchange->request, &exchange->response);
    uvhttp__stall_check_handler(exchange->loop, exchange->cursor.route, uvhttp__clock_ns() - start_ns);
    return flow;
}

/* A request with a body has passed the middleware that traces before; another one is about to. */
static NOINLINE uvhttp_flow_t cursor_run_around(uvhttp__exchange_t *exchange) {
    uvhttp__trace_scope_t scope;
    if (!exchange->loop->traced) return cursor_run_timed(exchange);
    uvhttp__traced_enter(&scope, &exchange->request);
    uvhttp_flow_t flow = exchange->loop->timed ? cursor_run_timed(exchange)
                                               : uvhttp__middleware_cursor_run(&exchange->cursor, &exchange->request,
                                                                               &exchange->response);
    uvhttp__trace_leave(&scope);
    return flow;
}

/* The rest of the chain, the handler, and what is said if there is none. */
static inline void go(uvhttp__exchange_t *exchange) {
    uvhttp_response_t *res = &exchange->response;
    uvhttp__http_loop_t *loop = exchange->loop;
    loop->last_route = exchange->cursor.route;
    if ((__builtin_expect(loop->around, false)
             ? cursor_run_around(exchange)
             : uvhttp__middleware_cursor_run(&exchange->cursor, &exchange->request, res)) == UVHTTP_STOP)
        exchange->may_resume = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!exchange->cursor.route && !uvhttp__response_is_settled(res))
        respond_unrouted(exchange);
}

void uvhttp__exchange_go(uvhttp__exchange_t *exchange) {
    go(exchange);
}

/* The handler alone, if nothing stands in front of it; else all of the way. */
static inline void run_route(uvhttp__exchange_t *exchange, const uvhttp_route_t *route) {
    uvhttp__http_loop_t *loop = exchange->loop;
    if (UNLIKELY(!route || route->chain->count > 0 || loop->around)) {
        go(exchange);
        return;
    }
    loop->last_route = route;
    route->handler(&exchange->request, &exchange->response, route->user);
}

UVHTTP__HOT bool uvhttp__exchange_run(uvhttp__exchange_t *exchange) {
    UVHTTP__PROBE(request, exchange, exchange->request.base, exchange->request.head.size);
    uvhttp_response_t *res = &exchange->response;
    if (UNLIKELY(exchange->request.head.form == UVHTTP__FORM_AUTHORITY)) {
        /* A tunnel is not ours to open (RFC 9110 section 9.3.6). */
        exchange->cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
        uvhttp__response_fail(res, 501, "Not Implemented\n");
    } else {
        run_route(exchange, route(exchange));
    }
    const unsigned others = UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_BY_SERVER;
    bool complete = (res->flags & (UVHTTP__RESPONSE_COMPLETE | others)) == UVHTTP__RESPONSE_COMPLETE;
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
    uvhttp__middleware_cursor_t *cursor = &exchange->cursor;
    exchange->loop->last_route = cursor->route;
    uvhttp_flow_t flow =
        uvhttp__middleware_cursor_run_until(cursor, cursor->chain->head_count, &exchange->request, res);
    if (flow == UVHTTP_NEXT && cursor->route) return true;
    if (flow == UVHTTP_STOP)
        exchange->may_resume = exchange->body_waits = uvhttp__response_is(res, UVHTTP__RESPONSE_DEFERRED);
    else if (!uvhttp__response_is_settled(res))
        respond_unrouted(exchange);
    uvhttp__exchange_conclude(exchange);
    return false;
}
