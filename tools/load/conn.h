/* Owns: what a connection offers to its worker and to its protocol, and what a protocol is. May include: base, io, obs,
 * http1. */
#ifndef UVHTTP_TOOLS_LOAD_CONN_H
#define UVHTTP_TOOLS_LOAD_CONN_H

#include "load/worker.h"

struct load_protocol {
    /* Begins a handshake on a new connection; load_conn_online ends it. NULL: there is none. */
    void (*shake)(load_conn_t *conn);
    /* Sends n requests that were due at due_ns (closed loop: 0), each with load_conn_add_flight. */
    void (*send)(load_conn_t *conn, uint32_t n, uint64_t due_ns);
    /* Takes all that came, in the handshake or after it. */
    void (*receive)(load_conn_t *conn, const char *data, size_t size);
    /* The server has sent FIN with a request under way: whether that was its answer. NULL: never. */
    bool (*end)(load_conn_t *conn);
};

extern const load_protocol_t load_protocol_http;
extern const load_protocol_t load_protocol_tcp;
extern const load_protocol_t load_protocol_ws;

/* --- for the worker --- */

void load_conn_init(load_conn_t *conn, load_worker_t *worker, load_flight_t *flights, uint32_t number);
void load_conn_open(load_conn_t *conn);
/* Closed loop: sends what there is to send. Open loop: offers itself to the worker. */
void load_conn_begin(load_conn_t *conn);
/* Open loop: one request that was due at due_ns; the connection is in worker->free. */
void load_conn_send_due(load_conn_t *conn, uint64_t due_ns);
/* The end of the run. */
void load_conn_stop(load_conn_t *conn);
void load_conn_deinit(load_conn_t *conn);
void load_conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
void load_conn_on_tick(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* --- for TLS, which stands between the stream and the connection --- */

extern const uvhttp__stream_ops_t load_conn_ops;
/* What the connection carries from now on is private. */
void load_conn_secured(load_conn_t *conn);

/* --- for the protocol --- */

/* The handshake is done. */
void load_conn_online(load_conn_t *conn);
/* A request is under way from now on. */
void load_conn_add_flight(load_conn_t *conn, load_request_t *request, uint64_t due_ns);
/* Sends bytes that live as long as the run; a slow client does it bit by bit. */
void load_conn_send_bytes(load_conn_t *conn, const char *data, size_t size);
/* A request that has no answer and is no longer awaited: it counts with the time that it has waited until `now`. */
void load_record_waited(load_worker_t *worker, const load_flight_t *flight, uint64_t now);
/* The oldest request has its answer. */
void load_conn_take_flight(load_conn_t *conn);
/* After an answer: whether the connection has come to its end, by the server's word (`close`) or ours, which is no
 * error. */
bool load_conn_ends(load_conn_t *conn, bool close);
/* The connection is of no use any more, and what it had under way is lost. `pause`: the next one has to wait. */
void load_conn_fail(load_conn_t *conn, load_error_t kind, bool pause, const char *why);

static inline load_flight_t *load_flight_at(const load_conn_t *conn, uint32_t index) {
    uint32_t at = conn->first + index, size = conn->worker->options->pipeline;
    return &conn->flights[at < size ? at : at - size];
}

/* echo.c: messages of random bytes that have to come back. A message begins with LOAD_MESSAGE_ID_SIZE characters that
 * no other message of the run has (unless it is shorter), so that an old echo does not pass for a new one. */

/* Sends n of them, each behind the bytes of its request: the head of HTTP or of a frame. */
void load_echo_send(load_conn_t *conn, uint32_t n, uint64_t due_ns);
/* Whether the next bytes of the oldest message's echo, from conn->body_size on, are right. */
bool load_echo_matches(const load_conn_t *conn, const char *data, size_t size);
/* tcp, ws: the same; if they are not, the connection has failed. */
bool load_echo_take(load_conn_t *conn, const char *data, size_t size);

#endif
