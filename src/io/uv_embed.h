/* Owns: what adapts an engine to a libuv loop of the application, of which it is a guest. May include: io. */
#ifndef UVHTTP_SRC_IO_UV_EMBED_H
#define UVHTTP_SRC_IO_UV_EMBED_H

#include <uv.h>

#include "io/engine.h"

struct uvhttp__epoll;
struct uvhttp__uring;

/* A guest's timer for the wheel, on the embedding loop. Deadlines move away with every request: the timer then fires
 * early, once, and is set again. Only a deadline earlier than the current one restarts it immediately. */
void uvhttp__uv_embed_arm_timer(uvhttp__loop_t *loop, uv_timer_t *timer, uv_timer_cb on_timer);

/* The embedding loop calls a guest, and may have called another one before. Precedes whatever may call the owner, while
 * the loop is not being freed. */
static inline void uvhttp__uv_embed_enter(uvhttp__loop_t *loop) {
    loop->entered = true;
    if (loop->on_enter) loop->on_enter(loop, loop->arg);
}
/* What may call the owner is over. */
static inline void uvhttp__uv_embed_leave(uvhttp__loop_t *loop) {
    loop->entered = false;
}

/* --- uv_embed_epoll.c --- */

/* Starts the guest's handles on `embedding`. Returns 0 or a code of uvhttp__fd_watcher_open: then there are
 * none. */
int uvhttp__uv_embed_epoll_start(struct uvhttp__epoll *epoll, uv_loop_t *embedding);
/* Closes the handles, then frees the loop and calls on_freed(arg), unless that is NULL. */
void uvhttp__uv_embed_epoll_free(struct uvhttp__epoll *epoll, void (*on_freed)(void *arg), void *arg);

/* --- uv_embed_uring.c --- */

/* The same. Returns 0, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_UNSUPPORTED or UVHTTP_E_IO: then there may be some handles. */
int uvhttp__uv_embed_uring_start(struct uvhttp__uring *uring, uv_loop_t *embedding);
void uvhttp__uv_embed_uring_free(struct uvhttp__uring *uring, void (*on_freed)(void *arg), void *arg);
/* Any thread. */
void uvhttp__uv_embed_uring_wake(struct uvhttp__uring *uring);

#endif
