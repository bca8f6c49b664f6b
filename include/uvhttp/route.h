/* Owns: handler and middleware types. Routes and groups are registered on a server (server.h). */
#ifndef UVHTTP_ROUTE_H
#define UVHTTP_ROUTE_H

#include <uvhttp/request.h>
#include <uvhttp/response.h>

UVHTTP_BEGIN_DECLS

/** Answers a request. Runs on the loop's thread and must not block. Returning without an answer and without
 * uvhttp_response_defer gives the client a 500 and counts in handler_no_answer. */
typedef void (*uvhttp_handler_t)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** What a middleware decided: pass the request on, or stop here because it has answered or deferred. */
typedef enum uvhttp_flow { UVHTTP_NEXT, UVHTTP_STOP } uvhttp_flow_t;

/** Runs before the handler; to act on the way back it registers uvhttp_response_on_finish or _on_done. */
typedef uvhttp_flow_t (*uvhttp_middleware_cb)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);

/** By value; `destroy(user)`, if set, is called once when the server is freed. */
typedef struct uvhttp_middleware {
    uvhttp_middleware_cb run;
    void *user;
    void (*destroy)(void *user);
} uvhttp_middleware_t;

/* Patterns: "/exact/path", "/users/:id/files/:name" (a segment, not empty), "/assets/" followed by "*path" (all the rest, may be empty;
 * last segment only). Static segments win over ":x", ":x" over "*x". */

UVHTTP_END_DECLS

#endif
