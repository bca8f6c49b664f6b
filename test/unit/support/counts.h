/* Owns: counting what happens on one thread and waiting for it on another, under a lock of the caller's. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_COUNTS_H
#define UVHTTP_TEST_UNIT_SUPPORT_COUNTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

void count_add(pthread_mutex_t *lock, pthread_cond_t *changed, uint64_t *count, uint64_t n);
uint64_t count_read(pthread_mutex_t *lock, const uint64_t *count);
/* Whether it has come to n within the time. */
bool count_wait(pthread_mutex_t *lock, pthread_cond_t *changed, const uint64_t *count, uint64_t n, int timeout_ms);

#define WAIT_COUNTED(reached, name, n, count)                                                                          \
    do {                                                                                                               \
        if (!(reached))                                                                                                \
            fail_msg("waited in vain for \"%s\" x %llu, there were %llu", (name), (unsigned long long)(n),             \
                     (unsigned long long)(count));                                                                     \
    } while (0)

#endif
