/* Owns: WebSocket routes: registration and the way from the HTTP request to the handler's connection. May include:
 * everything. */
#include "handler/websocket.h"

#include <stdio.h>

#include "base/sized.h"
#include "exchange/exchange.h"
#include "server/server.h"

/* on_open follows at once when the 101 went out, or the 200 of HTTP/2; else nobody else knows the WebSocket. */
static void on_done(uvhttp_response_t *res, int status, void *user) {
    int opened = uvhttp_request_http_version(uvhttp_response_request(res)) == UVHTTP_HTTP_2 ? 200 : 101;
    if (status != UVHTTP_OK || uvhttp_response_status(res) != opened) uvhttp__ws_discard(user);
}

static void serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_ws_t *ws;
    int status = uvhttp__ws_handshake(req, res, user, &ws);
    if (status != UVHTTP_OK) uvhttp__counters_error(&uvhttp__exchange_of(res)->loop->tcp->counters, status);
    if (!ws) return;
    status = uvhttp_response_on_done(res, on_done, ws);
    if (status != UVHTTP_OK)
        uvhttp__ws_discard(ws);
    else
        status = uvhttp__exchange_upgrade(res, "websocket", &uvhttp__ws_events, ws);
    if (status != UVHTTP_OK) {
        uvhttp__response_fail_by(res, status, uvhttp_error_http_status(status), uvhttp_error_message(status));
    }
}

/* The route's middleware only owns the endpoint: it is freed with the router. */
static uvhttp_flow_t pass_on(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void destroy(void *user) {
    uvhttp__ws_endpoint_free(user);
}

/* The server's registry is created with its first route. */
static int give_registry(uvhttp_server_t *server, uvhttp__ws_endpoint_t *endpoint) {
    if (!server->ws_registry) server->ws_registry = uvhttp__ws_registry_new(server->tcp_server->loop_count);
    if (!server->ws_registry) return UVHTTP_E_NOMEM;
    server->ws_registry_release = uvhttp__ws_registry_release;
    uvhttp__ws_registry_settle(server->ws_registry, &endpoint->options);
    endpoint->registry = server->ws_registry;
    server->service.has_websocket = true;
    return UVHTTP_OK;
}

/* What the program gave, in structs of the library's own size. */
static int read_sized(uvhttp_ws_handlers_t *full, const uvhttp_ws_handlers_t *handlers, size_t handlers_size,
                      uvhttp_ws_options_t *full_options, size_t options_size) {
    bool known = uvhttp__sized_read(full, sizeof *full, handlers, handlers_size);
    known = known && uvhttp__sized_read(full_options, sizeof *full_options, full->options, options_size);
    full->options = full_options;
    if (!known) UVHTTP_LOG_ERROR("http: websocket: %s", UVHTTP__SIZED_NEWER);
    return known ? UVHTTP_OK : UVHTTP_E_UNSUPPORTED;
}

static int make_endpoint(uvhttp_server_t *server, const uvhttp_ws_handlers_t *handlers, void *user, const char *pattern,
                         uvhttp__ws_endpoint_t **endpoint) {
    int status = uvhttp__ws_endpoint_new(handlers, user, pattern, endpoint);
    if (status == UVHTTP_OK) {
        status = give_registry(server, *endpoint);
        if (status != UVHTTP_OK) uvhttp__ws_endpoint_free(*endpoint);
    }
    return status;
}

uvhttp_route_t *uvhttp_group_websocket_sized(uvhttp_group_t *group, const char *pattern,
                                             const uvhttp_ws_handlers_t *handlers, size_t handlers_size,
                                             size_t options_size, void *user) {
    if (!group) return NULL;
    uvhttp_server_t *server = uvhttp__router_owner(uvhttp__group_router(group));
    uvhttp__ws_endpoint_t *endpoint;
    uvhttp_ws_handlers_t full;
    uvhttp_ws_options_t full_options;
    int status = read_sized(&full, handlers, handlers_size, &full_options, options_size);
    if (status == UVHTTP_OK) status = make_endpoint(server, &full, user, pattern, &endpoint);
    if (status != UVHTTP_OK) {
        char text[256];
        snprintf(text, sizeof text, "WebSocket at %s: %s", pattern ? pattern : "(null)", uvhttp_error_message(status));
        (void)uvhttp__router_fail(uvhttp__group_router(group), status, text);
        return NULL;
    }
    uvhttp_route_t *route;
    status = uvhttp__group_add(group, UVHTTP_GET, pattern, serve, endpoint, UVHTTP__EXEC_FIXED, &route);
    if (status != UVHTTP_OK) {
        uvhttp__ws_endpoint_free(endpoint);
        return NULL;
    }
    status = uvhttp__route_use(route, (uvhttp_middleware_t){.run = pass_on, .user = endpoint, .destroy = destroy});
    return status == UVHTTP_OK ? route : NULL;
}

uvhttp_route_t *uvhttp_websocket_sized(uvhttp_server_t *server, const char *pattern,
                                       const uvhttp_ws_handlers_t *handlers, size_t handlers_size, size_t options_size,
                                       void *user) {
    return server ? uvhttp_group_websocket_sized(uvhttp__router_root(server->service.router), pattern, handlers,
                                                 handlers_size, options_size, user)
                  : NULL;
}

int uvhttp_websocket_publish(uvhttp_server_t *server, const char *topic, uvhttp_ws_type_t type, const void *data,
                             size_t size) {
    if (!server) return UVHTTP_E_INVALID;
    if (!server->ws_registry) return UVHTTP_E_STATE;
    return uvhttp__ws_publish(server->ws_registry, NULL, topic, type, data, size);
}
