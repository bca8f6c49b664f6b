/* Owns: which of the server's own handlers stands before that of a route, so that it is run as the route says. */
#include "exchange/exec.h"

#include <stdio.h>

#include "exchange/body.h"
#include "exchange/coroutine.h"
#include "exchange/worker.h"

typedef struct exec_mode {
    const char *name;
    uvhttp_handler_cb serve; /* runs route->inner, `user` is the route; NULL: not in this build */
} exec_mode_t;

static const exec_mode_t modes[] = {
    [UVHTTP_EXEC_LOOP] = {"UVHTTP_EXEC_LOOP", NULL},
    [UVHTTP_EXEC_WORKER] = {"UVHTTP_EXEC_WORKER", uvhttp__call_serve},
#if UVHTTP_WITH_COROUTINES
    [UVHTTP_EXEC_COROUTINE] = {"UVHTTP_EXEC_COROUTINE", uvhttp__coroutine_serve},
#else
    [UVHTTP_EXEC_COROUTINE] = {"UVHTTP_EXEC_COROUTINE (BUILD_WITH_COROUTINES)", NULL},
#endif
};

static int refuse(uvhttp__router_t *router, const uvhttp__route_t *route, int status, const char *what,
                  const char *advice) {
    char text[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 256];
    snprintf(text, sizeof text, "%s %s: %s: %s",
             route->method == UVHTTP_ANY ? "ANY" : uvhttp_method_name((uvhttp_method_t)route->method), route->pattern,
             what, advice);
    return uvhttp__router_fail(router, status, text);
}

static void uninstall(uvhttp__route_t *route) {
    if (!route->inner) return;
    route->handler = route->inner;
    route->user = route->inner_user;
    route->inner = NULL;
}

int uvhttp__exec_install(uvhttp__router_t *router, uvhttp__route_t *route) {
    uninstall(route);
    unsigned exec = uvhttp__route_mode(route);
    if (route->exec == UVHTTP__EXEC_FIXED && route->options.exec)
        return refuse(router, route, UVHTTP_E_INVALID, "exec", "the library's own handler runs on the loop");
    if (exec >= sizeof modes / sizeof *modes)
        return refuse(router, route, UVHTTP_E_INVALID, "exec",
                      "give UVHTTP_EXEC_LOOP, UVHTTP_EXEC_WORKER or UVHTTP_EXEC_COROUTINE");
    const exec_mode_t *mode = &modes[exec];
    if (exec != UVHTTP_EXEC_LOOP && !mode->serve)
        return refuse(router, route, UVHTTP_E_UNSUPPORTED, mode->name,
                      "this build has no such mode: register the route with UVHTTP_EXEC_LOOP");
    uvhttp_handler_cb serve = exec == UVHTTP_EXEC_LOOP && route->options.stream_body ? uvhttp__body_serve : mode->serve;
    if (!serve) return UVHTTP_OK;
    route->inner = route->handler;
    route->inner_user = route->user;
    route->handler = serve;
    route->user = route;
    return UVHTTP_OK;
}
