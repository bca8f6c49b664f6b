#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>

#include "obs/series.h"
#include "support/failing_allocator.h"
#include "support/run.h"

/* --- bounds --- */

static unsigned slow_index(const uint64_t *bounds, uint64_t value) {
    unsigned i = 0;
    while (value > bounds[i]) i++;
    return i;
}

static void test_an_index_is_that_of_the_first_bound_not_below_the_value(void **state) {
    (void)state;
    for (unsigned i = 0; i < UVHTTP__DURATION_COUNTS; i++)
        for (int64_t by = -1; by <= 1; by++) {
            uint64_t ns = uvhttp__duration_bounds[i] + (uint64_t)by;
            assert_int_equal(uvhttp__duration_index(ns), slow_index(uvhttp__duration_bounds, ns));
        }
    for (unsigned i = 0; i < UVHTTP__SIZE_COUNTS; i++)
        for (int64_t by = -1; by <= 1; by++) {
            uint64_t size = uvhttp__size_bounds[i] + (uint64_t)by;
            assert_int_equal(uvhttp__size_index(size), slow_index(uvhttp__size_bounds, size));
        }
    for (unsigned shift = 0; shift < 64; shift++)
        for (uint64_t by = 0; by < 8; by++) {
            uint64_t value = (UINT64_C(1) << shift) + by * ((UINT64_C(1) << shift) / 8);
            assert_int_equal(uvhttp__duration_index(value), slow_index(uvhttp__duration_bounds, value));
            assert_int_equal(uvhttp__size_index(value), slow_index(uvhttp__size_bounds, value));
        }
}

/* Semantic conventions for HTTP metrics: ExplicitBucketBoundaries of http.server.request.duration, in ms. */
static void test_the_last_bounds_of_durations_are_those_of_opentelemetry(void **state) {
    (void)state;
    static const uint64_t advised[] = {5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000};
    size_t count = sizeof advised / sizeof *advised;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(uvhttp__duration_bounds[UVHTTP__DURATION_BOUNDS - count + i], advised[i] * 1000000);
}

/* --- series --- */

static int a_route, another_route;

static uvhttp__series_key_t key_of(const void *route, uint64_t attributes) {
    return (uvhttp__series_key_t){route, attributes};
}

static uint64_t count_of(const uvhttp__series_t *series) {
    uint64_t count = 0;
    for (unsigned i = 0; i < UVHTTP__DURATION_COUNTS; i++) count += series->durations[i];
    return count;
}

static void test_each_key_has_a_series_of_its_own(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(1000);
    uvhttp__series_t *first[500];
    for (uint64_t i = 0; i < 500; i++)
        first[i] = uvhttp__series_find(shard, key_of(i % 2 ? &a_route : &another_route, i));
    for (uint64_t i = 0; i < 500; i++) {
        assert_ptr_equal(uvhttp__series_find(shard, key_of(i % 2 ? &a_route : &another_route, i)), first[i]);
        assert_ptr_not_equal(uvhttp__series_find(shard, key_of(i % 2 ? &another_route : &a_route, i)), first[i]);
        assert_false(uvhttp__series_is_overflow(shard, first[i]));
    }
    assert_int_equal(shard->count, 1001);
    uvhttp__series_shard_free(shard);
}

static void test_keys_beyond_the_capacity_share_the_first_series(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(3);
    uvhttp__series_t *known = uvhttp__series_find(shard, key_of(NULL, 0));
    for (uint64_t i = 1; i < 3; i++)
        assert_false(uvhttp__series_is_overflow(shard, uvhttp__series_find(shard, key_of(NULL, i))));
    for (uint64_t i = 3; i < 50; i++) {
        assert_true(uvhttp__series_is_overflow(shard, uvhttp__series_find(shard, key_of(NULL, i))));
        assert_ptr_equal(uvhttp__series_find(shard, key_of(NULL, 0)), known);
    }
    assert_int_equal(shard->count, 4);
    uvhttp__series_shard_free(shard);
}

static void test_requests_of_an_iteration_get_its_duration(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(10);
    uvhttp__series_t *one = uvhttp__series_find(shard, key_of(&a_route, 1));
    uvhttp__series_t *two = uvhttp__series_find(shard, key_of(&a_route, 2));
    for (int i = 0; i < 3; i++) uvhttp__series_pend(shard, one);
    uvhttp__series_pend(shard, two);
    assert_int_equal(count_of(one) + count_of(two), 0);
    uvhttp__series_iteration(shard, 1000, 2500);
    assert_int_equal(one->durations[1], 3);
    assert_int_equal(one->duration_sum, 3 * 2500);
    assert_int_equal(two->durations[1], 1);
    uvhttp__series_pend(shard, two);
    uvhttp__series_iteration(shard, 9000, 2501);
    uvhttp__series_iteration(shard, 19000, UINT64_C(11000000000));
    assert_int_equal(count_of(one), 3);
    assert_int_equal(two->durations[2], 1);
    assert_int_equal(count_of(two), 2);
    assert_int_equal(shard->busy_ns, UINT64_C(11000005001));
    assert_int_equal(shard->iterations[1] + shard->iterations[2], 2);
    assert_int_equal(shard->iterations[UVHTTP__DURATION_BOUNDS], 1);
    uvhttp__series_record(two, 7);
    assert_int_equal(two->durations[0], 1);
    assert_int_equal(two->duration_sum, 2500 + 2501 + 7);
    uvhttp__series_shard_free(shard);
}

static void test_bodies_are_counted_by_size(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(1);
    uvhttp__series_t *series = uvhttp__series_find(shard, key_of(NULL, 7));
    uvhttp__series_bodies(series, 0, 13);
    uvhttp__series_bodies(series, 257, UINT64_C(1) << 40);
    assert_int_equal(series->request_sum, 257);
    assert_int_equal(series->requests[0], 1);
    assert_int_equal(series->requests[2], 1);
    assert_int_equal(series->response_sum, 13 + (UINT64_C(1) << 40));
    assert_int_equal(series->responses[1], 1);
    assert_int_equal(series->responses[UVHTTP__SIZE_BOUNDS], 1);
    uvhttp__series_shard_free(shard);
}

static void make_shard(void *user) {
    bool *made = user;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(10);
    *made = shard != NULL;
    uvhttp__series_shard_free(shard);
}

static void test_a_shard_without_memory_is_none(void **state) {
    (void)state;
    bool made = false;
    assert_int_equal(test_allocator_each_failure(make_shard, &made), 2);
    assert_true(made);
}

/* --- exemplars --- */

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static bool reads(const char *text) {
    uvhttp__trace_id_t id;
    return uvhttp__trace_id_read(&id, text, strlen(text));
}

static void test_a_traceparent_of_a_sampled_request_is_read(void **state) {
    (void)state;
    uvhttp__trace_id_t id;
    assert_true(uvhttp__trace_id_read(&id, "00-" TRACE "-" SPAN "-01", 55));
    assert_true(id.trace[0] == UINT64_C(0x0af7651916cd43dd) && id.trace[1] == UINT64_C(0x8448eb211c80319c));
    assert_true(id.span == UINT64_C(0xb7ad6b7169203331));
    assert_true(reads("00-" TRACE "-" SPAN "-03"));
    assert_true(reads("cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like"));
    static const char *const refused[] = {"",
                                          "00-" TRACE "-" SPAN "-00",
                                          "00-" TRACE "-" SPAN "-0",
                                          "ff-" TRACE "-" SPAN "-01",
                                          "00-" TRACE "-" SPAN "-01-",
                                          "cc-" TRACE "-" SPAN "-01.",
                                          "00_" TRACE "-" SPAN "-01",
                                          "00-" TRACE "_" SPAN "-01",
                                          "00-" TRACE "-" SPAN "_01",
                                          "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
                                          "00-0af7651916cd43dd8448eb211c80319g-" SPAN "-01",
                                          "00-00000000000000000000000000000000-" SPAN "-01",
                                          "00-" TRACE "-0000000000000000-01"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) assert_false(reads(refused[i]));
}

static void test_an_exemplar_is_the_latest_of_its_bucket(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(4);
    uvhttp__series_t *series = uvhttp__series_find(shard, key_of(NULL, 1));
    uvhttp__exemplar_put(shard, series, &(uvhttp__trace_id_t){{1, 2}, 3}, 6000000);
    uvhttp__exemplar_put(shard, series, &(uvhttp__trace_id_t){{4, 5}, 6}, 7000000);
    uvhttp__exemplar_put(shard, series, &(uvhttp__trace_id_t){{7, 8}, 9}, 60000000);
    unsigned found = 0;
    for (unsigned i = 0; i < UVHTTP__EXEMPLARS; i++) {
        uvhttp__exemplar_view_t view;
        if (!uvhttp__exemplar_get(shard, i, &view)) continue;
        found++;
        assert_int_equal(view.series, series - shard->series);
        assert_true(view.duration_ns == 7000000 ? view.id.trace[0] == 4 && view.id.trace[1] == 5 && view.id.span == 6
                                                : view.duration_ns == 60000000 && view.id.span == 9);
        assert_true(view.time_ns > UINT64_C(1700000000000000000));
    }
    assert_int_equal(found, 2);
    uvhttp__series_shard_free(shard);
}

static void test_a_request_of_an_iteration_is_an_example_at_its_end(void **state) {
    (void)state;
    uvhttp__series_shard_t *shard = uvhttp__series_shard_new(4);
    uvhttp__series_t *series = uvhttp__series_find(shard, key_of(NULL, 1));
    uvhttp__exemplar_view_t view;
    uvhttp__series_iteration(shard, 5000, 1000);
    assert_true(shard->exemplar_due);
    shard->exemplar_due = false;
    shard->candidate = (uint32_t)(series - shard->series);
    shard->candidate_id = (uvhttp__trace_id_t){{1, 2}, 3};
    uvhttp__series_iteration(shard, 6000, 1500);
    assert_false(shard->exemplar_due);
    bool any = false;
    for (unsigned i = 0; i < UVHTTP__EXEMPLARS; i++)
        any = any || (uvhttp__exemplar_get(shard, i, &view) && view.duration_ns == 1500);
    assert_true(any);
    assert_int_equal(shard->candidate, UVHTTP__SERIES_NONE);
    uvhttp__series_iteration(shard, 5000 + UVHTTP__EXEMPLAR_NS, 1000);
    assert_true(shard->exemplar_due);
    uvhttp__series_shard_free(shard);
}

/* What a reader gets is always one of the exemplars that were written, whole. */
typedef struct writing {
    uvhttp__series_shard_t *shard;
    _Atomic bool stop;
} writing_t;

static void *write_exemplars(void *arg) {
    writing_t *writing = arg;
    for (uint64_t i = 1; !writing->stop; i++)
        uvhttp__exemplar_put(writing->shard, writing->shard->series, &(uvhttp__trace_id_t){{i, i}, i}, 1000 + i % 100);
    return NULL;
}

static void test_an_exemplar_is_read_whole_while_others_are_written(void **state) {
    (void)state;
    writing_t writing = {.shard = uvhttp__series_shard_new(1)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_exemplars, &writing), 0);
    unsigned whole = 0;
    for (unsigned i = 0; whole < 20000; i = (i + 1) % UVHTTP__EXEMPLARS) {
        uvhttp__exemplar_view_t view;
        if (!uvhttp__exemplar_get(writing.shard, i, &view)) continue;
        assert_true(view.id.trace[0] == view.id.trace[1] && view.id.trace[0] == view.id.span);
        assert_int_equal(view.duration_ns, 1000 + view.id.span % 100);
        whole++;
    }
    writing.stop = true;
    pthread_join(thread, NULL);
    uvhttp__series_shard_free(writing.shard);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_an_index_is_that_of_the_first_bound_not_below_the_value,
                     test_the_last_bounds_of_durations_are_those_of_opentelemetry,
                     test_each_key_has_a_series_of_its_own, test_keys_beyond_the_capacity_share_the_first_series,
                     test_requests_of_an_iteration_get_its_duration, test_bodies_are_counted_by_size,
                     test_a_shard_without_memory_is_none, test_a_traceparent_of_a_sampled_request_is_read,
                     test_an_exemplar_is_the_latest_of_its_bucket,
                     test_a_request_of_an_iteration_is_an_example_at_its_end,
                     test_an_exemplar_is_read_whole_while_others_are_written);
}
