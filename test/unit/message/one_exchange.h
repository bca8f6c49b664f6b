/* Owns: the fixture of tests that need one exchange, `ex`, fresh for each: TEST(name). EXCHANGE_MEMORY_MAX, if it is
 * defined before, is what its arena may take. Include after cmocka.h. */
#ifndef TEST_UNIT_MESSAGE_ONE_EXCHANGE_H
#define TEST_UNIT_MESSAGE_ONE_EXCHANGE_H

#include "exchange.h"

#ifndef EXCHANGE_MEMORY_MAX
#define EXCHANGE_MEMORY_MAX (1 << 20)
#endif

static exchange_t ex;

static int set_up(void **state) {
    (void)state;
    exchange_init(&ex, EXCHANGE_MEMORY_MAX);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    exchange_deinit(&ex);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
