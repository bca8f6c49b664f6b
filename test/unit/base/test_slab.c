#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/slab.h"
#include "support/failing_allocator.h"
#include "support/random.h"
#include "support/run.h"

/* Nothing is left. */
static void slab_end(uvhttp__slab_t *slab) {
    uvhttp__slab_deinit(slab);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_objects_are_aligned_and_do_not_overlap(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 16, 17, 48, 320, 1000, 4096};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        enum { COUNT = 3000 };
        static uint8_t *objects[COUNT];
        uvhttp__slab_t slab;
        uvhttp__slab_init(&slab, sizes[s]);
        assert_int_equal(slab.object_size % 16, 0);
        for (int i = 0; i < COUNT; i++) {
            objects[i] = uvhttp__slab_alloc(&slab);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % 16, 0);
            memset(objects[i], i & 0xff, sizes[s]);
        }
        assert_int_equal(uvhttp__slab_in_use(&slab), COUNT);
        assert_true(uvhttp__slab_capacity(&slab) >= COUNT);
        assert_true(uvhttp__slab_capacity(&slab) < COUNT + slab.chunk_objects);
        for (int i = 0; i < COUNT; i++) {
            for (size_t j = 0; j < sizes[s]; j++) assert_int_equal(objects[i][j], i & 0xff);
            uvhttp__slab_free(&slab, objects[i]);
        }
        assert_int_equal(uvhttp__slab_in_use(&slab), 0);
        slab_end(&slab);
    }
}

static void test_last_freed_is_first_used(void **state) {
    (void)state;
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 64);
    void *a = uvhttp__slab_alloc(&slab), *b = uvhttp__slab_alloc(&slab), *c = uvhttp__slab_alloc(&slab);
    uvhttp__slab_free(&slab, a);
    uvhttp__slab_free(&slab, c);
    assert_ptr_equal(uvhttp__slab_alloc(&slab), c);
    assert_ptr_equal(uvhttp__slab_alloc(&slab), a);
    uvhttp__slab_free(&slab, a);
    uvhttp__slab_free(&slab, b);
    uvhttp__slab_free(&slab, c);
    uvhttp__slab_deinit(&slab);
}

static void test_objects_stand_without_overhead(void **state) {
    (void)state;
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 320);
    char *first = uvhttp__slab_alloc(&slab), *second = uvhttp__slab_alloc(&slab);
    assert_ptr_equal(second, first + 320);
    assert_int_equal(slab.chunk_objects, (UVHTTP__SLAB_CHUNK_SIZE - 64) / 320);
    uvhttp__slab_free(&slab, first);
    uvhttp__slab_free(&slab, second);
    uvhttp__slab_deinit(&slab);
}

static void test_memory_returns_after_a_spike(void **state) {
    (void)state;
    enum { COUNT = 10000 };
    static void *objects[COUNT];
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 320);
    void *stays = uvhttp__slab_alloc(&slab);
    for (int i = 0; i < COUNT; i++) objects[i] = uvhttp__slab_alloc(&slab);
    assert_int_equal(test_allocator_live(), slab.chunk_count);
    assert_true(slab.chunk_count > 90);
    for (int i = 0; i < COUNT; i++) uvhttp__slab_free(&slab, objects[i]);
    assert_int_equal(slab.chunk_count, 2); /* the one in use and one spare */
    assert_int_equal(test_allocator_live(), 2);
    assert_int_equal(uvhttp__slab_bytes(&slab), 2 * UVHTTP__SLAB_CHUNK_SIZE);
    uvhttp__slab_free(&slab, stays);
    assert_int_equal(slab.chunk_count, 1);
    /* Going back and forth over the border of a chunk does not go to the allocator each time. */
    size_t count = test_allocator_count();
    for (int round = 0; round < 10; round++) {
        for (unsigned i = 0; i < slab.chunk_objects + 1; i++) objects[i] = uvhttp__slab_alloc(&slab);
        if (round == 0) count = test_allocator_count();
        uvhttp__slab_free(&slab, objects[slab.chunk_objects]);
        objects[slab.chunk_objects] = uvhttp__slab_alloc(&slab);
        for (unsigned i = 1; i < slab.chunk_objects + 1; i++) uvhttp__slab_free(&slab, objects[i]);
        uvhttp__slab_free(&slab, objects[0]);
        if (round == 0) assert_int_equal(slab.chunk_count, 1);
    }
    assert_in_range(test_allocator_count(), count, count + 9); /* the spare is one: the second chunk comes anew */
    slab_end(&slab);
}

static void test_deinit_takes_objects_in_use_along(void **state) {
    (void)state;
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 512);
    for (int i = 0; i < 100; i++) assert_non_null(uvhttp__slab_alloc(&slab));
    uvhttp__slab_deinit(&slab);
    assert_int_equal(uvhttp__slab_in_use(&slab), 0);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_random_use_agrees_with_the_counts(void **state) {
    (void)state;
    enum { COUNT = 2000 };
    static uint64_t *objects[COUNT];
    memset(objects, 0, sizeof objects);
    test_random_t random = {3};
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 400);
    size_t in_use = 0;
    for (int step = 0; step < 200000; step++) {
        uint64_t bound = step / 20000 % 2 ? COUNT : 100; /* grows and shrinks */
        size_t i = test_random_below(&random, COUNT);
        if (objects[i]) {
            assert_int_equal(*objects[i], i);
            uvhttp__slab_free(&slab, objects[i]);
            objects[i] = NULL;
            in_use--;
        } else if (i < bound) {
            objects[i] = uvhttp__slab_alloc(&slab);
            *objects[i] = i;
            in_use++;
        }
        assert_int_equal(uvhttp__slab_in_use(&slab), in_use);
        assert_int_equal(test_allocator_live(), slab.chunk_count);
        assert_true(slab.empty_count <= 1);
        assert_true(uvhttp__slab_capacity(&slab) >= in_use);
    }
    slab_end(&slab);
}

static void fill_three_chunks(void *user) {
    uvhttp__slab_t slab;
    uvhttp__slab_init(&slab, 4096);
    void *objects[20] = {0};
    for (int i = 0; i < 20; i++) objects[i] = uvhttp__slab_alloc(&slab);
    size_t got = 0;
    for (int i = 0; i < 20; i++) got += objects[i] != NULL;
    assert_int_equal(got, uvhttp__slab_in_use(&slab));
    assert_true(got >= 19); /* one failure costs one object */
    for (int i = 0; i < 20; i++)
        if (objects[i]) uvhttp__slab_free(&slab, objects[i]);
    uvhttp__slab_deinit(&slab);
    ++*(int *)user;
}

static void test_out_of_memory_is_null_and_costs_nothing_else(void **state) {
    (void)state;
    int runs = 0;
    assert_int_equal(test_allocator_each_failure(fill_three_chunks, &runs), 3);
    assert_int_equal(runs, 4);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_objects_are_aligned_and_do_not_overlap, test_last_freed_is_first_used,
                     test_objects_stand_without_overhead, test_memory_returns_after_a_spike,
                     test_deinit_takes_objects_in_use_along, test_random_use_agrees_with_the_counts,
                     test_out_of_memory_is_null_and_costs_nothing_else);
}
