/* Owns: handler and middleware types. Routes and groups are registered on a server (server.h). */
#ifndef UVHTTP_ROUTE_H
#define UVHTTP_ROUTE_H

#include <uvhttp/request.h>
#include <uvhttp/response.h>

UVHTTP_BEGIN_DECLS

/** Handles a request, in the execution mode of its route (uvhttp_exec_t). A handler that returns without a response and
 * without uvhttp_response_defer gives the client 500 and counts in handler_no_response. */
typedef void (*uvhttp_handler_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** The execution mode of a route's handler. The handler's signature is the same in all modes. In all modes middleware
 * runs before the handler, and hooks run after it, on the loop's thread. Registration refuses a mode that this build
 * does not have with UVHTTP_E_UNSUPPORTED. */
typedef enum uvhttp_exec {
    UVHTTP_EXEC_DEFAULT,  /**< the mode of the defaults of the groups around the route (uvhttp_group_defaults), or
                             UVHTTP_EXEC_LOOP */
    UVHTTP_EXEC_LOOP,     /**< on the loop's thread; it must not block */
    UVHTTP_EXEC_WORKER,   /**< on a worker thread; it may block. That thread owns request and response until the handler
                             returns. All their functions may be used, and uvhttp_response_write waits for a slow client.
                             If the client disconnects, the request stays readable and writes return UVHTTP_E_ABORTED.
                             uvhttp_request_read_body reads a streamed body. The client gets 503 with Retry-After if
                             config.max_backlog jobs wait, or no thread is free within config.worker_queue_timeout_ms */
    UVHTTP_EXEC_COROUTINE /**< in a coroutine of the loop. It may wait in functions that are documented to do so, and
                             must not block otherwise */
} uvhttp_exec_t;

/** The decision of a middleware: pass the request on, or stop because it has responded or deferred. */
typedef enum uvhttp_flow { UVHTTP_NEXT, UVHTTP_STOP } uvhttp_flow_t;

/** Runs before the handler, when the head of the request is complete and before its body is received. A refused request
 * therefore costs no memory for its body; see uvhttp_middleware_t.needs_body. To act after the handler, register
 * uvhttp_response_on_finish or uvhttp_response_on_done. */
typedef uvhttp_flow_t (*uvhttp_middleware_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** Continues the middleware chain after an asynchronous wait. The middleware has called uvhttp_response_defer and
 * returned UVHTTP_STOP. Instead of a response, `resume` runs on the loop's thread and decides. UVHTTP_NEXT passes the
 * request to the rest of the chain and the handler; they see a response that is not deferred. UVHTTP_STOP means that it
 * has responded, or deferred again. If the client has disconnected, `res` and `req` are NULL and the result is ignored.
 * Release the handle afterwards.
 *
 * Call it at most once, and not after a response. Returns 0, UVHTTP_E_ABORTED (the client has disconnected; `resume` is
 * not called), UVHTTP_E_STATE, UVHTTP_E_INVALID or UVHTTP_E_NOMEM (the handle can still respond). With a handle of a
 * handler, the client gets 500. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_next(uvhttp_deferred_t *deferred, uvhttp_middleware_cb resume,
                                                         void *user);

/** A middleware, passed by value. `destroy(user)` is called once if it is set: when the server is freed, or when
 * registration fails. Register a value only once. Registration with `run` NULL fails with UVHTTP_E_INVALID. Members
 * that are not named are 0.
 *
 * Without `needs_body`, a middleware sees only the head. uvhttp_request_body is empty, even if the body arrived with
 * the head, and "100 Continue" has not been sent. If the middleware refuses the request, up to 64 KiB of a body
 * announced by Content-Length are discarded. With more, the connection closes after the response (RFC 9112
 * section 9.6). */
typedef struct uvhttp_middleware {
    uvhttp_middleware_cb run;
    void *user;
    void (*destroy)(void *user);
    bool needs_body; /**< true: this middleware and all after it run when the body is complete (uvhttp_request_body),
                        for example to check a signature. Register it after middleware that may refuse. No effect on
                        routes with stream_body, whose body is never buffered, and on requests that match no route */
    void (*reload)(void *user); /**< uvhttp_server_reload calls it on its own thread, while requests run, to open files
                                   again. May be NULL */
    /** Runs instead of `run` when the server responds itself before this middleware runs: for a malformed head, a body
     * above a maximum, or a slow client. It may add fields and hooks (uvhttp_response_on_finish, _on_done), so that
     * such a response is logged and counted like others. It must not respond. For a malformed head the request has at
     * most method and target (uvhttp_server_on_error). Loop thread. NULL: the middleware does not see such requests. */
    void (*on_refused)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
    void *reserved[4]; /**< NULL: for later releases */
} uvhttp_middleware_t;

/** Options of one route (uvhttp_route_options), or the defaults of the routes of a group (uvhttp_group_defaults). A
 * field that is 0 has the value of the innermost group that sets it, or else the default given here. A route cannot
 * switch off `stream_body` or `live_body` of its group: register it in another group with the same prefix. */
typedef struct uvhttp_route_options_s {
    bool stream_body; /**< the body is not buffered in memory. On the loop and in a coroutine, the handler runs when the
                         head is complete, and reads with uvhttp_request_on_body or uvhttp_coro_read_body. On a worker
                         the body is spooled: received completely before the handler runs, beyond config.spool_memory
                         into a temporary file, so that a slow client occupies no thread. The handler reads it with
                         uvhttp_request_read_body. If the disk is full, the client gets 507. Default: the handler runs
                         when the body is complete, for uvhttp_request_body */
    uint64_t
        body_size_max; /**< maximum size of a request body in bytes, above or below config.body_size_max, up to 2^62;
                          larger bodies get 413. Default: config.body_size_max, or no limit with stream_body */
    uint32_t body_timeout; /**< seconds without a byte of the body; a paused stream does not count. UVHTTP_NEVER: no
                              limit. Default: config.body_timeout */
    uint32_t response_timeout_ms; /**< ms that the application has to respond or to begin a streamed response; above:
                                   503. It starts when a handler that deferred returns. With a streaming request body it
                                   starts at the end of the body, or while the body is paused. 1..604800000, or
                                   UVHTTP_NEVER: no limit, even if a group sets one. Default: no limit */
    uvhttp_exec_t
        exec;       /**< execution mode. UVHTTP_EXEC_DEFAULT: the mode given to uvhttp_route or uvhttp_group_route */
    bool live_body; /**< with stream_body and UVHTTP_EXEC_WORKER: the handler runs when the head is complete, and its
                       thread waits for the client in uvhttp_request_read_body. For handlers that need bytes
                       immediately; at most config.worker_live_max threads. Default: the body is spooled */
} uvhttp_route_options_t;

/** A set of routes with a common prefix, common middleware and common defaults (server.h). */
typedef struct uvhttp_group_s uvhttp_group_t;

/** A registered route. Owned by the server, and valid until uvhttp_server_free. */
typedef struct uvhttp_route_s uvhttp_route_t;

/* Patterns are absolute and decoded, in UTF-8, without '%', '?', '#', control characters and dot segments. Literal
 * braces and angle brackets are refused, because "/users/{id}" would be a path without parameters: write "/users/:id".
 * For the characters themselves write "%7B", "%7D", "%3C" and "%3E", the only escapes in patterns.
 *   "/exact/path"              that path; "/a" and "/a/" are two paths
 *   "/users/:id/files/:name"   ":x" is one whole segment, not empty; uvhttp_request_param(req, "id")
 *   "/assets/" then "*path"    the rest of the path, may be empty; last segment only
 * Names match [A-Za-z0-9_-]+ and occur once per pattern; the maximum is 32. Two routes conflict when they have the same
 * method and their patterns match the same paths ("/u/:a" and "/u/:b").
 *
 * Route selection compares segments from the left: a static segment is preferred to ":x", and ":x" to "*x". Among the
 * patterns that match the path, the first one with a suitable method is selected: the method itself, GET for HEAD, or
 * UVHTTP_ANY. If there is none, OPTIONS gets 204 and other methods get 405, both with Allow. UVHTTP_METHOD_OTHER
 * matches only UVHTTP_ANY. The order of registration is irrelevant.
 *
 * Middleware runs in this order: server, outer group, inner group, route; within each, in the order of the calls. It
 * may be added before or after the route. For 404 the server's middleware runs. For 405 and automatic OPTIONS, the
 * middleware of the pattern's group runs too, before the library responds. It may respond itself and return
 * UVHTTP_STOP. */

UVHTTP_END_DECLS

#endif
