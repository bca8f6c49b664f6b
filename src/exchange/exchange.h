/* Owns: the exchange: one request and its response, with their memory: a state machine that knows no bytes of a
 * protocol. A protocol (src/protocol/) reads requests from a connection, makes an exchange for each, and writes the
 * responses. The two talk through uvhttp__protocol_t (down) and the functions under "what a protocol calls" (up). May
 * include: route, message, exec, conn, io, base, obs. */
#ifndef UVHTTP_SRC_EXCHANGE_EXCHANGE_H
#define UVHTTP_SRC_EXCHANGE_EXCHANGE_H

#include "base/sanitize.h"
#include "base/thread.h"
#include "exchange/orphans.h"
#include "exchange/outgoing.h"
#include "exchange/service.h"

/* A body that comes; in the arena. */
typedef struct uvhttp__intake {
    char *data;            /* collected, on the heap; NULL while it is a view */
    size_t size, capacity; /* of that, with the trailer behind it */
    uint64_t seen;         /* bytes that have come */
    uint64_t max;
    uvhttp__rate_t rate;
} uvhttp__intake_t;

typedef struct uvhttp__spool uvhttp__spool_t;

/* A streaming request body; in the arena. */
typedef struct uvhttp__incoming {
    uvhttp_body_data_cb on_data;
    uvhttp_body_end_cb on_end; /* NULL: the handler did not ask for the body */
    void *user;
    uvhttp__spool_t *spool; /* it is received before a worker thread runs the handler; until done; or NULL */
    uint64_t paused_at_ms;
    uint32_t piece_max; /* bytes for the next on_data, 0: read_buffer_size */
    bool handler_runs;  /* it may ask for the body */
    bool paused;        /* by the application */
    bool end_notified;
} uvhttp__incoming_t;

/* The protocol that follows a response of 101. */
typedef struct uvhttp__upgrade {
    const uvhttp__channel_events_t *events; /* NULL: an application's protocol, which gets the TCP connection */
    const uvhttp_tcp_handlers_t *handlers;  /* of that */
    void *user;
} uvhttp__upgrade_t;

/* What an exchange asks of the protocol that carries it. All functions run on the loop's thread, for an exchange whose
 * client is there (exchange->protocol). */
struct uvhttp__protocol {
    /* The complete response that is recorded: its head leaves, its body is pulled (uvhttp__exchange_open_body), and
     * uvhttp__exchange_finished is called, now or when the last byte has left. The caller must not use the exchange
     * after the call. A protocol that finishes later calls uvhttp__exchange_own before it returns, drops the deadline,
     * and calls nothing but finished or abort. */
    void (*respond)(uvhttp__exchange_t *exchange);
    /* The head of a streamed response of `size` bytes, or UVHTTP_SIZE_UNKNOWN. Its body is pulled from
     * exchange->outgoing. Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_NOMEM: nothing was written, and reset follows. */
    int (*begin)(uvhttp__exchange_t *exchange, uint64_t size);
    /* An interim response of 102..199 but 101 with `fields` ("Name: value\r\n" each), before respond or begin. Returns
     * 0, UVHTTP_E_LIMIT (write_queue_max bytes wait for the client), UVHTTP_E_ABORTED or UVHTTP_E_NOMEM: nothing was
     * written. */
    int (*interim)(uvhttp__exchange_t *exchange, int status, uvhttp_str_t fields);
    /* exchange->outgoing has something new: bytes, its end (with response.trailers; nothing may look complete if
     * UVHTTP__RESPONSE_MISSIZED is set), or why there will be no more. The protocol may pull in this call, and need
     * not. If more than 4 KiB wait for the client afterwards, uvhttp__exchange_writable follows as after
     * notify_writable. Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_NOMEM: not consumed. */
    int (*body_ready)(uvhttp__exchange_t *exchange);
    /* The application has returned after the end of a streamed response: uvhttp__exchange_finished follows, as for
     * respond. */
    void (*finish)(uvhttp__exchange_t *exchange);
    /* Bytes that were pulled and wait for the client. */
    uint64_t (*queued)(const uvhttp__exchange_t *exchange);
    /* Requests uvhttp__exchange_writable when the client has acknowledged what is queued, here and in
     * exchange->outgoing. */
    void (*notify_writable)(uvhttp__exchange_t *exchange);
    /* The client shall send its body, or more of it: uvhttp__exchange_is_receiving is true from here on. */
    void (*want_body)(uvhttp__exchange_t *exchange);
    /* uvhttp__exchange_timer is to follow at this loop time, ms; UINT64_MAX: never. Replaces the deadline before. */
    void (*set_deadline)(uvhttp__exchange_t *exchange, uint64_t at_ms);
    /* Cuts the response off, so that the client cannot take it for a complete one. uvhttp__exchange_abort follows,
     * later. */
    void (*reset)(uvhttp__exchange_t *exchange, int code);
    /* An exchange in the place of this one, which is about to be aborted: with the same request line, as far as there
     * is memory, and nothing borrowed. NULL if there is none for the exchange. */
    uvhttp__exchange_t *(*replace)(uvhttp__exchange_t *exchange);
    /* Whether it was not cut off: then there is no response to be made. */
    bool (*is_open)(const uvhttp__exchange_t *exchange);
    /* Whether the server stops, or the connection ends when its requests are done. */
    bool (*drains)(const uvhttp__exchange_t *exchange);
    /* For what a request shows of its connection, and nothing else. */
    uvhttp__conn_t *(*connection)(const uvhttp__exchange_t *exchange);
    uvhttp__framing_t framing; /* of bodies of responses that it pulls */
    /* Of a connection with many exchanges: that of which `shared` is theirs. NULL: there is none. */
    uvhttp__orphans_t *(*orphans)(const uvhttp__exchange_t *exchange);
    uint16_t offset;     /* of the exchange, the last member, in the memory that the protocol has for each request */
    uint16_t arena_size; /* bytes that the arena of an exchange begins with: a multiple of 16, or 0 */
};

/* One that waits, for its application or for a window, waits with many others: what few have is in the arena. */
struct uvhttp__exchange {
    uvhttp_request_t request;
    uvhttp_response_t response;
    uvhttp__arena_t arena; /* of the response, and of the request unless it is deferred: then it has one in this one */
    const uvhttp__protocol_t
        *protocol; /* NULL: the client has gone. Only the loop's thread may look: uvhttp__exchange_protocol */
    uvhttp__http_loop_t *loop;     /* only while its loop is known to live: not for a deferred handle's threads */
    uvhttp__exchange_pool_t *pool; /* the same */
    _Atomic uint64_t
        home; /* number of the loop's thread; 0: the loop has done with it, and a deferred handle keeps it */

    union {
        uvhttp_deferred_t *deferred;   /* NULL: not deferred. From here on: zero at the beginning */
        uvhttp__exchange_t *next_free; /* in the pool */
    };
    struct uvhttp__call *call;           /* a worker thread runs the handler, or will; NULL: none does */
    struct uvhttp__coroutine *coroutine; /* the handler runs in one that has not ended; NULL: no */
    uvhttp__incoming_t *incoming;        /* the handler streams the body; NULL: it does not */
    uvhttp__intake_t *intake;            /* NULL: there is no body */
    uvhttp__outgoing_t *outgoing;        /* the body of the response, in the arena; NULL: none is pulled */
    union {
        uint64_t response_by_ms;    /* loop time at which the application is late; 0: it has time */
        uvhttp__orphans_t *orphans; /* `orphaned`: it is counted there until it ends */
    };
    const uvhttp__upgrade_t *upgrade; /* a response of 101 gives the connection to this protocol; in the arena */
    uint32_t borrowers;               /* queued output that still points into the arena, and calls (pin) */
    int16_t failure; /* a UVHTTP_E_* code: the rest of the request is not read; the response says why */
    bool borrowed;   /* the head stands in the receive buffer, and its fields in loop->fields: they are no copies yet */
    bool responded;  /* the protocol has the whole response: only uvhttp__exchange_finished or _abort follows */
    bool released;   /* goes back to the pool when the last borrower has gone */
    bool may_resume; /* deferred by a middleware: uvhttp_deferred_next */
    bool body_waits; /* ... before the body was read: it is not wanted yet */
    bool receiving;  /* the end of its body has not come */
    bool body_complete; /* the whole body comes with the next call, and may stay where it is */
    bool may_leave;     /* uvhttp__exchange_leave: nothing of the request is the loop's or the server's */
    bool orphaned;      /* uvhttp__exchange_orphan */
    bool begun;         /* the protocol has the head of a streamed response: the loop may look, whoever writes it */
    bool delivered;     /* the client has gone, and all of a streamed response was on the wire. To here */

    uint16_t offset; /* of the protocol: the exchange is the last member of its memory */
    uint32_t start_iteration;
    uint64_t start_ns;                  /* iteration in which the complete head was seen */
    uvhttp__middleware_cursor_t cursor; /* through middleware to the handler */
    /* behind it, aligned: bytes of the arena, the protocol's arena_size of them */
};

/* For the fields of the head that is read, limits.header_count_max of them: they are the loop's, as the bytes of the
 * head are the receive buffer's, until uvhttp__exchange_own. */
static inline uvhttp__field_t *uvhttp__exchange_fields(const uvhttp__exchange_t *exchange) {
    return exchange->loop->fields;
}

static inline uvhttp__exchange_t *uvhttp__exchange_of(uvhttp_response_t *res) {
    return UVHTTP__CONTAINER_OF(res, uvhttp__exchange_t, response);
}

/* Whether the caller runs on the loop of the exchange, and that loop still has it: `loop` may be followed. Any thread
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

/* --- what a protocol calls (exchange.c, run.c, body.c, respond.c, memory.c); the loop's thread --- */

/* Makes an exchange for a request that is about to be read; NULL if there is no memory. The head is the protocol's to
 * fill in: request.head, request.base and, while it stands in the receive buffer, `borrowed`. */
uvhttp__exchange_t *uvhttp__exchange_new(uvhttp__http_loop_t *loop, uvhttp__exchange_pool_t *pool);
/* The head of a request without a body is there: routes it, runs middleware and handler. Returns whether the protocol
 * has to respond now, as if `respond` had been called; else it was called, or the response comes later. */
UVHTTP_MUST_USE bool uvhttp__exchange_run(uvhttp__exchange_t *exchange);
/* The head of a request with a body is there. whole: all of the body is given to uvhttp__exchange_data next, before
 * anything else, unless uvhttp__exchange_is_receiving is false. */
void uvhttp__exchange_run_with_body(uvhttp__exchange_t *exchange, bool whole);
/* Whether bytes of the body may be given now. If not: want_body follows, or a response. */
static inline bool uvhttp__exchange_is_receiving(const uvhttp__exchange_t *exchange);
/* How many bytes may be given at once. */
size_t uvhttp__exchange_piece_max(const uvhttp__exchange_t *exchange);
/* The next bytes of the body, without any coding; size may be 0. last: that was all. The exchange may be gone
 * afterwards. */
void uvhttp__exchange_data(uvhttp__exchange_t *exchange, const char *data, size_t size, bool last);
/* Text of the trailer section, "Name: value" lines with CRLF, behind all bytes of the body: only a
 * uvhttp__exchange_data of size 0 with `last` follows. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_trailer(uvhttp__exchange_t *exchange, const char *data, size_t size);
/* The rest of the request is not read, or nobody waits any longer: responds by a UVHTTP_E_* code, or cuts the response
 * that has begun. The exchange may be gone afterwards. */
void uvhttp__exchange_refuse(uvhttp__exchange_t *exchange, int code);
/* The deadline that was set has come. */
void uvhttp__exchange_timer(uvhttp__exchange_t *exchange);
/* The client has acknowledged the queued output. */
void uvhttp__exchange_writable(uvhttp__exchange_t *exchange);
/* The server stops, or the connection ends alone. */
void uvhttp__exchange_drain(uvhttp__exchange_t *exchange);
/* The client will send nothing more. Returns whether it is to get its response all the same. */
bool uvhttp__exchange_half_closed(const uvhttp__exchange_t *exchange);
/* Keeps the body of the complete response, if it is one piece of memory (kinds up to REF), until the release of what is
 * returned. The caller clears the kind of the body. */
uvhttp__keeper_t uvhttp__exchange_keep_body(uvhttp__exchange_t *exchange);
/* Makes exchange->outgoing of the body of the complete response, for a protocol that has not sent it with the head.
 * Returns 0 or UVHTTP_E_NOMEM: the body was released. */
int uvhttp__exchange_open_body(uvhttp__exchange_t *exchange);
/* Backpressure is decided by this: bytes of a pulled body that the client's system has not acknowledged, wherever they
 * are queued. */
static inline uint64_t uvhttp__exchange_queued(const uvhttp__exchange_t *exchange) {
    return exchange->outgoing->size + exchange->protocol->queued(exchange);
}
/* The last byte of the response has left (HTTP/1: is queued on the connection): hooks; the exchange is released. */
void uvhttp__exchange_finished(uvhttp__exchange_t *exchange);
/* Its response is over, but the thread or the coroutine that made it is not: it is counted as that does. */
void uvhttp__exchange_count_whole(uvhttp__exchange_t *exchange);
/* Counts it in `orphans` until it has ended: until it is released and no handler, job, coroutine or deferred handle has
 * it. For a protocol that is about to abort it, or that has put another one in its place. */
static inline void uvhttp__exchange_orphan(uvhttp__exchange_t *exchange, uvhttp__orphans_t *orphans) {
    exchange->orphaned = true;
    exchange->orphans = uvhttp__orphans_join(orphans);
}
/* Any thread: nobody works on it any more. */
static inline void uvhttp__exchange_ended(uvhttp__exchange_t *exchange) {
    if (exchange->orphaned) uvhttp__orphans_leave(exchange->orphans);
    exchange->orphaned = false;
}
/* The client has gone, or (status) nobody waits any more: hooks, abort callbacks; the exchange is released, or left to
 * the deferred handle. */
void uvhttp__exchange_abort(uvhttp__exchange_t *exchange, int status);
/* Behind it, for the hooks: UVHTTP_E_ABORTED, or UVHTTP_OK if all of the response was on the wire. */
static inline int uvhttp__exchange_outcome(const uvhttp__exchange_t *exchange) {
    return exchange->delivered ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

static inline bool uvhttp__exchange_is_receiving(const uvhttp__exchange_t *exchange) {
    const uvhttp__incoming_t *incoming = exchange->incoming;
    return incoming ? incoming->on_end && !incoming->paused : !exchange->body_waits;
}

/* --- memory --- */

/* While it is pinned the exchange stays what it is, whatever a call into the application does. */
static inline void uvhttp__exchange_pin(uvhttp__exchange_t *exchange) {
    exchange->borrowers++;
}
/* The file or memory that the body is received in, before a worker thread runs the handler; NULL: none. */
static inline uvhttp__spool_t *uvhttp__exchange_spool(const uvhttp__exchange_t *exchange) {
    return exchange->incoming ? exchange->incoming->spool : NULL;
}
/* Returns whether its client still waits for its response; if not, it must not be used. */
bool uvhttp__exchange_unpin(uvhttp__exchange_t *exchange);
/* Loop's thread: back to the pool, now or when nothing borrows from it any more. on_done has been called. */
void uvhttp__exchange_release(uvhttp__exchange_t *exchange);
/* Any thread, when the client is gone and nothing borrows: frees the memory. */
void uvhttp__exchange_free(uvhttp__exchange_t *exchange);
void uvhttp__exchange_pool_free(uvhttp__exchange_pool_t *pool);
/* For AddressSanitizer: what lies in the pool, with what the protocol has in front of it, is nobody's. */
static inline void uvhttp__exchange_poison(const uvhttp__exchange_pool_t *pool, uvhttp__exchange_t *exchange) {
    UVHTTP__POISON((char *)exchange - pool->protocol->offset, pool->protocol->offset + sizeof *exchange);
}
static inline void uvhttp__exchange_unpoison(const uvhttp__exchange_pool_t *pool, uvhttp__exchange_t *exchange) {
    UVHTTP__UNPOISON((char *)exchange - pool->protocol->offset, pool->protocol->offset + sizeof *exchange);
}
/* The head with its fields and a body view are copied: the receive buffer and the loop's array are free for the next.
 * Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_own(uvhttp__exchange_t *exchange);
/* What follows takes memory for a copy of the head and `more` bytes: they are to stand together. */
void uvhttp__exchange_reserve(uvhttp__exchange_t *exchange, size_t more);
/* In its place for want of memory: the head is as of a request that nobody has read. */
void uvhttp__exchange_forget_head(uvhttp__exchange_t *exchange);
/* Before another thread sees the exchange, or it may outlive its connection (a worker thread, a deferred handle, a
 * coroutine that waits): own, and the request learns all that it will ever show of its connection and route. Returns 0
 * or UVHTTP_E_NOMEM. */
int uvhttp__exchange_leave(uvhttp__exchange_t *exchange);
/* Gives the request its own memory, for the thread that will use it: the loop continues to allocate the response's from
 * `arena`. Both may use what is left of request_memory_max now. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_set_aside(uvhttp__exchange_t *exchange);
/* Makes exchange->intake, if there is none. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__exchange_receive(uvhttp__exchange_t *exchange);
int uvhttp__exchange_body_append(uvhttp__exchange_t *exchange, const char *data, size_t size);

/* --- upgrade.c --- */

/* uvhttp_response_upgrade for a protocol that stands on a channel: once the response has left, user and a channel are
 * given to `events` (static), on_open first. */
int uvhttp__exchange_upgrade(uvhttp_response_t *res, const char *protocol, const uvhttp__channel_events_t *events,
                             void *user);

/* Whether the response is one that has a body, and the method one that gets it. */
static inline bool uvhttp__exchange_wants_body(const uvhttp__exchange_t *exchange) {
    return exchange->request.head.method != UVHTTP_HEAD && uvhttp__status_has_body(exchange->response.status);
}

#endif
