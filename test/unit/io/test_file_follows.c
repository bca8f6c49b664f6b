/* Owns: tests of which output is held back for the file behind it: only what sendfile(2) follows without a wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "io/engine.h"

typedef struct queue {
    uvhttp__stream_t stream;
    uvhttp__source_t source;
    uvhttp__segment_t head, body;
} queue_t;

static void make(queue_t *queue, uint64_t size, bool resident) {
    *queue = (queue_t){.source = {.resident = resident}};
    queue->body = (uvhttp__segment_t){.fd = UVHTTP__SEGMENT_SOURCE, .size = size, .arg = &queue->source};
    queue->head = (uvhttp__segment_t){.data = "head", .size = 4, .fd = -1, .next = &queue->body};
}

static bool follows(const queue_t *queue) {
    return uvhttp__file_follows(&queue->stream, queue->head.next);
}

static void test_a_small_file_that_is_memory_is_waited_for(void **state) {
    (void)state;
    queue_t queue;
    make(&queue, 1, true);
    assert_true(follows(&queue));
    make(&queue, UVHTTP__FILE_FOLLOWS_MAX, true);
    assert_true(follows(&queue));
    make(&queue, UVHTTP__FILE_FOLLOWS_MAX + 1, true);
    assert_false(follows(&queue));
}

static void test_nothing_that_may_be_late_is_waited_for(void **state) {
    (void)state;
    queue_t queue;
    make(&queue, 1000, false);
    assert_false(follows(&queue));
    make(&queue, 1000, true);
    queue.head.next = NULL;
    assert_false(follows(&queue));
    make(&queue, 1000, true);
    queue.body = (uvhttp__segment_t){.plain = "to be encoded", .size = 13, .fd = -1};
    assert_false(follows(&queue));
}

static void test_a_filter_holds_nothing_back(void **state) {
    (void)state;
    queue_t queue;
    uvhttp__filter_t filter = {0};
    make(&queue, 1000, true);
    queue.stream.filter = &filter;
    assert_false(follows(&queue));
    queue.stream.flags |= UVHTTP__STREAM_PASSES;
    assert_false(follows(&queue));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_file_that_is_memory_is_waited_for),
        cmocka_unit_test(test_nothing_that_may_be_late_is_waited_for),
        cmocka_unit_test(test_a_filter_holds_nothing_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
