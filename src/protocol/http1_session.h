/* Owns: what the files of HTTP/1 share: the session, a connection that speaks HTTP/1, and the stream, one request on
 * it. May include: everything below the server.
 *
 * A session costs an idle client a few words. A stream exists while there is a request, and ends with its exchange. */
#ifndef UVHTTP_SRC_SERVER_HTTP1_SESSION_H
#define UVHTTP_SRC_SERVER_HTTP1_SESSION_H

#include "exchange/exchange.h"
#include "http1/http1.h"

/* Part of an incomplete head. */
typedef struct uvhttp__partial {
    uvhttp__http1_scan_t scan;
    uint32_t size, capacity;
    char data[];
} uvhttp__partial_t;

typedef struct uvhttp__session uvhttp__session_t;

/* One request and what HTTP/1 has to know of it: framing of both bodies, and what becomes of the connection. */
typedef struct uvhttp__http1_stream {
    uvhttp__session_t *session;
    uint64_t body_left;                 /* Content-Length still to come; if there is a body */
    uvhttp__http1_chunked_t chunked_in; /* if the body is chunked */
    bool keep_alive;
    bool chunked_out;            /* a streamed response is chunked */
    bool owes_continue;          /* 100 has to be sent before the client sends its body */
    bool body_ended;             /* all of a body that is pulled is on the wire, with its framing */
    bool responding;             /* the application has responded, and the rest of the body is to be pulled */
    uint8_t chunk_count;         /* modulo 256, for the share of an iteration */
    uvhttp__exchange_t exchange; /* last */
} uvhttp__http1_stream_t;

struct uvhttp__session {
    uvhttp__conn_t conn; /* first */
    union {
        struct {
            uvhttp__http1_stream_t *stream; /* of the request that is read or processed; NULL: between requests */
            uvhttp__partial_t *partial;     /* head so far; NULL: none */
            uint32_t request_count;
            uint32_t
                discard; /* bytes of a body whose response was sent before it arrived: discarded before the next head */
        };
        uvhttp__channel_t channel; /* in state UPGRADED */
    };
    uint32_t iteration_number; /* of the loop, that iteration_requests belongs to */
    union {
        uint32_t iteration_requests; /* the larger its head, the more often one counts; some chunks count as one */
        uint32_t preface_size;       /* bytes of the preface of HTTP/2 that have come, while it may be one (select.c) */
    };
    uint8_t state;      /* uvhttp__session_state */
    bool writing;       /* output waits for the client: the time for a next request has not begun */
    bool blocked;       /* reading waits for the output to drain */
    bool closing;       /* the connection ends when the output has drained */
    bool more;          /* bytes behind the request in hand have been received already */
    bool reading;       /* in on_data: what follows a response is done when the bytes are used up */
    bool response_sent; /* ... and one was sent */
    bool full;          /* the last receive filled its buffer: more may have been received and not yet been delivered */
};

enum uvhttp__session_state {
    UVHTTP__SESSION_HEAD,     /* between requests, or part of a head is there */
    UVHTTP__SESSION_BODY,     /* a body is to come, before the handler runs or while it does */
    UVHTTP__SESSION_RESPONSE, /* the request is complete; a deferred or streamed response is being made */
    UVHTTP__SESSION_UPGRADED, /* the bytes are another protocol's, which has the channel */
};

extern const uvhttp__protocol_t uvhttp__http1_protocol;

static inline uvhttp__session_t *uvhttp__session_of(uvhttp__conn_t *conn) {
    return UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
}
static inline uvhttp__http_loop_t *uvhttp__session_http_loop(const uvhttp__session_t *session) {
    return session->conn.loop->user;
}
static inline const uvhttp_server_config_t *uvhttp__session_config(const uvhttp__session_t *session) {
    return &uvhttp__session_http_loop(session)->service->config;
}
static inline const uvhttp__times_t *uvhttp__session_times(const uvhttp__session_t *session) {
    return &uvhttp__session_http_loop(session)->service->times;
}
static inline uvhttp__http1_stream_t *uvhttp__http1_stream_of(const uvhttp__exchange_t *exchange) {
    return (uvhttp__http1_stream_t *)(uintptr_t)((const char *)exchange - offsetof(uvhttp__http1_stream_t, exchange));
}

/* --- http1_session.c: the life of the connection --- */

/* As the functions of uvhttp__conn_ops_t. */
void uvhttp__session_on_open(uvhttp__conn_t *conn);
size_t uvhttp__session_on_data(uvhttp__conn_t *conn, const char *data, size_t size);
void uvhttp__session_on_end(uvhttp__conn_t *conn);
void uvhttp__session_on_sent(uvhttp__conn_t *conn);
void uvhttp__session_on_timer(uvhttp__conn_t *conn);
const uvhttp__rate_limits_t *uvhttp__session_output_limits(const uvhttp__conn_t *conn);
bool uvhttp__session_is_idle(const uvhttp__conn_t *conn);
bool uvhttp__session_is_new(const uvhttp__conn_t *conn);
uvhttp__conn_phase_t uvhttp__session_phase(const uvhttp__conn_t *conn);
const char *uvhttp__session_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]);
void uvhttp__session_on_drain(uvhttp__conn_t *conn);
void uvhttp__session_on_closed(uvhttp__conn_t *conn);
/* Whether this connection has to let others go first; then it continues behind them. */
static inline bool uvhttp__session_has_had_its_share(uvhttp__session_t *session, const uvhttp_server_config_t *config) {
    if (__builtin_expect(session->iteration_requests < config->iteration_requests_max, 1)) return false;
    uvhttp__counters_add(&session->conn.loop->counters, budget_exhausted, 1);
    uvhttp__stream_resume(&session->conn.stream);
    return true;
}

/* --- http1_stream.c: one request, its end, and the session's time --- */

/* Makes session->stream for a request that is about to be read; NULL if there is no memory. */
static inline uvhttp__http1_stream_t *uvhttp__session_begin_stream(uvhttp__session_t *session) {
    uvhttp__http_loop_t *loop = uvhttp__session_http_loop(session);
    uvhttp__exchange_t *exchange = uvhttp__exchange_new(loop, &loop->http1);
    if (!exchange) return NULL;
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    stream->session = session;
    stream->keep_alive = stream->chunked_out = stream->owes_continue = false;
    stream->body_ended = stream->responding = false;
    session->stream = stream;
    return stream;
}
/* The connection's timer; 0 seconds: none. */
void uvhttp__session_set_deadline(uvhttp__session_t *session, uint64_t seconds);
/* Output is queued that the client has to take before it is expected to ask for more. */
void uvhttp__session_check_write_rate(uvhttp__session_t *session);
/* The next request of a connection that is kept is waited for. */
void uvhttp__session_expect_request(uvhttp__session_t *session);
/* The server stops, or this connection ends alone: its last request is waited for. */
void uvhttp__session_await_last_request(uvhttp__session_t *session);
/* A head that is missing or malformed gets a response as if it were that of a plain GET, except for what the request
 * line in data[0..size) shows. The bytes must stay until the response has been queued or the exchange owns them. */
void uvhttp__http1_headless(uvhttp__exchange_t *exchange, const char *data, size_t size);
/* RFC 9110 section 10.1.1, once. */
void uvhttp__session_send_continue(uvhttp__session_t *session);
/* Whether the connection can be used again although the body has not been read: bytes to throw away, or -1. */
int64_t uvhttp__session_body_rest(const uvhttp__http1_stream_t *stream);
/* What becomes of the bytes of the request's body that have not come; before done, once. */
void uvhttp__http1_settle_request(uvhttp__http1_stream_t *stream);
/* The response is on the wire: its exchange and its stream end. */
void uvhttp__http1_done(uvhttp__http1_stream_t *stream);
/* There is no response, or no rest of one: the connection ends. */
void uvhttp__http1_give_up(uvhttp__http1_stream_t *stream, int status);
/* The same with RST, for a response that could look complete. */
void uvhttp__http1_cut_off(uvhttp__http1_stream_t *stream, int status);

/* --- http1_request.c: bytes become requests --- */

/* Bytes for a head. Returns how many were used. */
size_t uvhttp__session_read_head(uvhttp__session_t *session, const char *data, size_t size);
/* Bytes for the body of session->stream. Returns how many were used; 0: nothing is wanted now. */
size_t uvhttp__session_read_body(uvhttp__session_t *session, const char *data, size_t size);
/* A head, of which data[0..size) has come, is refused. */
void uvhttp__session_refuse_head(uvhttp__session_t *session, const char *data, size_t size, int code);

/* --- http1_response.c: what uvhttp__protocol_t asks for about the response --- */

void uvhttp__http1_respond(uvhttp__exchange_t *exchange);
int uvhttp__http1_begin(uvhttp__exchange_t *exchange, uint64_t size);
int uvhttp__http1_interim(uvhttp__exchange_t *exchange, int status, uvhttp_str_t fields);

/* --- http1_body.c: bodies that are pulled --- */

int uvhttp__http1_body_ready(uvhttp__exchange_t *exchange);
void uvhttp__http1_finish(uvhttp__exchange_t *exchange);
/* The kernel has everything that was on the wire. Returns whether the exchange must be notified: nothing of its body
 * waits. */
bool uvhttp__http1_wire_empty(uvhttp__http1_stream_t *stream);

/* --- http1_upgrade.c: the session is a channel --- */

/* The response of 101 is queued: the exchange ends, and the protocol that it recorded begins. */
void uvhttp__http1_upgrade(uvhttp__http1_stream_t *stream);
/* In state UPGRADED; as the functions of uvhttp__conn_ops_t. */
size_t uvhttp__http1_upgraded_data(uvhttp__session_t *session, const char *data, size_t size);
void uvhttp__http1_upgraded_sent(uvhttp__session_t *session);

#endif
