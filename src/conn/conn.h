/* Owns: a connection of a server: a stream with a timer, a place in its loop's list, and a graceful end. What the bytes
 * mean is the upper layer's (the public TCP server, or HTTP's session), which embeds a connection as its first member.
 * May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_CONN_H
#define UVHTTP_SRC_CONN_CONN_H

#include <assert.h>
#include <uvhttp/tcp.h>

#include "base/ip.h"
#include "conn/channel.h"
#include "conn/loop_ref.h"

typedef struct uvhttp__tcp_loop uvhttp__tcp_loop_t;
typedef struct uvhttp__tcp_server uvhttp__tcp_server_t;
typedef struct uvhttp_tcp uvhttp__conn_t;

struct uvhttp_tcp {
    uvhttp__stream_t stream; /* first: the connection is found by it */
    uvhttp__timer_t timer;   /* the upper layer's while the connection serves; then the end's */
    uvhttp__list_t link;     /* in loop->conns or loop->idle */
    uvhttp__tcp_loop_t *loop;
    uvhttp__loop_ref_t *ref; /* handle for other threads, NULL until asked for */
    void *user;
    union {
        uint32_t output_check; /* its index in loop->output_checks, while UVHTTP__CONN_CHECKED */
        uint32_t linger_end;   /* after that, in grains of its timer: how long it may linger on; 0: not decided yet */
    };
    int16_t close_status;           /* UVHTTP_E_* for on_closed */
    uint16_t flags;                 /* UVHTTP__CONN_* */
    struct uvhttp__conn_peer *peer; /* remembered once it was asked for; NULL until then */
};

enum {
    UVHTTP__CONN_FINISHING = 1 << 0, /* no more data for the upper layer: what is queued goes out, then FIN */
    UVHTTP__CONN_LINGERING = 1 << 1, /* FIN sent: waits for the peer's, so that it can read our last bytes */
    UVHTTP__CONN_PEER_ENDED = 1 << 2,
    UVHTTP__CONN_CLOSED = 1 << 3,      /* uvhttp__conn_close was called */
    UVHTTP__CONN_PAUSED = 1 << 4,      /* uvhttp_tcp_pause: the application does not want data */
    UVHTTP__CONN_PRESSED = 1 << 5,     /* on_drain is owed to it */
    UVHTTP__CONN_PROXY = 1 << 6,       /* a PROXY protocol header is awaited; the upper layer knows of nothing */
    UVHTTP__CONN_HANDSHAKE = 1 << 7,   /* its filter has not let it open yet: the upper layer does not know of it */
    UVHTTP__CONN_CHECKED = 1 << 8,     /* whether its peer takes the output is looked at (output.c) */
    UVHTTP__CONN_IDLE_END = 1 << 9,    /* it finished while nothing was under way to the peer */
    UVHTTP__CONN_BEGAN_LATE = 1 << 10, /* its handshake began while the server stops, and has the time for that */
    UVHTTP__CONN_LAST = 1 << 11,       /* ends when the running request is done, although the server continues */
    UVHTTP__CONN_ALPN_H2 = 1 << 12,    /* set by the filter before uvhttp__conn_opened: the handshake has chosen h2 */
    UVHTTP__CONN_PROTOCOL = 3 << 13,   /* two bits: uvhttp__conn_set_protocol */
    UVHTTP__CONN_EVICTED = 1 << 15,    /* evicted: closed as soon as its output is with the kernel */
};

/* What a connection is about, for counting resets. */
typedef enum uvhttp__conn_phase {
    UVHTTP__PHASE_IDLE,
    UVHTTP__PHASE_READING, /* part of a request has come, or of what precedes the first */
    UVHTTP__PHASE_WRITING, /* a response is being made or sent */
    UVHTTP__PHASE_CLOSING, /* the server has begun to close it */
} uvhttp__conn_phase_t;

/* How long the peer may take to close after our FIN, once it has all before it. The time starts again when so
 * many bytes of it are read at once: the rest of a refused upload, which it may have to send before it reads. */
#define UVHTTP__CONN_LINGER_MS 2000
#define UVHTTP__CONN_LINGER_BYTES 1024
/* But not later than this after the first of them. */
#define UVHTTP__CONN_LINGER_MAX_MS 30000
/* The same for a connection that was idle while its server stops: long enough to discard bytes that cross our FIN, so
 * that the peer sees an end and not a reset. */
#define UVHTTP__CONN_IDLE_LINGER_MS 200
/* What a loop reads in a tick, in bytes and ms, only to throw it away because its connections have ended. Beyond it
 * those that send are closed, or not read while their output goes out, unless the peer has broken no rule and has yet
 * to acknowledge something. The rest of a refused upload is read at the speed of a network, and a flood costs the
 * others little. */
#define UVHTTP__CONN_DISCARD_MAX (4u << 20)
#define UVHTTP__CONN_DISCARD_MS 64
/* How long a handshake may take that began while its server stops. */
#define UVHTTP__CONN_LATE_MS 5000

static inline uvhttp__conn_t *uvhttp__conn_of(uvhttp__stream_t *stream) {
    return UVHTTP__CONTAINER_OF(stream, uvhttp__conn_t, stream);
}
static inline uint64_t uvhttp__conn_now_ms(const uvhttp__conn_t *conn) {
    return conn->stream.loop->now_ms;
}

/* For what follows: the upper layer's deadline of a connection whose output is checked; UINT64_MAX: none. */
void uvhttp__output_deadline(uvhttp__conn_t *conn, uint64_t deadline_ms);

/* Deadline for ops->on_timer, rounded up to UVHTTP__CONN_TIMER_GRAIN_MS so that many connections share a slot. One that
 * is closed has no timer any more, whatever is done with it before on_closed: its memory goes then. */
#define UVHTTP__CONN_TIMER_GRAIN_MS 64
static inline void uvhttp__conn_timer_set(uvhttp__conn_t *conn, uint64_t deadline_ms) {
    uint64_t grain = UVHTTP__CONN_TIMER_GRAIN_MS;
    deadline_ms = (deadline_ms + grain - 1) & ~(grain - 1);
    if (__builtin_expect(conn->flags & (UVHTTP__CONN_CLOSED | UVHTTP__CONN_CHECKED), 0))
        uvhttp__output_deadline(conn, deadline_ms);
    else
        uvhttp__timer_set(&conn->stream.loop->wheel, &conn->timer, deadline_ms);
}
static inline void uvhttp__conn_timer_stop(uvhttp__conn_t *conn) {
    if (__builtin_expect(conn->flags & UVHTTP__CONN_CHECKED, 0))
        uvhttp__output_deadline(conn, UINT64_MAX);
    else
        uvhttp__timer_stop(&conn->stream.loop->wheel, &conn->timer);
}

/* From now on the connection is idle, until it is busy again. The owner need not report that: ops->is_idle is called
 * before the connection is evicted for a new client. */
#define UVHTTP__CONN_IDLE_GRAIN_MS 64
void uvhttp__conn_set_idle(uvhttp__conn_t *conn, uint32_t since);
static inline uint32_t uvhttp__conn_idle_clock(const uvhttp__conn_t *conn) {
    return (uint32_t)(conn->stream.loop->now_ms / UVHTTP__CONN_IDLE_GRAIN_MS);
}
static inline void uvhttp__conn_idle(uvhttp__conn_t *conn) {
    uint32_t now = uvhttp__conn_idle_clock(conn);
    if (__builtin_expect(conn->stream.idle_since != now, 0)) uvhttp__conn_set_idle(conn, now);
}
/* The connection is never evicted. */
void uvhttp__conn_set_busy(uvhttp__conn_t *conn);

/* From now on the events of the connection go to another protocol of its server: 0: ops, n: ops->others[n - 1]
 * (tcp_server.h). The user memory of the connection becomes that protocol's. */
static inline void uvhttp__conn_set_protocol(uvhttp__conn_t *conn, unsigned number) {
    conn->flags = (uint16_t)((conn->flags & ~(unsigned)UVHTTP__CONN_PROTOCOL) | number << 13);
}

/* For filters, of a stream that has ended with an error and whose end is not passed on: counts it if the client has
 * reset the connection. */
void uvhttp__conn_count_reset(uvhttp__conn_t *conn);
/* For filters: the upper layer gets the connection now, and then its bytes through uvhttp__conn_stream_ops. Its timer
 * is the filter's until then. */
void uvhttp__conn_opened(uvhttp__conn_t *conn);
extern const uvhttp__stream_ops_t uvhttp__conn_stream_ops;
/* The server stops: the connection ends when what is running is done. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);
/* The same for this connection alone. Idempotent. */
void uvhttp__conn_drain_alone(uvhttp__conn_t *conn);
/* Bytes that came for a connection that is FINISHING. Returns how many of them nobody will look at: all or none. */
size_t uvhttp__conn_discard(uvhttp__conn_t *conn, size_t size);

/* The graceful end: queued output is sent, then FIN. Bytes that still arrive are discarded, up to what the loop
 * discards (UVHTTP__CONN_DISCARD_MAX). It closes when the peer has closed too, or UVHTTP__CONN_LINGER_MS after the peer
 * has acknowledged everything and sends no more, within the limits of the server. Idempotent. */
void uvhttp__conn_finish(uvhttp__conn_t *conn);
/* The same with a time at which sending is aborted. */
void uvhttp__conn_finish_by(uvhttp__conn_t *conn, uint64_t deadline_ms);
/* The end, now. Only ops->on_closed follows, with `status`. Idempotent. */
void uvhttp__conn_close(uvhttp__conn_t *conn, int status);
/* The same with RST. */
void uvhttp__conn_reset(uvhttp__conn_t *conn, int status);

/* uvhttp_tcp_send of both parts or none, with limits of the caller's. */
int uvhttp__conn_send_parts(uvhttp__conn_t *conn, const uvhttp__channel_parts_t *parts,
                            uvhttp__channel_capacity_t capacity);
/* The same of bytes that stand in turn memory. */
int uvhttp__conn_send_iteration(uvhttp__conn_t *conn, const char *data, size_t size,
                                uvhttp__channel_capacity_t capacity);
/* uvhttp_tcp_send_ref, with limits of the caller's. */
int uvhttp__conn_send_ref(uvhttp__conn_t *conn, const void *data, size_t size, void (*release)(void *arg), void *arg,
                          uvhttp__channel_capacity_t capacity);

/* --- rate check of output (output.c) ---
 *
 * It starts when output outlives an iteration, and ends when the peer has acknowledged everything. Once a second it
 * reads how much the peer has acknowledged, including output that is with the kernel already. A peer below the rate
 * (tcp_server.h) is reset and counted. */

/* For output that the kernel may take at once. Does nothing while it is checked. */
void uvhttp__output_check_start(uvhttp__conn_t *conn);
/* Loop time at which the peer was last seen to take something, ms; now if nothing waits for it. */
uint64_t uvhttp__output_moved_ms(const uvhttp__conn_t *conn);

/* What its client is about. */
uvhttp__conn_phase_t uvhttp__conn_phase(const uvhttp__conn_t *conn);

/* The connection is gone for the handles of other threads; for on_closed of connections that may have been given out.
 */
void uvhttp__conn_close_ref(uvhttp__conn_t *conn);

/* --- for lines of the log (conn.c) --- */

/* What a line of the log calls a connection. Asks the system: for DEBUG. Returns text. */
#define UVHTTP__CONN_NAME_MAX (UVHTTP__ADDRESS_TEXT_MAX + 48)
typedef struct uvhttp__conn_name {
    char text[UVHTTP__CONN_NAME_MAX];
} uvhttp__conn_name_t;
const char *uvhttp__conn_log_name(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_NAME_MAX]);

/* --- who is there (peer.c) --- */

typedef struct uvhttp__conn_peer uvhttp__conn_peer_t;

/* The peer's address; false (and "unknown") if it is no longer available. */
bool uvhttp__conn_peer(uvhttp__conn_t *conn, char *text);
/* Whom a proxy speaks for by the PROXY protocol, else the peer. */
uvhttp__peer_t uvhttp__conn_client(uvhttp__conn_t *conn);

#endif
