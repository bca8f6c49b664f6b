/* Owns: tests of the public waits for descriptors and connections, which a handler on the loop begins. */
#include "support/http_server.h"

static int pairs[2][2];
static uvhttp_fd_watcher_t watchers[2];
static uvhttp_connector_t connector;
static uvhttp_deferred_t *deferred;
static atomic_int calls;

static void respond(int status) {
    uvhttp_deferred_text(deferred, 200, status == UVHTTP_OK ? "ok" : uvhttp_error_name(status));
    uvhttp_deferred_release(deferred);
}

static void ask(serving_t *serving, const char *to, const char *expected) {
    char request[128];
    snprintf(request, sizeof request, "GET /x HTTP/1.1\r\nHost: a\r\nX-To: %s\r\n\r\n", to);
    int fd = client_ask(serving, request);
    assert_string_equal(client_read(fd)->body, expected);
    close(fd);
}

static void begin(serving_t *serving, uvhttp_handler_cb handler) {
    calls = 0;
    memset(watchers, 0, sizeof watchers);
    memset(&connector, 0, sizeof connector);
    for (int i = 0; i < 2; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pairs[i]), 0);
    serving_make(serving);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_GET, "/x", handler, NULL, UVHTTP_EXEC_LOOP));
    serving_start(serving);
}

static void end(serving_t *serving) {
    serving_stop(serving);
    for (int i = 0; i < 4; i++) close(pairs[i / 2][i % 2]);
}

/* --- descriptors --- */

static void on_first(uvhttp_fd_watcher_t *watcher, void *user) {
    (void)user;
    calls++;
    uvhttp_fd_watcher_stop(watcher == &watchers[0] ? &watchers[1] : &watchers[0]);
    respond(UVHTTP_OK);
}

static void both_are_ready(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    deferred = uvhttp_response_defer(res);
    for (int i = 0; i < 2; i++) {
        if (write(pairs[i][1], "x", 1) != 1) abort();
        if (uvhttp_fd_watcher_start(&watchers[i], pairs[i][0], UVHTTP_READABLE, on_first, user) != UVHTTP_OK) abort();
    }
}

/* Both events have come from the kernel at once; who is stopped in the callback of the first must not be called. */
static void test_a_wait_that_is_stopped_by_another_is_not_called(void **state) {
    serving_t *serving = *state;
    begin(serving, both_are_ready);
    ask(serving, "", "ok");
    ask(serving, "", "ok");
    end(serving);
    assert_int_equal(calls, 2);
}

static void on_again(uvhttp_fd_watcher_t *watcher, void *user) {
    char byte;
    size_t size;
    int status = uvhttp_socket_read(pairs[0][0], &byte, 1, &size);
    if (++calls < 3) { /* begun again in its own function */
        if (status != UVHTTP_OK || write(pairs[0][1], "y", 1) != 1) abort();
        status = uvhttp_fd_watcher_start(watcher, pairs[0][0], UVHTTP_READABLE, on_again, user);
        if (status == UVHTTP_OK) return;
    }
    respond(status);
}

static void again(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    char byte;
    size_t size;
    deferred = uvhttp_response_defer(res);
    bool right =
        uvhttp_socket_read(pairs[0][0], &byte, 1, &size) == UVHTTP_E_AGAIN && size == 0 &&
        uvhttp_fd_watcher_start(NULL, 0, UVHTTP_READABLE, on_again, user) == UVHTTP_E_INVALID &&
        uvhttp_fd_watcher_start(&watchers[0], -1, UVHTTP_READABLE, on_again, user) == UVHTTP_E_INVALID &&
        uvhttp_fd_watcher_start(&watchers[0], 1000000, UVHTTP_READABLE, on_again, user) == UVHTTP_E_INVALID &&
        uvhttp_fd_watcher_start(&watchers[0], pairs[0][0], 0, on_again, user) == UVHTTP_E_INVALID &&
        uvhttp_fd_watcher_start(&watchers[0], pairs[0][0], 4, on_again, user) == UVHTTP_E_INVALID &&
        uvhttp_fd_watcher_start(&watchers[0], pairs[0][0], UVHTTP_WRITABLE | UVHTTP_READABLE, on_first, user) ==
            UVHTTP_OK &&
        uvhttp_fd_watcher_start(&watchers[1], pairs[0][0], UVHTTP_READABLE, on_first, user) == UVHTTP_E_STATE &&
        uvhttp_fd_watcher_start(&watchers[0], pairs[0][0], UVHTTP_READABLE, on_again, user) == UVHTTP_OK;
    if (!right || write(pairs[0][1], "x", 1) != 1) abort();
}

static void test_a_wait_may_be_begun_again(void **state) {
    serving_t *serving = *state;
    begin(serving, again);
    ask(serving, "", "ok");
    end(serving);
    assert_int_equal(calls, 3);
    assert_int_equal(uvhttp_fd_watcher_start(&watchers[0], 0, UVHTTP_READABLE, on_first, NULL), UVHTTP_E_STATE);
    uvhttp_fd_watcher_stop(NULL);
}

/* --- connections --- */

static void on_connect(uvhttp_connector_t *it, int status, int fd, void *user) {
    size_t sent;
    if (it != &connector || user != &calls || (fd >= 0) != (status == UVHTTP_OK)) abort();
    calls++;
    if (fd >= 0 && (uvhttp_socket_write(fd, "hello", 5, &sent) != UVHTTP_OK || sent != 5)) abort();
    if (fd >= 0) close(fd);
    respond(status);
}

static void connect_there(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char address[64];
    deferred = uvhttp_response_defer(res);
    uvhttp_str_t to = uvhttp_request_header(req, "X-To");
    snprintf(address, sizeof address, "%.*s", (int)to.size, to.data);
    int status = uvhttp_connect_start(&connector, address, LIMIT_SECONDS * 1000, on_connect, &calls);
    uvhttp_connect_stop(&connector); /* on_connect comes for the second one alone */
    if (status == UVHTTP_OK)
        status = uvhttp_connect_start(&connector, address, LIMIT_SECONDS * 1000, on_connect, &calls);
    if (status != UVHTTP_OK) respond(status);
}

static void test_a_connection_is_made(void **state) {
    serving_t *serving = *state;
    struct sockaddr_in at;
    int listener = loopback_listener(8, &at);
    char address[64];
    begin(serving, connect_there);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    ask(serving, address, "ok");
    snprintf(address, sizeof address, "127.1:%u", ntohs(at.sin_port)); /* a name, for getaddrinfo */
    ask(serving, address, "ok");
    assert_int_equal(calls, 2);
    close(listener);
    ask(serving, address, "UVHTTP_E_PEER_UNREACHABLE");
    end(serving);
    assert_int_equal(uvhttp_connect_start(&connector, address, 1, on_connect, NULL), UVHTTP_E_STATE);
    uvhttp_connect_stop(NULL);
}

static void test_an_address_that_is_none_is_refused(void **state) {
    static const char *const wrong[] = {"127.0.0.1:65536",
                                        "name.test:65616",
                                        "name.test:99999",
                                        "name.test:100000",
                                        "name.test:-1",
                                        "name.test:",
                                        "name.test",
                                        ":80",
                                        "fd:0",
                                        "unix:",
                                        "name.test:80 80"};
    serving_t *serving = *state;
    begin(serving, connect_there);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) ask(serving, wrong[i], "UVHTTP_E_ADDRESS");
    end(serving);
    assert_int_equal(calls, 0);
}

int main(void) {
    return RUN_ON_EACH(test_a_wait_that_is_stopped_by_another_is_not_called, test_a_wait_may_be_begun_again,
                       test_a_connection_is_made, test_an_address_that_is_none_is_refused);
}
