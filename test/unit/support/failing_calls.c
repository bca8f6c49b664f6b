#include "support/failing_calls.h"

#include <stdatomic.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/process.h"

#define ATTEMPTS_MAX 400 /* of a call with an error: more would be a loop without end */

static atomic_int failing = -1, failing_error;
static atomic_size_t seen, fail_first, fail_last;
static atomic_bool failed;
static void (*_Atomic before_failure)(void);

static void fail_between(int call, int error, size_t first, size_t last) {
    atomic_store(&failing, -1);
    atomic_store(&before_failure, NULL);
    atomic_store(&seen, 0);
    atomic_store(&failed, false);
    atomic_store(&fail_first, first);
    atomic_store(&fail_last, last);
    atomic_store(&failing_error, error);
    if (first > 0) atomic_store(&failing, call);
}

void test_call_fail_at(int call, int error, size_t n) {
    fail_between(call, error, n, n);
}

void test_call_fail_always(int call, int error) {
    fail_between(call, error, 1, SIZE_MAX);
}

void test_call_fail_behind(int call, int error, void (*wait)(void)) {
    fail_between(call, 0, 0, 0);
    atomic_store(&before_failure, wait);
    atomic_store(&fail_first, 1);
    atomic_store(&fail_last, 1);
    atomic_store(&failing_error, error);
    atomic_store(&failing, call);
}

bool test_call_failed(void) {
    return atomic_load(&failed);
}

/* Of the wrappers. */
int fail_next(int call) {
    if (one_thread_is_client || atomic_load(&failing) != call) return 0;
    size_t number = atomic_fetch_add(&seen, 1) + 1;
    if (number < atomic_load(&fail_first) || number > atomic_load(&fail_last)) return 0;
    void (*wait)(void) = atomic_load(&before_failure);
    int error = atomic_load(&failing_error);
    if (wait) wait(); /* and it may let a later call fail */
    atomic_store(&failed, true);
    return error;
}

long fail_clock_offset(void) {
    return 0;
}

static size_t each_of(int call, int error, void (*attempt)(void *user), void *user) {
    for (size_t n = 1; n <= ATTEMPTS_MAX; n++) {
        size_t live = test_allocator_live();
        int fds = count_fds();
        test_call_fail_at(call, error, n);
        attempt(user);
        bool any = test_call_failed();
        test_call_fail_at(call, 0, 0);
        if (test_allocator_live() != live) fail_msg("call %d, error %d, number %zu: memory is out", call, error, n);
        if (count_fds() != fds) fail_msg("call %d, error %d, number %zu: a descriptor is out", call, error, n);
        if (!any) return n - 1;
    }
    fail_msg("call %d, error %d: no end", call, error);
    return 0;
}

size_t test_calls_each_failure(const failing_call_t *calls, size_t count, void (*attempt)(void *user), void *user) {
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < 4 && calls[i].errors[j] != 0; j++)
            sum += each_of(calls[i].call, calls[i].errors[j], attempt, user);
    return sum;
}

static one_thread_t live_once(const failing_life_t *life, void **state, bool (*may_fail)(void)) {
    one_thread_t it;
    one_thread_init(&it, *(uvhttp_engine_t *)*state);
    if (life->configure) life->configure(&it.config);
    it.set_up = life->set_up;
    it.speak = life->speak;
    it.tls = life->tls;
    one_thread_serve(&it); /* what is made once and stays */
    assert_int_equal(it.complete, life->complete);
    it.may_fail = may_fail;
    return it;
}

void fail_each_call_of(const failing_life_t *life, void **state, size_t least) {
    one_thread_t it = live_once(life, state, test_call_failed);
    size_t count = test_calls_each_failure(life->calls, life->call_count, one_thread_serve, &it);
    print_message("%zu calls failed\n", count);
    assert_true(count >= least);
}

void fail_each_allocation_of(const failing_life_t *life, void **state, size_t least) {
    one_thread_t it = live_once(life, state, test_allocator_failed);
    size_t count = test_allocator_each_failure(one_thread_serve, &it);
    print_message("%zu allocations failed\n", count);
    assert_true(count >= least);
}
