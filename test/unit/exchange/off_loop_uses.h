/* Owns: how each public function of requests, responses and deferred handles is used off the loop, for test_off_loop.c.
 */
#ifndef UVHTTP_TEST_EXCHANGE_OFF_LOOP_USES_H
#define UVHTTP_TEST_EXCHANGE_OFF_LOOP_USES_H

#include <uvhttp/request_id.h> /* also in a build without middleware */
#include <uvhttp/tls.h>
#include <uvhttp/trace.h>

#include "support/http_server.h"

/* Parts of the library that a build may leave out. */
#pragma weak uvhttp_request_cookie
#pragma weak uvhttp_request_cookie_at
#pragma weak uvhttp_response_cookie_sized
#pragma weak uvhttp_request_form_sized
#pragma weak uvhttp_request_id_get
#pragma weak uvhttp_request_save_body_sized
#pragma weak uvhttp_request_save_form_sized
#pragma weak uvhttp_request_write_body_sized
#pragma weak uvhttp_request_on_multipart_sized

/* --- how each function is used --- */

typedef struct user {
    uvhttp_request_t *req;
    uvhttp_response_t *res; /* NULL: the thread has only the handle */
    uvhttp_deferred_t *deferred;
    char client[64]; /* what the request is to say */
    char peer[64];
} user_t;

static atomic_int wrong, used;

static void expect(bool right, const char *what) {
    if (right) return;
    atomic_fetch_add(&wrong, 1);
    print_message("wrong: %s\n", what);
}
#define EXPECT(condition) expect((condition), #condition)

static bool same(uvhttp_str_t text, const char *expected) {
    return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

/* Requests: by whoever has them. */

static void request_method(user_t *user) {
    EXPECT(uvhttp_request_method(user->req) == UVHTTP_POST);
}
static void request_method_text(user_t *user) {
    EXPECT(same(uvhttp_request_method_text(user->req), "POST"));
}
static void request_target(user_t *user) {
    EXPECT(uvhttp_request_target(user->req).size > strlen("/x/1?q=2"));
}
static void request_path(user_t *user) {
    EXPECT(uvhttp_request_path(user->req).data[0] == '/');
}
static void request_query(user_t *user) {
    EXPECT(same(uvhttp_request_query(user->req), "q=%32&r"));
}
static void request_query_param(user_t *user) {
    uvhttp_str_t text;
    EXPECT(uvhttp_request_query_param(user->req, "q", &text) && same(text, "2"));
}
static void request_query_at(user_t *user) {
    uvhttp_str_t text;
    EXPECT(uvhttp_request_query_at(user->req, 1, &text, NULL) && same(text, "r"));
}
static void request_param(user_t *user) {
    EXPECT(same(uvhttp_request_param(user->req, "id"), "1"));
}
static void request_header(user_t *user) {
    EXPECT(same(uvhttp_request_header(user->req, "x-key"), "value"));
}
static void request_header_at(user_t *user) {
    uvhttp_str_t text;
    EXPECT(uvhttp_request_header_at(user->req, 0, &text, NULL) && same(text, "Host"));
}
static void request_header_count(user_t *user) {
    EXPECT(uvhttp_request_header_count(user->req) == 5);
}
static void request_header_next(user_t *user) {
    size_t index = 0;
    uvhttp_str_t text;
    EXPECT(uvhttp_request_header_next(user->req, "X-Key", &index, &text) && same(text, "value"));
}
static void request_host(user_t *user) {
    EXPECT(same(uvhttp_request_host(user->req), "a.example"));
}
static void request_http_version(user_t *user) {
    EXPECT(uvhttp_request_http_version(user->req) == UVHTTP_HTTP_1_1);
}
static void request_body(user_t *user) {
    EXPECT(same(uvhttp_request_body(user->req), "a=b"));
}
static void request_peer(user_t *user) {
    EXPECT(same(uvhttp_request_peer(user->req), user->peer));
}
static void request_peer_address(user_t *user) {
    EXPECT(same(uvhttp_request_peer_address(user->req), "127.0.0.1"));
}
static void request_client(user_t *user) {
    EXPECT(same(uvhttp_request_client(user->req), user->client));
}
static void request_client_scheme(user_t *user) {
    EXPECT(same(uvhttp_request_client_scheme(user->req), "http"));
}
static void request_client_host(user_t *user) {
    EXPECT(same(uvhttp_request_client_host(user->req), "a.example"));
}
static void request_is_tls(user_t *user) {
    EXPECT(!uvhttp_request_is_tls(user->req));
}
static void request_client_subject(user_t *user) {
    EXPECT(uvhttp_request_client_subject(user->req) == NULL);
}
static void request_time_ns(user_t *user) {
    EXPECT(uvhttp_request_time_ns(user->req) > 0);
}
static void request_data(user_t *user) {
    EXPECT(uvhttp_request_data(user->req) == NULL);
}
static void request_set_data(user_t *user) {
    uvhttp_request_set_data(user->req, NULL);
}
static void request_alloc(user_t *user) {
    char *memory = uvhttp_request_alloc(user->req, 100);
    EXPECT(memory != NULL);
    if (memory) memset(memory, 'x', 100);
}
static void request_str_dup(user_t *user) {
    char *copy = uvhttp_request_str_dup(user->req, uvhttp_request_param(user->req, "id"));
    EXPECT(copy && strcmp(copy, "1") == 0);
}
static void request_trailer(user_t *user) {
    EXPECT(uvhttp_request_trailer(user->req, "T").data == NULL);
}
static void request_trailer_at(user_t *user) {
    EXPECT(!uvhttp_request_trailer_at(user->req, 0, NULL, NULL));
}
static void request_cookie(user_t *user) {
    uvhttp_str_t text;
    if (uvhttp_request_cookie) EXPECT(uvhttp_request_cookie(user->req, "c", &text) && same(text, "d"));
}
static void request_cookie_at(user_t *user) {
    uvhttp_str_t text;
    if (uvhttp_request_cookie_at) EXPECT(uvhttp_request_cookie_at(user->req, 0, &text, NULL) && same(text, "c"));
}
static void request_form(user_t *user) {
    uvhttp_form_t *form = NULL;
    if (uvhttp_request_form_sized) EXPECT(uvhttp_request_form(user->req, NULL, &form) == UVHTTP_E_FORM_TYPE && !form);
}
/* The servers of these tests trace every request. */
static void request_trace(user_t *user) {
    uvhttp_trace_t trace;
    EXPECT(uvhttp_request_trace(user->req, &trace) == UVHTTP_OK && strlen(trace.traceparent) == 55);
}
/* There is capacity for 32, and for so much memory. */
static bool may_be_full(int status) {
    return status == UVHTTP_OK || status == UVHTTP_E_LIMIT || status == UVHTTP_E_NOMEM;
}
static void request_trace_text(user_t *user) {
    EXPECT(may_be_full(uvhttp_request_trace_text(user->req, "a", uvhttp_str("b"))));
}
static void request_trace_int(user_t *user) {
    EXPECT(may_be_full(uvhttp_request_trace_int(user->req, "a", 1)));
}
static void request_trace_double(user_t *user) {
    EXPECT(may_be_full(uvhttp_request_trace_double(user->req, "a", 1)));
}
static void request_trace_bool(user_t *user) {
    EXPECT(may_be_full(uvhttp_request_trace_bool(user->req, "a", true)));
}
static void request_trace_event(user_t *user) {
    EXPECT(may_be_full(uvhttp_request_trace_event(user->req, "a")));
}
static void request_id_get(user_t *user) {
    if (uvhttp_request_id_get) EXPECT(uvhttp_request_id_get(user->req).data == NULL);
}

/* Those of the loop refuse what is no loop's thread, and touch nothing. */
static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res, (void)data, (void)user;
}
static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)status, (void)user;
}
static void on_event(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp_multipart_event_t *event, void *user) {
    (void)req, (void)res, (void)event, (void)user;
}
static void request_on_body(user_t *user) {
    EXPECT(uvhttp_request_on_body(user->req, on_data, on_end, NULL) == UVHTTP_E_STATE);
}
static void request_on_multipart(user_t *user) {
    if (uvhttp_request_on_multipart_sized)
        EXPECT(uvhttp_request_on_multipart(user->req, NULL, on_event, on_end, NULL) == UVHTTP_E_FORM_TYPE);
}
static void request_pause_body(user_t *user) {
    EXPECT(uvhttp_request_pause_body(user->req) == UVHTTP_E_STATE);
}
static void request_resume_body(user_t *user) {
    EXPECT(uvhttp_request_resume_body(user->req) == UVHTTP_E_STATE);
}
/* In a worker's handler: the body has arrived completely, and is read once. */
static void request_read_body(user_t *user) {
    uvhttp_str_t piece;
    int status = uvhttp_request_read_body(user->req, &piece, 1000);
    EXPECT(status == (user->res ? UVHTTP_OK : UVHTTP_E_STATE) || status == UVHTTP_E_EOF ||
           status == UVHTTP_E_STATE); /* a coroutine has uvhttp_coro_read_body */
}
static void request_save_body(user_t *user) {
    if (uvhttp_request_save_body_sized)
        EXPECT(uvhttp_request_save_body(user->req, -1, NULL, NULL, NULL) == UVHTTP_E_INVALID);
}
static void request_write_body(user_t *user) {
    if (uvhttp_request_write_body_sized)
        EXPECT(uvhttp_request_write_body(user->req, -1, NULL, NULL) == UVHTTP_E_INVALID);
}
static void request_save_form(user_t *user) {
    uvhttp_form_t *form = NULL;
    if (uvhttp_request_save_form_sized)
        EXPECT(uvhttp_request_save_form(user->req, 0, NULL, &form) == UVHTTP_E_FORM_TYPE);
}

/* Responses: by the handler on a worker thread or in a coroutine, whose client has gone. */

static void nothing(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
}
static void nothing_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status, (void)user;
}
static void response_stopping(user_t *user) {
    EXPECT(!uvhttp_response_stopping(user->res));
}
static void response_header(user_t *user) {
    EXPECT(uvhttp_response_header(user->res, "X-One", "1") == UVHTTP_OK);
}
static void response_header_add(user_t *user) {
    EXPECT(uvhttp_response_header_add(user->res, "X-Two", "2") == UVHTTP_OK);
}
static void response_header_str(user_t *user) {
    EXPECT(uvhttp_response_header_str(user->res, "X-One", (uvhttp_str_t){"123", 1}) == UVHTTP_OK);
}
static void response_header_add_str(user_t *user) {
    EXPECT(uvhttp_response_header_add_str(user->res, "X-Two", (uvhttp_str_t){"234", 1}) == UVHTTP_OK);
}
static void response_header_get(user_t *user) {
    (void)uvhttp_response_header_get(user->res, "X-One");
}
static void response_header_remove(user_t *user) {
    EXPECT(uvhttp_response_header_remove(user->res, "X-One") == UVHTTP_OK);
}
static void response_cookie(user_t *user) {
    if (uvhttp_response_cookie_sized)
        (void)uvhttp_response_cookie(user->res, &(uvhttp_cookie_options_t){.name = "a", .value = "b"});
}
static void response_text(user_t *user) {
    EXPECT(uvhttp_response_text(user->res, 200, "text") == UVHTTP_OK);
}
static void response_json(user_t *user) {
    EXPECT(uvhttp_response_json(user->res, 200, "{}") == UVHTTP_OK);
}
static void response_text_str(user_t *user) {
    EXPECT(uvhttp_response_text_str(user->res, 200, (uvhttp_str_t){"text", 2}) == UVHTTP_OK);
}
static void response_json_str(user_t *user) {
    EXPECT(uvhttp_response_json_str(user->res, 200, (uvhttp_str_t){"{}", 2}) == UVHTTP_OK);
}
static void response_send(user_t *user) {
    EXPECT(uvhttp_response_send(user->res, 200, "a/b", "x", 1) == UVHTTP_OK);
}
static void response_send_static(user_t *user) {
    EXPECT(uvhttp_response_send_static(user->res, 200, "a/b", "x", 1) == UVHTTP_OK);
}
static void response_send_ref(user_t *user) {
    EXPECT(uvhttp_response_send_ref(user->res, 200, "a/b", "x", 1, NULL, NULL) == UVHTTP_OK);
}
static void response_send_shared_body(user_t *user) {
    uvhttp_shared_body_t *content;
    if (uvhttp_shared_body_new("x", 1, &content) != UVHTTP_OK) abort();
    EXPECT(uvhttp_response_send_shared_body(user->res, 200, "a/b", content) == UVHTTP_OK);
    uvhttp_shared_body_release(content);
}
static void response_send_fd(user_t *user) {
    EXPECT(uvhttp_response_send_fd(user->res, 200, "a/b", -1, 0, 0) == UVHTTP_E_INVALID);
}
static void response_send_file(user_t *user) {
    EXPECT(uvhttp_response_send_file(user->res, 200, "a/b", "/nowhere") == UVHTTP_E_NOT_FOUND);
}
static void response_empty(user_t *user) {
    EXPECT(uvhttp_response_empty(user->res, 204) == UVHTTP_OK);
}
static void response_redirect(user_t *user) {
    EXPECT(uvhttp_response_redirect(user->res, 302, "/") == UVHTTP_OK);
}
static void response_redirect_str(user_t *user) {
    EXPECT(uvhttp_response_redirect_str(user->res, 302, (uvhttp_str_t){"/abc", 1}) == UVHTTP_OK);
}
static void response_status(user_t *user) {
    EXPECT(uvhttp_response_status(user->res) == 302);
}
static void response_set_status(user_t *user) {
    EXPECT(uvhttp_response_set_status(user->res, 303) == UVHTTP_OK);
}
static void response_request(user_t *user) {
    EXPECT(uvhttp_response_request(user->res) == user->req);
}
static void response_close(user_t *user) {
    uvhttp_response_close(user->res);
}
static void response_on_finish(user_t *user) {
    EXPECT(uvhttp_response_on_finish(user->res, nothing, NULL) == UVHTTP_OK);
}
static void response_on_done(user_t *user) {
    EXPECT(uvhttp_response_on_done(user->res, nothing_done, NULL) == UVHTTP_OK);
}
static void response_upgrade(user_t *user) {
    EXPECT(uvhttp_response_upgrade(user->res, "p", NULL, NULL) == UVHTTP_E_INVALID);
}
static const uvhttp_response_field_t link_field = {"Link", "</a.css>; rel=preload"};
static void response_interim(user_t *user) {
    EXPECT(uvhttp_response_interim(user->res, 103, &link_field, 1) == UVHTTP_E_ABORTED);
}
static void response_begin(user_t *user) {
    EXPECT(uvhttp_response_begin(user->res, 200, "a/b", UVHTTP_SIZE_UNKNOWN) == UVHTTP_E_ABORTED);
}
static void response_write(user_t *user) {
    int status = uvhttp_response_write(user->res, "x", 1);
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_trailer(user_t *user) {
    int status = uvhttp_response_trailer(user->res, "T", "t");
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_trailer_str(user_t *user) {
    int status = uvhttp_response_trailer_str(user->res, "T", (uvhttp_str_t){"t", 1});
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
static void response_end(user_t *user) {
    int status = uvhttp_response_end(user->res);
    EXPECT(status == UVHTTP_E_STATE || status == UVHTTP_E_ABORTED);
}
/* The response was begun: it is too late. That it works, the routes of the application's thread show. */
static void response_defer(user_t *user) {
    EXPECT(uvhttp_response_defer(user->res) == NULL);
}

/* Handles: by any thread. The client goes, or has gone. */

static bool gone_or(int status, int otherwise) {
    return status == UVHTTP_E_ABORTED || status == otherwise;
}
static void run_nothing(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) (void)uvhttp_response_header(res, "X-Run", "yes");
}
static uvhttp_flow_t go_nowhere(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_STOP;
}
static void deferred_header(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_header(user->deferred, "X-Afar", "yes"), UVHTTP_OK));
}
static void deferred_header_str(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_header_str(user->deferred, "X-Afar", (uvhttp_str_t){"yes", 1}), UVHTTP_OK));
}
static void deferred_interim(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_interim(user->deferred, 103, &link_field, 1), UVHTTP_OK));
}
static void deferred_run(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_run(user->deferred, run_nothing, NULL), UVHTTP_OK));
}
static void deferred_on_stop(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_on_stop(user->deferred, run_nothing, NULL), UVHTTP_OK));
}
static void deferred_aborted(user_t *user) {
    (void)uvhttp_deferred_aborted(user->deferred);
}
static void deferred_request(user_t *user) {
    EXPECT(uvhttp_deferred_request(user->deferred) == user->req);
}
static void deferred_retain(user_t *user) {
    uvhttp_deferred_retain(user->deferred);
}
static void deferred_release(user_t *user) {
    uvhttp_deferred_release(user->deferred); /* of deferred_retain */
}
static void deferred_pause_body(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_pause_body(user->deferred), UVHTTP_OK));
}
static void deferred_resume_body(user_t *user) {
    EXPECT(gone_or(uvhttp_deferred_resume_body(user->deferred), UVHTTP_OK));
}

/* Those that respond: when the client has gone. */
static void deferred_text(user_t *user) {
    EXPECT(uvhttp_deferred_text(user->deferred, 200, "") == UVHTTP_E_ABORTED);
}
static void deferred_json(user_t *user) {
    EXPECT(uvhttp_deferred_json(user->deferred, 200, "{}") == UVHTTP_E_ABORTED);
}
static void deferred_send(user_t *user) {
    EXPECT(uvhttp_deferred_send(user->deferred, 200, NULL, "x", 1) == UVHTTP_E_ABORTED);
}
static void deferred_send_ref(user_t *user) {
    EXPECT(uvhttp_deferred_send_ref(user->deferred, 200, NULL, "x", 1, NULL, NULL) == UVHTTP_E_ABORTED);
}
static void deferred_next(user_t *user) {
    EXPECT(uvhttp_deferred_next(user->deferred, go_nowhere, NULL) == UVHTTP_E_ABORTED);
}

typedef struct entry {
    const char *name;
    const char *thread; /* the macro of types.h in its declaration */
    void (*use)(user_t *user);
} entry_t;
#define USE_ON(thread, function)                                                                                       \
    { "uvhttp_" #function, thread, function }
#define USE(function) USE_ON("UVHTTP_OWNER_THREAD", function)
#define USE_HANDLE(function) USE_ON("UVHTTP_ANY_THREAD", function)
#define REFUSED_OFF_LOOP(function) USE_ON("UVHTTP_LOOP_THREAD", function)
#define USE_ON_WORKER(function) USE_ON("UVHTTP_WORKER_THREAD", function)

static const entry_t of_requests[] = {
    USE(request_method),
    USE(request_method_text),
    USE(request_target),
    USE(request_path),
    USE(request_query),
    USE(request_query_param),
    USE(request_query_at),
    USE(request_param),
    USE(request_header),
    USE(request_header_at),
    USE(request_header_count),
    USE(request_header_next),
    USE(request_host),
    USE(request_http_version),
    USE(request_body),
    USE(request_peer),
    USE(request_peer_address),
    USE(request_client),
    USE(request_client_scheme),
    USE(request_client_host),
    USE(request_is_tls),
    USE(request_client_subject),
    USE(request_time_ns),
    USE(request_data),
    USE(request_set_data),
    USE(request_alloc),
    USE(request_trailer),
    USE(request_trailer_at),
    USE(request_cookie),
    USE(request_cookie_at),
    USE(request_form),
    USE(request_id_get),
    USE(request_trace),
    USE(request_trace_text),
    USE(request_trace_int),
    USE(request_trace_double),
    USE(request_trace_bool),
    USE(request_trace_event),
    REFUSED_OFF_LOOP(request_on_body),
    REFUSED_OFF_LOOP(request_on_multipart),
    REFUSED_OFF_LOOP(request_pause_body),
    REFUSED_OFF_LOOP(request_resume_body),
    USE_ON_WORKER(request_read_body),
    USE_ON_WORKER(request_save_body),
    USE_ON_WORKER(request_save_form),
    USE(request_str_dup),
    USE_ON_WORKER(request_write_body),
};
/* In this order: begin locks what is before it. */
static const entry_t of_responses[] = {
    USE(response_stopping),       USE(response_header),
    USE(response_header_add),     USE(response_header_str),
    USE(response_header_add_str), USE(response_header_get),
    USE(response_header_remove),  USE(response_cookie),
    USE(response_text),           USE(response_json),
    USE(response_text_str),       USE(response_json_str),
    USE(response_send),           USE(response_send_static),
    USE(response_send_ref),       USE(response_send_shared_body),
    USE(response_send_fd),        USE(response_send_file),
    USE(response_empty),          USE(response_redirect),
    USE(response_redirect_str),   USE(response_status),
    USE(response_set_status),     USE(response_request),
    USE(response_close),          USE(response_on_finish),
    USE(response_on_done),        USE(response_upgrade),
    USE(response_interim),        USE(response_begin),
    USE(response_write),          USE(response_trailer),
    USE(response_trailer_str),    USE(response_end),
    USE(response_defer),
};
static const entry_t of_handles[] = {
    USE_HANDLE(deferred_on_stop),
    USE(deferred_header),
    USE(deferred_header_str),
    USE_HANDLE(deferred_interim),
    USE_HANDLE(deferred_run),
    USE_HANDLE(deferred_aborted),
    USE(deferred_request),
    USE_HANDLE(deferred_retain),
    USE_HANDLE(deferred_release),
    USE_HANDLE(deferred_pause_body),
    USE_HANDLE(deferred_resume_body),
};
static const entry_t of_handles_afterwards[] = {
    USE_HANDLE(deferred_text),     USE_HANDLE(deferred_json), USE_HANDLE(deferred_send),
    USE_HANDLE(deferred_send_ref), USE_HANDLE(deferred_next),
};
/* Not for a thread that is not the loop's. */
static const entry_t on_loop_only[] = {
    {"uvhttp_deferred_on_abort", "UVHTTP_LOOP_THREAD", NULL}, /* right after defer, in the handler */
    {"uvhttp_deferred_on_drain", "UVHTTP_LOOP_THREAD", NULL}, /* the same */
    {"uvhttp_request_id", "UVHTTP_ANY_THREAD", NULL},         /* a middleware, which is made before the server runs */
};

#endif
