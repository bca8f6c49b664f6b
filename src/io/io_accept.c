/* Owns: accepting on a listener that an engine has found readable. A place is taken before each connection is accepted,
 * so that a limit of connections holds exactly: what has no place stays in the kernel's backlog. May include: base,
 * obs, io. */
#include <errno.h>

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
    uint32_t turn = listener->loop->turn_number;
    bool more = listener->burst > 0 && turn - listener->burst_turn == 1;
    listener->burst_turn = turn;
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
