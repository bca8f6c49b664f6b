/* Owns: the epoll set of a loop, and waits for descriptors that are not streams, which are in it. May include: base. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/engine.h"

static_assert(_Alignof(uvhttp__fd_wait_t) > UVHTTP__FD_WHAT, "the low bits of its address say what it is");

/* --- the set --- */

int uvhttp__fd_set_new(uvhttp__loop_t *loop) {
    struct uvhttp__fd_set *set = uvhttp__calloc(1, sizeof *set);
    if (!set) return UVHTTP_E_NOMEM;
    set->loop = loop;
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    if (set->fd < 0) {
        int status = errno == ENOMEM ? UVHTTP_E_NOMEM : UVHTTP_E_NO_DESCRIPTORS;
        uvhttp__free(set);
        return status;
    }
    loop->waited = set;
    return UVHTTP_OK;
}

int uvhttp__fd_set_poll_by_uv(struct uvhttp__fd_set *set, void (*on_readable)(void *arg), void *arg) {
    return uvhttp__fd_watcher_open(set->loop, set->fd, on_readable, arg, &set->watcher);
}

/* A message of it may still be on its way: the memory goes with the loop's. */
void uvhttp__fd_set_close(uvhttp__loop_t *loop) {
    struct uvhttp__fd_set *set = loop->waited;
    if (!set || set->fd < 0) return;
    if (set->watcher) uvhttp__fd_watcher_close(set->watcher);
    close(set->fd);
    set->fd = -1;
}

static int refusal(void) {
    switch (errno) {
        case EEXIST: return UVHTTP_E_STATE;
        case EPERM: /* a file, which is always ready */
        case EBADF: return UVHTTP_E_INVALID;
        case ENOMEM: return UVHTTP_E_NOMEM;
        case ENOSPC: return UVHTTP_E_LIMIT;
        default: return UVHTTP_E_IO;
    }
}

int uvhttp__fd_set_change(struct uvhttp__fd_set *set, int operation, int fd, uint32_t events, const void *object,
                          unsigned what) {
    struct epoll_event event = {.events = events, .data.u64 = UVHTTP__FD_DATA(object, what)};
    return epoll_ctl(set->fd, operation, fd, &event) == 0 ? UVHTTP_OK : refusal();
}

/* Somebody may have closed it: then it is gone already. */
bool uvhttp__fd_set_remove(struct uvhttp__fd_set *set, int fd) {
    return epoll_ctl(set->fd, EPOLL_CTL_DEL, fd, NULL) == 0 || errno == ENOENT || errno == EBADF;
}

UVHTTP__HOT void uvhttp__fd_set_poll(struct uvhttp__fd_set *set, int timeout_ms) {
    int count = epoll_wait(set->fd, set->events, UVHTTP__FD_EVENTS_MAX, timeout_ms);
    set->count = count > 0 ? count : 0; /* a signal, or a refusal: an iteration without events */
    set->error = count < 0 ? errno : 0;
}

/* --- waits --- */

void uvhttp__fd_wait_ready(uvhttp__fd_wait_t *wait) {
    if (!wait) return;
    uvhttp__fd_wait_stop(wait);
    wait->on_ready(wait);
}

static void look(uvhttp__post_t *post) {
    struct uvhttp__fd_set *set = UVHTTP__CONTAINER_OF(post, struct uvhttp__fd_set, post);
    set->posted = false;
    if (set->fd < 0) return;
    uvhttp__fd_set_poll(set, 0);
    for (set->at = 0; set->at < set->count; set->at++) uvhttp__fd_wait_ready(uvhttp__fd_set_object(set));
    set->count = 0;
}

/* Outside an iteration: on_ready may send responses, which requires an iteration. */
static void on_readable(void *arg) {
    struct uvhttp__fd_set *set = arg;
    if (set->posted) return;
    set->posted = true;
    uvhttp__loop_post(set->loop, &set->post);
}

/* A set that the loop does not wait for itself is made when it is first needed. */
static int need_set(uvhttp__loop_t *loop) {
    if (loop->waited) return UVHTTP_OK;
    int status = uvhttp__fd_set_new(loop);
    if (status != UVHTTP_OK) return status;
    loop->waited->post.run = look;
    status = uvhttp__fd_set_poll_by_uv(loop->waited, on_readable, loop->waited);
    if (status == UVHTTP_OK) return UVHTTP_OK;
    uvhttp__fd_set_close(loop);
    uvhttp__free(loop->waited);
    loop->waited = NULL;
    return status;
}

int uvhttp__fd_wait_start(uvhttp__loop_t *loop, uvhttp__fd_wait_t *wait, int fd, unsigned events,
                          void (*on_ready)(uvhttp__fd_wait_t *wait)) {
    int status = need_set(loop);
    if (status != UVHTTP_OK) return status;
    uint32_t wanted = (events & UVHTTP__FD_READABLE ? (uint32_t)EPOLLIN : 0) |
                      (events & UVHTTP__FD_WRITABLE ? (uint32_t)EPOLLOUT : 0) | EPOLLONESHOT;
    status = uvhttp__fd_set_change(loop->waited, EPOLL_CTL_ADD, fd, wanted, wait, UVHTTP__FD_WAIT);
    if (status != UVHTTP_OK) return status;
    *wait = (uvhttp__fd_wait_t){.loop = loop, .on_ready = on_ready, .fd = fd};
    return UVHTTP_OK;
}

void uvhttp__fd_wait_stop(uvhttp__fd_wait_t *wait) {
    if (!wait->loop) return;
    struct uvhttp__fd_set *set = wait->loop->waited;
    wait->loop = NULL;
    for (int i = set->at; i < set->count; i++)
        if (set->events[i].data.u64 == UVHTTP__FD_DATA(wait, UVHTTP__FD_WAIT))
            set->events[i].data.u64 = UVHTTP__FD_DATA(NULL, UVHTTP__FD_WAIT);
    if (uvhttp__fd_set_remove(set, wait->fd)) return;
    /* The entry remains: further events are for no wait, and are reported once. */
    (void)uvhttp__fd_set_change(set, EPOLL_CTL_MOD, wait->fd, EPOLLONESHOT, NULL, UVHTTP__FD_WAIT);
}
