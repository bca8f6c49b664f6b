/* Owns: finding handlers that keep their loop from others. Once a turn, when the clock is read anyway, the time of the
 * turn is looked at: that costs a request nothing. Which handler it was is clear when the turn had one request;
 * otherwise the loop times its handlers one by one for a while. */
#include "exchange/watchdog.h"

#include <stdio.h>
#include <uvhttp/log.h>

#include "exchange/exec.h"

#define TIMED_MS 10000
/* A loop says so little more than once in this time. */
#define TELL_INTERVAL_MS 1000

void uvhttp__watch_open(uvhttp__http_worker_t *worker) {
    uint32_t ms = worker->service->config.handler_warn_ms;
    worker->look_ns = worker->warn_ns = ms ? ms * UINT64_C(1000000) : UINT64_MAX;
}

/* Counts it. Returns whether it is to be said. */
static bool count(uvhttp__http_worker_t *worker) {
    uint64_t now_ms = uvhttp__clock_ns() / 1000000;
    uvhttp__counters_add(&worker->worker->counters, handler_blocked, 1);
    if (worker->told_at_ms > 0 && now_ms < worker->told_at_ms + TELL_INTERVAL_MS) return false;
    worker->told_at_ms = now_ms;
    return true;
}

static const char *route_text(const uvhttp_route_t *route, char text[256]) {
    if (!route) return "a request without a route";
    const char *method = route->method == UVHTTP_ANY ? "ANY" : uvhttp_method_name((uvhttp_method_t)route->method);
    snprintf(text, 256, "%s %s", method, route->pattern);
    return text;
}

static void tell(uvhttp__http_worker_t *worker, const uvhttp_route_t *route, uint64_t ns) {
    char text[256];
    if (!count(worker)) return;
    UVHTTP_LOG_WARN("http: %s kept loop %u from its other clients for %llu ms (handler_warn_ms is %u): what blocks "
                    "belongs on UVHTTP_EXEC_WORKER",
                    route_text(route, text), worker->worker->index, (unsigned long long)(ns / 1000000),
                    worker->service->config.handler_warn_ms);
}

void uvhttp__watch_handler(uvhttp__http_worker_t *worker, const uvhttp_route_t *route, uint64_t ns) {
    if (ns < worker->warn_ns) return;
    worker->found_in_turn = true;
    worker->timed_until_ms = worker->worker->loop->now_ms + TIMED_MS;
    tell(worker, route, ns);
}

void uvhttp__watch_turn(uvhttp__http_worker_t *worker, uint64_t ns) {
    uint64_t now_ms = worker->worker->loop->now_ms;
    bool found = worker->found_in_turn;
    worker->found_in_turn = false;
    if (now_ms >= worker->timed_until_ms) {
        worker->timed = false;
        worker->look_ns = worker->warn_ns;
    }
    if (ns < worker->warn_ns || found) return;
    uint32_t requests = worker->answered_in_turn + worker->deferred_in_turn;
    if (requests == 1) {
        /* A handler on a worker thread was not run in the turn: what took long is not its fault. */
        if (!worker->last_route || uvhttp__route_mode(worker->last_route) != UVHTTP_EXEC_WORKER)
            tell(worker, worker->last_route, ns);
        return;
    }
    worker->timed = true;
    worker->look_ns = 0;
    worker->timed_until_ms = now_ms + TIMED_MS;
    char text[256];
    if (!count(worker)) return;
    UVHTTP_LOG_WARN("http: loop %u was kept from its clients for %llu ms by one of %u requests, the last of them %s; "
                    "its handlers are timed for the next %d s",
                    worker->worker->index, (unsigned long long)(ns / 1000000), requests,
                    route_text(worker->last_route, text), TIMED_MS / 1000);
}
