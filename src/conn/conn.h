/* Owns: a connection of a server: a stream with a timer, a place in its worker's list, and a graceful end. What the
 * bytes mean is the upper layer's (the public TCP server, or HTTP's session), which embeds a connection as its first
 * member. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_CONN_H
#define UVHTTP_SRC_CONN_CONN_H

#include <assert.h>
#include <uvhttp/tcp.h>

#include "base/ip.h"
#include "io/io.h"

typedef struct uvhttp__worker uvhttp__worker_t;
typedef struct uvhttp__host uvhttp__host_t;
typedef struct uvhttp_tcp uvhttp__conn_t;

struct uvhttp_tcp {
    uvhttp__stream_t stream; /* first: the connection is found by it */
    uvhttp__timer_t timer;   /* the upper layer's while the connection serves; then the end's */
    uvhttp__list_t link;     /* in worker->conns or worker->idle */
    uvhttp__worker_t *worker;
    uvhttp_tcp_ref_t *ref; /* handle for other threads, NULL until asked for */
    void *user;
    union {
        uint32_t idle_out_size; /* bytes queued when the idle timer was set; it changes when some were sent */
        uint32_t put_back;      /* uvhttp__conn_put_back; connections of HTTP have no idle timer of this layer */
        uint32_t idle_since;    /* the same before they are handed over: uvhttp__conn_idle. 0: not in worker->idle */
    };
    int16_t close_status;           /* UVHTTP_E_* for on_closed */
    uint16_t flags;                 /* UVHTTP__CONN_* */
    struct uvhttp__conn_peer *peer; /* remembered once it was asked for; NULL until then */
};

enum {
    UVHTTP__CONN_FINISHING = 1 << 0, /* no more data for the upper layer: what is queued goes out, then FIN */
    UVHTTP__CONN_LINGERING = 1 << 1, /* FIN sent: waits for the peer's, so that it can read our last bytes */
    UVHTTP__CONN_PEER_ENDED = 1 << 2,
    UVHTTP__CONN_CLOSED = 1 << 3,    /* uvhttp__conn_close was called */
    UVHTTP__CONN_PAUSED = 1 << 4,    /* uvhttp_tcp_pause: the application does not want data */
    UVHTTP__CONN_PRESSED = 1 << 5,   /* on_drain is owed to it */
    UVHTTP__CONN_PROXY = 1 << 6,     /* a PROXY protocol header is awaited; the upper layer knows of nothing */
    UVHTTP__CONN_HANDSHAKE = 1 << 7, /* its filter has not let it open yet: the upper layer does not know of it */
    UVHTTP__CONN_UPPER = 1 << 8,     /* this bit and those above are the upper layer's */
};

/* What a connection is about, for counting resets. */
typedef enum uvhttp__conn_phase {
    UVHTTP__PHASE_IDLE,
    UVHTTP__PHASE_READING, /* part of a request has come, or of what precedes the first */
    UVHTTP__PHASE_WRITING, /* a response is being made or sent */
    UVHTTP__PHASE_CLOSING, /* the server has begun to close it */
} uvhttp__conn_phase_t;

/* How long the peer may take to close after our FIN. */
#define UVHTTP__CONN_LINGER_MS 2000

static inline uvhttp__conn_t *uvhttp__conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, uvhttp__conn_t, stream);
}
static inline uint64_t uvhttp__conn_now_ms(const uvhttp__conn_t *conn) {
    return conn->stream.loop->now_ms;
}

/* Deadline for ops->on_timer, rounded up to UVHTTP__CONN_TIMER_GRAIN_MS so that many connections share a slot. One that
 * is closed has no timer any more, whatever is done with it before on_closed: its memory goes then. */
#define UVHTTP__CONN_TIMER_GRAIN_MS 64
static inline void uvhttp__conn_timer_set(uvhttp__conn_t *conn, uint64_t deadline_ms) {
    if (__builtin_expect(conn->flags & UVHTTP__CONN_CLOSED, 0)) return;
    uint64_t grain = UVHTTP__CONN_TIMER_GRAIN_MS;
    uvhttp__timer_set(&conn->stream.loop->wheel, &conn->timer, (deadline_ms + grain - 1) & ~(grain - 1));
}
static inline void uvhttp__conn_timer_stop(uvhttp__conn_t *conn) {
    uvhttp__timer_stop(&conn->stream.loop->wheel, &conn->timer);
}

/* From now on the connection waits for its client with nothing under way, until it is busy again, which nobody has to
 * say: ops->is_idle is asked before it is closed to make room for a new client. */
#define UVHTTP__CONN_IDLE_GRAIN_MS 64
void uvhttp__conn_set_idle(uvhttp__conn_t *conn, uint32_t since);
static inline uint32_t uvhttp__conn_idle_clock(const uvhttp__conn_t *conn) {
    return (uint32_t)(conn->stream.loop->now_ms / UVHTTP__CONN_IDLE_GRAIN_MS);
}
static inline void uvhttp__conn_idle(uvhttp__conn_t *conn) {
    uint32_t now = uvhttp__conn_idle_clock(conn);
    if (__builtin_expect(conn->idle_since != now, 0)) uvhttp__conn_set_idle(conn, now);
}
/* It is never closed to make room, and its idle_since is free for other use, which begins at 0. */
void uvhttp__conn_set_busy(uvhttp__conn_t *conn);

/* For filters, of a stream that has ended with an error and whose end is not passed on: counts it if the client has
 * reset the connection. */
void uvhttp__conn_count_reset(uvhttp__conn_t *conn);
/* For filters: the upper layer gets the connection now, and then its bytes through uvhttp__conn_stream_ops. Its timer
 * is the filter's until then. */
void uvhttp__conn_opened(uvhttp__conn_t *conn);
extern const uvhttp__stream_ops_t uvhttp__conn_stream_ops;
/* The server stops: the connection ends when what is running is done. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);

/* The graceful end: queued output goes out, then FIN; bytes that still come are thrown away; closes when the peer has
 * closed too, or after UVHTTP__CONN_LINGER_MS. write_deadline_ms: when to give up sending. Idempotent. */
void uvhttp__conn_finish(uvhttp__conn_t *conn, uint64_t write_deadline_ms);
/* The end, now. Only ops->on_closed follows, with `status`. Idempotent. */
void uvhttp__conn_close(uvhttp__conn_t *conn, int status);
/* The same with RST. */
void uvhttp__conn_reset(uvhttp__conn_t *conn, int status);

/* A head and what is behind it, to be sent as one. */
typedef struct uvhttp__conn_parts {
    const char *head;
    size_t head_size;
    const void *data;
    size_t size;
} uvhttp__conn_parts_t;

/* What a queue may hold: bytes from which a send reports backpressure, and with which it refuses. */
typedef struct uvhttp__conn_room {
    uint64_t high_watermark, queue_max;
} uvhttp__conn_room_t;

/* uvhttp_tcp_send of both parts or none, with limits of the caller's. */
int uvhttp__conn_send_parts(uvhttp__conn_t *conn, const uvhttp__conn_parts_t *parts, uvhttp__conn_room_t room);
/* The same of bytes that stand in turn memory. */
int uvhttp__conn_send_turn(uvhttp__conn_t *conn, const char *data, size_t size, uvhttp__conn_room_t room);
/* uvhttp_tcp_send_ref, with limits of the caller's. */
int uvhttp__conn_send_ref(uvhttp__conn_t *conn, const void *data, size_t size, void (*release)(void *arg), void *arg,
                          uvhttp__conn_room_t room);

/* In on_data of a connection that was handed over by HTTP: the last bytes of what was given come again after
 * uvhttp_tcp_resume. The connection is paused. */
static inline void uvhttp__conn_put_back(uvhttp__conn_t *conn, size_t size) {
    assert(conn->flags & UVHTTP__CONN_PAUSED);
    conn->put_back = (uint32_t)size;
}

/* The connection is gone for the handles of other threads; for on_closed of connections that may have been given out.
 */
void uvhttp__conn_close_ref(uvhttp__conn_t *conn);

/* --- who is there (peer.c) --- */

typedef struct uvhttp__conn_peer uvhttp__conn_peer_t;

/* The peer's address; false (and "unknown") if it can not be had any more. */
bool uvhttp__conn_peer(uvhttp__conn_t *conn, char *text);
/* Whom a proxy speaks for by the PROXY protocol, else the peer. */
uvhttp__peer_t uvhttp__conn_client(uvhttp__conn_t *conn);

#endif
