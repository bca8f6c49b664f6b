/* Owns: the table of functions by which exchanges use HTTP/2, and those of them that are of no other file. */
#include <string.h>

#include "protocol/http2_connection.h"

/* What was pulled is the connection's, of which there is little. */
static uint64_t queued(const uvhttp__exchange_t *exchange) {
    (void)exchange;
    return 0;
}

static int interim(uvhttp__exchange_t *exchange, int status, uvhttp_str_t fields) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    uint64_t queue_max = uvhttp__http2_config(carrier->connection)->write_queue_max;
    if (uvhttp__http2_wire_size(carrier->connection) + fields.size > queue_max) return UVHTTP_E_LIMIT;
    return uvhttp__http2_send_interim(carrier, status, fields);
}

static void notify_writable(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    carrier->wants_writable = true;
    if (uvhttp__http2_carrier_left(carrier) == 0) uvhttp__http2_carrier_set_due(carrier, UVHTTP__HTTP2_DUE_WRITABLE);
}

static void want_body(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    if (carrier->owes_continue) (void)uvhttp__http2_send_interim(carrier, 100, (uvhttp_str_t){NULL, 0});
    carrier->owes_continue = false;
    const uvhttp__http2_inbound_t *inbound = carrier->inbound;
    if (inbound && (inbound->held.size > 0 || (carrier->ended_in && carrier->body_open)))
        uvhttp__http2_carrier_set_due(carrier, UVHTTP__HTTP2_DUE_BODY);
}

static void set_deadline(uvhttp__exchange_t *exchange, uint64_t at_ms) {
    uvhttp__http2_carrier_set_deadline(uvhttp__http2_carrier_of(exchange), at_ms);
}

/* The error code that the client receives. */
static uvhttp__http2_error_t error_of(int code) {
    switch (code) {
        case UVHTTP_E_HTTP_TIMEOUT:
        case UVHTTP_E_TIMEOUT: return UVHTTP__HTTP2_CANCEL;
        default: return UVHTTP__HTTP2_INTERNAL_ERROR;
    }
}

static void reset(uvhttp__exchange_t *exchange, int code) {
    uvhttp__http2_carrier_cut(uvhttp__http2_carrier_of(exchange), error_of(code), code);
}

/* The request line of another exchange, and nothing else of its head. */
static int copy_line(uvhttp_request_t *to, uvhttp__arena_t *arena, const uvhttp_request_t *from) {
    const uvhttp__head_t *head = &from->head;
    char *text = uvhttp__arena_alloc_uncounted(arena, head->method_text.size + head->target.size + 1, 1);
    if (!text) return UVHTTP_E_NOMEM;
    uint32_t at = head->method_text.size;
    memcpy(text, from->base + head->method_text.offset, at);
    memcpy(text + at, from->base + head->target.offset, head->target.size);
    to->base = text;
    to->head.method_text = (uvhttp__span_t){0, at};
    to->head.target = (uvhttp__span_t){at, head->target.size};
    to->head.path = (uvhttp__span_t){at + head->path.offset - head->target.offset, head->path.size};
    to->head.query = (uvhttp__span_t){at + head->query.offset - head->target.offset, head->query.size};
    to->head.path_plain = head->path_plain;
    to->head.size = at + head->target.size;
    if (to->head.path.size > 0 && uvhttp__request_decode_path(to) != UVHTTP_OK) to->head.path.size = 0;
    return UVHTTP_OK;
}

static uvhttp__exchange_t *replace(uvhttp__exchange_t *exchange) {
    uvhttp__http2_carrier_t *old = uvhttp__http2_carrier_of(exchange);
    uvhttp__http2_carrier_t *made = uvhttp__http2_carrier_new(old->connection, old->stream);
    if (!made) return NULL;
    uvhttp__exchange_forget_head(&made->exchange);
    made->exchange.request.head.method = exchange->request.head.method;
    made->exchange.request.head.version = UVHTTP_HTTP_2;
    (void)copy_line(&made->exchange.request, &made->exchange.arena, &exchange->request);
    made->ended_in = old->ended_in;
    made->head_sent = old->head_sent;
    uvhttp__exchange_orphan(exchange, old->connection->orphans);
    uvhttp__http2_count_orphans(old->connection);
    uvhttp__http2_carrier_leave(old);
    return &made->exchange;
}

static bool is_open(const uvhttp__exchange_t *exchange) {
    const uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_of(exchange);
    return carrier->stream && !(carrier->stream->flags & UVHTTP__HTTP2_RESET) &&
           !(carrier->connection->conn->flags & UVHTTP__CONN_CLOSED);
}

static bool drains(const uvhttp__exchange_t *exchange) {
    return uvhttp__conn_drains(uvhttp__http2_carrier_of(exchange)->connection->conn);
}

static uvhttp__conn_t *connection_of(const uvhttp__exchange_t *exchange) {
    return uvhttp__http2_carrier_of(exchange)->connection->conn;
}

static uvhttp__orphans_t *orphans_of(const uvhttp__exchange_t *exchange) {
    return uvhttp__http2_carrier_of(exchange)->connection->orphans;
}

const uvhttp__protocol_t uvhttp__http2_protocol = {
    .respond = uvhttp__http2_respond,
    .begin = uvhttp__http2_begin,
    .interim = interim,
    .body_ready = uvhttp__http2_body_ready,
    .finish = uvhttp__http2_finish,
    .queued = queued,
    .notify_writable = notify_writable,
    .want_body = want_body,
    .set_deadline = set_deadline,
    .reset = reset,
    .replace = replace,
    .is_open = is_open,
    .drains = drains,
    .connection = connection_of,
    .orphans = orphans_of,
    .offset = offsetof(uvhttp__http2_carrier_t, exchange),
    .framing = {.head_size = UVHTTP__HTTP2_FRAME_HEAD_SIZE, .payload_max = UVHTTP__HTTP2_RECORD_PAYLOAD}};
