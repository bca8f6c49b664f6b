/* What functions of coroutines refuse: arguments that mean nothing, and callers that are no coroutine. Each leaves its
 * results empty. */
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
    assert_null(coro);
    assert_int_equal(uvhttp_coro_spawn(nothing, NULL, NULL), UVHTTP_E_INVALID);
    coro = (uvhttp_coro_t *)state;
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
    assert_int_equal(fd, -1);
    assert_int_equal(uvhttp_coro_connect("127.0.0.1:80", 0, NULL), UVHTTP_E_INVALID);
    fd = 9;
    assert_int_equal(uvhttp_coro_connect("127.0.0.1:80", 0, &fd), UVHTTP_E_STATE);
    assert_int_equal(fd, -1);
}

static void test_reading_a_body_needs_a_request_a_place_and_a_coroutine(void **state) {
    uvhttp_str_t piece = {(const char *)state, 9};
    assert_int_equal(uvhttp_coro_read_body(NULL, &piece, 0), UVHTTP_E_INVALID);
    assert_true(piece.data == NULL && piece.size == 0);
    assert_int_equal(uvhttp_coro_read_body((uvhttp_request_t *)state, NULL, 0), UVHTTP_E_INVALID);
    piece = (uvhttp_str_t){(const char *)state, 9};
    assert_int_equal(uvhttp_coro_read_body((uvhttp_request_t *)state, &piece, 0), UVHTTP_E_STATE);
    assert_true(piece.data == NULL && piece.size == 0);
}

static void test_a_request_to_a_server_needs_a_place_and_a_coroutine(void **state) {
    const uvhttp_client_request_t request = {.url = "http://127.0.0.1:1/"};
    uvhttp_client_response_t *response = (uvhttp_client_response_t *)state;
    assert_int_equal(uvhttp_coro_request(&request, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_coro_request(&request, &response), UVHTTP_E_STATE);
    assert_null(response);
}

int main(void) {
    return RUN_TESTS(test_spawn_needs_a_function_and_a_place, test_a_channel_needs_a_coroutine,
                     test_descriptors_are_waited_for_by_coroutines,
                     test_reading_and_writing_need_memory_and_a_coroutine,
                     test_connecting_needs_an_address_a_place_and_a_coroutine,
                     test_reading_a_body_needs_a_request_a_place_and_a_coroutine,
                     test_a_request_to_a_server_needs_a_place_and_a_coroutine);
}
