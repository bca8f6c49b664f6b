#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/pool.h"
#include "support/failing_allocator.h"
#include "support/random.h"

static uvhttp__pool_t pool;

static int setup(void **state) {
    (void)state;
    uvhttp__pool_init(&pool, 256 * 1024);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uvhttp__pool_deinit(&pool);
    assert_int_equal(test_allocator_live(), 0);
    return 0;
}

static void test_capacity_is_that_of_the_class(void **state) {
    (void)state;
    static const struct {
        size_t wanted, capacity;
    } cases[] = {{1, 4096},      {4096, 4096},   {4097, 16384},  {16384, 16384},
                 {16385, 65536}, {65536, 65536}, {65537, 69632}, {100000, 102400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uvhttp__buf_t buf = {0};
        assert_int_equal(uvhttp__buf_reserve(&pool, &buf, cases[i].wanted, SIZE_MAX), UVHTTP_OK);
        assert_int_equal(buf.capacity, cases[i].capacity);
        assert_int_equal(pool.in_use, 1);
        assert_int_equal(pool.in_use_bytes, cases[i].capacity);
        memset(buf.data, 'x', buf.capacity);
        uvhttp__buf_release(&pool, &buf);
        assert_null(buf.data);
        assert_int_equal(buf.capacity, 0);
        uvhttp__buf_release(&pool, &buf);
        assert_int_equal(pool.in_use_bytes, 0);
    }
}

static void test_released_buffers_are_used_again_last_first(void **state) {
    (void)state;
    uvhttp__buf_t a = {0}, b = {0};
    assert_int_equal(uvhttp__buf_reserve(&pool, &a, 16384, SIZE_MAX), UVHTTP_OK);
    assert_int_equal(uvhttp__buf_reserve(&pool, &b, 16384, SIZE_MAX), UVHTTP_OK);
    char *first = a.data, *last = b.data;
    uvhttp__buf_release(&pool, &a);
    uvhttp__buf_release(&pool, &b);
    assert_int_equal(pool.cached_bytes, 32768);
    size_t count = test_allocator_count();
    assert_int_equal(uvhttp__buf_reserve(&pool, &a, 16000, SIZE_MAX), UVHTTP_OK);
    assert_int_equal(uvhttp__buf_reserve(&pool, &b, 16000, SIZE_MAX), UVHTTP_OK);
    assert_ptr_equal(a.data, last);
    assert_ptr_equal(b.data, first);
    assert_int_equal(test_allocator_count(), count);
    assert_int_equal(pool.cached_bytes, 0);
    uvhttp__buf_release(&pool, &a);
    uvhttp__buf_release(&pool, &b);
}

static void test_cache_is_bounded_and_trim_empties_it(void **state) {
    (void)state;
    uvhttp__buf_t bufs[10] = {0};
    for (int i = 0; i < 10; i++) assert_int_equal(uvhttp__buf_reserve(&pool, &bufs[i], 65536, SIZE_MAX), UVHTTP_OK);
    for (int i = 0; i < 10; i++) uvhttp__buf_release(&pool, &bufs[i]);
    assert_int_equal(pool.cached_bytes, 256 * 1024);
    assert_int_equal(test_allocator_live(), 4);
    uvhttp__pool_trim(&pool);
    assert_int_equal(pool.cached_bytes, 0);
    assert_int_equal(test_allocator_live(), 0);
    /* Larger than a class: never cached. */
    assert_int_equal(uvhttp__buf_reserve(&pool, &bufs[0], 65537, SIZE_MAX), UVHTTP_OK);
    uvhttp__buf_release(&pool, &bufs[0]);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_growth_keeps_content_and_doubles(void **state) {
    (void)state;
    uvhttp__buf_t buf = {0};
    uint32_t grown = 0, capacity = 0;
    for (uint32_t i = 0; i < 300000; i++) {
        char c = (char)(i * 7);
        assert_int_equal(uvhttp__buf_append(&pool, &buf, &c, 1, 1000000), UVHTTP_OK);
        if (buf.capacity != capacity) grown++, capacity = buf.capacity;
    }
    assert_int_equal(buf.size, 300000);
    assert_true(grown <= 7);
    for (uint32_t i = 0; i < buf.size; i++) assert_int_equal(buf.data[i], (char)(i * 7));
    assert_int_equal(pool.in_use, 1);
    assert_int_equal(pool.in_use_bytes, buf.capacity);
    uvhttp__buf_release(&pool, &buf);
}

static void test_limits_are_exact_and_leave_the_buffer_alone(void **state) {
    (void)state;
    uvhttp__buf_t buf = {0};
    static char data[10000];
    memset(data, 'd', sizeof data);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, 10001, 10000), UVHTTP_E_LIMIT);
    assert_null(buf.data);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, 4000, 10000), UVHTTP_OK);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, 6001, 10000), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, SIZE_MAX, 10000), UVHTTP_E_LIMIT);
    assert_int_equal(buf.size, 4000);
    assert_int_equal(buf.capacity, 4096);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, 6000, 10000), UVHTTP_OK);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, data, 1, 10000), UVHTTP_E_LIMIT); /* although there is room */
    assert_int_equal(uvhttp__buf_append(&pool, &buf, NULL, 0, 10000), UVHTTP_OK);
    assert_int_equal(buf.size, 10000);
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, 20000, 19999), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, (size_t)UINT32_MAX + 1, SIZE_MAX), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, 100, 50), UVHTTP_E_LIMIT);
    assert_int_equal(buf.size, 10000);
    uvhttp__buf_release(&pool, &buf);
}

static void test_growth_stops_at_the_maximum(void **state) {
    (void)state;
    uvhttp__buf_t buf = {0};
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, 65536, SIZE_MAX), UVHTTP_OK);
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, 65537, 70000), UVHTTP_OK);
    assert_int_equal(buf.capacity, 73728); /* 70000 rounded up, not 131072 */
    assert_int_equal(uvhttp__buf_reserve(&pool, &buf, 73729, SIZE_MAX), UVHTTP_OK);
    assert_int_equal(buf.capacity, 147456);
    uvhttp__buf_release(&pool, &buf);
}

static void test_consume_moves_the_rest_down(void **state) {
    (void)state;
    uvhttp__buf_t buf = {0};
    uvhttp__buf_consume(&buf, 0);
    assert_int_equal(uvhttp__buf_append(&pool, &buf, "hello world", 11, 100), UVHTTP_OK);
    uvhttp__buf_consume(&buf, 0);
    uvhttp__buf_consume(&buf, 6);
    assert_int_equal(buf.size, 5);
    assert_memory_equal(buf.data, "world", 5);
    uvhttp__buf_consume(&buf, 5);
    assert_int_equal(buf.size, 0);
    assert_non_null(buf.data);
    uvhttp__buf_release(&pool, &buf);
}

static void append_much(void *user) {
    (void)user;
    uvhttp__pool_t own;
    uvhttp__pool_init(&own, 100000);
    uvhttp__buf_t buf = {0};
    size_t expected = 0;
    for (int i = 0; i < 200; i++) {
        char data[1000];
        memset(data, i, sizeof data);
        int status = uvhttp__buf_append(&own, &buf, data, sizeof data, 1000000);
        assert_true(status == UVHTTP_OK || (status == UVHTTP_E_NOMEM && test_allocator_failed()));
        if (status == UVHTTP_OK) expected += sizeof data;
        assert_int_equal(buf.size, expected);
        if (i == 100) { /* the content came along */
            assert_int_equal((uint8_t)buf.data[buf.size - 1], 100);
        }
    }
    assert_true(expected >= 199000);
    uvhttp__buf_release(&own, &buf);
    uvhttp__pool_deinit(&own);
}

static void test_out_of_memory_leaves_the_buffer_as_it_was(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(append_much, NULL) >= 5);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_capacity_is_that_of_the_class, setup, teardown),
        cmocka_unit_test_setup_teardown(test_released_buffers_are_used_again_last_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cache_is_bounded_and_trim_empties_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growth_keeps_content_and_doubles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits_are_exact_and_leave_the_buffer_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growth_stops_at_the_maximum, setup, teardown),
        cmocka_unit_test_setup_teardown(test_consume_moves_the_rest_down, setup, teardown),
        cmocka_unit_test(test_out_of_memory_leaves_the_buffer_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
