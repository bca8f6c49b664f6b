/* Owns: loops of the epoll engine. They drive the epoll set of io_epoll.c as the outer loop of a thread of our own,
 * which contains a libuv loop for the application's handles. uv_embed_epoll.c has it driven by the application's loop.
 * May include: base, obs, io. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/io_epoll.h"
#include "io/uv_embed.h"

/* One buffer serves the whole loop: there is no point in a small one. */
#define RECEIVE_SIZE_MIN (64 * 1024)

/* --- a loop of our own --- */

/* Made when it is first needed; as with the eventfd, nobody has to read it. */
static int timer_open(uvhttp__epoll_t *epoll) {
    epoll->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (epoll->timer_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    int status = uvhttp__fd_set_change(epoll->loop.waited, EPOLL_CTL_ADD, epoll->timer_fd, EPOLLIN | EPOLLET, NULL,
                                       UVHTTP__FD_TIMER);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    close(epoll->timer_fd);
    epoll->timer_fd = -1;
    return status;
}

/* epoll waits for whole milliseconds. Returns whether the timer wakes the loop at a deadline between two. */
static bool arm_timer(uvhttp__epoll_t *epoll, uint64_t deadline) {
    if (deadline % UVHTTP__TICKS_PER_MS == 0) return false;
    if (deadline >= epoll->loop.timer_tick) return true;
    if (epoll->timer_fd < 0 && timer_open(epoll) != UVHTTP_OK) return false;
    uint64_t deadline_ns = deadline * UVHTTP__TICK_NS;
    const struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)}};
    if (timerfd_settime(epoll->timer_fd, TFD_TIMER_ABSTIME, &time, NULL) != 0) return false;
    epoll->loop.timer_tick = deadline;
    return true;
}

/* Returns how long the loop may wait: ms, or -1 for forever. */
UVHTTP__HOT static int wait_ms(uvhttp__epoll_t *epoll) {
    int uv_wait_ms = uvhttp__inner_iteration(&epoll->inner);
    uint64_t next = 0;
    if (uv_wait_ms == 0 || uvhttp__iteration_pending(&epoll->loop)) return 0;
    if (!uvhttp__wheel_next(&epoll->loop.wheel, &next)) return uv_wait_ms;
    uint64_t now_ns = uvhttp__clock_ns(); /* the iteration may have lasted long */
    if (next <= now_ns / UVHTTP__TICK_NS) return 0;
    if (arm_timer(epoll, next)) return uv_wait_ms;
    uint64_t left_ms = (next + UVHTTP__TICKS_PER_MS - 1) / UVHTTP__TICKS_PER_MS - now_ns / 1000000u;
    int limit_ms = uv_wait_ms < 0 ? INT_MAX : uv_wait_ms;
    return left_ms < (uint64_t)limit_ms ? (int)left_ms : limit_ms;
}

/* After a refusal: waits for what the inner loop polls, including signals, until the next try. */
static void wait_otherwise(uvhttp__epoll_t *epoll) {
    struct pollfd uv = {.fd = uv_backend_fd(&epoll->inner.uv), .events = POLLIN};
    if (epoll->refusals.count > 0 && poll(&uv, 1, uvhttp__refusals_backoff_ms(&epoll->refusals)) > 0)
        epoll->inner.due = true;
}

UVHTTP__HOT static void loop_run(uvhttp__loop_t *loop) {
    uvhttp__epoll_t *epoll = uvhttp__epoll_of(loop);
    assert(!loop->is_guest);
    uvhttp__iteration_begin(loop);
    for (;;) {
        uvhttp__iteration_end(loop);
        int timeout_ms = wait_ms(epoll);
        if (loop->stopping && !uvhttp__iteration_pending(loop)) break;
        uvhttp__fd_set_poll(loop->waited, timeout_ms);
        if (__builtin_expect(epoll->refusals.count > 0 || loop->waited->error, 0)) {
            uvhttp__epoll_look_at_refusal(epoll);
            wait_otherwise(epoll);
        }
        uvhttp__iteration_begin(loop);
        uvhttp__epoll_drain(epoll);
        uvhttp__iteration_settle(loop);
    }
    loop->stopping = false;
}

static int own_start(uvhttp__epoll_t *epoll) {
    int status = uvhttp__inner_open(&epoll->inner);
    if (status != UVHTTP_OK) return status;
    epoll->loop.uv = &epoll->inner.uv;
    return uvhttp__fd_set_change(epoll->loop.waited, EPOLL_CTL_ADD, uv_backend_fd(&epoll->inner.uv), EPOLLIN, NULL,
                                 UVHTTP__FD_UV);
}

/* --- life --- */

static void wake(uvhttp__loop_t *loop) {
    (void)!write(uvhttp__epoll_of(loop)->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

static int wake_open(uvhttp__epoll_t *epoll) {
    epoll->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll->wake_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    return uvhttp__fd_set_change(epoll->loop.waited, EPOLL_CTL_ADD, epoll->wake_fd, EPOLLIN | EPOLLET, NULL,
                                 UVHTTP__FD_WAKE);
}

static int loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop) {
    uvhttp__epoll_t *epoll = uvhttp__calloc(1, sizeof *epoll);
    if (!epoll) return UVHTTP_E_NOMEM;
    epoll->wake_fd = epoll->timer_fd = -1;
    int status = uvhttp__loop_init(&epoll->loop, &uvhttp__engine_epoll, options);
    if (status != UVHTTP_OK) {
        uvhttp__free(epoll);
        return status;
    }
    epoll->receive_size = options->receive_buffer_size;
    if (epoll->receive_size < RECEIVE_SIZE_MIN) epoll->receive_size = RECEIVE_SIZE_MIN;
    epoll->receive_buffer = uvhttp__malloc(epoll->receive_size);
    status = epoll->receive_buffer ? uvhttp__fd_set_new(&epoll->loop) : UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK) status = wake_open(epoll);
    if (status == UVHTTP_OK)
        status = options->embedding ? uvhttp__uv_embed_epoll_start(epoll, options->embedding) : own_start(epoll);
    if (status != UVHTTP_OK) {
        uvhttp__epoll_free(epoll);
        return status;
    }
    *loop = &epoll->loop;
    return UVHTTP_OK;
}

static void loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__epoll_t *epoll = uvhttp__epoll_of(loop);
    assert(loop->stream_count == 0 && uvhttp__list_empty(&loop->listeners) && !epoll->freeing);
    if (loop->is_guest) {
        uvhttp__uv_embed_epoll_free(epoll, on_freed, arg);
        return;
    }
    uvhttp__epoll_free(epoll);
    if (on_freed) on_freed(arg);
}

/* --- the engine --- */

static bool preflight(char *reason, size_t size) {
    snprintf(reason, size, "epoll is part of every Linux");
    return true;
}

const uvhttp__engine_t uvhttp__engine_epoll = {
    .name = "epoll",
    .preflight = preflight,
    .loop_new = loop_new,
    .loop_run = loop_run,
    .loop_free = loop_free,
    .wake = wake,
    .read_start = uvhttp__epoll_read_start,
    .flush = uvhttp__epoll_flush,
    .close = uvhttp__epoll_close,
    .connect = uvhttp__epoll_connect,
    .listener_open = uvhttp__epoll_listener_update,
    .listener_update = uvhttp__epoll_listener_update,
};
