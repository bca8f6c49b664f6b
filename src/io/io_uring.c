/* Owns: streams and listeners on io_uring: multishot receive from one ring of buffers, one send in flight per stream,
 * accepting after a poll reports pending connections. The loops that drive it are in io_uring_loop.c; io_uring_ring.c
 * creates the ring. May include: base, obs, io.
 *
 * How a send is known to be complete without a completion: at the end of an iteration each stream's output is one send
 * with MSG_DONTWAIT | MSG_WAITALL and CQE_SKIP_SUCCESS. The kernel tries it when it consumes the entry and never again.
 * Either it accepts all bytes silently, or a completion with the accepted bytes, -EAGAIN or an error is in the queue
 * when the call returns. Once the kernel's head of the submission queue has passed the entry and all completions have
 * been seen, silence means sent (uvhttp__iteration_settle). The arena can be reused, and no completion woke the loop
 * that waits in the same call.
 *
 * An entry that was not consumed, because the call was refused, is sent by a later call from the memory that it refers
 * to: io_uring_submit.c holds the loop until then. Only what was not accepted immediately is sent by an ordinary
 * asynchronous send from a copy. A plain response without a callback for its end is not visited again: it leaves the
 * queue when it is flushed, and returns with a completion that reports otherwise. */
#include "io/io_uring.h"
#include "base/hot_path.h"
#include "base/sanitize.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

static uint64_t data_of(const void *object, unsigned what) {
    return (uint64_t)(uintptr_t)object | what;
}

static struct io_uring_sqe *sqe_of(const uvhttp__stream_t *stream) {
    return uvhttp__uring_sqe(uvhttp__uring_of(stream->loop));
}

static void silent(struct io_uring_sqe *sqe) {
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = UVHTTP__URING_IGNORE;
}

/* --- closing --- */

/* Operations of a stream that the kernel holds until they complete: X(flag of the stream, what completes). */
#define OPERATIONS(X)                                                                                                  \
    X(READING, RECEIVE)                                                                                                \
    X(SENDING, SEND)                                                                                                   \
    X(POLLING_OUT, POLL_OUT)                                                                                           \
    X(CONNECTING, CONNECT)                                                                                             \
    X(POLLING_RESET, POLL_RESET)

#define FLAG_OF(flag, what) | UVHTTP__STREAM_##flag
#define IN_KERNEL (0 OPERATIONS(FLAG_OF))

static void cancel(const uvhttp__stream_t *stream, unsigned what) {
    struct io_uring_sqe *sqe = sqe_of(stream);
    io_uring_prep_cancel64(sqe, data_of(stream, what), 0);
    silent(sqe);
}

/* One by one: to find those of a descriptor, the kernel looks at every operation of the ring (pitfall 12). */
static void cancel_all(const uvhttp__stream_t *stream) {
#define CANCEL(flag, what)                                                                                             \
    if (stream->flags & UVHTTP__STREAM_##flag) cancel(stream, UVHTTP__URING_##what);
    OPERATIONS(CANCEL)
#undef CANCEL
}

/* ThreadSanitizer does not see what the ring closes, and takes the next use of the descriptor's number for a race. */
static void close_descriptor(const uvhttp__stream_t *stream) {
#if __has_feature(thread_sanitizer)
    close(stream->fd);
#else
    struct io_uring_sqe *sqe = sqe_of(stream);
    io_uring_prep_close(sqe, stream->fd);
    silent(sqe);
    /* The ring is about to fail, and nobody knows of this entry. */
    if (__builtin_expect(sqe == &uvhttp__uring_of(stream->loop)->nowhere, 0)) close(stream->fd);
#endif
}

/* The kernel's references go first (a close alone would leave an armed receive holding the socket open, without a FIN),
 * then the descriptor, then the stream. */
void uvhttp__uring_close(uvhttp__stream_t *stream) {
    uvhttp__uring_t *uring = uvhttp__uring_of(stream->loop);
    if (stream->close == UVHTTP__CLOSE_DONE) return;
    uvhttp__uring_starved_remove(stream);
    if (uring->failed) {
        uvhttp__uring_close_directly(stream);
        return;
    }
    if (stream->flags & UVHTTP__STREAM_FLUSHED) return;
    if (stream->flags & IN_KERNEL) {
        if (stream->close == UVHTTP__CLOSE_WAITING) return;
        uvhttp__close_to(stream, UVHTTP__CLOSE_WAITING);
        uvhttp__list_push_back(&uring->closing, &stream->dirty);
        cancel_all(stream);
        return;
    }
    close_descriptor(stream);
    uvhttp__stream_closed_due(stream);
}

/* The reset of a connection throws away what it has not sent, and fails whatever the kernel would still send: memory
 * that a send of the ring refers to is read by nobody afterwards. */
void uvhttp__uring_close_directly(uvhttp__stream_t *stream) {
    if (stream->close == UVHTTP__CLOSE_DONE) return;
    uvhttp__uring_starved_remove(stream);
    stream->flags &= ~(uint32_t)(IN_KERNEL | UVHTTP__STREAM_FLUSHED);
    stream->out_flying = 0;
    (void)connect(stream->fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
    (void)shutdown(stream->fd, SHUT_RDWR);
    close(stream->fd);
    uvhttp__stream_closed_due(stream);
}

/* --- receiving --- */

int uvhttp__uring_read_start(uvhttp__stream_t *stream) {
    if (stream->flags & (UVHTTP__STREAM_READING | UVHTTP__STREAM_FIN | UVHTTP__STREAM_STARVED)) return UVHTTP_OK;
    if (uvhttp__stream_is_over(stream)) return UVHTTP_OK;
    if (uvhttp__uring_of(stream->loop)->failed) return UVHTTP_E_IO;
    struct io_uring_sqe *sqe = sqe_of(stream);
    uvhttp__uring_prepare_receive(sqe, stream->fd, uvhttp__uring_of(stream->loop)->receive_max);
    sqe->user_data = data_of(stream, UVHTTP__URING_RECEIVE);
    stream->flags |= UVHTTP__STREAM_READING;
    return UVHTTP_OK;
}

/* As soon as possible: some bytes may still come. */
static void stop_receive(uvhttp__stream_t *stream) {
    if (!(stream->flags & UVHTTP__STREAM_READING) || (stream->flags & UVHTTP__STREAM_CANCELLING)) return;
    stream->flags |= UVHTTP__STREAM_CANCELLING;
    cancel(stream, UVHTTP__URING_RECEIVE);
}

/* Where the receive would not tell of a reset: a poll for no event reports errors all the same. Of FIN on a Unix socket
 * it would not tell either. */
static void poll_reset(uvhttp__stream_t *stream) {
    if ((stream->flags & (UVHTTP__STREAM_POLLING_RESET | UVHTTP__STREAM_FIN)) || uvhttp__stream_is_over(stream)) return;
    stream->flags |= UVHTTP__STREAM_POLLING_RESET;
    struct io_uring_sqe *sqe = sqe_of(stream);
    io_uring_prep_poll_add(sqe, stream->fd, stream->flags & UVHTTP__STREAM_UNIX ? POLLRDHUP : 0);
    sqe->user_data = data_of(stream, UVHTTP__URING_POLL_RESET);
}

static void broke(uvhttp__stream_t *stream, int error_number, bool sending) {
    uvhttp__stream_note_error(stream, error_number, sending);
    uvhttp__stream_ended(stream, UVHTTP_E_ABORTED);
}

static void on_poll_reset(uvhttp__stream_t *stream, int events) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_POLLING_RESET;
    if (uvhttp__stream_is_closing(stream))
        uvhttp__uring_close(stream);
    else if (events > 0 && (events & POLLERR))
        broke(stream, 0, false);
    else
        stop_receive(stream); /* FIN: if the receive has slept through that too, the next one will not */
}

static char *buffer_at(const uvhttp__uring_t *uring, unsigned id) {
    return uring->buffers + (size_t)id * uring->buffer_stride;
}

static void give_back(uvhttp__uring_t *uring, unsigned id) {
    io_uring_buf_ring_add(uring->buf_ring, buffer_at(uring, id), uring->buffer_size, (unsigned short)id,
                          io_uring_buf_ring_mask(uring->buffer_count), (int)uring->buffers_back++);
}

static void publish_buffers(uvhttp__uring_t *uring) {
    if (uring->buffers_back == 0) return;
    io_uring_buf_ring_advance(uring->buf_ring, (int)uring->buffers_back);
    uring->buffers_back = 0;
}

/* Whether an operation that has yet to run will find out that the connection is broken. */
static bool will_send(const uvhttp__stream_t *stream) {
    if (stream->flags & (UVHTTP__STREAM_SENDING | UVHTTP__STREAM_POLLING_OUT)) return true;
    const uvhttp__segment_t *segment = stream->out_first;
    for (uint32_t i = stream->out_flying; i > 0 && segment; i--) segment = segment->next;
    return segment;
}

/* A receive longer than one buffer continues in the next one. Buffers are returned in the order in which they came,
 * each to its own place in the ring: the following buffer has the next number. */
static void take_buffers(uvhttp__uring_t *uring, uvhttp__stream_t *stream, unsigned id, int received) {
    size_t left = received > 0 ? (size_t)received : 0;
    for (;;) {
        assert(id == ((uring->buf_ring->tail + uring->buffers_back) & (uring->buffer_count - 1)));
        size_t size = left < uring->buffer_size ? left : uring->buffer_size;
        if (size > 0) (void)uvhttp__stream_received(stream, buffer_at(uring, id), size);
        give_back(uring, id);
        left -= size;
        if (left == 0) return;
        id = (id + 1) & (uring->buffer_count - 1);
    }
}

/* Nobody keeps a receive buffer beyond its completion, so that -ENOBUFS can only mean that all were used within one
 * drain; at its end they are back. Before that a new receive would fail again, and with a full submission queue it
 * would be submitted within the drain, which would not end while so many streams try. */
static void on_receive(uvhttp__uring_t *uring, uvhttp__stream_t *stream, int result, unsigned flags) {
    if (!(flags & IORING_CQE_F_MORE)) stream->flags &= ~(uint32_t)(UVHTTP__STREAM_READING | UVHTTP__STREAM_CANCELLING);
    if (flags & IORING_CQE_F_BUFFER) take_buffers(uring, stream, flags >> IORING_CQE_BUFFER_SHIFT, result);
    if (result == -ENOBUFS) uvhttp__counters_add(uring->loop.counters, engine_enobufs, 1);
    if (uvhttp__stream_is_closing(stream)) {
        uvhttp__uring_close(stream);
    } else if (result == 0) {
        uvhttp__stream_ended(stream, UVHTTP_OK);
    } else if (result < 0 && result != -ENOBUFS && result != -ECANCELED && result != -EINTR) {
        broke(stream, -result, false);
    } else if (stream->held_size >= UVHTTP__HELD_MAX) {
        stop_receive(stream);
        poll_reset(stream);
    } else if (result == -ENOBUFS && !uvhttp__stream_is_over(stream)) {
        if (uvhttp__uring_starve(stream) != UVHTTP_OK) uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    } else {
        (void)uvhttp__uring_read_start(stream); /* unless it is armed still */
        /* A reset that comes together with the last bytes before it does not wake the receive (pitfall 11). The kernel
         * says whether there is more after these bytes, but an error does not count as more; and on a Unix socket
         * neither does FIN, which no send would find out. */
        if (result > 0 && !(flags & IORING_CQE_F_SOCK_NONEMPTY) &&
            (stream->flags & UVHTTP__STREAM_UNIX || !will_send(stream)))
            poll_reset(stream);
    }
}

/* --- sending --- */

#define SEND_NOW_FLAGS (MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL)

UVHTTP__HOT static void prepare_send(uvhttp__stream_t *stream, struct io_uring_sqe *sqe, int flags,
                                     uint32_t *segments) {
    const uvhttp__segment_t *first = stream->out_first;
    if (!first->next || !first->next->data) {
        if (uvhttp__file_follows(stream, first->next)) flags |= MSG_MORE;
        io_uring_prep_send(sqe, stream->fd, first->data, (size_t)first->size, flags);
        *segments = 1;
        return;
    }
    /* The kernel copies header and vector when it consumes the entry; the arena lasts until then. */
    char *memory = uvhttp__loop_iteration_alloc(
        stream->loop, sizeof(struct msghdr) + UVHTTP__OUT_IOV_MAX * sizeof(struct iovec) + _Alignof(struct msghdr));
    if (!memory) {
        io_uring_prep_send(sqe, stream->fd, first->data, (size_t)first->size, flags);
        *segments = 1;
        return;
    }
    uintptr_t misfit = (uintptr_t)memory % _Alignof(struct msghdr);
    struct msghdr *message = (void *)(memory + (misfit ? _Alignof(struct msghdr) - misfit : 0));
    struct iovec *iov = (void *)(message + 1);
    size_t size;
    int count = uvhttp__out_gather(stream, iov, UVHTTP__OUT_IOV_MAX, &size);
    uvhttp__loop_iteration_trim(stream->loop, (char *)(iov + count));
    *message = (struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)count};
    io_uring_prep_sendmsg(sqe, stream->fd, message, (unsigned)flags);
    *segments = (uint32_t)count;
}

/* The rest is sent when the socket is writable: from copies, by a send that waits and completes. */
static void send_later(uvhttp__stream_t *stream) {
    if (uvhttp__out_keep(stream) != UVHTTP_OK) {
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
        return;
    }
    uint32_t segments;
    struct io_uring_sqe *sqe = sqe_of(stream);
    prepare_send(stream, sqe, MSG_NOSIGNAL, &segments);
    sqe->user_data = data_of(stream, UVHTTP__URING_SEND);
    stream->flags |= UVHTTP__STREAM_SENDING;
}

static void send_file(uvhttp__stream_t *stream) {
    int status = uvhttp__out_sendfile(stream);
    if (status == UVHTTP_OK || status == UVHTTP_E_LIMIT) {
        uvhttp__out_progress(stream);
    } else if (status == UVHTTP_E_AGAIN) {
        if (uvhttp__out_keep(stream) != UVHTTP_OK) {
            uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
            return;
        }
        struct io_uring_sqe *sqe = sqe_of(stream);
        io_uring_prep_poll_add(sqe, stream->fd, POLLOUT);
        sqe->user_data = data_of(stream, UVHTTP__URING_POLL_OUT);
        stream->flags |= UVHTTP__STREAM_POLLING_OUT;
    } else {
        uvhttp__stream_ended(stream, status);
    }
}

/* The queue is not only memory that could be sent as it is. Returns whether its head is by now. */
static bool make_memory(uvhttp__stream_t *stream) {
    int status = uvhttp__stream_encodes(stream) ? uvhttp__filter_encode(stream) : UVHTTP_OK;
    if (status == UVHTTP_OK && stream->out_first && stream->out_first->data) {
        if (!(stream->flags & UVHTTP__STREAM_PASSES)) return true;
        send_later(stream); /* kernel TLS refuses MSG_WAITALL: these have a completion */
        return false;
    }
    if (status == UVHTTP_OK && uvhttp__stream_encodes(stream))
        uvhttp__out_progress(stream);
    else if (status == UVHTTP_OK)
        send_file(stream);
    if (status != UVHTTP_OK) uvhttp__stream_ended(stream, status);
    return false;
}

UVHTTP__HOT static bool is_plain(const uvhttp__stream_t *stream) {
    const uvhttp__segment_t *first = stream->out_first;
    return first->iteration && !first->next && !stream->filter && !uvhttp__stream_outcome_wanted(stream);
}

/* The segment stays unchanged until the next iteration has been drained, for on_send_plain. */
UVHTTP__HOT static void flush_plain(uvhttp__stream_t *stream) {
    uvhttp__segment_t *segment = stream->out_first;
    segment->arg = stream;
    struct io_uring_sqe *sqe = sqe_of(stream);
    io_uring_prep_send(sqe, stream->fd, segment->data, (size_t)segment->size, SEND_NOW_FLAGS);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = data_of(segment, UVHTTP__URING_SEND_PLAIN);
    stream->loop->flown_size += segment->size;
    stream->out_first = stream->out_last = NULL;
    stream->out_size = 0;
}

UVHTTP__HOT void uvhttp__uring_flush(uvhttp__stream_t *stream) {
    if (is_plain(stream)) {
        flush_plain(stream);
        return;
    }
    if ((!stream->out_first->data || stream->filter) && !make_memory(stream)) return;
    struct io_uring_sqe *sqe = sqe_of(stream);
    prepare_send(stream, sqe, SEND_NOW_FLAGS, &stream->out_flying);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = data_of(stream, UVHTTP__URING_SEND_NOW);
    stream->flags |= UVHTTP__STREAM_FLUSHED;
    uvhttp__loop_t *loop = stream->loop;
    uvhttp__list_push_back(&loop->settling, &stream->dirty);
    /* A callback waits for the outcome, or there is more to flush: continue immediately instead of waiting. */
    if (uvhttp__stream_outcome_wanted(stream) || !stream->out_last->iteration || stream->out_flying > 1)
        loop->settle_due = true;
}

/* The queue is dropped, or about to be: only the counter is left. */
static void count_last_sent(const uvhttp__stream_t *stream, int result) {
    if (result > 0) uvhttp__counters_add(stream->loop->counters, bytes_sent, (size_t)result);
}

static void on_send_now(uvhttp__stream_t *stream, int result) {
    stream->out_flying = 0;
    if (uvhttp__stream_is_over(stream)) { /* settle continues from here */
        count_last_sent(stream, result);
        return;
    }
    if (result < 0 && result != -EAGAIN && result != -EINTR) {
        broke(stream, -result, true);
        return;
    }
    if (result > 0) uvhttp__out_advance(stream, (size_t)result);
    if (!stream->out_first) return;
    if (stream->out_first->data) {
        send_later(stream);
    } else if (uvhttp__out_keep(stream) != UVHTTP_OK) {
        uvhttp__stream_ended(stream, UVHTTP_E_NOMEM);
    }
}

/* What was not accepted is put back, in front of what this iteration has queued by now. */
static void on_send_plain(uvhttp__segment_t *segment, int result) {
    uvhttp__stream_t *stream = segment->arg;
    size_t accepted = result > 0 ? (size_t)result : 0;
    segment->size -= accepted;
    segment->data += accepted;
    stream->loop->flown_size -= segment->size;
    if (uvhttp__stream_is_over(stream)) return;
    if (result < 0 && result != -EAGAIN && result != -EINTR) {
        broke(stream, -result, true);
        return;
    }
    segment->next = stream->out_first;
    stream->out_first = segment;
    if (!stream->out_last) stream->out_last = segment;
    uvhttp__out_size_add(stream, segment->size);
    send_later(stream);
}

static void on_send(uvhttp__stream_t *stream, int result) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_SENDING;
    if (uvhttp__stream_is_over(stream)) {
        count_last_sent(stream, result);
        uvhttp__out_drop(stream);
        if (uvhttp__stream_is_closing(stream)) uvhttp__uring_close(stream);
        return;
    }
    if (result < 0 && result != -EAGAIN && result != -EINTR) {
        broke(stream, -result, true);
        return;
    }
    if (result > 0) uvhttp__out_advance(stream, (size_t)result);
    if (!(stream->flags & UVHTTP__STREAM_FLUSHED)) uvhttp__out_progress(stream);
}

static void on_poll_out(uvhttp__stream_t *stream, int events) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_POLLING_OUT;
    if (uvhttp__stream_is_closing(stream))
        uvhttp__uring_close(stream);
    else if (events < 0 && events != -EINTR && events != -EAGAIN) /* the next try would end at once, too, and so on */
        uvhttp__stream_ended(stream, UVHTTP_E_ABORTED);
    else if (!uvhttp__stream_is_over(stream))
        uvhttp__out_progress(stream);
}

/* --- connecting --- */

int uvhttp__uring_connect(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint) {
    if (uvhttp__uring_of(stream->loop)->failed) return UVHTTP_E_IO;
    char *address = uvhttp__loop_iteration_alloc(stream->loop, endpoint->address_size);
    if (!address) return UVHTTP_E_NOMEM;
    memcpy(address, &endpoint->address, endpoint->address_size);
    struct io_uring_sqe *sqe = sqe_of(stream);
    io_uring_prep_connect(sqe, stream->fd, (const struct sockaddr *)(const void *)address, endpoint->address_size);
    sqe->user_data = data_of(stream, UVHTTP__URING_CONNECT);
    return UVHTTP_OK;
}

static void on_connect(uvhttp__stream_t *stream, int result) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_CONNECTING;
    if (uvhttp__stream_is_over(stream)) {
        if (uvhttp__stream_is_closing(stream)) uvhttp__uring_close(stream);
        return;
    }
    if (result < 0) uvhttp__stream_break(stream);
    stream->ops->on_connect(stream, uvhttp__connect_status(-result));
    if (result == 0 && stream->out_first && !uvhttp__stream_is_closing(stream)) uvhttp__out_progress(stream);
}

/* --- listeners --- */

/* A poll and accept4, not an accept by the ring: a multishot accept empties the whole backlog before anybody can say
 * that there is no place left, and one that was submitted before holds a place while nobody comes. The poll is armed
 * again without a system call of its own, and tells at once if somebody waits already. */
void uvhttp__uring_listener_update(uvhttp__listener_t *listener) {
    uvhttp__uring_t *uring = uvhttp__uring_of(listener->loop);
    bool want = (listener->flags & (UVHTTP__LISTENER_WANTED | UVHTTP__LISTENER_PARKED)) == UVHTTP__LISTENER_WANTED;
    bool armed = listener->flags & UVHTTP__LISTENER_ARMED;
    if (want && uring->failed) return;
    if (want && !armed) {
        listener->flags |= UVHTTP__LISTENER_ARMED;
        struct io_uring_sqe *sqe = uvhttp__uring_sqe(uring);
        io_uring_prep_poll_add(sqe, listener->fd, POLLIN);
        sqe->user_data = data_of(listener, UVHTTP__URING_ACCEPT);
    } else if (!want && armed && !(listener->flags & UVHTTP__LISTENER_CANCELLING)) {
        listener->flags |= UVHTTP__LISTENER_CANCELLING;
        struct io_uring_sqe *sqe = uvhttp__uring_sqe(uring);
        io_uring_prep_cancel64(sqe, data_of(listener, UVHTTP__URING_ACCEPT), 0);
        silent(sqe);
    } else if (!armed && (listener->flags & UVHTTP__LISTENER_CLOSING)) {
        uvhttp__listener_closed_due(listener);
    }
}

static void on_acceptable(uvhttp__listener_t *listener, int result) {
    listener->flags &= ~(uint32_t)(UVHTTP__LISTENER_ARMED | UVHTTP__LISTENER_CANCELLING);
    if (result >= 0)
        uvhttp__listener_accept(listener);
    else if (result != -ECANCELED)
        (void)uvhttp__listener_failed(listener, -result);
    if (!(listener->flags & UVHTTP__LISTENER_ARMED)) uvhttp__uring_listener_update(listener);
}

/* --- completions --- */

void uvhttp__uring_arm_wake(uvhttp__uring_t *uring) {
    struct io_uring_sqe *sqe = uvhttp__uring_sqe(uring);
    io_uring_prep_read(sqe, uring->wake_fd, &uring->wake_value, sizeof uring->wake_value, 0);
    sqe->user_data = UVHTTP__URING_INTERNAL_DATA(UVHTTP__URING_WAKE);
}

static void on_internal(uvhttp__uring_t *uring, uint64_t what) {
    if (what == UVHTTP__URING_WAKE) {
        uvhttp__counters_add(uring->loop.counters, engine_wakeups, 1);
        uvhttp__uring_arm_wake(uring);
    } else if (what == UVHTTP__URING_UV) {
        uring->uv_polled = false;
        uring->inner.due = true;
    } else if (what == UVHTTP__URING_TIMER) {
        uring->loop.timer_tick = UINT64_MAX;
    }
}

static void complete(uvhttp__uring_t *uring, uint64_t data, int result, unsigned flags) {
    void *object = (void *)(uintptr_t)(data & ~(uint64_t)UVHTTP__URING_WHAT);
    switch (data & UVHTTP__URING_WHAT) {
        case UVHTTP__URING_RECEIVE: on_receive(uring, object, result, flags); break;
        case UVHTTP__URING_SEND_NOW: on_send_now(object, result); break;
        case UVHTTP__URING_SEND_PLAIN: on_send_plain(object, result); break;
        case UVHTTP__URING_SEND: on_send(object, result); break;
        case UVHTTP__URING_POLL_OUT: on_poll_out(object, result); break;
        case UVHTTP__URING_CONNECT: on_connect(object, result); break;
        case UVHTTP__URING_ACCEPT: on_acceptable(object, result); break;
        case UVHTTP__URING_INTERNAL: on_internal(uring, data >> 4); break;
        case UVHTTP__URING_POLL_RESET: on_poll_reset(object, result); break;
        default: break;
    }
}

/* The stream and the bytes of the next completion have left the cache since they were used last: they come while this
 * one is worked on. There may be no next one; a prefetch of anything does no harm. */
UVHTTP__HOT static void prefetch_next(const uvhttp__uring_t *uring, unsigned head) {
    const struct io_uring_cqe *next = &uring->ring.cq.cqes[(head + 1) & uring->ring.cq.ring_mask];
    uintptr_t object = (uintptr_t)(next->user_data & ~(uint64_t)UVHTTP__URING_WHAT);
    for (uintptr_t line = 0; line < 256; line += 64) __builtin_prefetch((const void *)(object + line), 1);
    if (next->flags & IORING_CQE_F_BUFFER) __builtin_prefetch(buffer_at(uring, next->flags >> IORING_CQE_BUFFER_SHIFT));
}

/* A completion that the kernel had no memory to keep is lost, and with it the knowledge of what the kernel holds, what
 * was sent and what came: only a new ring would be sound. The kernel counts it before it adds the next one. */
static bool has_lost(uvhttp__uring_t *uring) {
    unsigned dropped = IO_URING_READ_ONCE(*uring->ring.cq.koverflow);
    if (__builtin_expect(dropped == uring->cq_dropped, 1)) return false;
    uring->cq_dropped = dropped;
    uring->fatal = EBADR;
    return true;
}

/* A callback may submit when the submission queue is full, and so add completions; they are seen in the same pass. When
 * the completion queue has overflowed, the kernel moves the rest over on the next call, and nothing may be settled
 * before. */
UVHTTP__HOT static bool drain(uvhttp__uring_t *uring) {
    for (unsigned count;;) {
        while ((count = io_uring_cq_ready(&uring->ring)) > 0) {
            if (has_lost(uring)) return false;
            const struct io_uring_cq *queue = &uring->ring.cq;
            unsigned head = *queue->khead;
            for (unsigned end = head + count; head != end; head++) {
                const struct io_uring_cqe *cqe = &queue->cqes[head & queue->ring_mask];
                prefetch_next(uring, head);
                complete(uring, cqe->user_data, cqe->res, cqe->flags);
            }
            io_uring_cq_advance(&uring->ring, count);
        }
        publish_buffers(uring);
        if (!io_uring_cq_has_overflow(&uring->ring)) return !has_lost(uring);
        int status = io_uring_get_events(&uring->ring);
        if (status < 0 && status != -EINTR) {
            uvhttp__uring_refused(uring, -status);
            return false;
        }
    }
}

/* Behind the drain, with all buffers back: as many receives as there are buffers. If all starved streams were armed,
 * all but these few would fail again, each time, and the work would grow with the square of the number of connections
 * that have sent. What these have to receive is there: the receives complete when they are submitted, and the loop does
 * not wait. */
static void arm_starved(uvhttp__uring_t *uring) {
    uvhttp__stream_t *stream;
    for (uint32_t left = uring->buffer_count; left > 0 && (stream = uvhttp__uring_starved_pop(uring));) {
        (void)uvhttp__uring_read_start(stream);
        if (stream->flags & UVHTTP__STREAM_READING) left--;
    }
}

UVHTTP__HOT void uvhttp__uring_collect(uvhttp__uring_t *uring) {
    uvhttp__iteration_begin(&uring->loop);
    if (__builtin_expect(uring->failed, 0)) return;
    bool all_seen = drain(uring);
    if (__builtin_expect(!all_seen || uring->fatal, 0)) uvhttp__uring_hold(uring);
    if (__builtin_expect(uring->starved_end > 0, 0)) arm_starved(uring);
    if (__builtin_expect(!uring->loop.held, 1)) uvhttp__iteration_settle(&uring->loop);
}
