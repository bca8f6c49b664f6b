/* Owns: what happens to a response that the server makes by itself before it leaves: middleware whose turn had not come
 * notes it, and the application's error function may replace it. */
#include "exchange/own_response.h"

/* Each middleware sees a request once: by run, or here. */
static void note_refusal(uvhttp__exchange_t *exchange) {
    uvhttp__middleware_cursor_t *cursor = &exchange->cursor;
    const uvhttp__chain_t *chain =
        cursor->chain ? cursor->chain : uvhttp__router_root_chain(exchange->loop->service->router);
    for (; cursor->next < chain->count; cursor->next++) {
        const uvhttp_middleware_t *middleware = &chain->items[cursor->next];
        if (middleware->on_refused) middleware->on_refused(&exchange->request, &exchange->response, middleware->user);
    }
}

void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange) {
    const uvhttp__service_t *service = exchange->loop->service;
    uvhttp_response_t *res = &exchange->response;
    int code = res->code;
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_BY_SERVER;
    note_refusal(exchange);
    if (!service->on_error) return;
    res->flags |= UVHTTP__RESPONSE_ON_ERROR;
    service->on_error(&exchange->request, res, res->status, code, service->on_error_user);
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_ON_ERROR;
}
