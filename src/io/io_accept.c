/* Owns: listeners: their life cycle, the handling of errors, and accepting on a listener that an engine has found
 * readable. A place is reserved before each connection is accepted, so that the maximum of connections is exact: other
 * connections stay in the kernel's backlog. May include: base, obs, io. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/libc.h"
#include "io/engine.h"

enum { BURST_MAX = 64 }; /* a storm of connections must not keep the others waiting */

bool uvhttp__listener_take_place(uvhttp__listener_t *listener) {
    return !listener->ops->take_place || listener->ops->take_place(listener);
}

void uvhttp__listener_give_place(uvhttp__listener_t *listener) {
    if (listener->ops->give_place) listener->ops->give_place(listener);
}

/* One connection, and twice as many each time that more still wait in the iteration that follows: the wait of the loop
 * tells whether there are more at no cost, an accept4 that finds none is a system call. */
static uint32_t next_burst(uvhttp__listener_t *listener) {
    uint32_t iteration = listener->loop->iteration_number;
    bool more = listener->burst > 0 && iteration - listener->burst_iteration == 1;
    listener->burst_iteration = iteration;
    listener->burst = !more ? 1 : listener->burst < BURST_MAX ? listener->burst * 2 : BURST_MAX;
    return listener->burst;
}

void uvhttp__listener_accept(uvhttp__listener_t *listener) {
    uint32_t burst = next_burst(listener);
    for (uint32_t i = 0; i < burst; i++) {
        if ((listener->flags & (UVHTTP__LISTENER_WANTED | UVHTTP__LISTENER_PARKED)) != UVHTTP__LISTENER_WANTED) return;
        if (!uvhttp__listener_take_place(listener)) {
            /* Only the first is known to wait: whether there are more is what the next event tells. */
            if (i == 0) listener->ops->on_full(listener);
            return;
        }
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            listener->failures = 0;
            listener->ops->on_accept(listener, fd);
            continue;
        }
        int error = errno;
        uvhttp__listener_give_place(listener);
        if (error == EAGAIN || error == EWOULDBLOCK) return;
        if (uvhttp__listener_failed(listener, error)) return; /* polling is level-triggered and would spin */
    }
}

/* --- life and errors --- */

/* An inherited one may be of either kind. */
static bool is_unix(int fd) {
    int domain = AF_UNIX;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX;
}

void uvhttp__listener_open(uvhttp__listener_t *listener, uvhttp__loop_t *loop, int fd,
                           const uvhttp__listener_ops_t *ops) {
    *listener = (uvhttp__listener_t){.loop = loop, .ops = ops, .fd = fd, .flags = UVHTTP__LISTENER_WANTED};
    if (is_unix(fd)) listener->flags |= UVHTTP__LISTENER_UNIX;
    uvhttp__list_init(&listener->link);
    uvhttp__list_push_back(&loop->listeners, &listener->link);
    loop->engine->listener_open(listener);
}

void uvhttp__listener_pause(uvhttp__listener_t *listener) {
    if (listener->flags & UVHTTP__LISTENER_CLOSING) return;
    listener->flags &= ~(uint32_t)UVHTTP__LISTENER_WANTED;
    listener->loop->engine->listener_update(listener);
}

void uvhttp__listener_resume(uvhttp__listener_t *listener) {
    if (listener->flags & UVHTTP__LISTENER_CLOSING) return;
    listener->flags |= UVHTTP__LISTENER_WANTED;
    listener->loop->engine->listener_update(listener);
}

void uvhttp__listener_close(uvhttp__listener_t *listener) {
    if (listener->flags & UVHTTP__LISTENER_CLOSING) return;
    listener->flags &= ~(uint32_t)UVHTTP__LISTENER_WANTED;
    listener->flags |= UVHTTP__LISTENER_CLOSING;
    listener->loop->engine->listener_update(listener);
}

enum {
    BACKLOG_ACCEPT_MAX = 4096, /* the kernel's bound of a backlog, net.core.somaxconn, as it is delivered */
    ACCEPT_FAILURES_MAX =
        16, /* consecutive failures, each concerning one connection, after which the cause is not the connections */
    ACCEPT_REPORT_MS = 10000,
};

/* Errors of accept(2) that concern the connection, not the listener: the next one may be fine. */
static bool is_of_one_connection(int error_number) {
    switch (error_number) {
        case EINTR:
        case ECONNABORTED:
        case EPERM:
        case EPROTO:
        case ENETDOWN:
        case ENETUNREACH:
        case ENOPROTOOPT:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ETIMEDOUT: return true;
        default: return false;
    }
}

void uvhttp__listener_closed_due(uvhttp__listener_t *listener) {
    uvhttp__list_remove(&listener->link);
    uvhttp__list_push_back(&listener->loop->closed_listeners, &listener->link);
}

/* Connections that wait in a backlog now; of a Unix socket, which does not tell, a number that ends it. */
static uint32_t backlog_size(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return BACKLOG_ACCEPT_MAX;
    return info.tcpi_unacked; /* that is what it says of a listening socket */
}

/* Closing a listening socket resets the connections in its backlog, whose clients may have sent requests already: they
 * are accepted first. Connections that arrive meanwhile are as late as those after the close: clients that connect as
 * fast as they are accepted would keep the loop here forever. */
void uvhttp__listener_take_backlog(uvhttp__listener_t *listener) {
    if (listener->flags & UVHTTP__LISTENER_LEAVES) return;
    int flags = fcntl(listener->fd, F_GETFL);
    if (flags < 0 || fcntl(listener->fd, F_SETFL, flags | O_NONBLOCK) != 0) return;
    uint32_t left = backlog_size(listener->fd), failures = 0;
    /* Without a place the rest stays: another process may have the socket, too. */
    while (left > 0 && uvhttp__listener_take_place(listener)) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), error = errno;
        if (fd >= 0) {
            failures = 0;
            left--;
            listener->ops->on_accept(listener, fd);
            continue;
        }
        uvhttp__listener_give_place(listener);
        if (error == EAGAIN || error == EWOULDBLOCK || !is_of_one_connection(error) || ++failures > ACCEPT_FAILURES_MAX)
            return;
        if (error != EINTR) left--; /* else a signal: nothing was accepted */
    }
}

static void report_accept(uvhttp__listener_t *listener, int error_number) {
    uvhttp__loop_t *loop = listener->loop;
    if (loop->accept_reported_ms > 0 && loop->now_ms < loop->accept_reported_ms + ACCEPT_REPORT_MS) return;
    loop->accept_reported_ms = loop->now_ms;
    UVHTTP_LOG_WARN(
        "io: connections cannot be accepted (%s): they wait in the backlog, and accept is retried every %d ms "
        "(counter accept_errors)",
        strerrordesc_np(error_number), UVHTTP__ACCEPT_RETRY_MS);
}

bool uvhttp__listener_failed(uvhttp__listener_t *listener, int error_number) {
    uvhttp__loop_t *loop = listener->loop;
    uvhttp__counters_add(loop->counters, accept_errors, 1);
    if (is_of_one_connection(error_number) && ++listener->failures <= ACCEPT_FAILURES_MAX) return false;
    if (!(listener->flags & UVHTTP__LISTENER_PARKED)) uvhttp__counters_add(loop->counters, accept_paused, 1);
    listener->flags |= UVHTTP__LISTENER_PARKED;
    listener->failures = 0;
    report_accept(listener, error_number);
    uvhttp__timer_set(&loop->wheel, &loop->accept_timer, loop->now_ms + UVHTTP__ACCEPT_RETRY_MS);
    bool descriptors = error_number == EMFILE || error_number == ENFILE;
    bool memory = error_number == ENOMEM || error_number == ENOBUFS;
    listener->ops->on_accept_error(listener, descriptors ? UVHTTP_E_NO_DESCRIPTORS
                                             : memory    ? UVHTTP_E_NOMEM
                                                         : UVHTTP_E_IO);
    return true;
}

/* Listeners that ran out of descriptors try again: some may be free now. */
void uvhttp__listeners_unpark(uvhttp__loop_t *loop) {
    uvhttp__timer_stop(&loop->wheel, &loop->accept_timer);
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &loop->listeners) {
        uvhttp__listener_t *listener = UVHTTP__CONTAINER_OF(node, uvhttp__listener_t, link);
        if (!(listener->flags & UVHTTP__LISTENER_PARKED)) continue;
        listener->flags &= ~(uint32_t)UVHTTP__LISTENER_PARKED;
        loop->engine->listener_update(listener);
    }
}

void uvhttp__listeners_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)timer;
    uvhttp__listeners_unpark(user);
}
