#include "support/may_fail.h"

#include <fcntl.h>
#include <sys/syscall.h>

static atomic_bool run_returned;

static void *run(void *arg) {
    serving_t *serving = arg;
    serving->status = uvhttp_server_run(serving->server, NULL);
    atomic_store(&run_returned, true);
    return NULL;
}

void may_fail_start(serving_t *serving) {
    atomic_store(&run_returned, false);
    assert_int_equal(pthread_create(&serving->thread, NULL, run, serving), 0);
}

/* A whole response of a known kind, or none: the connection was closed before any of it. */
static void expect_response_or_close(int fd) {
    /* A server that could not start keeps its listening socket until it is freed: nothing responds there. */
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    for (int tries = 0; poll(&readable, 1, 10) <= 0; tries++) {
        if (atomic_load(&run_returned)) return;
        assert_true(tries < LIMIT_SECONDS * 100);
    }
    client_response_t *response = client_read(fd);
    if (response->size == 0) return;
    assert_true(response->status == 200 || response->status == 500 || response->status == 503);
    assert_non_null(strstr(response->text, "\r\n\r\n"));
}

/* A socket with a number that no loop has had. libuv closes descriptors by a system call that ThreadSanitizer does not
 * see: a number that the thread has given back and that is used again here would look like a race. */
static int own_socket(void) {
    int low = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = (int)syscall(SYS_fcntl, low, F_DUPFD_CLOEXEC, 512);
    assert_true(low >= 0 && fd >= 0);
    syscall(SYS_close, low);
    return fd;
}

bool may_fail_ask(uint16_t port, const char *first, const char *second) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = own_socket();
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    bool there = false;
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
        there = send(fd, first, strlen(first), MSG_NOSIGNAL) == (ssize_t)strlen(first);
        if (second) (void)send(fd, second, strlen(second), MSG_NOSIGNAL);
        expect_response_or_close(fd);
    }
    close(fd);
    return there;
}

void may_fail_everywhere(void (*attempt)(void *serving), serving_t *serving) {
    attempt(serving);
    size_t count = test_allocator_each_failure(attempt, serving);
    print_message("%zu allocations, each failed once\n", count);
    assert_true(count > 20);
}

void may_fail_greet(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t name = uvhttp_request_param(req, "name");
    if (uvhttp_response_header(res, "X-Greeting", "yes") != UVHTTP_OK) return;
    (void)uvhttp_response_send(res, 200, "text/plain", name.data, name.size);
}

void may_fail_echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    (void)uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

void may_fail_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) return;
    (void)uvhttp_deferred_text(deferred, 200, "later");
    uvhttp_deferred_release(deferred);
}
