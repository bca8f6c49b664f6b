/* Owns: an attempt with each of its allocations failing. */
#include <cmocka.h>

#include "support/failing_allocator.h"

size_t test_allocator_each_failure(void (*attempt)(void *user), void *user) {
    size_t n = 0;
    bool any;
    do {
        size_t before = test_allocator_live();
        test_allocator_fail_at(++n);
        attempt(user);
        any = test_allocator_failed();
        test_allocator_fail_at(0);
        assert_int_equal(test_allocator_live(), before);
    } while (any);
    return n - 1;
}
