/* Owns: tests of the allocator with a hook, and of the hook that the other tests use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "aligned.h"
#include "base/alloc.h"
#include "support/failing_allocator.h"
#include "support/run.h"

static void test_all_memory_goes_through_the_hook(void **state) {
    (void)state;
    size_t count = test_allocator_count(), live = test_allocator_live();
    void *a = uvhttp__malloc(10), *b = uvhttp__calloc(3, 7);
    assert_int_equal(test_allocator_live_bytes(), 31);
    a = uvhttp__realloc(a, 100);
    assert_int_equal(test_allocator_count(), count + 3);
    assert_int_equal(test_allocator_live(), live + 2);
    assert_int_equal(test_allocator_live_bytes(), 121);
    uvhttp__free(a);
    uvhttp__free(b);
    uvhttp__free(NULL);
    assert_int_equal(test_allocator_live(), live);
    assert_string_equal(uvhttp__allocator_name(), "application");
}

static void test_hook_may_be_set_only_once(void **state) {
    (void)state;
    const uvhttp_allocator_t hook = {(void *(*)(size_t, void *))1, (void *(*)(size_t, size_t, void *))1,
                                     (void *(*)(void *, size_t, void *))1, (void (*)(void *, void *))1, NULL};
    assert_int_equal(uvhttp_set_allocator(&hook), UVHTTP_E_STATE);
    uvhttp__free(uvhttp__malloc(1)); /* still the first */
}

static void test_aligned_blocks_are_made_from_plain_ones(void **state) {
    (void)state;
    size_t live = test_allocator_live();
    assert_aligned_below(100000);
    assert_int_equal(test_allocator_live(), live);
}

static void test_failures_come_where_they_were_asked_for(void **state) {
    (void)state;
    test_allocator_fail_at(2);
    void *first = uvhttp__malloc(1);
    assert_non_null(first);
    assert_false(test_allocator_failed());
    assert_null(uvhttp__realloc(first, 2));
    assert_true(test_allocator_failed());
    void *third = uvhttp__calloc(1, 1);
    assert_non_null(third);
    test_allocator_fail_from(1);
    assert_null(uvhttp__alloc_aligned(64, 64));
    assert_null(uvhttp__malloc(1));
    test_allocator_fail_at(0);
    uvhttp__free(first);
    uvhttp__free(third);
    assert_int_equal(test_allocator_live(), 0);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_all_memory_goes_through_the_hook, test_hook_may_be_set_only_once,
                     test_aligned_blocks_are_made_from_plain_ones, test_failures_come_where_they_were_asked_for);
}
