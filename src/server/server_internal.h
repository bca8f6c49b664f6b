/* Owns: what the files of the server share: the server, its per-worker state, and exchanges. Composition root:
 * may include everything.
 *
 * An exchange is one request and its response, with their memory: a state machine that knows no bytes of a protocol.
 * A protocol (http1_session.h) reads requests from a connection, makes an exchange for each, and writes the responses.
 * The two talk through uvhttp__protocol_t (down) and the functions under "what a protocol calls" (up). */
#ifndef UVHTTP_SRC_SERVER_SERVER_INTERNAL_H
#define UVHTTP_SRC_SERVER_SERVER_INTERNAL_H

#include <pthread.h>
#include <uvhttp.h>

#include "base/date.h"
#include "base/thread.h"
#include "conn/host.h"
#include "exec/coro.h"
#include "exec/work.h"
#include "http1/http1.h"
#include "message/message.h"
#include "obs/histogram.h"
#include "route/router.h"

typedef struct uvhttp__protocol uvhttp__protocol_t;
typedef struct uvhttp__exchange uvhttp__exchange_t;
typedef struct uvhttp__spool uvhttp__spool_t;

/* What SIGHUP calls (reload.c). */
typedef struct uvhttp__reload {
    void (*cb)(uvhttp_server_t *server, void *user); /* NULL: nothing */
    void *user;
    pthread_mutex_t lock;
    pthread_t thread;
    bool made;    /* thread is to be joined; of the thread of the first loop */
    bool running; /* under lock */
    bool wanted;  /* under lock: a signal has come */
} uvhttp__reload_t;

void uvhttp__reload_init(uvhttp__reload_t *reload);
/* For the thread that runs; the loops have ended. */
void uvhttp__reload_wait(uvhttp__reload_t *reload);
void uvhttp__reload_deinit(uvhttp__reload_t *reload);

struct uvhttp_server {
    uvhttp_server_config_t config;
    uvhttp__host_t *host;
    uvhttp__router_t *router;
    uvhttp__http1_limits_t limits;
    uvhttp__trust_t trust;         /* proxies; ranges NULL: none */
    struct uvhttp__ws_hub *ws_hub; /* NULL: no WebSocket route */
    void (*ws_hub_release)(struct uvhttp__ws_hub *hub);
    void (*on_stopped)(uvhttp_server_t *server, void *user);
    void *on_stopped_user;
    uvhttp_error_cb on_error; /* NULL: the server's own responses leave as they are */
    void *on_error_user;
    struct uvhttp__static_site *sites; /* static files */
    uvhttp__work_t *work;              /* the pool of worker threads */
    _Atomic(uint64_t) spooled;         /* bytes in temporary files of bodies, or on their way there */
    _Atomic(uint32_t) live_calls;      /* handlers with live_body that the pool has */
    uint64_t drain_ns;                 /* when the first loop was told to stop; written by it. 0: not yet */
    uvhttp__coro_budget_t coro_budget;
    uvhttp__reload_t reload;
    int setup_status; /* the first error of what was set up before the routes were complete */
    bool frozen;      /* routes are complete */
    bool ran;         /* once: the loops and listening sockets are gone with the first run */
    char error[512];
    char engine_reason[128];
    _Atomic(const char *) engine; /* set when all loops are made: who sees it, on any thread, sees engine_reason and the
                                     workers' state, too */
};

/* Exchanges of one protocol on one loop that wait for their next request. */
typedef struct uvhttp__exchange_pool {
    const uvhttp__protocol_t *protocol;
    uvhttp__exchange_t *free;
    uint32_t free_count;
} uvhttp__exchange_pool_t;

/* The HTTP state of a worker; worker->upper. */
typedef struct uvhttp__http_worker {
    uvhttp__worker_t *worker;
    uvhttp_server_t *server;
    uvhttp__exchange_pool_t http1;     /* exchanges of HTTP/1 connections */
    struct uvhttp__static_site *sites; /* of a server that is being freed: they go with this, the last of it */
    uvhttp__work_t *work;              /* the same */
    uvhttp__work_port_t port;          /* to the server's pool and back */
    uvhttp__list_t calls; /* handlers that a worker thread is to run, given to the pool when the turn ends */
    uvhttp__coro_sched_t coros;
    union {
        uint64_t due_in_turn; /* whether there is something to do when it ends; the whole of: */
        struct {
            uint32_t answered_in_turn; /* requests that were seen and answered in it: one entry of the histogram */
            uint16_t deferred_in_turn; /* requests that wait for their answer since then, saturating */
            bool has_calls;
        };
    };
    bool timed;         /* handlers are timed one by one, to find the one that blocks: until timed_until_ms */
    bool found_in_turn; /* ... and one was found */
    const uvhttp__route_t *last_route; /* whose handler was run last */
    uint64_t look_ns;                  /* a turn that takes so long is looked at: warn_ns, or 0 while timed */
    uint64_t warn_ns;                  /* UINT64_MAX: off */
    uint64_t timed_until_ms, told_at_ms;
    uint64_t date_until_ms; /* loop time at which date_line is out of date */
    char date_line[sizeof "Date: \r\n" - 1 + UVHTTP__DATE_SIZE];
    uvhttp__histogram_t response_time; /* ns */
} uvhttp__http_worker_t;

/* server.c: *config becomes what is given, checked and made whole (it may be of an older, shorter header; NULL: the
 * defaults). Returns 0 or UVHTTP_E_CONFIG, and says why. */
int uvhttp__server_take_config(const uvhttp_server_config_t *given, uvhttp_server_config_t *config, char *message,
                               size_t size);
void uvhttp__server_apply_log_level(const uvhttp_performance_config_t *performance);

/* tls_config.c: all or nothing. config NULL: the files alone. *count: what was read again. Returns as
 * uvhttp_server_reload. */
int uvhttp__server_reload_tls(uvhttp_server_t *server, const uvhttp_server_config_t *config, unsigned *count,
                              char *message, size_t size);

/* Keeps the text for uvhttp_server_error_text, logs it as an error, and returns `status`. */
UVHTTP_PRINTF(3, 4) int uvhttp__server_remember(uvhttp_server_t *server, int status, const char *format, ...);
/* uvhttp_server_listen with a filter, as uvhttp__host_listen. */
int uvhttp__server_listen(uvhttp_server_t *server, const char *address, const uvhttp__conn_filter_t *filter,
                          uint16_t *port);

/* --- how handlers are run (exec.c) --- */

/* Puts in place what stands before the handler of a route, as its options (or else its registration) say: nothing on
 * the loop, so that such a route costs nothing. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_UNSUPPORTED, remembered. */
int uvhttp__exec_dress(uvhttp__router_t *router, uvhttp__route_t *route);

/* --- exchanges --- */

#define UVHTTP__EXCHANGE_ARENA_SIZE 2048

/* A body that the handler takes as it comes; in the arena. */
typedef struct uvhttp__incoming {
    uvhttp_body_data_cb on_data;
    uvhttp_body_end_cb on_end; /* NULL: the handler did not ask for the body */
    void *user;
    uint64_t paused_at_ms;
    uint32_t piece_max; /* bytes for the next on_data, 0: read_buffer_size */
    bool handler_runs;  /* it may ask for the body */
    bool paused;        /* by the application */
    bool end_told;
} uvhttp__incoming_t;

/* A body that the handler asks for piece by piece (pull.c); in the arena. */
typedef struct uvhttp__pull {
    struct uvhttp__exchange *exchange;
    void (*come)(struct uvhttp__pull *pull); /* a piece, or the end: it is ready now */
    char *piece;                             /* read_buffer_size bytes; NULL before the first */
    size_t size;                             /* bytes that nobody has taken yet: more are added until then */
    int end_status;                          /* once it has ended */
    bool ended;                              /* all of it has come, or it has failed */
} uvhttp__pull_t;

/* Why there is no route. */
typedef struct uvhttp__unrouted {
    int status; /* of routing */
    uvhttp__match_outcome_t outcome;
    uint32_t allow;
} uvhttp__unrouted_t;

/* What an exchange asks of the protocol that carries it. All functions run on the loop's thread, for an exchange whose
 * client is there (exchange->protocol). */
struct uvhttp__protocol {
    /* The complete response that is recorded: head and body leave, and uvhttp__exchange_finished is called, now or when
     * the body has left. The exchange must not be used after the call. */
    void (*respond)(uvhttp__exchange_t *exchange);
    /* The head of a streamed response of `size` bytes, or UVHTTP_SIZE_UNKNOWN. Returns 0, UVHTTP_E_ABORTED or
     * UVHTTP_E_NOMEM. */
    int (*begin)(uvhttp__exchange_t *exchange, uint64_t size);
    /* A piece of its body, which is copied. Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_NOMEM. */
    int (*write)(uvhttp__exchange_t *exchange, const char *data, size_t size);
    /* The end of its body, with response.trailers; nothing may look complete if UVHTTP__RESPONSE_MISSIZED is set.
     * Returns as write. */
    int (*end)(uvhttp__exchange_t *exchange);
    /* The application has returned after `end`: uvhttp__exchange_finished follows, as for respond. */
    void (*finish)(uvhttp__exchange_t *exchange);
    /* Bytes that are queued and wait for the client. */
    uint64_t (*queued)(const uvhttp__exchange_t *exchange);
    /* uvhttp__exchange_writable is to follow when the client has taken what is queued. */
    void (*notify_writable)(uvhttp__exchange_t *exchange);
    /* The client shall send its body, or more of it: uvhttp__exchange_takes is true from here on. */
    void (*want_body)(uvhttp__exchange_t *exchange);
    /* uvhttp__exchange_timer is to follow at this loop time, ms; UINT64_MAX: never. Replaces the deadline before. */
    void (*set_deadline)(uvhttp__exchange_t *exchange, uint64_t at_ms);
    /* Cuts the response off, so that the client cannot take it for a complete one. uvhttp__exchange_abort follows,
     * later. */
    void (*reset)(uvhttp__exchange_t *exchange, int code);
    /* An exchange in the place of this one, which is about to be aborted. NULL if there is no memory. */
    uvhttp__exchange_t *(*replace)(uvhttp__exchange_t *exchange);
    /* Whether it was not cut off: then there is no response to be made. */
    bool (*is_open)(const uvhttp__exchange_t *exchange);
    /* Whether the server stops, or the connection ends when its requests are done. */
    bool (*drains)(const uvhttp__exchange_t *exchange);
    /* For what a request shows of its connection, and nothing else. */
    uvhttp__conn_t *(*connection)(const uvhttp__exchange_t *exchange);
    size_t offset; /* of the exchange, the last member, in the memory that the protocol has for each request */
};

struct uvhttp__exchange {
    uvhttp_request_t request;
    uvhttp_response_t response;
    uvhttp__arena_t arena; /* of the response, and of the request unless it is deferred */
    uvhttp__arena_t aside; /* of the request while it is deferred; written when request.arena is this one */
    const uvhttp__protocol_t
        *protocol; /* NULL: the client has gone. Only the loop's thread may look: uvhttp__exchange_protocol */
    uvhttp__http_worker_t *worker; /* only while its loop is known to live: not for a deferred handle's threads */
    uvhttp__exchange_pool_t *pool; /* the same */
    char *memory;                  /* that it is the last member of */
    _Atomic uint64_t
        home; /* number of the loop's thread; 0: the loop has done with it, and a deferred handle keeps it */
    uvhttp__exchange_t *next_free;

    uvhttp_deferred_t *deferred;          /* NULL: not deferred. From here on: zero at the beginning */
    struct uvhttp__call *call;            /* a worker thread runs the handler, or will; NULL: none does */
    struct uvhttp__coroutine *coroutine;  /* the handler runs in one that has not ended; NULL: no */
    uvhttp__incoming_t *incoming;         /* the handler takes the body as it comes; NULL: it does not */
    uvhttp__spool_t *spool;               /* the body is received before a worker thread runs the handler; until done */
    uint64_t answer_by_ms;                /* loop time at which the application is late; 0: it has time */
    const char *borrowed;                 /* the receive buffer that the head stands in, NULL once it is a copy */
    char *body;                           /* collected, NULL while it is a view */
    size_t body_size, body_capacity;      /* of it, with the trailer behind it */
    const uvhttp_tcp_handlers_t *upgrade; /* a response of 101 gives the connection to these */
    uint32_t borrowers;                   /* queued output that still points into the arena, and calls (pin) */
    int16_t failure; /* a UVHTTP_E_* code: the rest of the request is not read; the response says why */
    bool released;   /* goes back to the pool when the last borrower has gone */
    bool may_go_on;  /* deferred by a middleware: uvhttp_deferred_next */
    bool body_waits; /* ... before the body was read: it is not wanted yet */
    bool may_leave;  /* uvhttp__exchange_leave: nothing of the request is the loop's or the server's */
    bool receiving;  /* the end of its body has not come */
    bool body_whole; /* the whole body comes with the next call, and may stay where it is; to here */

    uint32_t start_turn;
    uint64_t start_ns;  /* turn in which the head was seen whole */
    uint64_t body_seen; /* bytes that have come; body_* are written when there is a body to wait for */
    uint64_t body_max;
    uvhttp__rate_t body_rate;
    void *upgrade_user;          /* if there is upgrade */
    uvhttp__way_t way;           /* through middleware to the handler */
    uvhttp__unrouted_t unrouted; /* if way.route is NULL */
    _Alignas(16) char first[UVHTTP__EXCHANGE_ARENA_SIZE];
};

/* The fields of the head, limits.header_count_max of them, stand behind the exchange. */
static inline uvhttp__field_t *uvhttp__exchange_fields(uvhttp__exchange_t *exchange) {
    return (uvhttp__field_t *)(void *)(exchange + 1);
}

static inline uvhttp__exchange_t *uvhttp__exchange_of(uvhttp_response_t *res) {
    return UVHTTP__CONTAINER_OF(res, uvhttp__exchange_t, response);
}

/* Whether the caller runs on the loop of the exchange, and that loop still has it: `worker` may be followed. Any thread
 * may ask, also that of another loop. Relaxed: no thread but the loop's finds its own number there, and what it wrote
 * itself it sees. */
static inline bool uvhttp__exchange_is_here(const uvhttp__exchange_t *exchange) {
    return atomic_load_explicit(&exchange->home, memory_order_relaxed) == uvhttp__thread_number();
}

/* The way to the connection, which the loop may free. Another thread has none: it has request.origin. */
static inline const uvhttp__protocol_t *uvhttp__exchange_protocol(const uvhttp__exchange_t *exchange) {
    assert(uvhttp__exchange_is_here(exchange));
    return exchange->protocol;
}

/* --- what a protocol calls (exchange.c, body.c, respond.c); the loop's thread --- */

/* Makes an exchange for a request that is about to be read; NULL if there is no memory. The head is the protocol's to
 * fill in: request.head, request.base and, while it stands in the receive buffer, `borrowed`. */
uvhttp__exchange_t *uvhttp__exchange_new(uvhttp__http_worker_t *worker, uvhttp__exchange_pool_t *pool);
/* A head that cannot be read, or none, is answered as if it had been that of a plain GET, but for what the request line
 * in data[0..size) shows. The bytes must stay until the response has been handed over or owned. */
void uvhttp__exchange_headless(uvhttp__exchange_t *exchange, const char *data, size_t size);
/* The head of a request without a body is there: routes it, runs middleware and handler, and responds unless the
 * response comes later. */
void uvhttp__exchange_run(uvhttp__exchange_t *exchange);
/* The head of a request with a body is there. whole: all of the body is given to uvhttp__exchange_data next, before
 * anything else, unless uvhttp__exchange_takes is false. */
void uvhttp__exchange_run_with_body(uvhttp__exchange_t *exchange, bool whole);
/* Whether bytes of the body may be given now. If not: want_body follows, or a response. */
static inline bool uvhttp__exchange_takes(const uvhttp__exchange_t *exchange);
/* How many bytes may be given at once. */
size_t uvhttp__exchange_piece_max(const uvhttp__exchange_t *exchange);
/* The next bytes of the body, without any coding; size may be 0. last: that was all. The exchange may be gone
 * afterwards. */
void uvhttp__exchange_data(uvhttp__exchange_t *exchange, const char *data, size_t size, bool last);
/* Text of the trailer section, "Name: value" lines with CRLF, before the last uvhttp__exchange_data. Returns 0 or
 * UVHTTP_E_NOMEM. */
int uvhttp__exchange_trailer(uvhttp__exchange_t *exchange, const char *data, size_t size);
/* The rest of the request is not read, or nobody waits any longer: responds by a UVHTTP_E_* code, or cuts the response
 * that has begun. The exchange may be gone afterwards. */
void uvhttp__exchange_refuse(uvhttp__exchange_t *exchange, int code);
/* The deadline that was set has come. */
void uvhttp__exchange_timer(uvhttp__exchange_t *exchange);
/* The client has taken what was queued. */
void uvhttp__exchange_writable(uvhttp__exchange_t *exchange);
/* The server stops, or the connection ends alone. */
void uvhttp__exchange_drain(uvhttp__exchange_t *exchange);
/* The client will send nothing more. Returns whether it is to get its response all the same. */
bool uvhttp__exchange_half_closed(const uvhttp__exchange_t *exchange);
/* The last byte of the response is queued: hooks; the exchange is released. */
void uvhttp__exchange_finished(uvhttp__exchange_t *exchange);
/* The client has gone, or (status) nobody waits any more: hooks, abort callbacks; the exchange is released, or left to
 * the deferred handle. */
void uvhttp__exchange_abort(uvhttp__exchange_t *exchange, int status);

/* --- memory --- */

/* While it is pinned the exchange stays what it is, whatever a call into the application does. */
static inline void uvhttp__exchange_pin(uvhttp__exchange_t *exchange) {
    exchange->borrowers++;
}
/* Returns whether its client still waits for it; if not, it must not be used. */
bool uvhttp__exchange_unpin(uvhttp__exchange_t *exchange);
/* Loop's thread: back to the pool, now or when nothing borrows from it any more. on_done has been called. */
void uvhttp__exchange_release(uvhttp__exchange_t *exchange);
/* Any thread, when the client is gone and nothing borrows: frees the memory. */
void uvhttp__exchange_free(uvhttp__exchange_t *exchange);
void uvhttp__exchange_pool_free(uvhttp__exchange_pool_t *pool);
/* The head and a body view are copied out of the receive buffer. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_own(uvhttp__exchange_t *exchange);
/* Before another thread sees the exchange, or it may outlive its connection (a worker thread, a deferred handle, a
 * coroutine that waits): own, and the request learns all that it will ever show of its connection and route. Returns 0
 * or UVHTTP_E_NOMEM. */
int uvhttp__exchange_leave(uvhttp__exchange_t *exchange);
/* The request gets memory of its own, for the thread that will have it: the loop goes on to take the response's from
 * `arena`. Both may take what is left of request_memory_max now. */
void uvhttp__exchange_set_aside(uvhttp__exchange_t *exchange);
int uvhttp__exchange_body_append(uvhttp__exchange_t *exchange, const char *data, size_t size);
/* The rest of the way of a request that was routed: middleware that has not run yet, and the handler. */
void uvhttp__exchange_run_routed(uvhttp__exchange_t *exchange);
/* Routes a request whose body has not come. Returns what its route says, or NULL if there is none. */
const uvhttp_route_options_t *uvhttp__exchange_route(uvhttp__exchange_t *exchange);
/* Runs the middleware that needs no body. True: the request has passed, and its body is wanted. False: it was answered,
 * or waits for a middleware with exchange->body_waits. */
bool uvhttp__exchange_run_head(uvhttp__exchange_t *exchange);
/* The application has returned: its answer leaves, now or when it is made; 500 if it has neither answered nor deferred.
 */
void uvhttp__exchange_conclude(uvhttp__exchange_t *exchange);

/* --- bodies (body.c) --- */

/* The handler of all routes with stream_body; user: the route. */
void uvhttp__body_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* The middleware has decided that the body is wanted after all (exchange->body_waits). */
void uvhttp__body_go_on(uvhttp__exchange_t *exchange);
/* The handler of a request whose body is streamed has returned. */
void uvhttp__body_handler_returned(uvhttp__exchange_t *exchange);
/* uvhttp_request_on_body, also for a handler on a worker thread. */
int uvhttp__body_take(uvhttp__exchange_t *exchange, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end, void *user);
/* It will not come whole: tells it, if the handler has asked for it and has not been told. */
void uvhttp__body_fail(uvhttp__exchange_t *exchange, int status);
/* Whether there is an answer that has to leave as soon as the application returns. */
bool uvhttp__response_is_complete(const uvhttp_response_t *res);
/* From here on the application is waited for, if its route has a limit. */
void uvhttp__exchange_await(uvhttp__exchange_t *exchange);
/* Sets the deadline for what is under way. */
void uvhttp__exchange_watch(uvhttp__exchange_t *exchange);
/* uvhttp_deferred_next: the exchange is no longer deferred. */
void uvhttp__exchange_go_on(uvhttp__exchange_t *exchange, uvhttp_middleware_cb go_on, void *user);

static inline bool uvhttp__exchange_takes(const uvhttp__exchange_t *exchange) {
    const uvhttp__incoming_t *incoming = exchange->incoming;
    return incoming ? incoming->on_end && !incoming->paused : !exchange->body_waits;
}

/* --- the server's own responses (own_response.c); the loop's thread --- */

/* The response that is about to leave is the server's: middleware that has not seen the request notes it, and the
 * application may replace it. */
void uvhttp__exchange_own_response(uvhttp__exchange_t *exchange);

/* --- answers (respond.c) --- */

extern const uvhttp__response_sink_t uvhttp__exchange_sink;

/* Whether the response is one that has a body, and the method one that gets it. */
static inline bool uvhttp__exchange_wants_body(const uvhttp__exchange_t *exchange) {
    return exchange->request.head.method != UVHTTP_HEAD && uvhttp__status_has_body(exchange->response.status);
}
/* Hooks, and the complete response leaves. */
void uvhttp__exchange_answer(uvhttp__exchange_t *exchange);
/* The rest of uvhttp__exchange_abort, when no worker thread has the exchange any more. */
void uvhttp__exchange_gone(uvhttp__exchange_t *exchange, int status);
/* What to do after the handler, or what a deferred handle ran, has returned. */
void uvhttp__exchange_returned(uvhttp__exchange_t *exchange);

/* --- bodies that are asked for (pull.c); the loop's thread --- */

/* Before the handler runs. Without a streamed body, the whole one is the only piece. */
void uvhttp__pull_open(uvhttp__pull_t *pull, uvhttp__exchange_t *exchange, void (*come)(uvhttp__pull_t *pull));
/* The handler has returned. */
void uvhttp__pull_close(uvhttp__pull_t *pull);
/* False: uvhttp_request_resume_body has it come. */
bool uvhttp__pull_ready(const uvhttp__pull_t *pull);
/* When it is ready. Valid until the body is resumed. Returns 0, UVHTTP_E_EOF or why the rest will never come. */
int uvhttp__pull_take(uvhttp__pull_t *pull, uvhttp_str_t *piece);

/* --- bodies that come before their handler has a thread (spool.c) --- */

/* The loop's thread. Takes the body of a request with exchange->incoming; calls `ready` when it has come whole, and
 * responds when that fails. Lives until the exchange is done. Returns 0 or why not, and then nothing follows. */
int uvhttp__spool_start(uvhttp__exchange_t *exchange, void (*ready)(uvhttp__exchange_t *exchange));
void uvhttp__spool_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
/* The handler's thread: the next piece, valid until the next call. Returns 0, UVHTTP_E_EOF, UVHTTP_E_IO or
 * UVHTTP_E_NOMEM. */
int uvhttp__spool_read(uvhttp__spool_t *spool, uvhttp_str_t *piece);
/* The handler has returned: nothing is read any more. */
void uvhttp__spool_close_file(uvhttp__spool_t *spool);

/* --- handlers on worker threads (worker.c); the loop's thread --- */

/* The handler of all routes with UVHTTP_EXEC_WORKER; user: the route. */
void uvhttp__call_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
void uvhttp__calls_open(uvhttp__http_worker_t *worker);
/* The end of a turn: what has been called in it goes to the pool. */
void uvhttp__calls_submit(uvhttp__http_worker_t *worker);
/* The client has gone while there is exchange->call. True: a thread has it still, and what has to be done will be done
 * when it returns. */
bool uvhttp__call_leave(uvhttp__exchange_t *exchange);
/* The client has taken what was queued: a write may go on. */
void uvhttp__call_drained(uvhttp__exchange_t *exchange);

/* --- handlers that block their loop (watchdog.c); the loop's thread --- */

void uvhttp__watch_open(uvhttp__http_worker_t *worker);
/* The turn took so long up to its end. */
void uvhttp__watch_turn(uvhttp__http_worker_t *worker, uint64_t ns);
/* A handler did; only while worker->timed. */
void uvhttp__watch_handler(uvhttp__http_worker_t *worker, const uvhttp__route_t *route, uint64_t ns);

/* --- static files (static.c) --- */

#if UVHTTP_WITH_STATIC
/* The worker's loop ends, and does not turn any more. */
void uvhttp__static_worker_stop(uvhttp__http_worker_t *worker);
void uvhttp__static_free(struct uvhttp__static_site *sites);
#else
static inline void uvhttp__static_worker_stop(uvhttp__http_worker_t *worker) {
    (void)worker;
}
static inline void uvhttp__static_free(struct uvhttp__static_site *sites) {
    (void)sites;
}
#endif

/* --- coroutines (coroutine.c) --- */

void uvhttp__coroutine_server_init(uvhttp_server_t *server);
void uvhttp__coroutine_worker_start(uvhttp__http_worker_t *worker);
/* The server stops: who wants to know is woken. */
void uvhttp__coroutine_worker_drain(uvhttp__http_worker_t *worker);
/* The worker's loop ends, and does not turn any more. */
void uvhttp__coroutine_worker_stop(uvhttp__http_worker_t *worker);
/* At the end of a turn. */
static inline void uvhttp__coroutine_turn_end(uvhttp__http_worker_t *worker) {
    if (__builtin_expect(uvhttp__coro_sched_due(&worker->coros), 0)) uvhttp__coro_sched_run(&worker->coros);
}
/* The handler of all routes with UVHTTP_EXEC_COROUTINE; user: the route. */
void uvhttp__coroutine_serve(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
/* The client has gone: the exchange and its hooks are left to the end of the coroutine. */
void uvhttp__coroutine_abort(uvhttp__exchange_t *exchange);
/* The client has taken what was queued. */
void uvhttp__coroutine_drained(uvhttp__exchange_t *exchange);
/* Its output is full. Returns 0 if it may try again, UVHTTP_E_LIMIT if the caller does not run in its coroutine, or
 * what a wait returns. */
int uvhttp__coroutine_wait_room(uvhttp__exchange_t *exchange);

/* --- deferred (deferred.c) --- */

uvhttp_deferred_t *uvhttp__deferred_new(uvhttp__exchange_t *exchange);
/* The same on a worker thread that has the response: the exchange does not know of it before adopt, and what is said
 * through it waits for let_go, both on the loop's thread. */
uvhttp_deferred_t *uvhttp__deferred_new_held(uvhttp__exchange_t *exchange);
void uvhttp__deferred_adopt(uvhttp_deferred_t *deferred, uvhttp__exchange_t *exchange);
void uvhttp__deferred_let_go(uvhttp_deferred_t *deferred);
/* Loop's thread. The client has gone. Returns true if the handle keeps the exchange, and frees it with its last
 * reference, of which the caller holds one. */
bool uvhttp__deferred_abort(uvhttp_deferred_t *deferred);
/* Loop's thread. The client has taken what was queued: on_drain. */
void uvhttp__deferred_drained(uvhttp_deferred_t *deferred);
/* Loop's thread. The server stops: on_stop. */
void uvhttp__deferred_stop(uvhttp_deferred_t *deferred);
/* Loop's thread. Around a call into the application that may use the response as in uvhttp_deferred_run; leave answers
 * if it did. */
void uvhttp__deferred_enter(uvhttp_deferred_t *deferred);
void uvhttp__deferred_leave(uvhttp_deferred_t *deferred);
/* Loop's thread. The exchange goes on as if it had not been deferred. */
void uvhttp__deferred_detach(uvhttp_deferred_t *deferred);
/* Loop's thread. The answer is out: the handle forgets the exchange. */
void uvhttp__deferred_answered(uvhttp_deferred_t *deferred);

#endif
