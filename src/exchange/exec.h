/* Owns: the choice of what runs a handler: the loop, a worker thread or a coroutine. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_EXEC_H
#define UVHTTP_SRC_EXCHANGE_EXEC_H

#include "exchange/exchange.h"

/* Whether this build can run a handler as a route says: its own options if it has some, else its registration. Returns
 * 0, UVHTTP_E_INVALID or UVHTTP_E_UNSUPPORTED, remembered. */
int uvhttp__exec_check(uvhttp_route_t *route);

/* After uvhttp__router_freeze, once: puts in front of the handler of a route what its options ask for. Routes on the
 * loop without stream_body get nothing and cost nothing. Returns as uvhttp__exec_check: the defaults of a group may
 * name a mode that this build does not have. */
int uvhttp__exec_install(uvhttp_route_t *route);

/* What the handler of a frozen route runs on. */
static inline uvhttp_exec_t uvhttp__route_mode(const uvhttp_route_t *route) {
    return route->exec == UVHTTP__EXEC_FIXED ? UVHTTP_EXEC_LOOP : route->options.exec;
}

#endif
