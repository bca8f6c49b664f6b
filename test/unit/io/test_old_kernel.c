/* What becomes of the backends on a kernel without io_uring, or with an io_uring that lacks what the backend stands on:
 * two functions of liburing are this program's own here, and refuse as such a kernel does. */
#include <uvhttp/log.h>

#include "support/io_server.h"
#include "support/uring.h"

#if UVHTTP_WITH_URING
#include <dlfcn.h>
#include <liburing.h>

static int setup_error, buffers_error; /* errno; 0: the kernel decides */

int io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params) {
    int (*real)(unsigned, struct io_uring *, struct io_uring_params *);
    if (setup_error) return -setup_error;
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_queue_init_params");
    return real(entries, ring, params);
}

int io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags) {
    int (*real)(struct io_uring *, struct io_uring_buf_reg *, unsigned);
    if (buffers_error) return -buffers_error;
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_register_buf_ring");
    return real(ring, reg, flags);
}

static char logged[512];

static void keep_line(uvhttp_log_level_t level, const char *line, size_t size, void *arg) {
    (void)arg;
    if (level == UVHTTP_LOG_LEVEL_ERROR) snprintf(logged, sizeof logged, "%.*s", (int)size, line);
}

/* `auto` takes epoll and keeps the reason; io_uring that was asked for is an error with the same reason. */
static void check_refusal(int at_setup, int at_buffers, const char *reason) {
    uvhttp__counters_t *counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_AUTO, .receive_buffer_size = 16384, .receive_buffer_count = 64, .counters = counters};
    uvhttp__loop_t *loop = NULL;
    setup_error = at_setup;
    buffers_error = at_buffers;
    assert_int_equal(uvhttp__loop_new(&options, &loop), UVHTTP_OK);
    assert_string_equal(uvhttp__loop_engine_name(loop), "epoll");
    assert_string_equal(loop->reason, reason);
    uvhttp__loop_free(loop, NULL, NULL);

    options.engine = UVHTTP__ENGINE_URING;
    logged[0] = 0;
    assert_int_equal(uvhttp__loop_new(&options, &loop), UVHTTP_E_UNSUPPORTED);
    assert_null(loop);
    assert_non_null(strstr(logged, reason));
    free(counters);
}

static void test_a_kernel_with_an_older_io_uring(void **state) {
    (void)state;
    check_refusal(EINVAL, 0, "io_uring: io_uring_setup: Invalid argument; Linux 6.1 or newer is needed");
}

static void test_a_kernel_without_io_uring(void **state) {
    (void)state;
    check_refusal(ENOSYS, 0, "io_uring: io_uring_setup: Function not implemented; Linux 6.1 or newer is needed");
}

static void test_a_kernel_whose_io_uring_is_forbidden(void **state) {
    (void)state;
    check_refusal(EPERM, 0, "io_uring: io_uring_setup: Operation not permitted");
}

static void test_a_kernel_without_buffer_rings_uring(void **state) {
    (void)state;
    check_refusal(0, EINVAL, "io_uring: provided buffer ring: Invalid argument; Linux 6.1 or newer is needed");
}

static int make_loop(uvhttp__engine_kind_t kind) {
    uvhttp__counters_t *counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    const uvhttp__loop_options_t options = {
        .engine = kind, .receive_buffer_size = 16384, .receive_buffer_count = 64, .counters = counters};
    uvhttp__loop_t *loop = NULL;
    int status = uvhttp__loop_new(&options, &loop);
    if (status == UVHTTP_OK) uvhttp__loop_free(loop, NULL, NULL);
    free(counters);
    return status;
}

#define LATER "io_uring passed its preflight, but a ring could not be made: "

/* It passes once in a process: rings may be refused later, for memory or descriptors. */
static void test_a_ring_that_is_refused_after_the_preflight_uring(void **state) {
    (void)state;
    setup_error = buffers_error = 0;
    assert_int_equal(make_loop(UVHTTP__ENGINE_URING), UVHTTP_OK);
    check_refusal(EPERM, 0, LATER "Operation not permitted");
    check_refusal(0, EINVAL, LATER "Invalid argument");
    buffers_error = 0;
    setup_error = EMFILE;
    assert_int_equal(make_loop(UVHTTP__ENGINE_URING), UVHTTP_E_NO_DESCRIPTORS);
    setup_error = 0;
}
#endif

int main(void) {
#if UVHTTP_WITH_URING
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kernel_with_an_older_io_uring),
        cmocka_unit_test(test_a_kernel_without_io_uring),
        cmocka_unit_test(test_a_kernel_whose_io_uring_is_forbidden),
        {"test_a_kernel_without_buffer_rings (uring)", test_a_kernel_without_buffer_rings_uring, NULL, NULL, NULL},
        {"test_a_ring_that_is_refused_after_the_preflight (uring)",
         test_a_ring_that_is_refused_after_the_preflight_uring, NULL, NULL, NULL},
    };
    uring_works(); /* the last two need a ring, or are skipped */
    warm_up_epoll();
    uvhttp_log_set_callback(keep_line, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 0;
#endif
}
