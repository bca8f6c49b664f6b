/* Owns: see conn.h, and the stream callbacks of every connection. May include: io, base, obs. */
#include "conn/conn.h"

#include <stdio.h>
#include <sys/socket.h>
#include <uvhttp/log.h>

#include "base/hot.h"

#include <uvhttp/log.h>

#include "conn/host_internal.h"

static_assert(sizeof(uvhttp__conn_t) <= 192, "an idle connection costs this and what the upper layer adds");

static const uvhttp__conn_ops_t *ops_of(const uvhttp__conn_t *conn) {
    return conn->worker->host->options.ops;
}

static void stop_all_timers(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_CHECKED) uvhttp__output_check_end(conn);
    uvhttp__conn_timer_stop(conn);
}

const char *uvhttp__conn_log_name(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_NAME_MAX]) {
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    char peer[UVHTTP__ADDRESS_TEXT_MAX] = "(gone)";
    if (getpeername(conn->stream.fd, (struct sockaddr *)&address, &size) == 0)
        uvhttp__address_format(&address, size, peer);
    snprintf(text, UVHTTP__CONN_NAME_MAX, "loop %u: fd %d, %s,", conn->worker->index, conn->stream.fd, peer);
    return text;
}

void uvhttp__conn_close(uvhttp__conn_t *conn, int status) {
    if (conn->flags & UVHTTP__CONN_CLOSED) return;
    UVHTTP_LOG_DEBUG("conn: %s closed: %s", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text),
                     uvhttp_error_name(status));
    conn->flags |= UVHTTP__CONN_CLOSED;
    conn->close_status = (int16_t)status;
    stop_all_timers(conn);
    uvhttp__stream_close(&conn->stream);
}

void uvhttp__conn_reset(uvhttp__conn_t *conn, int status) {
    if (conn->flags & UVHTTP__CONN_CLOSED) return;
    UVHTTP_LOG_DEBUG("conn: %s reset by us: %s", uvhttp__conn_log_name(conn, (uvhttp__conn_name_t){{0}}.text),
                     uvhttp_error_name(status));
    conn->flags |= UVHTTP__CONN_CLOSED;
    conn->close_status = (int16_t)status;
    stop_all_timers(conn);
    uvhttp__stream_reset(&conn->stream);
}

/* The upper layer never hears of it. With RST: the client need not wait to learn that nobody reads what it sends, and
 * nothing of the connection stays here. */
static void refuse_address(uvhttp__conn_t *conn, int code) {
    if (code == UVHTTP_E_LIMIT)
        uvhttp__counters_add(&conn->worker->counters, connections_refused_address, 1);
    else
        uvhttp__counters_error(&conn->worker->counters, code);
    conn->flags |= UVHTTP__CONN_HANDSHAKE;
    uvhttp__conn_reset(conn, code);
}

int uvhttp__conn_begin(uvhttp__conn_t *conn, uint32_t row) {
    if (conn->worker->host->addresses) {
        int status = uvhttp__conn_count_address(conn);
        if (status != UVHTTP_OK) {
            refuse_address(conn, status);
            return UVHTTP_OK;
        }
    }
    const uvhttp__conn_filter_t *filter = &conn->worker->host->filters[row];
    if (filter->open) {
        conn->flags |= UVHTTP__CONN_HANDSHAKE;
        return filter->open(conn, filter->arg);
    }
    ops_of(conn)->on_open(conn);
    return UVHTTP_OK;
}

void uvhttp__conn_opened(uvhttp__conn_t *conn) {
    conn->flags &= (uint16_t)~UVHTTP__CONN_HANDSHAKE;
    uvhttp__conn_timer_stop(conn);
    ops_of(conn)->on_open(conn);
}

/* Whether the peer has sent something before the upper layer knows of the connection. */
static bool has_begun(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_PROXY) return uvhttp__conn_proxy_begun(conn);
    return uvhttp__stream_unread(&conn->stream);
}

static void let_begin(uvhttp__conn_t *conn) {
    conn->flags |= UVHTTP__CONN_BEGAN_LATE;
    uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + UVHTTP__CONN_LATE_MS);
}

/* A handshake or a PROXY header that has begun may end: the request behind it is answered. One that has not has a
 * moment to begin. */
void uvhttp__conn_drain(uvhttp__conn_t *conn) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    if (!(conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)))
        ops_of(conn)->on_drain(conn);
    else if (has_begun(conn))
        let_begin(conn);
    else
        uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + conn->worker->host->options.drain_idle_ms);
}

/* While the server stops the time for a beginning is over. */
static void end_beginning(uvhttp__conn_t *conn) {
    if (has_begun(conn) && !(conn->flags & UVHTTP__CONN_BEGAN_LATE))
        let_begin(conn);
    else
        uvhttp__conn_close(conn, UVHTTP_OK);
}

void uvhttp__conn_drain_alone(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_LAST) return;
    conn->flags |= UVHTTP__CONN_LAST;
    uvhttp__conn_drain(conn);
}

void uvhttp__conn_finish_by(uvhttp__conn_t *conn, uint64_t deadline_ms) {
    if (conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return;
    conn->flags |= UVHTTP__CONN_FINISHING;
    if (uvhttp__stream_out_size(&conn->stream) == 0 && !(conn->flags & UVHTTP__CONN_CHECKED))
        conn->flags |= UVHTTP__CONN_IDLE_END;
    else
        uvhttp__output_check_start(conn);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_timer_set(conn, deadline_ms);
    uvhttp__stream_shutdown(&conn->stream);
    uvhttp__stream_notify_sent(&conn->stream);
    uvhttp__stream_resume(&conn->stream); /* what was kept is thrown away now */
}

/* Without memory for a check there is at least an end. */
void uvhttp__conn_finish(uvhttp__conn_t *conn) {
    uint64_t ms = (uint64_t)conn->worker->host->options.finish.timeout * 1000;
    uvhttp__conn_finish_by(conn, uvhttp__conn_now_ms(conn) + ms);
    if (conn->flags & UVHTTP__CONN_CHECKED) uvhttp__conn_timer_stop(conn);
}

/* Everything is with the kernel, FIN too. */
static void linger(uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_PEER_ENDED) {
        uvhttp__conn_close(conn, conn->close_status);
        return;
    }
    conn->flags |= UVHTTP__CONN_LINGERING;
    bool brief = conn->worker->draining && (conn->flags & UVHTTP__CONN_IDLE_END);
    uvhttp__conn_timer_stop(conn);
    uvhttp__conn_timer_set(conn,
                           uvhttp__conn_now_ms(conn) + (brief ? UVHTTP__CONN_IDLE_LINGER_MS : UVHTTP__CONN_LINGER_MS));
}

/* What the peer has not taken yet it may go on to take, at its rate: it is not closed over it. A server that stops
 * leaves that to the kernel. */
static void end_lingering(uvhttp__conn_t *conn) {
    if ((conn->flags & UVHTTP__CONN_CHECKED) && !conn->worker->draining)
        uvhttp__conn_timer_set(conn, uvhttp__conn_now_ms(conn) + UVHTTP__CONN_LINGER_MS);
    else
        uvhttp__conn_close(conn, conn->close_status);
}

UVHTTP__HOT static size_t on_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (__builtin_expect(conn->flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_PROXY), 0))
        return conn->flags & UVHTTP__CONN_FINISHING ? size : uvhttp__conn_proxy_data(conn, data, size);
    return ops_of(conn)->on_data(conn, data, size);
}

static uvhttp__conn_phase_t phase_of(const uvhttp__conn_t *conn) {
    if (conn->flags & UVHTTP__CONN_FINISHING) return UVHTTP__PHASE_CLOSING;
    if (conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)) return UVHTTP__PHASE_READING;
    if (conn->stream.flags & UVHTTP__STREAM_RESET_SENDING) return UVHTTP__PHASE_WRITING;
    return ops_of(conn)->phase ? ops_of(conn)->phase(conn) : UVHTTP__PHASE_IDLE;
}

void uvhttp__conn_count_reset(uvhttp__conn_t *conn) {
    static const char *const when[] = {"while it was idle", "while a request was received",
                                       "while a response was made or sent", "while it was being closed"};
    if (!(conn->stream.flags & UVHTTP__STREAM_RESET)) return;
    uvhttp__counters_t *counters = &conn->worker->counters;
    uvhttp__conn_phase_t phase = phase_of(conn);
    switch (phase) {
        case UVHTTP__PHASE_IDLE: uvhttp__counters_add(counters, resets_idle, 1); break;
        case UVHTTP__PHASE_READING: uvhttp__counters_add(counters, resets_reading, 1); break;
        case UVHTTP__PHASE_WRITING: uvhttp__counters_add(counters, resets_writing, 1); break;
        case UVHTTP__PHASE_CLOSING: uvhttp__counters_add(counters, resets_closing, 1); break;
    }
    UVHTTP_LOG_DEBUG("%s: connection reset by its client %s", conn->worker->host->options.name, when[phase]);
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
        uvhttp__conn_proxy_end(conn);
    else if (!(conn->flags & UVHTTP__CONN_FINISHING))
        ops_of(conn)->on_end(conn);
}

static void on_sent(uvhttp__stream_t *stream) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (conn->flags & UVHTTP__CONN_FINISHING)
        linger(conn);
    else
        ops_of(conn)->on_sent(conn);
}

static void on_closed(uvhttp__stream_t *stream) {
    uvhttp__conn_t *conn = uvhttp__conn_of(stream);
    if (!(conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE))) ops_of(conn)->on_closed(conn);
    uvhttp__conn_forget_peer(conn);
    uvhttp__worker_conn_closed(conn);
}

static void on_kept(uvhttp__stream_t *stream) {
    uvhttp__output_check_start(uvhttp__conn_of(stream));
}

const uvhttp__stream_ops_t uvhttp__conn_stream_ops = {
    .on_data = on_data, .on_end = on_end, .on_sent = on_sent, .on_kept = on_kept, .on_closed = on_closed};

void uvhttp__conn_put_back(uvhttp__conn_t *conn, size_t size) {
    assert(conn->flags & UVHTTP__CONN_PAUSED);
    conn->worker->put_back = (uint32_t)size;
}

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    uvhttp__conn_t *conn = UVHTTP__CONTAINER_OF(timer, uvhttp__conn_t, timer);
    if ((conn->flags & UVHTTP__CONN_CHECKED) && !uvhttp__output_look(conn)) return;
    if (conn->flags & UVHTTP__CONN_LINGERING) {
        end_lingering(conn);
    } else if (conn->flags & UVHTTP__CONN_FINISHING) {
        uvhttp__counters_add(&conn->worker->counters, timeouts_write, 1);
        uvhttp__conn_reset(conn, UVHTTP_E_TIMEOUT);
    } else if ((conn->flags & (UVHTTP__CONN_PROXY | UVHTTP__CONN_HANDSHAKE)) && conn->worker->draining) {
        end_beginning(conn);
    } else if (conn->flags & UVHTTP__CONN_PROXY) {
        uvhttp__conn_proxy_late(conn);
    } else if (conn->flags & UVHTTP__CONN_HANDSHAKE) {
        uvhttp__counters_add(&conn->worker->counters, timeouts_handshake, 1);
        uvhttp__conn_close(conn, UVHTTP_E_TIMEOUT);
    } else {
        ops_of(conn)->on_timer(conn);
    }
}
