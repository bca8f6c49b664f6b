/* Owns: the functions in which a coroutine waits. A route with UVHTTP_EXEC_COROUTINE runs its handler in a coroutine on
 * the loop's thread. These functions suspend the coroutine without blocking the thread. */
#ifndef UVHTTP_CORO_H
#define UVHTTP_CORO_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_request;

/* Rules for all functions:
 * - Outside a coroutine they return UVHTTP_E_STATE (or NULL) and do nothing.
 * - A request is aborted when its client disconnects, when it exceeds a limit of the server, and at the end of the
 * drain time. The current wait then returns UVHTTP_E_ABORTED. Every later wait returns it immediately. The handler
 * should then return. Ignoring it is harmless: writes are refused and the response is dropped.
 * - The first wait may return UVHTTP_E_NOMEM without waiting. After uvhttp_coro_wake_on_stop, one wait may return
 * UVHTTP_E_STOPPING.
 * - `req`, `res` and all views of the request stay valid until the handler returns, across all waits, also after the
 * client has disconnected. A buffered response is sent when the handler returns. Streamed bytes are sent as they are
 * written.
 * - Timeouts are in milliseconds from the start of the loop iteration. They expire at the next quarter of a millisecond
 * (on a loop of the application: the next millisecond), or when the loop is free. 0 does not wait. An expired timeout
 * returns UVHTTP_E_TIMEOUT.
 * - A coroutine has config.coroutine_stack_size bytes of stack: avoid large local arrays. It stays on its thread. Only
 * errno may change during a wait. Do not hold a lock in a wait if another request of the same loop could need it.
 * - In a coroutine, uvhttp_response_defer is refused (NULL, 503), and uvhttp_response_write waits for a slow client
 * instead of returning UVHTTP_E_LIMIT. */

/** Returns whether the caller runs in a coroutine. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_coro_active(void);

/** Waits for at least `ms` milliseconds. Returns 0, UVHTTP_E_ABORTED, UVHTTP_E_STATE or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_sleep(uint32_t ms);

/** Lets all other ready work run first, for long computations. Returns as uvhttp_coro_sleep does. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_yield(void);

/** Makes a wait of this coroutine return UVHTTP_E_STOPPING, once, when the server starts to stop; the next wait, if it
 * already stops. For handlers that wait as long as the server lives, such as event streams. It does not affect
 * uvhttp_coro_work and uvhttp_coro_join, which must complete. The handler then has until the end of
 * config.drain_timeout. A uvhttp_response_write that returns UVHTTP_E_STOPPING has written nothing. Without this call
 * the code never occurs; a spawned coroutine makes its own call. Returns 0 or UVHTTP_E_STATE. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_wake_on_stop(void);

/** Registers cleanup(arg) to run when this coroutine ends for any reason. Cleanups run in reverse order of
 * registration, in the coroutine, and may wait. They run after its function has returned: `arg` must not point to a
 * variable of that function. Returns 0, UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM (nothing
 * is registered: clean up immediately). */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE UVHTTP_MUST_USE int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg);

/** Runs run(arg) on a worker thread, where it may block, and waits for its end. It never runs any longer when this
 * returns, so `arg` may be a local variable. Returns 0 (it has run), UVHTTP_E_ABORTED (it has run to its end, or did
 * not start), UVHTTP_E_WORK_FULL (config.max_backlog: not run), UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM (not
 * run). */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_work(void (*run)(void *arg), void *arg);

/** Reads the next bytes of the request's body, in order; the view is valid until the next call. On a route with
 * `stream_body` it returns at most config.read_buffer_size bytes, as received, and the client is paused between calls;
 * after a call with timeout 0, up to that number of bytes may arrive, within the server's time limits for bodies.
 * Otherwise it returns the buffered body at once. On failure *piece is empty.
 *
 * Returns 0, UVHTTP_E_EOF (the end; trailers are available), UVHTTP_E_TIMEOUT (call again), UVHTTP_E_INVALID,
 * UVHTTP_E_STATE (another request, or two coroutines at once), or the reason why the rest will never arrive:
 * UVHTTP_E_ABORTED, UVHTTP_E_LIMIT (http2_connection_memory_max), UVHTTP_E_HTTP_*, UVHTTP_E_NOMEM. The client then
 * receives the server's response instead of the handler's. The same holds for a time limit of the server: it returns
 * UVHTTP_E_HTTP_TIMEOUT or UVHTTP_E_RESPONSE_TIMEOUT, and later waits return UVHTTP_E_ABORTED. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_read_body(struct uvhttp_request *req, uvhttp_str_t *piece,
                                                            uint32_t timeout_ms);

/* --- child coroutines --- */

typedef struct uvhttp_coro uvhttp_coro_t;

/** Starts another coroutine for the same request. It runs run(arg) when the caller waits. `arg` must stay valid until
 * it has ended: join it before variables that it uses go out of scope. It does not outlive its parent. A child that is
 * not joined is cancelled and awaited when the parent ends, after the parent's cleanups. Returns 0,
 * UVHTTP_E_COROUTINE_LIMIT (config.coroutines_max), UVHTTP_E_ABORTED, UVHTTP_E_INVALID, UVHTTP_E_STATE or
 * UVHTTP_E_NOMEM; on failure *coro is NULL. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE UVHTTP_MUST_USE int uvhttp_coro_spawn(void (*run)(void *arg), void *arg,
                                                                        uvhttp_coro_t **coro);

/** Waits for the end of a coroutine that the caller spawned. Returns 0 when it has ended and `coro` is invalid.
 * Otherwise `coro` is still valid: UVHTTP_E_TIMEOUT, UVHTTP_E_STATE (not spawned by the caller) or UVHTTP_E_INVALID.
 * When the client disconnects, both are cancelled, and this call still waits for the end of the child. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_join(uvhttp_coro_t *coro, uint32_t timeout_ms);

/** Cancels a coroutine that the caller spawned: its current wait and later ones return UVHTTP_E_ABORTED. It must still
 * be joined. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_STATE. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_cancel(uvhttp_coro_t *coro);

/* --- channels --- */

/** A bounded queue of items of one size between coroutines of one loop, of one request or of several. */
typedef struct uvhttp_coro_channel uvhttp_coro_channel_t;

#define UVHTTP_CORO_ITEM_MAX 4096      /**< maximum of bytes per item */
#define UVHTTP_CORO_CAPACITY_MAX 65536 /**< maximum of items per channel */

/** Creates a channel for up to `capacity` items of `item_size` bytes, on the caller's loop. Returns 0,
 * UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM; on failure *channel is NULL. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE UVHTTP_MUST_USE int uvhttp_coro_channel_new(size_t item_size, uint32_t capacity,
                                                                              uvhttp_coro_channel_t **channel);
/** Copies an item into the channel, and waits while it is full. Returns 0, UVHTTP_E_CLOSED, UVHTTP_E_TIMEOUT,
 * UVHTTP_E_ABORTED, UVHTTP_E_INVALID, UVHTTP_E_STATE (also on another loop) or UVHTTP_E_NOMEM; on failure nothing was
 * sent. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_channel_send(uvhttp_coro_channel_t *channel, const void *item,
                                                               uint32_t timeout_ms);
/** Removes the oldest item from the channel, and waits while it is empty. Returns 0, UVHTTP_E_EOF (closed and empty),
 * or as uvhttp_coro_channel_send does. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_channel_receive(uvhttp_coro_channel_t *channel, void *item,
                                                                  uint32_t timeout_ms);
/** Closes the channel for sending. Queued items can still be received. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_STATE.
 */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_channel_close(uvhttp_coro_channel_t *channel);
/** Frees a channel in which no coroutine waits. Also outside a coroutine. NULL is allowed. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_coro_channel_free(uvhttp_coro_channel_t *channel);

/* --- descriptors and connections --- */

/** Waits until a descriptor can be read or written without blocking (either, if both are given). An error or the end of
 * a connection counts as ready. One coroutine of a loop can wait for a descriptor, which must stay open meanwhile.
 * Returns 0, UVHTTP_E_TIMEOUT, UVHTTP_E_ABORTED, UVHTTP_E_INVALID (no such descriptor), UVHTTP_E_STATE (also: another
 * coroutine waits for it), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or
 * UVHTTP_E_IO. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms);

/** Connects to "127.0.0.1:80", "[::1]:80", "localhost:80", "unix:/path" or "name:80". *fd is a non-blocking,
 * close-on-exec socket. The caller closes it with close(2), best in uvhttp_coro_defer. getaddrinfo(3) looks up names on
 * a worker thread. The timeout covers everything; each address of a name (at most 8) gets an equal share of the
 * remaining time. For HTTP use <uvhttp/client.h>.
 *
 * Returns 0, UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_PEER_NAME, UVHTTP_E_ADDRESS, UVHTTP_E_WORK_CANCELLED (the server stops
 * before the lookup), or a code of uvhttp_coro_wait_fd or uvhttp_coro_work; on failure *fd is -1. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE UVHTTP_MUST_USE int uvhttp_coro_connect(const char *address, uint32_t timeout_ms,
                                                                          int *fd);

/** Receives available bytes from a socket, at least 1 and at most `max`. Returns 0, UVHTTP_E_EOF (the peer has sent
 * everything), UVHTTP_E_PEER_RESET, or a code of uvhttp_coro_wait_fd. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size,
                                                       uint32_t timeout_ms);

/** Sends all bytes to a socket. The timeout applies to each wait until the socket is writable. Returns 0,
 * UVHTTP_E_PEER_RESET, or a code of uvhttp_coro_wait_fd; after a failure, part of the bytes may have been sent. */
UVHTTP_EXPORT UVHTTP_IN_COROUTINE int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms);

UVHTTP_END_DECLS

#endif
