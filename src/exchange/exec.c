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

static int refuse(uvhttp_route_t *route, int status, const char *what, const char *advice) {
    char text[UVHTTP__ROUTE_PATTERN_SIZE_MAX + 256];
    snprintf(text, sizeof text, "%s %s: %s: %s",
             route->method == UVHTTP_ANY ? "ANY" : uvhttp_method_name((uvhttp_method_t)route->method), route->pattern,
             what, advice);
    return uvhttp__router_fail(uvhttp__route_router(route), status, text);
}

int uvhttp__exec_check(uvhttp_route_t *route) {
    unsigned exec = route->options.exec;
    if (route->exec == UVHTTP__EXEC_FIXED)
        return exec == UVHTTP_EXEC_DEFAULT
                   ? UVHTTP_OK
                   : refuse(route, UVHTTP_E_INVALID, "exec", "the library's own handler runs on the loop");
    if (exec == UVHTTP_EXEC_DEFAULT) exec = route->exec;
    if (exec >= sizeof modes / sizeof *modes)
        return refuse(route, UVHTTP_E_INVALID, "exec",
                      "give UVHTTP_EXEC_LOOP, UVHTTP_EXEC_WORKER or UVHTTP_EXEC_COROUTINE");
    if (exec > UVHTTP_EXEC_LOOP && !modes[exec].serve)
        return refuse(route, UVHTTP_E_UNSUPPORTED, modes[exec].name,
                      "this build has no such mode: register the route with UVHTTP_EXEC_LOOP");
    return UVHTTP_OK;
}

int uvhttp__exec_install(uvhttp_route_t *route) {
    if (route->exec == UVHTTP__EXEC_FIXED) return UVHTTP_OK;
    int status = uvhttp__exec_check(route);
    if (status != UVHTTP_OK) return status;
    unsigned exec = route->options.exec;
    uvhttp_handler_cb serve = modes[exec].serve;
    if (exec == UVHTTP_EXEC_LOOP && route->options.stream_body) serve = uvhttp__body_serve;
    if (!serve) return UVHTTP_OK;
    route->inner = route->handler;
    route->inner_user = route->user;
    route->handler = serve;
    route->user = route;
    return UVHTTP_OK;
}
