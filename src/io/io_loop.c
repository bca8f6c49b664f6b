/* Owns: what every engine has in common: delivery of received and kept bytes, the end of output, the order of an
 * iteration. May include: base, obs. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/engine.h"
#include "obs/log.h"

/* An idle connection keeps one. The states stand where padding would be. */
static_assert(sizeof(uvhttp__stream_t) <= 112, "a stream is no larger than it has to be");

/* --- the end of output --- */

static void shut_now(uvhttp__stream_t *stream) {
    assert(!stream->out_first);
    uvhttp__write_to(stream, UVHTTP__WRITE_SHUT);
    shutdown(stream->fd, SHUT_WR);
}

void uvhttp__out_progress(uvhttp__stream_t *stream) {
    uvhttp__list_remove(&stream->dirty);
    uvhttp__list_push_back(&stream->loop->settling, &stream->dirty);
    stream->loop->settle_due = true;
}

static void settle(uvhttp__stream_t *stream) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_FLUSHED;
    uvhttp__out_drop_flown(stream);
    if (uvhttp__stream_is_over(stream)) {
        uvhttp__out_drop_unread(stream);
        if (uvhttp__stream_is_closing(stream)) stream->loop->engine->close(stream);
    } else if (stream->out_first) {
        /* Output that one flush could not gather is in the arena of the previous iteration, which ends here. Output
         * queued in this iteration stays in place until the flush at its end. */
        if (uvhttp__out_keep_half(stream, UVHTTP__ITERATION_OTHER(stream->loop->iteration_mark)) != UVHTTP_OK)
            uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
        else
            uvhttp__out_mark_dirty(stream);
    } else {
        if (stream->write == UVHTTP__WRITE_DRAINING) shut_now(stream);
        if (stream->flags & UVHTTP__STREAM_NOTIFY) {
            stream->flags &= ~(uint32_t)UVHTTP__STREAM_NOTIFY;
            stream->ops->on_sent(stream);
        }
    }
}

/* --- streams --- */

void uvhttp__stream_open(uvhttp__stream_t *stream, uvhttp__loop_t *loop, int fd, bool is_unix,
                         const uvhttp__stream_ops_t *ops) {
    *stream = (uvhttp__stream_t){.loop = loop, .ops = ops, .fd = fd, .flags = is_unix ? UVHTTP__STREAM_UNIX : 0};
    uvhttp__list_init(&stream->dirty);
    uvhttp__list_init(&stream->ready);
    loop->stream_count++;
}

int uvhttp__stream_read_start(uvhttp__stream_t *stream) {
    return stream->loop->engine->read_start(stream);
}

int uvhttp__stream_connect(uvhttp__stream_t *stream, uvhttp__loop_t *loop, const uvhttp__endpoint_t *endpoint,
                           const uvhttp__stream_ops_t *ops) {
    if (endpoint->address_size == 0) return UVHTTP_E_ADDRESS;
    int fd = socket(endpoint->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return errno == EMFILE || errno == ENFILE ? UVHTTP_E_NO_DESCRIPTORS : UVHTTP_E_IO;
    bool is_unix = endpoint->address.any.sa_family == AF_UNIX;
    if (!is_unix) (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
    uvhttp__stream_open(stream, loop, fd, is_unix, ops);
    stream->flags |= UVHTTP__STREAM_CONNECTING;
    int status = loop->engine->connect(stream, endpoint);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    loop->stream_count--;
    close(fd);
    return status;
}

/* Capacity for `size` bytes more. It doubles, so that bytes which come one by one are copied a constant number of
 * times. NULL if out of memory. */
static uvhttp__held_t *held_grow(uvhttp__stream_t *stream, size_t size) {
    uvhttp__held_t *old = stream->held;
    size_t capacity = stream->held_size + size;
    if (old && capacity < 2 * (size_t)stream->held_size) capacity = 2 * (size_t)stream->held_size;
    uvhttp__held_t *held = uvhttp__malloc(sizeof *held + capacity);
    if (!held) return NULL;
    *held = (uvhttp__held_t){.capacity = (uint32_t)capacity};
    if (old) memcpy(held->data, old->data + old->offset, stream->held_size);
    uvhttp__free(old);
    stream->held = held;
    return held;
}

static bool keep(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__held_t *held = stream->held;
    if (!held || size > held->capacity - held->offset - stream->held_size) held = held_grow(stream, size);
    if (!held) return false;
    memcpy(held->data + held->offset + stream->held_size, data, size);
    stream->held_size += (uint32_t)size;
    return true;
}

static void drop_held(uvhttp__stream_t *stream) {
    uvhttp__free(stream->held);
    stream->held = NULL;
    stream->held_size = 0;
}

static size_t give(uvhttp__stream_t *stream, const char *data, size_t size) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_RESUMED;
    return stream->ops->on_data(stream, data, size);
}

/* on_data left bytes. If it asked for them again itself, they are due in the next iteration. */
void uvhttp__stream_pause_delivery(uvhttp__stream_t *stream) {
    if (stream->read != UVHTTP__READ_PAUSED) uvhttp__read_to(stream, UVHTTP__READ_PAUSED);
    if (stream->flags & UVHTTP__STREAM_RESUMED) uvhttp__stream_resume(stream);
}

UVHTTP__HOT bool uvhttp__stream_received(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__counters_add(stream->loop->counters, bytes_received, size);
    if (uvhttp__stream_is_over(stream)) return false;
    size_t used = 0;
    if (stream->read == UVHTTP__READ_OPEN) used = give(stream, data, size);
    if (used >= size || uvhttp__stream_is_over(stream)) return true;
    uvhttp__stream_pause_delivery(stream);
    if (!keep(stream, data + used, size - used)) {
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
        return false;
    }
    return stream->held_size < UVHTTP__HELD_MAX;
}

/* FIN is never reported before all completions of its iteration have been seen, nor while the loop is held: what a
 * flush has sent of the queue is unknown until then, and the queue of a plain send is empty. An owner that closed would
 * cut its output off. */
static void notify_fin(uvhttp__stream_t *stream) {
    assert(!stream->held);
    if (__builtin_expect(stream->loop->held, 0)) {
        uvhttp__read_to(stream, UVHTTP__READ_PAUSED);
        uvhttp__stream_resume(stream);
        return;
    }
    uvhttp__read_to(stream, UVHTTP__READ_ENDED);
    stream->ops->on_end(stream, UVHTTP_OK);
}

/* EPIPE: the peer had sent FIN before its RST. A socket reports its error once: if it has none left, an operation whose
 * completion is still in the queue has reported the reset. */
void uvhttp__stream_note_error(uvhttp__stream_t *stream, int error_number, bool sending) {
    socklen_t size = sizeof error_number;
    if (error_number == 0) (void)getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number != ECONNRESET && error_number != EPIPE && error_number != 0) return;
    stream->flags |= UVHTTP__STREAM_RESET;
    if (sending || stream->out_first) stream->flags |= UVHTTP__STREAM_RESET_SENDING;
}

void uvhttp__stream_break(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_BROKEN);
    drop_held(stream);
    uvhttp__out_drop_unread(stream);
    uvhttp__list_remove(&stream->ready);
}

/* A broken connection is reported after a FIN, too: an owner that still sends would wait forever. */
void uvhttp__stream_ended(uvhttp__stream_t *stream, int status) {
    if (uvhttp__stream_is_over(stream)) return;
    if (status != UVHTTP_OK) {
        uvhttp__stream_break(stream);
        stream->ops->on_end(stream, status);
        return;
    }
    stream->flags |= UVHTTP__STREAM_FIN;
    if (stream->read == UVHTTP__READ_OPEN && !uvhttp__list_linked(&stream->ready))
        uvhttp__list_push_back(&stream->loop->ended, &stream->ready);
}

UVHTTP__HOT void uvhttp__stream_resume(uvhttp__stream_t *stream) {
    if (uvhttp__stream_is_over(stream)) return;
    if (stream->read != UVHTTP__READ_PAUSED) {
        stream->flags |= UVHTTP__STREAM_RESUMED; /* called inside on_data, which may be about to leave bytes */
        return;
    }
    if (!uvhttp__list_linked(&stream->ready)) uvhttp__list_push_back(&stream->loop->ready, &stream->ready);
}

/* One delivery of kept bytes; what on_data leaves stays kept, and the stream paused until it resumes again. */
static void deliver_held(uvhttp__stream_t *stream) {
    uvhttp__read_to(stream, UVHTTP__READ_OPEN);
    if (stream->held_size > 0 || stream->filter) {
        uvhttp__held_t *held = stream->held;
        uint32_t size = stream->held_size;
        stream->held = NULL;
        stream->held_size = 0;
        size_t used = give(stream, held ? held->data + held->offset : NULL, size);
        if (uvhttp__stream_is_over(stream)) {
            uvhttp__free(held);
            return;
        }
        if (used < size) {
            assert(held); /* without kept bytes the size is 0 */
            held->offset += (uint32_t)used;
            stream->held = held;
            stream->held_size = (uint32_t)(size - used);
            uvhttp__stream_pause_delivery(stream);
            return;
        }
        uvhttp__free(held);
        if (stream->read == UVHTTP__READ_PAUSED) return; /* the filter has some left */
    }
    if (stream->flags & UVHTTP__STREAM_FIN)
        notify_fin(stream);
    else if (!(stream->flags & UVHTTP__STREAM_READING) && stream->loop->engine->read_start(stream) != UVHTTP_OK)
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
}

bool uvhttp__stream_unread(const uvhttp__stream_t *stream) {
    int size = 0;
    if (uvhttp__stream_is_over(stream)) return false; /* its descriptor may be another's */
    if (stream->filter && stream->filter->ops->unread(stream)) return true;
    return stream->held_size > 0 || (ioctl(stream->fd, FIONREAD, &size) == 0 && size > 0);
}

void uvhttp__stream_notify_sent(uvhttp__stream_t *stream) {
    stream->flags |= UVHTTP__STREAM_NOTIFY;
    uvhttp__out_mark_dirty(stream);
}

void uvhttp__stream_shutdown(uvhttp__stream_t *stream) {
    if (stream->write != UVHTTP__WRITE_OPEN) return;
    /* Without memory for it the filter sends no close_notify. */
    uvhttp__segment_t *end = stream->filter ? uvhttp__slab_alloc(&stream->loop->segments) : NULL;
    if (end) {
        *end = (uvhttp__segment_t){.kind = UVHTTP__SEGMENT_CONTROL, .fd = -1};
        uvhttp__out_append(stream, end);
    }
    uvhttp__write_to(stream, UVHTTP__WRITE_DRAINING);
    uvhttp__out_mark_dirty(stream);
}

void uvhttp__stream_close(uvhttp__stream_t *stream) {
    if (uvhttp__stream_is_closing(stream)) return;
    if (stream->filter && !stream->out_first && stream->write == UVHTTP__WRITE_OPEN)
        stream->filter->ops->closing(stream);
    uvhttp__close_to(stream, UVHTTP__CLOSE_WANTED);
    if (!(stream->flags & UVHTTP__STREAM_FLUSHED)) uvhttp__list_remove(&stream->dirty);
    uvhttp__list_remove(&stream->ready);
    drop_held(stream);
    uvhttp__out_drop_unread(stream);
    stream->loop->engine->close(stream);
}

void uvhttp__stream_reset(uvhttp__stream_t *stream) {
    if (uvhttp__stream_is_closing(stream)) return;
    if (!uvhttp__stream_is_over(stream)) uvhttp__stream_break(stream); /* no filter sends its close_notify */
    (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    uvhttp__stream_close(stream);
}

void uvhttp__stream_closed_due(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_DONE);
    uvhttp__out_drop(stream);
    uvhttp__list_remove(&stream->dirty);
    uvhttp__list_push_back(&stream->loop->closed, &stream->dirty);
}

/* --- the iteration --- */

UVHTTP__HOT void uvhttp__iteration_begin(uvhttp__loop_t *loop) {
    loop->now_ns = uvhttp__clock_ns();
    loop->now_ms = loop->now_ns / 1000000u;
    loop->iteration_number++;
    uvhttp__counters_add(loop->counters, engine_iterations, 1);
}

/* Only streams that are ready now: a stream with more data goes to the back and waits for the next iteration. */
static void deliver_ready(uvhttp__loop_t *loop) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, &loop->ready);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&due));)
        deliver_held(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, ready));
}

static void notify_ended(uvhttp__loop_t *loop) {
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->ended));)
        notify_fin(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, ready));
}

/* Nothing is released behind on_closed. */
static void notify_closed(uvhttp__loop_t *loop) {
    bool any = false;
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->closed)); any = true) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        uvhttp__released_call(loop);
        loop->stream_count--;
        stream->ops->on_closed(stream);
    }
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->closed_listeners));) {
        uvhttp__listener_t *listener = UVHTTP__CONTAINER_OF(node, uvhttp__listener_t, link);
        uvhttp__listener_take_backlog(listener);
        close(listener->fd);
        listener->ops->on_closed(listener);
    }
    if (any && uvhttp__timer_active(&loop->accept_timer)) uvhttp__listeners_unpark(loop);
}

/* Output queued during the flush of others (a broken stream's on_end may send) waits for the next iteration, in copies,
 * because the arena does not survive this one. It must not follow immediately: its stream may have been flushed, and
 * two concurrent sends of one stream could each be accepted in part. */
static void keep_late_output(uvhttp__loop_t *loop) {
    uvhttp__list_t late;
    uvhttp__list_init(&late);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->dirty));) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        if (uvhttp__stream_is_over(stream)) continue;
        uvhttp__list_push_back(&late, node);
        if (uvhttp__out_keep(stream) != UVHTTP_OK) uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    }
    uvhttp__list_splice(&loop->dirty, &late);
}

static void flush(uvhttp__loop_t *loop) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, &loop->dirty);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&due));) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        if (uvhttp__stream_is_over(stream)) continue; /* what is left is dropped when the kernel has done with it */
        if (!stream->out_first)
            uvhttp__out_progress(stream);
        else if (!(stream->flags & (UVHTTP__STREAM_SENDING | UVHTTP__STREAM_POLLING_OUT | UVHTTP__STREAM_CONNECTING)))
            loop->engine->flush(stream);
        else if (uvhttp__out_keep(stream) != UVHTTP_OK)
            uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    }
    if (__builtin_expect(loop->released != NULL, 0)) uvhttp__released_call(loop);
    if (__builtin_expect(!uvhttp__list_empty(&loop->dirty), 0)) keep_late_output(loop);
}

UVHTTP__HOT void uvhttp__iteration_settle(uvhttp__loop_t *loop) {
    loop->settle_due = false;
    uvhttp__list_t settling;
    uvhttp__list_init(&settling);
    uvhttp__list_splice(&settling, &loop->settling);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&settling));)
        settle(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty));
    uvhttp__counters_add(loop->counters, bytes_sent, loop->flown_size);
    loop->flown_size = 0;
    uvhttp__iteration_arena_sent(loop);
}

UVHTTP__HOT void uvhttp__iteration_end(uvhttp__loop_t *loop) {
    if (!uvhttp__list_empty(&loop->ended)) notify_ended(loop);
    if (__builtin_expect(loop->released != NULL, 0)) uvhttp__released_call(loop);
    /* A plain send that the kernel has yet to consume points at its stream. */
    if (__builtin_expect(!loop->held || loop->failure, 1)) notify_closed(loop);
    if (!uvhttp__mpsc_empty(&loop->posts)) uvhttp__posts_run(loop);
    /* Before the timers: a stream with undelivered data is not idle, however late this iteration is. */
    if (!uvhttp__list_empty(&loop->ready)) deliver_ready(loop);
    uvhttp__wheel_advance(&loop->wheel, loop->now_ns / UVHTTP__TICK_NS, UVHTTP__ITERATION_TIMERS_MAX);
    if (loop->on_iteration_end) loop->on_iteration_end(loop, loop->arg);
    if (__builtin_expect(loop->held, 0)) return; /* the other half of the arena is not free yet */
    loop->handing_over = true;
    flush(loop);
    loop->handing_over = false;
    uvhttp__iteration_arena_flip(loop);
}

/* --- life of a loop --- */

int uvhttp__loop_init(uvhttp__loop_t *loop, const uvhttp__engine_t *engine, const uvhttp__loop_options_t *options) {
    *loop = (uvhttp__loop_t){.engine = engine,
                             .counters = options->counters,
                             .index = options->index,
                             .on_iteration_end = options->on_iteration_end,
                             .on_enter = options->on_enter,
                             .on_failed = options->on_failed,
                             .arg = options->arg,
                             .is_guest = options->embedding != NULL,
                             .timer_tick = UINT64_MAX};
    if (uvhttp__iteration_arena_init(loop) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    loop->now_ns = uvhttp__clock_ns();
    loop->now_ms = loop->now_ns / 1000000u;
    uvhttp__list_init(&loop->dirty);
    uvhttp__list_init(&loop->settling);
    uvhttp__list_init(&loop->ended);
    uvhttp__list_init(&loop->ready);
    uvhttp__list_init(&loop->listeners);
    uvhttp__list_init(&loop->closed);
    uvhttp__list_init(&loop->closed_listeners);
    uvhttp__mpsc_init(&loop->posts);
    uvhttp__slab_init(&loop->segments, sizeof(uvhttp__segment_t));
    uvhttp__wheel_init(&loop->wheel, loop->now_ns / UVHTTP__TICK_NS);
    uvhttp__timer_init(&loop->accept_timer, uvhttp__wheel_kind(&loop->wheel, uvhttp__listeners_on_timer, loop));
    return UVHTTP_OK;
}

void uvhttp__loop_deinit(uvhttp__loop_t *loop) {
    assert(!loop->released);
    uvhttp__slab_deinit(&loop->segments);
    uvhttp__free(loop->waited);
    uvhttp__free(loop->filter_memory);
    uvhttp__iteration_arena_deinit(loop);
}
