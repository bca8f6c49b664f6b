/* A server on its own threads, as calls that its loops need before their first iteration fail: it is ready only if all
 * of its loops can run, and an upgrade relies on that. */
#include <errno.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"

static bool was_ready;

static void on_ready(uvhttp_server_t *server, void *user) {
    (void)user;
    was_ready = true;
    assert_int_equal(uvhttp_server_stop(server), UVHTTP_OK);
}

static void run(void *user) {
    const uint32_t *threads = user;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.quiet = true;
    config.io_threads = *threads;
    config.install_signal_handlers = false;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    was_ready = false;
    int status = server ? uvhttp_server_on_ready(server, on_ready, NULL) : UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK) status = uvhttp_server_run(server, "127.0.0.1:0");
    assert_int_equal(was_ready, status == UVHTTP_OK);
    if (status != UVHTTP_OK && server) {
        assert_string_not_equal(uvhttp_server_error_text(server), "");
        assert_int_equal(uvhttp_server_stop(server), UVHTTP_OK);
        assert_int_equal(uvhttp_server_state(server), UVHTTP_SERVER_STOPPED);
    }
    uvhttp_server_free(server);
}

static void test_a_server_is_ready_only_if_its_loops_can_run(void **state) {
    (void)state;
    static const failing_call_t calls[] = {
        {FAIL_io_uring_register, {EACCES, EINVAL}},
        {FAIL_io_uring_setup, {ENOMEM}},
        {FAIL_epoll_create1, {EMFILE}},
        {FAIL_eventfd, {EMFILE}},
        {FAIL_pthread_create, {EAGAIN}},
    };
    for (uint32_t threads = 1; threads <= 3; threads++) {
        run(&threads);
        assert_true(was_ready);
        assert_true(test_calls_each_failure(calls, sizeof calls / sizeof *calls, run, &threads) > 0);
    }
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_TESTS(test_a_server_is_ready_only_if_its_loops_can_run);
}
