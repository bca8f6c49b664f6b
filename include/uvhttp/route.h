/* Owns: handler and middleware types. Routes and groups are registered on a server (server.h). */
#ifndef UVHTTP_ROUTE_H
#define UVHTTP_ROUTE_H

#include <uvhttp/request.h>
#include <uvhttp/response.h>

UVHTTP_BEGIN_DECLS

/** Answers a request. Runs as its route says (uvhttp_exec_t). Returning without an answer and without
 * uvhttp_response_defer gives the client a 500 and counts in handler_no_response. */
typedef void (*uvhttp_handler_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** How the handler of a route is run; its signature is the same. Middleware runs on the loop's thread before it, and
 * hooks run there after it, whatever the mode. A mode that this build does not have is refused at registration with
 * UVHTTP_E_UNSUPPORTED. */
typedef enum uvhttp_exec {
    UVHTTP_EXEC_DEFAULT,  /**< as the defaults of the groups around the route say (uvhttp_group_defaults), else on the
                               loop */
    UVHTTP_EXEC_LOOP,     /**< on the loop's thread: it must not block */
    UVHTTP_EXEC_WORKER,   /**< on a thread of the server's pool: it may block. Request and response are that thread's
                               until it returns, all of their functions may be used, and uvhttp_response_write waits
                               for a slow client. If the client goes meanwhile, the request stays readable, and what is
                               written is refused with UVHTTP_E_ABORTED. A streamed body is read by
                               uvhttp_request_read_body. No thread left and config.max_backlog waiting, or none for
                               config.worker_queue_timeout_ms: the client gets a 503 with Retry-After */
    UVHTTP_EXEC_COROUTINE /**< in a coroutine of the loop: it may wait in the functions that say so, and must not block
                               otherwise */
} uvhttp_exec_t;

/** What a middleware decided: pass the request on, or stop here because it has answered or deferred. */
typedef enum uvhttp_flow { UVHTTP_NEXT, UVHTTP_STOP } uvhttp_flow_t;

/** Runs before the handler, when the head of the request has come: before its body has, so that a request which a
 * middleware refuses costs no memory for it (see uvhttp_middleware_t.needs_body). To act on the way back it registers
 * uvhttp_response_on_finish or _on_done. */
typedef uvhttp_flow_t (*uvhttp_middleware_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** Goes on where a middleware had to wait. It has called uvhttp_response_defer and returned UVHTTP_STOP; in place of an
 * answer, `go_on` runs on the loop's thread and decides: UVHTTP_NEXT passes the request on to the rest of the chain and
 * the handler, which find the response as if nobody had deferred it, UVHTTP_STOP says that it has answered (or deferred
 * again). When the client has gone meanwhile, `res` and `req` are NULL and what it returns does not matter. The handle
 * has done its work: release it. Any thread, at most once and not after an answer. Returns 0, UVHTTP_E_ABORTED (the
 * client has gone, go_on is not called), UVHTTP_E_STATE, UVHTTP_E_INVALID or UVHTTP_E_NOMEM (the handle can still
 * answer). A handle of a handler gets the client a 500. */
UVHTTP_EXPORT int uvhttp_deferred_next(uvhttp_deferred_t *deferred, uvhttp_middleware_cb go_on, void *user);

/** By value; `destroy(user)`, if set, is called once: when the server is freed, or when registering it has failed.
 * Register a value once only. run NULL: registering it fails with UVHTTP_E_INVALID. Members that are not named are 0.
 *
 * Without `needs_body` a middleware sees the head alone: uvhttp_request_body is empty, also when the body has come with
 * the head, and "100 Continue" has not been sent. When it refuses the request, up to 64 KiB of the body that
 * Content-Length has announced are discarded, else the connection ends after the response (RFC 9112 section 9.6). */
typedef struct uvhttp_middleware {
    uvhttp_middleware_cb run;
    void *user;
    void (*destroy)(void *user);
    bool needs_body; /**< true: it and all middleware behind it run when the whole body has come (uvhttp_request_body),
                          for instance to check a signature of it; put it behind what may refuse. Without effect on
                          routes with stream_body, whose body is never buffered, and for requests that no route
                          matches */
    void (*reload)(void *user); /**< may be NULL; uvhttp_server_reload calls it: open files again. On the thread of
                                   that, while requests run */
    /** In place of `run`, for a request to which the server responds by itself before the turn of this middleware has
     * come: a head that cannot be read, a body above a limit, a client that is too slow. To add fields and hooks
     * (uvhttp_response_on_finish, _on_done), so that such a response is logged and counted like any other; not to
     * respond. Of a head that could not be read the request shows only method and target, or not even those
     * (uvhttp_server_on_error). Loop thread. NULL: the middleware does not see such requests. */
    void (*on_refused)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
} uvhttp_middleware_t;

/** What a route has of its own (uvhttp_route_options), or what the routes of a group inherit (uvhttp_group_defaults). A
 * field that is 0 has the value of the innermost group whose defaults name one, else the default given here. A route
 * cannot switch `stream_body` or `live_body` of its group off: register it in another group with the same prefix. */
typedef struct uvhttp_route_options_s {
    bool stream_body; /**< the body is not buffered in memory. On the loop and in a coroutine the handler runs as soon
                         as the head has come, and takes the body by uvhttp_request_on_body or uvhttp_coro_read_body. On
                         a worker the body is spooled: it is received first, beyond config.spool_memory into a temporary
                           file, so that slow clients hold no thread; then the handler runs and reads it by
                           uvhttp_request_read_body. A disk that is full gives the client 507. Default: the handler runs
                           when the body has come whole, for uvhttp_request_body */
    uint64_t body_size_max; /**< bytes of a request's body, more or less than config.body_size_max, up to 2^62 and for a
                                 stream any; larger ones are refused with 413. Default: config.body_size_max, or, with
                                 stream_body, no limit */
    uint32_t body_timeout;  /**< seconds in which no byte of a body comes, in which a stream that is paused does not
                               count;  UINT32_MAX: no limit; default: config.body_timeout */
    uint32_t
        response_timeout_ms; /**< how long the server waits for the application: from the return of the handler that
                                has deferred its answer (with a stream: from the end of its body, or while it is
                                paused) to the answer or the begin of one in pieces; then the client gets a 503.
                                1..604800000, or UINT32_MAX: no limit, also where a group has one; default: no limit
                              */
    uvhttp_exec_t exec; /**< how the handler is run; UVHTTP_EXEC_DEFAULT (0): as uvhttp_route or uvhttp_group_route has
                             said */
    bool live_body; /**< with stream_body in the same options, and UVHTTP_EXEC_WORKER: the handler runs as soon as the
                       head has come, and its thread waits for the client in uvhttp_request_read_body. For handlers that
                       must see the bytes as they come; config.worker_live_max threads at most. Default: the body is
                       spooled */
} uvhttp_route_options_t;

/** A set of routes with a common prefix, common middleware and common defaults (server.h). */
typedef struct uvhttp_group_s uvhttp_group_t;

/** A registered route. Owned by the server, and valid until uvhttp_server_free. */
typedef struct uvhttp_route_s uvhttp_route_t;

/* Patterns are absolute and written decoded, in UTF-8: no '%', '?', '#', control character or dot segment. A brace or
 * an angle bracket as it stands is refused, because "/users/{id}" would be a path without parameters: write
 * "/users/:id", and for the character itself "%7B", "%7D", "%3C", "%3E", the only escapes of a pattern.
 *   "/exact/path"              that path; "/a" and "/a/" are two paths
 *   "/users/:id/files/:name"   ":x" is one whole segment, not empty; uvhttp_request_param(req, "id")
 *   "/assets/" then "*path"    all the rest, may be empty; last segment only
 * Names are [A-Za-z0-9_-]+, each once per pattern, at most 32. Two routes conflict when they have the same method and
 * their patterns match the same paths ("/u/:a" and "/u/:b").
 *
 * Which route: segment by segment from the left a static segment wins over ":x", ":x" over "*x". Of all patterns that
 * match the path, the first in this order that has the method answers: the method itself, GET for HEAD, or UVHTTP_ANY.
 * If there is none, OPTIONS gets 204, others 405, both with Allow. UVHTTP_METHOD_OTHER goes to UVHTTP_ANY only. The
 * order of registration never matters.
 *
 * Which middleware: all of the server, then of the outer group, the inner group, the route, each in the order of the
 * calls; whether it was added before or after the route does not matter. For 404 the server's middleware runs, for 405
 * and automatic OPTIONS also that of the group of the pattern, before the library answers. It may answer itself and
 * return UVHTTP_STOP. */

UVHTTP_END_DECLS

#endif
