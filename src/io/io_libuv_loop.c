/* Owns: loops of the epoll engine. They drive the epoll set of io_libuv.c in one of two ways. The outer loop of a
 * thread of our own contains a libuv loop for the application's handles. A guest of the application's libuv loop has
 * the set polled as one descriptor. May include: base, obs, io. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "io/io_libuv.h"

enum {
    RECEIVE_SIZE_MIN = 64 * 1024, /* one buffer serves the whole loop: there is no point in a small one */
    HANDLE_COUNT = 4,             /* handles of a guest that are closed with it */
};

/* --- refusals --- */

/* Whether epoll_wait(2) continues to refuse. A signal is not a refusal. */
static void look_at_refusal(uvhttp__libuv_t *libuv) {
    int error = libuv->loop.waited->error;
    if (error == 0 || error == EINTR)
        uvhttp__refusals_end(&libuv->refusals);
    else if (uvhttp__refusals_add(&libuv->refusals, &libuv->loop, "epoll_wait", error) && !libuv->loop.failure)
        uvhttp__loop_fail(&libuv->loop, "epoll_wait", error);
}

/* --- guest of the application's loop --- */

/* One iteration of the embedding loop is one iteration here. It starts with the first of our callbacks after polling,
 * and ends in uv_prepare: after all polling, check, timer and idle handles of the application. */
static void guest_enter(uvhttp__libuv_t *libuv) {
    if (libuv->in_turn) return;
    libuv->in_turn = true;
    uvhttp__turn_begin(&libuv->loop);
}

static void guest_leave(uvhttp__libuv_t *libuv) {
    guest_enter(libuv);
    uvhttp__turn_settle(&libuv->loop);
    uvhttp__turn_end(&libuv->loop);
    libuv->in_turn = false;
}

static void guest_on_timer(uv_timer_t *timer) {
    uvhttp__libuv_t *libuv = timer->data;
    libuv->loop.timer_tick = UINT64_MAX;
    guest_enter(libuv); /* the end of the iteration, in the next uv_prepare, checks the wheel */
}

static void guest_idle(uv_idle_t *idle) {
    (void)idle; /* that it is active is what counts: libuv polls without waiting */
}

static void guest_check(uv_check_t *check) {
    guest_enter(check->data);
}

static void guest_prepare(uv_prepare_t *prepare) {
    uvhttp__libuv_t *libuv = prepare->data;
    guest_leave(libuv);
    if (libuv->freeing) return; /* the handles are closing: nothing may be started again */
    uvhttp__guest_arm_timer(&libuv->loop, &libuv->timer, guest_on_timer);
    if (uvhttp__turn_pending(&libuv->loop)) {
        uv_idle_start(&libuv->idle, guest_idle);
    } else {
        uv_idle_stop(&libuv->idle);
    }
}

static void guest_on_readable(void *arg) {
    uvhttp__libuv_t *libuv = arg;
    guest_enter(libuv);
    uvhttp__fd_set_poll(libuv->loop.waited, 0);
    if (__builtin_expect(libuv->refusals.count > 0 || libuv->loop.waited->error, 0)) look_at_refusal(libuv);
    uvhttp__libuv_drain(libuv);
}

/* Only uvhttp__fd_set_watch can fail: it comes first, so that there is nothing to unwind. */
static int guest_start(uvhttp__libuv_t *libuv, uv_loop_t *host) {
    libuv->loop.uv = host;
    int status = uvhttp__fd_set_watch(libuv->loop.waited, guest_on_readable, libuv);
    if (status != UVHTTP_OK) return status;
    uv_prepare_init(host, &libuv->prepare);
    uv_check_init(host, &libuv->check);
    uv_idle_init(host, &libuv->idle);
    uv_timer_init(host, &libuv->timer);
    libuv->prepare.data = libuv->check.data = libuv->idle.data = libuv->timer.data = libuv;
    uv_prepare_start(&libuv->prepare, guest_prepare);
    uv_check_start(&libuv->check, guest_check);
    /* Only the prepare handle keeps the embedding loop alive, until uvhttp__loop_free: no other handle needs a
     * reference. */
    uv_unref((uv_handle_t *)&libuv->check);
    uv_unref((uv_handle_t *)&libuv->idle);
    uv_unref((uv_handle_t *)&libuv->timer);
    libuv->handles_open = HANDLE_COUNT;
    return UVHTTP_OK;
}

/* --- a loop of our own --- */

/* Made when it is first needed; as with the eventfd, nobody has to read it. */
static int timer_open(uvhttp__libuv_t *libuv) {
    libuv->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (libuv->timer_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    int status = uvhttp__fd_set_change(libuv->loop.waited, EPOLL_CTL_ADD, libuv->timer_fd, EPOLLIN | EPOLLET, NULL,
                                       UVHTTP__FD_TIMER);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    close(libuv->timer_fd);
    libuv->timer_fd = -1;
    return status;
}

/* epoll waits for whole milliseconds. Returns whether the timer wakes the loop at a deadline between two. */
static bool arm_timer(uvhttp__libuv_t *libuv, uint64_t deadline) {
    if (deadline % UVHTTP__TICKS_PER_MS == 0) return false;
    if (deadline >= libuv->loop.timer_tick) return true;
    if (libuv->timer_fd < 0 && timer_open(libuv) != UVHTTP_OK) return false;
    uint64_t deadline_ns = deadline * UVHTTP__TICK_NS;
    const struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)}};
    if (timerfd_settime(libuv->timer_fd, TFD_TIMER_ABSTIME, &time, NULL) != 0) return false;
    libuv->loop.timer_tick = deadline;
    return true;
}

/* Returns how long the loop may wait: ms, or -1 for forever. */
UVHTTP__HOT static int wait_ms(uvhttp__libuv_t *libuv) {
    int uv_wait_ms = uvhttp__inner_turn(&libuv->inner);
    uint64_t next = 0;
    if (uv_wait_ms == 0 || uvhttp__turn_pending(&libuv->loop)) return 0;
    if (!uvhttp__wheel_next(&libuv->loop.wheel, &next)) return uv_wait_ms;
    uint64_t now_ns = uvhttp__clock_ns(); /* the iteration may have lasted long */
    if (next <= now_ns / UVHTTP__TICK_NS) return 0;
    if (arm_timer(libuv, next)) return uv_wait_ms;
    uint64_t left_ms = (next + UVHTTP__TICKS_PER_MS - 1) / UVHTTP__TICKS_PER_MS - now_ns / 1000000u;
    int limit_ms = uv_wait_ms < 0 ? INT_MAX : uv_wait_ms;
    return left_ms < (uint64_t)limit_ms ? (int)left_ms : limit_ms;
}

/* After a refusal: waits for what the inner loop polls, including signals, until the next try. */
static void wait_otherwise(uvhttp__libuv_t *libuv) {
    struct pollfd uv = {.fd = uv_backend_fd(&libuv->inner.uv), .events = POLLIN};
    if (libuv->refusals.count > 0 && poll(&uv, 1, uvhttp__refusals_backoff_ms(&libuv->refusals)) > 0)
        libuv->inner.due = true;
}

UVHTTP__HOT static void loop_run(uvhttp__loop_t *loop) {
    uvhttp__libuv_t *libuv = uvhttp__libuv_of(loop);
    assert(!loop->is_guest);
    uvhttp__turn_begin(loop);
    for (;;) {
        uvhttp__turn_end(loop);
        int timeout_ms = wait_ms(libuv);
        if (loop->stopping && !uvhttp__turn_pending(loop)) break;
        uvhttp__fd_set_poll(loop->waited, timeout_ms);
        if (__builtin_expect(libuv->refusals.count > 0 || loop->waited->error, 0)) {
            look_at_refusal(libuv);
            wait_otherwise(libuv);
        }
        uvhttp__turn_begin(loop);
        uvhttp__libuv_drain(libuv);
        uvhttp__turn_settle(loop);
    }
    loop->stopping = false;
}

static int own_start(uvhttp__libuv_t *libuv) {
    int status = uvhttp__inner_open(&libuv->inner);
    if (status != UVHTTP_OK) return status;
    libuv->loop.uv = &libuv->inner.uv;
    return uvhttp__fd_set_change(libuv->loop.waited, EPOLL_CTL_ADD, uv_backend_fd(&libuv->inner.uv), EPOLLIN, NULL,
                                 UVHTTP__FD_UV);
}

/* --- life --- */

static void wake(uvhttp__loop_t *loop) {
    (void)!write(uvhttp__libuv_of(loop)->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

static void libuv_release(uvhttp__libuv_t *libuv) {
    bool unused = uvhttp__inner_close(&libuv->inner);
    uvhttp__fd_set_close(&libuv->loop);
    if (libuv->wake_fd >= 0) close(libuv->wake_fd);
    if (libuv->timer_fd >= 0) close(libuv->timer_fd);
    uvhttp__free(libuv->receive_buffer);
    uvhttp__loop_deinit(&libuv->loop);
    if (unused) uvhttp__free(libuv); /* else the application's handles point at it */
}

static int wake_open(uvhttp__libuv_t *libuv) {
    libuv->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (libuv->wake_fd < 0) return UVHTTP_E_NO_DESCRIPTORS;
    return uvhttp__fd_set_change(libuv->loop.waited, EPOLL_CTL_ADD, libuv->wake_fd, EPOLLIN | EPOLLET, NULL,
                                 UVHTTP__FD_WAKE);
}

static int loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop) {
    uvhttp__libuv_t *libuv = uvhttp__calloc(1, sizeof *libuv);
    if (!libuv) return UVHTTP_E_NOMEM;
    libuv->wake_fd = libuv->timer_fd = -1;
    int status = uvhttp__loop_init(&libuv->loop, &uvhttp__engine_libuv, options);
    if (status != UVHTTP_OK) {
        uvhttp__free(libuv);
        return status;
    }
    libuv->receive_size = options->receive_buffer_size;
    if (libuv->receive_size < RECEIVE_SIZE_MIN) libuv->receive_size = RECEIVE_SIZE_MIN;
    libuv->receive_buffer = uvhttp__malloc(libuv->receive_size);
    status = libuv->receive_buffer ? uvhttp__fd_set_new(&libuv->loop) : UVHTTP_E_NOMEM;
    if (status == UVHTTP_OK) status = wake_open(libuv);
    if (status == UVHTTP_OK) status = options->host ? guest_start(libuv, options->host) : own_start(libuv);
    if (status != UVHTTP_OK) {
        libuv_release(libuv);
        return status;
    }
    *loop = &libuv->loop;
    return UVHTTP_OK;
}

static void guest_on_closed(uv_handle_t *handle) {
    uvhttp__libuv_t *libuv = handle->data;
    if (--libuv->handles_open > 0) return;
    guest_leave(libuv);
    uvhttp__loop_run_posts(&libuv->loop); /* messages posted by this iteration's messages */
    void (*on_freed)(void *) = libuv->on_freed;
    void *arg = libuv->freed_arg;
    libuv_release(libuv);
    if (on_freed) on_freed(arg);
}

static void loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg) {
    uvhttp__libuv_t *libuv = uvhttp__libuv_of(loop);
    assert(loop->stream_count == 0 && uvhttp__list_empty(&loop->listeners) && !libuv->freeing);
    if (loop->is_guest) {
        libuv->freeing = true;
        libuv->on_freed = on_freed;
        libuv->freed_arg = arg;
        uv_close((uv_handle_t *)&libuv->prepare, guest_on_closed);
        uv_close((uv_handle_t *)&libuv->check, guest_on_closed);
        uv_close((uv_handle_t *)&libuv->idle, guest_on_closed);
        uv_close((uv_handle_t *)&libuv->timer, guest_on_closed);
        return;
    }
    libuv_release(libuv);
    if (on_freed) on_freed(arg);
}

/* --- the engine --- */

static bool preflight(char *reason, size_t size) {
    snprintf(reason, size, "libuv %s works everywhere", uv_version_string());
    return true;
}

const uvhttp__engine_t uvhttp__engine_libuv = {
    .name = "libuv",
    .preflight = preflight,
    .loop_new = loop_new,
    .loop_run = loop_run,
    .loop_free = loop_free,
    .wake = wake,
    .read_start = uvhttp__libuv_read_start,
    .read_stop = uvhttp__libuv_read_stop,
    .hand_over = uvhttp__libuv_hand_over,
    .close = uvhttp__libuv_close,
    .connect = uvhttp__libuv_connect,
    .listener_open = uvhttp__libuv_listener_update,
    .listener_update = uvhttp__libuv_listener_update,
};
