#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/hash.h"
#include "support/run.h"

static void test_hash_depends_on_bytes_and_seed(void **state) {
    (void)state;
    assert_true(uvhttp__hash("abc", 3) == uvhttp__hash("abcd", 3));
    assert_true(uvhttp__hash("abc", 3) != uvhttp__hash("abd", 3));
    assert_true(uvhttp__hash("abc", 3) != uvhttp__hash("abc", 2));
    assert_true(uvhttp__hash("abc", 3) == uvhttp__hash_seeded("abc", 3, 0));
    assert_true(uvhttp__hash_seeded("abc", 3, 1) != uvhttp__hash_seeded("abc", 3, 2));
}

static void *get_seed(void *seed) {
    *(uint64_t *)seed = uvhttp__hash_seed();
    return NULL;
}

static void test_seed_is_one_for_all_threads(void **state) {
    (void)state;
    pthread_t threads[4];
    uint64_t seeds[4] = {0};
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, get_seed, &seeds[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_true(seeds[0] > 1); /* not the last resort */
    for (int i = 0; i < 4; i++) assert_true(seeds[i] == seeds[0]);
    assert_true(uvhttp__hash_seed() == seeds[0]);
}

int main(void) {
    return RUN_TESTS(test_seed_is_one_for_all_threads, test_hash_depends_on_bytes_and_seed);
}
