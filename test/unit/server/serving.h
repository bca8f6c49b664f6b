/* Owns: what the tests of src/server/ share: a server on a thread of its own, on either engine, with real sockets on
 * loopback, and a client of plain blocking sockets with a time limit. The test's thread is the client and does all the
 * asserting; handlers run on the server's thread and only count. */
#ifndef UVHTTP_TEST_UNIT_SERVER_SERVING_H
#define UVHTTP_TEST_UNIT_SERVER_SERVING_H

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

#include <cmocka.h>

#define LIMIT_SECONDS 20
#define MAYBE_UNUSED __attribute__((unused))

/* Waits for something that another thread does; a hang fails the test. */
#define WAIT_UNTIL(condition)                                                                                          \
    do {                                                                                                               \
        int tries_ = LIMIT_SECONDS * 1000;                                                                             \
        while (!(condition) && --tries_ > 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                  \
        assert_true(tries_ > 0);                                                                                       \
    } while (0)

/* --- the server --- */

typedef struct serving {
    uvhttp_server_config_t config; /* a test may change it before serving_make */
    uvhttp_server_t *server;
    uint16_t port;
    bool running;
    pthread_t thread;
    int status; /* of run */
    void *user; /* the test's */
} serving_t;

static MAYBE_UNUSED uvhttp_engine_t on_libuv = UVHTTP_ENGINE_LIBUV, on_uring = UVHTTP_ENGINE_URING;

static MAYBE_UNUSED int serving_setup(void **state) {
    serving_t *serving = calloc(1, sizeof *serving);
    uvhttp_server_config_default(&serving->config);
    serving->config.engine = *(uvhttp_engine_t *)*state;
    serving->config.io_threads = 1;
    serving->config.quiet = true;
    serving->config.drain_idle_ms = 64;
    serving->config.install_signal_handlers = false;
    *state = serving;
    return 0;
}

static MAYBE_UNUSED void serving_make(serving_t *serving) {
    serving->server = uvhttp_server_new(&serving->config);
    assert_non_null(serving->server);
}

static void *serving_thread(void *arg) {
    serving_t *serving = arg;
    serving->status = uvhttp_server_run(serving->server, NULL);
    return NULL;
}

static MAYBE_UNUSED void serving_start(serving_t *serving) {
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    assert_int_equal(pthread_create(&serving->thread, NULL, serving_thread, serving), 0);
    serving->running = true;
}

static MAYBE_UNUSED void serving_join(serving_t *serving) {
    assert_true(serving->running);
    pthread_join(serving->thread, NULL);
    serving->running = false;
    assert_int_equal(serving->status, UVHTTP_OK);
}

static MAYBE_UNUSED void serving_stop(serving_t *serving) {
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    serving_join(serving);
}

static MAYBE_UNUSED int serving_teardown(void **state) {
    serving_t *serving = *state;
    if (serving->running) {
        uvhttp_server_stop(serving->server);
        pthread_join(serving->thread, NULL);
    }
    uvhttp_server_free(serving->server);
    free(serving);
    return 0;
}

#define ON_ENGINE(test, engine)                                                                                        \
    { #test " (" #engine ")", test, serving_setup, serving_teardown, &engine }
#define ON_EACH(test) ON_ENGINE(test, on_libuv), ON_ENGINE(test, on_uring)

static void *try_uring(void *arg) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = UVHTTP_ENGINE_URING;
    config.io_threads = 1;
    config.quiet = true;
    config.install_signal_handlers = false;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_server_stop(server);
    int status = uvhttp_server_run(server, "127.0.0.1:0");
    uvhttp_server_free(server);
    *(bool *)arg = status == UVHTTP_OK;
    return NULL;
}

/* Whether io_uring works here; a container may forbid it, and then only libuv is tested. On a thread of its own: what
 * the kernel cleans up after a ring interrupts system calls of the thread that has made it. */
static MAYBE_UNUSED bool uring_works(void) {
    bool works = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, try_uring, &works), 0);
    pthread_join(thread, NULL);
    if (!works) print_message("io_uring is not available here: libuv only\n");
    return works;
}

#define RUN_ON_EACH(tests)                                                                                             \
    (getenv("TEST_ONLY") ? cmocka_set_test_filter(getenv("TEST_ONLY")) : (void)0,                                      \
     uring_works() ? cmocka_run_group_tests(tests, NULL, NULL)                                                         \
                   : (cmocka_set_skip_filter("*(on_uring)"), cmocka_run_group_tests(tests, NULL, NULL)))

/* --- the client --- */

static MAYBE_UNUSED int client_connect(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static MAYBE_UNUSED void client_send(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static MAYBE_UNUSED int client_ask(const serving_t *serving, const char *text) {
    int fd = client_connect(serving->port);
    client_send(fd, text);
    return fd;
}

/* A receive with a time limit is interrupted when the kernel ends a ring that this thread has made. */
static MAYBE_UNUSED ssize_t client_receive_some(int fd, char *data, size_t size) {
    ssize_t got;
    do {
        got = recv(fd, data, size, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

static MAYBE_UNUSED ssize_t client_receive(int fd, char *byte) {
    return client_receive_some(fd, byte, 1);
}

typedef struct answer {
    int status;
    const char *body;
    size_t size;
    char text[16384];
} answer_t;

/* Reads one answer with Content-Length, or until the end of the connection if there is none. status 0: nothing came. */
static MAYBE_UNUSED answer_t *client_read(int fd) {
    static answer_t answer;
    memset(&answer, 0, sizeof answer);
    size_t want = sizeof answer.text - 1;
    while (answer.size < want) {
        ssize_t got = client_receive(fd, answer.text + answer.size); /* what follows is the next reader's */
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) fail_msg("no answer in time");
        if (got <= 0) break;
        answer.size++;
        char *end = strstr(answer.text, "\r\n\r\n"), *length = strstr(answer.text, "Content-Length: ");
        if (end && (length || strncmp(answer.text, "HTTP/1.1 101", 12) == 0))
            want = (size_t)(end + 4 - answer.text) + (length ? strtoul(length + 16, NULL, 10) : 0);
    }
    if (answer.size > 12) answer.status = (int)strtol(answer.text + 9, NULL, 10);
    char *end = strstr(answer.text, "\r\n\r\n");
    answer.body = end ? end + 4 : "";
    return &answer;
}

/* The peer has closed: nothing more comes. */
static MAYBE_UNUSED void client_expect_end(int fd) {
    char byte;
    ssize_t got = client_receive(fd, &byte);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
}

/* A label of 64 letters, which no resolver asks anybody about (RFC 1035 section 2.3.4). */
#define NO_NAME "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

#endif
