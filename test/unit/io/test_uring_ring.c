/* Rings of io_uring: one thread's ring takes the place of another's in memory, which under ThreadSanitizer must not
 * look like a race. */
#include "support/io_server.h"

#if UVHTTP_WITH_URING
#include "io/io_uring.h"

static atomic_int iteration; /* relaxed: it orders the threads in time, and tells a sanitizer nothing */

static void use_a_ring(int mine) {
    static uvhttp__uring_t rings[2];
    while (atomic_load_explicit(&iteration, memory_order_relaxed) != mine) sched_yield();
    if (uvhttp__uring_open(&rings[mine % 2], 0) == 0) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&rings[mine % 2].ring);
        io_uring_prep_nop(sqe);
        uvhttp__uring_ring_close(&rings[mine % 2].ring);
    }
    atomic_store_explicit(&iteration, mine + 1, memory_order_relaxed);
}

static void *use_even_rings(void *arg) {
    (void)arg;
    for (int i = 0; i < 20; i += 2) use_a_ring(i);
    return NULL;
}

static void test_a_ring_takes_the_memory_of_another_threads(void **state) {
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_even_rings, NULL), 0);
    for (int i = 1; i < 20; i += 2) use_a_ring(i);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&iteration), 20);
}
#endif

int main(void) {
#if UVHTTP_WITH_URING
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_ring_takes_the_memory_of_another_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 0;
#endif
}
