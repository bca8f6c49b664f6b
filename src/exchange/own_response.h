/* Owns: the server's own responses. The loop's thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_OWN_RESPONSE_H
#define UVHTTP_SRC_EXCHANGE_OWN_RESPONSE_H

#include "exchange/exchange.h"

/* The response that is about to leave is the server's: middleware that has not seen the request notes it, and the
 * application may replace it. */
void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange);

#endif
