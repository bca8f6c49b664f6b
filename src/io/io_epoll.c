/* Owns: streams and listeners on epoll, and the end of a loop: one set per loop, whose events point at streams and
 * listeners, so that a socket costs no memory of ours. Sockets are read and written here. A keep-alive request costs
 * one recv and one send, and does not change the interest in a socket. The loops that drive it are in io_epoll_loop.c
 * and uv_embed_epoll.c. May include: base, obs, io.
 *
 * An event is one of a batch: an earlier event may have closed or changed its stream. A stream lives until the end of
 * the iteration in which it is closed, so its states and flags tell whether the event still counts. */
#include "io/io_epoll.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"

enum {
    SEND_ITERATION_MAX =
        1024 * 1024, /* bytes of memory that one stream may send in an iteration, as UVHTTP__FILE_ITERATION_MAX */
};

/* Flags of this engine's own. */
/* The loop's set has the descriptor. No flag says so: it is removed when nothing is waited for, which may fail. */
#define IN_SET (UINT32_C(1) << 30)
/* The peer's FIN was received, or arrived while reading was stopped: then its bytes are read on resume. Meanwhile a
 * level-triggered hang-up would wake the loop forever and is not waited for. */
#define HANG_UP_SEEN (UINT32_C(1) << 31)

/* --- interest --- */

static void leave_set(uvhttp__stream_t *stream) {
    if (!(stream->flags & IN_SET)) return;
    /* If it stays in, its close ends that; an event meanwhile comes here again. */
    if (uvhttp__fd_set_remove(stream->loop->waited, stream->fd)) stream->flags &= ~IN_SET;
}

/* Makes the loop wait for what the flags say. Costs a system call: called only when they have changed. Returns as
 * uvhttp__fd_set_change. */
static int update_interest(uvhttp__stream_t *stream) {
    uint32_t flags = stream->flags;
    uint32_t events = 0;
    if (flags & (UVHTTP__STREAM_POLLING_OUT | UVHTTP__STREAM_CONNECTING)) events |= EPOLLOUT;
    if (flags & UVHTTP__STREAM_READING) {
        events |= EPOLLIN;
    } else if (!(flags & (UVHTTP__STREAM_CONNECTING | HANG_UP_SEEN))) {
        events |= EPOLLRDHUP; /* a reset is seen although nobody reads */
    }
    if (uvhttp__stream_is_over(stream)) events = 0;
    if (events == 0) { /* it leaves: of hang-ups and errors the set would tell all the same */
        leave_set(stream);
        return UVHTTP_OK;
    }
    int operation = flags & IN_SET ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    int status = uvhttp__fd_set_change(stream->loop->waited, operation, stream->fd, events, stream, UVHTTP__FD_STREAM);
    if (status == UVHTTP_OK) stream->flags |= IN_SET;
    return status;
}

static void break_stream(uvhttp__stream_t *stream, int status) {
    stream->flags &= ~(uint32_t)(UVHTTP__STREAM_READING | UVHTTP__STREAM_POLLING_OUT);
    leave_set(stream);
    uvhttp__stream_ended(stream, status);
}

/* For changes whose failure is not reported otherwise: the loop would wake forever, or never. */
static bool change_interest(uvhttp__stream_t *stream) {
    if (update_interest(stream) == UVHTTP_OK) return true;
    break_stream(stream, UVHTTP_E_ABORTED);
    return false;
}

/* --- receiving --- */

int uvhttp__epoll_read_start(uvhttp__stream_t *stream) {
    if (stream->flags & (UVHTTP__STREAM_READING | UVHTTP__STREAM_FIN)) return UVHTTP_OK;
    if (uvhttp__stream_is_over(stream)) return UVHTTP_OK;
    stream->flags |= UVHTTP__STREAM_READING;
    stream->flags &= ~HANG_UP_SEEN;
    int status = update_interest(stream);
    if (status != UVHTTP_OK) stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    return status;
}

static void stop_receive(uvhttp__stream_t *stream) {
    if (!(stream->flags & UVHTTP__STREAM_READING)) return;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    (void)change_interest(stream);
}

/* What is queued still goes out. */
static void on_fin(uvhttp__stream_t *stream) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    stream->flags |= HANG_UP_SEEN;
    if (change_interest(stream)) uvhttp__stream_ended(stream, UVHTTP_OK);
}

/* One recv per iteration: polling is level-triggered, so the rest follows in the next one, after all other streams. */
UVHTTP__HOT static void receive(uvhttp__stream_t *stream) {
    uvhttp__epoll_t *epoll = uvhttp__epoll_of(stream->loop);
    ssize_t got = recv(stream->fd, epoll->receive_buffer, epoll->receive_size, MSG_DONTWAIT);
    if (got > 0) {
        if (!uvhttp__stream_received(stream, epoll->receive_buffer, (size_t)got) &&
            !uvhttp__stream_is_closing(stream)) {
            stop_receive(stream);
        }
    } else if (got == 0) {
        on_fin(stream);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        uvhttp__stream_note_error(stream, errno, false);
        break_stream(stream, UVHTTP_E_ABORTED);
    }
}

/* --- sending --- */

/* The kernel is full: what stands in turn memory is copied, the rest goes when the socket is writable. */
static void wait_writable(uvhttp__stream_t *stream) {
    int status = uvhttp__out_keep(stream);
    if (status == UVHTTP_OK && !(stream->flags & UVHTTP__STREAM_POLLING_OUT)) {
        stream->flags |= UVHTTP__STREAM_POLLING_OUT;
        status = update_interest(stream);
    }
    if (status != UVHTTP_OK) break_stream(stream, status);
}

/* Sends what is gathered from the head of the queue. Returns 0, UVHTTP_E_AGAIN or UVHTTP_E_ABORTED; *sent in bytes. */
static int send_memory(uvhttp__stream_t *stream, size_t *sent) {
    struct iovec iov[UVHTTP__OUT_IOV_MAX];
    size_t size = 0;
    int count = uvhttp__out_gather(stream, iov, UVHTTP__OUT_IOV_MAX, &size);
    /* Further pieces follow: the kernel fills its packets. Not before any file: it may have to be read first, and a
     * client that has the head already is awake when a large one comes (docs/internals/decisions.md). */
    bool more = count == UVHTTP__OUT_IOV_MAX && size < stream->out_size &&
                !(stream->flags & UVHTTP__STREAM_PASSES); /* the kernel would hold a record back forever */
    more = more || (count == 1 && uvhttp__file_follows(stream, stream->out_first->next));
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t accepted;
    do {
        if (count == 1) {
            accepted = send(stream->fd, iov[0].iov_base, iov[0].iov_len, flags);
        } else {
            accepted = sendmsg(stream->fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)count}, flags);
        }
    } while (accepted < 0 && errno == EINTR);
    *sent = accepted > 0 ? (size_t)accepted : 0;
    if (accepted < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return UVHTTP_E_AGAIN;
    if (accepted < 0) {
        uvhttp__stream_note_error(stream, errno, true);
        return UVHTTP_E_ABORTED;
    }
    uvhttp__out_advance(stream, *sent);
    return *sent < size ? UVHTTP_E_AGAIN : UVHTTP_OK;
}

static void stop_polling_out(uvhttp__stream_t *stream) {
    if (!(stream->flags & UVHTTP__STREAM_POLLING_OUT)) return;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_POLLING_OUT;
    (void)change_interest(stream);
}

/* Everything is sent, or the share of this iteration is used up. Only a stream with a callback or more output is
 * visited again. The others, which are the majority, must not keep the loop from waiting. */
static void flushed(uvhttp__stream_t *stream) {
    if (!stream->out_first) stop_polling_out(stream);
    if (uvhttp__stream_is_over(stream)) return;
    if (stream->out_first || uvhttp__stream_outcome_wanted(stream)) uvhttp__out_progress(stream);
}

/* Lets the filter encode. On a second call in this flush, what was encoded before has been sent, and its arena memory,
 * which starts at *begin, can be reused. */
static int encode(uvhttp__stream_t *stream, char **begin, const char **end) {
    uvhttp__loop_t *loop = stream->loop;
    bool same_chunk =
        (uintptr_t)loop->iteration_end >= (uintptr_t)*begin && (uintptr_t)loop->iteration_end <= (uintptr_t)*end;
    if (*begin && same_chunk) uvhttp__loop_iteration_trim(loop, *begin);
    *begin = loop->iteration_at;
    *end = loop->iteration_end;
    return uvhttp__filter_encode(stream);
}

/* Sends until the queue is empty, the socket full or the share of this iteration used up. */
UVHTTP__HOT void uvhttp__epoll_flush(uvhttp__stream_t *stream) {
    int status = UVHTTP_OK;
    size_t share = SEND_ITERATION_MAX;
    char *encoded = NULL;
    const char *encoded_end = NULL;
    if (uvhttp__stream_encodes(stream))
        status = encode(stream, &encoded, &encoded_end); /* behind what it has queued itself */
    while (status == UVHTTP_OK && stream->out_first) {
        if (stream->out_first->data) {
            size_t sent = 0;
            status = send_memory(stream, &sent);
            share -= sent < share ? sent : share;
            if (status == UVHTTP_OK && share == 0 && stream->out_first) status = UVHTTP_E_LIMIT;
        } else if (uvhttp__stream_encodes(stream)) {
            status = encode(stream, &encoded, &encoded_end);
        } else {
            status = uvhttp__out_sendfile(stream);
        }
    }
    if (status == UVHTTP_E_LIMIT) status = uvhttp__out_keep(stream);
    if (status == UVHTTP_E_AGAIN) {
        wait_writable(stream);
    } else if (status != UVHTTP_OK) {
        break_stream(stream, status);
    } else {
        flushed(stream);
    }
}

/* --- connecting --- */

int uvhttp__epoll_connect(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint) {
    int failed = 0;
    do {
        failed = connect(stream->fd, &endpoint->address.any, endpoint->address_size);
    } while (failed && errno == EINTR);
    if (failed && errno != EINPROGRESS) return uvhttp__connect_status(errno);
    return update_interest(
        stream); /* writable immediately if it is already connected: on_connect comes from the iteration */
}

static void finish_connect(uvhttp__stream_t *stream) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_CONNECTING;
    if (error == 0 && update_interest(stream) != UVHTTP_OK) error = ENOMEM;
    if (error != 0) { /* on_connect is the news: on_end would be the same once more */
        uvhttp__stream_break(stream);
        leave_set(stream);
    }
    stream->ops->on_connect(stream, uvhttp__connect_status(error));
    if (error == 0 && !uvhttp__stream_is_closing(stream)) flushed(stream); /* what was queued meanwhile */
}

/* --- events of a stream --- */

UVHTTP__HOT static void on_stream_event(uvhttp__stream_t *stream, uint32_t events) {
    if (uvhttp__stream_is_over(stream)) return; /* since the batch was reported */
    if (stream->flags & UVHTTP__STREAM_CONNECTING) {
        finish_connect(stream);
        return;
    }
    if (events & EPOLLERR) {
        uvhttp__stream_note_error(stream, 0, false);
        break_stream(stream, UVHTTP_E_ABORTED);
        return;
    }
    if (events & EPOLLHUP) events |= EPOLLIN | EPOLLRDHUP | EPOLLOUT; /* a call says what has happened */
    if (stream->flags & UVHTTP__STREAM_READING) {
        if (events & EPOLLIN) receive(stream);
    } else if ((events & EPOLLRDHUP) && !(stream->flags & HANG_UP_SEEN)) {
        stream->flags |= HANG_UP_SEEN;
        (void)change_interest(stream);
    }
    if (!(events & EPOLLOUT) || uvhttp__stream_is_over(stream)) return;
    if (stream->flags & UVHTTP__STREAM_POLLING_OUT) uvhttp__epoll_flush(stream);
}

void uvhttp__epoll_close(uvhttp__stream_t *stream) {
    leave_set(stream);
    close(stream->fd);
    uvhttp__stream_closed_due(stream);
}

/* --- listeners --- */

void uvhttp__epoll_listener_update(uvhttp__listener_t *listener) {
    struct uvhttp__fd_set *set = listener->loop->waited;
    bool wanted = (listener->flags & (UVHTTP__LISTENER_WANTED | UVHTTP__LISTENER_PARKED)) == UVHTTP__LISTENER_WANTED;
    if (wanted && !(listener->flags & UVHTTP__LISTENER_ARMED)) {
        if (uvhttp__fd_set_change(set, EPOLL_CTL_ADD, listener->fd, EPOLLIN, listener, UVHTTP__FD_LISTENER) ==
            UVHTTP_OK) {
            listener->flags |= UVHTTP__LISTENER_ARMED;
        } else {
            (void)uvhttp__listener_failed(listener, ENOMEM);
        }
    } else if (!wanted && (listener->flags & UVHTTP__LISTENER_ARMED)) {
        if (uvhttp__fd_set_remove(set, listener->fd)) listener->flags &= ~(uint32_t)UVHTTP__LISTENER_ARMED;
    }
    if (listener->flags & UVHTTP__LISTENER_CLOSING) uvhttp__listener_closed_due(listener);
}

static void on_listener_event(uvhttp__listener_t *listener) {
    if ((listener->flags & (UVHTTP__LISTENER_WANTED | UVHTTP__LISTENER_PARKED)) != UVHTTP__LISTENER_WANTED) {
        /* In the batch still, or the set has not let it go. */
        if (!(listener->flags & UVHTTP__LISTENER_CLOSING)) uvhttp__epoll_listener_update(listener);
        return;
    }
    uvhttp__listener_accept(listener);
    if (listener->flags & UVHTTP__LISTENER_PARKED) uvhttp__epoll_listener_update(listener);
}

/* --- all events --- */

UVHTTP__HOT void uvhttp__epoll_drain(uvhttp__epoll_t *epoll) {
    struct uvhttp__fd_set *set = epoll->loop.waited;
    for (set->at = 0; set->at < set->count; set->at++) {
        void *object = uvhttp__fd_set_object(set);
        switch (set->events[set->at].data.u64 & UVHTTP__FD_WHAT) {
            case UVHTTP__FD_STREAM: on_stream_event(object, set->events[set->at].events); break;
            case UVHTTP__FD_LISTENER: on_listener_event(object); break;
            case UVHTTP__FD_WAIT: uvhttp__fd_wait_ready(object); break;
            case UVHTTP__FD_WAKE: uvhttp__counters_add(epoll->loop.counters, engine_wakeups, 1); break;
            case UVHTTP__FD_TIMER: epoll->loop.timer_tick = UINT64_MAX; break;
            case UVHTTP__FD_UV: epoll->inner.due = true; break;
            default: break;
        }
    }
    set->count = 0;
}

/* --- refusals --- */

/* A signal is not a refusal. */
void uvhttp__epoll_look_at_refusal(uvhttp__epoll_t *epoll) {
    int error = epoll->loop.waited->error;
    if (error == 0 || error == EINTR)
        uvhttp__refusals_end(&epoll->refusals);
    else if (uvhttp__refusals_add(&epoll->refusals, &epoll->loop, "epoll_wait", error) && !epoll->loop.failure)
        uvhttp__loop_fail(&epoll->loop, "epoll_wait", error);
}

/* --- the end --- */

void uvhttp__epoll_free(uvhttp__epoll_t *epoll) {
    bool unused = uvhttp__inner_close(&epoll->inner);
    uvhttp__fd_set_close(&epoll->loop);
    if (epoll->wake_fd >= 0) close(epoll->wake_fd);
    if (epoll->timer_fd >= 0) close(epoll->timer_fd);
    uvhttp__free(epoll->receive_buffer);
    uvhttp__loop_deinit(&epoll->loop);
    if (unused) uvhttp__free(epoll); /* else the application's handles point at it */
}
