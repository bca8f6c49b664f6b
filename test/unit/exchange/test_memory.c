/* Owns: tests of what an exchange takes, and of what it owns when its head has been copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "exchange/exchange.h"
#include "http1/http1.h"
#include "support/failing_allocator.h"
#include "support/run.h"

enum { FIELDS_MAX = 16 };

static const uvhttp__head_limits_t limits = {
    .line_size_max = 1024, .headers_size_max = 4096, .header_count_max = FIELDS_MAX};
static const uvhttp__protocol_t protocol = {.offset = 64, .arena_size = 512};

/* A loop that reads requests, as far as an exchange looks at it. */
typedef struct loop {
    uvhttp__loop_t loop;
    uvhttp__tcp_loop_t tcp;
    uvhttp__service_t service;
    uvhttp__exchange_pool_t pool;
    uvhttp__http_loop_t *http;
} loop_t;

static loop_t *loop_new(void) {
    loop_t *loop = uvhttp__alloc_aligned(64, sizeof *loop);
    assert_non_null(loop);
    memset(loop, 0, sizeof *loop);
    size_t size = sizeof *loop->http + FIELDS_MAX * sizeof(uvhttp__field_t);
    loop->http = uvhttp__alloc_aligned(64, size);
    assert_non_null(loop->http);
    memset(loop->http, 0, size);
    uvhttp_server_config_default(&loop->service.config);
    loop->tcp.io = &loop->loop;
    loop->http->fields = (uvhttp__field_t *)(void *)(loop->http + 1);
    loop->http->tcp = &loop->tcp;
    loop->http->service = &loop->service;
    loop->pool.protocol = &protocol;
    return loop;
}

static void loop_free(loop_t *loop) {
    uvhttp__exchange_pool_free(&loop->pool);
    uvhttp__free_aligned(loop->http);
    uvhttp__free_aligned(loop);
    assert_int_equal(test_allocator_live(), 0);
}

/* An exchange whose head stands in `buffer`. */
static uvhttp__exchange_t *read_head(loop_t *loop, char *buffer, const char *text) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_new(loop->http, &loop->pool);
    assert_non_null(exchange);
    size_t size = strlen(text);
    memcpy(buffer, text, size);
    uvhttp__http1_scan_t scan = {0};
    assert_int_equal(uvhttp__http1_read_request(&scan, buffer, size, &limits, &exchange->request.head), UVHTTP_OK);
    exchange->request.base = buffer;
    exchange->borrowed = true;
    return exchange;
}

static void expect_header(const uvhttp__exchange_t *exchange, const char *name, const char *expected) {
    uvhttp_str_t value = uvhttp_request_header(&exchange->request, name);
    assert_int_equal(value.size, strlen(expected));
    assert_memory_equal(value.data, expected, value.size);
}

#define SMALL "GET /a HTTP/1.1\r\nHost: h\r\nX-One: 1\r\n\r\n"
#define LARGE                                                                                                          \
    "GET /b HTTP/1.1\r\nHost: h\r\nCookie: "                                                                           \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"             \
    "\r\nX-Two: 2\r\n\r\n"

static void test_an_exchange_is_one_allocation_of_little_more_than_a_kilobyte(void **state) {
    (void)state;
    loop_t *loop = loop_new();
    size_t count = test_allocator_count(), bytes = test_allocator_live_bytes();
    uvhttp__exchange_t *exchange = uvhttp__exchange_new(loop->http, &loop->pool);
    assert_non_null(exchange);
    assert_int_equal(test_allocator_count(), count + 1);
    assert_in_range(test_allocator_live_bytes() - bytes, sizeof *exchange, 1120);
    assert_non_null(uvhttp__arena_alloc_bytes(&exchange->arena, 400));
    uvhttp__exchange_release(exchange);
    assert_ptr_equal(uvhttp__exchange_new(loop->http, &loop->pool), exchange);
    assert_int_equal(test_allocator_count(), count + 1);
    uvhttp__exchange_release(exchange);
    loop_free(loop);
}

static void test_a_pool_keeps_so_many_exchanges_and_no_more(void **state) {
    (void)state;
    enum { KEPT = 32, CONSUMED = KEPT + 3 };
    loop_t *loop = loop_new();
    size_t before = test_allocator_live();
    uvhttp__exchange_t *consumed[CONSUMED];
    for (int i = 0; i < CONSUMED; i++) assert_non_null(consumed[i] = uvhttp__exchange_new(loop->http, &loop->pool));
    assert_int_equal(test_allocator_live(), before + CONSUMED);
    for (int i = 0; i < CONSUMED; i++) uvhttp__exchange_release(consumed[i]);
    assert_int_equal(loop->pool.free_count, KEPT);
    assert_int_equal(test_allocator_live(), before + KEPT);
    loop_free(loop);
}

static void test_a_head_that_is_owned_survives_the_next_one(void **state) {
    (void)state;
    loop_t *loop = loop_new();
    char buffer[1024];
    uvhttp__exchange_t *first = read_head(loop, buffer, SMALL);
    expect_header(first, "X-One", "1");
    size_t count = test_allocator_count();
    assert_int_equal(uvhttp__exchange_own(first), UVHTTP_OK);
    assert_int_equal(test_allocator_count(), count);
    uvhttp__exchange_t *second = read_head(loop, buffer, LARGE);
    expect_header(first, "X-One", "1");
    expect_header(first, "Host", "h");
    expect_header(second, "X-Two", "2");
    assert_int_equal(uvhttp_request_header_count(&first->request), 2);
    assert_int_equal(uvhttp__exchange_own(second), UVHTTP_OK);
    memset(buffer, 'x', sizeof buffer);
    memset(loop->http->fields, 0xff, FIELDS_MAX * sizeof(uvhttp__field_t));
    expect_header(first, "x-one", "1");
    expect_header(second, "x-two", "2");
    uvhttp_str_t path = uvhttp_request_path(&second->request);
    assert_memory_equal(path.data, "/b", 2);
    uvhttp__exchange_release(first);
    uvhttp__exchange_release(second);
    loop_free(loop);
}

static void test_a_large_head_is_copied_into_memory_of_its_size(void **state) {
    (void)state;
    loop_t *loop = loop_new();
    char buffer[1024];
    uvhttp__exchange_t *exchange = read_head(loop, buffer, LARGE);
    size_t count = test_allocator_count(), bytes = test_allocator_live_bytes();
    assert_int_equal(uvhttp__exchange_own(exchange), UVHTTP_OK);
    assert_int_equal(test_allocator_count(), count + 1);
    assert_in_range(test_allocator_live_bytes() - bytes, strlen(LARGE), strlen(LARGE) + 128);
    uvhttp__exchange_release(exchange);
    assert_int_equal(test_allocator_live_bytes(), bytes);
    /* The pooled exchange reads into the loop's array again. */
    exchange = read_head(loop, buffer, SMALL);
    assert_ptr_equal(exchange->request.head.headers, loop->http->fields);
    uvhttp__exchange_release(exchange);
    loop_free(loop);
}

static void test_without_memory_nothing_is_owned(void **state) {
    (void)state;
    loop_t *loop = loop_new();
    char buffer[1024];
    uvhttp__exchange_t *exchange = read_head(loop, buffer, LARGE);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__exchange_own(exchange), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    expect_header(exchange, "X-Two", "2");
    assert_int_equal(uvhttp__exchange_own(exchange), UVHTTP_OK);
    uvhttp__exchange_release(exchange);
    loop_free(loop);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_an_exchange_is_one_allocation_of_little_more_than_a_kilobyte,
                     test_a_pool_keeps_so_many_exchanges_and_no_more, test_a_head_that_is_owned_survives_the_next_one,
                     test_a_large_head_is_copied_into_memory_of_its_size, test_without_memory_nothing_is_owned);
}
