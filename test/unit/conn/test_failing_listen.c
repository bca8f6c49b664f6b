/* Who owns what a listen was given, the descriptor of "fd:N" and a filter, as each system call and each allocation
 * fails once: the server, from a listen that succeeds until it is freed; otherwise still the caller. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "conn/tcp_server.h"
#include "support/client.h"
#include "support/failing_allocator.h"
#include "support/failing_calls.h"

static uvhttp_engine_t engine;
static uint32_t released;

static void release(void *arg) {
    (void)arg;
    released++;
}

static int open_filter(uvhttp__conn_t *conn, void *arg) {
    (void)conn, (void)arg;
    return UVHTTP_OK;
}

/* Calls of the test never fail. */
static int listening_socket(void) {
    struct sockaddr_in where;
    one_thread_is_client = true;
    int fd = loopback_listener(4, &where);
    one_thread_is_client = false;
    return fd;
}

static bool is_open(int fd) {
    one_thread_is_client = true;
    bool open = fcntl(fd, F_GETFD) >= 0;
    one_thread_is_client = false;
    return open;
}

static void close_it(int fd) {
    one_thread_is_client = true;
    assert_int_equal(close(fd), 0);
    one_thread_is_client = false;
}

static void free_server(void *server) {
    uvhttp_tcp_server_free(server);
}

/* Frees the server, too. */
static void listen_with(uvhttp_tcp_server_t *server, uv_loop_t *loop) {
    const uvhttp__conn_filter_t filter = {.open = open_filter, .release = release, .name = ""};
    char address[16];
    int fd = listening_socket();
    snprintf(address, sizeof address, "fd:%d", fd);
    released = 0;
    int status = uvhttp__tcp_server_listen_filter(server, address, &filter, NULL);
    assert_true(is_open(fd));
    bool stops = loop && status == UVHTTP_OK;
    if (stops) {
        uvhttp_tcp_server_on_stopped(server, free_server, server);
        uvhttp_tcp_server_stop(server);
    } else {
        uvhttp_tcp_server_free(server);
    }
    if (loop) uv_run(loop, UV_RUN_DEFAULT);
    assert_int_equal(released, status == UVHTTP_OK);
    assert_int_equal(is_open(fd), status != UVHTTP_OK);
    if (status == UVHTTP_OK) return;
    assert_true(test_call_failed() || test_allocator_failed());
    close_it(fd);
}

static void ignore_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data, (void)size, (void)user;
}

static uvhttp_tcp_server_t *make(uint32_t loops) {
    static const uvhttp_tcp_handlers_t handlers = {.on_data = ignore_data};
    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.engine = (int)engine;
    config.io_threads = loops;
    config.install_signal_handlers = false;
    return uvhttp_tcp_server_new(&config, &handlers, NULL);
}

static void listen_on_two_loops(void *user) {
    (void)user;
    uvhttp_tcp_server_t *server = make(2);
    if (server) listen_with(server, NULL);
}

static void listen_attached(void *user) {
    (void)user;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    uvhttp_tcp_server_t *server = make(1);
    bool attached = server && uvhttp_tcp_server_attach(server, &loop) == UVHTTP_OK;
    if (attached)
        listen_with(server, &loop);
    else
        uvhttp_tcp_server_free(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static const failing_call_t calls[] = {
    {FAIL_listen, {EADDRINUSE}},
    {FAIL_setsockopt, {ENOPROTOOPT}},
    {FAIL_getsockopt, {EBADF}},
    {FAIL_fcntl, {EMFILE}},
};

static void test_each_system_call_may_fail_on_two_loops(void **state) {
    (void)state;
    assert_true(test_calls_each_failure(calls, sizeof calls / sizeof *calls, listen_on_two_loops, NULL) > 5);
}

static void test_each_allocation_may_fail_on_two_loops(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(listen_on_two_loops, NULL) > 5);
}

static void test_each_allocation_may_fail_of_an_attached_server(void **state) {
    (void)state;
    static const uvhttp_engine_t engines[] = {UVHTTP_ENGINE_EPOLL, UVHTTP_ENGINE_AUTO};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        engine = engines[i];
        assert_true(test_allocator_each_failure(listen_attached, NULL) > 5);
    }
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    listen_on_two_loops(NULL); /* what is made once and stays */
    return RUN_TESTS(test_each_system_call_may_fail_on_two_loops, test_each_allocation_may_fail_on_two_loops,
                     test_each_allocation_may_fail_of_an_attached_server);
}
