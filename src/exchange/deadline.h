/* Owns: the time of an exchange: the client's for its body, and the application's for its response. May include: as
 * exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_DEADLINE_H
#define UVHTTP_SRC_EXCHANGE_DEADLINE_H

#include "exchange/exchange.h"

static inline uint64_t uvhttp__exchange_now_ms(const uvhttp__exchange_t *exchange) {
    return exchange->loop->tcp->io->now_ms;
}
/* The client's time for its body starts, under the limits of the route. */
void uvhttp__exchange_start_rate(uvhttp__exchange_t *exchange);
/* Whether the client has sent too little of its body for too long; counts it. */
bool uvhttp__exchange_client_is_late(uvhttp__exchange_t *exchange);
/* Sets the deadline for what is under way. */
void uvhttp__exchange_arm_deadline(uvhttp__exchange_t *exchange);
/* From here on the application is waited for, if its route has a limit. */
void uvhttp__exchange_await(uvhttp__exchange_t *exchange);

#endif
