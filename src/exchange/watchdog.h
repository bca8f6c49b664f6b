/* Owns: the search for handlers that block their loop. The loop's thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_WATCHDOG_H
#define UVHTTP_SRC_EXCHANGE_WATCHDOG_H

#include "exchange/exchange.h"

void uvhttp__watch_open(uvhttp__http_worker_t *worker);
/* The turn took so long up to its end. */
void uvhttp__watch_turn(uvhttp__http_worker_t *worker, uint64_t ns);
/* A handler did; only while worker->timed. */
void uvhttp__watch_handler(uvhttp__http_worker_t *worker, const uvhttp_route_t *route, uint64_t ns);

#endif
