#include "support/one_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/client.h"
#include "support/uring.h"

#define TEXT_MAX 262144
#define POLL_MS_MAX 1 /* a thread of the pool may have something for the loop */

_Thread_local bool one_thread_is_client;

static uvhttp_engine_t epoll = UVHTTP_ENGINE_EPOLL, uring = UVHTTP_ENGINE_URING;

const run_group_t one_thread_backends = {.variants = (const run_variant_t[]){{"epoll", &epoll}, {"uring", &uring}},
                                         .variant_count = 2};

void one_thread_init(one_thread_t *it, uvhttp_engine_t engine) {
    assert_true(engine != UVHTTP_ENGINE_URING || uring_works());
    *it = (one_thread_t){0};
    uvhttp_server_config_default(&it->config);
    it->config.engine = engine;
    it->config.io_threads = 1;
    it->config.drain_timeout = 1;
    it->config.quiet = true;
    it->config.performance.log_level = UVHTTP_LOG_LEVEL_NONE;
}

static bool is_strict(const one_thread_t *it) {
    return !it->may_fail || !it->may_fail();
}

/* --- the loop and the client in turn --- */

/* Accepts, reads, and sends what a response has queued. */
static void iterate(one_thread_t *it) {
    one_thread_is_client = false;
    for (int i = 0; i < 3; i++) uv_run(&it->loop, UV_RUN_NOWAIT);
    one_thread_is_client = true;
}

/* Runs the loop; then waits until it has something to do, or the client has. */
void one_thread_run(one_thread_t *it, int fd, short events) {
    iterate(it);
    int wait_ms = uv_backend_timeout(&it->loop);
    if (wait_ms < 0 || wait_ms > POLL_MS_MAX) wait_ms = POLL_MS_MAX;
    struct pollfd fds[] = {{.fd = uv_backend_fd(&it->loop), .events = POLLIN}, {.fd = fd, .events = events}};
    (void)poll(fds, 2, wait_ms);
}

int one_thread_connect(const one_thread_t *it) {
    struct sockaddr_in address = loopback(it->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    /* The kernel of this machine is the other end: it accepts at once. */
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static bool is_over(ssize_t status) {
    return status == 0 || (status < 0 && errno != EAGAIN && errno != EINTR);
}

size_t one_thread_exchange(one_thread_t *it, int fd, const void *data, size_t size,
                           bool (*enough)(const char *text, size_t size), char *text, size_t text_max) {
    size_t sent = 0, received = 0;
    for (uint64_t end_ms = clock_ms() + TIMEOUT_MS;;) {
        if (clock_ms() > end_ms) fail_msg("silence after %zu bytes: %.60s", received, (const char *)data);
        if (sent < size) {
            ssize_t some = send(fd, (const char *)data + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (some > 0) sent += (size_t)some;
        }
        ssize_t got = recv(fd, text + received, text_max - received, MSG_DONTWAIT);
        if (is_over(got)) return received;
        if (got > 0) received += (size_t)got;
        if (sent == size && enough && enough(text, received)) return received;
        if (got < 0) one_thread_run(it, fd, sent < size ? POLLIN | POLLOUT : POLLIN);
    }
}

void one_thread_close(one_thread_t *it, int fd) {
    close(fd);
    iterate(it);
}

/* --- what came --- */

static int status_of(const char *text, size_t size) {
    return size > 12 && memcmp(text, "HTTP/1.1 ", 9) == 0 ? atoi(text + 9) : 0;
}

/* The start of it: the rest is missing if the connection has ended early. */
static bool starts(const char *whole, const char *got, size_t size) {
    return whole && size <= strlen(whole) && memcmp(got, whole, size) == 0;
}

static void judge_body(const one_thread_t *it, const one_request_t *request, const char *body, size_t size) {
    if (!request->body) return;
    bool right = starts(request->body, body, size);
    if (is_strict(it))
        right = right && size == strlen(request->body);
    else
        right = right || starts(request->substitute, body, size);
    if (!right) fail_msg("%.60s: %.*s", request->text, (int)(size < 100 ? size : 100), body);
}

void one_thread_judge(one_thread_t *it, const one_request_t *request, const char *text, size_t size) {
    int status = status_of(text, size);
    if (is_strict(it)) assert_int_equal(status, request->status);
    if (size == 0) return; /* the connection was closed */
    if (status != request->status) {
        if (status != 403 && status != 404 && status != 500 && status != 503 && status != 507)
            fail_msg("%.60s: %.*s", request->text, (int)(size < 200 ? size : 200), text);
        return;
    }
    const char *body = memmem(text, size, "\r\n\r\n", 4);
    if (is_strict(it)) {
        assert_non_null(body);
        it->complete++;
    }
    if (body) judge_body(it, request, body + 4, size - (size_t)(body + 4 - text));
}

void one_thread_ask(one_thread_t *it, const one_request_t *request) {
    int fd = one_thread_connect(it);
    if (fd < 0) {
        assert_false(is_strict(it));
        return;
    }
    char *text = malloc(TEXT_MAX);
    size_t size = one_thread_exchange(it, fd, request->text, strlen(request->text), NULL, text, TEXT_MAX);
    one_thread_judge(it, request, text, size);
    free(text);
    one_thread_close(it, fd);
}

/* --- life --- */

static void on_stopped(uvhttp_server_t *server, void *user) {
    (void)server;
    *(bool *)user = true;
}

static int start(one_thread_t *it) {
    it->server = uvhttp_server_new(&it->config);
    if (!it->server) return UVHTTP_E_NOMEM;
    it->set_up(it->server);
    uvhttp_server_on_stopped(it->server, on_stopped, &it->stopped);
    int status = uvhttp_server_attach(it->server, &it->loop);
    if (status != UVHTTP_OK) return status;
    return it->tls ? uvhttp_server_listen_tls(it->server, "127.0.0.1:0", it->tls, &it->port)
                   : uvhttp_server_listen(it->server, "127.0.0.1:0", &it->port);
}

static void run_until_stopped(one_thread_t *it) {
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    uvhttp_server_stop(it->server);
    while (!it->stopped) {
        if (clock_ms() > end_ms) fail_msg("the server does not stop");
        one_thread_run(it, -1, 0);
        one_thread_is_client = false;
    }
}

void one_thread_serve(void *user) {
    one_thread_t *it = user;
    it->stopped = false;
    it->complete = 0;
    assert_int_equal(uv_loop_init(&it->loop), 0);
    int status = start(it);
    if (is_strict(it)) assert_int_equal(status, UVHTTP_OK);
    if (status == UVHTTP_OK) {
        one_thread_is_client = true;
        it->speak(it);
        one_thread_is_client = false;
        run_until_stopped(it);
    }
    uvhttp_server_free(it->server);
    uv_run(&it->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&it->loop), 0);
}
