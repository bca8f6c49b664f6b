/* Owns: the steps from a head to its handler, for a request whose body decides when each step runs. May include: as
 * exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_RUN_H
#define UVHTTP_SRC_EXCHANGE_RUN_H

#include "exchange/exchange.h"

/* Routes a request whose body has not come. Returns what its route says, or NULL if there is none. */
const uvhttp_route_options_t *uvhttp__exchange_route(uvhttp__exchange_t *exchange);
/* Runs the middleware that needs no body. True: the request has passed, and its body is wanted. False: it got a
 * response, or waits for a middleware with exchange->body_waits. */
bool uvhttp__exchange_run_head(uvhttp__exchange_t *exchange);
/* The rest of the chain and the handler of a request that was routed. */
void uvhttp__exchange_go(uvhttp__exchange_t *exchange);

#endif
