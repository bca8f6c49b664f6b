/* Owns: tests of which output is held back for the file behind it: only what sendfile(2) follows without a wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "io/engine.h"
#include "support/run.h"

typedef struct queue {
    uvhttp__stream_t stream;
    uvhttp__segment_t head, body;
} queue_t;

static void make(queue_t *queue, uint64_t size) {
    *queue = (queue_t){.body = {.kind = UVHTTP__SEGMENT_FILE, .size = size}};
    queue->head = (uvhttp__segment_t){.data = "head", .size = 4, .fd = -1, .next = &queue->body};
}

static bool follows(const queue_t *queue) {
    return uvhttp__file_follows(&queue->stream, queue->head.next);
}

static void test_a_small_file_is_waited_for(void **state) {
    (void)state;
    queue_t queue;
    make(&queue, 1);
    assert_true(follows(&queue));
    make(&queue, UVHTTP__FILE_FOLLOWS_MAX);
    assert_true(follows(&queue));
    make(&queue, UVHTTP__FILE_FOLLOWS_MAX + 1);
    assert_false(follows(&queue));
}

static void test_nothing_else_is_waited_for(void **state) {
    (void)state;
    queue_t queue;
    make(&queue, 1000);
    queue.head.next = NULL;
    assert_false(follows(&queue));
    make(&queue, 1000);
    queue.body = (uvhttp__segment_t){.kind = UVHTTP__SEGMENT_REFERENCE, .plain = "to be encoded", .size = 13, .fd = -1};
    assert_false(follows(&queue));
    queue.body = (uvhttp__segment_t){.kind = UVHTTP__SEGMENT_CONTROL, .fd = -1};
    assert_false(follows(&queue));
}

static void test_a_filter_holds_nothing_back(void **state) {
    (void)state;
    queue_t queue;
    uvhttp__filter_t filter = {0};
    make(&queue, 1000);
    queue.stream.filter = &filter;
    assert_false(follows(&queue));
    queue.stream.flags |= UVHTTP__STREAM_PASSES;
    assert_false(follows(&queue));
}

int main(void) {
    return RUN_TESTS(test_a_small_file_is_waited_for, test_nothing_else_is_waited_for,
                     test_a_filter_holds_nothing_back);
}
