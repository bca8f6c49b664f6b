/* Owns: faults of handlers that are logged: those that block their loop, and those that send no response. The loop's
 * thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_STALL_H
#define UVHTTP_SRC_EXCHANGE_STALL_H

#include "exchange/exchange.h"

void uvhttp__stall_open(uvhttp__http_loop_t *loop);
/* The duration of the iteration up to its end. */
void uvhttp__stall_check_iteration(uvhttp__http_loop_t *loop, uint64_t ns);
/* A handler did; only while loop->timed. */
void uvhttp__stall_check_handler(uvhttp__http_loop_t *loop, const uvhttp_route_t *route, uint64_t ns);
/* The application has sent no response, and can no longer send one: counts and logs it, and responds with 500. */
void uvhttp__exchange_no_response(uvhttp__exchange_t *exchange);

#endif
