/* Owns: waits for descriptors that are not streams: all of a loop are in one epoll set, which the loop watches as one
 * descriptor, so that they are the same on both engines and nothing has to be closed later. May include: base. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/engine.h"

#define EVENTS_MAX 64

struct uvhttp__fd_set {
    uvhttp__loop_t *loop;
    uvhttp__watch_t *watch;
    uvhttp__post_t post;
    int fd;    /* -1: closed */
    int at;    /* the event that is being looked at, of `count` */
    int count; /* 0: none is */
    bool posted;
    struct epoll_event events[EVENTS_MAX];
};

static uint32_t epoll_events(unsigned events) {
    return (events & UVHTTP__FD_READABLE ? (uint32_t)EPOLLIN : 0) |
           (events & UVHTTP__FD_WRITABLE ? (uint32_t)EPOLLOUT : 0);
}

static void look(uvhttp__post_t *post) {
    struct uvhttp__fd_set *set = UVHTTP__CONTAINER_OF(post, struct uvhttp__fd_set, post);
    set->posted = false;
    if (set->fd < 0) return;
    set->count = epoll_wait(set->fd, set->events, EVENTS_MAX, 0);
    for (set->at = 0; set->at < set->count; set->at++) {
        uvhttp__fd_wait_t *wait = set->events[set->at].data.ptr;
        if (!wait) continue; /* stopped by one before it */
        uvhttp__fd_wait_stop(wait);
        wait->on_ready(wait);
    }
    set->count = 0;
}

/* Outside of a turn: what waits may answer requests, which belongs into one. */
static void on_readable(void *arg) {
    struct uvhttp__fd_set *set = arg;
    if (set->posted) return;
    set->posted = true;
    uvhttp__loop_post(set->loop, &set->post);
}

/* The set of this loop, made when it is first needed. */
static int open_set(uvhttp__loop_t *loop) {
    if (loop->waited) return UVHTTP_OK;
    struct uvhttp__fd_set *set = uvhttp__calloc(1, sizeof *set);
    if (!set) return UVHTTP_E_NOMEM;
    set->loop = loop;
    set->post.run = look;
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    int status =
        set->fd >= 0 ? uvhttp__loop_watch(loop, set->fd, on_readable, set, &set->watch) : UVHTTP_E_NO_DESCRIPTORS;
    if (status == UVHTTP_OK) {
        loop->waited = set;
        return UVHTTP_OK;
    }
    if (set->fd >= 0) close(set->fd);
    uvhttp__free(set);
    return status;
}

/* A message of it may still be on its way: the memory goes with the loop's. */
void uvhttp__fd_set_close(uvhttp__loop_t *loop) {
    struct uvhttp__fd_set *set = loop->waited;
    if (!set) return;
    uvhttp__watch_close(set->watch);
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

int uvhttp__fd_wait_start(uvhttp__loop_t *loop, uvhttp__fd_wait_t *wait, int fd, unsigned events,
                          void (*on_ready)(uvhttp__fd_wait_t *wait)) {
    int status = open_set(loop);
    if (status != UVHTTP_OK) return status;
    struct epoll_event event = {.events = epoll_events(events) | EPOLLONESHOT, .data.ptr = wait};
    if (epoll_ctl(loop->waited->fd, EPOLL_CTL_ADD, fd, &event) != 0) return refusal();
    *wait = (uvhttp__fd_wait_t){.loop = loop, .on_ready = on_ready, .fd = fd};
    return UVHTTP_OK;
}

void uvhttp__fd_wait_stop(uvhttp__fd_wait_t *wait) {
    if (!wait->loop) return;
    struct uvhttp__fd_set *set = wait->loop->waited;
    wait->loop = NULL;
    for (int i = set->at; i < set->count; i++)
        if (set->events[i].data.ptr == wait) set->events[i].data.ptr = NULL;
    (void)epoll_ctl(set->fd, EPOLL_CTL_DEL, wait->fd, NULL); /* somebody may have closed it: then it is gone already */
}
