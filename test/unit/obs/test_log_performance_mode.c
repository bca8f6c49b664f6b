/* Owns: the test that UVHTTP_PERFORMANCE_MODE removes the statements of DEBUG and INFO. */
#define UVHTTP_PERFORMANCE_MODE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <uvhttp/log.h>

static int evaluated, called;

static int evaluate(void) {
    return ++evaluated;
}

static void count(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size, (void)user;
    called++;
}

static void test_debug_and_info_leave_no_code(void **state) {
    (void)state;
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_callback(count, NULL), UVHTTP_OK);
    UVHTTP_LOG_DEBUG("test: %d", evaluate());
    UVHTTP_LOG_INFO("test: %d", evaluate());
    assert_int_equal(evaluated, 0);
    UVHTTP_LOG_WARN("test: %d", evaluate());
    UVHTTP_LOG_ERROR("test: %d", evaluate());
    assert_int_equal(evaluated, 2);
    assert_int_equal(called, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_debug_and_info_leave_no_code)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
