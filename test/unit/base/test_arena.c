#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "support/failing_allocator.h"
#include "support/random.h"
#include "support/run.h"

static void test_memory_is_aligned_and_does_not_overlap(void **state) {
    (void)state;
    test_random_t random = {2};
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    enum { COUNT = 2000 };
    static struct {
        uint8_t *memory;
        size_t size;
    } blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size_t size = test_random_below(&random, i % 50 ? 100 : 9000);
        bool bytes = test_random_below(&random, 2);
        blocks[i].size = size;
        blocks[i].memory = bytes ? (void *)uvhttp__arena_alloc_bytes(&arena, size) : uvhttp__arena_alloc(&arena, size);
        assert_non_null(blocks[i].memory);
        if (!bytes) assert_int_equal((uintptr_t)blocks[i].memory % 16, 0);
        memset(blocks[i].memory, i & 0xff, size);
    }
    for (int i = 0; i < COUNT; i++)
        for (size_t j = 0; j < blocks[i].size; j++) assert_int_equal(blocks[i].memory[j], i & 0xff);
    uvhttp__arena_deinit(&arena);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_first_block_of_the_caller_is_used_before_the_heap(void **state) {
    (void)state;
    _Alignas(16) char first[256];
    size_t count = test_allocator_count();
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, first, sizeof first, SIZE_MAX);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 16; i++) assert_ptr_equal(uvhttp__arena_alloc(&arena, 16), first + 16 * i);
        assert_int_equal(arena.used, 256);
        uvhttp__arena_reset(&arena);
        assert_int_equal(arena.used, 0);
    }
    assert_int_equal(test_allocator_count(), count);
    assert_non_null(uvhttp__arena_alloc(&arena, 257));
    assert_int_equal(test_allocator_count(), count + 1);
    uvhttp__arena_deinit(&arena);
    memset(first, 0, sizeof first); /* not poisoned any more */
    assert_int_equal(test_allocator_live(), 0);
}

static void test_first_block_may_be_unaligned(void **state) {
    (void)state;
    _Alignas(16) char first[64];
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, first + 8, 40, SIZE_MAX);
    assert_ptr_equal(uvhttp__arena_alloc(&arena, 16), first + 16);
    assert_int_equal(arena.used, 24);
    uvhttp__arena_deinit(&arena);
}

static void test_reset_keeps_one_ordinary_block(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    for (int i = 0; i < 100; i++) assert_non_null(uvhttp__arena_alloc(&arena, 1000));
    assert_non_null(uvhttp__arena_alloc(&arena, 100000));
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live(), 1);
    assert_int_equal(test_allocator_live_bytes(), UVHTTP__ARENA_BLOCK_SIZE);
    size_t count = test_allocator_count();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 100; i++) assert_non_null(uvhttp__arena_alloc(&arena, 32));
        uvhttp__arena_reset(&arena);
    }
    assert_int_equal(test_allocator_count(), count);
    /* A big block alone is not worth keeping. */
    uvhttp__arena_deinit(&arena);
    assert_non_null(uvhttp__arena_alloc(&arena, 100000));
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live(), 0);
    uvhttp__arena_deinit(&arena);
}

/* Found by the simulation: an allocation of exactly an ordinary block's size took the kept block as it was, which
 * was poisoned for AddressSanitizer. */
static void test_a_request_of_a_whole_block_may_use_the_kept_one(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    assert_non_null(uvhttp__arena_alloc(&arena, 1000));
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live_bytes(), UVHTTP__ARENA_BLOCK_SIZE);
    char *memory = uvhttp__arena_alloc(&arena, UVHTTP__ARENA_BLOCK_SIZE - 2 * sizeof(void *));
    assert_non_null(memory);
    memset(memory, 1, UVHTTP__ARENA_BLOCK_SIZE - 2 * sizeof(void *));
    uvhttp__arena_deinit(&arena);
}

static void test_big_request_leaves_the_block_in_use(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    char *before = uvhttp__arena_alloc(&arena, 16);
    assert_non_null(uvhttp__arena_alloc(&arena, 50000));
    char *after = uvhttp__arena_alloc(&arena, 16);
    assert_ptr_equal(after, before + 16);
    uvhttp__arena_deinit(&arena);
}

static void test_limit_is_exact_and_holds_in_the_fast_path(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, 100);
    assert_non_null(uvhttp__arena_alloc_bytes(&arena, 60));
    assert_null(uvhttp__arena_alloc_bytes(&arena, 41));
    assert_int_equal(arena.used, 60);
    assert_non_null(uvhttp__arena_alloc_bytes(&arena, 40));
    assert_int_equal(arena.used, 100);
    assert_null(uvhttp__arena_alloc_bytes(&arena, 1));
    assert_null(uvhttp__arena_alloc(&arena, SIZE_MAX));
    assert_null(uvhttp__arena_alloc(&arena, SIZE_MAX - 8));
    uvhttp__arena_reset(&arena);
    assert_null(uvhttp__arena_alloc(&arena, 101));
    assert_non_null(uvhttp__arena_alloc(&arena, 100));
    uvhttp__arena_deinit(&arena);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_absurd_size_without_limit_is_out_of_memory(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    assert_null(uvhttp__arena_alloc(&arena, SIZE_MAX));
    assert_null(uvhttp__arena_alloc(&arena, SIZE_MAX / 2));
    assert_null(uvhttp__arena_copy(&arena, (uvhttp_str_t){"", SIZE_MAX}).data);
    uvhttp__arena_deinit(&arena);
}

static void test_copy_is_terminated(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, 8);
    uvhttp_str_t copy = uvhttp__arena_copy(&arena, (uvhttp_str_t){"abcdef", 3});
    assert_int_equal(copy.size, 3);
    assert_string_equal(copy.data, "abc");
    copy = uvhttp__arena_copy(&arena, (uvhttp_str_t){NULL, 0});
    assert_string_equal(copy.data, "");
    assert_null(uvhttp__arena_copy(&arena, (uvhttp_str_t){"abcdef", 6}).data);
    uvhttp__arena_deinit(&arena);
}

static void test_uncounted_memory_has_no_limit_and_takes_no_more_than_it_needs(void **state) {
    (void)state;
    _Alignas(16) char first[512];
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, first, sizeof first, 64);
    assert_ptr_equal(uvhttp__arena_alloc_uncounted(&arena, 1, 1), first);
    assert_ptr_equal(uvhttp__arena_alloc_uncounted(&arena, 8, 8), first + 8);
    size_t bytes = test_allocator_live_bytes();
    char *large = uvhttp__arena_alloc_uncounted(&arena, 800, 8);
    assert_non_null(large);
    memset(large, 1, 800);
    assert_in_range(test_allocator_live_bytes() - bytes, 800, 832);
    assert_int_equal(arena.used, 0);
    assert_ptr_equal(uvhttp__arena_alloc_bytes(&arena, 64), first + 16); /* the limit, in the block that was in use */
    assert_null(uvhttp__arena_alloc_bytes(&arena, 1));
    assert_non_null(uvhttp__arena_alloc_uncounted(&arena, 300, 1));
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live_bytes(), bytes);
    uvhttp__arena_deinit(&arena);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_an_arena_without_memory_of_its_owner_begins_small(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 15; i++) assert_non_null(uvhttp__arena_alloc(&arena, 16));
        assert_int_equal(test_allocator_live_bytes(), 256);
        uvhttp__arena_reset(&arena);
        assert_int_equal(test_allocator_live_bytes(), 256);
    }
    /* Of what a request has used, the next one finds the largest that is small, or the one of the default size. */
    assert_non_null(uvhttp__arena_alloc(&arena, 400));
    assert_int_equal(test_allocator_live_bytes(), 256 + 512);
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live_bytes(), 512);
    size_t count = test_allocator_count();
    assert_non_null(uvhttp__arena_alloc(&arena, 400));
    assert_int_equal(test_allocator_count(), count);
    assert_non_null(uvhttp__arena_alloc(&arena, 400));
    uvhttp__arena_reset(&arena);
    assert_int_equal(test_allocator_live_bytes(), UVHTTP__ARENA_BLOCK_SIZE);
    uvhttp__arena_deinit(&arena);
    assert_int_equal(test_allocator_live(), 0);
}

static void test_what_is_reserved_stands_in_one_block_of_that_size(void **state) {
    (void)state;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, 0);
    uvhttp__arena_reserve(&arena, 100);
    assert_in_range(test_allocator_live_bytes(), 100, 128);
    size_t count = test_allocator_count();
    char *first = uvhttp__arena_alloc_uncounted(&arena, 61, 1);
    char *second = uvhttp__arena_alloc_uncounted(&arena, 32, 8);
    assert_non_null(first);
    assert_ptr_equal(second, first + 64);
    assert_int_equal(test_allocator_count(), count);
    uvhttp__arena_reserve(&arena, 8);
    assert_int_equal(test_allocator_count(), count); /* there is space */
    test_allocator_fail_at(1);
    uvhttp__arena_reserve(&arena, 1000);
    test_allocator_fail_at(0);
    assert_ptr_equal(uvhttp__arena_alloc_uncounted(&arena, 8, 8), second + 32);
    uvhttp__arena_deinit(&arena);
    assert_int_equal(test_allocator_live(), 0);
}

static void some_requests(void *user) {
    (void)user;
    uvhttp__arena_t arena;
    uvhttp__arena_init(&arena, NULL, 0, SIZE_MAX);
    for (int request = 0; request < 3; request++) {
        for (size_t size = 1; size < 20000; size = size * 2 + 1) {
            size_t used = arena.used;
            char *memory = uvhttp__arena_alloc(&arena, size);
            if (memory)
                memset(memory, 1, size);
            else
                assert_int_equal(arena.used, used);
        }
        uvhttp__arena_reset(&arena);
    }
    uvhttp__arena_deinit(&arena);
}

static void test_out_of_memory_at_any_place_is_borne(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(some_requests, NULL) > 10);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(
        test_memory_is_aligned_and_does_not_overlap, test_first_block_of_the_caller_is_used_before_the_heap,
        test_first_block_may_be_unaligned, test_reset_keeps_one_ordinary_block,
        test_a_request_of_a_whole_block_may_use_the_kept_one, test_big_request_leaves_the_block_in_use,
        test_limit_is_exact_and_holds_in_the_fast_path, test_absurd_size_without_limit_is_out_of_memory,
        test_copy_is_terminated, test_an_arena_without_memory_of_its_owner_begins_small,
        test_what_is_reserved_stands_in_one_block_of_that_size,
        test_uncounted_memory_has_no_limit_and_takes_no_more_than_it_needs, test_out_of_memory_at_any_place_is_borne);
}
