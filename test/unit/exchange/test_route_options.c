/* Owns: tests of what a route has of its own: the limit of its bodies, and how its handler is run. For its times see
 * test_deadline.c. */
#include "support/streaming.h"

static void echo_size(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[32];
    snprintf(text, sizeof text, "%zu", uvhttp_request_body(req).size);
    keep_trailer(req);
    uvhttp_response_text(res, 200, text);
}

/* POST /small takes 10 bytes, /usual what the server takes (100), /large 1000. */
static void start_limits(serving_t *serving) {
    seen_reset();
    serving->config.body_size_max = 100;
    serving_make(serving);
    uvhttp_server_t *server = serving->server;
    assert_int_equal(uvhttp_route_options(uvhttp_post(server, "/small", echo_size, NULL),
                                          &(uvhttp_route_options_t){.body_size_max = 10}),
                     UVHTTP_OK);
    uvhttp_post(server, "/usual", echo_size, NULL);
    uvhttp_group_t *group = uvhttp_group(server, "/group");
    assert_int_equal(uvhttp_route_options(uvhttp_group_post(group, "/large/:id", echo_size, NULL),
                                          &(uvhttp_route_options_t){.body_size_max = 1000}),
                     UVHTTP_OK);
    uvhttp_route_t *reset = uvhttp_post(server, "/reset", echo_size, NULL);
    assert_int_equal(uvhttp_route_options(reset, &(uvhttp_route_options_t){.body_size_max = 10}), UVHTTP_OK);
    assert_int_equal(uvhttp_route_options(reset, NULL), UVHTTP_OK);
    serving_start(serving);
}

static void expect(const serving_t *serving, const char *path, size_t size, bool chunked, bool split, int status) {
    char request[2048], text[32];
    static char body[1100];
    memset(body, 'b', sizeof body);
    int head = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nHost: a\r\n", path);
    if (chunked)
        head += snprintf(request + head, sizeof request - (size_t)head,
                         "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n0\r\n\r\n", size, (int)size, body);
    else
        head += snprintf(request + head, sizeof request - (size_t)head, "Content-Length: %zu\r\n\r\n%.*s", size,
                         (int)size, body);
    int fd = client_connect(serving->port);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    size_t first = split ? (size_t)head - 7 : (size_t)head;
    client_send(fd, request, first);
    if (split) client_send(fd, request + first, (size_t)head - first);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, status);
    snprintf(text, sizeof text, "%zu", size);
    if (status == 200) assert_string_equal(response->body, text);
    close(fd);
}

static void test_a_route_may_take_less_or_more_than_the_server(void **state) {
    serving_t *serving = *state;
    start_limits(serving);
    for (int cursor = 0; cursor < 4; ++cursor) {
        bool chunked = cursor & 1, split = cursor & 2;
        expect(serving, "/small", 10, chunked, split, 200);
        expect(serving, "/small", 11, chunked, split, 413);
        expect(serving, "/usual", 100, chunked, split, 200);
        expect(serving, "/usual", 101, chunked, split, 413);
        expect(serving, "/reset", 100, chunked, split, 200);
        expect(serving, "/group/large/a%2Fb", 1000, chunked, split, 200);
        expect(serving, "/group/large/x", 1001, chunked, split, 413);
        expect(serving, "/nowhere", 50, chunked, split, 404);
        expect(serving, "/nowhere", 101, chunked, split, 404);
        expect(serving, "/%zz", 50, chunked, split, 400);
    }
    assert_int_equal(counter(serving, "rejected_http_body_too_large"), 12);
}

static void test_trailers_of_a_collected_body_can_be_read(void **state) {
    serving_t *serving = *state;
    start_limits(serving);
    int fd = client_ask(serving, "POST /usual HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "3\r\nabc\r\n0\r\nX-Check: collected\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "3");
    assert_trailer("collected");
    close(fd);
}

static void test_a_streamed_body_has_no_limit_but_its_route_s(void **state) {
    serving_t *serving = *state;
    static char body[5000];
    memset(body, 'x', sizeof body);
    serving->config.body_size_max = 10;
    streaming_start(serving, (uvhttp_route_options_t){0});
    int fd = client_ask(serving, HEAD("Content-Length: 5000\r\n"));
    client_send(fd, body, sizeof body);
    expect_consumed(fd, body, sizeof body);
    close(fd);
}

static void test_a_streamed_body_beyond_the_limit_of_its_route_is_413(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, (uvhttp_route_options_t){.body_size_max = 5});
    int fd = client_ask(serving, HEAD("Content-Length: 6\r\n"));
    client_read_last(fd, 413);
    assert_int_equal(seen.handlers, 0);
    fd = client_ask(serving, CHUNKED_HEAD "5\r\n12345\r\n1\r\n6\r\n");
    assert_int_equal(client_read(fd)->status, 413);
    client_expect_end(fd);
    close(fd);
    assert_int_equal(seen.end_status, UVHTTP_E_HTTP_BODY_TOO_LARGE);
    assert_int_equal(seen.bytes, 5);
    assert_int_equal(counter(serving, "rejected_http_body_too_large"), 2);
}

/* --- refused --- */

static void expect_refused(serving_t *serving, const uvhttp_route_options_t *options, const char *words) {
    serving_make(serving);
    uvhttp_route_t *route = uvhttp_get(serving->server, "/x", hello, NULL);
    assert_int_equal(uvhttp_route_options(route, options), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), words));
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_wrong_options_are_refused_with_a_reason(void **state) {
    serving_t *serving = *state;
    serving->config.performance.log_level = UVHTTP_LOG_LEVEL_NONE;
    expect_refused(serving, &(uvhttp_route_options_t){.response_timeout_ms = 604800001},
                   "GET /x: response_timeout_ms is 604800001");
    expect_refused(serving, &(uvhttp_route_options_t){.body_size_max = UINT64_MAX}, "GET /x: body_size_max");
    expect_refused(serving, &(uvhttp_route_options_t){.live_body = true}, "GET /x: live_body: it needs stream_body");
    assert_int_equal(uvhttp_route_options(NULL, NULL), UVHTTP_E_INVALID);
    serving_make(serving);
    uvhttp_route_t *route = uvhttp_get(serving->server, "/x", hello, NULL);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_route_options(route, NULL), UVHTTP_E_STATE);
}

/* --- how the handler is run --- */

static void test_a_mode_of_execution_that_is_not_there_is_refused(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_server_t *server = serving->server;
    int outside = 99;
    assert_null(uvhttp_route(server, UVHTTP_GET, "/a", echo_size, NULL, (uvhttp_exec_t)outside));
    assert_non_null(strstr(uvhttp_server_error_text(server), "GET /a: exec: give UVHTTP_EXEC_LOOP"));
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_route_may_take_less_or_more_than_the_server),
        ON_EACH(test_trailers_of_a_collected_body_can_be_read),
        ON_EACH(test_a_streamed_body_has_no_limit_but_its_route_s),
        ON_EACH(test_a_streamed_body_beyond_the_limit_of_its_route_is_413),
        ON_EACH(test_wrong_options_are_refused_with_a_reason),
        ON_EACH(test_a_mode_of_execution_that_is_not_there_is_refused),
    };
    return RUN_TABLE(tests);
}
