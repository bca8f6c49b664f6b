/* Owns: responses of 101: what is recorded of them. The protocol gives the connection to what follows. */
#include <string.h>

#include "base/sized.h"
#include "base/str.h"
#include "exchange/exchange.h"

/* HTTP/2 has no connection to give away, but streams that are channels (RFC 8441). */
static bool carries(const uvhttp_request_t *req, const uvhttp__upgrade_t *to) {
    return req->head.upgrade &&
           (req->head.version == UVHTTP_HTTP_1_1 || (req->head.version == UVHTTP_HTTP_2 && to->events));
}

static int put_fields(uvhttp_response_t *res, const char *protocol) {
    if (res->request->head.version == UVHTTP_HTTP_2) return UVHTTP_OK;
    int status =
        uvhttp__response_put_header(res, UVHTTP__STR("Upgrade"), (uvhttp_str_t){protocol, strlen(protocol)}, true);
    if (status != UVHTTP_OK) return status;
    return uvhttp__response_put_header(res, UVHTTP__STR("Connection"), UVHTTP__STR("Upgrade"), true);
}

static int upgrade(uvhttp_response_t *res, const char *protocol, uvhttp__upgrade_t to) {
    uvhttp__exchange_t *exchange = uvhttp__exchange_of(res);
    if (!carries(&exchange->request, &to) || exchange->request.body.size > 0 || exchange->incoming ||
        uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED | UVHTTP__RESPONSE_COMMITTED |
                                     UVHTTP__RESPONSE_ON_ERROR))
        return UVHTTP_E_STATE;
    uvhttp__upgrade_t *recorded = uvhttp__arena_alloc(res->arena, sizeof *recorded);
    if (!recorded) return UVHTTP_E_NOMEM;
    *recorded = to;
    int status = put_fields(res, protocol);
    if (status == UVHTTP_OK) status = uvhttp_response_empty(res, 204);
    if (status != UVHTTP_OK) { /* the handler may respond otherwise */
        uvhttp__response_remove_fields(res, UVHTTP__STR("Upgrade"));
        uvhttp__response_remove_fields(res, UVHTTP__STR("Connection"));
        return status;
    }
    res->status = 101;
    exchange->upgrade = recorded;
    return UVHTTP_OK;
}

int uvhttp__exchange_upgrade(uvhttp_response_t *res, const char *protocol, const uvhttp__channel_events_t *events,
                             void *user) {
    return upgrade(res, protocol, (uvhttp__upgrade_t){.events = events, .user = user});
}

int uvhttp_response_upgrade(uvhttp_response_t *res, const char *protocol, const uvhttp_tcp_handlers_t *handlers,
                            void *user) {
    if (!res || !protocol || !handlers || !handlers->on_data) return UVHTTP_E_INVALID;
    if (!UVHTTP__RESERVED_UNUSED(handlers)) return UVHTTP_E_UNSUPPORTED;
    return upgrade(res, protocol, (uvhttp__upgrade_t){.handlers = handlers, .user = user});
}
