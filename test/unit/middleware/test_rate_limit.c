/* The bucket's arithmetic and the table of buckets, without requests. */
/* Needs: middleware. */
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "middleware/rate_limit.h"
#include "support/failing_allocator.h"
#include "support/random.h"
#include "support/run.h"

#define SECOND UINT64_C(1000000000)
#define YEAR (UINT64_C(365) * 86400 * SECOND)

static uvhttp_rate_limit_decision_t take_at(uint64_t *full, uint64_t now, uint64_t interval, uint32_t burst) {
    uvhttp_rate_limit_decision_t decision;
    const uvhttp_rate_limit_take_t take = {.interval_ns = interval, .burst = burst};
    uvhttp__rate_limit_bucket_take(full, &take, now, &decision);
    return decision;
}

/* --- the bucket --- */

static void test_a_full_bucket_admits_its_burst_and_no_more(void **state) {
    (void)state;
    const uint64_t starts[] = {0, 1, 5 * SECOND, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 3, UINT64_MAX};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        uint64_t full = starts[i];
        for (uint32_t n = 1; n <= 10; n++) {
            uvhttp_rate_limit_decision_t decision = take_at(&full, starts[i], 100, 10);
            assert_true(decision.allowed);
            assert_int_equal(decision.remaining, 10 - n);
            assert_int_equal(decision.next_ns, 100);
        }
        uint64_t before = full;
        uvhttp_rate_limit_decision_t decision = take_at(&full, starts[i], 100, 10);
        assert_false(decision.allowed);
        assert_int_equal(decision.remaining, 0);
        assert_int_equal(decision.next_ns, 100);
        assert_int_equal(full, before); /* a refusal costs nothing */
    }
}

static void test_a_request_more_is_admitted_when_its_interval_is_over_and_not_a_ns_before(void **state) {
    (void)state;
    const uint64_t starts[] = {0, 7, UINT64_MAX - 150, UINT64_MAX - 99, UINT64_MAX};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        uint64_t now = starts[i], full = now;
        for (int n = 0; n < 3; n++) assert_true(take_at(&full, now, 100, 3).allowed);
        uvhttp_rate_limit_decision_t decision = take_at(&full, now + 99, 100, 3);
        assert_false(decision.allowed);
        assert_int_equal(decision.next_ns, 1);
        decision = take_at(&full, now + 100, 100, 3);
        assert_true(decision.allowed);
        assert_int_equal(decision.remaining, 0);
        assert_false(take_at(&full, now + 199, 100, 3).allowed);
        decision = take_at(&full, now + 350, 100, 3); /* 2.5 intervals later: two, and a half is kept */
        assert_true(decision.allowed);
        assert_int_equal(decision.remaining, 1);
        assert_int_equal(decision.next_ns, 50);
        assert_true(take_at(&full, now + 350, 100, 3).allowed);
        assert_false(take_at(&full, now + 350, 100, 3).allowed);
    }
}

static void test_a_very_long_idle_fills_the_bucket_and_no_more(void **state) {
    (void)state;
    uint64_t full = UINT64_MAX - 5;
    for (int n = 0; n < 4; n++) assert_true(take_at(&full, UINT64_MAX - 5, SECOND, 4).allowed);
    uint64_t later = UINT64_MAX - 5 + 200 * YEAR; /* wraps */
    for (uint32_t n = 1; n <= 4; n++) assert_int_equal(take_at(&full, later, SECOND, 4).remaining, 4 - n);
    assert_false(take_at(&full, later, SECOND, 4).allowed);
}

static void test_the_extremes_of_rate_and_burst_do_not_overflow(void **state) {
    (void)state;
    uint64_t now = UINT64_MAX / 2, full = now;
    /* One in 100,000 s, as many as 366 days allow. */
    const uint64_t slow = 100000 * SECOND;
    const uint32_t most = (uint32_t)(UVHTTP__RATE_LIMIT_WINDOW_MAX_NS / slow);
    for (uint32_t n = 1; n <= most; n++) assert_int_equal(take_at(&full, now, slow, most).remaining, most - n);
    uvhttp_rate_limit_decision_t decision = take_at(&full, now, slow, most);
    assert_false(decision.allowed);
    assert_int_equal(decision.next_ns, slow);
    /* A million a second, and a bucket of a thousand million. */
    full = now;
    decision = take_at(&full, now, 1000, 1000000000);
    assert_true(decision.allowed);
    assert_int_equal(decision.remaining, 999999999);
    assert_int_equal(decision.next_ns, 1000);
    full = now + UINT64_C(1000000000) * 1000; /* all used up */
    assert_false(take_at(&full, now, 1000, 1000000000).allowed);
    assert_true(take_at(&full, now + 1000, 1000, 1000000000).allowed);
    /* One at a time. */
    full = now;
    assert_true(take_at(&full, now, 1000, 1).allowed);
    assert_false(take_at(&full, now + 999, 1000, 1).allowed);
    assert_true(take_at(&full, now + 1000, 1000, 1).allowed);
}

/* The textbook's bucket: a level that rises with time and falls with requests, in units of 1 / interval. */
static void test_it_decides_as_a_bucket_with_a_level_does(void **state) {
    (void)state;
    test_random_t random = {1};
    for (int round = 0; round < 200; round++) {
        uint64_t interval = 1 + test_random_below(&random, 1000);
        uint32_t burst = 1 + (uint32_t)test_random_below(&random, 20);
        uint64_t now = test_random_next(&random), full = now;
        uint64_t level = interval * burst;
        for (int step = 0; step < 2000; step++) {
            uint64_t passed = test_random_below(&random, 8) == 0 ? test_random_below(&random, interval * burst * 2)
                                                                 : test_random_below(&random, interval);
            now += passed;
            level = level + passed < interval * burst ? level + passed : interval * burst;
            bool allowed = level >= interval;
            if (allowed) level -= interval;
            uvhttp_rate_limit_decision_t decision = take_at(&full, now, interval, burst);
            assert_int_equal(decision.allowed, allowed);
            assert_int_equal(decision.remaining, level / interval);
            assert_int_equal(decision.next_ns, interval - level % interval);
        }
    }
}

/* --- the table --- */

typedef struct table {
    uvhttp_rate_limit_store_t store;
    uvhttp_rate_limit_take_t take; /* key and kind apart */
} table_t;

static table_t table_of(uint32_t keys_max, uint64_t interval, uint32_t burst) {
    table_t table = {.take = {.interval_ns = interval, .burst = burst, .now_ns = 1000}};
    assert_int_equal(uvhttp__rate_limit_local_store(keys_max, &table.store), 0);
    return table;
}

static bool take_key(table_t *table, char kind, const void *key, size_t size) {
    uvhttp_rate_limit_decision_t decision;
    table->take.kind = kind;
    table->take.key = (uvhttp_str_t){key, size};
    assert_int_equal(table->store.take(table->store.user, &table->take, &decision), 0);
    return decision.allowed;
}

static bool take_number(table_t *table, uint64_t number) {
    return take_key(table, '6', &number, sizeof number);
}

static uvhttp_rate_limit_stats_t stats_of(const table_t *table) {
    uvhttp_rate_limit_stats_t stats = {0};
    table->store.stats(table->store.user, &stats);
    return stats;
}

static void table_end(table_t *table) {
    table->store.destroy(table->store.user);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_keys_have_buckets_of_their_own(void **state) {
    (void)state;
    table_t table = table_of(100, SECOND, 2);
    const struct {
        char kind;
        const char *key;
        size_t size;
    } keys[] = {{'4', "\1\2\3\4", 4}, {'4', "\1\2\3\5", 4}, {'h', "\1\2\3\4", 4}, {'h', "", 0},
                {'r', NULL, 0},       {'h', "a", 1},        {'h', "a\0", 2},      {'c', "a", 1}};
    for (int n = 0; n < 3; n++)
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
            assert_int_equal(take_key(&table, keys[i].kind, keys[i].key, keys[i].size), n < 2);
    uvhttp_rate_limit_stats_t stats = stats_of(&table);
    assert_int_equal(stats.allowed, 16);
    assert_int_equal(stats.refused, 8);
    assert_int_equal(stats.keys, 8);
    assert_int_equal(stats.evicted, 0);
    table_end(&table);
}

static void test_time_that_goes_back_stands_still(void **state) {
    (void)state;
    table_t table = table_of(100, 100, 2);
    table.take.now_ns = 10000;
    assert_true(take_number(&table, 1));
    table.take.now_ns = 9900; /* a loop whose iteration started before: it is served as if it were 10000 */
    assert_true(take_number(&table, 1));
    assert_false(take_number(&table, 1));
    table.take.now_ns = 10100;
    assert_true(take_number(&table, 1));
    table.take.now_ns = 5;
    assert_false(take_number(&table, 1));
    table_end(&table);
}

static void test_a_million_keys_stay_within_their_bytes(void **state) {
    (void)state;
    const uint32_t maxima[] = {1, 5, 1000, 10000, 1000000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        table_t table = table_of(maxima[i], 3600 * SECOND, 5);
        size_t bytes = test_allocator_live_bytes(), count = test_allocator_count();
        assert_in_range(bytes, (size_t)maxima[i] * UVHTTP__RATE_LIMIT_KEY_SIZE,
                        (size_t)maxima[i] * UVHTTP__RATE_LIMIT_KEY_SIZE + 64 * 1024);
        for (uint64_t n = 0; n < 1000000; n++) {
            table.take.now_ns++;
            assert_true(take_number(&table, n)); /* nobody is refused for the others */
        }
        uvhttp_rate_limit_stats_t stats = stats_of(&table);
        assert_int_equal(test_allocator_live_bytes(), bytes);
        assert_int_equal(test_allocator_count(), count);
        assert_int_equal(stats.allowed, 1000000);
        assert_int_equal(stats.keys + stats.evicted, 1000000);
        /* Shards fill unevenly: a table that is just large enough is not quite. */
        assert_in_range(stats.keys, (uint64_t)maxima[i] * 98 / 100, maxima[i]);
        if (maxima[i] <= 10000) assert_int_equal(stats.keys, maxima[i]);
        table_end(&table);
    }
}

static void test_buckets_that_have_filled_up_go_first(void **state) {
    (void)state;
    table_t table = table_of(1000, SECOND, 2);
    /* Full again after one second: 990 of them. Used up for two seconds: ten, among the others. */
    for (uint64_t n = 0; n < 1000; n++) {
        assert_true(take_number(&table, n));
        if (n % 100 == 50) assert_true(take_number(&table, n));
    }
    table.take.now_ns += SECOND;
    for (uint64_t n = 0; n < 990; n++) assert_true(take_number(&table, 100000 + n));
    assert_int_equal(stats_of(&table).evicted, 0);
    for (uint64_t n = 50; n < 1000; n += 100) { /* one second's worth was given back, the rest is remembered */
        assert_true(take_number(&table, n));
        assert_false(take_number(&table, n));
    }
    assert_int_equal(stats_of(&table).evicted, 0);
    table_end(&table);
}

static void test_a_flood_of_new_keys_does_not_refill_a_bucket_that_is_used_up(void **state) {
    (void)state;
    const uint32_t maxima[] = {16, 1000, 5000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        table_t table = table_of(maxima[i], 3600 * SECOND, 10);
        for (int n = 0; n < 10; n++) assert_true(take_number(&table, 0));
        assert_false(take_number(&table, 0));
        for (uint64_t n = 1; n <= 200000; n++) {
            table.take.now_ns += 1000;
            assert_true(take_number(&table, n));
            if (n % 1000 == 0) assert_false(take_number(&table, 0));
        }
        assert_true(stats_of(&table).evicted > 190000);
        table_end(&table);
    }
}

static void test_keys_that_collide_do_not_make_a_long_chain(void **state) {
    (void)state;
    enum { CAPACITY = 1000, CHAIN_MAX = 32 };
    table_t table = table_of(CAPACITY, 3600 * SECOND, 3);
    uint64_t found = 0;
    for (uint64_t number = 0; found < 100; number++) {
        XXH128_hash_t hash = XXH3_128bits_withSeed(&number, sizeof number, uvhttp__hash_seed() ^ '6');
        if ((hash.low64 & UINT32_MAX) * CAPACITY >> 32 != 7) continue;
        assert_true(take_number(&table, number));
        found++;
    }
    uvhttp_rate_limit_stats_t stats = stats_of(&table);
    assert_int_equal(stats.keys, CHAIN_MAX);
    assert_int_equal(stats.evicted, 100 - CHAIN_MAX);
    for (uint64_t n = 0; n < 100000; n++) (void)take_number(&table, UINT64_C(1) << 40 | n); /* the chain is complete */
    assert_int_equal(stats_of(&table).keys, CAPACITY);
    table_end(&table);
}

/* What the table holds is compared with a plain list of buckets while nothing has to be evicted. */
static void test_the_table_keeps_what_a_plain_list_keeps(void **state) {
    (void)state;
    static uint64_t full[300];
    table_t table = table_of(300, 50, 3);
    test_random_t random = {2};
    for (size_t i = 0; i < 300; i++) full[i] = table.take.now_ns;
    for (int step = 0; step < 200000; step++) {
        table.take.now_ns += test_random_below(&random, 3);
        uint64_t number = test_random_below(&random, 300);
        assert_int_equal(take_number(&table, number), take_at(&full[number], table.take.now_ns, 50, 3).allowed);
    }
    assert_int_equal(stats_of(&table).keys, 300);
    table_end(&table);
}

static void make_and_free(void *user) {
    (void)user;
    uvhttp_rate_limit_store_t store;
    int status = uvhttp__rate_limit_local_store(100000, &store);
    assert_int_equal(status, test_allocator_failed() ? UVHTTP_E_NOMEM : UVHTTP_OK);
    if (status == UVHTTP_OK) store.destroy(store.user);
}

static void test_a_table_without_memory_is_not_made(void **state) {
    (void)state;
    assert_int_equal(test_allocator_each_failure(make_and_free, NULL), 3);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_a_full_bucket_admits_its_burst_and_no_more,
                     test_a_request_more_is_admitted_when_its_interval_is_over_and_not_a_ns_before,
                     test_a_very_long_idle_fills_the_bucket_and_no_more,
                     test_the_extremes_of_rate_and_burst_do_not_overflow, test_it_decides_as_a_bucket_with_a_level_does,
                     test_keys_have_buckets_of_their_own, test_time_that_goes_back_stands_still,
                     test_a_million_keys_stay_within_their_bytes, test_buckets_that_have_filled_up_go_first,
                     test_a_flood_of_new_keys_does_not_refill_a_bucket_that_is_used_up,
                     test_keys_that_collide_do_not_make_a_long_chain, test_the_table_keeps_what_a_plain_list_keeps,
                     test_a_table_without_memory_is_not_made);
}
