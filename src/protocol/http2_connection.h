/* Owns: what the files of HTTP/2 share: the connection that speaks it, and the carrier, which is one exchange on one of
 * its streams. May include: http2 and what src/protocol may.
 *
 * Frames, windows, the schedule and the limits against floods are the core's (http2/http2.h). Each of these files uses
 * those above it only:
 * - http2_wire.c: frames become output of the connection
 * - http2_carrier.c: the life of a carrier
 * - http2_tunnel.c: streams that have become channels (RFC 8441)
 * - http2_send.c: bodies leave by the schedule
 * - http2_response.c: responses
 * - http2_request.c: events of the core become exchanges
 * - http2_protocol.c: the table that exchanges use
 * - http2_connection.c: the life of a connection */
#ifndef UVHTTP_SRC_PROTOCOL_HTTP2_CONNECTION_H
#define UVHTTP_SRC_PROTOCOL_HTTP2_CONNECTION_H

#include "exchange/exchange.h"
#include "http2/head.h"
#include "http2/http2.h"

/* Of a loop that has served HTTP/2: loop->http2. */
typedef struct uvhttp__http2_loop {
    uvhttp__http2_limits_t limits;
    uvhttp__http2_head_limits_t head_limits;
    uvhttp__http2_counters_t counters; /* since they were last added to those of the loop */
    uvhttp__exchange_pool_t pool;
    uvhttp__timer_kind_t timer_kind; /* of carriers */
    uvhttp__timer_kind_t tunnel_timer_kind;
    uvhttp__timer_kind_t share_timer_kind;
    uvhttp__list_t due; /* connections that have something to do when the iteration ends */
    char scratch[];     /* the head that is read */
} uvhttp__http2_loop_t;

typedef struct uvhttp__http2_connection uvhttp__http2_connection_t;

/* A connection's memory in the slab of its loop. */
typedef struct uvhttp__http2_session {
    uvhttp__conn_t conn; /* first */
    uvhttp__http2_connection_t *connection;
} uvhttp__http2_session_t;

/* Why a carrier is looked at when the iteration ends; bits. */
enum {
    UVHTTP__HTTP2_DUE_CUT = 1 << 0,      /* its stream is reset: the exchange is to be aborted */
    UVHTTP__HTTP2_DUE_BODY = 1 << 1,     /* bytes of the request that were held can be given to the exchange */
    UVHTTP__HTTP2_DUE_WRITABLE = 1 << 2, /* all that was queued has left, and the exchange wants to know */
};

/* Bytes of a request's body that its exchange does not take yet. */
typedef struct uvhttp__http2_held {
    char *data;                  /* on the heap; NULL: none */
    uint32_t at, size, capacity; /* `size` bytes from `at` on */
} uvhttp__http2_held_t;

/* What has come of a request that has a body, or becomes a tunnel; in the exchange's arena. */
typedef struct uvhttp__http2_inbound {
    uvhttp__http2_held_t held;
    uvhttp_str_t trailer; /* on the heap, while bytes before it are held */
} uvhttp__http2_inbound_t;

/* One exchange on a stream. */
typedef struct uvhttp__http2_carrier {
    uvhttp__http2_connection_t *connection;
    uvhttp__http2_stream_t *stream; /* NULL: released */
    uvhttp__list_t link;            /* in connection->due, if due */
    uvhttp__timer_t timer;
    uint32_t deadline;   /* the exchange's: the low bits of its milliseconds, of which 0 is 1; 0: none */
    uint32_t given;      /* while the response waits for a window, as in uvhttp__http2_is_late */
    uvhttp__rate_t rate; /* of the response's body, while `rate_checked` */

    /* From here to the exchange all is zero in a new carrier. */
    uvhttp__http2_inbound_t *inbound; /* NULL: the request was whole with its head */
    uint32_t kept;                    /* bytes of connection->kept; UINT32_MAX: so many or more */
    uint32_t copied;                  /* bytes of the response's body that are copies of ours; the same */
    uint32_t charged;                 /* bytes of the core's memory */
    int16_t cut_code;
    uint8_t due;
    bool body_open : 1;          /* the end of the request has not been given to the exchange */
    bool ended_in : 1;           /* the end of the request has come */
    bool owes_continue : 1;      /* 100 has to be sent before the client sends its body */
    bool head_sent : 1;          /* ... of the response */
    bool responded : 1;          /* only finished or aborted follows */
    bool wants_writable : 1;     /* uvhttp__exchange_writable is owed */
    bool rate_checked : 1;       /* the rate of its response is looked at */
    bool connects : 1;           /* extended CONNECT: it becomes a tunnel, or is refused */
    uvhttp__exchange_t exchange; /* last */
} uvhttp__http2_carrier_t;

struct uvhttp__http2_connection {
    uvhttp__http2_t core;
    uvhttp__conn_t *conn;
    uvhttp__http2_loop_t *of_loop;
    uvhttp__hpack_decoder_t decoder;
    uvhttp__hpack_encoder_t encoder;
    uvhttp__orphans_t *orphans;                     /* exchanges that have lost their streams */
    uvhttp__list_t link;                            /* in of_loop->due, if it is */
    uvhttp__list_t due;                             /* carriers with something to do, */
    uvhttp__list_t tunnels_due;                     /* ... and tunnels */
    uvhttp__timer_t share_timer;                    /* starts the next iteration, for tunnels that wait for its share */
    uint64_t kept;                                  /* bytes of bodies that streams make us keep, both ways */
    char *wire, *wire_end;                          /* frames in iteration memory that are not queued yet; NULL: none */
    uint64_t opened_ms, idle_ms, frame_ms, stop_ms; /* since when it is open, has no stream, has part of a frame, and
                                                       waits for the ACK of PING; 0: it does not */
    uint64_t linger_ms;                             /* when lingering streams are looked at, 0: there are none */
    uint32_t iteration;                             /* number of the last one in which something was read or given */
    uint32_t request_count;                         /* since it was opened, */
    uint32_t idle_count, frame_count;               /* ... when idle_ms and frame_ms were set */
    bool reading;                                   /* in on_data, which settles at its end */
    bool blocked;                                   /* reading waits for the output to drain */
    bool drain_due;                                 /* streams are to hear that the connection, or the server, ends */
    bool tunnels_wait;                              /* for the share of the next iteration, */
    bool end_waits;                                 /* ... and on_end for them */
    bool settling;
    bool trimmed; /* since idle_ms */
    bool ended;   /* nothing is written any more: the connection finishes or is closed */
};

extern const uvhttp__protocol_t uvhttp__http2_protocol;

static inline uvhttp__http2_connection_t *uvhttp__http2_of(const uvhttp__conn_t *conn) {
    return ((const uvhttp__http2_session_t *)(const void *)conn)->connection;
}
static inline uvhttp__http2_carrier_t *uvhttp__http2_carrier_of(const uvhttp__exchange_t *exchange) {
    return (uvhttp__http2_carrier_t *)(uintptr_t)((const char *)exchange - offsetof(uvhttp__http2_carrier_t, exchange));
}
static inline uvhttp__loop_t *uvhttp__http2_loop_of(const uvhttp__http2_connection_t *connection) {
    return connection->conn->stream.loop;
}
static inline uvhttp__http_loop_t *uvhttp__http2_http_loop(const uvhttp__http2_connection_t *connection) {
    return connection->conn->loop->user;
}
static inline const uvhttp_server_config_t *uvhttp__http2_config(const uvhttp__http2_connection_t *connection) {
    return &uvhttp__http2_http_loop(connection)->service->config;
}

/* --- http2_wire.c --- */

/* Bytes queued for the client above which bodies, and reading, wait. */
#define UVHTTP__HTTP2_WIRE_MAX (64u * 1024)

/* Payload of a DATA frame that is one record of TLS with its head. */
#define UVHTTP__HTTP2_RECORD_PAYLOAD (UVHTTP__FILTER_PIECE_MAX - UVHTTP__HTTP2_FRAME_HEAD_SIZE)

/* What waits, of all kinds. */
static inline size_t uvhttp__http2_wire_size(const uvhttp__http2_connection_t *connection) {
    size_t open = (uintptr_t)connection->wire_end - (uintptr_t)connection->wire;
    return uvhttp__stream_out_size(&connection->conn->stream) + open;
}
/* Something is to be done before the iteration ends. */
void uvhttp__http2_set_due(uvhttp__http2_connection_t *connection);
/* Memory for frames, behind the control frames of the core; NULL: out of memory, the connection is closed. No other
 * function of the core that may write control frames may come before the commit. */
char *uvhttp__http2_wire_extend(uvhttp__http2_connection_t *connection, size_t size);
static inline char *uvhttp__http2_wire_reserve(uvhttp__http2_connection_t *connection, size_t size) {
    const uvhttp__loop_t *loop = uvhttp__http2_loop_of(connection);
    char *end = connection->wire_end;
    bool continues = end == loop->iteration_at && (size_t)(loop->iteration_end - end) >= size;
    if (LIKELY(continues && uvhttp__http2_control(&connection->core).size == 0)) return end;
    return uvhttp__http2_wire_extend(connection, size);
}
/* Frames stand in what was reserved last, up to `end`. */
static inline void uvhttp__http2_wire_commit(uvhttp__http2_connection_t *connection, char *end) {
    uvhttp__loop_iteration_trim(uvhttp__http2_loop_of(connection), end);
    connection->wire_end = end;
}
/* Control frames, and all that stands in iteration memory, are queued. */
void uvhttp__http2_wire_flush(uvhttp__http2_connection_t *connection);
/* Bytes that stay untouched until release(arg), behind what was committed; release is called once, also on failure. */
void uvhttp__http2_wire_append(uvhttp__http2_connection_t *connection, uvhttp_str_t data, uvhttp__release_cb release,
                               void *arg);
/* The connection fails: GOAWAY and its end, when the iteration ends. */
void uvhttp__http2_fail_connection(uvhttp__http2_connection_t *connection, uvhttp__http2_error_t error);

/* A DATA frame of the piece, which was consumed; end: END_STREAM. Releases the keeper when the bytes have left. Returns
 * false without memory: the connection is closed. */
bool uvhttp__http2_wire_data(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                             const uvhttp__piece_t *piece, uvhttp__keeper_t keeper, bool end);
/* One without bytes that ends the stream. */
void uvhttp__http2_wire_end(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream);
/* HEADERS of an interim response, or of trailers (status 0). Returns false without memory: the connection is closed. */
bool uvhttp__http2_wire_section(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                                const uvhttp__http2_response_t *section, bool end);
/* Keeps bytes of a body: their credit is not returned meanwhile. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__http2_hold(uvhttp__http2_held_t *held, const char *data, size_t size);

/* --- http2_carrier.c --- */

/* Makes a carrier for a stream; NULL if there is no memory. */
static inline uvhttp__http2_carrier_t *uvhttp__http2_carrier_new(uvhttp__http2_connection_t *connection,
                                                                 uvhttp__http2_stream_t *stream) {
    uvhttp__exchange_t *exchange =
        uvhttp__exchange_new(uvhttp__http2_http_loop(connection), &connection->of_loop->pool);
    if (UNLIKELY(!exchange)) return NULL;
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    carrier->connection = connection;
    carrier->stream = stream;
    uvhttp__list_init(&carrier->link);
    uvhttp__timer_init(&carrier->timer, connection->of_loop->timer_kind);
    carrier->deadline = 0;
    memset(&carrier->inbound, 0,
           offsetof(uvhttp__http2_carrier_t, exchange) - offsetof(uvhttp__http2_carrier_t, inbound));
    stream->user = carrier;
    return carrier;
}
/* What few carriers have at their end: something due, a timer, a body that came. */
void uvhttp__http2_carrier_undo(uvhttp__http2_carrier_t *carrier);
/* Another exchange has replaced it on the stream, or there is no exchange: the stream no longer belongs to it. */
static inline void uvhttp__http2_carrier_leave(uvhttp__http2_carrier_t *carrier) {
    bool more = uvhttp__list_linked(&carrier->link) || uvhttp__timer_active(&carrier->timer) || carrier->inbound;
    if (UNLIKELY(more)) uvhttp__http2_carrier_undo(carrier);
    uvhttp__http2_discharge(&carrier->connection->core, carrier->charged);
    carrier->connection->kept -= carrier->kept;
    carrier->charged = 0;
    carrier->kept = 0;
    carrier->stream = NULL;
}
#define UVHTTP__HTTP2_LINGER_MS 100
/* The response is complete, and the request is not. The stream has no owner any more. It is released when the request
 * ends, or after 100 to 200 ms, with RST_STREAM(NO_ERROR): clients exist that lose a response which RST_STREAM follows
 * while they send. */
void uvhttp__http2_linger(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream);
/* The last byte of the response is on the wire: hooks; the carrier is gone, and the stream unless it lingers. */
static inline void uvhttp__http2_carrier_finish(uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp__http2_stream_t *stream = carrier->stream;
    stream->user = NULL;
    uvhttp__http2_carrier_leave(carrier);
    uvhttp__exchange_finished(&carrier->exchange);
    if (LIKELY(stream->flags & UVHTTP__HTTP2_REMOTE_ENDED))
        uvhttp__http2_release(&connection->core, stream);
    else
        uvhttp__http2_linger(connection, stream);
    if (UNLIKELY(!connection->reading)) uvhttp__http2_set_due(connection); /* else it settles */
}
/* The client has gone, or the stream was cut: the same. */
void uvhttp__http2_carrier_abort(uvhttp__http2_carrier_t *carrier, int status);
/* Work that has lost its stream counts as a stream until it ends: the core hears how much there is. */
static inline void uvhttp__http2_count_orphans(uvhttp__http2_connection_t *connection) {
    connection->core.orphan_count = uvhttp__orphans_count(connection->orphans);
}
/* Whether the stream still has this carrier, after a call into the application. */
static inline bool uvhttp__http2_carrier_is_at(const uvhttp__http2_carrier_t *carrier,
                                               const uvhttp__http2_stream_t *stream, uint32_t id) {
    return (stream->flags & UVHTTP__HTTP2_IN_USE) && stream->id == id && stream->user == carrier;
}
/* Something (UVHTTP__HTTP2_DUE_*) is to be done when the iteration ends. */
void uvhttp__http2_carrier_set_due(uvhttp__http2_carrier_t *carrier, unsigned what);
/* Bytes of the response's body that have not left. */
static inline uint64_t uvhttp__http2_carrier_left(const uvhttp__http2_carrier_t *carrier) {
    return carrier->exchange.outgoing ? carrier->exchange.outgoing->size : 0;
}
/* Cuts the stream off; the exchange is aborted when the iteration ends. */
void uvhttp__http2_carrier_cut(uvhttp__http2_carrier_t *carrier, uvhttp__http2_error_t error, int code);
/* Bytes that are kept for the connection: what the core counts, bodies, and tables. */
uint64_t uvhttp__http2_memory(const uvhttp__http2_connection_t *connection);
/* Bytes of the response's body that are copies of ours. */
static inline void uvhttp__http2_carrier_set_copied(uvhttp__http2_carrier_t *carrier, uint64_t size) {
    carrier->copied = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}
/* Makes carrier->inbound. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__http2_carrier_expect(uvhttp__http2_carrier_t *carrier);
/* What is kept for the carrier may have changed. Returns whether it may be kept: it is not more than before, or below
 * http2_connection_memory_max with all else, or of the only stream, which other limits bound as over HTTP/1. */
bool uvhttp__http2_carrier_account(uvhttp__http2_carrier_t *carrier);
/* It may not: the stream ends. */
void uvhttp__http2_carrier_cut_greedy(uvhttp__http2_carrier_t *carrier);
/* The exchange's deadline, UINT64_MAX: none. */
void uvhttp__http2_carrier_set_deadline(uvhttp__http2_carrier_t *carrier, uint64_t at_ms);
/* Sets the timer for its deadline, and for the next look at the rate of its response. */
void uvhttp__http2_carrier_arm(uvhttp__http2_carrier_t *carrier);
/* What is left of the response waits for the client's window: its rate is looked at from here on. */
void uvhttp__http2_carrier_check_rate(uvhttp__http2_carrier_t *carrier);
void uvhttp__http2_carrier_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
/* Whether the client has acknowledged too little of a stream for too long; counts it. sent: the stream's bytes. waits:
 * for the client's window; otherwise the client is not charged for the time. Acknowledged output is checked for the
 * whole connection, and reading a file or waiting for the application may take time. Nor is it charged before it has
 * acknowledged what had been sent when the wait began, which the window is of, as long as it acknowledges some of that.
 * That is `given`, as the counter of acknowledged bytes, where 0 is 1; 0: not known. */
bool uvhttp__http2_is_late(uvhttp__conn_t *conn, uvhttp__rate_t *rate, uint32_t *given,
                           const uvhttp__rate_limits_t *limits, uint32_t sent, bool waits);

/* --- http2_tunnel.c --- */

typedef struct uvhttp__http2_tunnel uvhttp__http2_tunnel_t;

/* Extended CONNECT (RFC 8441): a request for a WebSocket becomes one with GET; others get 501. Returns 0 or
 * UVHTTP_E_NOMEM. */
int uvhttp__http2_accept_connect(uvhttp__http2_carrier_t *carrier, uvhttp_str_t protocol);
/* Makes a tunnel for the stream of a carrier whose exchange has recorded an upgrade; NULL: no memory. */
uvhttp__http2_tunnel_t *uvhttp__http2_tunnel_new(const uvhttp__http2_carrier_t *carrier);
/* The head of the response is written: the exchange ends, the stream becomes the tunnel's, and the protocol above is
 * called. */
void uvhttp__http2_tunnel_open(uvhttp__http2_tunnel_t *tunnel, uvhttp__http2_carrier_t *carrier);
/* Bytes of the client; end: nothing follows. */
void uvhttp__http2_tunnel_data(uvhttp__http2_tunnel_t *tunnel, uvhttp_str_t data, bool end);
/* At most `size` bytes leave. */
void uvhttp__http2_tunnel_send(uvhttp__http2_tunnel_t *tunnel, uint32_t size);
/* The client broke a rule: the stream is reset. */
void uvhttp__http2_tunnel_cut(uvhttp__http2_tunnel_t *tunnel, uvhttp__http2_error_t error, int status);
/* The stream was reset, or the connection ends: the tunnel is gone. */
void uvhttp__http2_tunnel_abort(uvhttp__http2_tunnel_t *tunnel, int status);
/* The server stops. */
void uvhttp__http2_tunnel_stop(uvhttp__http2_tunnel_t *tunnel);
/* What is due is done; tunnels may be gone afterwards. */
void uvhttp__http2_tunnels_do_due(uvhttp__http2_connection_t *connection);
/* The share of this iteration is used up: the next one follows at once. */
void uvhttp__http2_tunnels_wait(uvhttp__http2_connection_t *connection);
void uvhttp__http2_tunnels_continue(uvhttp__http2_connection_t *connection);
void uvhttp__http2_tunnel_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* --- http2_send.c --- */

/* Sends bodies, as far as windows and the wire have capacity. */
void uvhttp__http2_send_bodies(uvhttp__http2_connection_t *connection);
/* All of a streamed body has been consumed: its end, and trailers. */
void uvhttp__http2_send_end(uvhttp__http2_carrier_t *carrier);

/* --- http2_response.c: what uvhttp__protocol_t asks for about the response --- */

void uvhttp__http2_respond(uvhttp__exchange_t *exchange);
int uvhttp__http2_begin(uvhttp__exchange_t *exchange, uint64_t size);
int uvhttp__http2_body_ready(uvhttp__exchange_t *exchange);
void uvhttp__http2_finish(uvhttp__exchange_t *exchange);
/* An interim response. Returns 0, UVHTTP_E_ABORTED or UVHTTP_E_NOMEM. */
int uvhttp__http2_send_interim(uvhttp__http2_carrier_t *carrier, int status, uvhttp_str_t fields);

/* --- http2_request.c --- */

/* What the core has read. Returns 0, or a code: the connection fails. */
int uvhttp__http2_on_event(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event);
/* Bytes that were held are given to the exchange, as far as it takes them. The carrier may be gone afterwards. */
void uvhttp__http2_give_held(uvhttp__http2_carrier_t *carrier);

/* --- http2_connection.c --- */

/* As the functions of uvhttp__conn_ops_t. on_open: false, without memory: the connection is closed. */
void uvhttp__http2_on_open(uvhttp__conn_t *conn);
size_t uvhttp__http2_on_data(uvhttp__conn_t *conn, const char *data, size_t size);
void uvhttp__http2_on_end(uvhttp__conn_t *conn);
void uvhttp__http2_on_sent(uvhttp__conn_t *conn);
void uvhttp__http2_on_timer(uvhttp__conn_t *conn);
bool uvhttp__http2_is_idle(const uvhttp__conn_t *conn);
bool uvhttp__http2_is_new(const uvhttp__conn_t *conn);
void uvhttp__http2_on_evict(uvhttp__conn_t *conn);
uvhttp__conn_phase_t uvhttp__http2_phase(const uvhttp__conn_t *conn);
const char *uvhttp__http2_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]);
void uvhttp__http2_on_drain(uvhttp__conn_t *conn);
void uvhttp__http2_on_closed(uvhttp__conn_t *conn);
/* Before something is given to streams: a new iteration has a new share for the connection, which tunnels that wait for
 * it have first. */
void uvhttp__http2_enter_iteration(uvhttp__http2_connection_t *connection);
void uvhttp__http2_on_share_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
/* The iteration ends: what is due on the connections of the loop is done. */
void uvhttp__http2_end_iteration(uvhttp__http2_loop_t *of_loop);
/* Nothing is due: every frame is queued. */
bool uvhttp__http2_is_settled(const uvhttp__http2_loop_t *of_loop);
/* The loop has stopped. */
void uvhttp__http2_loop_free(uvhttp__http_loop_t *loop);

#endif
