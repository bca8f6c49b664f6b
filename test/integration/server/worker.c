/* Owns: the routes of the test server that run on worker threads. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static unsigned long number(uvhttp_request_t *req, const char *name) {
    uvhttp_str_t value;
    char text[32] = "";
    if (uvhttp_request_query_param(req, name, &value) && value.size < sizeof text) memcpy(text, value.data, value.size);
    return strtoul(text, NULL, 10);
}

/* Until there is a file `go`, if the request names one. */
static void wait_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t go;
    char path[512] = "";
    if (uvhttp_request_query_param(req, "go", &go) && go.size < sizeof path) memcpy(path, go.data, go.size);
    while (path[0] && access(path, F_OK) != 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    uvhttp_str_t target = uvhttp_request_target(req);
    uvhttp_response_send(res, 200, "text/plain", target.data, target.size);
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "application/octet-stream", body.data, body.size);
}

/* The number of bytes of a streamed body. */
static void count(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    unsigned long long bytes = 0;
    while (uvhttp_request_read_body(req, &piece, UVHTTP_NEVER) == UVHTTP_OK) bytes += piece.size;
    char text[32];
    snprintf(text, sizeof text, "%llu", bytes);
    uvhttp_response_text(res, 200, text);
}

/* size bytes in parts of `piece`. */
static void stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t size = number(req, "size"), piece = number(req, "piece");
    char *data = malloc(piece);
    if (!data) return;
    int status = uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    for (size_t at = 0; status == UVHTTP_OK && at < size; at += piece) {
        if (piece > size - at) piece = size - at;
        for (size_t i = 0; i < piece; ++i) data[i] = (char)('a' + (at + i) % 26);
        status = uvhttp_response_write(res, data, piece);
    }
    free(data);
}

typedef struct later {
    uvhttp_deferred_t *deferred;
    unsigned number;
} later_t;

static void respond(void *user) {
    later_t *later = user;
    char text[32];
    snprintf(text, sizeof text, "%u", later->number);
    uvhttp_deferred_text(later->deferred, 200, text);
}

static void forget(void *user, int status) {
    later_t *later = user;
    if (status != UVHTTP_OK) uvhttp_deferred_text(later->deferred, 503, "cancelled");
    uvhttp_deferred_release(later->deferred);
    free(later);
}

/* Defers, and has a job respond after `ms`. */
static void by_a_job(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    later_t *later = malloc(sizeof *later);
    if (!later) return;
    *later = (later_t){uvhttp_response_defer(res), (unsigned)number(req, "n")};
    const uvhttp_work_options_t options = {
        .done = forget, .delay_ms = (uint32_t)number(req, "ms"), .tag = number(req, "tag")};
    int status = uvhttp_work_with(user, &options, respond, later, NULL);
    if (status != UVHTTP_OK) forget(later, status);
}

void add_worker_routes(uvhttp_server_t *server) {
    uvhttp_route(server, UVHTTP_GET, "/w/wait", wait_here, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_ANY, "/w/echo", echo, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route(server, UVHTTP_GET, "/w/stream", stream, NULL, UVHTTP_EXEC_WORKER);
    uvhttp_route_options(uvhttp_route(server, UVHTTP_POST, "/w/upload", count, NULL, UVHTTP_EXEC_WORKER),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_route(server, UVHTTP_GET, "/w/job", by_a_job, server, UVHTTP_EXEC_WORKER);
    uvhttp_get(server, "/job", by_a_job, server);
}
