/* Owns: blocking SIGPIPE in a thread around sendfile(2) and write(2), whose EPIPE is enough. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_SIGPIPE_H
#define UVHTTP_SRC_BASE_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

/* sendfile(2) knows no MSG_NOSIGNAL: a peer that is gone would kill the process. Threads of our own block SIGPIPE as
 * long as the loop runs; in the application's thread it is blocked around the call. One that came of it is taken away
 * again. */
typedef struct uvhttp__pipe_guard {
    sigset_t before;
    bool was_pending;
} uvhttp__pipe_guard_t;

void uvhttp__pipe_block(uvhttp__pipe_guard_t *guard);
void uvhttp__pipe_restore(const uvhttp__pipe_guard_t *guard);

#endif
