/* Owns: the stall detector, which finds handlers that block their loop. Once per iteration, when the clock is read
 * anyway, the duration of the iteration is checked: that costs a request nothing. The handler is known when the
 * iteration had one request and nothing else; otherwise the loop times its handlers one by one for a while. */
#include "exchange/stall.h"

#include <stdio.h>
#include <uvhttp/log.h>

#include "exchange/exec.h"

#define TIMED_MS 10000
#define REPORT_INTERVAL_MS 1000 /* a loop logs hardly more than one line in this time, */
#define ROUTE_INTERVAL_S 3600   /* and a server one of each route in this, however often it blocks */
#define UNNAMED_INTERVAL_S 60   /* a loop, of iterations in which one of several requests blocked */

void uvhttp__stall_open(uvhttp__http_loop_t *loop) {
    uint32_t ms = loop->service->config.handler_warn_ms;
    loop->look_ns = loop->warn_ns = ms == UVHTTP_NEVER ? UINT64_MAX : ms * UINT64_C(1000000);
}

/* Whether `interval_s` has passed since *said_s, which then becomes now. */
static bool is_time(_Atomic uint32_t *said_s, uint32_t now_s, uint32_t interval_s) {
    uint32_t last_s = atomic_load_explicit(said_s, memory_order_relaxed);
    return (last_s == 0 || now_s - last_s >= interval_s) &&
           atomic_compare_exchange_strong_explicit(said_s, &last_s, now_s, memory_order_relaxed, memory_order_relaxed);
}

/* Counts it. Returns whether it is to be logged; said_s: when what blocks was logged last. */
static bool count(uvhttp__http_loop_t *loop, _Atomic uint32_t *said_s, uint32_t interval_s) {
    uint64_t now_ms = uvhttp__clock_ns() / 1000000;
    uvhttp__counters_add(&loop->tcp->counters, handler_blocked, 1);
    if (loop->reported_at_ms > 0 && now_ms < loop->reported_at_ms + REPORT_INTERVAL_MS) return false;
    if (!is_time(said_s, (uint32_t)(now_ms / 1000) + 1, interval_s)) return false;
    loop->reported_at_ms = now_ms;
    return true;
}

static const char *route_text(const uvhttp_route_t *route, char text[256]) {
    if (!route) return "a request without a route";
    const char *method = route->method == UVHTTP_ANY ? "ANY" : uvhttp_method_name((uvhttp_method_t)route->method);
    snprintf(text, 256, "%s %s", method, route->pattern);
    return text;
}

static void report(uvhttp__http_loop_t *loop, const uvhttp_route_t *route, uint64_t ns) {
    char text[256];
    /* Routes do not change once loops run, except for this. */
    uvhttp_route_t *named = (uvhttp_route_t *)(uintptr_t)route;
    if (!count(loop, named ? &named->blocked_said_s : &loop->unrouted_said_s, ROUTE_INTERVAL_S)) return;
    UVHTTP_LOG_WARN("http: %s blocked loop %u for %llu ms (handler_warn_ms is %u): use UVHTTP_EXEC_WORKER for code "
                    "that blocks. A route is named once an hour; handler_blocked counts each time",
                    route_text(route, text), loop->tcp->index, (unsigned long long)(ns / 1000000),
                    loop->service->config.handler_warn_ms);
}

void uvhttp__stall_check_handler(uvhttp__http_loop_t *loop, const uvhttp_route_t *route, uint64_t ns) {
    if (ns < loop->warn_ns) return;
    loop->found_in_iteration = true;
    loop->timed_until_ms = loop->tcp->io->now_ms + TIMED_MS;
    report(loop, route, ns);
}

void uvhttp__stall_check_iteration(uvhttp__http_loop_t *loop, uint64_t ns) {
    uint64_t now_ms = loop->tcp->io->now_ms;
    bool found = loop->found_in_iteration;
    loop->found_in_iteration = false;
    if (now_ms >= loop->timed_until_ms) {
        loop->timed = false;
        loop->look_ns = loop->warn_ns;
    }
    if (ns < loop->warn_ns || found) return;
    uint32_t requests = loop->responses_in_iteration + loop->deferred_in_iteration;
    bool is_guest = loop->tcp->io->is_guest; /* callbacks of the application's loop are in the iteration, too */
    if (requests == 1) {
        /* A handler on a worker thread did not run in the iteration: it did not cause the delay. */
        if (loop->last_route && uvhttp__route_mode(loop->last_route) == UVHTTP_EXEC_WORKER) return;
        if (!is_guest) {
            report(loop, loop->last_route, ns);
            return;
        }
    }
    loop->timed = true;
    loop->look_ns = 0;
    loop->timed_until_ms = now_ms + TIMED_MS;
    char text[256];
    if (!count(loop, &loop->unnamed_said_s, UNNAMED_INTERVAL_S)) return;
    UVHTTP_LOG_WARN("http: loop %u was blocked for %llu ms by one of %u requests, the last of them %s%s; "
                    "its handlers are timed for the next %d s",
                    loop->tcp->index, (unsigned long long)(ns / 1000000), requests, route_text(loop->last_route, text),
                    is_guest ? ", or by another callback of the application's loop" : "", TIMED_MS / 1000);
}

/* One line per second and loop, as for handlers that block: a client can cause it with each request. */
static void report_no_response(uvhttp__http_loop_t *loop, const uvhttp_route_t *route, bool is_begun) {
    uint64_t now_ms = loop->tcp->io->now_ms;
    char text[256];
    if (loop->no_response_reported_at_ms > 0 && now_ms < loop->no_response_reported_at_ms + REPORT_INTERVAL_MS) return;
    loop->no_response_reported_at_ms = now_ms;
    if (is_begun)
        UVHTTP_LOG_WARN("http: %s did not end its response, which is cut off", route_text(route, text));
    else
        UVHTTP_LOG_WARN("http: %s sent no response, so the client gets 500: it called no response function, or the "
                        "function failed and returned the reason (UVHTTP_E_LIMIT: request_memory_max)",
                        route_text(route, text));
}

void uvhttp__exchange_no_response(uvhttp__exchange_t *exchange) {
    uvhttp__counters_add(&exchange->loop->tcp->counters, handler_no_response, 1);
    bool is_begun = uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BEGUN);
    report_no_response(exchange->loop, exchange->cursor.route, is_begun);
    if (!is_begun) uvhttp__response_fail_by(&exchange->response, UVHTTP_E_NO_RESPONSE, 500, "Internal Server Error\n");
}
