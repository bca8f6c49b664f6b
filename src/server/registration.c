/* Owns: registering routes, groups, middleware and their options on a server. May include: everything. */
#include "base/sized.h"
#include "exchange/exec.h"
#include "server/server.h"
#include "server/server_config.h"

/* NULL for a server: uvhttp_server_new has failed, and the program, which need not look before listen or
 * run, hears of it there. */

static uvhttp_group_t *root_of(uvhttp_server_t *server) {
    return server ? uvhttp__router_root(server->service.router) : NULL;
}

static uvhttp_route_t *add_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                 uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    uvhttp_route_t *route;
    uint8_t kept = (unsigned)exec < UVHTTP__EXEC_FIXED ? (uint8_t)exec : UVHTTP__EXEC_FIXED - 1;
    if (uvhttp__group_add(group, method, pattern, handler, user, kept, &route) != UVHTTP_OK) return NULL;
    return uvhttp__exec_check(route) == UVHTTP_OK ? route : NULL;
}

uvhttp_route_t *uvhttp_route(uvhttp_server_t *server, uvhttp_method_t method, const char *pattern,
                             uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    return add_route(root_of(server), method, pattern, handler, user, exec);
}

uvhttp_route_t *uvhttp_group_route(uvhttp_group_t *group, uvhttp_method_t method, const char *pattern,
                                   uvhttp_handler_cb handler, void *user, uvhttp_exec_t exec) {
    return add_route(group, method, pattern, handler, user, exec);
}

#define ROUTE_FUNCTIONS(name, method)                                                                                  \
    uvhttp_route_t *uvhttp_##name(uvhttp_server_t *server, const char *pattern, uvhttp_handler_cb handler,             \
                                  void *user) {                                                                        \
        return add_route(root_of(server), method, pattern, handler, user, UVHTTP_EXEC_DEFAULT);                        \
    }                                                                                                                  \
    uvhttp_route_t *uvhttp_group_##name(uvhttp_group_t *group, const char *pattern, uvhttp_handler_cb handler,         \
                                        void *user) {                                                                  \
        return add_route(group, method, pattern, handler, user, UVHTTP_EXEC_DEFAULT);                                  \
    }
ROUTE_FUNCTIONS(get, UVHTTP_GET)
ROUTE_FUNCTIONS(head, UVHTTP_HEAD)
ROUTE_FUNCTIONS(post, UVHTTP_POST)
ROUTE_FUNCTIONS(put, UVHTTP_PUT)
ROUTE_FUNCTIONS(delete, UVHTTP_DELETE)
ROUTE_FUNCTIONS(patch, UVHTTP_PATCH)
ROUTE_FUNCTIONS(options, UVHTTP_OPTIONS)
ROUTE_FUNCTIONS(any, UVHTTP_ANY)

uvhttp_group_t *uvhttp_group(uvhttp_server_t *server, const char *prefix) {
    return uvhttp__group_new(root_of(server), prefix);
}

uvhttp_group_t *uvhttp_group_group(uvhttp_group_t *group, const char *prefix) {
    return uvhttp__group_new(group, prefix);
}

/* What the program gave, in a struct of the library's own size. */
static int read_options(uvhttp__router_t *router, const uvhttp_route_options_t *given, size_t given_size,
                        uvhttp_route_options_t *full) {
    if (uvhttp__sized_read(full, sizeof *full, given, given_size)) return UVHTTP_OK;
    return uvhttp__router_fail(router, UVHTTP_E_UNSUPPORTED, "route options: " UVHTTP__SIZED_NEWER);
}

int uvhttp_group_defaults_sized(uvhttp_group_t *group, const uvhttp_route_options_t *defaults, size_t defaults_size) {
    uvhttp_route_options_t full;
    if (!group) return UVHTTP_E_INVALID;
    int status = read_options(uvhttp__group_router(group), defaults, defaults_size, &full);
    return status == UVHTTP_OK ? uvhttp__group_set_defaults(group, &full) : status;
}

int uvhttp_use(uvhttp_server_t *server, uvhttp_middleware_t middleware) {
    return uvhttp__group_use(root_of(server), middleware);
}

int uvhttp_group_use(uvhttp_group_t *group, uvhttp_middleware_t middleware) {
    return uvhttp__group_use(group, middleware);
}

int uvhttp_route_use(uvhttp_route_t *route, uvhttp_middleware_t middleware) {
    return uvhttp__route_use(route, middleware);
}

int uvhttp_route_options_sized(uvhttp_route_t *route, const uvhttp_route_options_t *options, size_t options_size) {
    uvhttp_route_options_t full;
    if (!route) return UVHTTP_E_INVALID;
    int status = read_options(uvhttp__route_router(route), options, options_size, &full);
    if (status == UVHTTP_OK) status = uvhttp__route_set_options(route, &full);
    return status == UVHTTP_OK ? uvhttp__exec_check(route) : status;
}

int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error, void *user) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->frozen)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "on_error: not after the server has started to listen");
    server->service.on_error = on_error;
    server->service.on_error_user = user;
    return UVHTTP_OK;
}
