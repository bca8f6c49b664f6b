/* Owns: tests of when a request's body is read: after the middleware that needs only the head has passed the request
 * on, never for a request that is refused, and 100 (Continue) only then. On each engine. */
#include "support/failing_allocator.h"
#include "support/streaming.h"

#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more "\r\n"
#define EXPECT "Expect: 100-continue\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static atomic_int head_size, body_size, handled, finished, aborted; /* what was seen, -1: nothing */
static _Atomic(uvhttp_deferred_t *) waiting;

static void reset_seen(void) {
    head_size = body_size = -1;
    handled = finished = aborted = 0;
    atomic_store(&waiting, NULL);
}

static void count_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_fetch_add(status == UVHTTP_OK ? &finished : &aborted, 1);
}

static uvhttp_flow_t see_head(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_store(&head_size, (int)uvhttp_request_body(req).size);
    uvhttp_response_on_done(res, count_done, NULL);
    if (uvhttp_request_header(req, "authorization").data) return UVHTTP_NEXT;
    uvhttp_response_text(res, 401, "who?");
    return UVHTTP_STOP;
}

static uvhttp_flow_t see_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    atomic_store(&body_size, (int)body.size);
    if (body.size > 0 && body.data[0] == 'x') {
        uvhttp_response_text(res, 422, "not this one");
        return UVHTTP_STOP;
    }
    return UVHTTP_NEXT;
}

static uvhttp_flow_t wait_for_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_request_body(req).size > 0) abort();
    uvhttp_response_on_done(res, count_done, NULL);
    atomic_store(&waiting, uvhttp_response_defer(res));
    return UVHTTP_STOP;
}

static uvhttp_flow_t pass(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    atomic_fetch_add(&handled, 1);
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

static serving_t *start(void **state, const uvhttp_middleware_t *middleware, size_t count) {
    serving_t *serving = *state;
    reset_seen();
    serving->config.body_size_max = 1 << 21;
    serving_make(serving);
    for (size_t i = 0; i < count; i++) uvhttp_use(serving->server, middleware[i]);
    assert_non_null(uvhttp_post(serving->server, "/echo/:name", echo, NULL));
    assert_non_null(uvhttp_get(serving->server, "/hello", hello, NULL));
    serving_start(serving);
    return serving;
}

static void expect_line(int fd, const char *line) {
    char got[64] = "";
    for (size_t i = 0; i < strlen(line); i++) client_receive(fd, got + i, 1);
    assert_string_equal(got, line);
}

static void expect_response(int fd, int status, const char *body) {
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, status);
    assert_string_equal(response->body, body);
}

/* The 401 comes while most of the body has not been sent, and nothing of what is sent then is kept. */
static void test_a_refused_body_is_never_kept(void **state) {
    enum { CLIENTS = 64, ANNOUNCED = 1 << 20, SENT = 256 << 10 };
    static char bytes[SENT];
    static const char *const heads[] = {POST("/echo/a", "Content-Length: 1048576\r\n"), POST("/echo/a", CHUNKED)};
    const uvhttp_middleware_t refuse = {.run = see_head};
    serving_t *serving = start(state, &refuse, 1);
    int fds[CLIENTS];
    client_send_text(fds[0] = client_connect(serving->port), GET("/hello"));
    expect_response(fds[0], 401, "who?");
    close(fds[0]);
    size_t before = test_allocator_live_bytes();
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_ask(serving, heads[i % 2]);
        if (i % 4 < 2) client_send(fds[i], "400\r\nthe first of them", 22);
        expect_response(fds[i], 401, "who?");
        size_t sent = 0;
        while (sent < SENT) { /* the server may have closed by now */
            ssize_t n = send(fds[i], bytes + sent, SENT - sent, MSG_NOSIGNAL);
            if (n <= 0) break;
            sent += (size_t)n;
        }
        size_t now = test_allocator_live_bytes();
        assert_true(now < before + CLIENTS * 4096);
    }
    assert_int_equal(handled, 0);
    assert_int_equal(finished, CLIENTS + 1);
    assert_int_equal(counter(serving, "requests"), CLIENTS + 1);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
}

static void test_a_small_refused_body_leaves_the_connection(void **state) {
    const uvhttp_middleware_t refuse = {.run = see_head};
    serving_t *serving = start(state, &refuse, 1);
    int fd = client_ask(serving, POST("/echo/a", "Content-Length: 10\r\n") "01234");
    expect_response(fd, 401, "who?");
    client_send_text(fd, "56789" POST("/echo/a", "Content-Length: 3\r\nAuthorization: me\r\n") "abc");
    expect_response(fd, 200, "abc");
    assert_int_equal(head_size, 0);
    close(fd);
}

static void test_a_middleware_that_needs_the_body_gets_it(void **state) {
    const uvhttp_middleware_t both[] = {{.run = see_head}, {.run = see_body, .needs_body = true}, {.run = pass}};
    serving_t *serving = start(state, both, 3);
    int fd = client_connect(serving->port);
    for (int split = 0; split < 2; split++) {
        static const char *const heads[] = {POST("/echo/%61", "Content-Length: 6\r\nAuthorization: me\r\n"),
                                            POST("/echo/%61", CHUNKED "Authorization: me\r\n")};
        static const char *const bodies[2][2] = {{"abcdef", "xbcdef"},
                                                 {"6\r\nabcdef\r\n0\r\n\r\n", "6\r\nxbcdef\r\n0\r\n\r\n"}};
        for (int i = 0; i < 4; i++) {
            reset_seen();
            char text[256];
            size_t size = (size_t)snprintf(text, sizeof text, "%s%s", heads[i / 2], bodies[i / 2][i % 2]);
            size_t first = split ? size - 4 : size;
            client_send(fd, text, first);
            if (split) WAIT_UNTIL(atomic_load(&head_size) == 0);
            client_send(fd, text + first, size - first);
            expect_response(fd, i % 2 ? 422 : 200, i % 2 ? "not this one" : "abcdef");
            assert_int_equal(head_size, 0);
            assert_int_equal(body_size, 6);
        }
    }
    reset_seen();
    client_send_text(fd, POST("/nowhere", "Content-Length: 3\r\nAuthorization: me\r\n") "abc" GET("/hello"));
    expect_response(fd, 404, "Not Found\n");
    assert_int_equal(body_size, -1);
    expect_response(fd, 401, "who?");
    close(fd);
}

static uvhttp_deferred_t *take_waiting(void) {
    WAIT_UNTIL(atomic_load(&waiting) != NULL);
    return atomic_exchange(&waiting, NULL);
}

static void test_a_body_waits_for_the_middleware_that_waits(void **state) {
    static const char *const requests[] = {POST("/echo/%61", "Content-Length: 4\r\n") "body",
                                           POST("/echo/b", CHUNKED) "4\r\nbody\r\n0\r\n\r\n"};
    const uvhttp_middleware_t chain[] = {
        {.run = wait_for_it}, {.run = wait_for_it}, {.run = see_body, .needs_body = true}};
    serving_t *serving = start(state, chain, 3);
    int fd = client_connect(serving->port);
    for (int i = 0; i < 4; i++) {
        size_t all = strlen(requests[i % 2]), first = i < 2 ? all : all - 2;
        client_send(fd, requests[i % 2], first);
        for (int step = 0; step < 2; step++) {
            uvhttp_deferred_t *deferred = take_waiting();
            if (step == 1) client_send(fd, requests[i % 2] + first, all - first);
            assert_int_equal(handled, i);
            assert_int_equal(uvhttp_deferred_next(deferred, pass, NULL), UVHTTP_OK);
            uvhttp_deferred_release(deferred);
        }
        expect_response(fd, 200, "body");
        assert_int_equal(body_size, 4);
    }
    /* One that gets a response there, in place of being passed on, and the next request behind its body. */
    client_send_text(fd, POST("/echo/a", "Content-Length: 4\r\n") "body" GET("/hello"));
    uvhttp_deferred_t *deferred = take_waiting();
    assert_int_equal(uvhttp_deferred_text(deferred, 403, "no"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    expect_response(fd, 403, "no");
    deferred = take_waiting();
    assert_int_equal(uvhttp_deferred_text(deferred, 403, "no"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    expect_response(fd, 403, "no");
    /* One whose client goes meanwhile. */
    client_send_text(fd, requests[0]);
    deferred = take_waiting();
    client_reset(fd);
    WAIT_UNTIL(uvhttp_deferred_aborted(deferred));
    uvhttp_deferred_release(deferred);
    WAIT_UNTIL(atomic_load(&aborted) > 0);
    assert_int_equal(handled, 4);
}

static void test_100_only_for_a_request_that_was_accepted(void **state) {
    static const struct refusal {
        const char *request;
        int status;
    } refusals[] = {
        {POST("/nowhere", EXPECT "Content-Length: 4\r\nAuthorization: me\r\n"), 404},
        {POST("/hello", EXPECT "Content-Length: 4\r\nAuthorization: me\r\n"), 405},
        {POST("/echo/a", EXPECT "Content-Length: 4\r\n"), 401},
        {POST("/echo/a", EXPECT CHUNKED), 401},
        {POST("/echo/a", EXPECT "Content-Length: 4000000\r\nAuthorization: me\r\n"), 413},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n" EXPECT "Content-Length: 4\r\n\r\n", 501},
    };
    const uvhttp_middleware_t refuse = {.run = see_head};
    serving_t *serving = start(state, &refuse, 1);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        int fd = client_ask(serving, refusals[i].request);
        assert_int_equal(client_read(fd)->status, refusals[i].status);
        client_expect_end(fd); /* nobody knows whether the body follows */
        close(fd);
    }
    assert_int_equal(counter(serving, "responses_1xx"), 0);
    static const char *const accepted[] = {POST("/echo/a", EXPECT "Content-Length: 4\r\nAuthorization: me\r\n"),
                                           POST("/echo/a", EXPECT CHUNKED "Authorization: me\r\n")};
    for (size_t i = 0; i < 2; i++) {
        int fd = client_ask(serving, accepted[i]);
        expect_line(fd, "HTTP/1.1 100 Continue\r\n\r\n");
        client_send_text(fd, i == 0 ? "body" : "4\r\nbody\r\n0\r\n\r\n");
        expect_response(fd, 200, "body");
        close(fd);
    }
}

static void test_100_when_the_middleware_that_waited_has_passed_it_on(void **state) {
    const uvhttp_middleware_t wait = {.run = wait_for_it};
    serving_t *serving = start(state, &wait, 1);
    int fd = client_ask(serving, POST("/echo/a", EXPECT "Content-Length: 4\r\n"));
    uvhttp_deferred_t *deferred = take_waiting();
    assert_int_equal(counter(serving, "responses_1xx"), 0);
    assert_int_equal(uvhttp_deferred_next(deferred, pass, NULL), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    expect_line(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send_text(fd, "body");
    expect_response(fd, 200, "body");
    close(fd);
}

static void on_bytes(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    (void)uvhttp_tcp_send(tcp, data, size, NULL);
}

static void upgrade(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    static const uvhttp_tcp_handlers_t handlers = {.on_data = on_bytes};
    (void)req, (void)user;
    if (uvhttp_response_upgrade(res, "echo", &handlers, NULL) != UVHTTP_OK) uvhttp_response_text(res, 400, "no");
}

/* RFC 9110 section 7.8: 100 has to come before 101; a refused upgrade has none. */
static void test_100_before_101(void **state) {
    const uvhttp_middleware_t refuse = {.run = see_head};
    serving_t *serving = *state;
    reset_seen();
    serving_make(serving);
    uvhttp_use(serving->server, refuse);
    uvhttp_get(serving->server, "/up", upgrade, NULL);
    serving_start(serving);
#define UP(more) "GET /up HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: upgrade\r\n" more "\r\n"
    int fd = client_ask(serving, UP(EXPECT "Authorization: me\r\n"));
    expect_line(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(client_read(fd)->status, 101);
    client_send_text(fd, "ping");
    expect_line(fd, "ping");
    close(fd);
    fd = client_ask(serving, UP(EXPECT));
    expect_response(fd, 401, "who?");
    close(fd);
    assert_int_equal(counter(serving, "responses_1xx"), 2);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    return RUN_ON_EACH(test_a_refused_body_is_never_kept, test_a_small_refused_body_leaves_the_connection,
                       test_a_middleware_that_needs_the_body_gets_it, test_a_body_waits_for_the_middleware_that_waits,
                       test_100_only_for_a_request_that_was_accepted,
                       test_100_when_the_middleware_that_waited_has_passed_it_on, test_100_before_101);
}
