/* Owns: loops on io_uring: driving a ring as the outer loop of a thread of our own, with a libuv loop inside for the
 * application's handles. uv_embed_uring.c has a ring driven by the application's loop. May include: base, obs, io. */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/io_uring.h"
#include "io/uv_embed.h"

/* --- a loop of our own --- */

static void wake(uvhttp__loop_t *loop) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (loop->is_guest)
        uvhttp__uv_embed_uring_wake(uring);
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

/* Waits without the ring for what the inner loop polls, including signals, and, once the ring has failed, for wake-ups.
 */
static void wait_without_ring(uvhttp__uring_t *uring, int wait_ms) {
    struct pollfd fds[] = {{.fd = uv_backend_fd(&uring->inner.uv), .events = POLLIN},
                           {.fd = uring->failed ? uring->wake_fd : -1, .events = POLLIN}};
    if (poll(fds, 2, wait_ms) <= 0) return; /* a signal: the inner loop looks for it in the next iteration */
    if (fds[0].revents) uring->inner.due = true;
    if (fds[1].revents) (void)!read(uring->wake_fd, &uring->wake_value, sizeof uring->wake_value);
}

/* While anything is refused the call does not wait: it may succeed, and nothing would complete. */
static void submit_in_trouble(uvhttp__uring_t *uring, int uv_wait_ms) {
    if (uring->failed) {
        bool due = uv_wait_ms == 0 || uvhttp__uring_pending_without_ring(&uring->loop);
        wait_without_ring(uring, due ? 0 : UVHTTP__URING_FAILED_WAIT_MS);
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
    return uring->failed ? !uvhttp__uring_pending_without_ring(&uring->loop) : !uvhttp__iteration_pending(&uring->loop);
}

/* This thread is the one that submits from now on. liburing 2.3 declares the call but does not export it. */
static int loop_enter(uvhttp__loop_t *loop) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (uring->enabled) return UVHTTP_OK;
    uring->enabled = true;
    if (syscall(SYS_io_uring_register, uring->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
        uring->fatal = errno;
    uvhttp__uring_arm_wake(uring);
    return uring->fatal ? UVHTTP_E_IO : UVHTTP_OK;
}

UVHTTP__HOT static void loop_run(uvhttp__loop_t *loop) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    (void)loop_enter(loop);                        /* a ring that has failed ends the first iteration */
    (void)io_uring_register_ring_fd(&uring->ring); /* a refusal costs a look-up of the descriptor in each call */
    uvhttp__iteration_begin(loop);
    for (;;) {
        uvhttp__iteration_end(loop);
        int uv_wait_ms = uvhttp__inner_iteration(&uring->inner); /* what it sends makes the loop come back at once */
        arm_uv_poll(uring);
        arm_timer(uring);
        bool last = loop->stopping && nothing_pending(uring);
        submit_and_wait(uring, uv_wait_ms);
        uvhttp__uring_iterate(uring);
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
        uvhttp__uring_free(uring);
        errno = -made;
        return made == -EMFILE || made == -ENFILE ? UVHTTP_E_NO_DESCRIPTORS : UVHTTP_E_UNSUPPORTED;
    }
    status = uvhttp__uring_buffers_new(uring, options);
    if (status == UVHTTP_OK)
        status = guest ? uvhttp__uv_embed_uring_start(uring, options->embedding) : own_start(uring);
    if (status == UVHTTP_OK) {
        *loop = &uring->loop;
        return UVHTTP_OK;
    }
    int error = errno;
    if (guest)
        uvhttp__uv_embed_uring_free(uring, NULL, NULL);
    else
        uvhttp__uring_free(uring);
    errno = error;
    return status;
}

static void loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__uring_t *uring = uvhttp__uring_of(loop);
    if (loop->is_guest) {
        uvhttp__uv_embed_uring_free(uring, on_freed, arg);
        return;
    }
    uvhttp__uring_free(uring);
    if (on_freed) on_freed(arg);
}

/* --- the engine --- */

const uvhttp__engine_t uvhttp__engine_uring = {
    .name = "io_uring",
    .preflight = uvhttp__uring_preflight,
    .loop_new = loop_new,
    .loop_enter = loop_enter,
    .loop_run = loop_run,
    .loop_free = loop_free,
    .wake = wake,
    .read_start = uvhttp__uring_read_start,
    .flush = uvhttp__uring_flush,
    .close = uvhttp__uring_close,
    .connect = uvhttp__uring_connect,
    .listener_open = uvhttp__uring_listener_update,
    .listener_update = uvhttp__uring_listener_update,
};
