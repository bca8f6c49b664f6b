/* Owns: see sigpipe.h. */
#include "base/sigpipe.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void uvhttp__pipe_block(uvhttp__pipe_guard_t *guard) {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

void uvhttp__pipe_restore(const uvhttp__pipe_guard_t *guard) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!guard->was_pending) {
        while (sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}
