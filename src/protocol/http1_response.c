/* Owns: responses of HTTP/1 on their way out: the head is written directly into the iteration arena, followed by small
 * bodies; others are pulled (http1_body.c). */
#include <string.h>

#include "base/hot_path.h"
#include "base/load.h"
#include "base/str.h"
#include "protocol/date.h"
#include "protocol/http1_session.h"

static inline char *put(char *out, const char *data, size_t size) {
    memcpy(out, data, size);
    return out + size;
}
/* Small texts without a call. */
static inline char *put_body(char *out, const char *data, size_t size) {
    if (size >= 8 && size <= 16) {
        uint64_t first = uvhttp__load64(data), last = uvhttp__load64(data + size - 8);
        memcpy(out, &first, 8);
        memcpy(out + size - 8, &last, 8);
        return out + size;
    }
    return put(out, data, size);
}
#define PUT(out, literal) put((out), (literal), sizeof(literal) - 1)

/* Everything fixed that a head can have: status line, date, lengths, connection; and what copies of a fixed size write
 * beyond their end. */
#define HEAD_FIXED_MAX 320

static inline size_t head_max(const uvhttp_response_t *res) {
    return HEAD_FIXED_MAX + res->content_type_size + res->headers_size;
}

/* Status line and date. */
static inline char *put_beginning(char *out, int status, const uvhttp__http_loop_t *loop) {
    if (LIKELY(status == 200)) {
        out = PUT(out, "HTTP/1.1 200 OK\r\nDate: ");
    } else {
        out += uvhttp__http1_write_status_line(out, status);
        out = PUT(out, "Date: ");
    }
    out = put(out, loop->date, sizeof loop->date);
    return PUT(out, "\r\n");
}

/* A type that is remembered is copied by its buffer's size: no call, no loop. */
static inline char *put_content_type(char *out, const uvhttp_response_t *res) {
    out = PUT(out, "Content-Type: ");
    if (LIKELY(res->content_type == res->checked_type))
        memcpy(out, res->checked_type, sizeof res->checked_type);
    else
        memcpy(out, res->content_type, res->content_type_size);
    return PUT(out + res->content_type_size, "\r\n");
}

static inline char *put_length(char *out, uint64_t size) {
    out = PUT(out, "Content-Length: ");
    if (size >= 10 && size < 100) {
        *out++ = (char)('0' + size / 10);
        *out++ = (char)('0' + size % 10);
    } else {
        out += uvhttp__write_decimal(out, size);
    }
    return PUT(out, "\r\n");
}

/* length: bytes of the body, or UVHTTP_SIZE_UNKNOWN for chunked or until the connection ends. */
static ALWAYS_INLINE char *write_head(const uvhttp__http1_stream_t *stream, char *out, uint64_t length) {
    const uvhttp__exchange_t *exchange = &stream->exchange;
    const uvhttp_response_t *res = &exchange->response;
    uvhttp__http_loop_t *loop = exchange->loop;
    uint64_t now_ms = loop->tcp->io->now_ms;
    if (UNLIKELY(now_ms >= loop->date_until_ms)) uvhttp__http_date_refresh(loop, now_ms);
    out = put_beginning(out, res->status, loop);
    if (res->content_type_size > 0) out = put_content_type(out, res);
    if (res->headers_size > 0) out = put(out, res->headers, res->headers_size);
    if (stream->chunked_out)
        out = PUT(out, "Transfer-Encoding: chunked\r\n");
    else if (length != UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status))
        out = put_length(out, length);
    else if (UNLIKELY(res->status == 205)) /* it has no body, but ends there only if that is said */
        out = put_length(out, 0);
    if (UNLIKELY(!stream->keep_alive))
        out = PUT(out, "Connection: close\r\n");
    else if (UNLIKELY(exchange->request.head.version == UVHTTP_HTTP_1_0))
        out = PUT(out, "Connection: keep-alive\r\n");
    return PUT(out, "\r\n");
}

/* Whether the connection can serve another request after this response. A server that drains still responds to what it
 * was sent. A streamed response may outlast the body of its request. */
static ALWAYS_INLINE void decide_keep_alive(uvhttp__http1_stream_t *stream) {
    uvhttp__session_t *session = stream->session;
    const uvhttp_response_t *res = &stream->exchange.response;
    bool drained = session->conn.loop->draining && !session->more && !uvhttp__stream_unread(&session->conn.stream);
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

/* Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_CLOSED. */
static NOINLINE int send_head(uvhttp__http1_stream_t *stream, uint64_t length) {
    uvhttp__stream_t *out = &stream->session->conn.stream;
    char *begin = uvhttp__loop_iteration_alloc(out->loop, head_max(&stream->exchange.response));
    if (!begin) return UVHTTP_E_NOMEM;
    char *end = write_head(stream, begin, length);
    uvhttp__loop_iteration_trim(out->loop, end);
    return uvhttp__stream_send_iteration(out, begin, (size_t)(end - begin));
}

/* --- interim responses --- */

int uvhttp__http1_interim(uvhttp__exchange_t *exchange, int status, uvhttp_str_t fields) {
    uvhttp__session_t *session = uvhttp__http1_stream_of(exchange)->session;
    uvhttp__stream_t *out = &session->conn.stream;
    uint64_t queue_max = uvhttp__session_config(session)->write_queue_max;
    if (uvhttp__stream_out_size(out) + HEAD_FIXED_MAX + fields.size > queue_max) return UVHTTP_E_LIMIT;
    char *begin = uvhttp__loop_iteration_alloc(out->loop, HEAD_FIXED_MAX + fields.size);
    if (!begin) return UVHTTP_E_NOMEM;
    char *end = begin + uvhttp__http1_write_status_line(begin, status);
    end = put(end, fields.data, fields.size);
    end = PUT(end, "\r\n");
    uvhttp__loop_iteration_trim(out->loop, end);
    int sent = uvhttp__stream_send_iteration(out, begin, (size_t)(end - begin));
    if (sent != UVHTTP_OK) return sent == UVHTTP_E_CLOSED ? UVHTTP_E_ABORTED : sent;
    uvhttp__counters_add(&session->conn.loop->counters, responses_1xx, 1);
    return UVHTTP_OK;
}

/* --- upgrades --- */

static NOINLINE void respond_upgrade(uvhttp__http1_stream_t *stream) {
    uvhttp__exchange_t *exchange = &stream->exchange;
    exchange->response.sent_size = 0;
    stream->keep_alive = true; /* "Connection: close" contradicts 101 */
    /* RFC 9110 section 7.8: 100 comes first, although there is no body. */
    if (exchange->request.head.expect_continue) uvhttp__session_send_continue(stream->session);
    int status = send_head(stream, exchange->response.body.size);
    if (status == UVHTTP_OK)
        uvhttp__http1_upgrade(stream);
    else
        uvhttp__http1_give_up(stream, status);
}

/* --- complete responses --- */

/* The body is one piece of memory, and the wire has capacity: nothing is left to be pulled. */
static void respond_by_reference(uvhttp__http1_stream_t *stream) {
    uvhttp__body_t *body = &stream->exchange.response.body;
    const uvhttp__keeper_t keeper = uvhttp__exchange_keep_body(&stream->exchange);
    body->kind = UVHTTP__BODY_NONE;
    stream->exchange.response.sent_size = body->size;
    int status = uvhttp__stream_send_ref(&stream->session->conn.stream, body->data, (size_t)body->size, keeper.release,
                                         keeper.arg);
    if (UNLIKELY(status != UVHTTP_OK)) {
        uvhttp__http1_cut_off(stream, status);
        return;
    }
    uvhttp__session_check_write_rate(stream->session);
    uvhttp__http1_done(stream);
}

/* The body is not where its head is. */
static NOINLINE void respond_body(uvhttp__http1_stream_t *stream) {
    if (stream->exchange.response.body.kind <= UVHTTP__BODY_REF &&
        uvhttp__stream_out_size(&stream->session->conn.stream) < UVHTTP__WIRE_FULL)
        respond_by_reference(stream);
    else if (uvhttp__exchange_open_body(&stream->exchange) == UVHTTP_OK)
        uvhttp__http1_finish(&stream->exchange);
    else
        uvhttp__http1_give_up(stream, UVHTTP_E_NOMEM);
}

UVHTTP__HOT void uvhttp__http1_respond(uvhttp__exchange_t *exchange) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    uvhttp_response_t *res = &exchange->response;
    uvhttp__stream_t *out = &stream->session->conn.stream;
    decide_keep_alive(stream);
    if (UNLIKELY(exchange->upgrade && res->status == 101)) {
        respond_upgrade(stream);
        return;
    }
    stream->chunked_out = false;
    uvhttp__body_t *body = &res->body;
    bool with_body = body->size > 0 && uvhttp__exchange_wants_body(exchange);
    bool copied = with_body && body->size <= UVHTTP__PIECE_COPY_MAX && body->kind < UVHTTP__BODY_FILE;
    res->sent_size = copied ? body->size : 0;
    char *begin = uvhttp__loop_iteration_alloc(out->loop, head_max(res) + (copied ? (size_t)body->size : 0));
    if (UNLIKELY(!begin)) {
        uvhttp__http1_give_up(stream, UVHTTP_E_NOMEM);
        return;
    }
    char *end = write_head(stream, begin, body->size);
    if (copied) end = put_body(end, body->data, (size_t)body->size);
    uvhttp__loop_iteration_trim(out->loop, end);
    int status = uvhttp__stream_send_iteration(out, begin, (size_t)(end - begin));
    if (UNLIKELY(status != UVHTTP_OK))
        uvhttp__http1_give_up(stream, status);
    else if (with_body && !copied)
        respond_body(stream);
    else
        uvhttp__http1_done(stream);
}

/* --- streamed responses --- */

int uvhttp__http1_begin(uvhttp__exchange_t *exchange, uint64_t size) {
    uvhttp__http1_stream_t *stream = uvhttp__http1_stream_of(exchange);
    const uvhttp_response_t *res = &exchange->response;
    decide_keep_alive(stream);
    bool unknown = size == UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status);
    stream->chunked_out = unknown && exchange->request.head.version == UVHTTP_HTTP_1_1;
    if (unknown && !stream->chunked_out && exchange->request.head.method != UVHTTP_HEAD) stream->keep_alive = false;
    int status = send_head(stream, size);
    return status == UVHTTP_E_CLOSED ? UVHTTP_E_ABORTED : status;
}
