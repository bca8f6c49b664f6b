/* Owns: the call of a handler on a worker thread, as call.c and worker.c share it, and its end when the client
 * disconnects. May include: as exchange.h. */
#ifndef UVHTTP_SRC_EXCHANGE_CALL_H
#define UVHTTP_SRC_EXCHANGE_CALL_H

#include "exchange/pull.h"

/* What a worker thread has the loop do. */
typedef enum uvhttp__call_operation {
    UVHTTP__CALL_BEGIN,
    UVHTTP__CALL_WRITE,
    UVHTTP__CALL_CAPACITY,
    UVHTTP__CALL_PUSH,
    UVHTTP__CALL_CUT_OFF,
    UVHTTP__CALL_INTERIM,
    UVHTTP__CALL_END,
    UVHTTP__CALL_READ,
} uvhttp__call_operation_t;

/* In the exchange's arena. */
typedef struct uvhttp__call {
    uvhttp__job_t job;
    uvhttp__exchange_t *exchange;
    uvhttp__list_t link;                 /* in loop->calls until the pool has it */
    const uvhttp__response_sink_t *sink; /* the loop's, which the thread's stands in for */
    uvhttp_deferred_t *deferred;         /* that the handler has made */
    uvhttp__pull_t pull;                 /* from here on the loop's thread: the body */
    uvhttp__timer_t deadline;            /* of a UVHTTP__CALL_READ; before the handler runs, of its wait for a thread */
    bool is_live;                        /* counted in service->live_calls */
    bool waits_for_client;               /* the operation does */
    bool waits_for_body;
    /* What the thread has the loop do. */
    uvhttp__post_t post;
    uvhttp__call_operation_t operation;
    int interim_status; /* of UVHTTP__CALL_INTERIM */
    const char *data;
    size_t size;
    uint32_t timeout_ms;
    uvhttp_str_t piece;
    int status;
    bool done; /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t returned;
} uvhttp__call_t;

/* Loop's thread. The operation for which the thread waits is done. */
void uvhttp__call_complete(uvhttp__call_t *call, int status);
/* Loop's thread. No thread has the call, or will. */
void uvhttp__call_end(uvhttp__call_t *call);
/* Loop's thread. The client has gone while there is exchange->call. True: a thread has it still, and what has to be
 * done will be done when it returns. */
bool uvhttp__call_leave(uvhttp__exchange_t *exchange);

#endif
