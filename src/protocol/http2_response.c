/* Owns: responses of HTTP/2: their heads, complete bodies that leave at once, and what becomes of the others. */
#include <string.h>

#include "base/hot_path.h"
#include "base/load.h"
#include "http2/head_repeated.h"
#include "protocol/date.h"
#include "protocol/http2_connection.h"

static ALWAYS_INLINE uvhttp__http2_response_t head_of(const uvhttp__http2_carrier_t *carrier, uint64_t length) {
    const uvhttp__exchange_t *exchange = &carrier->exchange;
    const uvhttp_response_t *res = &exchange->response;
    uvhttp__http_loop_t *loop = exchange->loop;
    uint64_t now_ms = loop->tcp->io->now_ms;
    if (UNLIKELY(now_ms >= loop->date_until_ms)) uvhttp__http_date_refresh(loop, now_ms);
    bool sized = length != UVHTTP_SIZE_UNKNOWN && uvhttp__status_has_body(res->status);
    return (uvhttp__http2_response_t){.status = res->status,
                                      .content_type = {res->content_type, res->content_type_size},
                                      .fields = {res->headers, res->headers_size},
                                      .content_length = sized ? length : UVHTTP__HTTP2_LENGTH_NONE,
                                      .date = loop->date,
                                      .date_id = loop->date_until_ms};
}

/* Space for a head, followed by `more` bytes. */
static inline char *reserve_head(uvhttp__http2_connection_t *connection, const uvhttp__http2_response_t *head,
                                 size_t more) {
    size_t size = uvhttp__http2_headers_size(&connection->core, uvhttp__http2_response_size_max(head));
    return uvhttp__http2_wire_reserve(connection, size + more);
}

/* Returns the end of the head at `frame`. */
static inline char *write_head(uvhttp__http2_connection_t *connection, uvhttp__http2_stream_t *stream,
                               const uvhttp__http2_response_t *head, char *frame, bool end) {
    size_t block = uvhttp__http2_write_response(&connection->encoder, head, frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE);
    return frame + uvhttp__http2_write_headers(&connection->core, stream, frame, block, end);
}

/* Of a complete response: most repeat. */
static NOINLINE size_t write_new_block(uvhttp__http2_carrier_t *carrier, char *out) {
    const uvhttp__http2_response_t head = head_of(carrier, carrier->exchange.response.body.size);
    return uvhttp__http2_write_response(&carrier->connection->encoder, &head, out);
}

/* What a handler wants of the connection. */
static inline void close_if_asked(uvhttp__http2_carrier_t *carrier) {
    if (UNLIKELY(uvhttp__response_is(&carrier->exchange.response, UVHTTP__RESPONSE_CLOSE)))
        uvhttp__conn_drain_alone(carrier->connection->conn);
}

static inline void after_head(uvhttp__http2_carrier_t *carrier) {
    carrier->head_sent = true;
    carrier->owes_continue = false;
    close_if_asked(carrier);
}

/* The response cannot leave: the exchange is aborted, later. What stands in memory of the caller becomes a copy. */
static NOINLINE void give_up(uvhttp__http2_carrier_t *carrier, int code) {
    if (uvhttp__exchange_own(&carrier->exchange) != UVHTTP_OK) uvhttp__exchange_forget_head(&carrier->exchange);
    uvhttp__http2_carrier_cut(carrier, UVHTTP__HTTP2_INTERNAL_ERROR, code);
}

int uvhttp__http2_send_interim(uvhttp__http2_carrier_t *carrier, int status, uvhttp_str_t fields) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    const uvhttp__http2_response_t head = {
        .status = (uint16_t)status, .fields = fields, .content_length = UVHTTP__HTTP2_LENGTH_NONE};
    if (!uvhttp__http2_writable(carrier->stream) || carrier->head_sent) return UVHTTP_E_ABORTED;
    if (!uvhttp__http2_wire_section(connection, carrier->stream, &head, false)) return UVHTTP_E_NOMEM;
    uvhttp__counters_add(&connection->conn->loop->counters, responses_1xx, 1);
    return UVHTTP_OK;
}

/* --- complete responses --- */

/* A copy that waits for a window is the client's to take, and not everyone's to keep. One that has a window leaves, and
 * keeps new streams out until then. */
static void account_waiting(uvhttp__http2_carrier_t *carrier) {
    bool may_keep = uvhttp__http2_carrier_account(carrier);
    bool has_window = uvhttp__http2_capacity(&carrier->connection->core, carrier->stream) > 0;
    if (!may_keep && !has_window) uvhttp__http2_carrier_cut_greedy(carrier);
}

/* A body that does not leave now is pulled, as windows open. */
static NOINLINE void keep_body(uvhttp__http2_carrier_t *carrier) {
    uvhttp__exchange_t *exchange = &carrier->exchange;
    if (exchange->response.body.kind == UVHTTP__BODY_MEMORY)
        uvhttp__http2_carrier_set_copied(carrier, exchange->response.body.size);
    uvhttp__exchange_reserve(exchange, sizeof(uvhttp__outgoing_t));
    if (uvhttp__exchange_own(exchange) != UVHTTP_OK || uvhttp__exchange_open_body(exchange) != UVHTTP_OK) {
        give_up(carrier, UVHTTP_E_NOMEM);
        return;
    }
    uvhttp__http2_want(&carrier->connection->core, carrier->stream, true);
    uvhttp__http2_carrier_check_rate(carrier);
    uvhttp__http2_set_due(carrier->connection);
    account_waiting(carrier);
}

static_assert(UVHTTP__PIECE_COPY_MAX <= UVHTTP__HTTP2_SLICE_SIZE, "a body that is small is one DATA frame");

/* Whether there is a body that goes right behind the head, whole. */
static inline bool is_immediate(const uvhttp__http2_t *core, const uvhttp__http2_stream_t *stream,
                                const uvhttp__body_t *body) {
    bool small = body->size - 1 < UVHTTP__PIECE_COPY_MAX && body->kind < UVHTTP__BODY_FILE;
    return small && (int64_t)body->size <= stream->send_window && (int64_t)body->size <= core->send_window;
}

/* Most small bodies have 8 to 16 bytes. Of others the size is read from memory: if the compiler knew that it is small
 * it would copy with an instruction that takes long to start. */
static ALWAYS_INLINE void copy_body(char *out, const uvhttp__body_t *body) {
    const char *data = body->data;
    size_t size = (size_t)body->size;
    if (LIKELY(size - 8 <= 8)) {
        uint64_t first = uvhttp__load64(data), last = uvhttp__load64(data + size - 8);
        memcpy(out, &first, sizeof first);
        memcpy(out + size - 8, &last, sizeof last);
    } else {
        memcpy(out, data, size);
    }
}

static inline char *write_body(uvhttp__http2_t *core, uvhttp__http2_stream_t *stream, char *at,
                               const uvhttp__body_t *body, size_t size) {
    uvhttp__http2_write_data(core, stream, at, (uint32_t)size, true);
    copy_body(at + UVHTTP__HTTP2_FRAME_HEAD_SIZE, body);
    return at + UVHTTP__HTTP2_FRAME_HEAD_SIZE + size;
}

/* RFC 8441 section 5: what is 101 over HTTP/1.1 is 200. */
static NOINLINE void respond_upgrade(uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp_response_t *res = &carrier->exchange.response;
    uvhttp__http2_tunnel_t *tunnel = uvhttp__http2_tunnel_new(carrier);
    if (!tunnel) {
        give_up(carrier, UVHTTP_E_NOMEM);
        return;
    }
    res->status = 200;
    res->sent_size = 0;
    const uvhttp__http2_response_t head = head_of(carrier, UVHTTP_SIZE_UNKNOWN);
    char *frame = reserve_head(connection, &head, 0);
    if (frame) uvhttp__http2_wire_commit(connection, write_head(connection, carrier->stream, &head, frame, false));
    uvhttp__http2_tunnel_open(tunnel, carrier);
}

/* The stream takes no frames any more, or they are not those of a complete response. */
static NOINLINE void respond_otherwise(uvhttp__http2_carrier_t *carrier) {
    if (uvhttp__http2_writable(carrier->stream) && carrier->connects && carrier->exchange.upgrade)
        respond_upgrade(carrier);
    else
        give_up(carrier, UVHTTP_E_ABORTED);
}

/* There is no body, or it does not go right behind the head. */
static NOINLINE void respond_head(uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp_response_t *res = &carrier->exchange.response;
    bool with_body = res->body.size > 0 && uvhttp__exchange_wants_body(&carrier->exchange);
    res->sent_size = 0;
    const uvhttp__http2_response_t head = head_of(carrier, res->body.size);
    char *frame = reserve_head(connection, &head, 0);
    if (UNLIKELY(!frame)) {
        give_up(carrier, UVHTTP_E_NOMEM);
        return;
    }
    uvhttp__http2_wire_commit(connection, write_head(connection, carrier->stream, &head, frame, !with_body));
    after_head(carrier);
    if (with_body)
        keep_body(carrier);
    else
        uvhttp__http2_carrier_finish(carrier);
}

UVHTTP__HOT void uvhttp__http2_respond(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp__http2_stream_t *stream = carrier->stream;
    uvhttp_response_t *res = &exchange->response;
    const uvhttp__body_t *body = &res->body;
    carrier->responded = true;
    if (UNLIKELY(!uvhttp__http2_writable(stream) || res->status < 200)) {
        respond_otherwise(carrier);
        return;
    }
    if (UNLIKELY(!is_immediate(&connection->core, stream, body) || !uvhttp__exchange_wants_body(exchange))) {
        respond_head(carrier);
        return;
    }
    size_t size = (size_t)body->size;
    res->sent_size = size;
    const uvhttp__http2_response_t head = head_of(carrier, size);
    char *frame = reserve_head(connection, &head, UVHTTP__HTTP2_FRAME_HEAD_SIZE + size);
    if (UNLIKELY(!frame)) {
        give_up(carrier, UVHTTP_E_NOMEM);
        return;
    }
    char *block = frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    size_t block_size;
    if (UNLIKELY(!uvhttp__http2_repeat_response(&connection->encoder, &head, block, &block_size)))
        block_size = write_new_block(carrier, block);
    char *at = frame + uvhttp__http2_write_headers(&connection->core, stream, frame, block_size, false);
    uvhttp__http2_wire_commit(connection, write_body(&connection->core, stream, at, body, size));
    close_if_asked(carrier);
    uvhttp__http2_carrier_finish(carrier);
}

/* --- streamed responses --- */

int uvhttp__http2_begin(uvhttp__exchange_t *exchange, uint64_t size) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    if (!uvhttp__http2_writable(carrier->stream)) return UVHTTP_E_ABORTED;
    const uvhttp__http2_response_t head = head_of(carrier, size);
    char *frame = reserve_head(carrier->connection, &head, 0);
    if (!frame) return UVHTTP_E_NOMEM;
    char *end = write_head(carrier->connection, carrier->stream, &head, frame, !uvhttp__exchange_wants_body(exchange));
    uvhttp__http2_wire_commit(carrier->connection, end);
    after_head(carrier);
    return UVHTTP_OK;
}

/* What has come is pulled when the iteration ends: small pieces become one frame. */
int uvhttp__http2_body_ready(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    const uvhttp__outgoing_t *outgoing = exchange->outgoing;
    if (!uvhttp__http2_writable(carrier->stream))
        return carrier->stream->flags & UVHTTP__HTTP2_RESET ? UVHTTP_E_ABORTED : UVHTTP_OK;
    if (uvhttp__outgoing_is_over(outgoing)) {
        uvhttp__http2_send_end(carrier);
        return UVHTTP_OK;
    }
    uvhttp__http2_want(&carrier->connection->core, carrier->stream, true);
    uvhttp__http2_carrier_check_rate(carrier);
    uvhttp__http2_set_due(carrier->connection);
    if (outgoing->size > UVHTTP__PIECE_COPY_MAX) carrier->wants_writable = true;
    if (!carrier->responded) uvhttp__http2_carrier_set_copied(carrier, outgoing->size); /* else it is known */
    account_waiting(carrier);
    return UVHTTP_OK;
}

void uvhttp__http2_finish(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    carrier->responded = true;
    close_if_asked(carrier); /* it may have been asked behind the head */
    if (carrier->stream->flags & UVHTTP__HTTP2_LOCAL_ENDED)
        uvhttp__http2_carrier_finish(carrier);
    else if (uvhttp__exchange_own(exchange) != UVHTTP_OK)
        give_up(carrier, UVHTTP_E_NOMEM);
}
