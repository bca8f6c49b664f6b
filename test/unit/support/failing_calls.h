/* Owns: system calls of the library that fail on demand, in programs named test_failing_*.c, whose calls the linker
 * replaces (test/integration/faults/fail_wrap.c). Those of the client of one_thread.h never fail. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_FAILING_CALLS_H
#define UVHTTP_TEST_UNIT_SUPPORT_FAILING_CALLS_H

#include "fail_calls.h"
#include "support/one_thread.h"

/* The n-th call from now on (1: the next) fails with `error`, and only that one; 0: none. */
void test_call_fail_at(int call, int error, size_t n);
/* Each call from now on fails, until fail_at is called again. */
void test_call_fail_always(int call, int error);
/* The next call fails when the caller's `wait` has returned, on its thread. */
void test_call_fail_behind(int call, int error, void (*wait)(void));
/* Whether a call has failed since then. */
bool test_call_failed(void);

typedef struct failing_call {
    int call, errors[4]; /* up to the first 0 */
} failing_call_t;

/* Runs attempt(user) again and again, with the first, second, third ... of each of these calls failing, until none
 * failed, with each of its errors. Asserts each time that no descriptor, and no memory of ours is out. Returns how many
 * calls failed. */
size_t test_calls_each_failure(const failing_call_t *calls, size_t count, void (*attempt)(void *user), void *user);

/* --- lives of a server (one_thread.h) --- */

typedef struct failing_life {
    void (*configure)(uvhttp_server_config_t *config); /* NULL: as one_thread_init */
    void (*set_up)(uvhttp_server_t *server);
    void (*speak)(one_thread_t *it);
    size_t complete; /* responses of a life in which nothing fails */
    const failing_call_t *calls;
    size_t call_count;
    uvhttp_tls_t *tls;
} failing_life_t;

/* For tests of RUN_IN_ONE_THREAD: one life as it should be, then one for each call, or for each allocation, that fails.
 * Asserts that at least so many of them failed. */
void fail_each_call_of(const failing_life_t *life, void **state, size_t least);
void fail_each_allocation_of(const failing_life_t *life, void **state, size_t least);

#endif
