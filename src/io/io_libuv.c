/* Owns: the engine on libuv, for loops of our own and as a guest of the application's loop. Sockets are watched by
 * uv_poll_t and read and written here, so that a keep-alive request costs one recv and one send, and the interest in a
 * socket is not touched while things go well. May include: base, obs.
 *
 * One iteration of the libuv loop is one turn: it begins with the first callback after polling and ends in uv_prepare,
 * that is, after all that polling, checks, timers and idle handles of the application have done. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "io/engine.h"

enum {
    ACCEPTS_PER_EVENT = 64,       /* a storm of connections must not keep the others waiting */
    RECEIVE_SIZE_MIN = 64 * 1024, /* one buffer serves the whole loop: there is no point in a small one */
    SEND_TURN_MAX = 1024 * 1024,  /* bytes of memory that one stream may send in a turn, as UVHTTP__FILE_TURN_MAX */
    HANDLE_COUNT = 5,             /* handles of a loop that are closed with it */
};

/* A flag of this engine's own: the peer hung up while reading was stopped. What it sent is read on resume; until then a
 * level-triggered hang-up would wake the loop for ever and is not waited for. */
#define HANG_UP_SEEN (UINT32_C(1) << 31)

typedef struct libuv_loop {
    uvhttp__loop_t common; /* first */
    uv_loop_t own;         /* unused by a guest */
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active while the loop must not wait */
    uv_timer_t timer;
    uvhttp__fine_timer_t *fine_timer; /* for a deadline between two ms of a loop of our own; NULL before the first */
    uv_async_t async;
    uvhttp__slab_t polls; /* uv_poll_t */
    char *receive_buffer;
    size_t receive_size; /* bytes */
    void (*on_freed)(void *arg);
    void *freed_arg;
    int handles_open;
    bool in_turn;
    bool freeing;
} libuv_loop_t;

static libuv_loop_t *loop_of(uvhttp__loop_t *loop) {
    return (libuv_loop_t *)loop;
}

/* --- turns --- */

static void turn_enter(libuv_loop_t *loop) {
    if (loop->in_turn) return;
    loop->in_turn = true;
    uvhttp__turn_begin(&loop->common);
}

static void on_due(void *arg) {
    libuv_loop_t *loop = arg;
    loop->common.timer_tick = UINT64_MAX;
    turn_enter(loop); /* the end of the turn, in the next uv_prepare, looks at the wheel */
}

static void on_timer(uv_timer_t *timer) {
    on_due(timer->data);
}

/* Whether the fine timer is there for a deadline. Without it, and on the application's loop, that is rounded up. */
static bool wants_fine_timer(libuv_loop_t *loop, uint64_t deadline) {
    if (deadline % UVHTTP__TICKS_PER_MS == 0 || loop->common.is_guest) return false;
    if (loop->fine_timer) return true;
    return uvhttp__fine_timer_new(&loop->common, on_due, loop, &loop->fine_timer) == UVHTTP_OK;
}

/* Deadlines move away with every request: the timer then fires early, once, and is set anew. Only an earlier deadline
 * than the one it is set to makes it start again at once. */
static void arm_timer(libuv_loop_t *loop) {
    uint64_t next = 0;
    if (!uvhttp__wheel_next(&loop->common.wheel, &next) || next >= loop->common.timer_tick) return;
    loop->common.timer_tick = next;
    if (wants_fine_timer(loop, next)) {
        uvhttp__fine_timer_set(loop->fine_timer, next * UVHTTP__TICK_NS);
        return;
    }
    uint64_t next_ms = (next + UVHTTP__TICKS_PER_MS - 1) / UVHTTP__TICKS_PER_MS;
    uint64_t now_ms = uv_now(loop->common.uv); /* the same clock, read by libuv when it last woke */
    uv_timer_start(&loop->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

static void on_idle(uv_idle_t *idle) {
    (void)idle; /* that it is active is what counts: libuv polls without waiting */
}

static void on_check(uv_check_t *check) {
    turn_enter(check->data);
}

static void turn_leave(libuv_loop_t *loop) {
    turn_enter(loop);
    uvhttp__turn_settle(&loop->common);
    uvhttp__turn_end(&loop->common);
    loop->in_turn = false;
}

static void on_prepare(uv_prepare_t *prepare) {
    libuv_loop_t *loop = prepare->data;
    turn_leave(loop);
    if (loop->freeing) return; /* the handles are closing: nothing may be started again */
    arm_timer(loop);
    if (uvhttp__turn_pending(&loop->common)) {
        uv_idle_start(&loop->idle, on_idle);
    } else {
        uv_idle_stop(&loop->idle);
    }
    if (loop->common.stopping && !loop->common.is_guest) uv_stop(loop->common.uv);
}

static void on_async(uv_async_t *async) {
    libuv_loop_t *loop = async->data;
    turn_enter(loop);
    uvhttp__counters_add(loop->common.counters, engine_wakeups, 1);
}

static void wake(uvhttp__loop_t *loop) {
    uv_async_send(&loop_of(loop)->async);
}

/* --- interest --- */

static void on_stream_event(uv_poll_t *poll, int status, int events);

static uv_poll_t *poll_new(uvhttp__loop_t *loop, int fd, void *data) {
    uv_poll_t *poll = uvhttp__slab_alloc(&loop_of(loop)->polls);
    if (!poll) return NULL;
    if (uv_poll_init(loop->uv, poll, fd) != 0) {
        uvhttp__slab_free(&loop_of(loop)->polls, poll);
        return NULL;
    }
    poll->data = data;
    return poll;
}

/* Makes libuv wait for what the flags say. Costs two system calls: called only when they have changed. */
static int update_interest(uvhttp__stream_t *stream) {
    uint32_t flags = stream->flags;
    int events = 0;
    if (flags & (UVHTTP__STREAM_POLLING_OUT | UVHTTP__STREAM_CONNECTING)) events |= UV_WRITABLE;
    if (flags & UVHTTP__STREAM_READING) {
        events |= UV_READABLE;
    } else if (!(flags & (UVHTTP__STREAM_ENDED | UVHTTP__STREAM_CONNECTING | HANG_UP_SEEN))) {
        events |= UV_DISCONNECT; /* a reset is seen although nobody reads */
    }
    if (flags & UVHTTP__STREAM_BROKEN) events = 0;
    if (!stream->engine) {
        if (events == 0) return UVHTTP_OK;
        stream->engine = poll_new(stream->loop, stream->fd, stream);
        if (!stream->engine) return UVHTTP_E_NOMEM;
    }
    return uv_poll_start(stream->engine, events, on_stream_event) == 0 ? UVHTTP_OK : UVHTTP_E_IO;
}

static void end_stream(uvhttp__stream_t *stream, int status) {
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    if (status != UVHTTP_OK) {
        stream->flags |= UVHTTP__STREAM_BROKEN;
        stream->flags &= ~(uint32_t)UVHTTP__STREAM_POLLING_OUT; /* after a FIN, what is queued still goes out */
    }
    stream->flags |= UVHTTP__STREAM_ENDED;
    update_interest(stream);
    uvhttp__stream_ended(stream, status);
}

/* --- receiving --- */

static void stream_opened(uvhttp__stream_t *stream) {
    (void)stream; /* its handle is made when something is waited for */
}

static int read_start(uvhttp__stream_t *stream) {
    if (stream->flags & (UVHTTP__STREAM_READING | UVHTTP__STREAM_ENDED | UVHTTP__STREAM_CLOSING)) return UVHTTP_OK;
    stream->flags |= UVHTTP__STREAM_READING;
    stream->flags &= ~HANG_UP_SEEN;
    int status = update_interest(stream);
    if (status != UVHTTP_OK) stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    return status;
}

static void read_stop(uvhttp__stream_t *stream) {
    if (!(stream->flags & UVHTTP__STREAM_READING)) return;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_READING;
    update_interest(stream);
}

/* One recv in a turn: polling is level-triggered, so what is left comes in the next one, after everybody else's. */
static void receive(uvhttp__stream_t *stream) {
    libuv_loop_t *loop = loop_of(stream->loop);
    ssize_t got = recv(stream->fd, loop->receive_buffer, loop->receive_size, MSG_DONTWAIT);
    if (got > 0) {
        if (!uvhttp__stream_received(stream, loop->receive_buffer, (size_t)got) &&
            !(stream->flags & UVHTTP__STREAM_CLOSING)) {
            read_stop(stream);
        }
    } else if (got == 0) {
        end_stream(stream, UVHTTP_OK);
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        end_stream(stream, UVHTTP_E_ABORTED);
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
    if (status != UVHTTP_OK) end_stream(stream, status);
}

/* Sends what is gathered from the head of the queue. Returns 0, UVHTTP_E_AGAIN or UVHTTP_E_ABORTED; *sent in bytes. */
static int send_memory(uvhttp__stream_t *stream, size_t *sent) {
    struct iovec iov[UVHTTP__OUT_IOV_MAX];
    size_t size = 0;
    int count = uvhttp__out_gather(stream, iov, UVHTTP__OUT_IOV_MAX, &size);
    /* Further pieces follow: the kernel fills its packets. Not before a file: a client that has the head already is
     * awake when the file comes, and takes its share of the work (docs/static.md). */
    bool more = count == UVHTTP__OUT_IOV_MAX && size < stream->out_size &&
                !(stream->flags & UVHTTP__STREAM_PASSES); /* the kernel would hold a record back for ever */
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    ssize_t taken;
    do {
        if (count == 1) {
            taken = send(stream->fd, iov[0].iov_base, iov[0].iov_len, flags);
        } else {
            taken = sendmsg(stream->fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)count}, flags);
        }
    } while (taken < 0 && errno == EINTR);
    *sent = taken > 0 ? (size_t)taken : 0;
    if (taken < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? UVHTTP_E_AGAIN : UVHTTP_E_ABORTED;
    uvhttp__out_advance(stream, *sent);
    return *sent < size ? UVHTTP_E_AGAIN : UVHTTP_OK;
}

static void stop_polling_out(uvhttp__stream_t *stream) {
    if (!(stream->flags & UVHTTP__STREAM_POLLING_OUT)) return;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_POLLING_OUT;
    update_interest(stream);
}

/* What comes next has yet to be brought: the stream is handed over again when it is. */
static void wait_source(uvhttp__stream_t *stream) {
    stop_polling_out(stream);
    int status = uvhttp__out_keep(stream);
    if (status != UVHTTP_OK) end_stream(stream, status);
}

/* All is sent, or the share of this turn is used up. Only a stream that has something to be told about or to go on with
 * is looked at again: the others, which are most, must not keep the loop from waiting. */
static void flushed(uvhttp__stream_t *stream) {
    if (!stream->out_first) stop_polling_out(stream);
    if (stream->out_first || (stream->flags & (UVHTTP__STREAM_NOTIFY | UVHTTP__STREAM_SHUT_WANTED))) {
        uvhttp__out_progress(stream);
    }
}

/* Lets the filter encode. If that is not the first time in this hand-over, what was encoded before is sent by now, and
 * its turn memory, which begins at *begin, can be used again. */
static int encode(uvhttp__stream_t *stream, char **begin, const char **end) {
    uvhttp__loop_t *loop = stream->loop;
    bool same_chunk = (uintptr_t)loop->turn_end >= (uintptr_t)*begin && (uintptr_t)loop->turn_end <= (uintptr_t)*end;
    if (*begin && same_chunk) uvhttp__loop_turn_trim(loop, *begin);
    *begin = loop->turn_at;
    *end = loop->turn_end;
    return uvhttp__filter_encode(stream);
}

/* Sends until the queue is empty, the socket full or the share of this turn used up. */
UVHTTP__HOT static void hand_over(uvhttp__stream_t *stream) {
    int status = UVHTTP_OK;
    size_t share = SEND_TURN_MAX;
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
        } else if (uvhttp__out_waits(stream)) {
            wait_source(stream);
            return;
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
        end_stream(stream, status);
    } else {
        flushed(stream);
    }
}

/* --- connecting --- */

static int start_connect(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint) {
    int failed = 0;
    do {
        failed = connect(stream->fd, &endpoint->address.any, endpoint->address_size);
    } while (failed && errno == EINTR);
    if (failed && errno != EINPROGRESS) return uvhttp__connect_status(errno);
    return update_interest(stream); /* writable at once if it is connected already: on_connect comes from the turn */
}

static void finish_connect(uvhttp__stream_t *stream) {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_CONNECTING;
    if (error != 0) { /* on_connect is the news: on_end would be the same once more */
        stream->flags |= UVHTTP__STREAM_BROKEN | UVHTTP__STREAM_END_TOLD | UVHTTP__STREAM_BREAK_TOLD;
        uvhttp__out_drop(stream);
    }
    update_interest(stream);
    stream->ops->on_connect(stream, uvhttp__connect_status(error));
    if (error == 0 && !(stream->flags & UVHTTP__STREAM_CLOSING)) flushed(stream); /* what was queued meanwhile */
}

/* --- events of a stream --- */

static void on_stream_event(uv_poll_t *poll, int status, int events) {
    uvhttp__stream_t *stream = poll->data;
    turn_enter(loop_of(stream->loop));
    if (stream->flags & UVHTTP__STREAM_CONNECTING) {
        finish_connect(stream);
        return;
    }
    if (status != 0) { /* libuv's word for EPOLLERR */
        end_stream(stream, UVHTTP_E_ABORTED);
        return;
    }
    if (events & UV_READABLE) {
        receive(stream);
    } else if (events & UV_DISCONNECT) {
        stream->flags |= HANG_UP_SEEN;
        update_interest(stream);
    }
    if (!(events & UV_WRITABLE) || (stream->flags & (UVHTTP__STREAM_CLOSING | UVHTTP__STREAM_BROKEN))) return;
    if (stream->flags & UVHTTP__STREAM_POLLING_OUT) hand_over(stream);
}

/* --- closing --- */

static void on_poll_closed(uv_handle_t *handle) {
    uvhttp__stream_t *stream = handle->data;
    close(stream->fd); /* only now: libuv would mistake a new socket of the same number for this one */
    uvhttp__slab_free(&loop_of(stream->loop)->polls, handle);
    stream->engine = NULL;
    uvhttp__stream_closed_due(stream);
}

static void close_stream(uvhttp__stream_t *stream) {
    if (stream->engine) {
        uv_close((uv_handle_t *)stream->engine, on_poll_closed);
        return;
    }
    close(stream->fd);
    uvhttp__stream_closed_due(stream);
}

/* --- listeners --- */

/* Errors of accept(2) that concern the connection, not the listener: the next one may be fine. */
static bool is_transient(int error) {
    switch (error) {
        case EINTR:
        case ECONNABORTED:
        case EPERM:
        case EPROTO:
        case ENETDOWN:
        case ENETUNREACH:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ETIMEDOUT: return true;
        default: return false;
    }
}

static void listener_update(uvhttp__listener_t *listener);

static void on_listener_event(uv_poll_t *poll, int status, int events) {
    uvhttp__listener_t *listener = poll->data;
    (void)events;
    turn_enter(loop_of(listener->loop));
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        if ((listener->flags & (UVHTTP__LISTENER_WANTED | UVHTTP__LISTENER_PARKED)) != UVHTTP__LISTENER_WANTED) break;
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->ops->on_accept(listener, fd);
            continue;
        }
        int error = errno;
        if (error == EAGAIN || error == EWOULDBLOCK) break;
        if (is_transient(error)) continue;
        /* What is not known to pass is waited out like a lack of memory: polling is level-triggered and would spin. */
        uvhttp__listener_failed(listener, error == EMFILE || error == ENFILE ? error : ENOMEM);
        listener_update(listener);
        return;
    }
    if (status != 0) { /* libuv has stopped polling on EPOLLERR, which accept has cleared */
        listener->flags &= ~(uint32_t)UVHTTP__LISTENER_ARMED;
        listener_update(listener);
    }
}

static void on_listener_closed(uv_handle_t *handle) {
    uvhttp__listener_t *listener = handle->data;
    uvhttp__slab_free(&loop_of(listener->loop)->polls, handle);
    listener->engine = NULL;
    uvhttp__listener_closed_due(listener);
}

static void listener_update(uvhttp__listener_t *listener) {
    uint32_t flags = listener->flags;
    if (flags & UVHTTP__LISTENER_CLOSING) {
        if (flags & UVHTTP__LISTENER_CANCELLING) return;
        listener->flags |= UVHTTP__LISTENER_CANCELLING;
        if (listener->engine) {
            uv_close((uv_handle_t *)listener->engine, on_listener_closed);
            return;
        }
        uvhttp__listener_closed_due(listener);
        return;
    }
    bool arm = (flags & UVHTTP__LISTENER_WANTED) && !(flags & UVHTTP__LISTENER_PARKED);
    if (arm && !(flags & UVHTTP__LISTENER_ARMED)) {
        if (!listener->engine) listener->engine = poll_new(listener->loop, listener->fd, listener);
        if (listener->engine && uv_poll_start(listener->engine, UV_READABLE, on_listener_event) == 0) {
            listener->flags |= UVHTTP__LISTENER_ARMED;
        } else {
            uvhttp__listener_failed(listener, ENOMEM);
        }
    } else if (!arm && (flags & UVHTTP__LISTENER_ARMED)) {
        uv_poll_stop(listener->engine);
        listener->flags &= ~(uint32_t)UVHTTP__LISTENER_ARMED;
    }
}

/* --- life of a loop --- */

static bool preflight(char *reason, size_t size) {
    snprintf(reason, size, "libuv %s works everywhere", uv_version_string());
    return true;
}

static void loop_release(libuv_loop_t *loop) {
    if (loop->receive_buffer) uvhttp__free(loop->receive_buffer);
    uvhttp__slab_deinit(&loop->polls);
    uvhttp__loop_deinit(&loop->common);
    uvhttp__free(loop);
}

/* Of the calls that start the handles only uv_async_init can fail: it comes first, so that there is nothing to unwind.
 */
static int handles_start(libuv_loop_t *loop) {
    uv_loop_t *uv = loop->common.uv;
    int error = uv_async_init(uv, &loop->async, on_async);
    if (error != 0) return error == UV_ENOMEM ? UVHTTP_E_NOMEM : UVHTTP_E_IO;
    uv_prepare_init(uv, &loop->prepare);
    uv_check_init(uv, &loop->check);
    uv_idle_init(uv, &loop->idle);
    uv_timer_init(uv, &loop->timer);
    loop->async.data = loop->prepare.data = loop->check.data = loop->idle.data = loop->timer.data = loop;
    uv_prepare_start(&loop->prepare, on_prepare);
    uv_check_start(&loop->check, on_check);
    /* The async handle alone keeps the host's loop alive, until uvhttp__loop_free: nothing else has to be counted. */
    uv_unref((uv_handle_t *)&loop->prepare);
    uv_unref((uv_handle_t *)&loop->check);
    uv_unref((uv_handle_t *)&loop->idle);
    uv_unref((uv_handle_t *)&loop->timer);
    loop->handles_open = HANDLE_COUNT;
    return UVHTTP_OK;
}

static int loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **made) {
    libuv_loop_t *loop = uvhttp__calloc(1, sizeof *loop);
    if (!loop) return UVHTTP_E_NOMEM;
    int status = uvhttp__loop_init(&loop->common, &uvhttp__engine_libuv, options);
    if (status != UVHTTP_OK) {
        uvhttp__free(loop);
        return status;
    }
    uvhttp__slab_init(&loop->polls, sizeof(uv_poll_t));
    loop->receive_size = options->receive_buffer_size;
    if (loop->receive_size < RECEIVE_SIZE_MIN) loop->receive_size = RECEIVE_SIZE_MIN;
    loop->receive_buffer = uvhttp__malloc(loop->receive_size);
    status = loop->receive_buffer ? UVHTTP_OK : UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK && !options->host) {
        int error = uv_loop_init(&loop->own);
        if (error != 0) status = error == UV_ENOMEM ? UVHTTP_E_NOMEM : UVHTTP_E_IO;
    }
    if (status == UVHTTP_OK) {
        loop->common.uv = options->host ? options->host : &loop->own;
        status = handles_start(loop);
        if (status != UVHTTP_OK && !options->host) uv_loop_close(&loop->own);
    }
    if (status != UVHTTP_OK) {
        loop_release(loop);
        return status;
    }
    *made = &loop->common;
    return UVHTTP_OK;
}

static void loop_run(uvhttp__loop_t *common) {
    libuv_loop_t *loop = loop_of(common);
    assert(!common->is_guest);
    while (!common->stopping) uv_run(common->uv, UV_RUN_DEFAULT);
    while (!uvhttp__mpsc_empty(&common->posts)) turn_leave(loop); /* messages that were under way when it stopped */
    common->stopping = false;
}

static void on_handle_closed(uv_handle_t *handle) {
    libuv_loop_t *loop = handle->data;
    if (--loop->handles_open > 0 || !loop->common.is_guest) return;
    turn_leave(loop);
    void (*on_freed)(void *) = loop->on_freed;
    void *arg = loop->freed_arg;
    loop_release(loop);
    if (on_freed) on_freed(arg);
}

static void loop_free(uvhttp__loop_t *common, void (*on_freed)(void *arg), void *arg) {
    libuv_loop_t *loop = loop_of(common);
    assert(common->stream_count == 0 && uvhttp__list_empty(&common->listeners) && !loop->freeing);
    loop->freeing = true;
    loop->on_freed = on_freed;
    loop->freed_arg = arg;
    if (loop->fine_timer) uvhttp__fine_timer_free(loop->fine_timer);
    uv_close((uv_handle_t *)&loop->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&loop->check, on_handle_closed);
    uv_close((uv_handle_t *)&loop->idle, on_handle_closed);
    uv_close((uv_handle_t *)&loop->timer, on_handle_closed);
    uv_close((uv_handle_t *)&loop->async, on_handle_closed);
    if (common->is_guest) return;
    while (loop->handles_open > 0) uv_run(common->uv, UV_RUN_NOWAIT);
    int error = uv_loop_close(common->uv);
    if (error != 0) { /* the application has left handles of its own open: their memory must not go */
        UVHTTP_LOG_ERROR("io: a loop is freed while the application's handles on it are open; it leaks");
        assert(error == 0);
        return;
    }
    loop_release(loop);
    if (on_freed) on_freed(arg);
}

const uvhttp__engine_t uvhttp__engine_libuv = {
    .name = "libuv",
    .preflight = preflight,
    .loop_new = loop_new,
    .loop_run = loop_run,
    .loop_free = loop_free,
    .wake = wake,
    .stream_opened = stream_opened,
    .read_start = read_start,
    .read_stop = read_stop,
    .hand_over = hand_over,
    .close = close_stream,
    .connect = start_connect,
    .listener_open = listener_update,
    .listener_update = listener_update,
};
