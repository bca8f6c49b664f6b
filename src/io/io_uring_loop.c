/* Owns: loops on io_uring: driving a ring, either as the outer loop of a thread of our own (with a libuv loop as guest,
 * for the application's handles) or as a guest of the application's libuv loop, and the end of a ring that failed. May
 * include: base, obs, io. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/io_uring.h"

/* How often a loop whose ring has failed looks at its timers. */
#define FAILED_WAIT_MS 10

/* --- the end of a loop --- */

static void uring_free(uvhttp__uring_t *uring) {
    bool unused = uvhttp__inner_close(&uring->inner);
    if (uring->ring.ring_fd >= 0) {
        if (!uring->failed) uvhttp__uring_abandon(uring);
        uvhttp__uring_ring_close(&uring->ring);
    }
    if (uring->wake_fd >= 0) close(uring->wake_fd);
    if (uring->event_fd >= 0) close(uring->event_fd);
    uvhttp__uring_buffers_free(uring);
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
static void fail(uvhttp__uring_t *uring) {
    uvhttp__loop_t *loop = &uring->loop;
    uring->failed = loop->held = true;
    uvhttp__uring_abandon(uring);
    for (uvhttp__list_t *node; (node = uvhttp__list_pop_front(&uring->closing));)
        uvhttp__uring_close_directly(UVHTTP__CONTAINER_OF(node, uvhttp__stream_t, dirty));
    drop_flush(loop);
    disarm_listeners(loop);
    uvhttp__loop_fail(loop, "io_uring_enter", uring->fatal);
}

/* The start of a loop iteration. */
static inline void collect(uvhttp__uring_t *uring) {
    uvhttp__uring_collect(uring);
    if (UNLIKELY(uring->fatal && !uring->failed)) fail(uring);
}

/* --- guest of the application's loop --- */

static void guest_idle(uv_idle_t *idle) {
    (void)idle; /* its being active keeps the host from waiting */
}

/* What is due and needs no ring. */
static bool pending_without_ring(const uvhttp__loop_t *loop) {
    return !uvhttp__list_empty(&loop->ready) || !uvhttp__list_empty(&loop->closed) ||
           !uvhttp__list_empty(&loop->closed_listeners) || !uvhttp__mpsc_empty(&loop->posts);
}

static bool guest_busy(uvhttp__uring_t *uring) {
    if (uring->failed) return pending_without_ring(&uring->loop);
    if (uring->trouble) return false; /* the timer turns the host's loop */
    return uvhttp__iteration_pending(&uring->loop) || io_uring_cq_ready(&uring->ring) ||
           (IO_URING_READ_ONCE(*uring->ring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW));
}

static void guest_on_timer(uv_timer_t *timer) {
    uvhttp__uring_t *uring = timer->data;
    uring->loop.timer_tick = UINT64_MAX;
}

/* In trouble the call also fetches completions, because a call without entries would not be made, and show nothing. */
static void guest_submit(uvhttp__uring_t *uring) {
    if (__builtin_expect(!uring->trouble, 1))
        uvhttp__uring_submitted(uring, io_uring_submit(&uring->ring));
    else if (!uring->failed)
        uvhttp__uring_submitted(uring, io_uring_submit_and_get_events(&uring->ring));
    if (__builtin_expect(!uring->trouble, 1)) return;
    uint64_t wait_ms = uring->failed ? FAILED_WAIT_MS : (uint64_t)uvhttp__refusals_backoff_ms(&uring->refusals);
    uv_timer_start(&uring->uv_timer, guest_on_timer, wait_ms, 0);
}

/* Before the host waits. The eventfd is switched on first and the queues are looked at after, so that nothing that
 * completes in between is missed. */
static void guest_prepare(uv_prepare_t *prepare) {
    uvhttp__uring_t *uring = prepare->data;
    uvhttp__iteration_end(&uring->loop);
    if (uring->handles_open > 0) { /* it was freed in this turn: a handle that closes must not be started */
        /* The last connections close; what is not consumed is closed by uvhttp__uring_abandon. */
        if (!uring->failed) uvhttp__uring_submitted(uring, io_uring_submit(&uring->ring));
        return;
    }
    uvhttp__guest_arm_timer(&uring->loop, &uring->uv_timer, guest_on_timer);
    guest_submit(uring);
    io_uring_cq_eventfd_toggle(&uring->ring, true);
    atomic_thread_fence(memory_order_seq_cst); /* the kernel queues first and looks at the switch after */
    if (guest_busy(uring))
        uv_idle_start(&uring->idle, guest_idle);
    else
        uv_idle_stop(&uring->idle);
}

static void guest_check(uv_check_t *check) {
    uvhttp__uring_t *uring = check->data;
    io_uring_cq_eventfd_toggle(&uring->ring, false);
    if (!uring->failed && (IO_URING_READ_ONCE(*uring->ring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))) {
        int status = io_uring_get_events(&uring->ring);
        if (status < 0 && status != -EINTR) uvhttp__uring_refused(uring, -status);
    }
    collect(uring);
}

static void guest_on_event(uv_poll_t *poll_handle, int status, int events) {
    (void)status, (void)events;
    uvhttp__uring_t *uring = poll_handle->data;
    uint64_t count;
    (void)!read(uring->event_fd, &count, sizeof count); /* the check phase of this turn does the work */
}

static void guest_on_async(uv_async_t *async) {
    uvhttp__uring_t *uring = async->data;
    uvhttp__counters_add(uring->loop.counters, engine_wakeups, 1);
}

static void guest_closed(uv_handle_t *handle) {
    uvhttp__uring_t *uring = handle->data;
    if (--uring->handles_open > 0) return;
    uvhttp__loop_run_posts(&uring->loop); /* those that came while the handles closed */
    void (*on_freed)(void *) = uring->on_freed;
    void *arg = uring->on_freed_arg;
    uring_free(uring);
    if (on_freed) on_freed(arg);
}

static void guest_close_handles(uvhttp__uring_t *uring) {
    uv_handle_t *handles[] = {(uv_handle_t *)&uring->prepare, (uv_handle_t *)&uring->check,
                              (uv_handle_t *)&uring->idle,    (uv_handle_t *)&uring->uv_timer,
                              (uv_handle_t *)&uring->async,   (uv_handle_t *)&uring->poll};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        if (handles[i]->type == UV_UNKNOWN_HANDLE) continue;
        handles[i]->data = uring;
        uring->handles_open++;
        uv_close(handles[i], guest_closed);
    }
}

static int guest_start(uvhttp__uring_t *uring, uv_loop_t *embedding) {
    uring->loop.uv = embedding;
    uring->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (uring->event_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    if (io_uring_register_eventfd(&uring->ring, uring->event_fd) < 0) return UVHTTP_E_UNSUPPORTED;
    io_uring_cq_eventfd_toggle(&uring->ring, false);
    /* The order matters only for errors: poll and async can fail, and are first. */
    if (uv_poll_init(embedding, &uring->poll, uring->event_fd) != 0) return UVHTTP_E_IO;
    uring->poll.data = uring;
    if (uv_async_init(embedding, &uring->async, guest_on_async) != 0) return UVHTTP_E_IO;
    uv_prepare_init(embedding, &uring->prepare);
    uv_check_init(embedding, &uring->check);
    uv_idle_init(embedding, &uring->idle);
    uv_timer_init(embedding, &uring->uv_timer);
    uring->prepare.data = uring->check.data = uring->uv_timer.data = uring->async.data = uring;
    uv_poll_start(&uring->poll, UV_READABLE, guest_on_event);
    uv_prepare_start(&uring->prepare, guest_prepare);
    uv_check_start(&uring->check, guest_check);
    /* Only the poll keeps the host alive: as long as the loop exists there is something to serve. */
    uv_unref((uv_handle_t *)&uring->prepare);
    uv_unref((uv_handle_t *)&uring->check);
    uv_unref((uv_handle_t *)&uring->uv_timer);
    uv_unref((uv_handle_t *)&uring->async);
    return UVHTTP_OK;
}

/* --- a loop of our own --- */

static void wake(uvhttp__loop_t *loop) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (loop->is_guest)
        uv_async_send(&uring->async);
    else
        (void)!write(uring->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

static int own_start(uvhttp__uring_t *uring) {
    uring->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (uring->wake_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    uring->loop.uv = &uring->inner.uv;
    return uvhttp__inner_open(&uring->inner);
}

/* One timeout stands for the whole wheel. It is moved only when an earlier deadline comes; a later one lets it fire
 * idly. */
static void arm_timer(uvhttp__uring_t *uring) {
    uint64_t next;
    if (!uvhttp__wheel_next(&uring->loop.wheel, &next) || next >= uring->loop.timer_tick) return;
    bool armed = uring->loop.timer_tick != UINT64_MAX;
    uring->loop.timer_tick = next;
    uint64_t next_ns = next * UVHTTP__TICK_NS;
    uring->timer = (struct __kernel_timespec){.tv_sec = (long long)(next_ns / 1000000000u),
                                              .tv_nsec = (long long)(next_ns % 1000000000u)};
    struct io_uring_sqe *sqe = uvhttp__uring_sqe(uring);
    if (armed) {
        io_uring_prep_timeout_update(sqe, &uring->timer, UVHTTP__URING_INTERNAL_DATA(UVHTTP__URING_TIMER),
                                     IORING_TIMEOUT_ABS);
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
        sqe->user_data = UVHTTP__URING_IGNORE;
    } else {
        io_uring_prep_timeout(sqe, &uring->timer, 0, IORING_TIMEOUT_ABS);
        sqe->user_data = UVHTTP__URING_INTERNAL_DATA(UVHTTP__URING_TIMER);
    }
}

static void arm_uv_poll(uvhttp__uring_t *uring) {
    if (uring->uv_polled) return;
    uring->uv_polled = true;
    struct io_uring_sqe *sqe = uvhttp__uring_sqe(uring);
    io_uring_prep_poll_add(sqe, uv_backend_fd(&uring->inner.uv), POLLIN);
    sqe->user_data = UVHTTP__URING_INTERNAL_DATA(UVHTTP__URING_UV);
}

/* Waits without the ring for what the inner loop watches, signals among them, and, once the ring has failed, for
 * wake-ups. */
static void wait_without_ring(uvhttp__uring_t *uring, int wait_ms) {
    struct pollfd fds[] = {{.fd = uv_backend_fd(&uring->inner.uv), .events = POLLIN},
                           {.fd = uring->failed ? uring->wake_fd : -1, .events = POLLIN}};
    if (poll(fds, 2, wait_ms) <= 0) return; /* a signal: the inner loop looks for it in the next turn */
    if (fds[0].revents) uring->inner.due = true;
    if (fds[1].revents) (void)!read(uring->wake_fd, &uring->wake_value, sizeof uring->wake_value);
}

/* While anything is refused the call does not wait: it may succeed, and nothing would complete. */
static void submit_in_trouble(uvhttp__uring_t *uring, int uv_wait_ms) {
    if (uring->failed) {
        bool due = uv_wait_ms == 0 || pending_without_ring(&uring->loop);
        wait_without_ring(uring, due ? 0 : FAILED_WAIT_MS);
        return;
    }
    int wait_ms = uvhttp__refusals_backoff_ms(&uring->refusals);
    if (wait_ms > 0) wait_without_ring(uring, wait_ms);
    uvhttp__uring_submitted(uring, io_uring_submit_and_get_events(&uring->ring));
}

static void submit_and_wait(uvhttp__uring_t *uring, int uv_wait_ms) {
    int status;
    if (__builtin_expect(uring->trouble, 0)) {
        submit_in_trouble(uring, uv_wait_ms);
        return;
    }
    if (uv_wait_ms == 0 || uring->loop.stopping || uvhttp__iteration_pending(&uring->loop)) {
        status = io_uring_submit_and_get_events(&uring->ring);
    } else if (uv_wait_ms < 0) {
        status = io_uring_submit_and_wait(&uring->ring, 1);
    } else {
        struct __kernel_timespec wait = {.tv_sec = uv_wait_ms / 1000, .tv_nsec = (uv_wait_ms % 1000) * 1000000};
        struct io_uring_cqe *cqe;
        status = io_uring_submit_and_wait_timeout(&uring->ring, &cqe, 1, &wait, NULL);
    }
    uvhttp__uring_submitted(uring, status);
}

static bool nothing_pending(const uvhttp__uring_t *uring) {
    return uring->failed ? !pending_without_ring(&uring->loop) : !uvhttp__iteration_pending(&uring->loop);
}

UVHTTP__HOT static void loop_run(uvhttp__loop_t *loop) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (!uring->enabled) {
        uring->enabled = true;
        /* This thread is the one that submits from now on. liburing 2.3 declares the call but does not export it. */
        if (syscall(SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
            uring->fatal = errno;
        uvhttp__uring_arm_wake(uring);
    }
    (void)io_uring_register_ring_fd(&uring->ring); /* a refusal costs a look-up of the descriptor in each call */
    uvhttp__iteration_begin(loop);
    for (;;) {
        uvhttp__iteration_end(loop);
        int uv_wait_ms = uvhttp__inner_iteration(&uring->inner); /* what it sends makes the loop come back at once */
        arm_uv_poll(uring);
        arm_timer(uring);
        bool last = loop->stopping && nothing_pending(uring);
        submit_and_wait(uring, uv_wait_ms);
        collect(uring);
        if (last && (!loop->held || uring->failed)) break;
    }
    (void)io_uring_unregister_ring_fd(&uring->ring); /* else it goes with the ring */
    loop->stopping = false;
}

static int loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop) {
    uvhttp__uring_t *uring = uvhttp__calloc(1, sizeof *uring);
    if (!uring) return UVHTTP_E_NOMEM;
    uring->ring.ring_fd = uring->wake_fd = uring->event_fd = -1;
    uvhttp__list_init(&uring->closing);
    int status = uvhttp__loop_init(&uring->loop, &uvhttp__engine_uring, options);
    if (status != UVHTTP_OK) {
        uvhttp__free(uring);
        return status;
    }
    bool guest = options->embedding != NULL;
    int made = uvhttp__uring_open(uring, guest ? IORING_SETUP_TASKRUN_FLAG : IORING_SETUP_R_DISABLED);
    if (made < 0) {
        uring_free(uring);
        return UVHTTP_E_UNSUPPORTED;
    }
    status = uvhttp__uring_buffers_new(uring, options);
    if (status == UVHTTP_OK) status = guest ? guest_start(uring, options->embedding) : own_start(uring);
    if (status == UVHTTP_OK) {
        *loop = &uring->loop;
        return UVHTTP_OK;
    }
    if (guest) guest_close_handles(uring); /* frees when they have closed */
    if (!guest || uring->handles_open == 0) uring_free(uring);
    return status;
}

static void loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (loop->is_guest) {
        uring->on_freed = on_freed;
        uring->on_freed_arg = arg;
        guest_close_handles(uring);
        return;
    }
    uring_free(uring);
    if (on_freed) on_freed(arg);
}

/* --- the engine --- */

const uvhttp__engine_t uvhttp__engine_uring = {
    .name = "io_uring",
    .preflight = uvhttp__uring_preflight,
    .loop_new = loop_new,
    .loop_run = loop_run,
    .loop_free = loop_free,
    .wake = wake,
    .read_start = uvhttp__uring_read_start,
    .read_stop = uvhttp__uring_read_stop,
    .flush = uvhttp__uring_flush,
    .close = uvhttp__uring_close,
    .connect = uvhttp__uring_connect,
    .listener_open = uvhttp__uring_listener_update,
    .listener_update = uvhttp__uring_listener_update,
};
