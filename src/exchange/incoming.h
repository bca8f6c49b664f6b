/* Owns: streaming request bodies. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_INCOMING_H
#define UVHTTP_SRC_EXCHANGE_INCOMING_H

#include "exchange/exchange.h"

/* In the exchange's arena; NULL if there is no memory. */
uvhttp__incoming_t *uvhttp__incoming_new(uvhttp__exchange_t *exchange);
/* The client shall send, if there is more to come. */
void uvhttp__incoming_resume(uvhttp__exchange_t *exchange);
/* uvhttp_request_on_body, also for a handler on a worker thread. */
int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user);
/* The body will not be complete: notifies the handler, if it has asked for the body and was not notified. */
void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status);

#endif
