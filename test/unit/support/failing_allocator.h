/* Owns: an allocator that counts what is out and fails on demand, behind uvhttp_set_allocator. */
#ifndef UVHTTP_TEST_SUPPORT_FAILING_ALLOCATOR_H
#define UVHTTP_TEST_SUPPORT_FAILING_ALLOCATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* What it knows, for programs that share it with another process. */
typedef struct test_allocator {
    atomic_size_t count, live, live_bytes;
    atomic_size_t fail_first, fail_last; /* of `count`, both included; 0: never */
    atomic_size_t failed;                /* since it was asked to fail: 0 or 1 */
} test_allocator_t;

/* Call it first in main: the hook can be set only once, before anything else. Any thread may allocate then. */
void test_allocator_install(void);
/* The same with its state at `where`, which is zero; on_failure (may be NULL) is called before an allocation fails. */
void test_allocator_install_at(test_allocator_t *where, void (*on_failure)(void));

/* The n-th allocation from now on fails (1: the next), and only that one; 0: none. */
void test_allocator_fail_at(size_t n);

/* Every allocation from the n-th on fails, until fail_at or fail_from is called again. */
void test_allocator_fail_from(size_t n);

/* The n-th allocation from now on calls `call` first, which allocates nothing: what another thread may do there. It
 * succeeds. One thread. */
void test_allocator_call_at(size_t n, void (*call)(void));

/* Whether an allocation has failed since the last fail_at or fail_from. */
bool test_allocator_failed(void);

/* Allocations since install (malloc, calloc and realloc alike), blocks that are out, and their bytes. */
size_t test_allocator_count(void);
size_t test_allocator_live(void);
size_t test_allocator_live_bytes(void);

/* Runs attempt(user) again and again, failing the first allocation, then the second, and so on until none failed, and
 * asserts each time that everything allocated was given back. `attempt` checks its own outcome: it must bear a failure
 * at any place. Returns how many allocations a whole attempt makes. */
size_t test_allocator_each_failure(void (*attempt)(void *user), void *user);

#endif
