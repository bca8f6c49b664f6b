/* Several loops at one table: also with ThreadSanitizer. */
/* Needs: middleware. */
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "middleware/rate_limit.h"
#include "support/random.h"
#include "support/run.h"

#define THREADS 4
#define TAKES 50000

typedef struct shared {
    uvhttp_rate_limit_store_t store;
    _Atomic uint64_t time_ns;
    _Atomic uint64_t allowed, number;
    uint64_t interval_ns, key_count;
    uint32_t burst;
    bool time_stands_still;
} shared_t;

static bool take(shared_t *shared, uint64_t key, uint64_t now_ns) {
    uvhttp_rate_limit_decision_t decision;
    const uvhttp_rate_limit_take_t wanted = {.kind = '6',
                                             .key = {(const char *)&key, sizeof key},
                                             .now_ns = now_ns,
                                             .interval_ns = shared->interval_ns,
                                             .burst = shared->burst};
    /* Not assert_int_equal: cmocka is for one thread. */
    if (shared->store.take(shared->store.user, &wanted, &decision) != UVHTTP_OK) return false;
    if (decision.allowed) atomic_fetch_add(&shared->allowed, 1);
    return decision.allowed;
}

static void *run(void *arg) {
    shared_t *shared = arg;
    test_random_t random = {100 + atomic_fetch_add(&shared->number, 1)};
    for (int i = 0; i < TAKES; i++) {
        uint64_t now = shared->time_stands_still ? 0 : atomic_fetch_add(&shared->time_ns, 1) + 1;
        (void)take(shared, shared->key_count > 1 ? test_random_below(&random, shared->key_count) : 0, now);
    }
    return NULL;
}

static uvhttp_rate_limit_stats_t run_all(shared_t *shared) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, run, shared), 0);
    uvhttp_rate_limit_stats_t stats = {0};
    shared->store.stats(shared->store.user, &stats); /* while they run */
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    stats = (uvhttp_rate_limit_stats_t){0};
    shared->store.stats(shared->store.user, &stats);
    return stats;
}

static shared_t with_store(uint32_t key_count_max, shared_t shared) {
    assert_int_equal(uvhttp__rate_limit_local_store(key_count_max, &shared.store), 0);
    return shared;
}

static void test_all_threads_together_are_admitted_as_often_as_one_would_be(void **state) {
    (void)state;
    shared_t shared =
        with_store(1000, (shared_t){.interval_ns = 1000, .burst = 12345, .key_count = 1, .time_stands_still = true});
    uvhttp_rate_limit_stats_t stats = run_all(&shared);
    assert_int_equal(shared.allowed, 12345);
    assert_int_equal(stats.allowed, 12345);
    assert_int_equal(stats.refused, THREADS * TAKES - 12345);
    assert_int_equal(stats.keys, 1);
    shared.store.destroy(shared.store.user);
}

/* Each request is at a ns of its own, and they meet the table out of order. */
static void test_the_rate_is_exact_while_time_passes(void **state) {
    (void)state;
    shared_t shared = with_store(1000, (shared_t){.interval_ns = 10, .burst = 100, .key_count = 1});
    assert_true(take(&shared, 0, 0));
    uvhttp_rate_limit_stats_t stats = run_all(&shared);
    while (take(&shared, 0, THREADS * TAKES)) continue; /* what the last ones left */
    assert_int_equal(shared.allowed, 100 + THREADS * TAKES / 10);
    assert_in_range(stats.allowed, 100 + THREADS * TAKES / 10 - 1, 100 + THREADS * TAKES / 10);
    shared.store.destroy(shared.store.user);
}

static void test_every_key_gets_its_own_and_no_more(void **state) {
    (void)state;
    /* 200,000 requests for 5000 keys, 40 each in the mean: a burst of 10 is used up by all. */
    shared_t shared =
        with_store(20000, (shared_t){.interval_ns = 1000, .burst = 10, .key_count = 5000, .time_stands_still = true});
    uvhttp_rate_limit_stats_t stats = run_all(&shared);
    for (uint64_t key = 0; key < 5000; key++)
        while (take(&shared, key, 0)) continue;
    assert_int_equal(shared.allowed, 50000);
    assert_int_equal(stats.keys, 5000);
    assert_int_equal(stats.evicted, 0);
    shared.store.destroy(shared.store.user);
}

static void test_a_table_that_is_too_small_stays_whole(void **state) {
    (void)state;
    shared_t shared = with_store(2500, (shared_t){.interval_ns = 100000, .burst = 3, .key_count = 20000});
    uvhttp_rate_limit_stats_t stats = run_all(&shared);
    assert_int_equal(stats.allowed + stats.refused, THREADS * TAKES);
    assert_int_equal(stats.allowed, shared.allowed);
    assert_int_equal(stats.keys, 2500);
    assert_true(stats.evicted > 0);
    shared.store.destroy(shared.store.user);
}

int main(void) {
    return RUN_TESTS(test_all_threads_together_are_admitted_as_often_as_one_would_be,
                     test_the_rate_is_exact_while_time_passes, test_every_key_gets_its_own_and_no_more,
                     test_a_table_that_is_too_small_stays_whole);
}
