/* Owns: tests of the Redis store's options. What it does with a Redis: test/integration/test_redis.py. */
/* Needs: middleware redis. */
#include <cmocka.h>

#include <string.h>

#include "middleware/rate_limit.h"
#include "middleware/running.h"
#include "support/run.h"

static void assert_wrong(uvhttp_rate_limit_redis_options_t options, const char *message) {
    uvhttp_rate_limit_store_t store = {.user = &store};
    assert_int_equal(uvhttp_rate_limit_redis(&options, &store), UVHTTP_E_CONFIG);
    assert_null(store.user);
    assert_non_null(strstr(logged, message));
    /* And a limiter does not come to be without it. */
    assert_null(uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.store = &store}).run);
}

static void test_wrong_options_are_refused(void **state) {
    (void)state;
    static char longest[600];
    memset(longest, 'x', sizeof longest - 1);
#define WRONG(message, ...) assert_wrong((uvhttp_rate_limit_redis_options_t){__VA_ARGS__}, message)
    WRONG("timeout_ms: expected", .timeout_ms = 10001);
    WRONG("pending_max: expected", .pending_max = 1000001);
    WRONG("prefix: expected", .prefix = longest);
    WRONG("user is set and password is not", .user = "a");
    WRONG("user or password: expected", .password = longest);
    static const char *const addresses[] = {"",       "127.0.0.1", "127.0.0.1:",    "127.0.0.1:0", "127.0.0.1:65536",
                                            "name:1", "unix:",     "unix:relative", ":6379",       "[::1:6379"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        WRONG("expected 192.0.2.1", .address = addresses[i]);
    WRONG("expected 192.0.2.1", .address = longest);
    assert_int_equal(uvhttp_rate_limit_redis(NULL, NULL), UVHTTP_E_INVALID);
}

static void test_addresses(void **state) {
    (void)state;
    static const char *const addresses[] = {"127.0.0.1:1", "[::1]:65535", "localhost:6379", "unix:/run/redis.sock"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        uvhttp_rate_limit_store_t store;
        assert_int_equal(uvhttp_rate_limit_redis(&(uvhttp_rate_limit_redis_options_t){.address = addresses[i]}, &store),
                         UVHTTP_OK);
        assert_null(store.take);
        store.destroy(store.user); /* nobody has asked: there was no thread */
    }
}

static void make(void *user) {
    (void)user;
    uvhttp_rate_limit_store_t store;
    int status = uvhttp_rate_limit_redis(
        &(uvhttp_rate_limit_redis_options_t){.address = "127.0.0.1:1", .user = "a", .password = "b"}, &store);
    if (status != UVHTTP_OK) assert_true(test_allocator_failed());
    uvhttp_middleware_t limit = uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.store = &store});
    drop(limit);
}

static void test_without_memory_there_is_no_store(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(make, NULL) >= 3);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(setup, teardown, test_wrong_options_are_refused, test_addresses,
                          test_without_memory_there_is_no_store);
}
