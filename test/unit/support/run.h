/* Owns: running the tests of a program that need the same around them, under their own names, once or once for each of
 * some variants. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_RUN_H
#define UVHTTP_TEST_UNIT_SUPPORT_RUN_H

#include <cmocka.h>

typedef struct run_variant {
    const char *name; /* behind that of the test; NULL: nothing */
    void *state;      /* what *state is before set_up */
} run_variant_t;

typedef struct run_group {
    const run_variant_t *variants;
    size_t variant_count;
    CMFixtureFunction set_up, tear_down; /* of each test; NULL: none */
} run_group_t;

/* What main returns: RUN_TESTS(test_one, test_two). */
#define RUN_TESTS(...) RUN_TESTS_WITH(NULL, NULL, __VA_ARGS__)

/* The same with what runs before and after each of them. */
#define RUN_TESTS_WITH(set_up_, tear_down_, ...)                                                                       \
    RUN_GROUP(((run_group_t){&(run_variant_t){NULL, NULL}, 1, set_up_, tear_down_}), __VA_ARGS__)

#define RUN_GROUP(group, ...)                                                                                          \
    run_group(&(group), #__VA_ARGS__, (const CMUnitTestFunction[]){__VA_ARGS__},                                       \
              sizeof((const CMUnitTestFunction[]){__VA_ARGS__}) / sizeof(CMUnitTestFunction))

/* The same for a table of CMUnitTest. */
#define RUN_TABLE(tests) (run_only_chosen(), cmocka_run_group_tests(tests, NULL, NULL))

/* TEST_ONLY in the environment is a pattern of names. */
void run_only_chosen(void);

/* `names` has those of the tests in order, separated by commas. Returns how many failed. */
int run_group(const run_group_t *group, const char *names, const CMUnitTestFunction *tests, size_t count);

#endif
