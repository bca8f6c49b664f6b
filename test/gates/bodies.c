/* A server whose routes read request bodies in every way that there is, and that counts what is copied meanwhile by
 * memcpy and memmove of anybody in the process. GET /copied: the bytes copied so far.
 *
 *   gate_bodies uring|epoll PORT */
#include <uvhttp.h>

#include "support/bodies.h"
#include "support/server.h"

/* --- the routes --- */

static void report_copied(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    respond(res, atomic_load(&copied));
}

static void buffered(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    respond(res, uvhttp_request_body(req).size);
}

static void on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    unsigned long long bytes = 0;
    while (uvhttp_request_read_body(req, &piece, UVHTTP_NEVER) == 0) bytes += piece.size;
    respond(res, bytes);
}

static void in_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    unsigned long long bytes = 0;
    while (uvhttp_coro_read_body(req, &piece, UVHTTP_NEVER) == 0) bytes += piece.size;
    respond(res, bytes);
}

/* Pauses after each piece, and resumes in another iteration. */
static void resume(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) uvhttp_request_resume_body(uvhttp_response_request(res));
}

static void take_and_pause(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    streamed_bytes += data.size;
    uvhttp_request_pause_body(req);
    uvhttp_deferred_run(user, resume, NULL);
}

static void end_paused(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    end(req, res, status, NULL);
    uvhttp_deferred_release(user);
}

static void paused(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    streamed_bytes = 0;
    (void)uvhttp_request_on_body(req, take_and_pause, end_paused, uvhttp_response_defer(res));
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uvhttp_server_config_t config;
    server_settings(&config, argv[1]);
    config.body_size_max = 64 << 20;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    const struct {
        const char *path;
        uvhttp_handler_cb handler;
        uvhttp_route_options_t options;
    } routes[] = {
        {"/buffered", buffered, {0}},
        {"/streamed", streamed, {.stream_body = true}},
        {"/paused", paused, {.stream_body = true}},
        {"/spooled", on_worker, {.stream_body = true, .exec = UVHTTP_EXEC_WORKER}},
        {"/live", on_worker, {.stream_body = true, .exec = UVHTTP_EXEC_WORKER, .live_body = true}},
        {"/coroutine", in_coroutine, {.stream_body = true, .exec = UVHTTP_EXEC_COROUTINE}},
    };
    uvhttp_get(server, "/copied", report_copied, NULL);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (uvhttp_route_options(uvhttp_post(server, routes[i].path, routes[i].handler, NULL), &routes[i].options) != 0)
            uvhttp_post(server, routes[i].path, buffered, NULL); /* this build has no such mode */
    }
    return server_run(server, argv[2], "bodies");
}
