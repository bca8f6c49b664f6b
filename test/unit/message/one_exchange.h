/* Owns: the fixture of tests that need one exchange, `ex`, fresh for each: RUN_TESTS_WITH(set_up, tear_down, ...).
 * EXCHANGE_MEMORY_MAX, if it is defined before, is what its arena may take. Include after cmocka.h. */
#ifndef TEST_UNIT_MESSAGE_ONE_EXCHANGE_H
#define TEST_UNIT_MESSAGE_ONE_EXCHANGE_H

#include "support/exchange.h"

#ifndef EXCHANGE_MEMORY_MAX
#define EXCHANGE_MEMORY_MAX (1 << 20)
#endif

static exchange_t ex;

/* How often `release` has run. */
static int released __attribute__((unused));

static void __attribute__((unused)) release(void *arg) {
    assert_ptr_equal(arg, &released);
    ++released;
}

static int set_up(void **state) {
    (void)state;
    released = 0;
    exchange_init(&ex, EXCHANGE_MEMORY_MAX);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    exchange_deinit(&ex);
    return 0;
}

#endif
