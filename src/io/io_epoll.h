/* Owns: what the files of the epoll engine share. May include: io. */
#ifndef UVHTTP_SRC_IO_IO_EPOLL_H
#define UVHTTP_SRC_IO_IO_EPOLL_H

#include <uv.h>

#include "io/engine.h"
#include "io/io_inner.h"

typedef struct uvhttp__epoll {
    uvhttp__loop_t loop; /* first: the loop is found by it */
    char *receive_buffer;
    size_t receive_size;         /* bytes */
    uvhttp__refusals_t refusals; /* of epoll_wait */
    int wake_fd;                 /* edge-triggered: each write is an event, and nobody has to read */

    /* Loop of our own: */
    uvhttp__inner_t inner;
    int timer_fd; /* for a deadline between two ms; -1 before the first */

    /* Guest of the application's loop: */
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active while the embedding loop must not wait */
    uv_timer_t timer;
    int handles_open;
    bool in_iteration;
    bool freeing;
    void (*on_freed)(void *arg);
    void *freed_arg;
} uvhttp__epoll_t;

static inline uvhttp__epoll_t *uvhttp__epoll_of(uvhttp__loop_t *loop) {
    return UVHTTP__CONTAINER_OF(loop, uvhttp__epoll_t, loop);
}

/* --- io_epoll.c: streams and listeners --- */

/* As the functions of uvhttp__engine_t. */
int uvhttp__epoll_read_start(uvhttp__stream_t *stream);
void uvhttp__epoll_flush(uvhttp__stream_t *stream);
void uvhttp__epoll_close(uvhttp__stream_t *stream);
int uvhttp__epoll_connect(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint);
void uvhttp__epoll_listener_update(uvhttp__listener_t *listener);

/* Handles the events of the loop's set. In an iteration. */
void uvhttp__epoll_drain(uvhttp__epoll_t *epoll);
/* The wait was refused, or refusals have ended: the loop fails if epoll_wait(2) continues to refuse. */
void uvhttp__epoll_look_at_refusal(uvhttp__epoll_t *epoll);
/* Frees a loop without handles of its own in the application's loop; also one that was made in part. */
void uvhttp__epoll_free(uvhttp__epoll_t *epoll);

#endif
