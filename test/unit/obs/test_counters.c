#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "obs/counters.h"
#include "support/run.h"

static void test_add_counts_by_name_and_read_sums_shards(void **state) {
    (void)state;
    static uvhttp__counters_t shards[3];
    for (unsigned i = 0; i < 3; i++) {
        uvhttp__counters_add(&shards[i], requests, i + 1);
        uvhttp__counters_add(&shards[i], bytes_sent, UINT64_C(1) << 40);
        uvhttp__counters_error(&shards[i], UVHTTP_E_HTTP_BARE_LF);
    }
    uvhttp__counters_error(&shards[0], -4711);
    uvhttp__counter_sums_t sums = {0};
    for (unsigned i = 0; i < 3; i++) uvhttp__counters_read(&shards[i], &sums);
    assert_int_equal(UVHTTP__COUNTER(&sums, requests), 6);
    assert_true(UVHTTP__COUNTER(&sums, bytes_sent) == UINT64_C(3) << 40);
    assert_int_equal(UVHTTP__COUNTER(&sums, bytes_received), 0);
    assert_int_equal(sums.errors[uvhttp__error_index(UVHTTP_E_HTTP_BARE_LF)], 3);
    assert_int_equal(sums.errors[UVHTTP__ERROR_INDEX_UNKNOWN], 1);
    uint64_t all = 0;
    for (unsigned i = 0; i < UVHTTP__ERROR_COUNT; i++) all += sums.errors[i];
    assert_int_equal(all, 4);
}

static void test_responses_are_counted_by_class(void **state) {
    (void)state;
    static uvhttp__counters_t shard;
    static const int statuses[] = {100, 200, 204, 299, 301, 304, 404, 499, 500, 599, 99, 600, 0, -1};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) uvhttp__counters_response(&shard, statuses[i]);
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(&shard, &sums);
    assert_int_equal(UVHTTP__COUNTER(&sums, responses_1xx), 1);
    assert_int_equal(UVHTTP__COUNTER(&sums, responses_2xx), 3);
    assert_int_equal(UVHTTP__COUNTER(&sums, responses_3xx), 2);
    assert_int_equal(UVHTTP__COUNTER(&sums, responses_4xx), 2);
    assert_int_equal(UVHTTP__COUNTER(&sums, responses_5xx), 2);
}

static void test_open_connections_are_never_negative(void **state) {
    (void)state;
    uvhttp__counter_sums_t sums = {0};
    UVHTTP__COUNTER(&sums, connections_accepted) = 10;
    UVHTTP__COUNTER(&sums, connections_closed) = 3;
    assert_int_equal(uvhttp__counters_connections(&sums), 7);
    UVHTTP__COUNTER(&sums, connections_closed) = 11;
    assert_int_equal(uvhttp__counters_connections(&sums), 0);
}

static void test_every_counter_has_a_name_of_its_own_and_help(void **state) {
    (void)state;
    assert_string_equal(uvhttp__counter_row(UVHTTP__COUNTER_requests)->name, "requests");
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++) {
        const uvhttp__counter_row_t *row = uvhttp__counter_row(i);
        assert_true(strlen(row->help) > 5);
        for (unsigned j = 0; j < i; j++) assert_string_not_equal(row->name, uvhttp__counter_row(j)->name);
    }
}

/* Readers show a family once, with one type: its counters follow each other. */
static void test_counters_of_a_family_follow_each_other_and_differ_by_labels(void **state) {
    (void)state;
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++) {
        const uvhttp__counter_row_t *row = uvhttp__counter_row(i);
        bool is_labelled = row->labels[0] != 0, follows = true;
        assert_int_equal(is_labelled, uvhttp__counter_family_help(row) != row->help);
        for (unsigned j = i; j-- > 0;) {
            const uvhttp__counter_row_t *before = uvhttp__counter_row(j);
            bool is_same = strcmp(before->family, row->family) == 0;
            if (is_same) {
                assert_true(follows);
                assert_int_equal(before->type, row->type);
                assert_string_not_equal(before->labels, row->labels);
            }
            follows = follows && is_same;
        }
    }
}

/* Prometheus' rule: a name says its base unit. */
static void test_a_family_is_named_after_its_unit(void **state) {
    (void)state;
    for (unsigned i = 0; i < UVHTTP__COUNTER_COUNT; i++) {
        const uvhttp__counter_row_t *row = uvhttp__counter_row(i);
        size_t size = strlen(row->family);
        bool in_bytes = row->type == UVHTTP__COUNTER_TYPE_BYTES || row->type == UVHTTP__COUNTER_TYPE_BYTES_TOTAL;
        assert_int_equal(in_bytes, size > 6 && strcmp(row->family + size - 6, "_bytes") == 0);
        assert_memory_equal(row->family, "uvhttp_", 7);
    }
}

static void test_shards_share_no_cache_line(void **state) {
    (void)state;
    static uvhttp__counters_t shards[2];
    assert_int_equal((uintptr_t)&shards[0] % 64, 0);
    assert_int_equal((uintptr_t)&shards[1] % 64, 0);
}

enum { LOOPS = 3, ROUNDS = 50000 };
static uvhttp__counters_t loop_shards[LOOPS];
static atomic_int running = LOOPS;

static void *count(void *shard) {
    for (int i = 0; i < ROUNDS; i++) uvhttp__counters_add((uvhttp__counters_t *)shard, requests, 1);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void test_reader_sees_sums_that_only_grow_and_end_exact(void **state) {
    (void)state;
    pthread_t threads[LOOPS];
    for (int i = 0; i < LOOPS; i++) assert_int_equal(pthread_create(&threads[i], NULL, count, &loop_shards[i]), 0);
    uint64_t last = 0;
    while (atomic_load(&running) > 0) {
        uvhttp__counter_sums_t sums = {0};
        for (int i = 0; i < LOOPS; i++) uvhttp__counters_read(&loop_shards[i], &sums);
        assert_true(UVHTTP__COUNTER(&sums, requests) >= last);
        last = UVHTTP__COUNTER(&sums, requests);
    }
    for (int i = 0; i < LOOPS; i++) pthread_join(threads[i], NULL);
    uvhttp__counter_sums_t sums = {0};
    for (int i = 0; i < LOOPS; i++) uvhttp__counters_read(&loop_shards[i], &sums);
    assert_int_equal(UVHTTP__COUNTER(&sums, requests), LOOPS * ROUNDS);
}

int main(void) {
    return RUN_TESTS(test_add_counts_by_name_and_read_sums_shards, test_responses_are_counted_by_class,
                     test_open_connections_are_never_negative, test_every_counter_has_a_name_of_its_own_and_help,
                     test_counters_of_a_family_follow_each_other_and_differ_by_labels,
                     test_a_family_is_named_after_its_unit, test_shards_share_no_cache_line,
                     test_reader_sees_sums_that_only_grow_and_end_exact);
}
