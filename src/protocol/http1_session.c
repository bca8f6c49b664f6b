/* Owns: the life of a session: requests one after the other, under limits, deadlines and a share of each loop
 * iteration. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "protocol/http1_session.h"
#include "protocol/idle.h"

static_assert(sizeof(uvhttp__session_t) <= 240, "memory of an idle connection: at most 320 bytes with all overhead");
static_assert(sizeof(uvhttp__http1_stream_t) <= 1536, "a request that waits, until its arena grows");

static uvhttp__counters_t *counters_of(const uvhttp__session_t *session) {
    return &session->conn.loop->counters;
}

/* --- streams --- */

static uvhttp__session_t *session_of(const uvhttp__exchange_t *exchange) {
    return uvhttp__http1_stream_of(exchange)->session;
}

static uint64_t queued(const uvhttp__exchange_t *exchange) {
    return uvhttp__stream_out_size(&session_of(exchange)->conn.stream);
}

static void notify_writable(uvhttp__exchange_t *exchange) {
    uvhttp__session_check_write_rate(session_of(exchange));
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
    uvhttp__stream_send_last(&session_of(exchange)->conn.stream);
    uvhttp__conn_reset(&session_of(exchange)->conn, code);
}

static uvhttp__exchange_t *replace(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__session_begin_stream(session_of(exchange));
    if (!stream) return NULL;
    uvhttp__exchange_t *made = &stream->exchange;
    uvhttp__http1_headless(made, exchange->request.base, exchange->request.head.size);
    made->request.head.version = exchange->request.head.version;
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
                                                   .interim = uvhttp__http1_interim,
                                                   .body_ready = uvhttp__http1_body_ready,
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
                                                   .offset = offsetof(uvhttp__http1_stream_t, exchange),
                                                   .arena_size = 512};

/* --- reading --- */

/* Whether this connection has had its share, or has to wait for its client to read. */
static inline bool must_wait(uvhttp__session_t *session, const uvhttp_server_config_t *config) {
    uvhttp__stream_t *stream = &session->conn.stream;
    if (session->blocked) return true;
    if (UNLIKELY(uvhttp__stream_out_size(stream) > config->write_buffer_size)) {
        uvhttp__counters_add(counters_of(session), write_queue_full, 1);
        session->blocked = true; /* on_sent continues */
        uvhttp__session_check_write_rate(session);
        return true;
    }
    return uvhttp__session_has_had_its_share(session, config);
}

static size_t discard(uvhttp__session_t *session, size_t size) {
    if (size > session->discard) size = session->discard;
    session->discard -= (uint32_t)size;
    if (session->discard == 0) uvhttp__conn_idle(&session->conn);
    return size;
}

static inline size_t read_bytes(uvhttp__session_t *session, const char *data, size_t size) {
    const uvhttp_server_config_t *config = uvhttp__session_config(session);
    uint32_t iteration_number = session->conn.stream.loop->iteration_number;
    size_t used = 0;
    session->full = size >= config->read_buffer_size;
    if (session->iteration_number != iteration_number) {
        session->iteration_number = iteration_number;
        session->iteration_requests = 0;
    }
    while (used < size) {
        if (UNLIKELY(session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED))) return size;
        if (LIKELY(session->state == UVHTTP__SESSION_HEAD)) {
            if (must_wait(session, config)) return session->closing ? size : used;
            used += session->discard ? discard(session, size - used)
                                     : uvhttp__session_read_head(session, data + used, size - used);
        } else if (session->state == UVHTTP__SESSION_BODY) {
            if (uvhttp__session_has_had_its_share(session, config)) return used;
            size_t consumed = uvhttp__session_read_body(session, data + used, size - used);
            if (consumed == 0) break;
            used += consumed;
        } else if (session->state == UVHTTP__SESSION_UPGRADED) {
            return used + uvhttp__http1_upgraded_data(session, data + used, size - used);
        } else if (session->stream->responding && session->discard) {
            used += discard(session, size - used);
        } else {
            return session->stream->responding && !session->stream->keep_alive ? size : used;
        }
    }
    return used;
}

/* Whether nothing is under way on a connection that is kept. */
static inline bool awaits_request(const uvhttp__session_t *session) {
    return session->state == UVHTTP__SESSION_HEAD && !session->writing && !session->partial &&
           !(session->conn.flags & (UVHTTP__CONN_FINISHING | UVHTTP__CONN_CLOSED));
}

UVHTTP__HOT size_t uvhttp__session_on_data(uvhttp__conn_t *conn, const char *data, size_t size) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    session->reading = true;
    session->response_sent = false;
    size_t used = read_bytes(session, data, size);
    session->reading = false;
    if (session->response_sent && awaits_request(session)) uvhttp__session_expect_request(session);
    return used;
}

/* --- the rest of a connection's life --- */

void uvhttp__session_on_open(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    memset((char *)session + sizeof session->conn, 0, sizeof *session - sizeof session->conn);
    uvhttp__conn_idle(conn);
    uvhttp__session_set_deadline(session, uvhttp__session_times(session)->connection_timeout);
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

const char *uvhttp__session_describe(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) return "upgraded from HTTP/1.1";
    snprintf(text, UVHTTP__CONN_DESCRIPTION_MAX, "HTTP/1.1, %u request%s", session->request_count,
             session->request_count == 1 ? "" : "s");
    return text;
}

uvhttp__conn_phase_t uvhttp__session_phase(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) return UVHTTP__PHASE_IDLE;
    if (session->state == UVHTTP__SESSION_RESPONSE || session->writing) return UVHTTP__PHASE_WRITING;
    if (session->state == UVHTTP__SESSION_BODY || session->partial) return UVHTTP__PHASE_READING;
    return UVHTTP__PHASE_IDLE;
}

/* The client has sent FIN. Responses that are queued leave first, whatever of another request follows theirs: on_sent
 * continues here. */
void uvhttp__session_on_end(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    uvhttp__http1_stream_t *stream = session->stream;
    bool queued = uvhttp__stream_out_size(&conn->stream) > 0;
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        session->channel.events->on_end(&session->channel);
    } else if (session->state == UVHTTP__SESSION_HEAD) {
        if (!queued)
            uvhttp__conn_close(conn, UVHTTP_OK);
        else if (!session->closing)
            uvhttp__conn_finish(conn);
    } else if (session->state == UVHTTP__SESSION_RESPONSE &&
               (stream->responding || uvhttp__exchange_half_closed(&stream->exchange))) {
        stream->keep_alive = false;
    } else if (queued) {
        uvhttp__session_check_write_rate(session);
    } else if (session->state == UVHTTP__SESSION_BODY) {
        uvhttp__counters_error(counters_of(session), UVHTTP_E_HTTP_BODY_INCOMPLETE);
        uvhttp__conn_close(conn, UVHTTP_E_HTTP_BODY_INCOMPLETE);
    } else {
        uvhttp__conn_close(conn, UVHTTP_E_ABORTED);
    }
}

void uvhttp__session_on_sent(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        uvhttp__http1_upgraded_sent(session);
        return;
    }
    if (session->closing) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (conn->flags & UVHTTP__CONN_PEER_ENDED) {
        uvhttp__session_on_end(conn);
        if (conn->flags & UVHTTP__CONN_CLOSED) return;
    }
    if (session->writing) {
        session->writing = false;
        if (session->state == UVHTTP__SESSION_HEAD && session->partial)
            uvhttp__session_set_deadline(session, uvhttp__session_times(session)->connection_timeout);
        else if (session->state == UVHTTP__SESSION_HEAD)
            uvhttp__session_expect_request(session);
    }
    if (session->blocked) {
        session->blocked = false;
        uvhttp__stream_resume(&conn->stream);
    }
    uvhttp__http1_stream_t *stream = session->stream;
    if (stream && uvhttp__http1_wire_empty(stream)) uvhttp__exchange_writable(&stream->exchange);
}

void uvhttp__session_on_timer(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        session->channel.events->on_timer(&session->channel);
    } else if (session->state != UVHTTP__SESSION_HEAD) {
        uvhttp__exchange_timer(&session->stream->exchange);
    } else if (session->partial) {
        uvhttp__counters_add(counters_of(session), timeouts_header, 1);
        uvhttp__partial_t *partial = session->partial;
        session->partial = NULL;
        uvhttp__session_refuse_head(session, partial->data, partial->size, UVHTTP_E_HTTP_TIMEOUT);
        uvhttp__free(partial);
    } else {
        /* Without a request there is no response. A connection that never sent anything is closed like an idle one. */
        uvhttp__count_idle_end(conn, session->request_count);
        uvhttp__conn_finish(&session->conn);
    }
}

const uvhttp__rate_limits_t *uvhttp__session_output_limits(const uvhttp__conn_t *conn) {
    const uvhttp__session_t *session = UVHTTP__CONTAINER_OF(conn, uvhttp__session_t, conn);
    if (session->state != UVHTTP__SESSION_UPGRADED) return &conn->loop->tcp_server->options.output;
    return session->channel.events->output_limits(&session->channel);
}

/* Started requests continue; a connection without a request has a moment to send one. */
void uvhttp__session_on_drain(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        if (!uvhttp__conn_drains_again(conn)) session->channel.events->on_stop(&session->channel);
        return;
    }
    if (session->stream)
        uvhttp__exchange_drain(&session->stream->exchange);
    else if (session->state == UVHTTP__SESSION_HEAD && !session->partial && !session->writing)
        uvhttp__session_await_last_request(session);
}

void uvhttp__session_on_closed(uvhttp__conn_t *conn) {
    uvhttp__session_t *session = uvhttp__session_of(conn);
    if (session->state == UVHTTP__SESSION_UPGRADED) {
        session->channel.events->on_close(&session->channel, conn->close_status);
    } else {
        uvhttp__free(session->partial);
        if (session->stream)
            uvhttp__exchange_abort(&session->stream->exchange,
                                   conn->close_status < 0 ? conn->close_status : UVHTTP_E_ABORTED);
    }
    uvhttp__conn_close_ref(conn);
}
