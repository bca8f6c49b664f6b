/* Owns: the selection of handler and middleware for a request. Built on one thread, then immutable and read by all
 * loops without a lock. May include: message, base. */
#ifndef UVHTTP_SRC_ROUTE_ROUTER_H
#define UVHTTP_SRC_ROUTE_ROUTER_H

#include <stdatomic.h>
#include <uvhttp/error.h>
#include <uvhttp/method.h>
#include <uvhttp/route.h>

#include "base/method.h"
#include "base/span.h"
#include "message/message.h"

#define UVHTTP__ROUTE_PARAM_MAX UVHTTP__PARAM_MAX
#define UVHTTP__ROUTE_PATTERN_SIZE_MAX 1024 /* bytes, prefixes of groups included */
#define UVHTTP__ROUTE_SEGMENT_MAX 64        /* segments of a pattern */
#define UVHTTP__ALLOW_TEXT_MAX 64           /* bytes of an Allow value with every method and the terminator */

typedef struct uvhttp__router uvhttp__router_t;

/* Middleware in the order in which it runs. */
typedef struct uvhttp__chain {
    size_t count;
    size_t head_count; /* those before the first that needs the body: they run when the head has come */
    uvhttp_middleware_t items[];
} uvhttp__chain_t;

/* A handler of the library: it runs on the loop, and nobody can choose otherwise. */
#define UVHTTP__EXEC_FIXED 255

/* The public uvhttp_route_t. */
struct uvhttp_route_s {
    uvhttp_handler_cb handler;
    void *user;
    const uvhttp__chain_t *chain; /* set by freeze */
    const char *pattern;          /* terminated, with the groups' prefixes */
    const uvhttp_str_t *param_names;
    uint8_t param_count;
    uint8_t method; /* uvhttp_method_t */
    uint8_t exec;   /* uvhttp_exec_t as it was registered, or UVHTTP__EXEC_FIXED; options.exec is stronger */
    uvhttp_route_options_t options; /* freeze fills in the defaults of the groups */
    uvhttp_handler_cb inner;        /* the application's handler when the server has put its own before it, else NULL */
    void *inner_user;
    _Atomic uint32_t blocked_said_s; /* the stall detector's: when it named this route, in seconds; 0: never */
};

/* --- registration: before freeze, one thread. --- Every failure is returned, and the first one is remembered with a
 * text. */

/* NULL if out of memory. */
uvhttp__router_t *uvhttp__router_new(void);
/* Calls destroy of every middleware. NULL is allowed. */
void uvhttp__router_free(uvhttp__router_t *router);

/* The group that everything is in: no prefix, its middleware is the global one. */
uvhttp_group_t *uvhttp__router_root(uvhttp__router_t *router);

/* The router that a group belongs to. */
uvhttp__router_t *uvhttp__group_router(const uvhttp_group_t *group);

/* What the router is part of; NULL until it is set. */
void uvhttp__router_set_owner(uvhttp__router_t *router, void *owner);
void *uvhttp__router_owner(const uvhttp__router_t *router);

/* A group in a group. prefix: "" or a pattern without a wildcard; one trailing '/' is dropped. Never NULL (unless
 * parent is): after a failure, which is remembered, it is a group that refuses everything with UVHTTP_E_INVALID, as
 * NULL does. */
uvhttp_group_t *uvhttp__group_new(uvhttp_group_t *parent, const char *prefix);

/* Registers prefix + pattern. method: a uvhttp_method_t but UVHTTP_METHOD_OTHER. exec: kept. route: NULL or
 * receives the route, for uvhttp__route_use. Returns 0, UVHTTP_E_ROUTE_PATTERN, UVHTTP_E_ROUTE_CONFLICT,
 * UVHTTP_E_INVALID, UVHTTP_E_STATE (frozen) or UVHTTP_E_NOMEM. */
int uvhttp__group_add(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern, uvhttp_handler_cb handler,
                      void *user, uint8_t exec, uvhttp_route_t **route);

/* Adds middleware to a group, or to one route. It is the router's from here on: on failure destroy has been called.
 * Returns 0, UVHTTP_E_INVALID (no run function), UVHTTP_E_STATE or UVHTTP_E_NOMEM. */
int uvhttp__group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware);
int uvhttp__route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware);
/* Gives a route its options (NULL: none of its own). Returns 0, UVHTTP_E_INVALID or UVHTTP_E_STATE. */
int uvhttp__route_set_options(uvhttp_route_t *route, const uvhttp_route_options_t *options);
/* What the routes of a group and of the groups in it inherit, unless their own options say otherwise. NULL: nothing.
 * Returns as uvhttp__route_set_options. */
int uvhttp__group_set_defaults(uvhttp_group_t *group, const uvhttp_route_options_t *defaults);
/* The router that a route belongs to. */
uvhttp__router_t *uvhttp__route_router(const uvhttp_route_t *route);
/* Calls visit for every route until it returns something other than 0, and returns that. */
int uvhttp__router_each_route(uvhttp__router_t *router, int (*visit)(uvhttp_route_t *route));

/* Calls reload of every middleware that has one. */
void uvhttp__router_reload(const uvhttp__router_t *router);

/* The middleware of the server, for a request that was not routed. After freeze. */
const uvhttp__chain_t *uvhttp__router_root_chain(const uvhttp__router_t *router);
/* What a group's patterns begin with. */
uvhttp_str_t uvhttp__group_prefix(const uvhttp_group_t *group);

/* Remembers a failure of a registration that needed more than routes, if it is the first. Returns the code. */
int uvhttp__router_fail(uvhttp__router_t *router, int code, const char *text);

/* The first failure: its code or 0, and a line such as "GET /users/:id conflicts with GET /users/:name (registered
 * first)". text may be NULL; it is valid as long as the router. */
int uvhttp__router_error(const uvhttp__router_t *router, const char **text);

/* Compiles chains and tables. No registration afterwards (UVHTTP_E_STATE). Returns 0, the first registration error, or
 * UVHTTP_E_NOMEM. Calling it again is fine. */
int uvhttp__router_freeze(uvhttp__router_t *router);

/* --- matching: after freeze, any thread --- */

typedef enum uvhttp__match_outcome {
    UVHTTP__MATCH_FOUND,
    UVHTTP__MATCH_NOT_FOUND,          /* 404 */
    UVHTTP__MATCH_METHOD_NOT_ALLOWED, /* 405 with Allow */
    UVHTTP__MATCH_OPTIONS,            /* 204 with Allow: nobody has registered OPTIONS, or it is `OPTIONS *` */
} uvhttp__match_outcome_t;

typedef struct uvhttp__match {
    uvhttp__match_outcome_t outcome;
    uint32_t allow;              /* bit 1 << method for METHOD_NOT_ALLOWED and OPTIONS, else 0 */
    const uvhttp_route_t *route; /* FOUND, else NULL */
    /* FOUND: the route's. METHOD_NOT_ALLOWED and OPTIONS: that of the group of the pattern that fits best, so that CORS
     * sees a preflight. NOT_FOUND: the global one. Never NULL. */
    const uvhttp__chain_t *chain;
    uint32_t param_count;
    uvhttp__span_t params[UVHTTP__ROUTE_PARAM_MAX]; /* in `path` */
} uvhttp__match_t;

/* path: decoded, starts with '/' or is "*". Patterns are tried static before ":x" before "*x", segment by segment from
 * the left, and the first one that has the method (or GET for HEAD, or UVHTTP_ANY) is selected. Only if there is none
 * does a pattern without it lead to 405. Fills *match (params only up to param_count). */
void uvhttp__router_match(const uvhttp__router_t *router, uvhttp_method_t method, uvhttp_str_t path,
                          uvhttp__match_t *match);

/* The route of a request whose path needs no decoding and is that of a pattern without parameters, which most are; NULL
 * says nothing. After freeze. */
const uvhttp_route_t *uvhttp__router_find(const uvhttp__router_t *router, const uvhttp_request_t *req);

/* All of routing for a request: decodes its path, matches, hands it the parameters. Returns 0, UVHTTP_E_HTTP_TARGET or
 * UVHTTP_E_NOMEM; then the outcome is NOT_FOUND, so that the global chain can run. */
int uvhttp__router_route(const uvhttp__router_t *router, uvhttp_request_t *req, uvhttp__match_t *match);

/* "GET, HEAD, OPTIONS" for an allow mask, terminated; returns its size. */
size_t uvhttp__allow_text(uint32_t allow, char text[UVHTTP__ALLOW_TEXT_MAX]);

/* Why there is no route. */
typedef struct uvhttp__unrouted {
    uint16_t allow; /* as uvhttp__match_t.allow */
    int16_t why;    /* a UVHTTP_E_* code of routing, or a uvhttp__match_outcome_t */
} uvhttp__unrouted_t;

static_assert(UVHTTP__METHOD_SLOTS <= 16, "a bit of uvhttp__unrouted_t.allow for each method");

/* A chain, the position in it, and the route at its end or NULL. */
typedef struct uvhttp__middleware_cursor {
    const uvhttp__chain_t *chain;
    const uvhttp_route_t *route;
    uint32_t next;               /* index of the middleware that runs next */
    uvhttp__unrouted_t unrouted; /* if route is NULL */
} uvhttp__middleware_cursor_t;

/* Middleware from way->next to before `end`, on this thread, until one says UVHTTP_STOP (returns that; way->next is the
 * one behind it) or all have passed the request on. */
uvhttp_flow_t uvhttp__middleware_cursor_run_until(uvhttp__middleware_cursor_t *cursor, size_t end,
                                                  uvhttp_request_t *req, uvhttp_response_t *res);

/* The same, then the handler, if there is one. UVHTTP_STOP: a middleware has dealt with the request. UVHTTP_NEXT: the
 * handler has run, or there is none. */
static inline uvhttp_flow_t uvhttp__middleware_cursor_run(uvhttp__middleware_cursor_t *cursor, uvhttp_request_t *req,
                                                          uvhttp_response_t *res) {
    size_t count = cursor->chain->count;
    if (cursor->next < count && uvhttp__middleware_cursor_run_until(cursor, count, req, res) == UVHTTP_STOP)
        return UVHTTP_STOP;
    if (cursor->route) cursor->route->handler(req, res, cursor->route->user);
    return UVHTTP_NEXT;
}

#endif
