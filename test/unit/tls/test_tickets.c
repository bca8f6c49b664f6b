/* The keys of session tickets grow old. Times are made up. */
/* Needs: tls. */
#include "tls/tickets.h"

#include <cmocka.h>
#include <string.h>

static uint8_t next_byte;
static bool dry;

static bool numbered(void *memory, size_t size) {
    if (dry) return false;
    memset(memory, ++next_byte, size);
    return true;
}

static int setup(void **state) {
    static uvhttp__tickets_t tickets;
    next_byte = 0;
    dry = false;
    uvhttp__tickets_init(&tickets, 1000, numbered);
    *state = &tickets;
    return 0;
}

static int teardown(void **state) {
    uvhttp__tickets_deinit(*state);
    return 0;
}

static uint8_t current(uvhttp__tickets_t *tickets, uint64_t now_ms) {
    uvhttp__ticket_key_t key;
    assert_true(uvhttp__tickets_current(tickets, now_ms, &key));
    assert_int_equal(key.name[0], key.mac[31]);
    return key.name[0];
}

/* 0: not known, 1: current, 2: old. */
static int find(uvhttp__tickets_t *tickets, uint64_t now_ms, uint8_t name_byte) {
    uvhttp__ticket_key_t key;
    uint8_t name[16];
    bool old;
    memset(name, name_byte, sizeof name);
    if (!uvhttp__tickets_find(tickets, now_ms, name, &key, &old)) return 0;
    assert_int_equal(key.cipher[0], name_byte);
    return old ? 2 : 1;
}

static void test_a_key_is_used_for_a_period_and_understood_for_another(void **state) {
    uvhttp__tickets_t *tickets = *state;
    assert_int_equal(current(tickets, 5000), 1);
    assert_int_equal(current(tickets, 5999), 1);
    assert_int_equal(find(tickets, 5999, 1), 1);
    assert_int_equal(current(tickets, 6000), 2);
    assert_int_equal(find(tickets, 6000, 1), 2);
    assert_int_equal(find(tickets, 6999, 1), 2);
    assert_int_equal(find(tickets, 7000, 1), 0);
    assert_int_equal(find(tickets, 7000, 2), 2);
    assert_int_equal(current(tickets, 7000), 3);
}

static void test_understanding_alone_makes_keys_old(void **state) {
    uvhttp__tickets_t *tickets = *state;
    assert_int_equal(current(tickets, 0), 1);
    assert_int_equal(find(tickets, 1999, 1), 2);
    assert_int_equal(find(tickets, 2000, 1), 0);
}

static void test_after_a_long_silence_nothing_old_is_understood(void **state) {
    uvhttp__tickets_t *tickets = *state;
    assert_int_equal(current(tickets, 0), 1);
    assert_int_equal(current(tickets, 100000), 2);
    assert_int_equal(find(tickets, 100000, 1), 0);
    assert_int_equal(current(tickets, 100999), 2);
    assert_int_equal(current(tickets, 101000), 3);
}

static void test_a_clock_that_is_behind_changes_nothing(void **state) {
    uvhttp__tickets_t *tickets = *state;
    assert_int_equal(current(tickets, 5000), 1);
    assert_int_equal(current(tickets, 4990), 1);
    assert_int_equal(find(tickets, 10, 1), 1);
}

static void test_unknown_names_are_not_found(void **state) {
    assert_int_equal(find(*state, 0, 9), 0);
    assert_int_equal(find(*state, 0, 0), 0);
}

static void test_without_random_numbers_there_is_no_ticket(void **state) {
    uvhttp__ticket_key_t key;
    uvhttp__tickets_t *tickets = *state;
    dry = true;
    assert_false(uvhttp__tickets_current(tickets, 0, &key));
    dry = false;
    assert_int_equal(current(tickets, 0), 1);
    dry = true;
    assert_false(uvhttp__tickets_current(tickets, 1000, &key));
    assert_int_equal(find(tickets, 1000, 1), 2);
    dry = false;
    assert_int_equal(current(tickets, 1500), 2);
    assert_int_equal(find(tickets, 1500, 1), 2);
}

#define WITH_TICKETS(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_TICKETS(test_a_key_is_used_for_a_period_and_understood_for_another),
        WITH_TICKETS(test_understanding_alone_makes_keys_old),
        WITH_TICKETS(test_after_a_long_silence_nothing_old_is_understood),
        WITH_TICKETS(test_a_clock_that_is_behind_changes_nothing),
        WITH_TICKETS(test_unknown_names_are_not_found),
        WITH_TICKETS(test_without_random_numbers_there_is_no_ticket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
