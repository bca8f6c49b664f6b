/* Owns: bodies that the application takes as they come. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_INCOMING_H
#define UVHTTP_SRC_EXCHANGE_INCOMING_H

#include "exchange/exchange.h"

/* In the exchange's arena; NULL if there is no memory. */
uvhttp__incoming_t *uvhttp__incoming_new(uvhttp__exchange_t *exchange);
/* The client shall send, if there is more to come. */
void uvhttp__incoming_resume(uvhttp__exchange_t *exchange);
/* uvhttp_request_on_body, also for a handler on a worker thread. */
int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user);
/* It will not come whole: tells it, if the handler has asked for it and has not been told. */
void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status);

#endif
