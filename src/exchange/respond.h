/* Owns: sending a response, or cutting it off. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_RESPOND_H
#define UVHTTP_SRC_EXCHANGE_RESPOND_H

#include "exchange/exchange.h"

/* Whether the application has said what the response is to be, or that it will. */
static inline bool uvhttp__response_is_settled(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_COMPLETE | UVHTTP__RESPONSE_BEGUN | UVHTTP__RESPONSE_DEFERRED);
}
/* Whether there is a response that has to leave as soon as the application returns. */
static inline bool uvhttp__response_is_complete(const uvhttp_response_t *res) {
    return uvhttp__response_is(res, UVHTTP__RESPONSE_ENDED) ||
           (uvhttp__response_is(res, UVHTTP__RESPONSE_COMPLETE) && !uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN));
}

/* Makes exchange->outgoing for a streamed response. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_open_outgoing(uvhttp__exchange_t *exchange);
/* The application has returned: its response leaves, now or when it is made; 500 if it has neither responded nor
 * deferred. */
void uvhttp__exchange_conclude(uvhttp__exchange_t *exchange);
/* What to do after the handler, or what a deferred handle ran, has returned. */
void uvhttp__exchange_returned(uvhttp__exchange_t *exchange);
/* The rest of uvhttp__exchange_abort, when no worker thread has the exchange any more. */
void uvhttp__exchange_gone(uvhttp__exchange_t *exchange, int status);

#endif
