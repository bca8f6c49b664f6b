/* Owns: one request on a session of HTTP/1, from its start to what its end makes of the connection: the next request,
 * or the close; and the time that the session gives its client. */
#include "base/hot_path.h"
#include "protocol/http1_session.h"

/* Up to here what is left of a body that nobody wants is thrown away for the sake of the connection. */
#define DISCARD_MAX 65536

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

/* --- time --- */

/* 0 switches a time limit off. */
UVHTTP__HOT void uvhttp__session_set_deadline(uvhttp__session_t *session, uint64_t seconds) {
    if (seconds == 0)
        uvhttp__conn_timer_stop(&session->conn);
    else
        uvhttp__conn_timer_set(&session->conn, uvhttp__conn_now_ms(&session->conn) + seconds * 1000);
}

void uvhttp__session_check_write_rate(uvhttp__session_t *session) {
    if (session->writing) return;
    session->writing = true;
    uvhttp__stream_notify_sent(&session->conn.stream);
    uvhttp__output_check_start(&session->conn);
    if (session->state == UVHTTP__SESSION_HEAD) uvhttp__conn_timer_stop(&session->conn); /* on_sent sets it */
}

/* The server stops, or this connection ends alone. Its client may have sent another request, or be about to, and cannot
 * know: that one gets a response with `Connection: close`. */
void uvhttp__session_await_last_request(uvhttp__session_t *session) {
    uvhttp__conn_timer_set(&session->conn,
                           uvhttp__conn_now_ms(&session->conn) + uvhttp__session_config(session)->drain_idle_ms);
}

/* Another one on a connection that is kept. */
UVHTTP__HOT void uvhttp__session_expect_request(uvhttp__session_t *session) {
    uvhttp__conn_idle(&session->conn);
    if (uvhttp__conn_drains(&session->conn))
        uvhttp__session_await_last_request(session);
    else
        uvhttp__session_set_deadline(session, uvhttp__session_times(session)->keepalive_timeout);
}

/* --- the request --- */

void uvhttp__session_send_continue(uvhttp__session_t *session) {
    session->stream->owes_continue = false;
    uvhttp__counters_add(&session->conn.loop->counters, responses_1xx, 1);
    (void)uvhttp__stream_send_iteration(&session->conn.stream, continue_line, sizeof continue_line - 1);
}

void uvhttp__http1_headless(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    uvhttp_request_t *req = &exchange->request;
    uvhttp__http1_read_refused(data, size, exchange->loop->service->head_limits.line_size_max, &req->head);
    req->base = req->head.size > 0 ? data : "";
    exchange->borrowed = req->head.size > 0;
    exchange->cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
    if (req->head.path.size > 0 && uvhttp__request_decode_path(req) != UVHTTP_OK) req->head.path.size = 0;
}

int64_t uvhttp__session_body_rest(const uvhttp__http1_stream_t *stream) {
    bool unbounded = stream->exchange.request.head.chunked || stream->body_left > DISCARD_MAX;
    return unbounded || stream->owes_continue ? -1 : (int64_t)stream->body_left;
}

/* --- its end --- */

/* The response has been queued, and its stream is gone: continues with the next request, or ends. */
UVHTTP__HOT static void response_sent(uvhttp__session_t *session, bool keep_alive) {
    session->stream = NULL;
    bool was_later = session->state != UVHTTP__SESSION_HEAD;
    session->state = UVHTTP__SESSION_HEAD;
    if (!keep_alive && session->writing) {
        session->closing = session->blocked = true;   /* on_sent continues */
        uvhttp__stream_resume(&session->conn.stream); /* what comes is thrown away, so that the client can read */
        return;
    }
    if (!keep_alive) {
        uvhttp__conn_finish(&session->conn);
        return;
    }
    if (LIKELY(session->reading && !session->writing)) {
        session->response_sent = true;
        return;
    }
    if (!session->writing)
        uvhttp__session_expect_request(session);
    else
        uvhttp__conn_timer_stop(&session->conn); /* on_sent expects it */
    if (was_later) uvhttp__stream_resume(&session->conn.stream);
}

void uvhttp__http1_settle_request(uvhttp__http1_stream_t *stream) {
    if (!uvhttp__response_is(&stream->exchange.response, UVHTTP__RESPONSE_BODY_OPEN)) return;
    int64_t rest = uvhttp__session_body_rest(stream);
    if (rest < 0) stream->keep_alive = false;
    stream->session->discard = stream->keep_alive ? (uint32_t)rest : 0;
}

UVHTTP__HOT void uvhttp__http1_done(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    bool body_open = uvhttp__response_is(&stream->exchange.response, UVHTTP__RESPONSE_BODY_OPEN);
    if (UNLIKELY(body_open) && !stream->responding) uvhttp__http1_settle_request(stream);
    bool keep_alive = stream->keep_alive;
    uvhttp__exchange_finished(&stream->exchange);
    response_sent(session, keep_alive);
}

/* The hooks of the end come in a later iteration, when the receive buffer is another's. Responses before this one,
 * which this iteration has queued, do not go with the connection. */
static void prepare_end(uvhttp__http1_stream_t *stream) {
    if (uvhttp__exchange_own(&stream->exchange) != UVHTTP_OK) uvhttp__http1_headless(&stream->exchange, NULL, 0);
    uvhttp__stream_send_last(&stream->session->conn.stream);
}

NOINLINE void uvhttp__http1_give_up(uvhttp__http1_stream_t *stream, int status) {
    prepare_end(stream);
    uvhttp__conn_close(&stream->session->conn, status); /* on_closed aborts the exchange */
}

void uvhttp__http1_cut_off(uvhttp__http1_stream_t *stream, int status) {
    prepare_end(stream);
    uvhttp__conn_reset(&stream->session->conn, status);
}
