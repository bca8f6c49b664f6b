/* Owns: the properties of the connection that a request returns. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_ORIGIN_H
#define UVHTTP_SRC_EXCHANGE_ORIGIN_H

#include "exchange/exchange.h"

extern const uvhttp__request_ops_t uvhttp__exchange_request_ops;

/* A request that knows nothing of its connection yet refers to what all requests of the connection show of it, if they
 * do, and there is memory. */
void uvhttp__exchange_share_origin(uvhttp__exchange_t *exchange);

#endif
