/* Owns: what every engine has in common: the output queue of a stream, delivery of received and kept
 * bytes, posts, timers, the order of a turn, and the choice of the engine. May include: base, obs. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "io/engine.h"
#include "obs/log.h"

/* --- output queue --- */

void uvhttp__segment_release(uvhttp__loop_t *loop, uvhttp__segment_t *segment) {
    if (segment->turn) return; /* it goes with its turn */
    if (segment->owned) uvhttp__free((char *)(uintptr_t)(segment->data ? segment->data : segment->plain));
    if (segment->release) segment->release(segment->arg);
    uvhttp__slab_free(&loop->segments, segment);
}

UVHTTP__HOT void uvhttp__out_mark_dirty(uvhttp__stream_t *stream) {
    if (!uvhttp__list_linked(&stream->dirty)) uvhttp__list_push_back(&stream->loop->dirty, &stream->dirty);
}

void uvhttp__out_size_add(uvhttp__stream_t *stream, uint64_t size) {
    uint64_t sum = stream->out_size + size;
    stream->out_size = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

/* out_size saturates for huge files; once it has, it is recounted from the queue. */
void uvhttp__out_size_remove(uvhttp__stream_t *stream, uint64_t size) {
    if (stream->out_size != UINT32_MAX) {
        stream->out_size -= (uint32_t)size;
        return;
    }
    stream->out_size = 0;
    for (const uvhttp__segment_t *s = stream->out_first; s; s = s->next) uvhttp__out_size_add(stream, s->size);
}

static bool can_send(const uvhttp__stream_t *stream) {
    return !(stream->flags &
             (UVHTTP__STREAM_BROKEN | UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_SHUT_WANTED | UVHTTP__STREAM_SHUT));
}

UVHTTP__HOT void uvhttp__out_append(uvhttp__stream_t *stream, uvhttp__segment_t *segment) {
    if (stream->out_last)
        stream->out_last->next = segment;
    else
        stream->out_first = segment;
    stream->out_last = segment;
    uvhttp__out_size_add(stream, segment->size);
    uvhttp__out_mark_dirty(stream);
}

UVHTTP__HOT static void append(uvhttp__stream_t *stream, uvhttp__segment_t *segment) {
    if (uvhttp__stream_encodes(stream)) {
        segment->plain = segment->data;
        segment->data = NULL;
    }
    uvhttp__out_append(stream, segment);
}

int uvhttp__out_enqueue(uvhttp__stream_t *stream, const uvhttp__segment_t *model) {
    int status = can_send(stream) ? UVHTTP_OK : UVHTTP_E_CLOSED;
    uvhttp__segment_t *segment = NULL;
    if (status == UVHTTP_OK && model->size > 0) {
        segment = uvhttp__slab_alloc(&stream->loop->segments);
        if (!segment) status = UVHTTP_E_NOMEM;
    }
    if (!segment) {
        if (model->release) model->release(model->arg);
        return status;
    }
    *segment = *model;
    append(stream, segment);
    return UVHTTP_OK;
}

UVHTTP__HOT int uvhttp__stream_send_turn(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (!can_send(stream)) return UVHTTP_E_CLOSED;
    if (size == 0) return UVHTTP_OK;
    uvhttp__segment_t *last = stream->out_last;
    /* Answers of one batch stand one after the other in turn memory: one segment serves them all. What the last turn
     * handed over stands in the other half, so that what is continued here has not been handed over, unless that is
     * happening now. */
    if (last && last->turn == stream->loop->turn_mark && !uvhttp__stream_encodes(stream) &&
        last->data + last->size == data && !stream->loop->handing_over) {
        last->size += size;
        uvhttp__out_size_add(stream, size);
        return UVHTTP_OK;
    }
    uvhttp__segment_t *segment = uvhttp__segment_of_turn(stream->loop, data, size);
    if (!segment) return UVHTTP_E_NOMEM;
    append(stream, segment);
    return UVHTTP_OK;
}

int uvhttp__stream_send_copy(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (!can_send(stream)) return UVHTTP_E_CLOSED;
    char *copy = uvhttp__loop_turn_alloc(stream->loop, size);
    if (!copy) return UVHTTP_E_NOMEM;
    memcpy(copy, data, size);
    return uvhttp__stream_send_turn(stream, copy, size);
}

int uvhttp__stream_send_ref(uvhttp__stream_t *stream, const char *data, size_t size, uvhttp__release_cb release,
                            void *arg) {
    return uvhttp__out_enqueue(
        stream, &(uvhttp__segment_t){.data = data, .size = size, .fd = -1, .release = release, .arg = arg});
}

int uvhttp__out_gather(const uvhttp__stream_t *stream, struct iovec *iov, int max, size_t *size) {
    int count = 0;
    size_t sum = 0;
    for (const uvhttp__segment_t *s = stream->out_first; s && s->data && count < max; s = s->next) {
        iov[count++] = (struct iovec){.iov_base = (char *)(uintptr_t)s->data, .iov_len = (size_t)s->size};
        sum += (size_t)s->size;
    }
    *size = sum;
    return count;
}

void uvhttp__out_advance(uvhttp__stream_t *stream, size_t size) {
    uvhttp__counters_add(stream->loop->counters, bytes_sent, size);
    stream->out_taken += (uint32_t)size;
    size_t left = size;
    while (left > 0) {
        uvhttp__segment_t *first = stream->out_first;
        if (left < first->size) {
            first->size -= left;
            if (first->data) {
                /* An owned copy is freed by its begin: turn it into a released one before moving on. */
                if (first->owned) {
                    first->owned = false;
                    first->release = uvhttp__free;
                    first->arg = (char *)(uintptr_t)first->data;
                }
                first->data += left;
            } else {
                first->offset += (int64_t)left;
            }
            break;
        }
        left -= (size_t)first->size;
        stream->out_first = first->next;
        if (!first->next) stream->out_last = NULL;
        uvhttp__segment_release(stream->loop, first);
    }
    uvhttp__out_size_remove(stream, size);
}

/* Copies what stands in the half of turn memory with this mark; 0: in either. */
static int keep_segments(uvhttp__stream_t *stream, uint8_t mark) {
    for (uvhttp__segment_t **at = &stream->out_first; *at; at = &(*at)->next) {
        const uvhttp__segment_t *s = *at;
        if (!s->turn || (mark && s->turn != mark)) continue;
        uvhttp__segment_t *kept = uvhttp__slab_alloc(&stream->loop->segments);
        char *copy = kept ? uvhttp__malloc((size_t)s->size) : NULL;
        if (!copy) {
            if (kept) uvhttp__slab_free(&stream->loop->segments, kept);
            return UVHTTP_E_NOMEM;
        }
        *kept = *s;
        *(s->data ? &kept->data : &kept->plain) = memcpy(copy, s->data ? s->data : s->plain, (size_t)s->size);
        kept->turn = 0;
        kept->owned = true;
        if (stream->out_last == s) stream->out_last = kept;
        *at = kept;
    }
    return UVHTTP_OK;
}

int uvhttp__out_keep(uvhttp__stream_t *stream) {
    if (stream->ops->on_kept) stream->ops->on_kept(stream);
    return keep_segments(stream, 0);
}

void uvhttp__out_drop(uvhttp__stream_t *stream) {
    uvhttp__segment_t *next, *s = stream->out_first;
    stream->out_first = stream->out_last = NULL;
    stream->out_size = 0;
    for (; s; s = next) {
        next = s->next;
        uvhttp__segment_release(stream->loop, s);
    }
}

/* The stream is broken or closing while the kernel still reads what it was given, which is not in turn memory: what is
 * goes with its turn, and may not stay in the queue. */
static void drop_unkept(uvhttp__stream_t *stream) {
    stream->out_last = NULL;
    for (uvhttp__segment_t **at = &stream->out_first; *at;) {
        if ((*at)->turn) {
            *at = (*at)->next;
        } else {
            stream->out_last = *at;
            at = &(*at)->next;
        }
    }
}

/* What the last turn handed over is dropped when the turn is settled. */
static void drop_output(uvhttp__stream_t *stream) {
    if (stream->flags & UVHTTP__STREAM_FLUSHED) return;
    if (stream->flags & UVHTTP__STREAM_SENDING)
        drop_unkept(stream);
    else
        uvhttp__out_drop(stream);
}

static void shut_now(uvhttp__stream_t *stream) {
    stream->flags |= UVHTTP__STREAM_SHUT;
    shutdown(stream->fd, SHUT_WR);
}

void uvhttp__out_progress(uvhttp__stream_t *stream) {
    uvhttp__list_remove(&stream->dirty);
    uvhttp__list_push_back(&stream->loop->settling, &stream->dirty);
    stream->loop->settle_due = true;
}

static void settle(uvhttp__stream_t *stream) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_FLUSHED;
    uint64_t sent = 0;
    for (; stream->out_flying > 0; stream->out_flying--) {
        uvhttp__segment_t *first = stream->out_first;
        sent += first->size;
        stream->out_first = first->next;
        if (!first->next) stream->out_last = NULL;
        uvhttp__segment_release(stream->loop, first);
    }
    if (sent > 0) {
        uvhttp__counters_add(stream->loop->counters, bytes_sent, sent);
        stream->out_taken += (uint32_t)sent;
        uvhttp__out_size_remove(stream, sent);
    }
    if (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN)) {
        drop_output(stream);
        if (stream->flags & UVHTTP__STREAM_CLOSING) stream->loop->engine->close(stream);
    } else if (stream->out_first) {
        /* What one hand-over could not gather stands in memory of the last turn, which ends here. What this turn has
         * queued already stays where it is, until the hand-over at its end. */
        if (keep_segments(stream, UVHTTP__TURN_OTHER(stream->loop->turn_mark)) != UVHTTP_OK)
            uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
        else
            uvhttp__out_mark_dirty(stream);
    } else {
        if ((stream->flags & (UVHTTP__STREAM_SHUT_WANTED | UVHTTP__STREAM_SHUT)) == UVHTTP__STREAM_SHUT_WANTED)
            shut_now(stream);
        if (stream->flags & UVHTTP__STREAM_NOTIFY) {
            stream->flags &= ~(uint32_t)UVHTTP__STREAM_NOTIFY;
            stream->ops->on_sent(stream);
        }
    }
}

/* sendfile(2) knows no MSG_NOSIGNAL: a peer that is gone would kill the process. Threads of our own block SIGPIPE as
 * long as the loop runs; in the application's thread it is blocked around the call. One that came of it is taken away
 * again. */
typedef struct pipe_guard {
    sigset_t before;
    bool was_pending;
} pipe_guard_t;

static void pipe_block(pipe_guard_t *guard) {
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    guard->was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &guard->before);
}

static void pipe_restore(const pipe_guard_t *guard) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!guard->was_pending) {
        while (sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

static int send_share_of_file(uvhttp__stream_t *stream) {
    uvhttp__segment_t *file = stream->out_first;
    uvhttp__source_t *source = file->arg;
    uint64_t share = source->read_size > 0 ? source->read_size : UVHTTP__FILE_TURN_MAX;
    for (;;) {
        if (share == 0) return UVHTTP_E_LIMIT;
        off_t offset = (off_t)file->offset;
        size_t want = (size_t)(file->size < share ? file->size : share);
        ssize_t sent = sendfile(stream->fd, source->fd, &offset, want);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return UVHTTP_E_AGAIN;
        int error = sent < 0 ? errno : 0; /* 0: the file is shorter than it was */
        if (error) uvhttp__stream_note_error(stream, error, true);
        if (sent <= 0) return uvhttp__file_failed(source, (uint64_t)file->offset, error);
        share -= (uint64_t)sent;
        if (source->read_size > 0) source->read_size = share;
        bool last = (uint64_t)sent == file->size;
        uvhttp__out_advance(stream, (size_t)sent);
        if (last) return UVHTTP_OK;
    }
}

/* FIN follows this segment. */
static int send_last_words(uvhttp__stream_t *stream) {
    int status = stream->filter->ops->pass_end(stream);
    if (status != UVHTTP_OK) return status;
    uvhttp__segment_t *end = stream->out_first;
    stream->out_first = end->next;
    if (!end->next) stream->out_last = NULL;
    uvhttp__segment_release(stream->loop, end);
    return UVHTTP_OK;
}

int uvhttp__out_sendfile(uvhttp__stream_t *stream) {
    if (!uvhttp__segment_is_source(stream->out_first)) return send_last_words(stream);
    if (!stream->loop->is_guest) return send_share_of_file(stream);
    pipe_guard_t guard;
    pipe_block(&guard);
    int status = send_share_of_file(stream);
    pipe_restore(&guard);
    return status;
}

/* --- streams --- */

void uvhttp__stream_open(uvhttp__stream_t *stream, uvhttp__loop_t *loop, int fd, const uvhttp__stream_ops_t *ops) {
    *stream = (uvhttp__stream_t){.loop = loop, .ops = ops, .fd = fd};
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
    if (endpoint->address.any.sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &(int){1}, sizeof(int));
    uvhttp__stream_open(stream, loop, fd, ops);
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

/* on_data left bytes. If it asked for them again itself, they are due in the next turn. */
void uvhttp__stream_pause_delivery(uvhttp__stream_t *stream) {
    stream->flags |= UVHTTP__STREAM_PAUSED;
    if (stream->flags & UVHTTP__STREAM_RESUMED) uvhttp__stream_resume(stream);
}

UVHTTP__HOT bool uvhttp__stream_received(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__counters_add(stream->loop->counters, bytes_received, size);
    if (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN)) return false;
    size_t used = 0;
    if (!(stream->flags & UVHTTP__STREAM_PAUSED)) used = give(stream, data, size);
    if (used >= size || (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN))) return true;
    uvhttp__stream_pause_delivery(stream);
    if (!keep(stream, data + used, size - used)) {
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
        return false;
    }
    return stream->held_size < UVHTTP__HELD_MAX;
}

/* A FIN is told once. That the connection broke is told after a FIN, too: who still sends would wait for ever. */
static void tell_end(uvhttp__stream_t *stream, int status) {
    if (stream->flags & UVHTTP__STREAM_CLOSING) return;
    if (stream->flags & (status == UVHTTP_OK ? UVHTTP__STREAM_END_TOLD : UVHTTP__STREAM_BREAK_TOLD)) return;
    stream->flags |= UVHTTP__STREAM_END_TOLD | (status == UVHTTP_OK ? 0u : (uint32_t)UVHTTP__STREAM_BREAK_TOLD);
    stream->ops->on_end(stream, status);
}

/* EPIPE: the peer had sent FIN before its RST. A socket tells its error once: where it has none left, an operation
 * whose completion is still in the queue was told of the reset. */
void uvhttp__stream_note_error(uvhttp__stream_t *stream, int error_number, bool sending) {
    socklen_t size = sizeof error_number;
    if (error_number == 0) (void)getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number != ECONNRESET && error_number != EPIPE && error_number != 0) return;
    stream->flags |= UVHTTP__STREAM_RESET;
    if (sending || stream->out_first) stream->flags |= UVHTTP__STREAM_RESET_SENDING;
}

void uvhttp__stream_ended(uvhttp__stream_t *stream, int status) {
    stream->flags |= UVHTTP__STREAM_ENDED;
    if (status != UVHTTP_OK) {
        stream->flags |= UVHTTP__STREAM_BROKEN;
        drop_held(stream);
        drop_output(stream);
        uvhttp__list_remove(&stream->ready);
        tell_end(stream, status);
    } else if (!(stream->flags & UVHTTP__STREAM_PAUSED)) {
        tell_end(stream, UVHTTP_OK);
    }
}

UVHTTP__HOT void uvhttp__stream_resume(uvhttp__stream_t *stream) {
    if (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN)) return;
    if (!(stream->flags & UVHTTP__STREAM_PAUSED)) {
        stream->flags |= UVHTTP__STREAM_RESUMED; /* called inside on_data, which may be about to leave bytes */
        return;
    }
    if (!uvhttp__list_linked(&stream->ready)) uvhttp__list_push_back(&stream->loop->ready, &stream->ready);
}

/* One delivery of kept bytes; what on_data leaves stays kept, and the stream paused until it resumes again. */
static void deliver_held(uvhttp__stream_t *stream) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_PAUSED;
    if (stream->held_size > 0 || stream->filter) {
        uvhttp__held_t *held = stream->held;
        uint32_t size = stream->held_size;
        stream->held = NULL;
        stream->held_size = 0;
        size_t used = give(stream, held ? held->data + held->offset : NULL, size);
        if (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN)) {
            uvhttp__free(held);
            return;
        }
        if (used < size) {
            held->offset += (uint32_t)used;
            stream->held = held;
            stream->held_size = (uint32_t)(size - used);
            uvhttp__stream_pause_delivery(stream);
            return;
        }
        uvhttp__free(held);
        if (stream->flags & UVHTTP__STREAM_PAUSED) return; /* the filter has some left */
    }
    if (stream->flags & UVHTTP__STREAM_ENDED)
        tell_end(stream, UVHTTP_OK);
    else if (!(stream->flags & UVHTTP__STREAM_READING) && stream->loop->engine->read_start(stream) != UVHTTP_OK)
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
}

bool uvhttp__stream_unread(const uvhttp__stream_t *stream) {
    int size = 0;
    if (stream->filter && stream->filter->ops->unread(stream)) return true;
    return stream->held_size > 0 || (ioctl(stream->fd, FIONREAD, &size) == 0 && size > 0);
}

void uvhttp__stream_notify_sent(uvhttp__stream_t *stream) {
    stream->flags |= UVHTTP__STREAM_NOTIFY;
    uvhttp__out_mark_dirty(stream);
}

void uvhttp__stream_shutdown(uvhttp__stream_t *stream) {
    if (!can_send(stream)) return;
    /* Without memory for it the filter has no last words. */
    uvhttp__segment_t *end = stream->filter ? uvhttp__slab_alloc(&stream->loop->segments) : NULL;
    if (end) {
        *end = (uvhttp__segment_t){.fd = -1};
        uvhttp__out_append(stream, end);
    }
    stream->flags |= UVHTTP__STREAM_SHUT_WANTED;
    uvhttp__out_mark_dirty(stream);
}

void uvhttp__stream_close(uvhttp__stream_t *stream) {
    if (stream->flags & UVHTTP__STREAM_CLOSING) return;
    if (stream->filter && !stream->out_first && can_send(stream)) stream->filter->ops->closing(stream);
    stream->flags |= UVHTTP__STREAM_CLOSING;
    if (!(stream->flags & UVHTTP__STREAM_FLUSHED)) uvhttp__list_remove(&stream->dirty);
    uvhttp__list_remove(&stream->ready);
    drop_held(stream);
    drop_output(stream);
    stream->loop->engine->close(stream);
}

void uvhttp__stream_reset(uvhttp__stream_t *stream) {
    if (stream->flags & UVHTTP__STREAM_CLOSING) return;
    stream->flags |= UVHTTP__STREAM_BROKEN; /* nobody says goodbye */
    (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
    uvhttp__stream_close(stream);
}

void uvhttp__stream_closed_due(uvhttp__stream_t *stream) {
    if (stream->flags & UVHTTP__STREAM_CLOSED_DUE) return;
    stream->flags |= UVHTTP__STREAM_CLOSED_DUE;
    uvhttp__out_drop(stream);
    uvhttp__list_remove(&stream->dirty);
    uvhttp__list_push_back(&stream->loop->closed, &stream->dirty);
}

/* --- the turn --- */

UVHTTP__HOT void uvhttp__turn_begin(uvhttp__loop_t *loop) {
    loop->now_ns = uvhttp__clock_ns();
    loop->now_ms = loop->now_ns / 1000000u;
    loop->turn_number++;
    uvhttp__counters_add(loop->counters, engine_turns, 1);
}

static void run_posts(uvhttp__loop_t *loop) {
    uvhttp__mpsc_node_t *next, *node = uvhttp__mpsc_take(&loop->posts);
    for (; node; node = next) {
        next = node->next;
        uvhttp__post_t *post = UVHTTP__CONTAINER_OF(node, uvhttp__post_t, node);
        post->run(post);
    }
}

void uvhttp__loop_run_posts(uvhttp__loop_t *loop) {
    while (!uvhttp__mpsc_empty(&loop->posts)) run_posts(loop);
}

/* Only those that are ready now: a stream that is not done goes to the back and waits for the next turn. */
static void deliver_ready(uvhttp__loop_t *loop) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, &loop->ready);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&due));)
        deliver_held(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, ready));
}

static void tell_closed(uvhttp__loop_t *loop) {
    bool any = false;
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->closed)); any = true) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
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

/* What is queued while others are handed over (a broken stream's on_end may send) waits for the next turn, in copies,
 * because turn memory does not survive this one. It must not follow at once: its stream may be among those that were
 * handed over, and two sends of one stream under way could each be accepted in part. */
static void keep_late_output(uvhttp__loop_t *loop) {
    uvhttp__list_t late;
    uvhttp__list_init(&late);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&loop->dirty));) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        if (stream->flags & UVHTTP__STREAM_BROKEN) continue;
        uvhttp__list_push_back(&late, node);
        if (uvhttp__out_keep(stream) != UVHTTP_OK) uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    }
    uvhttp__list_splice(&loop->dirty, &late);
}

static void hand_over(uvhttp__loop_t *loop) {
    uvhttp__list_t due;
    uvhttp__list_init(&due);
    uvhttp__list_splice(&due, &loop->dirty);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&due));) {
        uvhttp__stream_t *stream = UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty);
        if (stream->flags & UVHTTP__STREAM_BROKEN)
            continue; /* what is left is dropped when the kernel has done with it */
        if (!stream->out_first)
            uvhttp__out_progress(stream);
        else if (!(stream->flags & (UVHTTP__STREAM_SENDING | UVHTTP__STREAM_POLLING_OUT | UVHTTP__STREAM_CONNECTING)))
            loop->engine->hand_over(stream);
        else if (uvhttp__out_keep(stream) != UVHTTP_OK)
            uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    }
    if (__builtin_expect(!uvhttp__list_empty(&loop->dirty), 0)) keep_late_output(loop);
}

UVHTTP__HOT void uvhttp__turn_settle(uvhttp__loop_t *loop) {
    loop->settle_due = false;
    uvhttp__list_t settling;
    uvhttp__list_init(&settling);
    uvhttp__list_splice(&settling, &loop->settling);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&settling));)
        settle(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty));
    uvhttp__counters_add(loop->counters, bytes_sent, loop->flown_size);
    loop->flown_size = 0;
    uvhttp__turn_memory_sent(loop);
}

UVHTTP__HOT void uvhttp__turn_end(uvhttp__loop_t *loop) {
    /* A plain send that the kernel has yet to consume points at its stream. */
    if (__builtin_expect(!loop->held || loop->failure, 1)) tell_closed(loop);
    if (!uvhttp__mpsc_empty(&loop->posts)) run_posts(loop);
    /* Before the timers: who has something to be given is not idle, however late this turn is. */
    if (!uvhttp__list_empty(&loop->ready)) deliver_ready(loop);
    uvhttp__wheel_advance(&loop->wheel, loop->now_ns / UVHTTP__TICK_NS, UVHTTP__TURN_TIMERS_MAX);
    if (loop->on_turn_end) loop->on_turn_end(loop, loop->arg);
    if (__builtin_expect(loop->held, 0)) return; /* the other half of turn memory is not free yet */
    loop->handing_over = true;
    hand_over(loop);
    loop->handing_over = false;
    uvhttp__turn_memory_flip(loop);
}

/* --- life of a loop --- */

int uvhttp__loop_init(uvhttp__loop_t *loop, const uvhttp__engine_t *engine, const uvhttp__loop_options_t *options) {
    *loop = (uvhttp__loop_t){.engine = engine,
                             .counters = options->counters,
                             .on_turn_end = options->on_turn_end,
                             .on_failed = options->on_failed,
                             .arg = options->arg,
                             .is_guest = options->host != NULL,
                             .timer_tick = UINT64_MAX};
    if (uvhttp__turn_memory_init(loop) != UVHTTP_OK) return UVHTTP_E_NOMEM;
    loop->now_ns = uvhttp__clock_ns();
    loop->now_ms = loop->now_ns / 1000000u;
    uvhttp__list_init(&loop->dirty);
    uvhttp__list_init(&loop->settling);
    uvhttp__list_init(&loop->ready);
    uvhttp__list_init(&loop->listeners);
    uvhttp__list_init(&loop->closed);
    uvhttp__list_init(&loop->closed_listeners);
    uvhttp__mpsc_init(&loop->posts);
    uvhttp__slab_init(&loop->segments, sizeof(uvhttp__segment_t));
    uvhttp__wheel_init(&loop->wheel, loop->now_ns / UVHTTP__TICK_NS);
    uvhttp__wheel_on_expire(&loop->wheel, UVHTTP__TIMER_IO, uvhttp__listeners_on_timer, loop);
    uvhttp__timer_init(&loop->accept_timer, UVHTTP__TIMER_IO);
    return UVHTTP_OK;
}

void uvhttp__loop_deinit(uvhttp__loop_t *loop) {
    uvhttp__slab_deinit(&loop->segments);
    uvhttp__free(loop->waited);
    uvhttp__free(loop->filter_memory);
    uvhttp__turn_memory_deinit(loop);
}

int uvhttp__engine_parse(const char *text, uvhttp__engine_kind_t *kind) {
    static const struct {
        const char *name;
        uvhttp__engine_kind_t kind;
    } names[] = {{"auto", UVHTTP__ENGINE_AUTO}, {"uring", UVHTTP__ENGINE_URING}, {"libuv", UVHTTP__ENGINE_LIBUV}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(text, names[i].name) != 0) continue;
        *kind = names[i].kind;
        return UVHTTP_OK;
    }
    return UVHTTP_E_INVALID;
}

static int new_with(const uvhttp__engine_t *engine, const uvhttp__loop_options_t *options, const char *why,
                    uvhttp__loop_t **loop) {
    int status = engine->loop_new(options, loop);
    if (status == UVHTTP_OK) snprintf((*loop)->reason, sizeof(*loop)->reason, "%s", why);
    return status;
}

int uvhttp__loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop) {
    char why[128] = "this build has no io_uring";
    *loop = NULL;
    if (options->engine == UVHTTP__ENGINE_LIBUV) return new_with(&uvhttp__engine_libuv, options, "asked for", loop);
#if UVHTTP_WITH_URING
    if (uvhttp__engine_uring.preflight(why, sizeof why)) {
        bool asked = options->engine == UVHTTP__ENGINE_URING;
        int status = new_with(&uvhttp__engine_uring, options, asked ? "asked for" : "preflight passed", loop);
        if (status != UVHTTP_E_UNSUPPORTED || asked) return status;
        snprintf(why, sizeof why, "io_uring passed its preflight, but a ring could not be made");
    }
#endif
    if (options->engine == UVHTTP__ENGINE_URING) {
        UVHTTP_LOG_ERROR("io: engine io_uring is not available: %s", why);
        return UVHTTP_E_UNSUPPORTED;
    }
    return new_with(&uvhttp__engine_libuv, options, why, loop);
}

void uvhttp__loop_run(uvhttp__loop_t *loop) {
    pipe_guard_t guard;
    pipe_block(&guard);
    loop->engine->loop_run(loop);
    pipe_restore(&guard);
}

void uvhttp__loop_stop(uvhttp__loop_t *loop) {
    loop->stopping = true;
}

void uvhttp__loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__fd_set_close(loop);
    loop->engine->loop_free(loop, on_freed, arg);
}

const char *uvhttp__loop_engine_name(const uvhttp__loop_t *loop) {
    return loop->engine->name;
}

void uvhttp__loop_post(uvhttp__loop_t *loop, uvhttp__post_t *post) {
    if (uvhttp__mpsc_push(&loop->posts, &post->node)) loop->engine->wake(loop);
}
