/* Owns: the end of a loop on io_uring, and of a ring that failed while its loop runs. May include: base, obs, io. */
#include <unistd.h>

#include "base/alloc.h"
#include "io/io_uring.h"

/* --- the end of a loop --- */

void uvhttp__uring_free(uvhttp__uring_t *uring) {
    bool unused = uvhttp__inner_close(&uring->inner);
    if (uring->ring.ring_fd >= 0) {
        if (!uring->failed) uvhttp__uring_abandon(uring);
        uvhttp__uring_ring_close(&uring->ring);
    }
    if (uring->wake_fd >= 0) close(uring->wake_fd);
    if (uring->event_fd >= 0) close(uring->event_fd);
    uvhttp__uring_buffers_free(uring);
    uvhttp__free(uring->starved);
    uvhttp__loop_deinit(&uring->loop);
    if (unused) uvhttp__free(uring); /* else the application's handles point at it */
}

/* --- the end of a ring that failed --- */

static void drop_flush(uvhttp__loop_t *loop) {
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->settling));) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        stream->flags &= ~(uint32_t)UVHTTP__STREAM_FLUSHED;
        stream->out_flying = 0;
        if (uvhttp__stream_is_closing(stream))
            uvhttp__uring_close_directly(stream);
        else
            uvhttp__stream_ended(stream, UVHTTP_E_ABORTED);
    }
    loop->flown_size = 0;
    loop->settle_due = false;
}

static void disarm_listeners(uvhttp__loop_t *loop) {
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &loop->listeners) {
        uvhttp__listener_t *listener = UVHTTP__CONTAINER_OF(node, uvhttp__listener_t, link);
        listener->flags &= ~(uint32_t)(UVHTTP__LISTENER_ARMED | UVHTTP__LISTENER_CANCELLING);
        if (listener->flags & UVHTTP__LISTENER_CLOSING) uvhttp__listener_closed_due(listener);
    }
}

/* The use of the ring ends: nothing is submitted and no completion is looked at any more. */
void uvhttp__uring_fail(uvhttp__uring_t *uring) {
    uvhttp__loop_t *loop = &uring->loop;
    uring->failed = loop->held = true;
    uvhttp__uring_abandon(uring);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&uring->closing));)
        uvhttp__uring_close_directly(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty));
    drop_flush(loop);
    disarm_listeners(loop);
    uvhttp__loop_fail(loop, "io_uring_enter", uring->fatal);
}
