/* Owns: routes of the test server that show and extend their traces, in each execution mode. */
#include "trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "trace_id span_id traceparent sampled tracestate", or the code. */
static void describe(const uvhttp_request_t *req, char *text, size_t size) {
    uvhttp_trace_t trace;
    int status = uvhttp_request_trace(req, &trace);
    if (status == UVHTTP_OK)
        snprintf(text, size, "%s %s %s %d %.*s", trace.trace_id, trace.span_id, trace.traceparent, trace.sampled,
                 (int)trace.tracestate.size, trace.tracestate.size > 0 ? trace.tracestate.data : "");
    else
        snprintf(text, size, "%s", uvhttp_error_name(status));
}

static void extend(uvhttp_request_t *req, const char *mode) {
    (void)uvhttp_request_trace_text(req, "test.mode", uvhttp_str(mode));
    (void)uvhttp_request_trace_int(req, "test.int", INT64_MIN);
    (void)uvhttp_request_trace_double(req, "test.double", 0.25);
    (void)uvhttp_request_trace_double(req, "test.infinity", -INFINITY);
    (void)uvhttp_request_trace_bool(req, "test.bool", true);
    (void)uvhttp_request_trace_text(req, "test.again", uvhttp_str("first"));
    (void)uvhttp_request_trace_event(req, "looked up");
    (void)uvhttp_request_trace_text(req, "test.again", uvhttp_str("\"last\"\n"));
    UVHTTP_LOG_WARN("test: in the handler of %s", mode);
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    char text[1024];
    if (uvhttp_coro_active()) (void)uvhttp_coro_sleep(1);
    extend(req, user);
    describe(req, text, sizeof text);
    (void)uvhttp_response_text(res, 200, text);
}

/* --- deferred --- */

typedef struct later {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
} later_t;

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    later_t *later = user;
    char text[1024] = "";
    uvhttp_request_t *req = uvhttp_deferred_request(later->deferred);
    if (req) {
        extend(req, "deferred");
        describe(req, text, sizeof text);
    }
    (void)uvhttp_deferred_text(later->deferred, 200, text);
    uvhttp_deferred_release(later->deferred);
    free(later);
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    later_t *later = calloc(1, sizeof *later);
    later->deferred = uvhttp_response_defer(res);
    (void)uvhttp_timer_start(&later->timer, 1, on_timer, later);
}

/* --- more than a span holds --- */

static void exceed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char name[UVHTTP_TRACE_NAME_SIZE_MAX + 2], long_text[UVHTTP_TRACE_TEXT_SIZE_MAX + 10], codes[256];
    memset(long_text, 'x', sizeof long_text);
    int attribute = 0, event = 0;
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "test.%d", i);
        attribute = uvhttp_request_trace_text(req, name, (uvhttp_str_t){long_text, sizeof long_text});
        event = uvhttp_request_trace_event(req, name);
    }
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(codes, sizeof codes, "%s %s %s %s", uvhttp_error_name(attribute), uvhttp_error_name(event),
             uvhttp_error_name(uvhttp_request_trace_event(req, name)),
             uvhttp_error_name(uvhttp_request_trace_event(req, "")));
    (void)uvhttp_response_text(res, 200, codes);
}

static void fail(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_text(res, 503, "busy");
}

/* --- the client: ?url= is asked, and its response becomes ours --- */

static bool wanted_url(uvhttp_request_t *req, char *url, size_t size) {
    uvhttp_str_t value;
    if (!uvhttp_request_query_param(req, "url", &value) || value.size >= size) return false;
    memcpy(url, value.data, value.size);
    url[value.size] = '\0';
    return true;
}

static void on_response(uvhttp_client_response_t *response, int status, void *user) {
    uvhttp_deferred_t *deferred = user;
    uvhttp_str_t body = status == UVHTTP_OK ? uvhttp_client_response_body(response) : uvhttp_str("failed");
    char text[1024];
    snprintf(text, sizeof text, "%.*s", (int)body.size, body.data);
    (void)uvhttp_deferred_text(deferred, 200, text);
    uvhttp_deferred_release(deferred);
    uvhttp_client_response_free(response);
}

static void ask(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char url[256];
    static const uvhttp_client_header_t own[] = {{"traceparent", "mine"}};
    uvhttp_str_t keeps;
    bool is_own = uvhttp_request_query_param(req, "own", &keeps);
    uvhttp_client_response_t *response;
    uvhttp_deferred_t *deferred = wanted_url(req, url, sizeof url) ? uvhttp_response_defer(res) : NULL;
    const uvhttp_client_request_t request = {.url = url, .headers = is_own ? own : NULL, .header_count = is_own};
    if (!deferred || uvhttp_client_send(&request, on_response, deferred, &response) == UVHTTP_OK) return;
    (void)uvhttp_deferred_text(deferred, 500, "not sent");
    uvhttp_deferred_release(deferred);
}

static void ask_waiting(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char url[256], text[1024] = "failed";
    uvhttp_client_response_t *response = NULL;
    (void)uvhttp_coro_sleep(1);
    if (wanted_url(req, url, sizeof url) &&
        uvhttp_coro_request(&(uvhttp_client_request_t){.url = url}, &response) == UVHTTP_OK) {
        uvhttp_str_t body = uvhttp_client_response_body(response);
        snprintf(text, sizeof text, "%.*s", (int)body.size, body.data);
    }
    uvhttp_client_response_free(response);
    (void)uvhttp_response_text(res, 200, text);
}

void add_trace_routes(uvhttp_server_t *server) {
    static char loop[] = "loop", worker[] = "worker", coroutine[] = "coroutine";
    uvhttp_route(server, UVHTTP_ANY, "/trace/loop/:id", respond, loop, UVHTTP_EXEC_LOOP);
    uvhttp_route(server, UVHTTP_ANY, "/trace/worker/:id", respond, worker, UVHTTP_EXEC_WORKER);
    uvhttp_get(server, "/trace/deferred/:id", defer, NULL);
    uvhttp_get(server, "/trace/exceed", exceed, NULL);
    uvhttp_get(server, "/trace/fail", fail, NULL);
    uvhttp_get(server, "/trace/ask", ask, NULL);
#if UVHTTP_WITH_COROUTINES
    uvhttp_route(server, UVHTTP_ANY, "/trace/coroutine/:id", respond, coroutine, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/trace/ask_waiting", ask_waiting, NULL, UVHTTP_EXEC_COROUTINE);
#else
    (void)coroutine, (void)ask_waiting;
#endif
}
