#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/ref.h"
#include "support/run.h"

static void test_last_release_says_so(void **state) {
    (void)state;
    uvhttp__ref_t ref;
    uvhttp__ref_init(&ref);
    uvhttp__ref_acquire(&ref);
    uvhttp__ref_acquire(&ref);
    assert_false(uvhttp__ref_release(&ref));
    assert_false(uvhttp__ref_release(&ref));
    assert_true(uvhttp__ref_release(&ref));
}

enum { THREADS = 4, ROUNDS = 20000 };

typedef struct shared {
    uvhttp__ref_t ref;
    int written[THREADS]; /* plain: the thread that releases last must see what all wrote */
} shared_t;

typedef struct holder {
    shared_t *shared;
    int index;
    int was_last;
} holder_t;

static void *hold(void *arg) {
    holder_t *holder = arg;
    shared_t *shared = holder->shared;
    for (int i = 0; i < ROUNDS; i++) {
        uvhttp__ref_acquire(&shared->ref);
        shared->written[holder->index]++;
        assert_false(uvhttp__ref_release(&shared->ref));
    }
    if (uvhttp__ref_release(&shared->ref)) {
        for (int i = 0; i < THREADS; i++) assert_int_equal(shared->written[i], ROUNDS);
        free(shared);
        holder->was_last = 1;
    }
    return NULL;
}

static void test_exactly_one_thread_is_last_and_sees_everything(void **state) {
    (void)state;
    shared_t *shared = calloc(1, sizeof *shared);
    uvhttp__ref_init(&shared->ref);
    pthread_t threads[THREADS];
    holder_t holders[THREADS];
    for (int i = 1; i < THREADS; i++) uvhttp__ref_acquire(&shared->ref);
    for (int i = 0; i < THREADS; i++) {
        holders[i] = (holder_t){shared, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, hold, &holders[i]), 0);
    }
    int last = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        last += holders[i].was_last;
    }
    assert_int_equal(last, 1);
}

int main(void) {
    return RUN_TESTS(test_last_release_says_so, test_exactly_one_thread_is_last_and_sees_everything);
}
