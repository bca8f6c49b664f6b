#include "support/counts.h"

#include "support/process.h"

void count_add(pthread_mutex_t *lock, pthread_cond_t *changed, uint64_t *count, uint64_t n) {
    pthread_mutex_lock(lock);
    *count += n;
    pthread_cond_broadcast(changed);
    pthread_mutex_unlock(lock);
}

uint64_t count_read(pthread_mutex_t *lock, const uint64_t *count) {
    pthread_mutex_lock(lock);
    uint64_t n = *count;
    pthread_mutex_unlock(lock);
    return n;
}

bool count_wait(pthread_mutex_t *lock, pthread_cond_t *changed, const uint64_t *count, uint64_t n, int timeout_ms) {
    struct timespec at = deadline_in(timeout_ms);
    int error = 0;
    pthread_mutex_lock(lock);
    while (*count < n && error == 0) error = pthread_cond_timedwait(changed, lock, &at);
    bool reached = *count >= n;
    pthread_mutex_unlock(lock);
    return reached;
}
