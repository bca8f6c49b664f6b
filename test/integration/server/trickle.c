/* Owns: the route of a response that comes little by little: /trickle?bytes=N&ms=N, N bytes each N ms, without end;
 * /trickle?events=1&ms=N, an event of a page's EventSource each N ms until the server stops. Events are numbered, and a
 * page that connects again hears the number after its last one. */
#include "trickle.h"

#include <inttypes.h>
#include <stdio.h>

#define BYTES_MAX 65536

typedef struct trickle {
    uvhttp_deferred_t *deferred;
    uvhttp_timer_t timer;
    size_t bytes; /* at a time; 0: events */
    uint64_t ms, event;
} trickle_t;

static void begin(uvhttp_response_t *res, void *user) {
    static const char retry[] = "retry: 50\n\n"; /* ms until a page connects again */
    const trickle_t *trickle = user;
    if (!res) return;
    const char *type = trickle->bytes ? "application/octet-stream" : "text/event-stream";
    (void)uvhttp_response_begin(res, 200, type, UVHTTP_SIZE_UNKNOWN);
    if (!trickle->bytes) (void)uvhttp_response_write(res, retry, sizeof retry - 1);
}

static void add(uvhttp_response_t *res, void *user) {
    static const char zeros[BYTES_MAX];
    trickle_t *trickle = user;
    char event[64];
    if (!res) return;
    if (trickle->bytes) {
        (void)uvhttp_response_write(res, zeros, trickle->bytes);
        return;
    }
    uint64_t number = ++trickle->event;
    int size = snprintf(event, sizeof event, "id: %" PRIu64 "\ndata: %" PRIu64 "\n\n", number, number);
    (void)uvhttp_response_write(res, event, (size_t)size);
}

static void on_stop(uvhttp_response_t *res, void *user) {
    trickle_t *trickle = user;
    uvhttp_timer_stop(&trickle->timer);
    (void)uvhttp_response_end(res);
    uvhttp_deferred_release(trickle->deferred);
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    trickle_t *trickle = user;
    (void)uvhttp_timer_start(timer, trickle->ms, on_timer, trickle);
    (void)uvhttp_deferred_run(trickle->deferred, add, trickle);
}

static void on_abort(uvhttp_deferred_t *deferred, void *user) {
    trickle_t *trickle = user;
    uvhttp_timer_stop(&trickle->timer);
    uvhttp_deferred_release(deferred);
}

static uint64_t number(uvhttp_str_t digits) {
    uint64_t value = 0;
    for (size_t i = 0; i < digits.size; i++) value = value * 10 + (uint64_t)(digits.data[i] - '0');
    return value;
}

static uint64_t asked(uvhttp_request_t *req, const char *name) {
    uvhttp_str_t value;
    return uvhttp_request_query_param(req, name, &value) ? number(value) : 0;
}

/* The request's memory stays until the handle is released, and the messages hold it, too. */
static void trickle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    trickle_t *made = uvhttp_request_alloc(req, sizeof *made);
    if (!made) return;
    *made = (trickle_t){.bytes = (size_t)asked(req, "bytes"), .ms = asked(req, "ms")};
    bool events = asked(req, "events") != 0;
    if (made->bytes > BYTES_MAX || made->ms == 0 || events == (made->bytes > 0)) return;
    made->event = number(uvhttp_request_header(req, "Last-Event-ID"));
    made->deferred = uvhttp_response_defer(res);
    if (!made->deferred) return;
    uvhttp_deferred_on_abort(made->deferred, on_abort, made);
    if (events) (void)uvhttp_deferred_on_stop(made->deferred, on_stop, made);
    (void)uvhttp_deferred_run(made->deferred, begin, made);
    (void)uvhttp_timer_start(&made->timer, made->ms, on_timer, made);
}

void trickle_route(uvhttp_server_t *server) {
    uvhttp_get(server, "/trickle", trickle, NULL);
}
