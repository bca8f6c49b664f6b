/* Owns: what a coroutine may wait for. A route with UVHTTP_EXEC_COROUTINE runs its handler in a coroutine of the loop's
 * thread: the functions here wait without blocking that thread, and return when it is this coroutine's turn again. */
#ifndef UVHTTP_CORO_H
#define UVHTTP_CORO_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uvhttp_request;

/* What holds for all of them:
 * - Outside of a coroutine they return UVHTTP_E_STATE (or NULL) and do nothing.
 * - When the client has gone, when the request is given up by a limit of the server, and when the server is cut off at
 *   the end of its drain time, the wait in hand returns UVHTTP_E_ABORTED and every later one does at once. The handler
 *   should then return; nothing is lost if it does not notice: writes are refused, its answer is dropped.
 * - The first wait may return UVHTTP_E_NOMEM: nothing has been waited for.
 * - req and res, and all views of the request, stay valid until the handler has returned, across all waits, also when
 *   the client has gone. An answer leaves when the handler has returned; pieces leave as they are written.
 * - Timeouts are in milliseconds, and count from the begin of the loop's turn; they end at the next quarter of a
 *   millisecond (on a loop of the application's: the next millisecond), or when the loop is free. 0 does not wait. A
 *   deadline that has passed returns UVHTTP_E_TIMEOUT.
 * - A coroutine has config.coroutine_stack_size bytes of stack: large local arrays do not belong there. It stays on its
 *   thread; errno, and nothing else, may have changed after a wait. It must not hold a lock in a wait that another
 *   request of the same loop could want.
 * - In a coroutine, uvhttp_response_defer is refused (NULL, 503), and uvhttp_response_write waits for a slow client
 *   where it would else return UVHTTP_E_LIMIT. */

/** Whether the caller runs in a coroutine. */
UVHTTP_EXPORT bool uvhttp_coro_active(void);

/** Waits for at least so many milliseconds. Returns 0, UVHTTP_E_ABORTED, UVHTTP_E_STATE or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_coro_sleep(uint32_t ms);

/** Lets everything else that is ready have its turn: for long computations. Returns as sleep does. */
UVHTTP_EXPORT int uvhttp_coro_yield(void);

/** From now on a wait of this coroutine returns UVHTTP_E_STOPPING, once, when the server begins to stop (the next one,
 * if it has begun already): for a handler that would else wait for something for as long as the server lives, such as
 * events. Not what has to come to its end first: uvhttp_coro_work and uvhttp_coro_join. It then has until the end of
 * config.drain_timeout. A uvhttp_response_write that returns it has written nothing. A coroutine that does not ask for
 * it never sees it; one that was spawned asks for itself. Returns 0 or UVHTTP_E_STATE. */
UVHTTP_EXPORT int uvhttp_coro_wake_on_stop(void);

/** Has cleanup(arg) called when this coroutine ends, whichever way, last registered first, in the coroutine: it may
 * wait. Returns 0, UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM (nothing is registered: clean up at once). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_coro_defer(void (*cleanup)(void *arg), void *arg);

/** Runs run(arg) on a thread of the server's pool, where it may block, and waits for its end. It is never running any
 * more when this returns, so that `arg` may be a local variable. Returns 0 (it has run), UVHTTP_E_ABORTED (it has run
 * to its end, or has not been begun), UVHTTP_E_WORK_FULL (config.max_backlog: it was not run), UVHTTP_E_INVALID,
 * UVHTTP_E_STATE or UVHTTP_E_NOMEM (it was not run). */
UVHTTP_EXPORT int uvhttp_coro_work(void (*run)(void *arg), void *arg);

/** The next piece of the request's body, in order: a view that stays valid until the next call. Of a route with
 * `stream_body` at most config.read_buffer_size bytes, as they come; the client is held back between calls. Else the
 * whole body is the only piece. Returns 0, UVHTTP_E_EOF at the end (trailers can be asked for now), UVHTTP_E_TIMEOUT
 * (it may be called again), or why the rest will never come: UVHTTP_E_ABORTED, UVHTTP_E_HTTP_*, UVHTTP_E_NOMEM. Then,
 * and when the server's own limit of time is reached (UVHTTP_E_TIMEOUT, but later waits are UVHTTP_E_ABORTED), the
 * client gets the server's answer and not the handler's. UVHTTP_E_INVALID, UVHTTP_E_STATE (another request, or two
 * coroutines at once). */
UVHTTP_EXPORT int uvhttp_coro_read_body(struct uvhttp_request *req, uvhttp_str_t *piece, uint32_t timeout_ms);

/* --- other coroutines --- */

typedef struct uvhttp_coro uvhttp_coro_t;

/** Begins another coroutine for the same request, which runs run(arg) when this one waits; arg has to stay valid until
 * it has ended, so join it before a variable goes that it uses. It does not outlive this one: what is not joined is
 * cancelled at the end of this one, behind its cleanups, and waited for. Returns 0, UVHTTP_E_COROUTINE_LIMIT
 * (config.coroutines_max), UVHTTP_E_ABORTED, UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM; *coro is NULL then. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_coro_spawn(void (*run)(void *arg), void *arg, uvhttp_coro_t **coro);

/** Waits for the end of a coroutine that the caller has spawned. 0: it has ended, and `coro` is gone. Else it is still
 * there: UVHTTP_E_TIMEOUT, UVHTTP_E_STATE (not the caller's) or UVHTTP_E_INVALID. When the client goes, both are
 * cancelled, and this still waits until the other has ended. */
UVHTTP_EXPORT int uvhttp_coro_join(uvhttp_coro_t *coro, uint32_t timeout_ms);

/** The wait in hand of a coroutine that the caller has spawned returns UVHTTP_E_ABORTED, and so do later ones. It has
 * to be joined still. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_STATE. */
UVHTTP_EXPORT int uvhttp_coro_cancel(uvhttp_coro_t *coro);

/* --- channels --- */

/** A bounded queue of items of one size between coroutines of one loop: those of a request, or of several. */
typedef struct uvhttp_coro_channel uvhttp_coro_channel_t;

#define UVHTTP_CORO_ITEM_MAX 4096      /**< bytes of an item */
#define UVHTTP_CORO_CAPACITY_MAX 65536 /**< items of a channel */

/** A channel for up to `capacity` items of `item_size` bytes, of the loop on which the caller runs. Returns 0,
 * UVHTTP_E_INVALID, UVHTTP_E_STATE or UVHTTP_E_NOMEM; *channel is NULL then. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_coro_channel_new(size_t item_size, uint32_t capacity,
                                                          uvhttp_coro_channel_t **channel);
/** Copies an item into it, waiting while it is full. Returns 0, UVHTTP_E_CLOSED, UVHTTP_E_TIMEOUT, UVHTTP_E_ABORTED,
 * UVHTTP_E_INVALID, UVHTTP_E_STATE (also on another loop) or UVHTTP_E_NOMEM; unless 0 nothing was sent. */
UVHTTP_EXPORT int uvhttp_coro_channel_send(uvhttp_coro_channel_t *channel, const void *item, uint32_t timeout_ms);
/** Takes the oldest item out of it, waiting while it is empty. Returns 0, UVHTTP_E_EOF (closed and empty), or as send
 * does. */
UVHTTP_EXPORT int uvhttp_coro_channel_receive(uvhttp_coro_channel_t *channel, void *item, uint32_t timeout_ms);
/** No more is sent; what is in it can still be received. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_STATE. */
UVHTTP_EXPORT int uvhttp_coro_channel_close(uvhttp_coro_channel_t *channel);
/** Nobody waits in it. Also outside of a coroutine. NULL is allowed. */
UVHTTP_EXPORT void uvhttp_coro_channel_free(uvhttp_coro_channel_t *channel);

/* --- descriptors and connections --- */

/** Waits until a descriptor can be read or written without blocking (either, if both are given; an error or the end of
 * a connection counts). One coroutine of a loop can wait for a descriptor, and it must stay open meanwhile. Returns 0,
 * UVHTTP_E_TIMEOUT, UVHTTP_E_ABORTED, UVHTTP_E_INVALID (no such descriptor), UVHTTP_E_STATE (also: another one waits
 * for it), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or UVHTTP_E_IO. */
UVHTTP_EXPORT int uvhttp_coro_wait_fd(int fd, unsigned events, uint32_t timeout_ms);

/** Connects to "127.0.0.1:80", "[::1]:80", "localhost:80", "unix:/path" or "name:80". *fd is a non-blocking,
 * close-on-exec socket and the caller's to close(2): uvhttp_coro_defer is the place. A name is looked up by
 * getaddrinfo(3) on a thread of the pool. The timeout is for all of it; each address of a name (8 at most) has an even
 * share of what is left. Returns 0, UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_PEER_NAME, UVHTTP_E_ADDRESS, or as wait_fd and
 * uvhttp_coro_work do, and UVHTTP_E_WORK_CANCELLED (the server stops before a thread had time for the name); *fd is -1
 * then. For HTTP: <uvhttp/client.h>. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_coro_connect(const char *address, uint32_t timeout_ms, int *fd);

/** Receives what is there from a socket, at least a byte and at most `max`. Returns 0, UVHTTP_E_EOF (the peer has sent
 * all), UVHTTP_E_PEER_RESET, or as wait_fd does. */
UVHTTP_EXPORT int uvhttp_coro_read(int fd, void *data, size_t max, size_t *size, uint32_t timeout_ms);

/** Sends all of it to a socket; the timeout is for each wait until the peer takes more. Returns 0, UVHTTP_E_PEER_RESET,
 * or as wait_fd does: then a part may have been sent. */
UVHTTP_EXPORT int uvhttp_coro_write(int fd, const void *data, size_t size, uint32_t timeout_ms);

UVHTTP_END_DECLS

#endif
