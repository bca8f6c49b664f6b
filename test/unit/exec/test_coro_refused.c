/* What functions of coroutines refuse: arguments that mean nothing, and callers that are no coroutine. Each leaves its
 * results alone, or empty. */
/* Needs: coroutines. */
#include <stdint.h>
#include <uvhttp.h>
#include <uvhttp/coro.h>

#include <cmocka.h>

#include "support/run.h"

static void nothing(void *arg) {
    (void)arg;
}

static void test_spawn_needs_a_function_and_a_place(void **state) {
    (void)state;
    uvhttp_coro_t *coro = (uvhttp_coro_t *)state;
    assert_int_equal(uvhttp_coro_spawn(NULL, NULL, &coro), UVHTTP_E_INVALID);
    assert_ptr_equal(coro, state);
    assert_int_equal(uvhttp_coro_spawn(nothing, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_spawn(nothing, NULL, &coro), UVHTTP_E_STATE);
    assert_null(coro);
    assert_int_equal(uvhttp_coro_join(NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_cancel(NULL), UVHTTP_E_INVALID);
}

static void test_a_channel_needs_a_coroutine(void **state) {
    (void)state;
    int item = 0;
    uvhttp_coro_channel_t *channel = (uvhttp_coro_channel_t *)state;
    assert_int_equal(uvhttp_coro_channel_new(sizeof item, 1, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_channel_new(sizeof item, 1, &channel), UVHTTP_E_STATE);
    assert_null(channel);
    assert_int_equal(uvhttp_coro_channel_send(NULL, &item, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_channel_receive(NULL, &item, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_channel_close(NULL), UVHTTP_E_INVALID);
    uvhttp_coro_channel_free(NULL);
}

static void test_descriptors_are_waited_for_by_coroutines(void **state) {
    (void)state;
    assert_int_equal(uvhttp_coro_wait_fd(-1, UVHTTP_READABLE, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_wait_fd(0, 0, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_wait_fd(0, ~(unsigned)(UVHTTP_READABLE | UVHTTP_WRITABLE), 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_wait_fd(0, UVHTTP_READABLE | UVHTTP_WRITABLE, 0), UVHTTP_E_STATE);
}

static void test_reading_and_writing_need_memory_and_a_coroutine(void **state) {
    (void)state;
    char data[4];
    size_t size = 9;
    assert_int_equal(uvhttp_coro_read(0, NULL, sizeof data, &size, 0), UVHTTP_E_INVALID);
    assert_int_equal(size, 0);
    assert_int_equal(uvhttp_coro_read(0, data, 0, &size, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_read(0, data, sizeof data, NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_read(0, data, sizeof data, &size, 0), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_write(1, NULL, 1, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_write(1, data, sizeof data, 0), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_write(1, NULL, 0, 0), UVHTTP_E_STATE);
}

static void test_connecting_needs_an_address_a_place_and_a_coroutine(void **state) {
    (void)state;
    int fd = 9;
    assert_int_equal(uvhttp_coro_connect(NULL, 0, &fd), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_connect("127.0.0.1:80", 0, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_connect("127.0.0.1:80", 0, &fd), UVHTTP_E_STATE);
}

int main(void) {
    return RUN_TESTS(test_spawn_needs_a_function_and_a_place, test_a_channel_needs_a_coroutine,
                     test_descriptors_are_waited_for_by_coroutines,
                     test_reading_and_writing_need_memory_and_a_coroutine,
                     test_connecting_needs_an_address_a_place_and_a_coroutine);
}
