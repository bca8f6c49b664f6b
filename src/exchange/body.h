/* Owns: when the handler of a request with a body runs. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_BODY_H
#define UVHTTP_SRC_EXCHANGE_BODY_H

#include "exchange/exchange.h"

/* The handler of all routes with stream_body; user: the route. */
void uvhttp__body_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* uvhttp_deferred_next: the exchange is no longer deferred. */
void uvhttp__exchange_resume(uvhttp__exchange_t *exchange, uvhttp_middleware_cb resume, void *user);

#endif
