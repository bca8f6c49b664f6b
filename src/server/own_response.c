/* Owns: what happens to a response that the server makes by itself before it leaves: middleware whose turn had not come
 * notes it, and the application's error function may replace it. */
#include "server/server_internal.h"

/* Each middleware sees a request once: by run, or here. */
static void note_refusal(uvhttp__exchange_t *exchange) {
    uvhttp__way_t *way = &exchange->way;
    const uvhttp__chain_t *chain =
        way->chain ? way->chain : uvhttp__router_root_chain(exchange->worker->server->router);
    for (; way->next < chain->count; way->next++) {
        const uvhttp_middleware_t *middleware = &chain->items[way->next];
        if (middleware->on_refused) middleware->on_refused(&exchange->request, &exchange->response, middleware->user);
    }
}

void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange) {
    const uvhttp_server_t *server = exchange->worker->server;
    uvhttp_response_t *res = &exchange->response;
    int code = res->code;
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_BY_SERVER;
    note_refusal(exchange);
    if (!server->on_error) return;
    res->flags |= UVHTTP__RESPONSE_ON_ERROR;
    server->on_error(&exchange->request, res, res->status, code, server->on_error_user);
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_ON_ERROR;
}

int uvhttp_server_on_error(uvhttp_server_t *server, uvhttp_error_cb on_error, void *user) {
    if (!server) return UVHTTP_E_INVALID;
    if (server->frozen)
        return uvhttp__server_remember(server, UVHTTP_E_STATE, "on_error: not after the server has begun to listen");
    server->on_error = on_error;
    server->on_error_user = user;
    return UVHTTP_OK;
}
