/* Owns: the route of a response that comes little by little and has no end: /trickle?bytes=N&ms=N, N bytes each N ms;
 * /trickle?events=1&ms=N, an event of a page's EventSource each N ms. */
#include "trickle.h"

#include <stdlib.h>

#define BYTES_MAX 65536

typedef struct trickle {
    uvhttp_deferred_t *deferred;
    uvhttp_timer_t timer;
    const char *type, *data;
    size_t bytes; /* of data */
    uint64_t ms;
} trickle_t;

static void begin(uvhttp_response_t *res, void *user) {
    const trickle_t *trickle = user;
    if (res) (void)uvhttp_response_begin(res, 200, trickle->type, UVHTTP_SIZE_UNKNOWN);
}

static void add(uvhttp_response_t *res, void *user) {
    const trickle_t *trickle = user;
    if (res) (void)uvhttp_response_write(res, trickle->data, trickle->bytes);
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

static uint64_t asked(uvhttp_request_t *req, const char *name) {
    uvhttp_str_t value;
    return uvhttp_request_query_param(req, name, &value) ? strtoull(value.data, NULL, 10) : 0;
}

/* The request's memory stays until the handle is released, and the messages hold it, too. */
static void trickle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const char zeros[BYTES_MAX], event[] = "data: tick\n\n";
    (void)user;
    trickle_t *made = uvhttp_request_alloc(req, sizeof *made);
    if (!made) return;
    *made = (trickle_t){.type = "application/octet-stream",
                        .data = zeros,
                        .bytes = (size_t)asked(req, "bytes"),
                        .ms = asked(req, "ms")};
    if (asked(req, "events")) {
        made->type = "text/event-stream";
        made->data = event;
        made->bytes = sizeof event - 1;
    }
    if (made->bytes > BYTES_MAX || made->ms == 0) return;
    made->deferred = uvhttp_response_defer(res);
    if (!made->deferred) return;
    uvhttp_deferred_on_abort(made->deferred, on_abort, made);
    (void)uvhttp_deferred_run(made->deferred, begin, made);
    (void)uvhttp_timer_start(&made->timer, made->ms, on_timer, made);
}

void trickle_route(uvhttp_server_t *server) {
    uvhttp_get(server, "/trickle", trickle, NULL);
}
