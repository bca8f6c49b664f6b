/* Owns: what wakes a loop for a deadline between two milliseconds: a timerfd that it polls. May include: base, io. */
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/engine.h"

struct uvhttp__fine_timer {
    uvhttp__fd_watcher_t *watcher;
    int fd;
};

/* Setting the time again takes back that the descriptor is readable. */
static void on_readable(void *arg) {
    uvhttp__fine_timer_set(arg, 0);
}

int uvhttp__fine_timer_new(uvhttp__loop_t *loop, uvhttp__fine_timer_t **timer) {
    uvhttp__fine_timer_t *made = uvhttp__calloc(1, sizeof *made);
    if (!made) return UVHTTP_E_NOMEM;
    made->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    int status =
        made->fd < 0 ? UVHTTP_E_IO : uvhttp__fd_watcher_open(loop, made->fd, on_readable, made, &made->watcher);
    if (status == UVHTTP_OK) {
        *timer = made;
        return UVHTTP_OK;
    }
    if (made->fd >= 0) close(made->fd);
    uvhttp__free(made);
    return status;
}

void uvhttp__fine_timer_set(uvhttp__fine_timer_t *timer, uint64_t deadline_ns) {
    const struct itimerspec time = {
        .it_value = {.tv_sec = (time_t)(deadline_ns / 1000000000u), .tv_nsec = (long)(deadline_ns % 1000000000u)}};
    (void)timerfd_settime(timer->fd, TFD_TIMER_ABSTIME, &time, NULL);
}

void uvhttp__fine_timer_free(uvhttp__fine_timer_t *timer) {
    uvhttp__fd_watcher_close(timer->watcher);
    close(timer->fd);
    uvhttp__free(timer);
}
