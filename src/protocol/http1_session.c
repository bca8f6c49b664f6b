/* Owns: the life of a session: requests one after the other, under limits, deadlines and a share of each turn of the
 * loop. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "protocol/http1_session.h"

static_assert(sizeof(uvhttp__session_t) <= 240, "memory of an idle connection: at most 320 bytes with all overhead");

static uvhttp__counters_t *counters_of(const uvhttp__session_t *session) {
    return &session->conn.worker->counters;
}

/* 0 switches a time limit off. */
UVHTTP__HOT void uvhttp__session_set_deadline(uvhttp__session_t *session, uint64_t seconds) {
    if (seconds == 0)
        uvhttp__conn_timer_stop(&session->conn);
    else
        uvhttp__conn_timer_set(&session->conn, uvhttp__conn_now_ms(&session->conn) + seconds * 1000);
}

static void drop_partial(uvhttp__session_t *session) {
    if (session->state == UVHTTP__SESSION_UPGRADED) return;
    uvhttp__free(session->partial);
    session->partial = NULL;
}

/* --- after an answer --- */

void uvhttp__session_watch_writing(uvhttp__session_t *session) {
    if (session->writing) return;
    session->writing = true;
    uvhttp__stream_notify_sent(&session->conn.stream);
    uvhttp__output_check_start(&session->conn);
    if (session->state == UVHTTP__SESSION_HEAD) uvhttp__conn_timer_stop(&session->conn); /* on_sent sets it */
}

/* The server stops, or this connection ends alone. Its client may have sent another request, or be about to, and can
 * not know: that one is answered, with `Connection: close`. */
static void await_last_request(uvhttp__session_t *session) {
    uvhttp__conn_timer_set(&session->conn,
                           uvhttp__conn_now_ms(&session->conn) + uvhttp__session_config(session)->drain_idle_ms);
}

/* Another one on a connection that is kept. */
UVHTTP__HOT static void expect_request(uvhttp__session_t *session) {
    uvhttp__conn_idle(&session->conn);
    if (uvhttp__conn_drains(&session->conn))
        await_last_request(session);
    else
        uvhttp__session_set_deadline(session, uvhttp__session_config(session)->keepalive_timeout);
}

UVHTTP__HOT void uvhttp__session_answered(uvhttp__session_t *session, bool keep_alive) {
    session->stream = NULL;
    bool was_later = session->state != UVHTTP__SESSION_HEAD;
    session->state = UVHTTP__SESSION_HEAD;
    if (!keep_alive && session->writing) {
        session->closing = session->blocked = true;   /* on_sent goes on */
        uvhttp__stream_resume(&session->conn.stream); /* what comes is thrown away, so that the client can read */
        return;
    }
    if (!keep_alive) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (!session->writing)
        expect_request(session);
    else
        uvhttp__conn_timer_stop(&session->conn); /* on_sent expects it */
    if (was_later) uvhttp__stream_resume(&session->conn.stream);
}

/* --- streams --- */

UVHTTP__HOT uvhttp__http1_stream_t *uvhttp__session_begin_stream(uvhttp__session_t *session) {
    uvhttp__http_worker_t *worker = uvhttp__session_worker(session);
    uvhttp__exchange_t *exchange = uvhttp__exchange_new(worker, &worker->http1);
    if (!exchange) return NULL;
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    stream->session = session;
    stream->keep_alive = stream->chunked_out = stream->owes_continue = false;
    session->stream = stream;
    return stream;
}

static uvhttp__session_t *session_of(const uvhttp__exchange_t *exchange) {
    return uvhttp__http1_stream_of(exchange)->session;
}

static uint64_t queued(const uvhttp__exchange_t *exchange) {
    return uvhttp__stream_out_size(&session_of(exchange)->conn.stream);
}

static void notify_writable(uvhttp__exchange_t *exchange) {
    uvhttp__session_watch_writing(session_of(exchange));
}

static void want_body(uvhttp__exchange_t *exchange) {
    uvhttp__session_t *session = session_of(exchange);
    if (session->stream->owes_continue) uvhttp__session_send_continue(session);
    uvhttp__stream_resume(&session->conn.stream);
}

static void set_exchange_deadline(uvhttp__exchange_t *exchange, uint64_t at_ms) {
    uvhttp__conn_t *conn = &session_of(exchange)->conn;
    if (at_ms == UINT64_MAX)
        uvhttp__conn_timer_stop(conn);
    else
        uvhttp__conn_timer_set(conn, at_ms);
}

static void reset(uvhttp__exchange_t *exchange, int code) {
    uvhttp__conn_reset(&session_of(exchange)->conn, code);
}

static uvhttp__exchange_t *replace(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__session_begin_stream(session_of(exchange));
    if (!stream) return NULL;
    uvhttp__exchange_t *made = &stream->exchange;
    uvhttp__http1_headless(made, exchange->request.base, exchange->request.head.size);
    made->request.head.version_minor = exchange->request.head.version_minor;
    if (uvhttp__exchange_own(made) != UVHTTP_OK) {
        uint8_t method = made->request.head.method;
        uvhttp__http1_headless(made, NULL, 0);
        made->request.head.method = method;
    }
    return made;
}

static bool is_open(const uvhttp__exchange_t *exchange) {
    return !(session_of(exchange)->conn.flags & UVHTTP__CONN_CLOSED);
}

static bool drains(const uvhttp__exchange_t *exchange) {
    return uvhttp__conn_drains(&session_of(exchange)->conn);
}

static uvhttp__conn_t *connection(const uvhttp__exchange_t *exchange) {
    return &session_of(exchange)->conn;
}

const uvhttp__protocol_t uvhttp__http1_protocol = {.respond = uvhttp__http1_respond,
                                                   .begin = uvhttp__http1_begin,
                                                   .write = uvhttp__http1_write,
                                                   .end = uvhttp__http1_end,
                                                   .finish = uvhttp__http1_finish,
                                                   .queued = queued,
                                                   .notify_writable = notify_writable,
                                                   .want_body = want_body,
                                                   .set_deadline = set_exchange_deadline,
                                                   .reset = reset,
                                                   .replace = replace,
                                                   .is_open = is_open,
                                                   .drains = drains,
                                                   .connection = connection,
                                                   .offset = offsetof(uvhttp__http1_stream_t, exchange)};

/* --- reading --- */

/* Whether this connection has to let others go first, or to wait for its client to read. */
static bool must_wait(uvhttp__session_t *session) {
    uvhttp__stream_t *stream = &session->conn.stream;
    const uvhttp_server_config_t *config = uvhttp__session_config(session);
    if (session->turn_number != stream->loop->turn_number) {
        session->turn_number = stream->loop->turn_number;
        session->turn_requests = 0;
    }
    if (session->blocked) return true;
    if (uvhttp__stream_out_size(stream) > config->write_buffer_size) {
        uvhttp__counters_add(counters_of(session), write_queue_full, 1);
        session->blocked = true; /* on_sent goes on */
        uvhttp__session_watch_writing(session);
        return true;
    }
    if (session->turn_requests < config->turn_requests_max) return false;
    uvhttp__counters_add(counters_of(session), budget_exhausted, 1);
    uvhttp__stream_resume(stream); /* behind the others */
    return true;
}

/* As the public TCP server does: what was kept while it was paused comes in pieces of a receive. Who puts back bytes is
 * paused. */
static size_t on_upgraded_data(uvhttp__session_t *session, const char *data, size_t size) {
    size_t used = 0, piece_max = uvhttp__session_config(session)->read_buffer_size;
    while (used < size && !(session->conn.flags & UVHTTP__CONN_PAUSED)) {
        if (session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        size_t piece = size - used < piece_max ? size - used : piece_max;
        session->upgraded->on_data(&session->conn, data + used, piece, session->conn.user);
        used += piece - session->conn.worker->put_back;
        session->conn.worker->put_back = 0;
    }
    return used;
}

static size_t discard(uvhttp__session_t *session, size_t size) {
    if (size > session->discard) size = session->discard;
    session->discard -= (uint32_t)size;
    if (session->discard == 0) uvhttp__conn_idle(&session->conn);
    return size;
}

UVHTTP__HOT size_t uvhttp__session_on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    size_t used = 0;
    session->full = size >= uvhttp__session_config(session)->read_buffer_size;
    while (used < size) {
        if (session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED)) return size;
        if (session->state == UVHTTP__SESSION_HEAD) {
            if (must_wait(session)) return session->closing ? size : used;
            used += session->discard ? discard(session, size - used)
                                     : uvhttp__session_read_head(session, data + used, size - used);
        } else if (session->state == UVHTTP__SESSION_BODY) {
            size_t taken = uvhttp__session_read_body(session, data + used, size - used);
            if (taken == 0) break;
            used += taken;
        } else if (session->state == UVHTTP__SESSION_UPGRADED) {
            return used + on_upgraded_data(session, data + used, size - used);
        } else {
            break;
        }
    }
    return used;
}

/* --- the rest of a connection's life --- */

void uvhttp__session_on_open(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    memset((char *)session + sizeof session->conn, 0, sizeof *session - sizeof session->conn);
    uvhttp__conn_idle(conn);
    uvhttp__session_set_deadline(session, uvhttp__session_config(session)->connection_timeout);
}

/* Nothing of a request has come. */
bool uvhttp__session_is_idle(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    return session->state == UVHTTP__SESSION_HEAD && !session->stream && !session->partial && !session->writing &&
           !session->closing && !session->blocked && session->discard == 0;
}

bool uvhttp__session_is_new(const uvhttp__conn_t *conn) {
    return UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn)->request_count == 0;
}

uvhttp__conn_phase_t uvhttp__session_phase(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) return UVHTTP__PHASE_IDLE;
    if (session->state == UVHTTP__SESSION_ANSWER || session->writing) return UVHTTP__PHASE_WRITING;
    if (session->state == UVHTTP__SESSION_BODY || session->partial) return UVHTTP__PHASE_READING;
    return UVHTTP__PHASE_IDLE;
}

void uvhttp__session_on_end(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_end)
            session->upgraded->on_end(conn, conn->user);
        else
            uvhttp_tcp_close(conn);
    } else if (session->state == UVHTTP__SESSION_BODY) {
        uvhttp__counters_error(counters_of(session), UVHTTP_E_HTTP_BODY_INCOMPLETE);
        uvhttp__conn_close(conn, UVHTTP_E_HTTP_BODY_INCOMPLETE);
    } else if (session->state == UVHTTP__SESSION_ANSWER) {
        if (uvhttp__exchange_half_closed(&session->stream->exchange))
            session->stream->keep_alive = false;
        else
            uvhttp__conn_close(conn, UVHTTP_E_ABORTED);
    } else if (session->partial || uvhttp__stream_out_size(&conn->stream) == 0) {
        uvhttp__conn_close(conn, UVHTTP_OK);
    } else if (!session->closing) {
        uvhttp__conn_finish(&session->conn);
    }
}

void uvhttp__session_on_sent(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (!(conn->flags & UVHTTP__CONN_PRESSED)) return;
        conn->flags &= (uint16_t)~UVHTTP__CONN_PRESSED;
        if (session->upgraded->on_drain) session->upgraded->on_drain(conn, conn->user);
        return;
    }
    if (session->closing) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (session->writing) {
        session->writing = false;
        if (session->state == UVHTTP__SESSION_HEAD && session->partial)
            uvhttp__session_set_deadline(session, uvhttp__session_config(session)->connection_timeout);
        else if (session->state == UVHTTP__SESSION_HEAD)
            expect_request(session);
    }
    if (session->blocked) {
        session->blocked = false;
        uvhttp__stream_resume(&conn->stream);
    }
    if (session->stream) uvhttp__exchange_writable(&session->stream->exchange);
}

void uvhttp__session_on_timer(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_timer) session->upgraded->on_timer(conn, conn->user);
    } else if (session->state != UVHTTP__SESSION_HEAD) {
        uvhttp__exchange_timer(&session->stream->exchange);
    } else if (session->partial) {
        uvhttp__counters_add(counters_of(session), timeouts_header, 1);
        uvhttp__partial_t *partial = session->partial;
        session->partial = NULL;
        uvhttp__session_refuse_head(session, partial->data, partial->size, UVHTTP_E_HTTP_TIMEOUT);
        uvhttp__free(partial);
    } else {
        /* Nothing was asked, so nothing is answered. A connection on which nothing ever came is closed like an idle
         * one. */
        if (uvhttp__conn_drains(conn))
            ; /* no request came */
        else if (session->request_count == 0)
            uvhttp__counters_add(counters_of(session), timeouts_header, 1);
        else
            uvhttp__counters_add(counters_of(session), timeouts_keepalive, 1);
        uvhttp__conn_finish(&session->conn);
    }
}

/* Of a protocol that we do not know nothing is asked. */
const uvhttp__rate_limits_t *uvhttp__session_output_limits(const uvhttp__conn_t *conn) {
    static const uvhttp__rate_limits_t none = {0};
    const uvhttp__session_t *session = (const uvhttp__session_t *)(const void *)conn;
    if (session->state != UVHTTP__SESSION_UPGRADED) return &conn->worker->host->options.output;
    const uvhttp__service_t *service = uvhttp__session_worker(session)->service;
    const uvhttp__rate_limits_t *limits =
        service->upgraded_output_limits ? service->upgraded_output_limits(conn, session->upgraded) : NULL;
    return limits ? limits : &none;
}

/* What has begun goes on; who has asked for nothing has a moment to do so. */
void uvhttp__session_on_drain(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_stop)
            session->upgraded->on_stop(conn, conn->user);
        else
            uvhttp_tcp_close(conn);
        return;
    }
    if (session->stream)
        uvhttp__exchange_drain(&session->stream->exchange);
    else if (session->state == UVHTTP__SESSION_HEAD && !session->partial && !session->writing)
        await_last_request(session);
}

void uvhttp__session_on_closed(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (session->upgraded->on_close) session->upgraded->on_close(conn, conn->close_status, conn->user);
    } else {
        drop_partial(session);
        if (session->stream)
            uvhttp__exchange_abort(&session->stream->exchange,
                                   conn->close_status < 0 ? conn->close_status : UVHTTP_E_ABORTED);
    }
    uvhttp__conn_close_ref(conn);
}
