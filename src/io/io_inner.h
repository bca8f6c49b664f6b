/* Owns: the libuv loop inside of a loop of our own, for the handles of the application: the engine waits, libuv only
 * when its descriptor is readable or a timer of its is due. May include: nothing of io. */
#ifndef UVHTTP_SRC_IO_IO_INNER_H
#define UVHTTP_SRC_IO_IO_INNER_H

#include <stdbool.h>
#include <uv.h>

typedef struct uvhttp__inner {
    uv_loop_t uv;
    uv_prepare_t anchor; /* keeps uv alive while it is given a turn */
    bool open;
    bool due; /* its uv_backend_fd is readable */
} uvhttp__inner_t;

/* Returns 0, UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO. */
int uvhttp__inner_open(uvhttp__inner_t *inner);
/* Gives it a turn when it has something to do. Returns how long the loop may wait for it: ms, or -1 forever. */
int uvhttp__inner_iteration(uvhttp__inner_t *inner);
/* Does nothing if it is not open. Returns false, and says so in the log, when the application has left handles open. */
bool uvhttp__inner_close(uvhttp__inner_t *inner);

#endif
