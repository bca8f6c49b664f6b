/* Owns: io_uring in a libuv loop of the application: the ring is submitted before that loop waits, and an eventfd wakes
 * it for completions. May include: base, obs, io. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/io_uring.h"
#include "io/uv_embed.h"

static void guest_idle(uv_idle_t *idle) {
    (void)idle; /* an active idle handle keeps the embedding loop from waiting */
}

static bool guest_busy(uvhttp__uring_t *uring) {
    if (uring->failed) return uvhttp__uring_pending_without_ring(&uring->loop);
    if (uring->trouble) return false; /* the timer wakes the embedding loop */
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
    uint64_t wait_ms =
        uring->failed ? UVHTTP__URING_FAILED_WAIT_MS : (uint64_t)uvhttp__refusals_backoff_ms(&uring->refusals);
    uv_timer_start(&uring->uv_timer, guest_on_timer, wait_ms, 0);
}

/* Runs before the embedding loop waits. The eventfd is enabled before the queues are checked, so that no completion in
 * between is missed. */
static void guest_prepare(uv_prepare_t *prepare) {
    uvhttp__uring_t *uring = prepare->data;
    uvhttp__uv_embed_enter(&uring->loop);
    uvhttp__iteration_end(&uring->loop);
    uvhttp__uv_embed_leave(&uring->loop);
    if (uring->handles_open > 0) { /* it was freed in this iteration: a closing handle must not be started */
        /* The last connections close; uvhttp__uring_abandon closes descriptors of completions that are not consumed. */
        if (!uring->failed) uvhttp__uring_submitted(uring, io_uring_submit(&uring->ring));
        return;
    }
    uvhttp__uv_embed_arm_timer(&uring->loop, &uring->uv_timer, guest_on_timer);
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
    uvhttp__uv_embed_enter(&uring->loop);
    io_uring_cq_eventfd_toggle(&uring->ring, false);
    if (!uring->failed && (IO_URING_READ_ONCE(*uring->ring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))) {
        int status = io_uring_get_events(&uring->ring);
        if (status < 0 && status != -EINTR) uvhttp__uring_refused(uring, -status);
    }
    uvhttp__uring_iterate(uring);
    uvhttp__uv_embed_leave(&uring->loop);
}

static void guest_on_event(uv_poll_t *poll_handle, int status, int events) {
    (void)status, (void)events;
    uvhttp__uring_t *uring = poll_handle->data;
    uint64_t count;
    (void)!read(uring->event_fd, &count, sizeof count); /* the check phase of this iteration does the work */
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
    uvhttp__uring_free(uring);
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

int uvhttp__uv_embed_uring_start(uvhttp__uring_t *uring, uv_loop_t *embedding) {
    uring->loop.uv = embedding;
    uring->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (uring->event_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    int registered = io_uring_register_eventfd(&uring->ring, uring->event_fd);
    if (registered < 0) {
        errno = -registered;
        return UVHTTP_E_UNSUPPORTED;
    }
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
    /* Only the poll keeps the embedding loop alive: as long as the loop exists there is something to serve. */
    uv_unref((uv_handle_t *)&uring->prepare);
    uv_unref((uv_handle_t *)&uring->check);
    uv_unref((uv_handle_t *)&uring->uv_timer);
    uv_unref((uv_handle_t *)&uring->async);
    return UVHTTP_OK;
}

void uvhttp__uv_embed_uring_wake(uvhttp__uring_t *uring) {
    uv_async_send(&uring->async);
}

void uvhttp__uv_embed_uring_free(uvhttp__uring_t *uring, void (*on_freed)(void *arg), void *arg) {
    uring->on_freed = on_freed;
    uring->on_freed_arg = arg;
    guest_close_handles(uring);
    if (uring->handles_open == 0) uvhttp__uring_free(uring); /* its start has failed before the first handle */
}
