/* Owns: tests of what the routes of a group inherit: how their handlers run, the limits of their bodies, their times.
 */
#include "support/http_server.h"

static const char *mode_here(void) {
    if (uvhttp_coro_active()) return "coroutine";
    return uvhttp_loop_uv() ? "loop" : "worker";
}

static void show_mode(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, mode_here());
}

static void show_size(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[32];
    snprintf(text, sizeof text, "%zu", uvhttp_request_body(req).size);
    uvhttp_response_text(res, 200, text);
}

static int defaults(uvhttp_group_t *group, uvhttp_route_options_t options) {
    return uvhttp_group_defaults(group, &options);
}

static void expect(const serving_t *serving, const char *request, int status, const char *body) {
    int fd = client_connect(serving->port);
    client_send_text(fd, request);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, status);
    if (body) assert_string_equal(response->body, body);
    close(fd);
}

/* --- how a handler is run --- */

static void test_the_routes_of_a_group_run_as_its_defaults_say(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_server_t *server = serving->server;
    uvhttp_group_t *outer = uvhttp_group(server, "/outer");
    uvhttp_group_get(outer, "/before", show_mode, NULL);
    uvhttp_group_t *heir = uvhttp_group_group(outer, "/heir");
    uvhttp_group_get(heir, "/x", show_mode, NULL);
    uvhttp_group_t *own = uvhttp_group_group(outer, "/own");
    assert_int_equal(defaults(own, (uvhttp_route_options_t){.exec = UVHTTP_EXEC_LOOP}), UVHTTP_OK);
    uvhttp_group_get(own, "/x", show_mode, NULL);
    assert_int_equal(defaults(outer, (uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER}), UVHTTP_OK);
    uvhttp_route_t *route = uvhttp_group_get(outer, "/options", show_mode, NULL);
    assert_int_equal(uvhttp_route_options(route, &(uvhttp_route_options_t){.exec = UVHTTP_EXEC_LOOP}), UVHTTP_OK);
    uvhttp_group_route(outer, UVHTTP_GET, "/registered", show_mode, NULL, UVHTTP_EXEC_LOOP);
    uvhttp_get(server, "/outer/none", show_mode, NULL);
    serving_start(serving);
    expect(serving, GET("/outer/before"), 200, "worker");
    expect(serving, GET("/outer/heir/x"), 200, "worker");
    expect(serving, GET("/outer/own/x"), 200, "loop");
    expect(serving, GET("/outer/options"), 200, "loop");
    expect(serving, GET("/outer/registered"), 200, "loop");
    expect(serving, GET("/outer/none"), 200, "loop");
}

static void test_groups_may_have_the_same_prefix_and_other_defaults(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *first = uvhttp_group(serving->server, "/api"), *second = uvhttp_group(serving->server, "/api");
    assert_int_equal(defaults(first, (uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER}), UVHTTP_OK);
#if UVHTTP_WITH_COROUTINES
    assert_int_equal(defaults(second, (uvhttp_route_options_t){.exec = UVHTTP_EXEC_COROUTINE}), UVHTTP_OK);
    const char *mode = "coroutine";
#else
    const char *mode = "loop";
#endif
    uvhttp_group_get(first, "/1", show_mode, NULL);
    uvhttp_group_get(second, "/2", show_mode, NULL);
    serving_start(serving);
    expect(serving, GET("/api/1"), 200, "worker");
    expect(serving, GET("/api/2"), 200, mode);
}

static void test_every_method_has_a_function_for_groups(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    assert_non_null(uvhttp_group_get(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_head(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_post(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_put(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_delete(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_patch(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_options(group, "", show_size, NULL));
    assert_non_null(uvhttp_group_any(group, "/any", show_size, NULL));
    serving_start(serving);
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char request[128];
        snprintf(request, sizeof request, "%s /g HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok", methods[i]);
        expect(serving, request, 200, "2");
    }
    expect(serving, "DELETE /g/any HTTP/1.1\r\nHost: a\r\n\r\n", 200, "0");
    expect(serving, "TRACE /g HTTP/1.1\r\nHost: a\r\n\r\n", 405, NULL);
}

/* --- limits and times --- */

static void test_limits_of_bodies_are_inherited(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *outer = uvhttp_group(serving->server, "/outer"), *inner = uvhttp_group_group(outer, "/inner");
    assert_int_equal(defaults(outer, (uvhttp_route_options_t){.body_size_max = 3}), UVHTTP_OK);
    uvhttp_group_post(outer, "/x", show_size, NULL);
    uvhttp_group_post(inner, "/x", show_size, NULL);
    uvhttp_route_t *route = uvhttp_group_post(inner, "/y", show_size, NULL);
    assert_int_equal(uvhttp_route_options(route, &(uvhttp_route_options_t){.body_size_max = 4}), UVHTTP_OK);
    serving_start(serving);
    expect(serving, "POST /outer/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n123", 200, "3");
    expect(serving, "POST /outer/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n1234", 413, NULL);
    expect(serving, "POST /outer/inner/x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n1234", 413, NULL);
    expect(serving, "POST /outer/inner/y HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n1234", 200, "4");
}

/* Responds after 200 ms. */
typedef struct late {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
} late_t;

static void respond(uvhttp_timer_t *timer, void *user) {
    late_t *late = user;
    (void)timer;
    uvhttp_deferred_text(late->deferred, 200, "late");
    uvhttp_deferred_release(late->deferred);
}

static void respond_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    late_t *late = uvhttp_request_alloc(req, sizeof *late);
    *late = (late_t){.deferred = uvhttp_response_defer(res)};
    uvhttp_timer_start(&late->timer, 200, respond, late);
}

static void test_a_route_may_lift_the_time_limit_of_its_group(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    assert_int_equal(defaults(group, (uvhttp_route_options_t){.response_timeout_ms = 20}), UVHTTP_OK);
    uvhttp_group_get(group, "/hasty", respond_later, NULL);
    uvhttp_route_t *route = uvhttp_group_get(group, "/patient", respond_later, NULL);
    assert_int_equal(uvhttp_route_options(route, &(uvhttp_route_options_t){.response_timeout_ms = UVHTTP_NEVER}),
                     UVHTTP_OK);
    serving_start(serving);
    expect(serving, GET("/g/hasty"), 503, NULL);
    expect(serving, GET("/g/patient"), 200, "late");
}

static void count_piece(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res;
    *(size_t *)user += data.size;
}

static void tell_count(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req;
    char text[64];
    snprintf(text, sizeof text, "%zu %s", *(size_t *)user, uvhttp_error_name(status));
    uvhttp_response_text(res, 200, text);
}

static void stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    size_t *size = uvhttp_request_alloc(req, sizeof *size);
    *size = 0;
    if (uvhttp_request_on_body(req, count_piece, tell_count, size) != UVHTTP_OK)
        uvhttp_response_text(res, 500, "not streamed");
}

static void test_streaming_is_inherited(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    assert_int_equal(defaults(group, (uvhttp_route_options_t){.stream_body = true}), UVHTTP_OK);
    uvhttp_group_post(uvhttp_group_group(group, "/in"), "/x", stream, NULL);
    serving_start(serving);
    expect(serving, "POST /g/in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n123", 200, "3 UVHTTP_OK");
}

#if UVHTTP_WITH_STATIC
static void test_the_librarys_own_handlers_stay_on_the_loop(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    assert_int_equal(defaults(group, (uvhttp_route_options_t){.exec = UVHTTP_EXEC_WORKER, .stream_body = true}),
                     UVHTTP_OK);
    assert_int_equal(uvhttp_group_static(group, "/files", "test/integration", NULL), UVHTTP_OK);
    serving_start(serving);
    expect(serving, GET("/g/files/pytest.ini"), 200, NULL);
}
#endif

/* --- refused --- */

static void expect_refused(serving_t *serving, uvhttp_route_options_t options, const char *words) {
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    uvhttp_group_get(group, "/x", show_mode, NULL);
    int now = defaults(group, options), status = uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL);
    assert_int_equal(status, UVHTTP_E_INVALID);
    assert_true(now == status || (now == UVHTTP_OK && options.exec));
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), words));
    assert_int_equal(uvhttp_server_error(serving->server), status);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_wrong_defaults_are_refused_with_a_reason(void **state) {
    serving_t *serving = *state;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    serving->config.performance.log_level = UVHTTP_LOG_LEVEL_NONE;
    int outside = 99;
    expect_refused(serving, (uvhttp_route_options_t){.response_timeout_ms = 604800001},
                   "group /g: response_timeout_ms");
    expect_refused(serving, (uvhttp_route_options_t){.body_size_max = UINT64_MAX}, "group /g: body_size_max");
    expect_refused(serving, (uvhttp_route_options_t){.live_body = true}, "group /g: live_body");
    expect_refused(serving, (uvhttp_route_options_t){.exec = (uvhttp_exec_t)outside}, "GET /g/x: exec: give");
    serving_make(serving);
    uvhttp_group_t *group = uvhttp_group(serving->server, "/g");
    assert_int_equal(uvhttp_group_defaults(NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_group_defaults(group, NULL), UVHTTP_E_STATE);
    uvhttp_server_free(serving->server);
    serving_make(serving);
    group = uvhttp_group(serving->server, "no-slash");
    assert_int_equal(uvhttp_group_defaults(group, NULL), UVHTTP_E_INVALID);
    assert_null(uvhttp_group_get(group, "/x", show_mode, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_the_routes_of_a_group_run_as_its_defaults_say),
        ON_EACH(test_groups_may_have_the_same_prefix_and_other_defaults),
        ON_EACH(test_every_method_has_a_function_for_groups),
        ON_EACH(test_limits_of_bodies_are_inherited),
        ON_EACH(test_a_route_may_lift_the_time_limit_of_its_group),
        ON_EACH(test_streaming_is_inherited),
#if UVHTTP_WITH_STATIC
        ON_EACH(test_the_librarys_own_handlers_stay_on_the_loop),
#endif
        ON_EACH(test_wrong_defaults_are_refused_with_a_reason),
    };
    return RUN_TABLE(tests);
}
