/* Owns: threads of the library's own. May include: base. */
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>

bool uvhttp__thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg) {
    static const int wanted[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS, SIGPROF};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) sigdelset(&blocked, wanted[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    bool started = pthread_create(thread, NULL, main, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

uint64_t uvhttp__thread_number(void) {
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number; /* 0: it has none yet */
    if (number == 0) number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return number;
}
