/* Owns: what a connection offers to its worker and to its protocol, and what a protocol is. May include: base, io, obs,
 * http1. */
#ifndef UVHTTP_TOOLS_LOAD_CONN_H
#define UVHTTP_TOOLS_LOAD_CONN_H

#include "load/thread.h"

struct load_protocol {
    /* Begins a handshake on a new connection; load_conn_online ends it. NULL: there is none. */
    void (*shake)(load_conn_t *conn);
    /* Sends n requests that were due at due_ns (closed loop: 0), each with load_conn_add_flight. */
    void (*send)(load_conn_t *conn, uint32_t n, uint64_t due_ns);
    /* Takes all that came, in the handshake or after it. */
    void (*receive)(load_conn_t *conn, const char *data, size_t size);
    /* The server has sent FIN with a request under way: whether that was its answer. NULL: never. */
    bool (*end)(load_conn_t *conn);
    /* The oldest request has had its time; the protocol fails it alone. NULL: the connection fails. */
    void (*expire)(load_conn_t *conn, load_flight_t *flight);
    /* How many requests the server lets the connection have under way. NULL: any number. */
    uint32_t (*space)(const load_conn_t *conn);
    /* The stream has closed. NULL: nothing is held. */
    void (*closed)(load_conn_t *conn);
    /* What a FIN or RST in the handshake is likely to mean. NULL: just that. */
    const char *ended_shaking;
};

extern const load_protocol_t load_protocol_http;
extern const load_protocol_t load_protocol_h2;
extern const load_protocol_t load_protocol_tcp;
extern const load_protocol_t load_protocol_ws;

/* --- for the worker --- */

void load_conn_init(load_conn_t *conn, load_thread_t *thread, load_flight_t *flights, uint32_t number);
void load_conn_open(load_conn_t *conn);
/* Closed loop: sends what there is to send. Open loop: offers itself to the worker. */
void load_conn_begin(load_conn_t *conn);
/* Open loop: one request that was due at due_ns; the connection is in worker->free. */
void load_conn_send_due(load_conn_t *conn, uint64_t due_ns);
/* The end of the run. */
void load_conn_stop(load_conn_t *conn);
void load_conn_deinit(load_conn_t *conn);

/* --- for TLS, which stands between the stream and the connection --- */

extern const uvhttp__stream_ops_t load_conn_ops;
/* What the connection carries from now on is private. */
void load_conn_secured(load_conn_t *conn);

/* --- for the protocol --- */

/* The handshake is done. */
void load_conn_online(load_conn_t *conn);
/* A request is under way from now on. */
load_flight_t *load_conn_add_flight(load_conn_t *conn, load_request_t *request, uint64_t due_ns);
/* Sends bytes that live as long as the run; a slow client does it bit by bit. */
void load_conn_send_bytes(load_conn_t *conn, const char *data, size_t size);
/* A request that has no answer and is no longer awaited: it counts with the time that it has waited until `now`. */
void load_record_waited(load_thread_t *thread, const load_flight_t *flight, uint64_t now);
/* A request has its answer. */
void load_conn_take_flight(load_conn_t *conn, load_flight_t *flight);
/* A request has no answer and will have none, on a connection that remains in use. The run may end with it. */
void load_conn_lose_flight(load_conn_t *conn, load_flight_t *flight, load_error_t kind, const char *why);
/* A request that the server has not processed, by its word: it is made again, which is no error; in an open loop it is
 * lost. */
void load_conn_return_flight(load_conn_t *conn, load_flight_t *flight, const char *why);
/* After an answer: whether the connection has come to its end, by the server's word (`close`) or ours, which is no
 * error. */
bool load_conn_ends(load_conn_t *conn, bool close);
/* The connection is of no use any more, and what it had under way is lost. `pause`: the next one has to wait. */
void load_conn_fail(load_conn_t *conn, load_error_t kind, bool pause, const char *why);

static inline load_flight_t *load_flight_of(uvhttp__list_t *link) {
    return UVHTTP__CONTAINER_OF(link, load_flight_t, link);
}
/* The slot of the request with this number. */
static inline load_flight_t *load_flight_slot(const load_conn_t *conn, uint64_t number) {
    return &conn->flights[number & (conn->thread->slot_count - 1)];
}
/* One has to be under way. */
static inline load_flight_t *load_conn_oldest(const load_conn_t *conn) {
    return load_flight_of(conn->waiting.next);
}

/* response.c: what is checked of a response, whatever the protocol. */

/* A run of body bytes; whole: there is no other. */
void load_response_add_body(const load_conn_t *conn, load_flight_t *flight, const char *data, size_t size, bool whole);
/* The response is complete: counts what is wrong with it. */
void load_response_check(load_conn_t *conn, const load_flight_t *flight);

/* echo.c: messages of random bytes that have to come back. A message begins with LOAD_MESSAGE_ID_SIZE characters that
 * no other message of the run has (unless it is shorter), so that an old echo does not pass for a new one. */

/* Sends n of them, each behind the bytes of its request: the head of HTTP or of a frame. */
void load_echo_send(load_conn_t *conn, uint32_t n, uint64_t due_ns);
/* Whether the next bytes of the message's echo, from flight->body_size on, are right. */
bool load_echo_matches(const load_conn_t *conn, const load_flight_t *flight, const char *data, size_t size);
/* Writes bytes [at, at + size) of the message. */
void load_echo_copy(const load_conn_t *conn, const load_flight_t *flight, size_t at, size_t size, char *out);
/* tcp, ws: the same; if they are not, the connection has failed. */
bool load_echo_take(load_conn_t *conn, const char *data, size_t size);

#endif
