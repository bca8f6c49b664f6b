/* Owns: the thread that sends spans to the collector, as the loops' side sees it. May include: client, exec, conn, io,
 * base, obs.
 *
 * It has a loop of its own, without listeners. What it reads of the loops that serve requests are their rings, which it
 * does not free; the tracer frees them when the exporter has ended. */
#ifndef UVHTTP_SRC_TRACE_EXPORTER_H
#define UVHTTP_SRC_TRACE_EXPORTER_H

#include <uvhttp/server.h>

#include "base/ring.h"

/* What one loop leaves: in a list that only grows. */
typedef struct uvhttp__span_queue {
    struct uvhttp__span_queue *next;
    uint64_t owner; /* number of the thread that puts */
    uvhttp__ring_t *ring;
    uint64_t seed, number; /* of ids; the owner's */
    bool kicked;           /* the owner's: it has woken the exporter because half of the ring is full */
} uvhttp__span_queue_t;

typedef struct uvhttp__exporter uvhttp__exporter_t;

typedef struct uvhttp__exporter_options {
    const char *endpoint, *service; /* copied */
    uint32_t delay_ms;
    const _Atomic(uvhttp__span_queue_t *) *queues; /* live longer */
} uvhttp__exporter_options_t;

/* Returns 0, UVHTTP_E_NOMEM, or what uvhttp_client_send says of such a URL; no thread runs yet. */
int uvhttp__exporter_new(const uvhttp__exporter_options_t *options, uvhttp__exporter_t **exporter);
/* Sends what waits, during two seconds, and ends the thread. NULL is allowed. */
void uvhttp__exporter_free(uvhttp__exporter_t *exporter);
/* Starts the thread. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_LIMIT. One thread at a time. */
int uvhttp__exporter_start(uvhttp__exporter_t *exporter);
/* Any thread, between start and free: spans wait, send them now. */
void uvhttp__exporter_kick(uvhttp__exporter_t *exporter);

typedef struct uvhttp__exporter_stats {
    uint64_t exported; /* spans that the collector has accepted */
    uint64_t failed;   /* spans that it has refused, or that it could not be given */
    uint64_t retries;  /* requests that were repeated */
} uvhttp__exporter_stats_t;
/* Any thread. */
void uvhttp__exporter_read(const uvhttp__exporter_t *exporter, uvhttp__exporter_stats_t *stats);

#endif
