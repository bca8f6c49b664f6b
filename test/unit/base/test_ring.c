/* Owns: tests of the ring of records; two threads share one in test/unit/middleware/test_access_log.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/ring.h"
#include "support/run.h"

typedef struct numbered {
    uvhttp__ring_record_t record;
    uint32_t number;
    char rest[];
} numbered_t;

static bool put(uvhttp__ring_t *ring, uint32_t number, size_t size) {
    numbered_t *record = uvhttp__ring_reserve(ring, size);
    if (!record) return false;
    record->number = number;
    memset(record->rest, 'x', size - sizeof *record);
    return uvhttp__ring_commit(ring) >= size;
}

static void take(uvhttp__ring_t *ring, uint32_t number) {
    const numbered_t *record = uvhttp__ring_peek(ring);
    assert_non_null(record);
    assert_int_equal(record->number, number);
    uvhttp__ring_release(ring, record);
}

static void test_what_is_reserved_is_seen_when_it_is_committed(void **state) {
    (void)state;
    uvhttp__ring_t *ring = uvhttp__ring_new(256);
    numbered_t *record = uvhttp__ring_reserve(ring, 13);
    assert_int_equal(record->record.size, 16);
    record->number = 7;
    assert_null(uvhttp__ring_peek(ring));
    assert_int_equal(uvhttp__ring_commit(ring), 16);
    take(ring, 7);
    assert_null(uvhttp__ring_peek(ring));
    uvhttp__ring_free(ring);
}

static void test_records_of_all_sizes_keep_their_order(void **state) {
    (void)state;
    uvhttp__ring_t *ring = uvhttp__ring_new(256);
    uint32_t put_number = 0, released = 0;
    for (unsigned round = 0; round < 1000; round++) {
        while (put(ring, put_number, sizeof(numbered_t) + (7 * put_number) % 100)) put_number++;
        assert_true(put_number > released);
        for (unsigned i = 0; i <= round % 3 && released < put_number; i++) take(ring, released++);
    }
    while (released < put_number) take(ring, released++);
    assert_null(uvhttp__ring_peek(ring));
    assert_true(atomic_load(&ring->dropped) >= 1000);
    uvhttp__ring_free(ring);
}

static void test_a_record_may_fill_the_ring_and_none_is_larger(void **state) {
    (void)state;
    uvhttp__ring_t *ring = uvhttp__ring_new(256);
    assert_false(put(ring, 0, 257));
    assert_true(put(ring, 1, 256));
    assert_false(put(ring, 2, 8));
    take(ring, 1);
    assert_true(put(ring, 3, 8));
    uvhttp__ring_free(ring);
}

int main(void) {
    return RUN_TESTS(test_what_is_reserved_is_seen_when_it_is_committed, test_records_of_all_sizes_keep_their_order,
                     test_a_record_may_fill_the_ring_and_none_is_larger);
}
