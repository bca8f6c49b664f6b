/* Owns: the routes of the test server. */
#include "routes.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"
#include "letters.h"
#include "middleware.h"

typedef struct app {
    uvhttp_server_t *server;
    later_t *later;
    atomic_uint ref_used, ref_released, done_ok, done_aborted;
} app_t;

static app_t app;
static const char *letters; /* LETTERS_SIZE bytes */

/* --- parameters: a test that sends a wrong one has a bug --- */

static bool text_param(uvhttp_request_t *req, const char *name, char *text, size_t size) {
    uvhttp_str_t value;
    if (!uvhttp_request_query_param(req, name, &value) || value.size >= size) return false;
    if (value.size > 0) memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    return true;
}

static uint64_t number_param(uvhttp_request_t *req, const char *name, uint64_t fallback) {
    char text[32];
    return text_param(req, name, text, sizeof text) ? strtoull(text, NULL, 10) : fallback;
}

static void response_code(uvhttp_response_t *res, int code) {
    uvhttp_response_text(res, code == 0 ? 200 : 500, uvhttp_error_name(code));
}

/* --- what the library says about a request --- */

static void describe(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    json_t json;
    json_open(&json);
    fputc('{', json.out);
    json_number(&json, "method_number", (uint64_t)uvhttp_request_method(req));
    json_field(&json, "method", uvhttp_request_method_text(req));
    json_field(&json, "target", uvhttp_request_target(req));
    json_field(&json, "path", uvhttp_request_path(req));
    json_field(&json, "query", uvhttp_request_query(req));
    json_field(&json, "host", uvhttp_request_host(req));
    json_field(&json, "peer", uvhttp_request_peer(req));
    json_field(&json, "peer_address", uvhttp_request_peer_address(req));
    json_field(&json, "client", uvhttp_request_client(req));
    json_field(&json, "client_scheme", uvhttp_request_client_scheme(req));
    json_field(&json, "client_host", uvhttp_request_client_host(req));
    json_field(&json, "body", uvhttp_request_body(req));
    const char *version = uvhttp_http_version_name(uvhttp_request_http_version(req));
    json_field(&json, "version", (uvhttp_str_t){version, strlen(version)});
    static const char *const params[] = {"id", "name", "path", "rest"};
    fputs("\"params\":{", json.out);
    for (unsigned i = 0; i < 4; ++i) {
        fprintf(json.out, "%s\"%s\":", i ? "," : "", params[i]);
        json_str(&json, uvhttp_request_param(req, params[i]));
    }
    fputs("},\"query_params\":[", json.out);
    uvhttp_str_t name, value;
    for (size_t i = 0; uvhttp_request_query_at(req, i, &name, &value); ++i) {
        fputs(i ? ",[" : "[", json.out);
        json_str(&json, name);
        fputc(',', json.out);
        json_str(&json, value);
        fputc(']', json.out);
    }
    fputs("],\"headers\":[", json.out);
    for (size_t i = 0; uvhttp_request_header_at(req, i, &name, &value); ++i) {
        fputs(i ? ",[" : "[", json.out);
        json_str(&json, name);
        fputc(',', json.out);
        json_str(&json, value);
        fputc(']', json.out);
    }
    fputs("],\"x_all\":[", json.out);
    size_t index = 0;
    for (unsigned i = 0; uvhttp_request_header_next(req, "x-repeated", &index, &value); ++i) {
        if (i) fputc(',', json.out);
        json_str(&json, value);
    }
    fprintf(json.out, "],\"header_count\":%zu,\"x_first\":", uvhttp_request_header_count(req));
    json_str(&json, uvhttp_request_header(req, "X-REPEATED"));
    fputs("}", json.out);
    json_response(&json, res);
}

static void echo_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "application/octet-stream", body.data, body.size);
}

/* A sum over the body, for bodies too large to send back. */
static void sum_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uint64_t sum = 0;
    for (size_t i = 0; i < body.size; ++i) sum = sum * 31 + (unsigned char)body.data[i];
    char text[64];
    snprintf(text, sizeof text, "%zu %" PRIu64, body.size, sum);
    uvhttp_response_text(res, 200, text);
}

/* --- responses --- */

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "Hello, World!");
}

static void number(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t id = uvhttp_request_param(req, "id");
    uvhttp_response_send(res, 200, "text/plain", id.data, id.size);
}

static void send_static(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t size = number_param(req, "size", 0);
    uvhttp_response_send_static(res, 200, "application/octet-stream", letters,
                                size < LETTERS_SIZE ? size : LETTERS_SIZE);
}

static void copy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t size = number_param(req, "size", 0);
    int code =
        uvhttp_response_send(res, 200, "application/octet-stream", letters, size < LETTERS_SIZE ? size : LETTERS_SIZE);
    if (code != 0) response_code(res, code);
}

static void count_release(void *arg) {
    (void)arg;
    atomic_fetch_add(&app.ref_released, 1);
}

static void send_ref(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t size = number_param(req, "size", 0);
    unsigned times = (unsigned)number_param(req, "times", 1); /* the last response counts, all are released */
    for (unsigned i = 0; i < times; ++i) {
        atomic_fetch_add(&app.ref_used, 1);
        uvhttp_response_send_ref(res, 200, "application/octet-stream", letters,
                                 size < LETTERS_SIZE ? size : LETTERS_SIZE, count_release, NULL);
    }
}

/* The handler's count goes at once: the response is what keeps it. */
static void send_shared(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t size = number_param(req, "size", 0);
    uvhttp_shared_body_t *content;
    int code = uvhttp_shared_body_new(letters, size < LETTERS_SIZE ? size : LETTERS_SIZE, &content);
    if (code == 0) code = uvhttp_response_send_shared_body(res, 200, "application/octet-stream", content);
    uvhttp_shared_body_release(content);
    if (code != 0) response_code(res, code);
}

static void send_file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char path[512];
    int code = UVHTTP_E_INVALID;
    if (!text_param(req, "path", path, sizeof path)) {
        response_code(res, code);
        return;
    }
    if (uvhttp_request_query_param(req, "offset", NULL)) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        code = uvhttp_response_send_fd(res, 200, NULL, fd, number_param(req, "offset", 0),
                                       number_param(req, "size", UINT64_MAX));
    } else {
        code = uvhttp_response_send_file(res, 200, NULL, path);
    }
    if (code != 0) uvhttp_response_text(res, 404, uvhttp_error_name(code));
}

static void empty(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char code[8] = "";
    uvhttp_str_t id = uvhttp_request_param(req, "id");
    if (id.size < sizeof code) memcpy(code, id.data, id.size);
    int status = uvhttp_response_empty(res, (int)strtol(code, NULL, 10));
    if (status != 0) response_code(res, status);
}

static void redirect(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char to[256] = "/";
    text_param(req, "to", to, sizeof to);
    int status = uvhttp_response_redirect(res, (int)number_param(req, "status", 302), to);
    if (status != 0) response_code(res, status);
}

/* Every query parameter as a header of the response; the body is the codes, a line each. */
static void headers(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char codes[2048] = "", name_text[128], value_text[512];
    size_t used = 0;
    uvhttp_str_t name, value;
    for (size_t i = 0; uvhttp_request_query_at(req, i, &name, &value); ++i) {
        snprintf(name_text, sizeof name_text, "%.*s", (int)name.size, name.data ? name.data : "");
        snprintf(value_text, sizeof value_text, "%.*s", (int)value.size, value.data ? value.data : "");
        int code = uvhttp_response_header_add(res, name_text, value_text);
        used += (size_t)snprintf(codes + used, sizeof codes - used, "%s\n", uvhttp_error_name(code));
        if (used >= sizeof codes) break;
    }
    uvhttp_response_send(res, 200, "text/plain", codes, strlen(codes));
}

static void nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void respond_and_close(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "bye");
    uvhttp_response_close(res);
}

/* n pieces of `size` bytes; declared: the size promised in advance. */
static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uint64_t n = number_param(req, "n", 3), size = number_param(req, "size", 5);
    int code = uvhttp_response_begin(res, 200, "text/plain", number_param(req, "declared", UVHTTP_SIZE_UNKNOWN));
    for (uint64_t i = 0; i < n && code == 0; ++i) code = uvhttp_response_write(res, letters + i % 26, size);
    if (!uvhttp_request_query_param(req, "unended", NULL)) uvhttp_response_end(res);
}

/* --- later --- */

static void wait_for_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    static const char *const names[] = {"text", "json", "send", "ref", "run", "pieces", "nothing", "twice", "request"};
    char how_text[16] = "text";
    text_param(req, "how", how_text, sizeof how_text);
    later_how_t how = LATER_TEXT;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(names[i], how_text) == 0) how = (later_how_t)i;
    }
    uvhttp_str_t key = {0};
    uvhttp_request_query_param(req, "key", &key);
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    if (later_add(app.later, deferred, how, (unsigned)number_param(req, "ms", 0), key) != 0) {
        uvhttp_deferred_release(deferred);
    }
}

static void release(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t key = {0};
    uvhttp_request_query_param(req, "key", &key);
    char text[16];
    snprintf(text, sizeof text, "%u", later_release(app.later, key));
    uvhttp_response_text(res, 200, text);
}

/* --- a handler that does what it must not: it holds up its loop --- */

static void spin(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    struct timespec start, now;
    uint64_t us = number_param(req, "us", 100);
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t)((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000) < us);
    uvhttp_response_text(res, 200, "spun");
}

/* Makes the file `entered` and blocks the loop until there is a file `go`. */
static void block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char path[512];
    if (!text_param(req, "entered", path, sizeof path)) return;
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!text_param(req, "go", path, sizeof path)) return;
    while (access(path, F_OK) != 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    uvhttp_response_text(res, 200, "went on");
}

/* --- what has happened --- */

static void write_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help;
    json_number(user, name, value);
}

static void log_stats(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_log_stats_t stats;
    uvhttp_log_stats(&stats);
    char json[256];
    int size = snprintf(json, sizeof json, "{\"lines\":%llu,\"suppressed\":%llu,\"dropped\":%llu,\"failed\":%llu}",
                        (unsigned long long)stats.lines, (unsigned long long)stats.suppressed,
                        (unsigned long long)stats.dropped, (unsigned long long)stats.failed);
    uvhttp_response_json_str(res, 200, (uvhttp_str_t){json, (size_t)size});
}

static void ready(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    static const char *const names[] = {"starting", "ready", "grace", "draining", "stopped"};
    uvhttp_server_t *server = user;
    uvhttp_response_text(res, uvhttp_server_ready(server) ? 200 : 503, names[uvhttp_server_state(server)]);
}

/* Of the process, or (user: not NULL) of the loop's thread. The first loop's is that of the process. */
static void process_number(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    char text[24];
    snprintf(text, sizeof text, "%ld", (long)(user ? gettid() : getpid()));
    uvhttp_response_text(res, 200, text);
}

static void counters(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    json_t json;
    json_open(&json);
    fputc('{', json.out);
    uvhttp_server_counters(app.server, write_counter, &json);
    later_counts_t *counts = later_counts(app.later);
    json_number(&json, "test_held", atomic_load(&counts->held));
    json_number(&json, "test_responded", atomic_load(&counts->responded));
    json_number(&json, "test_aborted", atomic_load(&counts->aborted));
    json_number(&json, "test_refused", atomic_load(&counts->refused));
    json_number(&json, "test_on_abort", atomic_load(&counts->on_abort));
    json_number(&json, "test_deferred_released", atomic_load(&counts->released));
    json_number(&json, "test_ref_used", atomic_load(&app.ref_used));
    json_number(&json, "test_ref_released", atomic_load(&app.ref_released));
    json_number(&json, "test_done_ok", atomic_load(&app.done_ok));
    json_number(&json, "test_done_aborted", atomic_load(&app.done_aborted));
    fprintf(json.out, "\"test_pid\":%d}", (int)getpid());
    json_response(&json, res);
}

static void metrics(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_metrics_t values;
    uvhttp_server_metrics(app.server, &values);
    json_t json;
    json_open(&json);
    fputc('{', json.out);
    json_number(&json, "requests", values.requests);
    json_number(&json, "connections_accepted", values.connections_accepted);
    json_number(&json, "connections_active", values.connections_active);
    json_number(&json, "bytes_received", values.bytes_received);
    json_number(&json, "bytes_sent", values.bytes_sent);
    json_number(&json, "responses_2xx", values.responses_2xx);
    json_number(&json, "responses_4xx", values.responses_4xx);
    json_number(&json, "response_time_count", values.response_time_count);
    json_number(&json, "response_time_p50_ns", values.response_time_p50_ns);
    json_number(&json, "response_time_max_ns", values.response_time_max_ns);
    const char *reason = NULL;
    const char *engine = uvhttp_server_engine(app.server, &reason);
    fprintf(json.out, "\"engine\":\"%s\",\"reason\":", engine ? engine : "");
    json_str(&json, (uvhttp_str_t){reason ? reason : "", reason ? strlen(reason) : 0});
    fprintf(json.out, ",\"thread\":%d}", (int)gettid());
    json_response(&json, res);
}

static void stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_server_stop(app.server);
    uvhttp_response_text(res, 200, "stopping");
}

/* --- middleware: each adds its letter on the way in, and again on the way back --- */

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_fetch_add(status == UVHTTP_OK ? &app.done_ok : &app.done_aborted, 1);
}

static void on_finish(uvhttp_response_t *res, void *user) {
    uvhttp_response_header_add(res, "X-Back", user);
}

static uvhttp_flow_t trace(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const char *letter = user;
    char *text = uvhttp_request_data(req);
    if (!text) {
        text = uvhttp_request_alloc(req, 16);
        if (!text) return UVHTTP_NEXT;
        text[0] = '\0';
        uvhttp_request_set_data(req, text);
    }
    size_t size = strlen(text);
    if (size < 15) memcpy(text + size, letter, 2);
    uvhttp_response_on_finish(res, on_finish, user);
    if (letter[0] == 'A') uvhttp_response_on_done(res, on_done, NULL);
    uvhttp_str_t deny = uvhttp_request_header(req, "X-Deny");
    if (deny.size == 1 && deny.data[0] == letter[0]) {
        uvhttp_response_text(res, 403, "denied");
        return UVHTTP_STOP;
    }
    return UVHTTP_NEXT;
}

static void show_trace(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    const char *text = uvhttp_request_data(req);
    uvhttp_response_text(res, 200, text ? text : "");
}

/* A hook that replaces the whole response. */
static void replace(uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_response_status(res) == 200) uvhttp_response_text(res, 299, "replaced");
}

static void replaced(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_finish(res, replace, NULL);
    uvhttp_response_text(res, 200, "not seen");
}

static void own_head(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "X-Head", "own");
    uvhttp_response_empty(res, 200);
}

static void own_options(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "Allow", "OPTIONS, PROPFIND");
    uvhttp_response_empty(res, 204);
}

static void add_middleware_routes(uvhttp_server_t *server) {
    uvhttp_use(server, (uvhttp_middleware_t){.run = trace, .user = "A"});
    uvhttp_group_t *outer = uvhttp_group(server, "/mw");
    uvhttp_group_use(outer, (uvhttp_middleware_t){.run = trace, .user = "B"});
    uvhttp_group_get(outer, "/outer", show_trace, NULL);
    uvhttp_group_t *inner = uvhttp_group_group(outer, "/inner");
    uvhttp_group_use(inner, (uvhttp_middleware_t){.run = trace, .user = "C"});
    uvhttp_group_get(inner, "/x", show_trace, NULL);
    uvhttp_route_use(uvhttp_get(server, "/mw-route", show_trace, NULL),
                     (uvhttp_middleware_t){.run = trace, .user = "D"});
    uvhttp_get(server, "/mw-none", show_trace, NULL);
    uvhttp_get(server, "/replaced", replaced, NULL);
}

void add_routes(uvhttp_server_t *server, later_t *later) {
    app.server = server;
    app.later = later;
    letters = letters_new();
    add_middleware_routes(server);
    add_guarded_routes(server);
    add_private_routes(server);
    uvhttp_any(server, "/echo", describe, NULL);
    uvhttp_any(server, "/echo/*rest", describe, NULL);
    uvhttp_get(server, "/users/:id/files/:name", describe, NULL);
    uvhttp_get(server, "/assets/*path", describe, NULL);
    uvhttp_any(server, "/body", echo_body, NULL);
    uvhttp_post(server, "/sum", sum_body, NULL);
    uvhttp_put(server, "/sum", sum_body, NULL);
    uvhttp_get(server, "/", hello, NULL);
    uvhttp_get(server, "/n/:id", number, NULL);
    uvhttp_get(server, "/static", send_static, NULL);
    uvhttp_get(server, "/copy", copy, NULL);
    uvhttp_get(server, "/ref", send_ref, NULL);
    uvhttp_get(server, "/content", send_shared, NULL);
    uvhttp_get(server, "/file", send_file, NULL);
    uvhttp_get(server, "/empty/:id", empty, NULL);
    uvhttp_get(server, "/redirect", redirect, NULL);
    uvhttp_get(server, "/headers", headers, NULL);
    uvhttp_get(server, "/nothing", nothing, NULL);
    uvhttp_get(server, "/close", respond_and_close, NULL);
    uvhttp_get(server, "/pieces", pieces, NULL);
    uvhttp_get(server, "/later", wait_for_it, NULL);
    uvhttp_post(server, "/later", wait_for_it, NULL);
    uvhttp_get(server, "/release", release, NULL);
    uvhttp_get(server, "/spin", spin, NULL);
    uvhttp_get(server, "/block", block, NULL);
    uvhttp_get(server, "/counters", counters, NULL);
    uvhttp_get(server, "/log-stats", log_stats, NULL);
    uvhttp_get(server, "/ready", ready, server);
    uvhttp_get(server, "/pid", process_number, NULL);
    uvhttp_get(server, "/tid", process_number, &app);
    uvhttp_get(server, "/metrics", metrics, NULL);
    uvhttp_metrics_route(server, "/prometheus");
    uvhttp_post(server, "/stop", stop, NULL);
    uvhttp_head(server, "/own-head", own_head, NULL);
    uvhttp_get(server, "/own-head", hello, NULL);
    uvhttp_options(server, "/own-options", own_options, NULL);
    uvhttp_get(server, "/own-options", hello, NULL);
}
