/* Owns: the threads of a run and their connections. May include: base, io, obs, http1. */
#ifndef UVHTTP_TOOLS_LOAD_THREAD_H
#define UVHTTP_TOOLS_LOAD_THREAD_H

#include <pthread.h>

#include "base/hash.h"
#include "base/list.h"
#include "http1/response_read.h"
#include "load/arrivals.h"
#include "load/h2.h"
#include "load/plan.h"
#include "load/samples.h"
#include "load/stats.h"
#include "load/steady.h"
#include "load/ws_frame.h"

typedef struct load_thread load_thread_t;
typedef struct load_conn load_conn_t;

/* Bytes of a response's head; more: UVHTTP_E_HTTP_HEADERS_TOO_LARGE. */
#define LOAD_HEAD_SIZE_MAX (64u * 1024)

/* A request that waits for its response, and what has come of that. */
typedef struct load_flight {
    uvhttp__list_t link;     /* in conn->waiting */
    load_request_t *request; /* NULL: the slot is free */
    uint64_t number;         /* of the request on its connection */
    uint64_t due_ns;         /* open loop: when it should have been sent */
    uint64_t sent_ns;        /* when it was submitted; 0: not yet */
    uint64_t body_size;      /* so far */
    uint64_t body_hash;
    uint64_t length; /* what the response announces, if has_length */
    uint16_t status;
    bool has_length;
    bool differs; /* echo: the body so far is not that of the request */
    bool hashing; /* the body came in more than one run: `hash` has what came */
    load_h2_stream_t h2;
    XXH64_state_t hash; /* last: not cleared for each request */
} load_flight_t;

typedef enum load_conn_state {
    LOAD_CONN_OFFLINE,    /* no stream; waits for its timer, or for nothing at the end */
    LOAD_CONN_CONNECTING, /* the timer bounds it */
    LOAD_CONN_SHAKING,    /* connected; the protocol's handshake, within the same time */
    LOAD_CONN_ONLINE,
    LOAD_CONN_CLOSING /* until on_closed; then it is opened again, at once or after a pause */
} load_conn_state_t;

struct load_conn {
    uvhttp__stream_t stream;
    load_thread_t *thread;
    load_conn_state_t state;
    uvhttp__timer_t timer;  /* connecting, response, think time, or the pause before the next attempt */
    uvhttp__timer_t tick;   /* slow clients */
    uvhttp__list_t free;    /* open loop: in worker->free while it could take a request */
    load_flight_t *flights; /* worker->slot_count of them; a request's is at its number modulo that */
    uvhttp__list_t waiting; /* flights, the oldest first */
    uint64_t next_number;   /* of the next request */
    uint32_t in_flight;
    bool unstamped; /* some were sent in this iteration: it is in worker->sent */
    bool tried;     /* the first attempt to connect has ended */
    bool pause;
    uint64_t think_until_ns;  /* no request before, on this connection or the one that replaces it */
    uint64_t sent, responded; /* on this connection */
    uint64_t numbers_before;  /* on the ones that it replaced */
    uint64_t connect_ns;
    uvhttp__http1_response_t response;
    bool reading; /* HTTP/1: `response` has begun for the oldest flight */
    load_ws_reader_t ws;
    load_h2_t *h2;        /* HTTP/2, while it is connected */
    uint32_t number;      /* makes its messages different from the others' */
    const char *slow_out; /* slow client: what has yet to be sent */
    size_t slow_left;
    uint64_t allowance;               /* slow client: bytes that it may take until the next tick */
    uint16_t send_rest, receive_rest; /* slow client: of a byte, in thousandths */
};

typedef enum load_phase {
    LOAD_CONNECTING, /* until every connection of every thread has been tried */
    LOAD_RUNNING,    /* warm-up and window */
    LOAD_DRAINING,   /* open loop: what was due in the window is still waited for */
    LOAD_STOPPING
} load_phase_t;

typedef struct load_run load_run_t;

struct load_thread {
    load_run_t *run;
    const load_options_t *options;
    load_plan_t *plan;
    uvhttp__loop_t *loop;
    uvhttp__counters_t counters;
    pthread_t handle;
    uint32_t index;
    load_phase_t phase;
    load_conn_t *conns;
    load_flight_t *flights; /* of all connections */
    uint32_t slot_count;    /* of them for each connection; a power of two */
    uint32_t conn_count;
    uint32_t tried;      /* connections whose first attempt has ended */
    uint32_t open;       /* streams that are not closed */
    uint32_t failed;     /* attempts to connect that have failed since one went well */
    uint64_t in_flight;  /* requests */
    uint64_t quota;      /* requests that may still be sent; UINT64_MAX: no limit */
    uint64_t to_respond; /* --requests: responses, or failures, still missing */
    size_t next_request;
    load_conn_t **sent; /* connections that have sent in this iteration */
    uint32_t sent_count;
    uvhttp__list_t free; /* open loop: connections that could take a request, the longest free one first */
    load_arrivals_t arrivals;
    uvhttp__fine_timer_t *pace;
    uint64_t pace_ns;       /* when it is set to fire; 0: it is not */
    bool keeps_up;          /* open loop: all that was due has been sent: what is late from now on is late by us */
    uvhttp__timer_t timer;  /* next change of phase */
    uvhttp__timer_t sample; /* each 100 ms */
    uint64_t sampled_responses, sampled_ns;
    bool measuring;
    bool warming; /* until the server is steady: what comes in is asked to the first worker */
    _Atomic uint64_t warm_responses, warm_latency_ns;
    load_cpu_t cpu_begin;
    uvhttp__post_t begin, go, settled, stop;
    uvhttp__http1_head_cache_t cache;
    char *h2_scratch; /* HTTP/2: the text of a head while it is read */
    load_stats_t stats;
};

struct load_run {
    const load_options_t *options;
    load_plan_t *plan;
    load_thread_t *threads;
    uint32_t thread_count;
    _Atomic uint32_t ready;    /* workers that have tried all their connections */
    _Atomic uint32_t finished; /* threads whose loop has ended */
    uint64_t start_ns;         /* set by the last that is ready */
    load_warmup_t warmup;      /* --warmup auto: the first worker's */
    pthread_t waiter;          /* gets SIGUSR1 when the last thread is done */
    bool interrupted;
    _Atomic uint64_t window_ns; /* when the window has begun; 0: not yet. The waiter is woken then */
    load_sampler_t *sampler;    /* NULL: none */
};

/* Makes the loops and the memory. It can be done again after deinit. Returns 0, or LOAD_ERROR after a line on `err`;
 * deinit in any case. */
int load_run_init(load_run_t *run, load_plan_t *plan, FILE *err);
/* Starts the threads and waits until they are done, or for SIGINT or SIGTERM, which ends the run early. Returns 0 or
 * LOAD_ERROR. */
int load_run(load_run_t *run, FILE *err);
void load_run_deinit(load_run_t *run);

/* --- thread.c for conn.c --- */

/* The first attempt of a connection has ended, well or not. */
void load_thread_tried(load_thread_t *thread);
/* Counts responses, or failures in their place; the run may end with them. */
void load_thread_responded(load_thread_t *thread, uint64_t n);
/* An attempt to connect has failed, or gone well. */
void load_thread_connected(load_thread_t *thread, bool well);
static inline load_request_t *load_thread_next_request(load_thread_t *thread) {
    load_request_t *request = &thread->plan->requests[thread->next_request];
    if (++thread->next_request == thread->plan->request_count) thread->next_request = 0;
    return request;
}
/* A stream has closed. */
void load_thread_closed(load_thread_t *thread);

#endif
