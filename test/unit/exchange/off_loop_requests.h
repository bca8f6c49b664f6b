/* Owns: how each public function of a request is used off its loop, and what it has to show there. */
#ifndef UVHTTP_TEST_UNIT_EXCHANGE_OFF_LOOP_REQUESTS_H
#define UVHTTP_TEST_UNIT_EXCHANGE_OFF_LOOP_REQUESTS_H

#include <dirent.h>
#include <uvhttp/request_id.h> /* also in a build without middleware */
#include <uvhttp/tls.h>

#include "support/http_server.h"

/* Parts of the library that a build may leave out. */
#pragma weak uvhttp_request_cookie
#pragma weak uvhttp_request_cookie_at
#pragma weak uvhttp_response_cookie_sized
#pragma weak uvhttp_request_form_sized
#pragma weak uvhttp_request_id_get
#pragma weak uvhttp_request_save_body_sized
#pragma weak uvhttp_request_save_form_sized
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
static void request_save_form(user_t *user) {
    uvhttp_form_t *form = NULL;
    if (uvhttp_request_save_form_sized)
        EXPECT(uvhttp_request_save_form(user->req, 0, NULL, &form) == UVHTTP_E_FORM_TYPE);
}

#endif
