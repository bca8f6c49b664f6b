/* Owns: what happens to a connection: its start behind a PROXY header and a filter, the callbacks of its stream, its
 * timer, and the drain of its server. May include: io, base, obs. */
#include "base/hot_path.h"
#include "conn/tcp_server_internal.h"
#include "obs/probe.h"

/* --- the start --- */

/* The upper layer never hears of it. With RST: the client need not wait to learn that nobody reads what it sends, and
 * nothing of the connection stays here. */
static void refuse_address(uvhttp__conn_t *conn, int code) {
    if (code == UVHTTP_E_LIMIT)
        uvhttp__counters_add(&conn->loop->counters, connections_refused_address, 1);
    else
        uvhttp__counters_error(&conn->loop->counters, code);
    conn->flags |= UVHTTP__CONN_HANDSHAKE;
    uvhttp__conn_reset(conn, code);
}

/* It is known who is there: the filter is set, or the upper layer hears of it. A code other than 0 has to close the
 * connection; with 0 it may be closed already. */
static int begin(uvhttp__conn_t *conn, uint32_t address_index) {
    if (conn->loop->tcp_server->addresses) {
        int status = uvhttp__conn_count_address(conn);
        if (status != UVHTTP_OK) {
            refuse_address(conn, status);
            return UVHTTP_OK;
        }
    }
    const uvhttp__conn_filter_t *filter = &conn->loop->tcp_server->filters[address_index];
    if (filter->open) {
        conn->flags |= UVHTTP__CONN_HANDSHAKE;
        return filter->open(conn, filter->arg);
    }
    uvhttp__conn_ops(conn)->on_open(conn);
    return UVHTTP_OK;
}

void uvhttp__conn_opened(uvhttp__conn_t *conn) {
    conn->flags &= (uint16_t)~UVHTTP__CONN_HANDSHAKE;
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_ops(conn)->on_open(conn);
}

static void refuse(uvhttp__conn_t *conn, int code) {
    uvhttp__counters_error(&conn->loop->counters, code);
    uvhttp__conn_close(conn, code);
}

int uvhttp__conn_start(uvhttp__conn_t *conn, uint32_t address_index) {
    UVHTTP__PROBE(accept, conn, address_index);
    if (!conn->loop->tcp_server->endpoints[address_index].proxy_protocol) return begin(conn, address_index);
    int status = uvhttp__conn_proxy_begin(conn, address_index); /* the rest when it is known who is there */
    if (status != UVHTTP_OK) refuse(conn, status);
    return UVHTTP_OK;
}

/* Not inlined: on_data would save registers for it, for every receive. */
static NOINLINE size_t on_proxy_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    size_t used;
    uint32_t address_index;
    int status = uvhttp__conn_proxy_read(conn, data, size, &used, &address_index);
    if (status == UVHTTP_E_AGAIN) return size;
    if (status != UVHTTP_OK) {
        refuse(conn, status);
        return size;
    }
    status = begin(conn, address_index);
    if (status != UVHTTP_OK) uvhttp__conn_close(conn, status);
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
    if (used < size) used += conn->stream.ops->on_data(&conn->stream, data + used, size - used);
    if (conn->loop->draining) { /* the header came behind its start; a handshake behind that has a time of its own */
        conn->flags &= (uint16_t)~UVHTTP__CONN_BEGAN_LATE;
        uvhttp__conn_drain(conn);
    }
    return used;
}

/* A connection that ends without a word was a look whether somebody listens. */
static void on_proxy_end(uvhttp__conn_t *conn) {
    if (uvhttp__conn_proxy_has_bytes(conn))
        refuse(conn, UVHTTP_E_PROXY_MALFORMED);
    else
        uvhttp__conn_close(conn, UVHTTP_OK);
}

/* --- the server stops --- */

/* Whether the peer has sent something before the upper layer knows of the connection. */
static bool has_begun(uvhttp__conn_t *conn) {
    bool kept = (conn->flags & UVHTTP__CONN_PROXY) && uvhttp__conn_proxy_has_bytes(conn);
    return kept || uvhttp__stream_unread(&conn->stream);
}

static void let_begin(uvhttp__conn_t *conn) {
    conn->flags |= UVHTTP__CONN_BEGAN_LATE;
    uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + UVHTTP__CONN_LATE_MS);
}

/* A handshake or a PROXY header that has started may end, and the request after it gets a response. Others have a
 * moment to start. */
void uvhttp__conn_drain(uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    if (!(conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)))
        uvhttp__conn_ops(conn)->on_drain(conn);
    else if (has_begun(conn))
        let_begin(conn);
    else
        uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + conn->loop->tcp_server->options.drain_idle_ms);
}

void uvhttp__conn_drain_alone(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_LAST) return;
    conn->flags |= UVHTTP__CONN_LAST;
    uvhttp__conn_drain(conn);
}

/* While the server stops the time for a beginning is over. */
static void end_beginning(uvhttp__conn_t *conn) {
    if (has_begun(conn) && !(conn->flags & UVHTTP__CONN_BEGAN_LATE))
        let_begin(conn);
    else
        uvhttp__conn_close(conn, UVHTTP_OK);
}

/* --- the stream --- */

/* Everything is with the kernel, FIN too. */
static void linger(uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_PEER_ENDED | UVHTTP__CONN_EVICTED)) {
        uvhttp__conn_close(conn, conn->close_status);
        return;
    }
    conn->flags |= UVHTTP__CONN_LINGERING;
    uvhttp__stream_resume(&conn->stream); /* the peer's FIN is what it waits for */
    bool brief = conn->loop->draining && (conn->flags & UVHTTP__CONN_IDLE_END);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_timer_set(conn,
                           uvhttp__conn_now_ms(conn) + (brief ? UVHTTP__CONN_IDLE_LINGER_MS : UVHTTP__CONN_LINGER_MS));
}

/* The peer has sent something. While its output is checked, its time has not begun. */
static void linger_on(uvhttp__conn_t *conn) {
    if ((conn->flags & UVHTTP__CONN_CHECKED) || conn->loop->draining) return;
    uint64_t now_ms = uvhttp__conn_now_ms(conn);
    uint64_t grain = UVHTTP__CONN_TIMER_GRAIN_MS;
    if (conn->linger_end == 0) conn->linger_end = (uint32_t)((now_ms + UVHTTP__CONN_LINGER_MAX_MS) / grain);
    uint32_t deadline = (uint32_t)((now_ms + UVHTTP__CONN_LINGER_MS) / grain);
    if ((int32_t)(conn->linger_end - deadline) >= 0) uvhttp__conn_timer_set(conn, now_ms + UVHTTP__CONN_LINGER_MS);
}

/* The peer may continue to read, at its rate: the connection is not closed meanwhile. A server that stops leaves that
 * to the kernel. */
static void end_lingering(uvhttp__conn_t *conn) {
    if ((conn->flags & UVHTTP__CONN_CHECKED) && !conn->loop->draining)
        uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + UVHTTP__CONN_LINGER_MS);
    else
        uvhttp__conn_close(conn, conn->close_status);
}

static bool has_acknowledged(uvhttp__conn_t *conn) {
    return (conn->flags & UVHTTP__CONN_LINGERING) && uvhttp__stream_acknowledged(&conn->stream).held == 0;
}

/* What comes behind the end. Who sends while there is too much of it loses the time that is left to read the end, or,
 * while output still goes out, waits until it has. Not so a peer that has broken no rule and has yet to acknowledge
 * something. It may read only when it has sent: to close its connection would destroy what the kernel holds for it, and
 * to read nothing of it would hold up both. The limits of its output end it. */
NOINLINE size_t uvhttp__conn_discard(uvhttp__conn_t *conn, size_t size) {
    uvhttp__tcp_loop_t *loop = conn->loop;
    uint64_t tick = uvhttp__conn_now_ms(conn) / UVHTTP__CONN_DISCARD_MS;
    if (loop->discard_tick != tick) {
        loop->discard_tick = tick;
        loop->discarded = 0;
    }
    bool too_much = loop->discarded >= UVHTTP__CONN_DISCARD_MAX;
    if (too_much && (conn->close_status != UVHTTP_OK || has_acknowledged(conn))) {
        uvhttp__counters_add(&loop->counters, closing_floods, 1);
        if (!(conn->flags & UVHTTP__CONN_LINGERING)) return 0;
        uvhttp__conn_close(conn, conn->close_status);
    } else if ((conn->flags & UVHTTP__CONN_LINGERING) && size >= UVHTTP__CONN_LINGER_BYTES) {
        linger_on(conn);
    }
    loop->discarded += size;
    return size;
}

UVHTTP__HOT static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (__builtin_expect(conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_PROXY), 0))
        return conn->flags & UVHTTP__CONN_FINISHING ? uvhttp__conn_discard(conn, size)
                                                    : on_proxy_data(conn, data, size);
    return uvhttp__conn_ops(conn)->on_data(conn, data, size);
}

static void on_end(uvhttp__stream_t *stream, int status) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    conn->flags |= UVHTTP__CONN_PEER_ENDED;
    if (status != UVHTTP_OK) uvhttp__conn_count_reset(conn);
    if (status != UVHTTP_OK)
        uvhttp__conn_close(conn, status);
    else if (conn->flags & UVHTTP__CONN_LINGERING)
        uvhttp__conn_close(conn, conn->close_status);
    else if (conn->flags & UVHTTP__CONN_PROXY)
        on_proxy_end(conn);
    else if (!(conn->flags & UVHTTP__CONN_FINISHING))
        uvhttp__conn_ops(conn)->on_end(conn);
}

static void on_sent(uvhttp__stream_t *stream) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (conn->flags & UVHTTP__CONN_FINISHING)
        linger(conn);
    else
        uvhttp__conn_ops(conn)->on_sent(conn);
}

static void on_closed(uvhttp__stream_t *stream) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (!(conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE))) uvhttp__conn_ops(conn)->on_closed(conn);
    uvhttp__conn_forget_peer(conn);
    uvhttp__tcp_loop_conn_closed(conn);
}

static void on_kept(uvhttp__stream_t *stream) {
    uvhttp__output_check_start(uvhttp__conn_of(stream));
}

const uvhttp__stream_ops_t uvhttp__conn_stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_sent = on_sent, .on_kept = on_kept, .on_closed = on_closed};

/* --- the timer --- */

/* Whether the deadline of the upper layer, or of the end, is there. */
static bool look_at_output(uvhttp__conn_t *conn) {
    uvhttp__output_verdict_t verdict = uvhttp__output_look(conn);
    switch (verdict) {
        case UVHTTP__OUTPUT_DUE: return true;
        case UVHTTP__OUTPUT_ACKNOWLEDGED: uvhttp__conn_output_acknowledged(conn); break;
        case UVHTTP__OUTPUT_SLOW: uvhttp__counters_add(&conn->loop->counters, slow_write, 1); break;
        case UVHTTP__OUTPUT_STALLED: uvhttp__counters_add(&conn->loop->counters, timeouts_write, 1); break;
        case UVHTTP__OUTPUT_WAITS: break;
    }
    if (verdict == UVHTTP__OUTPUT_SLOW || verdict == UVHTTP__OUTPUT_STALLED) uvhttp__conn_reset(conn, UVHTTP_E_TIMEOUT);
    return false;
}

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(timer, uvhttp__conn_t, timer);
    if ((conn->flags & UVHTTP__CONN_CHECKED) && !look_at_output(conn)) return;
    if (conn->flags & UVHTTP__CONN_LINGERING) {
        end_lingering(conn);
    } else if (conn->flags & UVHTTP__CONN_FINISHING) {
        uvhttp__counters_add(&conn->loop->counters, timeouts_write, 1);
        uvhttp__conn_reset(conn, UVHTTP_E_TIMEOUT);
    } else if ((conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)) && conn->loop->draining) {
        end_beginning(conn);
    } else if (conn->flags & UVHTTP__CONN_PROXY) {
        refuse(conn, UVHTTP_E_PROXY_TIMEOUT);
    } else if (conn->flags & UVHTTP__CONN_HANDSHAKE) {
        uvhttp__counters_add(&conn->loop->counters, timeouts_handshake, 1);
        uvhttp__conn_close(conn, UVHTTP_E_TIMEOUT);
    } else {
        uvhttp__conn_ops(conn)->on_timer(conn);
    }
}
