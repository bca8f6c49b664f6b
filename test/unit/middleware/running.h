/* Owns: what the tests of src/middleware/ share: a middleware run on a request without a server, the response that
 * comes of it, and what is logged. Include after cmocka.h. */
#ifndef TEST_UNIT_MIDDLEWARE_RUNNING_H
#define TEST_UNIT_MIDDLEWARE_RUNNING_H

#include <uvhttp/log.h>
#include <uvhttp/route.h>

#include "support/exchange.h"
#include "support/failing_allocator.h"

#define MAYBE_UNUSED __attribute__((unused))

static exchange_t ex;
static char logged[4096];

static MAYBE_UNUSED void take_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)user;
    assert_int_equal(level, UVHTTP_LOG_LEVEL_ERROR);
    assert_true(size < sizeof logged);
    memcpy(logged, message, size + 1);
}

static MAYBE_UNUSED int setup(void **state) {
    (void)state;
    uvhttp_log_set_callback(take_log, NULL);
    uvhttp_log_set_rate_limit(0);
    exchange_init(&ex, SIZE_MAX);
    return 0;
}

static MAYBE_UNUSED int teardown(void **state) {
    (void)state;
    exchange_deinit(&ex);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static MAYBE_UNUSED void begin(uvhttp_method_t method) {
    uvhttp__response_done(&ex.res, 0);
    exchange_request(&ex, method, STR("/"), NULL);
}

static MAYBE_UNUSED uvhttp_flow_t run(uvhttp_middleware_t middleware) {
    assert_non_null(middleware.run);
    return middleware.run(&ex.req, &ex.res, middleware.user);
}

static MAYBE_UNUSED void finish(void) {
    uvhttp__response_finish(&ex.res);
}

static MAYBE_UNUSED void drop(uvhttp_middleware_t middleware) {
    if (middleware.destroy) middleware.destroy(middleware.user);
}

/* The fields of the response, "Name: value\r\n" each, terminated. */
static MAYBE_UNUSED const char *fields(void) {
    static char text[70000];
    memcpy(text, ex.res.headers ? ex.res.headers : "", ex.res.headers_size);
    text[ex.res.headers_size] = '\0';
    return text;
}

static MAYBE_UNUSED void assert_refused(uvhttp_middleware_t middleware, const char *message) {
    assert_null(middleware.run);
    assert_null(middleware.destroy);
    assert_string_equal(logged, message);
    logged[0] = '\0';
}

typedef struct making {
    uvhttp_middleware_t (*make)(void);
    const char *refusal;
} making_t;

static MAYBE_UNUSED void attempt_to_make(void *user) {
    const making_t *making = user;
    uvhttp_middleware_t made = making->make();
    if (!made.run) assert_refused(made, making->refusal);
    drop(made);
}

/* It is made of so many allocations, each of which may fail. */
static MAYBE_UNUSED void assert_refused_without_memory(uvhttp_middleware_t (*make)(void), const char *refusal,
                                                       size_t allocations) {
    making_t making = {make, refusal};
    assert_int_equal(test_allocator_each_failure(attempt_to_make, &making), allocations);
}

/* Leaves `size` bytes of the request's memory. */
static MAYBE_UNUSED void leave_memory(size_t size) {
    ex.arena.size_max = ex.arena.used + size;
}

#endif
