/* Owns: threads of the library's own. May include: base. */
#include "base/thread.h"

#include <signal.h>

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
