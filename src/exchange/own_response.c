/* Owns: what happens to a response that the server generates before it leaves: middleware that has not run yet is
 * notified, and the application's error function may replace it. */
#include "exchange/own_response.h"

/* Each middleware sees a request once: by run, or here. */
static void note_refusal(uvhttp__exchange_t *exchange) {
    uvhttp__way_t *way = &exchange->way;
    const uvhttp__chain_t *chain =
        way->chain ? way->chain : uvhttp__router_root_chain(exchange->worker->service->router);
    for (; way->next < chain->count; way->next++) {
        const uvhttp_middleware_t *middleware = &chain->items[way->next];
        if (middleware->on_refused) middleware->on_refused(&exchange->request, &exchange->response, middleware->user);
    }
}

void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange) {
    const uvhttp__service_t *service = exchange->worker->service;
    uvhttp_response_t *res = &exchange->response;
    int code = res->code;
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_BY_SERVER;
    note_refusal(exchange);
    if (!service->on_error) return;
    res->flags |= UVHTTP__RESPONSE_ON_ERROR;
    service->on_error(&exchange->request, res, res->status, code, service->on_error_user);
    res->flags &= (uint16_t)~UVHTTP__RESPONSE_ON_ERROR;
}
