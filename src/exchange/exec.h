/* Owns: the choice of what runs a handler: the loop, a worker thread or a coroutine. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_EXEC_H
#define UVHTTP_SRC_EXCHANGE_EXEC_H

#include "exchange/exchange.h"

/* Puts in place what stands before the handler of a route, as its options (or else its registration) say: nothing on
 * the loop, so that such a route costs nothing. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_UNSUPPORTED, remembered. */
int uvhttp__exec_install(uvhttp__router_t *router, uvhttp__route_t *route);

/* What the handler of a route runs on. */
static inline uvhttp_exec_t uvhttp__route_mode(const uvhttp__route_t *route) {
    if (route->exec == UVHTTP__EXEC_FIXED) return UVHTTP_EXEC_LOOP;
    return route->options.exec ? route->options.exec : (uvhttp_exec_t)route->exec;
}

#endif
