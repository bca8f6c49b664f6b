/* Owns: tests of the TCP server without memory: every allocation of a server's life fails once. */
#include "support/tcp_server.h"

#include <signal.h>
#include <uvhttp/log.h>

#include "support/failing_allocator.h"

/* The client of an attempt that fails somewhere: it gets its echo, or an end, but never waits in vain. */
static bool echo_or_end(uint16_t port) {
    char got[4];
    size_t size = 0;
    struct sockaddr_in address = loopback(port);
    int fd = client_socket();
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    if (error == EINTR) (void)wait_fd(fd, POLLOUT, TIMEOUT_MS);
    if ((error == 0 || error == EINTR) && send(fd, "ping", 4, MSG_NOSIGNAL) == 4) {
        ssize_t n = 0;
        while (size < 4 && ((n = recv(fd, got + size, 4 - size, 0)) > 0 || (n < 0 && errno == EINTR)))
            if (n > 0) size += (size_t)n;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) fail_msg("neither an echo nor an end");
    }
    close(fd);
    return size == 4 && memcmp(got, "ping", 4) == 0;
}

static void ref_at_open(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_tcp_ref_t *ref = uvhttp_tcp_ref(tcp);
    if (ref) (void)uvhttp_tcp_ref_send(ref, "", 0);
    uvhttp_tcp_ref_release(ref);
    count_open(tcp, user);
}

static bool drains_at_sigterm(void) {
    struct sigaction action;
    assert_int_equal(sigaction(SIGTERM, NULL, &action), 0);
    return action.sa_handler != SIG_DFL;
}

static void one_echo(void *user) {
    fixture_t *fixture = user;
    fixture->server = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
    if (!fixture->server) {
        assert_true(test_allocator_failed());
        return;
    }
    int status = uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port);
    if (status == UVHTTP_OK) {
        fixture_run(fixture);
        bool echoed = echo_or_end(fixture->port);
        if (echoed && fixture->config.install_signal_handlers) assert_true(drains_at_sigterm());
        status = fixture_stop(fixture);
        assert_true(echoed || test_allocator_failed());
    }
    if (status != UVHTTP_OK) {
        assert_true(test_allocator_failed());
        assert_true(status == UVHTTP_E_NOMEM || status == UVHTTP_E_UNSUPPORTED);
        assert_true(uvhttp_tcp_server_error_text(fixture->server)[0] != '\0');
    }
    fixture_free(fixture);
}

static void test_a_server_bears_every_failing_allocation(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = ref_at_open;
    fixture->config.io_threads = 2;
    size_t count = test_allocator_each_failure(one_echo, fixture);
    assert_true(count > 10);
}

static void test_a_server_that_cannot_have_its_signals_does_not_start(void **state) {
    fixture_t *fixture = *state;
    fixture->config.install_signal_handlers = true;
    assert_true(test_allocator_each_failure(one_echo, fixture) > 10);
}

/* --- attached --- */

typedef struct stopping {
    fixture_t *fixture;
    uv_async_t wake;
} stopping_t;

static void on_stopped(void *user) {
    stopping_t *stopping = user;
    uvhttp_tcp_server_free(stopping->fixture->server);
    uv_close((uv_handle_t *)&stopping->wake, NULL);
}

static void on_wake(uv_async_t *wake) {
    (void)wake;
}

static void attach_and_stop(void *user) {
    fixture_t *fixture = user;
    uv_loop_t loop;
    stopping_t stopping = {.fixture = fixture};
    assert_int_equal(uv_loop_init(&loop), 0);
    fixture->server = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
    if (fixture->server && uvhttp_tcp_server_attach(fixture->server, &loop) == UVHTTP_OK) {
        assert_int_equal(uv_async_init(&loop, &stopping.wake, on_wake), 0);
        uvhttp_tcp_server_on_stopped(fixture->server, on_stopped, &stopping);
        int status = uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", NULL);
        assert_true(status == UVHTTP_OK || (status == UVHTTP_E_NOMEM && test_allocator_failed()));
        uvhttp_tcp_server_stop(fixture->server);
    } else {
        assert_true(test_allocator_failed());
        uvhttp_tcp_server_free(fixture->server);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    fixture->server = NULL;
}

static void test_an_attached_server_bears_every_failing_allocation(void **state) {
    fixture_t *fixture = *state;
    assert_true(test_allocator_each_failure(attach_and_stop, fixture) > 5);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_ENGINES(test_a_server_bears_every_failing_allocation,
                          test_a_server_that_cannot_have_its_signals_does_not_start,
                          test_an_attached_server_bears_every_failing_allocation);
}
