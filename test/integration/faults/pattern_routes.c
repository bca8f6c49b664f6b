/* Owns: the routes of pattern_server in each mode of execution, those that take bodies, and what they need next to.
 *
 * GET /worker, /coro, /later and /client + /SEED/SIZE: the bytes by a worker thread, a coroutine, a deferred response,
 * and by the client from another server. GET /log/SEED/SIZE: they, and a line of the log for each 100 of them. GET
 * /limited/SEED/SIZE: behind a rate limit in Redis. POST /body, /stream, /spool + /SEED/SIZE: the request's body is
 * checked, then those of SEED + 1 come back; 418: it was a wrong one. PUT /save/SEED/SIZE: saved, and its name comes
 * back. A WebSocket at /topic: "+" subscribes, all else is published. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"
#include "pattern_routes.h"

static const pattern_options_t *options;
static uvhttp_server_t *the_server;
static int uploads = -1;

static void refuse(uvhttp_response_t *res, int status) {
    uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
}

/* --- bodies that a handler writes where it may wait --- */

static void in_pieces(uvhttp_request_t *req, uvhttp_response_t *res) {
    size_t size = 0;
    char *body = pattern_body_of(req, res, &size);
    int status = body ? uvhttp_response_begin(res, 200, PATTERN_TYPE, UVHTTP_SIZE_UNKNOWN) : UVHTTP_E_NOMEM;
    for (size_t at = 0, piece; status == UVHTTP_OK && at < size; at += piece) {
        piece = size - at < 3000 ? size - at : 3000;
        status = uvhttp_response_write(res, body + at, piece);
    }
    free(body);
    /* A response that returns without its end would be ended by the library: it has to be seen that it is not whole. */
    if (status != UVHTTP_OK) uvhttp_response_close(res);
}

static void worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    in_pieces(req, res);
}

#ifdef PATTERN_COROUTINES
static void in_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    int status = uvhttp_coro_sleep(1);
    if (status == UVHTTP_OK)
        in_pieces(req, res);
    else
        refuse(res, status);
}

static void by_client(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char url[200];
    snprintf(url, sizeof url, "http://%s/copy/%llu/%llu", options->upstream,
             (unsigned long long)pattern_number(req, "seed"), (unsigned long long)pattern_number(req, "size"));
    uvhttp_client_response_t *response;
    int status = uvhttp_coro_request(&(uvhttp_client_request_t){.url = url, .timeout_ms = 3000}, &response);
    if (status != UVHTTP_OK) {
        uvhttp_response_text(res, 502, uvhttp_error_name(status));
        return;
    }
    uvhttp_str_t body = uvhttp_client_response_body(response);
    uvhttp_str_t seed = uvhttp_client_response_header(response, "X-Seed");
    char text[32] = "";
    if (seed.size < sizeof text) memcpy(text, seed.data, seed.size);
    int code = uvhttp_client_response_status(response);
    if (seed.size > 0) code = uvhttp_response_header(res, "X-Seed", text) == UVHTTP_OK ? code : 503;
    uvhttp_response_send(res, code == 200 ? 200 : 502, PATTERN_TYPE, body.data, code == 200 ? body.size : 0);
    uvhttp_client_response_free(response);
}
#endif

static void write_lines(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    unsigned long long seed = pattern_number(req, "seed"), count = pattern_number(req, "size") / 100;
    for (unsigned long long i = 0; i < count; i++)
        UVHTTP_LOG_WARN("pattern: line %llu of %llu for %llu", i, count, seed);
    pattern_copy(req, res, user);
}

typedef struct job {
    uvhttp_deferred_t *deferred;
    char *body;
    size_t size;
} job_t;

static void respond_later(void *user) {
    job_t *job = user;
    uvhttp_deferred_send_ref(job->deferred, 200, PATTERN_TYPE, job->body, job->size, free, job->body);
    job->body = NULL;
}

static void job_done(void *user, int status) {
    job_t *job = user;
    if (status != UVHTTP_OK) uvhttp_deferred_text(job->deferred, 503, uvhttp_error_name(status));
    uvhttp_deferred_release(job->deferred);
    free(job->body);
    free(job);
}

static void later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    job_t *job = calloc(1, sizeof *job);
    if (!job) return;
    job->body = pattern_body_of(req, res, &job->size);
    job->deferred = job->body ? uvhttp_response_defer(res) : NULL;
    if (!job->deferred) {
        free(job->body);
        free(job);
        return;
    }
    int status = uvhttp_work(the_server, respond_later, job_done, job);
    if (status != UVHTTP_OK) job_done(job, status);
}

/* --- bodies of requests --- */

static void respond_to_body(uvhttp_request_t *req, uvhttp_response_t *res, size_t good) {
    uint64_t seed = pattern_number(req, "seed") + 1, size = pattern_number(req, "size");
    char *body = malloc(size ? size : 1), text[32];
    if (!body || good != size) {
        uvhttp_response_text(res, body ? 418 : 503, "");
        free(body);
        return;
    }
    pattern_fill(body, size, seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    if (uvhttp_response_header(res, "X-Seed", text) == UVHTTP_OK)
        uvhttp_response_send(res, 200, PATTERN_TYPE, body, size);
    free(body);
}

static void take_buffered(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    size_t good = pattern_check(body.data, body.size, pattern_number(req, "seed"));
    respond_to_body(req, res, good == body.size ? good : SIZE_MAX);
}

typedef struct seen {
    size_t size;
    bool wrong;
} seen_t;

static void look_at(seen_t *seen, uint64_t seed, uvhttp_str_t piece) {
    for (size_t i = 0; i < piece.size && !seen->wrong; i++, seen->size++) {
        uint64_t word = pattern_word(seed, seen->size / 8);
        seen->wrong = piece.data[i] != ((const char *)&word)[seen->size % 8];
    }
}

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res;
    look_at(user, pattern_number(req, "seed"), data);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    const seen_t *seen = user;
    if (status == UVHTTP_OK) respond_to_body(req, res, seen->wrong ? SIZE_MAX : seen->size);
}

static void take_stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    seen_t *seen = uvhttp_request_alloc(req, sizeof *seen);
    int status = UVHTTP_E_NOMEM;
    if (seen) {
        *seen = (seen_t){0};
        status = uvhttp_request_on_body(req, on_data, on_end, seen);
    }
    if (status != UVHTTP_OK) refuse(res, status);
}

static void take_spooled(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    seen_t seen = {0};
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, UVHTTP_NEVER)) == UVHTTP_OK)
        look_at(&seen, pattern_number(req, "seed"), piece);
    if (status == UVHTTP_E_EOF)
        respond_to_body(req, res, seen.wrong ? SIZE_MAX : seen.size);
    else
        refuse(res, status);
}

static void save(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char saved[UVHTTP_FORM_SAVED_NAME_SIZE];
    uint64_t size;
    int status = uvhttp_request_save_body(req, uploads, NULL, saved, &size);
    if (status == UVHTTP_OK)
        uvhttp_response_text(res, 201, saved);
    else
        refuse(res, status);
}

/* --- WebSocket --- */

#ifdef PATTERN_WEBSOCKET
static void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    uvhttp_ws_send(ws, message.type, message.data, message.size);
}

static void topic(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    bool subscribe = message.size == 1 && message.data[0] == '+';
    int status = subscribe ? uvhttp_ws_subscribe(ws, "topic")
                           : uvhttp_ws_publish(ws, "topic", message.type, message.data, message.size);
    if (status != UVHTTP_OK)
        uvhttp_ws_close(ws, 1011, "");
    else if (subscribe)
        uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "+", 1);
}
#endif

/* --- all of it --- */

int pattern_middleware(uvhttp_server_t *server, const pattern_options_t *with) {
    if (!with->access_log) return UVHTTP_OK;
    return uvhttp_use(server, uvhttp_access_log(&(uvhttp_access_log_options_t){
                                  .path = with->access_log, .format = UVHTTP_ACCESS_LOG_COMMON, .flush_ms = 2}));
}

static int add_limited(uvhttp_server_t *server) {
    uvhttp_rate_limit_store_t store;
    const uvhttp_rate_limit_redis_options_t where = {.address = options->redis, .timeout_ms = 500};
    int status = uvhttp_rate_limit_redis(&where, &store);
    const uvhttp_rate_limit_options_t limit = {.per_second = 1000000, .burst = 1000000000, .store = &store};
    if (status != UVHTTP_OK) return status;
    return uvhttp_route_use(uvhttp_get(server, "/limited/:seed/:size", pattern_copy, NULL), uvhttp_rate_limit(&limit));
}

static void add_bodies(uvhttp_server_t *server) {
    static const uvhttp_route_options_t streamed = {.stream_body = true, .body_size_max = PATTERN_SIZE_MAX};
    uvhttp_post(server, "/body/:seed/:size", take_buffered, NULL);
    uvhttp_route_options(uvhttp_post(server, "/stream/:seed/:size", take_stream, NULL), &streamed);
    uvhttp_route_options(
        uvhttp_route(server, UVHTTP_POST, "/spool/:seed/:size", take_spooled, NULL, UVHTTP_EXEC_WORKER), &streamed);
    if (uploads < 0) return;
    uvhttp_route_options(uvhttp_route(server, UVHTTP_PUT, "/save/:seed/:size", save, NULL, UVHTTP_EXEC_WORKER),
                         &streamed);
}

int pattern_routes(uvhttp_server_t *server, const pattern_options_t *with) {
    the_server = server;
    options = with;
    if (with->uploads) uploads = open(with->uploads, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    add_bodies(server);
    uvhttp_get(server, "/later/:seed/:size", later, NULL);
    uvhttp_get(server, "/log/:seed/:size", write_lines, NULL);
    uvhttp_route(server, UVHTTP_GET, "/worker/:seed/:size", worker, NULL, UVHTTP_EXEC_WORKER);
#ifdef PATTERN_COROUTINES
    uvhttp_route(server, UVHTTP_GET, "/coro/:seed/:size", in_coroutine, NULL, UVHTTP_EXEC_COROUTINE);
    if (with->upstream) uvhttp_route(server, UVHTTP_GET, "/client/:seed/:size", by_client, NULL, UVHTTP_EXEC_COROUTINE);
#endif
#ifdef PATTERN_WEBSOCKET
    uvhttp_websocket(server, "/ws", &(uvhttp_ws_handlers_t){.on_message = echo}, NULL);
    const uvhttp_ws_options_t to_all = {.publish_to_self = true};
    uvhttp_websocket(server, "/topic", &(uvhttp_ws_handlers_t){.on_message = topic, .options = &to_all}, NULL);
#endif
    int status = with->redis ? add_limited(server) : UVHTTP_OK;
    if (status == UVHTTP_OK && with->directory) status = uvhttp_static(server, "/static", with->directory, NULL);
    return status;
}

void pattern_routes_end(void) {
    if (uploads >= 0) close(uploads);
}
