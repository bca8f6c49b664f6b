/* Owns: tests of the allocator without a hook. With one: test_alloc_hook.c, for a process decides once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aligned.h"
#include "base/alloc.h"
#include "support/run.h"

static void *never_malloc(size_t size, void *user) {
    (void)size, (void)user;
    fail();
    return NULL;
}

static void *never_calloc(size_t count, size_t size, void *user) {
    (void)count, (void)size, (void)user;
    fail();
    return NULL;
}

static void *never_realloc(void *memory, size_t size, void *user) {
    (void)memory, (void)size, (void)user;
    fail();
    return NULL;
}

static void never_free(void *memory, void *user) {
    (void)memory, (void)user;
    fail();
}

static void test_incomplete_hook_is_invalid(void **state) {
    (void)state;
    assert_int_equal(uvhttp_set_allocator(NULL), UVHTTP_E_INVALID);
    const uvhttp_allocator_t whole = {never_malloc, never_calloc, never_realloc, never_free, NULL};
    uvhttp_allocator_t part = whole;
    part.malloc = NULL;
    assert_int_equal(uvhttp_set_allocator(&part), UVHTTP_E_INVALID);
    part = whole, part.calloc = NULL;
    assert_int_equal(uvhttp_set_allocator(&part), UVHTTP_E_INVALID);
    part = whole, part.realloc = NULL;
    assert_int_equal(uvhttp_set_allocator(&part), UVHTTP_E_INVALID);
    part = whole, part.free = NULL;
    assert_int_equal(uvhttp_set_allocator(&part), UVHTTP_E_INVALID);
}

static void test_hook_is_refused_after_the_first_allocation(void **state) {
    (void)state;
    void *memory = uvhttp__malloc(1);
    assert_non_null(memory);
    const uvhttp_allocator_t hook = {never_malloc, never_calloc, never_realloc, never_free, NULL};
    assert_int_equal(uvhttp_set_allocator(&hook), UVHTTP_E_STATE);
    uvhttp__free(memory);
    assert_string_not_equal(uvhttp__allocator_name(), "application");
}

static void test_blocks_are_aligned_writable_and_keep_content(void **state) {
    (void)state;
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        char *memory = uvhttp__malloc(size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16 * (size >= 16), 0);
        memset(memory, 'x', size);
        memory = uvhttp__realloc(memory, size * 2);
        assert_non_null(memory);
        for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], 'x');
        uvhttp__free(memory);
        char *zeros = uvhttp__calloc(size, 2);
        assert_non_null(zeros);
        for (size_t i = 0; i < size * 2; i++) assert_int_equal(zeros[i], 0);
        uvhttp__free(zeros);
    }
    uvhttp__free(NULL);
}

static void test_aligned_blocks_are_aligned(void **state) {
    (void)state;
    assert_aligned_below(200000);
}

static void test_absurd_sizes_are_out_of_memory(void **state) {
    (void)state;
    volatile size_t huge = SIZE_MAX - 64;
    assert_null(uvhttp__alloc_aligned(4096, huge));
    assert_null(uvhttp__alloc_aligned(16, SIZE_MAX));
}

int main(void) {
    return RUN_TESTS(test_incomplete_hook_is_invalid, test_hook_is_refused_after_the_first_allocation,
                     test_blocks_are_aligned_writable_and_keep_content, test_aligned_blocks_are_aligned,
                     test_absurd_sizes_are_out_of_memory);
}
