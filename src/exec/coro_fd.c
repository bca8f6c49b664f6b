/* Owns: descriptors that coroutines wait for: all of a loop in one epoll set, which the loop watches as one descriptor;
 * and connections that coroutines make, which are plain descriptors. May include: io, base, obs. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/coro.h"

#define EVENTS_MAX 64
#define HOST_MAX 256
/* A name may have many addresses; so many are tried. */
#define ADDRESSES_MAX 8

struct uvhttp__coro_poll {
    uvhttp__coro_sched_t *sched;
    uvhttp__watch_t *watch;
    int fd;
};

static void on_readable(void *arg) {
    struct uvhttp__coro_poll *set = arg;
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(set->fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) uvhttp__coro_wake(events[i].data.ptr, UVHTTP_OK);
    if (count > 0) uvhttp__coro_sched_soon(set->sched);
}

/* The set of this loop, made when it is first needed. */
static struct uvhttp__coro_poll *poll_of(uvhttp__coro_sched_t *sched, int *status) {
    if (sched->poll) return sched->poll;
    struct uvhttp__coro_poll *set = uvhttp__calloc(1, sizeof *set);
    *status = UVHTTP_E_NOMEM;
    if (!set) return NULL;
    set->sched = sched;
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    *status = set->fd >= 0 ? uvhttp__loop_watch(sched->loop, set->fd, on_readable, set, &set->watch)
                           : UVHTTP_E_NO_DESCRIPTORS;
    if (*status == UVHTTP_OK) return sched->poll = set;
    if (set->fd >= 0) close(set->fd);
    uvhttp__free(set);
    return NULL;
}

void uvhttp__coro_poll_free(uvhttp__coro_sched_t *sched) {
    struct uvhttp__coro_poll *set = sched->poll;
    if (!set) return;
    uvhttp__watch_close(set->watch);
    close(set->fd);
    uvhttp__free(set);
    sched->poll = NULL;
}

static int refusal(void) {
    switch (errno) {
        case EEXIST: return UVHTTP_E_STATE;
        case EBADF: return UVHTTP_E_INVALID;
        case ENOMEM: return UVHTTP_E_NOMEM;
        case ENOSPC: return UVHTTP_E_LIMIT;
        default: return UVHTTP_E_IO;
    }
}

static int await(uvhttp_coro_t *coro, int fd, uint32_t events, uint32_t timeout_ms) {
    int status = uvhttp__coro_may_wait(coro);
    if (status != UVHTTP_OK) return status;
    if (timeout_ms == 0) return UVHTTP_E_TIMEOUT;
    const struct uvhttp__coro_poll *set = poll_of(coro->sched, &status);
    if (!set) return status;
    struct epoll_event event = {.events = events | EPOLLONESHOT, .data.ptr = coro};
    if (epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &event) != 0) return refusal();
    status = uvhttp__coro_wait(coro, timeout_ms);
    (void)epoll_ctl(set->fd, EPOLL_CTL_DEL, fd, NULL); /* somebody may have closed it: then it is gone already */
    return status;
}

int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms) {
    uvhttp_coro_t *coro = uvhttp__coro_current();
    if (fd < 0 || events == 0 || (events & ~(unsigned)(UVHTTP_CORO_READABLE | UVHTTP_CORO_WRITABLE)))
        return UVHTTP_E_INVALID;
    if (!coro) return UVHTTP_E_STATE;
    short wanted =
        (short)((events & UVHTTP_CORO_READABLE ? POLLIN : 0) | (events & UVHTTP_CORO_WRITABLE ? POLLOUT : 0));
    struct pollfd now = {.fd = fd, .events = wanted};
    if (poll(&now, 1, 0) > 0) return now.revents & POLLNVAL ? UVHTTP_E_INVALID : UVHTTP_OK;
    return await(coro, fd,
                 (events & UVHTTP_CORO_READABLE ? (uint32_t)EPOLLIN : 0) |
                     (events & UVHTTP_CORO_WRITABLE ? (uint32_t)EPOLLOUT : 0),
                 timeout_ms);
}

/* --- reading and writing --- */

static int broken(void) {
    switch (errno) {
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ETIMEDOUT: return UVHTTP_E_PEER_RESET;
        case EBADF:
        case ENOTSOCK: return UVHTTP_E_INVALID;
        default: return UVHTTP_E_IO;
    }
}

/* Whether the wait for a descriptor is over, and how: UVHTTP_OK to try again. */
static int again(int fd, uint32_t events, uint32_t timeout_ms) {
    if (errno == EINTR) return UVHTTP_OK;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return broken();
    return await(uvhttp__coro_current(), fd, events, timeout_ms);
}

int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size, uint32_t timeout_ms) {
    if (!data || max == 0 || !size) return UVHTTP_E_INVALID;
    *size = 0;
    if (!uvhttp__coro_current()) return UVHTTP_E_STATE;
    for (;;) {
        ssize_t got = recv(fd, data, max, MSG_DONTWAIT);
        *size = got > 0 ? (size_t)got : 0;
        if (got >= 0) return got > 0 ? UVHTTP_OK : UVHTTP_E_EOF;
        int status = again(fd, EPOLLIN, timeout_ms);
        if (status != UVHTTP_OK) return status;
    }
}

int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms) {
    if (!data && size > 0) return UVHTTP_E_INVALID;
    if (!uvhttp__coro_current()) return UVHTTP_E_STATE;
    for (size_t done = 0; done < size;) {
        ssize_t got = send(fd, (const char *)data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (got >= 0) {
            done += (size_t)got;
            continue;
        }
        int status = again(fd, EPOLLOUT, timeout_ms);
        if (status != UVHTTP_OK) return status;
    }
    return UVHTTP_OK;
}

/* --- connecting --- */

typedef struct names {
    char host[HOST_MAX];
    const char *port;
    struct addrinfo *found;
    int status;
} names_t;

/* On a thread of the pool. */
static void look_up(void *arg) {
    names_t *names = arg;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    names->status = getaddrinfo(names->host, names->port, &hints, &names->found);
}

static int connect_to(const struct sockaddr *address, socklen_t size, uint32_t timeout_ms, int *made) {
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return errno == EMFILE || errno == ENFILE ? UVHTTP_E_NO_DESCRIPTORS : UVHTTP_E_IO;
    int status = UVHTTP_OK, problem = 0;
    if (connect(fd, address, size) != 0) {
        problem = errno;
        if (problem == EINPROGRESS) {
            socklen_t length = sizeof problem;
            status = await(uvhttp__coro_current(), fd, EPOLLOUT, timeout_ms);
            if (status == UVHTTP_OK) (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
        }
        if (status == UVHTTP_OK && problem != 0) status = UVHTTP_E_PEER_UNREACHABLE;
    }
    if (status == UVHTTP_OK)
        *made = fd;
    else
        close(fd);
    return status;
}

static int connect_by_name(const char *address, uint32_t timeout_ms, int *fd) {
    names_t names = {.port = strrchr(address, ':')};
    size_t size = names.port ? (size_t)(names.port - address) : 0;
    if (size == 0 || size >= sizeof names.host || strspn(names.port + 1, "0123456789") != strlen(names.port + 1) ||
        !names.port[1] || strpbrk(address, "/@[]%* "))
        return UVHTTP_E_ADDRESS;
    memcpy(names.host, address, size);
    names.port++;
    int status = uvhttp_coro_work(look_up, &names);
    if (status == UVHTTP_OK && names.status != 0) status = UVHTTP_E_PEER_NAME;
    if (names.status == 0 && names.found) {
        const struct addrinfo *at = names.found;
        if (status == UVHTTP_OK) status = UVHTTP_E_PEER_UNREACHABLE;
        for (int i = 0; i < ADDRESSES_MAX && at && status == UVHTTP_E_PEER_UNREACHABLE; i++, at = at->ai_next)
            status = connect_to(at->ai_addr, at->ai_addrlen, timeout_ms, fd);
        freeaddrinfo(names.found);
    }
    return status;
}

int uvhttp_coro_connect(const char *address, uint32_t timeout_ms, int *fd) {
    if (!address || !fd) return UVHTTP_E_INVALID;
    *fd = -1;
    int status = uvhttp__coro_may_wait(uvhttp__coro_current());
    if (status != UVHTTP_OK) return status;
    uvhttp__endpoint_t endpoint;
    if (uvhttp__endpoint_parse(address, &endpoint) != UVHTTP_OK) return connect_by_name(address, timeout_ms, fd);
    if (endpoint.address_size == 0 || endpoint.dual_stack || endpoint.proxy_protocol) return UVHTTP_E_ADDRESS;
    return connect_to(&endpoint.address.any, endpoint.address_size, timeout_ms, fd);
}
