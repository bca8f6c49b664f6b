/* Owns: a coroutine that runs the handler of a request, as the files about it share it. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_COROUTINE_STATE_H
#define UVHTTP_SRC_EXCHANGE_COROUTINE_STATE_H

#include "exchange/pull.h"

/* In the exchange's arena. */
typedef struct uvhttp__coroutine {
    uvhttp__exchange_t *exchange;
    const uvhttp_route_t *route;
    uvhttp_coro_t *coro;
    uvhttp_deferred_t *deferred;    /* NULL: it has not waited */
    uvhttp_coro_t *reader, *writer; /* wait for the body, for the output to drain */
    uvhttp__pull_t pull;            /* the body */
    uvhttp__trace_scope_t scope;    /* while it runs after a wait */
    bool traced;
    bool serving; /* uvhttp__coroutine_serve has not returned */
} uvhttp__coroutine_t;

#endif
