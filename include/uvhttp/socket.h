/* Owns: descriptor watchers and outgoing connections on a loop's thread, with callbacks. A handler can use them to wait
 * for I/O before it sends a deferred response. Coroutines use <uvhttp/coro.h> instead. */
#ifndef UVHTTP_SOCKET_H
#define UVHTTP_SOCKET_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/* Rules for both kinds of wait. The caller owns the memory. Zero it before the first start. It must not be moved,
 * copied or freed during the wait. The callback is called once, in a loop iteration and never inside the call that
 * starts the wait. The wait ends before the callback, which may reuse or free the memory. Start a wait on the thread of
 * a loop: in handlers and in any callback of a server. Stop it before the loop ends, as for timers (<uvhttp/timer.h>).
 * Add a timer for a deadline. Only the first wait of a loop and name lookups allocate memory. */

/** A descriptor watcher. */
typedef struct uvhttp_fd_watcher {
    union {
        uint64_t align;
        unsigned char bytes[40];
    } internal; /**< owned by the library */
} uvhttp_fd_watcher_t;

/** Starts a watcher, which calls on_ready(watcher, user) when the descriptor is ready. An error or the end of a
 * connection counts as ready. Starting an active watcher restarts it. A loop can have only one watcher per descriptor,
 * which must stay open meanwhile. Returns 0, UVHTTP_E_INVALID (no such descriptor, a regular file ...), UVHTTP_E_STATE
 * (no loop runs on this thread, or the descriptor has another watcher), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS,
 * UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or UVHTTP_E_IO. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_fd_watcher_start(uvhttp_fd_watcher_t *watcher, int fd, unsigned events,
                                                             void (*on_ready)(uvhttp_fd_watcher_t *watcher, void *user),
                                                             void *user);
/** Stops a wait. Does nothing if it is not active, or zero. Call it on the thread that started it. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_fd_watcher_stop(uvhttp_fd_watcher_t *watcher);

/** A connection attempt. */
typedef struct uvhttp_connector {
    union {
        uint64_t align;
        unsigned char bytes[208];
    } internal; /**< owned by the library */
} uvhttp_connector_t;

/** Receives the result of a connection attempt. With status 0, `fd` is a connected, non-blocking, close-on-exec socket
 * owned by the callee. Otherwise it is -1. */
typedef void (*uvhttp_connect_cb)(uvhttp_connector_t *connector, int status, int fd, void *user);

/** Connects as uvhttp_coro_connect does. `timeout_ms` covers the whole attempt; UVHTTP_NEVER means no limit. Returns 0,
 * or an immediate error, and on_connect is not called: UVHTTP_E_INVALID, UVHTTP_E_ADDRESS, UVHTTP_E_TIMEOUT (0 ms),
 * UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_STATE (no loop runs on this thread, or a name is to be looked up on a loop of a
 * uvhttp_tcp_server_t, which has no worker threads), UVHTTP_E_WORK_FULL, UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS,
 * UVHTTP_E_LIMIT or UVHTTP_E_IO. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_connect_start(uvhttp_connector_t *connector, const char *address,
                                                          uint32_t timeout_ms, uvhttp_connect_cb on_connect,
                                                          void *user);
/** Cancels a connection attempt. Does nothing if it is over, or zero. Call it on the thread that started it. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_connect_stop(uvhttp_connector_t *connector);

/** Receives available bytes without waiting, at least 1 and at most `max`. Returns 0, UVHTTP_E_AGAIN (nothing is
 * available yet), UVHTTP_E_EOF (the peer has sent everything), UVHTTP_E_PEER_RESET, UVHTTP_E_INVALID or UVHTTP_E_IO.
 * Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_socket_read(int fd, void *data, size_t max, size_t *size);
/** Sends what the kernel accepts without waiting; *sent may be less than `size`. Returns 0, UVHTTP_E_AGAIN (nothing is
 * accepted now), UVHTTP_E_PEER_RESET, UVHTTP_E_INVALID or UVHTTP_E_IO. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_socket_write(int fd, const void *data, size_t size, size_t *sent);

UVHTTP_END_DECLS

#endif
