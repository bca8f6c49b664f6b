/* Owns: handlers on worker threads. The loop's thread. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_WORKER_H
#define UVHTTP_SRC_EXCHANGE_WORKER_H

#include "exchange/exchange.h"

/* The handler of all routes with UVHTTP_EXEC_WORKER; user: the route. */
void uvhttp__call_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void uvhttp__calls_open(uvhttp__http_loop_t *loop);
/* The end of a turn: what has been called in it goes to the pool. */
void uvhttp__calls_submit(uvhttp__http_loop_t *loop);
/* The client has taken what was queued: a write may go on. */
void uvhttp__call_drained(uvhttp__exchange_t *exchange);

#endif
