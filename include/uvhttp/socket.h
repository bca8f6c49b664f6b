/* Owns: descriptors that the thread of a loop waits for, and connections that it makes: for who has no coroutine of
 * <uvhttp/coro.h> and waits between a request and its deferred answer. */
#ifndef UVHTTP_SOCKET_H
#define UVHTTP_SOCKET_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/* What holds for both kinds of wait: the memory is the caller's, zero before its first start, and must not be moved,
 * copied or freed while it waits. The function is called once, in a turn of the loop and never inside the call that
 * begins the wait; in it the wait is over, and may be begun again or freed. On the thread of a loop: in handlers and
 * all that a server calls. They must be stopped before the loop ends, as timers are (<uvhttp/timer.h>); with a timer
 * they have a deadline. Nothing is allocated but what a loop needs for its first wait, and a name while it is looked
 * up. */

/** What a descriptor is waited for: that it can be read or written without blocking, or either. */
enum { UVHTTP_READABLE = 1, UVHTTP_WRITABLE = 2 };

/** A wait for a descriptor. */
typedef struct uvhttp_fd_watcher {
    union {
        uint64_t align;
        unsigned char bytes[40];
    } internal; /**< the library's */
} uvhttp_fd_watcher_t;

/** Calls on_ready(watch, user) when the descriptor is ready; an error or the end of a connection counts. A wait that is
 * under way is begun anew. One wait of a loop can be for a descriptor, and it must stay open meanwhile. Returns 0,
 * UVHTTP_E_INVALID (no such descriptor, a plain file, ...), UVHTTP_E_STATE (no loop runs on this thread, or somebody
 * waits for it), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or UVHTTP_E_IO. */
UVHTTP_EXPORT int uvhttp_fd_watcher_start(uvhttp_fd_watcher_t *watcher, int fd, unsigned events,
                                          void (*on_ready)(uvhttp_fd_watcher_t *watcher, void *user), void *user);
/** Does nothing to one that does not wait, or zero. The thread that has started it. */
UVHTTP_EXPORT void uvhttp_fd_watcher_stop(uvhttp_fd_watcher_t *watcher);

/** A connection that is being made. */
typedef struct uvhttp_connector {
    union {
        uint64_t align;
        unsigned char bytes[208];
    } internal; /**< the library's */
} uvhttp_connector_t;

/** fd: with status 0 a connected, non-blocking, close-on-exec socket that is the callee's; else -1. */
typedef void (*uvhttp_connect_cb)(uvhttp_connector_t *connector, int status, int fd, void *user);

/** Connects as uvhttp_coro_connect does, within timeout_ms for all of it (UINT32_MAX: no limit). Returns 0, or what can
 * be said at once, and on_connect does not come: UVHTTP_E_INVALID, UVHTTP_E_ADDRESS, UVHTTP_E_TIMEOUT (0 ms),
 * UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_STATE (no loop runs on this thread), UVHTTP_E_WORK_FULL, UVHTTP_E_NOMEM,
 * UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_LIMIT or UVHTTP_E_IO. */
UVHTTP_EXPORT int uvhttp_connect_start(uvhttp_connector_t *connector, const char *address, uint32_t timeout_ms,
                                       uvhttp_connect_cb on_connect, void *user);
/** Gives it up; does nothing to one that is over, or zero. The thread that has started it. */
UVHTTP_EXPORT void uvhttp_connect_stop(uvhttp_connector_t *connector);

/** Receives what is there, at least a byte and at most `max`, without waiting. Returns 0, UVHTTP_E_AGAIN (nothing is
 * there yet), UVHTTP_E_EOF (the peer has sent all), UVHTTP_E_PEER_RESET, UVHTTP_E_INVALID or UVHTTP_E_IO. Any thread.
 */
UVHTTP_EXPORT int uvhttp_socket_read(int fd, void *data, size_t max, size_t *size);
/** Sends what the kernel takes of it, without waiting; *sent may be less than `size`. Returns 0, UVHTTP_E_AGAIN (it
 * takes nothing now), UVHTTP_E_PEER_RESET, UVHTTP_E_INVALID or UVHTTP_E_IO. Any thread. */
UVHTTP_EXPORT int uvhttp_socket_write(int fd, const void *data, size_t size, size_t *sent);

UVHTTP_END_DECLS

#endif
