/* Owns: see interim.h. */
#include "interim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const uvhttp_response_field_t hints[] = {{"Link", "</a.css>; rel=preload; as=style"},
                                                {"Link", "</a.js>; rel=preload; as=script"}};

static atomic_bool go; /* what waits may respond */

static void let_go(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&go, true);
    uvhttp_response_text(res, 200, "go");
}

static int send_hints(uvhttp_response_t *res) {
    return uvhttp_response_interim(res, 103, hints, 2);
}

static void respond(uvhttp_response_t *res, int status) {
    char text[32];
    snprintf(text, sizeof text, "%d", status);
    uvhttp_response_text(res, 200, text);
}

static void at_once(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int status = uvhttp_response_interim(res, 102, NULL, 0);
    respond(res, status == UVHTTP_OK ? send_hints(res) : status);
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    send_hints(res);
    uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

/* The client has the hints before the response is made. */
static void on_a_thread(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int status = send_hints(res);
    while (!atomic_exchange(&go, false)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    respond(res, status);
}

static void in_a_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int status = send_hints(res);
    while (!atomic_exchange(&go, false))
        if (uvhttp_coro_sleep(1) != UVHTTP_OK) return;
    respond(res, status);
}

static uvhttp_deferred_t *waiting;

static void later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waiting = uvhttp_response_defer(res);
    if (waiting) (void)uvhttp_deferred_interim(waiting, 103, hints, 2);
}

static void respond_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_text(waiting, 200, "0");
    uvhttp_deferred_release(waiting);
    waiting = NULL;
    uvhttp_response_text(res, 200, "go");
}

/* What is refused: before and after the head of the final response. */
static void refused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static const uvhttp_response_field_t split = {"X", "a\r\nSet-Cookie: b"};
    int upgrade = uvhttp_response_interim(res, 101, NULL, 0), field = uvhttp_response_interim(res, 103, &split, 1);
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) return;
    char text[64];
    int size = snprintf(text, sizeof text, "%s %s %s", uvhttp_error_name(upgrade), uvhttp_error_name(field),
                        uvhttp_error_name(send_hints(res)));
    uvhttp_response_write(res, text, (size_t)size);
}

/* More than any client is asked to read: until it is refused. */
static void flood(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char large[16000];
    memset(large, 'x', sizeof large - 1);
    int status = UVHTTP_OK;
    for (int i = 0; i < 100000 && status == UVHTTP_OK; ++i)
        status = uvhttp_response_interim(res, 103, &(uvhttp_response_field_t){"X-Large", large}, 1);
    uvhttp_response_text(res, 200, uvhttp_error_name(status));
}

void add_interim_routes(uvhttp_server_t *server) {
    uvhttp_get(server, "/interim", at_once, NULL);
    uvhttp_post(server, "/interim", echo, NULL);
    uvhttp_route(server, UVHTTP_GET, "/interim/thread", on_a_thread, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/interim/coroutine", in_a_coroutine, NULL, UVHTTP_EXEC_COROUTINE);
    uvhttp_get(server, "/interim/later", later, NULL);
    uvhttp_get(server, "/interim/refused", refused, NULL);
    uvhttp_get(server, "/interim/flood", flood, NULL);
    uvhttp_post(server, "/interim/go", let_go, NULL);
    uvhttp_post(server, "/interim/respond", respond_later, NULL);
}
