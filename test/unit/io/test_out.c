/* Owns: tests of the wire queue of one stream, by its own functions: what is kept of it, dropped, cut and counted, and
 * what is refused without memory. The loop does not run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/engine.h"
#include "support/failing_allocator.h"
#include "support/run.h"

#define GIB (1024ull * 1024 * 1024)

typedef struct queue {
    uvhttp__counters_t *counters;
    uvhttp__loop_t *loop;
    uvhttp__stream_t stream;
    uvhttp__filter_t filter;
    int released, kept; /* calls of count and of on_kept */
} queue_t;

static void count(void *arg) {
    ++*(int *)arg;
}

/* No function is called while the queue is worked on. */
static int released(queue_t *queue) {
    uvhttp__released_call(queue->loop);
    return queue->released;
}

static void count_kept(uvhttp__stream_t *stream) {
    UVHTTP__CONTAINER_OF(stream, queue_t, stream)->kept++;
}

static const uvhttp__stream_ops_t reported_ops = {.on_kept = count_kept}, plain_ops;

static int set_up(void **state) {
    queue_t *queue = aligned_alloc(64, (sizeof *queue + 63) / 64 * 64);
    assert_non_null(queue);
    *queue = (queue_t){.counters = aligned_alloc(64, (sizeof *queue->counters + 63) / 64 * 64)};
    assert_non_null(queue->counters);
    memset(queue->counters, 0, sizeof *queue->counters);
    const uvhttp__loop_options_t options = {.engine = UVHTTP__ENGINE_EPOLL,
                                            .receive_buffer_size = 16384,
                                            .receive_buffer_count = 8,
                                            .counters = queue->counters};
    assert_int_equal(uvhttp__loop_new(&options, &queue->loop), UVHTTP_OK);
    queue->stream = (uvhttp__stream_t){.loop = queue->loop, .ops = &reported_ops, .fd = -1};
    uvhttp__list_init(&queue->stream.dirty);
    *state = queue;
    return 0;
}

static int tear_down(void **state) {
    queue_t *queue = *state;
    uvhttp__out_drop(&queue->stream);
    uvhttp__released_call(queue->loop);
    uvhttp__list_remove(&queue->stream.dirty);
    assert_int_equal(queue->loop->segments.in_use, 0);
    uvhttp__loop_free(queue->loop, NULL, NULL);
    free(queue->counters);
    free(queue);
    return 0;
}

static void send_text(queue_t *queue, const char *text) {
    assert_int_equal(uvhttp__stream_send_copy(&queue->stream, text, strlen(text)), UVHTTP_OK);
}

static void send_reference(queue_t *queue, const char *text) {
    assert_int_equal(uvhttp__stream_send_ref(&queue->stream, text, strlen(text), count, &queue->released), UVHTTP_OK);
}

static void send_file(queue_t *queue, uint64_t offset, uint64_t size) {
    assert_int_equal(uvhttp__stream_send_file(&queue->stream, 77, offset, size, count, &queue->released), UVHTTP_OK);
}

static uint64_t counted(const queue_t *queue) {
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(queue->counters, &sums);
    return UVHTTP__COUNTER(&sums, bytes_sent);
}

/* What is in memory, one segment after the other, each in []; the last one is known as such. */
static void expect_queue(const queue_t *queue, const char *expected) {
    char text[256] = "";
    size_t used = 0;
    const uvhttp__segment_t *last = NULL;
    for (const uvhttp__segment_t *s = queue->stream.out_first; s; s = s->next) {
        const char *data = s->data ? s->data : s->plain;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "[%.*s]", data ? (int)s->size : 4, data ? data : "file");
        last = s;
    }
    assert_string_equal(text, expected);
    assert_ptr_equal(queue->stream.out_last, last);
}

/* What is filled from now on is the other half of iteration memory. */
static void next_iteration(queue_t *queue) {
    uvhttp__iteration_arena_flip(queue->loop);
}

/* The kernel is done with both halves: whatever still points there shows it. */
static void overwrite_iteration_memory(queue_t *queue) {
    for (int i = 0; i < 2; i++) {
        next_iteration(queue);
        memset(queue->loop->iteration_at, '#', (size_t)(queue->loop->iteration_end - queue->loop->iteration_at));
    }
}

/* --- keeping --- */

static void test_what_is_kept_outlives_the_memory_of_its_iteration(void **state) {
    queue_t *queue = *state;
    send_text(queue, "one");
    send_reference(queue, "two");
    send_text(queue, "three");
    next_iteration(queue);
    send_text(queue, "four");
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    assert_int_equal(queue->kept, 1);
    overwrite_iteration_memory(queue);
    send_text(queue, "five"); /* behind the copy of the last one */
    expect_queue(queue, "[one][two][three][four][five]");
    for (const uvhttp__segment_t *s = queue->stream.out_first; s->next; s = s->next) assert_int_equal(s->iteration, 0);
    assert_int_equal(queue->stream.out_first->kind, UVHTTP__SEGMENT_MEMORY);
    assert_int_equal(queue->stream.out_size, 19);
    uvhttp__out_drop(&queue->stream);
    assert_int_equal(released(queue), 1);
}

static void test_the_last_segment_is_known_after_keeping_when_it_was_kept_before(void **state) {
    queue_t *queue = *state;
    send_text(queue, "copied");
    send_reference(queue, "last");
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    expect_queue(queue, "[copied][last]");
}

static void test_one_half_is_kept_without_the_other(void **state) {
    queue_t *queue = *state;
    uint8_t before = queue->loop->iteration_mark;
    send_text(queue, "old");
    next_iteration(queue);
    send_text(queue, "new");
    assert_int_equal(uvhttp__out_keep_half(&queue->stream, before), UVHTTP_OK);
    assert_int_equal(queue->kept, 0); /* only uvhttp__out_keep tells */
    assert_int_equal(queue->loop->segments.in_use, 1);
    assert_int_equal(queue->stream.out_first->iteration, 0);
    assert_int_equal(queue->stream.out_last->iteration, queue->loop->iteration_mark);
    assert_int_equal(uvhttp__out_keep_half(&queue->stream, before), UVHTTP_OK);
    assert_int_equal(queue->loop->segments.in_use, 1); /* what is kept stays where it is */
    expect_queue(queue, "[old][new]");
}

static void test_nobody_has_to_be_notified_of_keeping(void **state) {
    queue_t *queue = *state;
    queue->stream.ops = &plain_ops;
    send_text(queue, "one");
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    assert_int_equal(queue->kept, 0);
    expect_queue(queue, "[one]");
}

static void test_what_has_to_be_encoded_still_has_to_be_when_it_is_kept(void **state) {
    queue_t *queue = *state;
    queue->stream.filter = &queue->filter;
    send_text(queue, "secret");
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    overwrite_iteration_memory(queue);
    assert_null(queue->stream.out_first->data);
    expect_queue(queue, "[secret]");
}

static void test_without_memory_for_a_segment_keeping_fails_and_can_be_tried_again(void **state) {
    queue_t *queue = *state;
    send_text(queue, "one");
    size_t live = test_allocator_live();
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    assert_int_equal(test_allocator_live(), live);
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    overwrite_iteration_memory(queue);
    expect_queue(queue, "[one]");
}

/* What was kept before that stays, what was not is as it was. */
static void test_without_memory_for_bytes_keeping_fails_and_loses_nothing(void **state) {
    queue_t *queue = *state;
    send_text(queue, "one");
    send_reference(queue, "two");
    send_text(queue, "three");
    size_t live = test_allocator_live();
    test_allocator_fail_at(2);
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    assert_int_equal(queue->loop->segments.in_use, 2); /* those of the copy of "one" and of the reference */
    assert_int_equal(test_allocator_live(), live + 1);
    expect_queue(queue, "[one][two][three]");
    assert_int_equal(uvhttp__out_keep(&queue->stream), UVHTTP_OK);
    overwrite_iteration_memory(queue);
    expect_queue(queue, "[one][two][three]");
}

/* --- refusals --- */

static void test_without_memory_a_reference_is_refused_and_released(void **state) {
    queue_t *queue = *state;
    assert_int_equal(queue->loop->segments.chunk_count, 0);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__stream_send_ref(&queue->stream, "x", 1, count, &queue->released), UVHTTP_E_NOMEM);
    assert_int_equal(released(queue), 1);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__stream_send_file(&queue->stream, 77, 0, 1, count, &queue->released), UVHTTP_E_NOMEM);
    assert_int_equal(released(queue), 2);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__stream_send_ref(&queue->stream, "x", 1, NULL, NULL), UVHTTP_E_NOMEM);
    test_allocator_fail_at(0);
    expect_queue(queue, "");
    assert_int_equal(queue->stream.out_size, 0);
    assert_false(uvhttp__list_linked(&queue->stream.dirty));
}

/* Iteration memory is full, and takes no more. */
static void test_without_memory_a_copy_is_refused_and_the_queue_stays_as_it_is(void **state) {
    queue_t *queue = *state;
    send_text(queue, "one");
    char *at = queue->loop->iteration_at;
    queue->loop->iteration_at = queue->loop->iteration_end;
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__stream_send_copy(&queue->stream, "two", 3), UVHTTP_E_NOMEM);
    test_allocator_fail_at(1);
    assert_int_equal(uvhttp__stream_send_iteration(&queue->stream, "static", 6), UVHTTP_E_NOMEM); /* no segment */
    test_allocator_fail_at(0);
    queue->loop->iteration_at = at;
    expect_queue(queue, "[one]");
    assert_int_equal(queue->stream.out_size, 3);
}

/* --- one segment for what stands together --- */

static void test_what_stands_together_is_one_segment_unless_it_may_not_be(void **state) {
    queue_t *queue = *state;
    send_text(queue, "one");
    send_text(queue, "two");
    expect_queue(queue, "[onetwo]");
    queue->loop->handing_over = true; /* the kernel may have the segment */
    send_text(queue, "three");
    queue->loop->handing_over = false;
    expect_queue(queue, "[onetwo][three]");
    queue->stream.filter = &queue->filter; /* what is encoded stands elsewhere */
    send_text(queue, "four");
    queue->stream.filter = NULL;
    expect_queue(queue, "[onetwo][three][four]");
    assert_int_equal(queue->stream.out_size, 15);
}

static void test_nothing_is_put_behind_what_is_of_the_iteration_before(void **state) {
    queue_t *queue = *state;
    char *data = uvhttp__loop_iteration_alloc(queue->loop, 6);
    assert_non_null(data);
    memcpy(data, "oldnew", 6);
    assert_int_equal(uvhttp__stream_send_iteration(&queue->stream, data, 3), UVHTTP_OK);
    next_iteration(queue);
    assert_int_equal(uvhttp__stream_send_iteration(&queue->stream, data + 3, 3), UVHTTP_OK);
    expect_queue(queue, "[old][new]");
}

/* --- dropping --- */

static void fill_for_dropping(queue_t *queue) {
    send_text(queue, "one");
    send_reference(queue, "two");
    send_text(queue, "three");
    send_reference(queue, "four");
    send_text(queue, "five");
}

static void test_while_a_send_is_in_flight_only_iteration_memory_is_dropped(void **state) {
    queue_t *queue = *state;
    fill_for_dropping(queue);
    queue->stream.flags = UVHTTP__STREAM_SENDING;
    uvhttp__out_drop_unread(&queue->stream);
    expect_queue(queue, "[two][four]");
    assert_int_equal(released(queue), 0);
    uvhttp__out_drop(&queue->stream);
    send_text(queue, "only");
    uvhttp__out_drop_unread(&queue->stream);
    expect_queue(queue, "");
}

static void test_what_was_flushed_in_the_last_iteration_is_not_dropped_yet(void **state) {
    queue_t *queue = *state;
    fill_for_dropping(queue);
    queue->stream.flags = UVHTTP__STREAM_FLUSHED;
    uvhttp__out_drop_unread(&queue->stream);
    expect_queue(queue, "[one][two][three][four][five]");
    assert_int_equal(released(queue), 0);
}

static void test_what_the_kernel_does_not_read_is_dropped(void **state) {
    queue_t *queue = *state;
    fill_for_dropping(queue);
    uvhttp__out_drop_unread(&queue->stream);
    expect_queue(queue, "");
    assert_int_equal(released(queue), 2);
    assert_int_equal(queue->stream.out_size, 0);
}

static void test_what_has_flown_is_dropped_and_counted_once(void **state) {
    queue_t *queue = *state;
    fill_for_dropping(queue);
    uvhttp__out_drop_flown(&queue->stream);
    assert_int_equal(queue->stream.out_sent, 0);
    expect_queue(queue, "[one][two][three][four][five]");
    queue->stream.out_flying = 2;
    uvhttp__out_drop_flown(&queue->stream);
    expect_queue(queue, "[three][four][five]");
    assert_int_equal(released(queue), 1);
    queue->stream.out_flying = 3;
    uvhttp__out_drop_flown(&queue->stream);
    expect_queue(queue, "");
    assert_int_equal(released(queue), 2);
    assert_int_equal(queue->stream.out_flying, 0);
    assert_int_equal(queue->stream.out_sent, 19);
    assert_int_equal(queue->stream.out_size, 0);
    assert_int_equal(counted(queue), 19);
    send_text(queue, "!");
    queue->stream.out_flying = 1;
    uvhttp__out_drop_flown(&queue->stream);
    assert_int_equal(counted(queue), 20);
    assert_int_equal(queue->stream.out_size, 0);
}

/* --- what the kernel takes --- */

static void test_the_kernel_takes_any_number_of_bytes(void **state) {
    queue_t *queue = *state;
    static const char *const left[] = {"[abc][defg][file]", "[bc][defg][file]", "[c][defg][file]", "[defg][file]",
                                       "[efg][file]",       "[fg][file]",       "[g][file]",       "[file]"};
    for (size_t consumed = 0; consumed <= 7; consumed++) {
        send_text(queue, "abc");
        send_reference(queue, "defg");
        send_file(queue, 1000, 50);
        uvhttp__out_advance(&queue->stream, consumed);
        expect_queue(queue, left[consumed]);
        assert_int_equal(queue->stream.out_size, 57 - consumed);
        uvhttp__out_drop(&queue->stream);
    }
    assert_int_equal(queue->stream.out_sent, 0 + 1 + 2 + 3 + 4 + 5 + 6 + 7);
    assert_int_equal(counted(queue), queue->stream.out_sent);
}

static void test_a_segment_is_cut_at_its_front_wherever_its_bytes_are(void **state) {
    queue_t *queue = *state;
    send_file(queue, 1000, 50);
    uvhttp__segment_cut(queue->stream.out_first, 20);
    assert_int_equal(queue->stream.out_first->offset, 1020);
    assert_int_equal(queue->stream.out_first->size, 30);
    assert_null(queue->stream.out_first->data);
    assert_null(queue->stream.out_first->plain);
    uvhttp__out_drop(&queue->stream);
    queue->stream.filter = &queue->filter;
    send_text(queue, "secret");
    uvhttp__segment_cut(queue->stream.out_first, 2);
    expect_queue(queue, "[cret]");
    assert_null(queue->stream.out_first->data);
}

static void test_what_is_gathered_ends_at_a_file_and_at_the_most(void **state) {
    queue_t *queue = *state;
    struct iovec iov[4];
    size_t size = 1;
    assert_int_equal(uvhttp__out_gather(&queue->stream, iov, 4, &size), 0);
    assert_int_equal(size, 0);
    send_text(queue, "one");
    send_reference(queue, "three");
    send_file(queue, 0, 50);
    send_text(queue, "four");
    assert_int_equal(uvhttp__out_gather(&queue->stream, iov, 4, &size), 2);
    assert_int_equal(size, 8);
    assert_int_equal(iov[0].iov_len, 3);
    assert_memory_equal(iov[1].iov_base, "three", 5);
    assert_int_equal(uvhttp__out_gather(&queue->stream, iov, 1, &size), 1);
    assert_int_equal(size, 3);
}

/* --- sizes of more than 4 GiB --- */

static void test_the_size_saturates_and_is_right_again_below(void **state) {
    queue_t *queue = *state;
    send_file(queue, 0, 3 * GIB);
    assert_int_equal(queue->stream.out_size, 3 * GIB);
    send_file(queue, 0, 3 * GIB);
    assert_int_equal(queue->stream.out_size, UINT32_MAX);
    uvhttp__out_advance(&queue->stream, 1);
    assert_int_equal(queue->stream.out_size, UINT32_MAX);
    uvhttp__out_advance(&queue->stream, 3 * GIB - 1);
    assert_int_equal(released(queue), 1);
    assert_int_equal(queue->stream.out_size, 3 * GIB);
    uvhttp__out_advance(&queue->stream, GIB);
    assert_int_equal(queue->stream.out_size, 2 * GIB);
    uvhttp__out_drop(&queue->stream);
    send_file(queue, 0, UINT32_MAX - 1);
    assert_int_equal(queue->stream.out_size, UINT32_MAX - 1);
    send_text(queue, "a");
    assert_int_equal(queue->stream.out_size, UINT32_MAX);
}

/* --- a filter that encodes no more --- */

static bool kernel_encodes;

static bool pass(uvhttp__stream_t *stream) {
    (void)stream;
    return kernel_encodes;
}

static void test_a_stream_passes_when_its_filter_says_so(void **state) {
    queue_t *queue = *state;
    static const uvhttp__filter_ops_t ops = {.pass = pass};
    queue->filter = (uvhttp__filter_t){.ops = &ops};
    kernel_encodes = true;
    assert_false(uvhttp__stream_pass(&queue->stream)); /* there is no filter */
    queue->stream.filter = &queue->filter;
    assert_false(uvhttp__stream_pass(&queue->stream)); /* it is not worth the question */
    queue->filter.may_pass = true;
    kernel_encodes = false;
    assert_false(uvhttp__stream_pass(&queue->stream));
    assert_true(uvhttp__stream_encodes(&queue->stream));
    kernel_encodes = true;
    assert_true(uvhttp__stream_pass(&queue->stream));
    assert_false(uvhttp__stream_encodes(&queue->stream));
    assert_false(uvhttp__stream_pass(&queue->stream)); /* it does already */
    send_text(queue, "plain");
    assert_non_null(queue->stream.out_first->data);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(
        set_up, tear_down, test_what_is_kept_outlives_the_memory_of_its_iteration,
        test_the_last_segment_is_known_after_keeping_when_it_was_kept_before, test_one_half_is_kept_without_the_other,
        test_nobody_has_to_be_notified_of_keeping, test_what_has_to_be_encoded_still_has_to_be_when_it_is_kept,
        test_without_memory_for_a_segment_keeping_fails_and_can_be_tried_again,
        test_without_memory_for_bytes_keeping_fails_and_loses_nothing,
        test_without_memory_a_reference_is_refused_and_released,
        test_without_memory_a_copy_is_refused_and_the_queue_stays_as_it_is,
        test_what_stands_together_is_one_segment_unless_it_may_not_be,
        test_nothing_is_put_behind_what_is_of_the_iteration_before,
        test_while_a_send_is_in_flight_only_iteration_memory_is_dropped,
        test_what_was_flushed_in_the_last_iteration_is_not_dropped_yet, test_what_the_kernel_does_not_read_is_dropped,
        test_what_has_flown_is_dropped_and_counted_once, test_the_kernel_takes_any_number_of_bytes,
        test_a_segment_is_cut_at_its_front_wherever_its_bytes_are, test_what_is_gathered_ends_at_a_file_and_at_the_most,
        test_the_size_saturates_and_is_right_again_below, test_a_stream_passes_when_its_filter_says_so);
}
