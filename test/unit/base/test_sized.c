/* Owns: tests of structs that come with their size: of programs that are older or newer than the library. */
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "support/run.h"

typedef struct options {
    int first;
    int second;
} options_t;

/* Exactly `size` bytes, so that a sanitizer sees what is read or written behind them. */
static char *exactly(size_t size, const void *bytes) {
    char *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

static void test_fields_of_an_older_program_are_read_and_others_are_0(void **state) {
    (void)state;
    options_t own = {-1, -1};
    char *given = exactly(sizeof(int), &(int){5});
    assert_true(uvhttp__sized_read(&own, sizeof own, given, sizeof(int)));
    assert_int_equal(own.first, 5);
    assert_int_equal(own.second, 0);
    free(given);
}

static void test_nothing_is_given_as_all_0(void **state) {
    (void)state;
    options_t own = {-1, -1};
    assert_true(uvhttp__sized_read(&own, sizeof own, NULL, sizeof own));
    assert_int_equal(own.first, 0);
    assert_int_equal(own.second, 0);
}

static void test_a_newer_program_may_leave_its_fields_0(void **state) {
    (void)state;
    options_t own;
    char bytes[sizeof own + 3] = {0};
    memcpy(bytes, &(options_t){5, 6}, sizeof own);
    char *given = exactly(sizeof bytes, bytes);
    assert_true(uvhttp__sized_read(&own, sizeof own, given, sizeof bytes));
    assert_int_equal(own.first, 5);
    assert_int_equal(own.second, 6);
    for (size_t at = sizeof own; at < sizeof bytes; at++) {
        given[at] = 1;
        assert_false(uvhttp__sized_read(&own, sizeof own, given, sizeof bytes));
        assert_int_equal(own.second, 6); /* what is to be freed is known all the same */
        given[at] = 0;
    }
    free(given);
}

static void test_an_older_program_gets_what_fits(void **state) {
    (void)state;
    char *given = exactly(sizeof(int), &(int){-1});
    uvhttp__sized_write(given, sizeof(int), &(options_t){5, 6}, sizeof(options_t));
    assert_memory_equal(given, &(int){5}, sizeof(int));
    free(given);
}

static void test_a_newer_program_gets_0_for_what_is_not_known(void **state) {
    (void)state;
    char bytes[sizeof(options_t) + 3];
    memset(bytes, -1, sizeof bytes);
    uvhttp__sized_write(bytes, sizeof bytes, &(options_t){5, 6}, sizeof(options_t));
    assert_memory_equal(bytes, (&(options_t){5, 6}), sizeof(options_t));
    assert_memory_equal(bytes + sizeof(options_t), "\0\0", 3);
}

int main(void) {
    return RUN_TESTS(test_fields_of_an_older_program_are_read_and_others_are_0, test_nothing_is_given_as_all_0,
                     test_a_newer_program_may_leave_its_fields_0, test_an_older_program_gets_what_fits,
                     test_a_newer_program_gets_0_for_what_is_not_known);
}
