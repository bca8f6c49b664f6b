/* Owns: tests of the responses that the server makes by itself: the error function, and what middleware sees of them.
 */
#include "support/http_server.h"

#define JSON_HEAD "Content-Type: application/json\r\n"

/* --- what the server's thread has seen --- */

static atomic_int reported, noted, passed, finished, done, aborted, tries;
static atomic_bool quiet;   /* the error function leaves the response as it is */
static atomic_bool caching; /* middleware says how long the response may be kept, and how it is coded */

static void on_finish(uvhttp_response_t *res, void *user) {
    (void)user;
    finished++;
    if (uvhttp_response_header(res, "X-Finished", "yes") != UVHTTP_OK) abort();
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    if (status == UVHTTP_OK)
        done++;
    else
        aborted++;
}

static void add_hooks(uvhttp_response_t *res) {
    if (uvhttp_response_on_finish(res, on_finish, NULL) != UVHTTP_OK ||
        uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK)
        abort();
}

static uvhttp_flow_t pass(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    passed++;
    if (caching && (uvhttp_response_header(res, "Cache-Control", "max-age=60") != UVHTTP_OK ||
                    uvhttp_response_header(res, "Content-Encoding", "gzip") != UVHTTP_OK))
        abort();
    add_hooks(res);
    return UVHTTP_NEXT;
}

static void note(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    noted++;
    add_hooks(res);
}

static void on_error(uvhttp_request_t *req, uvhttp_response_t *res, int status, int code, void *user) {
    char text[512];
    uvhttp_str_t method = uvhttp_request_method_text(req), target = uvhttp_request_target(req),
                 path = uvhttp_request_path(req);
    reported++;
    if (user != &reported || status != uvhttp_response_status(res)) abort();
    if (quiet) return;
    snprintf(text, sizeof text,
             "{\"status\":%d,\"code\":\"%s\",\"method\":\"%.*s\",\"target\":\"%.*s\",\"path\":\"%.*s\"}", status,
             uvhttp_error_name(code), (int)method.size, method.data, (int)target.size, target.data, (int)path.size,
             path.data);
    if (uvhttp_response_json(res, status, text) != UVHTTP_OK) abort();
}

static void say_nothing(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void say_hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (uvhttp_request_path(req).data[uvhttp_request_path(req).size - 1] == 'r') {
        uvhttp_deferred_release(deferred); /* nothing will respond: 500 */
        return;
    }
    *(uvhttp_deferred_t **)user = deferred;
}

static uvhttp_deferred_t *kept;

static void begin(serving_t *serving, uvhttp_error_cb function) {
    reported = noted = passed = finished = done = aborted = tries = 0;
    quiet = caching = false;
    serving->config.body_size_max = 10;
    serving_make(serving);
    uvhttp_server_t *server = serving->server;
    uvhttp_use(server, (uvhttp_middleware_t){.run = pass, .on_refused = note});
    uvhttp_use(server, (uvhttp_middleware_t){.run = pass}); /* one that does not want to know */
    uvhttp_get(server, "/hello", say_hello, NULL);
    uvhttp_get(server, "/nothing", say_nothing, NULL);
    uvhttp_post(server, "/hello", say_hello, NULL);
    uvhttp_get(server, "/later", defer, NULL);
    uvhttp_route_options(uvhttp_get(server, "/kept", defer, &kept),
                         &(uvhttp_route_options_t){.response_timeout_ms = 20});
    assert_int_equal(uvhttp_server_on_error(server, function, function ? (void *)&reported : NULL), UVHTTP_OK);
    serving_start(serving);
    assert_int_equal(uvhttp_server_on_error(server, NULL, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_on_error(NULL, NULL, NULL), UVHTTP_E_INVALID);
}

typedef struct vector {
    const char *request;
    int status;
    const char *text; /* of the default, to the byte */
    const char *seen; /* by the error function: code, method, target, path */
    bool refused;     /* before the middleware runs */
    bool close;
} vector_t;

#define SEEN(code, method, target, path)                                                                               \
    "\"code\":\"UVHTTP_E_" code "\",\"method\":\"" method "\",\"target\":\"" target "\",\"path\":\"" path "\"}"

static const vector_t vectors[] = {
    {"GET /a b c HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed HTTP version\n", SEEN("HTTP_VERSION", "GET", "/a", "/a"),
     .refused = true, .close = true},
    {"GET /a%20b?c=d HTTP/2.0\r\nHost: a\r\n\r\n", 505, "HTTP version not supported\n",
     SEEN("HTTP_VERSION_UNSUPPORTED", "GET", "/a%20b?c=d", "/a b"), .refused = true, .close = true},
    {"BREW /../x HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "missing, repeated or malformed Host\n",
     SEEN("HTTP_HOST", "BREW", "/../x", ""), .refused = true, .close = true},
    {"GET /x\n", 400, "bare LF in the message head\n", SEEN("HTTP_BARE_LF", "GET", "/x", "/x"), .refused = true,
     .close = true},
    {"\r\n\r\nPUT * HTTP/1.1\r\n\r\n", 400, "malformed request target\n", SEEN("HTTP_TARGET", "PUT", "*", ""),
     .refused = true, .close = true},
    {"\x16\x03\x01", 400, "malformed request method\n", SEEN("HTTP_METHOD", "", "", ""), .refused = true,
     .close = true},
    {"GET@ /x HTTP/1.1\r\n\r\n", 400, "malformed request method\n", SEEN("HTTP_METHOD", "", "", ""), .refused = true,
     .close = true},
    {"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413, "request body too large\n",
     SEEN("HTTP_BODY_TOO_LARGE", "POST", "/hello", "/hello"), .refused = false, .close = true},
    {"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;;\r\n", 400,
     "malformed or too many chunk extensions\n", SEEN("HTTP_CHUNK_EXTENSION", "POST", "/hello", "/hello"),
     .refused = false, .close = true},
    {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501, "Not Implemented\n",
     SEEN("HTTP_METHOD_UNKNOWN", "CONNECT", "a:1", ""), .refused = true, .close = true},
    {"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", 404, "Not Found\n", SEEN("NOT_FOUND", "GET", "/missing", "/missing"),
     .close = false},
    {"PUT /hello HTTP/1.1\r\nHost: a\r\n\r\n", 405, "Method Not Allowed\n",
     SEEN("HTTP_METHOD_NOT_ALLOWED", "PUT", "/hello", "/hello"), .close = false},
    {"BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n", 501, "Not Implemented\n",
     SEEN("HTTP_METHOD_UNKNOWN", "BREW", "/hello", "/hello"), .close = false},
    {"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 500, "Internal Server Error\n",
     SEEN("NO_RESPONSE", "GET", "/nothing", "/nothing"), .close = false},
    {"GET /later HTTP/1.1\r\nHost: a\r\n\r\n", 500, "Internal Server Error\n",
     SEEN("NO_RESPONSE", "GET", "/later", "/later"), .close = false},
};

/* --- tests --- */

/* Every vector whole and byte by byte: what is seen of a head does not depend on how it came. */
static void test_the_error_function_replaces_each_of_the_servers_own_responses(void **state) {
    serving_t *serving = *state;
    begin(serving, on_error);
    int count = 0, refused = 0;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        for (int bytes = 0; bytes < 2; bytes++) {
            const vector_t *vector = &vectors[i];
            int fd = client_connect(serving->port);
            setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
            size_t size = strlen(vector->request), step = bytes ? 1 : size;
            for (size_t at = 0; at < size; at += step)
                if (send(fd, vector->request + at, step, MSG_NOSIGNAL) < 0) break; /* refused, and closed */
            client_response_t *response = client_read(fd);
            print_message("%s -> %s\n", vector->request, response->body);
            assert_int_equal(response->status, vector->status);
            assert_non_null(strstr(response->text, JSON_HEAD));
            assert_non_null(strstr(response->text, "X-Finished: yes\r\n"));
            assert_string_equal(strchr(response->body, ',') + 1, vector->seen);
            assert_int_equal(strstr(response->text, "Connection: close") != NULL, vector->close);
            if (vector->status == 405) assert_non_null(strstr(response->text, "Allow: GET, HEAD, POST, OPTIONS\r\n"));
            close(fd);
            count++;
            refused += vector->refused;
            assert_int_equal(reported, count);
            assert_int_equal(noted, refused);
            assert_int_equal(passed, 2 * (count - refused));
        }
    }
    WAIT_UNTIL(done == refused + 2 * (count - refused));
    assert_int_equal(finished, done);
}

static void expect_defaults(serving_t *serving) {
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        int fd = client_ask(serving, vectors[i].request);
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, vectors[i].status);
        assert_non_null(strstr(response->text, "Content-Type: text/plain; charset=utf-8\r\n"));
        assert_string_equal(response->body, vectors[i].text);
        close(fd);
    }
}

static void test_without_one_the_default_leaves(void **state) {
    begin(*state, NULL);
    expect_defaults(*state);
    assert_int_equal(reported, 0);
}

static void test_one_that_does_nothing_lets_the_default_leave(void **state) {
    begin(*state, on_error);
    quiet = true;
    expect_defaults(*state);
    assert_int_equal(reported, sizeof vectors / sizeof *vectors);
}

static void test_a_handlers_own_errors_are_its_own(void **state) {
    begin(*state, on_error);
    int fd = client_ask(*state, GET("/hello"));
    assert_string_equal(client_read(fd)->body, "hello");
    assert_int_equal(reported, 0);
    assert_int_equal(noted, 0);
    close(fd);
}

static void nothing_comes(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data, (void)size, (void)user;
}

static void try_everything(uvhttp_request_t *req, uvhttp_response_t *res, int status, int code, void *user) {
    (void)req, (void)status, (void)code, (void)user;
    static const uvhttp_tcp_handlers_t handlers = {.on_data = nothing_comes};
    reported++;
    tries += uvhttp_response_defer(res) == NULL;
    tries += uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN) == UVHTTP_E_STATE;
    tries += uvhttp_response_write(res, "x", 1) == UVHTTP_E_STATE;
    tries += uvhttp_response_end(res) == UVHTTP_E_STATE;
    tries += uvhttp_response_upgrade(res, "x", &handlers, NULL) != UVHTTP_OK;
    if (uvhttp_response_text(res, 418, "short and stout") != UVHTTP_OK) abort();
}

static void test_it_responds_at_once_or_not_at_all(void **state) {
    begin(*state, try_everything);
    static const char *const requests[] = {"GET /\n", GET("/missing"), GET("/nothing")};
    for (int i = 0; i < 3; i++) {
        int fd = client_ask(*state, requests[i]);
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, 418);
        assert_string_equal(response->body, "short and stout");
        close(fd);
        assert_int_equal(reported, i + 1);
        assert_int_equal(tries, 5 * (i + 1));
    }
}

static void test_head_gets_no_content_whatever_is_wrong_with_it(void **state) {
    static const struct {
        const char *request;
        int status;
    } heads[] = {{"HEAD / HTTP/1.1\r\n\r\n", 400},
                 {"HEAD /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
                 {"HEAD /x HTTP/2.0\r\n\r\n", 505},
                 {"HEAD /\n", 400},
                 {"HEAD \r\n\r\n", 400},
                 {"HEAD /missing HTTP/1.1\r\nHost: a\r\n\r\n", 404},
                 {"HEAD /kept HTTP/1.1\r\nHost: a\r\n\r\n", 503}};
    serving_t *serving = *state;
    begin(serving, on_error);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        int fd = client_ask(serving, heads[i].request);
        if (heads[i].status != 503) shutdown(fd, SHUT_WR); /* so that the connection ends */
        char text[4096] = "";
        size_t size = 0;
        for (ssize_t got; (got = client_receive_some(fd, text + size, sizeof text - 1 - size)) > 0;)
            size += (size_t)got;
        assert_int_equal(strtol(text + 9, NULL, 10), heads[i].status);
        assert_non_null(strstr(text, "Content-Length: "));
        assert_string_equal(strstr(text, "\r\n\r\n") + 4, "");
        close(fd);
    }
    assert_int_equal(reported, sizeof heads / sizeof *heads);
    uvhttp_deferred_release(kept);
}

/* "Cache-Control: max-age=60" was not meant for a 413, which a cache would keep. */
static void test_a_refusal_has_no_field_that_describes_another_body(void **state) {
    static const char *const requests[] = {"POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n",
                                           "POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
                                           GET("/nothing"), GET("/missing")};
    begin(*state, NULL);
    caching = true;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = client_ask(*state, requests[i]);
        client_response_t *response = client_read(fd);
        assert_in_range(response->status, 400, 500);
        assert_non_null(strstr(response->text, "X-Finished: yes\r\n"));
        assert_null(strstr(response->text, "Cache-Control:"));
        assert_null(strstr(response->text, "Content-Encoding:"));
        close(fd);
    }
}

/* The request is another thread's: the response has an exchange of its own, and hooks ran for the first one. */
static void test_a_deferred_response_that_is_late_is_reported(void **state) {
    serving_t *serving = *state;
    begin(serving, on_error);
    int fd = client_ask(serving, GET("/kept?x=y"));
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 503);
    assert_string_equal(strchr(response->body, ',') + 1, SEEN("RESPONSE_TIMEOUT", "GET", "/kept?x=y", "/kept"));
    assert_int_equal(noted, 0);
    assert_int_equal(reported, 1);
    assert_int_equal(aborted, 2);
    close(fd);
    uvhttp_deferred_release(kept);
}

static void test_a_head_that_is_late_is_reported(void **state) {
    serving_t *serving = *state;
    serving->config.connection_timeout = 1;
    begin(serving, on_error);
    int fd = client_ask(serving, "GET /slow?q HTTP/1.1\r\nHo");
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 408);
    assert_string_equal(strchr(response->body, ',') + 1, SEEN("HTTP_TIMEOUT", "GET", "/slow?q", "/slow"));
    assert_int_equal(noted, 1);
    close(fd);
}

int main(void) {
    return RUN_ON_EACH(test_the_error_function_replaces_each_of_the_servers_own_responses,
                       test_without_one_the_default_leaves, test_one_that_does_nothing_lets_the_default_leave,
                       test_a_handlers_own_errors_are_its_own, test_it_responds_at_once_or_not_at_all,
                       test_head_gets_no_content_whatever_is_wrong_with_it,
                       test_a_refusal_has_no_field_that_describes_another_body,
                       test_a_deferred_response_that_is_late_is_reported, test_a_head_that_is_late_is_reported);
}
