/* Owns: a timer finer than the wheel's millisecond: a timerfd that the loop's libuv, which is its guest, watches. May
 * include: base, io. */
#include <sys/timerfd.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "io/io.h"

struct uvhttp__fine_timer {
    uv_poll_t poll;
    int fd;
};

/* That the loop turns is all that is wanted. Setting the time again takes back that the descriptor is readable. */
static void on_due(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    uvhttp__fine_timer_set(poll->data, 0);
}

static void on_closed(uv_handle_t *handle) {
    uvhttp__free(handle->data);
}

int uvhttp__fine_timer_new(uvhttp__loop_t *loop, uvhttp__fine_timer_t **timer) {
    uvhttp__fine_timer_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    made->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (made->fd < 0 || uv_poll_init(loop->uv, &made->poll, made->fd) != 0) {
        if (made->fd >= 0) close(made->fd);
        uvhttp__free(made);
        return UVHTTP_E_IO;
    }
    made->poll.data = made;
    uv_poll_start(&made->poll, UV_READABLE, on_due);
    *timer = made;
    return UVHTTP_OK;
}

void uvhttp__fine_timer_set(uvhttp__fine_timer_t *timer, uint64_t deadline_ns) {
    const struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)}};
    (void)timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &time, NULL);
}

void uvhttp__fine_timer_free(uvhttp__fine_timer_t *timer) {
    uv_poll_stop(&timer->poll);
    close(timer->fd);
    uv_close((uv_handle_t *)&timer->poll, on_closed);
}
