/* Owns: responses of HTTP/1 on their way out: the head is written straight into turn memory, small bodies behind it,
 * large ones are sent from where they are. */
#include <string.h>
#include <unistd.h>

#include "base/hot.h"
#include "base/str.h"
#include "exec/feed.h"
#include "protocol/http1_session.h"

/* Up to here a copy behind the head is cheaper than a second piece for the kernel to gather. */
#define COPY_MAX 4096

static inline char *put(char *out, const char *data, size_t size) {
    memcpy(out, data, size);
    return out + size;
}
#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

/* The date is written once a second, not once an answer. */
static void refresh_date(uvhttp__http_worker_t *worker, uint64_t now_ms) {
    int64_t unix_ms = uvhttp__clock_unix_ms();
    memcpy(worker->date_line, "Date: ", 6);
    uvhttp__date_write(worker->date_line + 6, unix_ms / 1000);
    memcpy(worker->date_line + 6 + UVHTTP__DATE_SIZE, "\r\n", 2);
    worker->date_until_ms = now_ms + (uint64_t)(1000 - unix_ms % 1000);
}

/* Everything fixed that a head can have: status line, date, lengths, connection; and what copies of a fixed size write
 * beyond their end. */
#define HEAD_FIXED_MAX 320

static size_t head_max(const uvhttp_response_t *res) {
    return HEAD_FIXED_MAX + res->content_type_size + res->headers_size;
}

/* A type that is remembered is copied by its buffer's size: no call, no loop. */
static inline char *put_content_type(char *out, const uvhttp_response_t *res) {
    out = PUT(out, "Content-Type: ");
    if (res->content_type == res->checked_type)
        memcpy(out, res->checked_type, sizeof res->checked_type);
    else
        memcpy(out, res->content_type, res->content_type_size);
    return PUT(out + res->content_type_size, "\r\n");
}

static char *put_length(char *out, uint64_t size) {
    out = PUT(out, "Content-Length: ");
    out += uvhttp__write_decimal(out, size);
    return PUT(out, "\r\n");
}

/* length: bytes of the body, or UVHTTP_SIZE_UNKNOWN for chunked or until the connection ends. */
UVHTTP__HOT static char *write_head(uvhttp__http1_stream_t *stream, char *out, uint64_t length) {
    const uvhttp__exchange_t *exchange = &stream->exchange;
    const uvhttp_response_t *res = &exchange->response;
    uvhttp__http_worker_t *worker = exchange->worker;
    out += uvhttp__http1_write_status_line(out, res->status);
    uint64_t now_ms = worker->worker->loop->now_ms;
    if (now_ms >= worker->date_until_ms) refresh_date(worker, now_ms);
    out = put(out, worker->date_line, sizeof worker->date_line);
    if (res->content_type_size > 0) out = put_content_type(out, res);
    if (res->headers_size > 0) out = put(out, res->headers, res->headers_size);
    if (stream->chunked_out)
        out = PUT(out, "Transfer-Encoding: chunked\r\n");
    else if (length != UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status))
        out = put_length(out, length);
    if (!stream->keep_alive)
        out = PUT(out, "Connection: close\r\n");
    else if (exchange->request.head.version_minor == 0)
        out = PUT(out, "Connection: keep-alive\r\n");
    return PUT(out, "\r\n");
}

/* Whether the connection can serve another request after this response. A server that drains still responds to what it
 * was sent. A streamed response may outlast the body of its request. */
UVHTTP__HOT static void decide_keep_alive(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    const uvhttp_response_t *res = &stream->exchange.response;
    bool drained = session->conn.worker->draining && !session->more && !uvhttp__stream_unread(&session->conn.stream);
    if (drained || (session->conn.flags & (UVHTTP__CONN_PEER_ENDED | UVHTTP__CONN_LAST))) stream->keep_alive = false;
    if (__builtin_expect(stream->exchange.failure != UVHTTP_OK, 0)) {
        stream->keep_alive = false;
        session->conn.close_status = stream->exchange.failure;
    }
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_CLOSE | UVHTTP__RESPONSE_BODY_OPEN) &&
        (uvhttp__response_is(res, UVHTTP__RESPONSE_CLOSE) ||
         (!uvhttp__response_is(res, UVHTTP__RESPONSE_BEGUN) && uvhttp__session_body_rest(stream) < 0)))
        stream->keep_alive = false;
}

/* The response is in the queue. */
UVHTTP__HOT void uvhttp__http1_finish(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    uvhttp__session_t *session = stream->session;
    bool keep_alive = stream->keep_alive;
    if (__builtin_expect(uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_BODY_OPEN), 0)) {
        int64_t rest = uvhttp__session_body_rest(stream);
        keep_alive = keep_alive && rest >= 0;
        session->discard = keep_alive ? (uint32_t)rest : 0;
    }
    uvhttp__exchange_finished(exchange);
    uvhttp__session_answered(session, keep_alive);
}

static void give_up(uvhttp__http1_stream_t *stream, int status) {
    /* The hooks of the end come in a later turn, when the receive buffer is another's. */
    if (uvhttp__exchange_own(&stream->exchange) != UVHTTP_OK) uvhttp__http1_headless(&stream->exchange, NULL, 0);
    uvhttp__conn_close(&stream->session->conn, status); /* on_closed aborts the exchange */
}

/* --- bodies --- */

static void unpin(void *arg) {
    (void)uvhttp__exchange_unpin(arg);
}

static void close_file(void *arg) {
    close((int)(intptr_t)arg);
}

/* Goes on after a failure, so that every part is released; nothing of what follows it is sent then. */
static int send_parts(uvhttp__stream_t *stream, const uvhttp__body_t *body) {
    int status = UVHTTP_OK;
    for (uint32_t i = 0; i < body->parts->count; i++) {
        const uvhttp__body_part_t *part = &body->parts->parts[i];
        int sent = UVHTTP_OK;
        if (status != UVHTTP_OK) {
            if (part->held) body->release(body->arg);
        } else if (!part->held) {
            sent = uvhttp__stream_send_copy(stream, part->data, (size_t)part->size);
        } else if (part->data) {
            sent = uvhttp__stream_send_ref(stream, part->data, (size_t)part->size, body->release, body->arg);
        } else {
            sent = uvhttp__feed_send(stream, body->parts->port,
                                     &(uvhttp__feed_file_t){.fd = body->parts->fd,
                                                            .offset = part->offset,
                                                            .size = part->size,
                                                            .release = body->release,
                                                            .arg = body->arg,
                                                            .found_ms = body->parts->found_ms,
                                                            .busy_code = UVHTTP_E_STATIC_BUSY,
                                                            .copied = body->parts->copied});
        }
        if (status == UVHTTP_OK) status = sent;
    }
    return status;
}

/* What is encoded is read from memory on its way; else the pages that the kernel has are sent. */
static int send_content(uvhttp__stream_t *stream, uvhttp__work_port_t *port, const uvhttp__body_t *body) {
    uvhttp_content_t *content = body->arg;
    if (content->fd < 0 || uvhttp__stream_encodes(stream))
        return uvhttp__stream_send_ref(stream, content->data, content->size, body->release, content);
    return uvhttp__feed_send(stream, port,
                             &(uvhttp__feed_file_t){.fd = content->fd,
                                                    .size = content->size,
                                                    .release = body->release,
                                                    .arg = content,
                                                    .resident = true,
                                                    .busy_code = UVHTTP_E_WORK_FULL});
}

/* A body that is not copied. The queue takes over the duty to release it, also on failure. */
static int send_large(uvhttp__stream_t *stream, uvhttp__exchange_t *exchange, const uvhttp__body_t *body) {
    switch (body->kind) {
        case UVHTTP__BODY_MEMORY:
            uvhttp__exchange_pin(exchange);
            return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, unpin, exchange);
        case UVHTTP__BODY_FILE:
            return uvhttp__feed_send(stream, &exchange->worker->port,
                                     &(uvhttp__feed_file_t){.fd = body->fd,
                                                            .offset = body->offset,
                                                            .size = body->size,
                                                            .release = close_file,
                                                            .arg = (void *)(intptr_t)body->fd,
                                                            .busy_code = UVHTTP_E_WORK_FULL});
        case UVHTTP__BODY_PARTS: return send_parts(stream, body);
        case UVHTTP__BODY_CONTENT: return send_content(stream, &exchange->worker->port, body);
        case UVHTTP__BODY_REF:
            return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, body->release, body->arg);
        default: return uvhttp__stream_send_ref(stream, body->data, (size_t)body->size, NULL, NULL);
    }
}

/* --- upgrades --- */

static void hand_over(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    const uvhttp_tcp_handlers_t *handlers = stream->exchange.upgrade;
    void *user = stream->exchange.upgrade_user;
    uvhttp__counters_add(&session->conn.worker->counters, upgrades, 1);
    stream->keep_alive = true;
    uvhttp__http1_finish(&stream->exchange);
    uvhttp__conn_timer_stop(&session->conn);
    uvhttp__conn_set_busy(&session->conn);
    session->state = UVHTTP__SESSION_UPGRADED;
    session->upgraded = handlers;
    session->conn.user = user;
    if (handlers->on_open) handlers->on_open(&session->conn, user);
    /* What the session was told before is the other protocol's to know, too. */
    if (uvhttp__conn_drains(&session->conn))
        uvhttp__session_on_drain(&session->conn);
    else if (session->conn.flags & UVHTTP__CONN_PEER_ENDED)
        uvhttp__session_on_end(&session->conn);
}

/* --- complete responses --- */

UVHTTP__HOT void uvhttp__http1_respond(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    uvhttp_response_t *res = &exchange->response;
    uvhttp__stream_t *out = &stream->session->conn.stream;
    decide_keep_alive(stream);
    bool upgrades = exchange->upgrade && res->status == 101;
    if (__builtin_expect(upgrades, 0)) {
        stream->keep_alive = true; /* "Connection: close" contradicts 101 */
        /* RFC 9110 section 7.8: 100 comes first, although there is no body. */
        if (exchange->request.head.expect_continue) uvhttp__session_send_continue(stream->session);
    }
    stream->chunked_out = false;
    uvhttp__body_t *body = &res->body;
    bool with_body = body->size > 0 && uvhttp__exchange_wants_body(exchange);
    res->sent_size = with_body ? body->size : 0;
    bool copied = with_body && body->size <= COPY_MAX && body->kind < UVHTTP__BODY_FILE;
    char *begin = uvhttp__loop_turn_alloc(out->loop, head_max(res) + (copied ? (size_t)body->size : 0));
    if (!begin) {
        give_up(stream, UVHTTP_E_NOMEM);
        return;
    }
    char *end = write_head(stream, begin, body->size);
    if (copied) end = put(end, body->data, (size_t)body->size);
    uvhttp__loop_turn_trim(out->loop, end);
    int status = uvhttp__stream_send_turn(out, begin, (size_t)(end - begin));
    if (with_body && !copied) {
        int sent = send_large(out, exchange, body);
        body->kind = UVHTTP__BODY_NONE; /* the queue's now */
        if (status == UVHTTP_OK) status = sent;
        if (status == UVHTTP_OK) uvhttp__session_watch_writing(stream->session);
    }
    if (status != UVHTTP_OK)
        give_up(stream, status);
    else if (__builtin_expect(upgrades, 0))
        hand_over(stream);
    else
        uvhttp__http1_finish(exchange);
}

/* --- streamed responses --- */

int uvhttp__http1_begin(uvhttp__exchange_t *exchange, uint64_t size) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    uvhttp__stream_t *out = &stream->session->conn.stream;
    uvhttp_response_t *res = &exchange->response;
    decide_keep_alive(stream);
    bool unknown = size == UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status);
    stream->chunked_out = unknown && exchange->request.head.version_minor == 1;
    if (unknown && !stream->chunked_out && exchange->request.head.method != UVHTTP_HEAD) stream->keep_alive = false;
    char *begin = uvhttp__loop_turn_alloc(out->loop, head_max(res));
    if (!begin) return UVHTTP_E_NOMEM;
    char *end = write_head(stream, begin, size);
    uvhttp__loop_turn_trim(out->loop, end);
    return uvhttp__stream_send_turn(out, begin, (size_t)(end - begin)) == UVHTTP_OK ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

int uvhttp__http1_write(uvhttp__exchange_t *exchange, const char *data, size_t size) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    uvhttp__stream_t *out = &stream->session->conn.stream;
    char *begin = uvhttp__loop_turn_alloc(out->loop, size + UVHTTP__HTTP1_CHUNK_HEAD_MAX + 2), *end = begin;
    if (!begin) return UVHTTP_E_NOMEM;
    if (stream->chunked_out) end += uvhttp__http1_write_chunk_head(end, size);
    end = put(end, data, size);
    if (stream->chunked_out) end = PUT(end, "\r\n");
    uvhttp__loop_turn_trim(out->loop, end);
    if (uvhttp__stream_send_turn(out, begin, (size_t)(end - begin)) != UVHTTP_OK) return UVHTTP_E_ABORTED;
    if (uvhttp__stream_out_size(out) > COPY_MAX)
        uvhttp__session_watch_writing(stream->session);
    else if (exchange->response.sent_size + size >
             COPY_MAX) /* the kernel takes what comes little by little, for minutes */
        uvhttp__output_check_start(&stream->session->conn);
    return UVHTTP_OK;
}

static int send_last_chunk(uvhttp__http1_stream_t *stream) {
    const uvhttp__trailers_t *trailers = stream->exchange.response.trailers;
    uvhttp__stream_t *out = &stream->session->conn.stream;
    size_t size = trailers ? trailers->size : 0;
    char *begin = uvhttp__loop_turn_alloc(out->loop, size + 5), *end = begin;
    if (!begin) { /* without its end it must not look whole */
        stream->keep_alive = false;
        return UVHTTP_E_NOMEM;
    }
    end = PUT(end, "0\r\n");
    if (size > 0) end = put(end, trailers->text, size);
    end = PUT(end, "\r\n");
    uvhttp__loop_turn_trim(out->loop, end);
    return uvhttp__stream_send_turn(out, begin, (size_t)(end - begin)) == UVHTTP_OK ? UVHTTP_OK : UVHTTP_E_ABORTED;
}

int uvhttp__http1_end(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    if (uvhttp__response_is(&exchange->response, UVHTTP__RESPONSE_MISSIZED))
        stream->keep_alive = false;
    else if (stream->chunked_out && uvhttp__exchange_wants_body(exchange))
        return send_last_chunk(stream);
    return UVHTTP_OK;
}
