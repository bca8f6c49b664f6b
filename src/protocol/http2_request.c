/* Owns: what arrives on the streams of a connection: heads become exchanges, which receive bodies as they consume them.
 * The rest is held, within the windows. */
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "exchange/measure.h"
#include "protocol/http2_connection.h"

static uvhttp__counters_t *counters_of(const uvhttp__http2_connection_t *connection) {
    return &connection->conn->loop->counters;
}

/* What makes the connection unusable. */
static int fail_decoding(uvhttp__http2_connection_t *connection, int code) {
    uvhttp__counters_error(counters_of(connection), code);
    return uvhttp__http2_fail(&connection->core,
                              code == UVHTTP_E_NOMEM ? UVHTTP__HTTP2_INTERNAL_ERROR : UVHTTP__HTTP2_COMPRESSION_ERROR);
}

/* A header block that nobody wants is decoded for the table's sake. Returns 0 or a code: the connection fails. */
static int skip_block(uvhttp__http2_connection_t *connection, uvhttp_str_t block) {
    if (block.size == 0) return UVHTTP_OK;
    int code = uvhttp__http2_skip_block(&connection->decoder, block.data, block.size, connection->of_loop->scratch);
    return code == UVHTTP_OK ? UVHTTP_OK : fail_decoding(connection, code);
}

/* --- bodies --- */

/* Returns false if what was kept last is too much: the stream ends. */
static bool may_keep(uvhttp__http2_carrier_t *carrier) {
    if (LIKELY(uvhttp__http2_carrier_account(carrier))) return true;
    uvhttp__http2_carrier_cut_greedy(carrier);
    return false;
}

/* The next piece for the exchange, which may respond in the call, and be gone. Returns whether it is still there and
 * has not responded. */
static bool give_piece(uvhttp__http2_carrier_t *carrier, const char *data, size_t size, bool last) {
    uvhttp__http2_stream_t *stream = carrier->stream;
    uint32_t id = stream->id;
    if (last) carrier->body_open = false;
    if (size > 0) uvhttp__http2_consume(&carrier->connection->core, stream, size);
    uvhttp__exchange_data(&carrier->exchange, data, size, last);
    if (!uvhttp__http2_carrier_is_at(carrier, stream, id) || carrier->responded) return false;
    return may_keep(carrier);
}

static size_t piece_size(const uvhttp__http2_carrier_t *carrier, size_t size) {
    size_t max = uvhttp__exchange_piece_max(&carrier->exchange);
    return size < max ? size : max;
}

/* The end of a request that has trailers, or whose last bytes were given without saying so. */
static void give_end(uvhttp__http2_carrier_t *carrier) {
    uvhttp_str_t trailer = carrier->inbound->trailer;
    int status = UVHTTP_OK;
    if (trailer.data) status = uvhttp__exchange_trailer(&carrier->exchange, trailer.data, trailer.size);
    if (status == UVHTTP_OK)
        (void)give_piece(carrier, NULL, 0, true);
    else
        uvhttp__exchange_refuse(&carrier->exchange, status);
}

void uvhttp__http2_give_held(uvhttp__http2_carrier_t *carrier) {
    uvhttp__http2_held_t *held = &carrier->inbound->held;
    while (held->size > 0) {
        if (carrier->responded || !uvhttp__exchange_is_receiving(&carrier->exchange)) return;
        size_t size = piece_size(carrier, held->size);
        const char *data = held->data + held->at;
        bool last = size == held->size && carrier->ended_in && !carrier->inbound->trailer.data;
        held->at += (uint32_t)size;
        held->size -= (uint32_t)size;
        if (!give_piece(carrier, data, size, last)) return;
    }
    uvhttp__free(held->data);
    *held = (uvhttp__http2_held_t){NULL, 0, 0, 0};
    if (carrier->ended_in && carrier->body_open && !carrier->responded &&
        uvhttp__exchange_is_receiving(&carrier->exchange))
        give_end(carrier);
}

/* Bytes that have just come; nothing is held. */
static void give(uvhttp__http2_carrier_t *carrier, const char *data, size_t size, bool last) {
    do {
        if (!uvhttp__exchange_is_receiving(&carrier->exchange)) {
            if (uvhttp__http2_hold(&carrier->inbound->held, data, size) != UVHTTP_OK)
                uvhttp__exchange_refuse(&carrier->exchange, UVHTTP_E_NOMEM);
            else
                (void)may_keep(carrier);
            return;
        }
        size_t piece = piece_size(carrier, size);
        if (!give_piece(carrier, data, piece, last && piece == size)) return;
        data += piece;
        size -= piece;
    } while (size > 0);
}

/* The tunnel is not open yet. */
static void hold_for_tunnel(uvhttp__http2_carrier_t *carrier, uvhttp_str_t data) {
    if (uvhttp__http2_hold(&carrier->inbound->held, data.data, data.size) == UVHTTP_OK)
        (void)may_keep(carrier);
    else
        uvhttp__exchange_refuse(&carrier->exchange, UVHTTP_E_NOMEM);
}

/* The response was complete before. */
static void on_lingering_data(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    uvhttp__http2_discard(&connection->core, event->stream, event->data.size);
    if (event->end) uvhttp__http2_release(&connection->core, event->stream);
}

static void on_data(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    uvhttp__http2_carrier_t *carrier = event->stream->user;
    uvhttp_str_t data = event->data;
    if (UNLIKELY(event->stream->flags & UVHTTP__HTTP2_TUNNEL)) {
        uvhttp__http2_tunnel_data(event->stream->user, data, event->end);
        return;
    }
    if (UNLIKELY(!carrier)) {
        on_lingering_data(connection, event);
        return;
    }
    if (event->end) carrier->ended_in = true;
    if (UNLIKELY(carrier->connects) && !carrier->responded) {
        hold_for_tunnel(carrier, data);
        return;
    }
    if (carrier->responded || !carrier->body_open) {
        uvhttp__http2_consume(&connection->core, event->stream, data.size);
        return;
    }
    carrier->owes_continue = false;
    if (carrier->inbound->held.size == 0) {
        if (data.size > 0 || event->end) give(carrier, data.data, data.size, event->end);
    } else if (uvhttp__http2_hold(&carrier->inbound->held, data.data, data.size) != UVHTTP_OK) {
        uvhttp__exchange_refuse(&carrier->exchange, UVHTTP_E_NOMEM);
    } else {
        (void)may_keep(carrier);
    }
}

/* --- trailers --- */

static void reset_malformed(uvhttp__http2_carrier_t *carrier, int code) {
    uvhttp__counters_error(counters_of(carrier->connection), code);
    uvhttp__http2_reset(&carrier->connection->core, carrier->stream, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_carrier_abort(carrier, UVHTTP_E_ABORTED);
}

static bool keep_trailer(uvhttp__http2_carrier_t *carrier, uvhttp_str_t text) {
    char *copy = text.size > 0 ? uvhttp__malloc(text.size) : NULL;
    if (text.size > 0 && !copy) return false;
    if (copy) memcpy(copy, text.data, text.size);
    carrier->inbound->trailer = (uvhttp_str_t){copy, text.size};
    return true;
}

static int on_trailers(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    uvhttp__http2_loop_t *of_loop = connection->of_loop;
    uvhttp__http2_carrier_t *carrier = event->stream->user;
    uvhttp_str_t text;
    int code = uvhttp__http2_read_trailer(&connection->decoder, event->data.data, event->data.size,
                                          &of_loop->head_limits, of_loop->scratch, &text);
    if (code != UVHTTP_OK && uvhttp__http2_scope(code) == UVHTTP__HTTP2_SCOPE_CONNECTION)
        return fail_decoding(connection, code);
    if (event->stream->flags & UVHTTP__HTTP2_TUNNEL) { /* RFC 9113 section 8.5: DATA only */
        uvhttp__http2_tunnel_cut(event->stream->user, UVHTTP__HTTP2_PROTOCOL_ERROR, UVHTTP_E_HTTP2_PROTOCOL);
        return UVHTTP_OK;
    }
    if (UNLIKELY(!carrier)) {
        uvhttp__http2_release(&connection->core, event->stream); /* it has lingered */
        return UVHTTP_OK;
    }
    if (UNLIKELY(carrier->connects) && !carrier->responded) { /* it may become one: the same */
        reset_malformed(carrier, UVHTTP_E_HTTP2_PROTOCOL);
        return UVHTTP_OK;
    }
    if (carrier->responded || !carrier->body_open) return UVHTTP_OK;
    carrier->ended_in = true;
    if (code != UVHTTP_OK && uvhttp__http2_scope(code) == UVHTTP__HTTP2_SCOPE_STREAM)
        reset_malformed(carrier, code);
    else if (code != UVHTTP_OK)
        uvhttp__exchange_refuse(&carrier->exchange, code);
    else if (!keep_trailer(carrier, text))
        uvhttp__exchange_refuse(&carrier->exchange, UVHTTP_E_NOMEM);
    else
        uvhttp__http2_give_held(carrier);
    return UVHTTP_OK;
}

/* --- heads --- */

/* No exchange comes of the request. */
static void drop(uvhttp__http2_carrier_t *carrier, uvhttp__http2_error_t error) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    uvhttp__http2_stream_t *stream = carrier->stream;
    stream->user = NULL;
    uvhttp__http2_carrier_leave(carrier);
    uvhttp__exchange_release(&carrier->exchange);
    uvhttp__http2_reset(&connection->core, stream, error);
    uvhttp__http2_release(&connection->core, stream);
}

/* The same of one that was counted, and has no route yet. */
static void drop_request(uvhttp__http2_carrier_t *carrier) {
    carrier->exchange.cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
    uvhttp__exchange_measure_abort(&carrier->exchange, UVHTTP_E_NOMEM);
    carrier->connection->of_loop->counters.streams_refused++;
    drop(carrier, UVHTTP__HTTP2_REFUSED_STREAM);
}

/* A head that was read, but is not served. */
static void refuse_head(uvhttp__http2_carrier_t *carrier, int code) {
    uvhttp__exchange_t *exchange = &carrier->exchange;
    uvhttp_request_t *req = &exchange->request;
    req->base = carrier->connection->of_loop->scratch;
    exchange->borrowed = true;
    exchange->cursor = (uvhttp__middleware_cursor_t){.chain = NULL};
    uvhttp__counters_add(counters_of(carrier->connection), requests_faulty_head, 1);
    if (req->head.path.size > 0 && uvhttp__request_decode_path(req) != UVHTTP_OK) req->head.path.size = 0;
    uvhttp__exchange_refuse(exchange, code);
}

static int on_faulty_head(uvhttp__http2_carrier_t *carrier, int code) {
    uvhttp__http2_connection_t *connection = carrier->connection;
    switch (uvhttp__http2_scope(code)) {
        case UVHTTP__HTTP2_SCOPE_RESPONSE: refuse_head(carrier, code); return UVHTTP_OK;
        case UVHTTP__HTTP2_SCOPE_STREAM:
            uvhttp__counters_error(counters_of(connection), code);
            drop(carrier, UVHTTP__HTTP2_PROTOCOL_ERROR);
            return UVHTTP_OK;
        case UVHTTP__HTTP2_SCOPE_CONNECTION: break;
    }
    int failure = fail_decoding(connection, code); /* first: then GOAWAY is all that is sent */
    drop(carrier, UVHTTP__HTTP2_INTERNAL_ERROR);
    return failure;
}

/* Streams are numbered by the client, and a connection may have a limit of requests: what follows needs another one. */
static inline bool is_last(const uvhttp__http2_connection_t *connection, const uvhttp__tcp_loop_t *tcp) {
    const uvhttp__http_loop_t *loop = tcp->user;
    uint32_t requests_max = loop->service->config.keepalive_requests_max;
    return (requests_max > 0 && connection->request_count >= requests_max) ||
           connection->core.last_stream_id > UVHTTP__HTTP2_STREAM_ID_MAX - 2000;
}

/* What the request makes the connection keep. */
static inline bool charge(uvhttp__http2_connection_t *connection, uvhttp__http2_carrier_t *carrier) {
    const uvhttp__head_t *head = &carrier->exchange.request.head;
    uint32_t size = (uint32_t)(sizeof *carrier + head->header_count * sizeof(uvhttp__field_t)) + head->size;
    const uvhttp__http2_limits_t *limits = connection->core.limits;
    if (UNLIKELY(connection->kept > 0) && uvhttp__http2_memory(connection) + size > limits->connection_memory_max) {
        connection->of_loop->counters.memory_exceeded++;
        return false;
    }
    if (uvhttp__http2_charge(&connection->core, size) != UVHTTP_OK) return false;
    carrier->charged = size;
    return true;
}

static NOINLINE void start_body(uvhttp__http2_carrier_t *carrier) {
    if (uvhttp__http2_carrier_expect(carrier) != UVHTTP_OK) {
        drop_request(carrier);
        return;
    }
    carrier->body_open = true;
    carrier->owes_continue = carrier->exchange.request.head.expect_continue;
    uvhttp__exchange_run_with_body(&carrier->exchange, false);
}

static inline void start(uvhttp__http2_connection_t *connection, const char *base, uvhttp__http2_carrier_t *carrier,
                         const uvhttp__http2_request_t *request, bool end) {
    uvhttp__exchange_t *exchange = &carrier->exchange;
    const uvhttp__head_t *head = &exchange->request.head;
    uvhttp__tcp_loop_t *tcp = connection->conn->loop;
    exchange->request.base = base;
    exchange->borrowed = true;
    if (UNLIKELY(request->priority.size > 0))
        uvhttp__http2_set_priority(&connection->core, carrier->stream,
                                   uvhttp__http2_parse_priority(uvhttp__span_str(base, request->priority)));
    if (head->has_content_length &&
        uvhttp__http2_set_content_length(&connection->core, carrier->stream, head->content_length) != UVHTTP_OK) {
        drop(carrier, UVHTTP__HTTP2_PROTOCOL_ERROR);
        return;
    }
    if (UNLIKELY(!charge(connection, carrier))) {
        drop(carrier, UVHTTP__HTTP2_REFUSED_STREAM);
        return;
    }
    uvhttp__counters_add(&tcp->counters, requests, 1);
    connection->request_count++;
    if (UNLIKELY(is_last(connection, tcp))) uvhttp__conn_drain_alone(connection->conn);
    if (UNLIKELY(request->extended_connect)) {
        if (uvhttp__http2_carrier_expect(carrier) != UVHTTP_OK ||
            uvhttp__http2_accept_connect(carrier, uvhttp__span_str(base, request->protocol)) != UVHTTP_OK)
            drop_request(carrier);
        else if (uvhttp__exchange_run(exchange))
            uvhttp__http2_respond(exchange);
        return;
    }
    if (UNLIKELY(!end))
        start_body(carrier);
    else if (LIKELY(uvhttp__exchange_run(exchange)))
        uvhttp__http2_respond(exchange);
}

static ALWAYS_INLINE int on_headers(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    uvhttp__http2_loop_t *of_loop = connection->of_loop;
    uvhttp__http2_carrier_t *carrier = uvhttp__http2_carrier_new(connection, event->stream);
    if (UNLIKELY(!carrier)) {
        of_loop->counters.streams_refused++;
        uvhttp__http2_reset(&connection->core, event->stream, UVHTTP__HTTP2_REFUSED_STREAM);
        uvhttp__http2_release(&connection->core, event->stream);
        return skip_block(connection, event->data);
    }
    if (LIKELY(event->end)) carrier->ended_in = true;
    uvhttp__http2_request_t request;
    uvhttp__head_t *head = &carrier->exchange.request.head;
    int code = uvhttp__http2_read_request(&connection->decoder, event->data.data, event->data.size,
                                          &of_loop->head_limits, of_loop->scratch, head, &request);
    if (UNLIKELY(code != UVHTTP_OK)) return on_faulty_head(carrier, code);
    start(connection, of_loop->scratch, carrier, &request, event->end);
    return UVHTTP_OK;
}

/* --- events --- */

static int on_reset(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    uvhttp__http2_carrier_t *carrier = event->stream->user;
    if (event->stream->flags & UVHTTP__HTTP2_TUNNEL)
        uvhttp__http2_tunnel_abort(event->stream->user, UVHTTP_E_ABORTED);
    else if (carrier)
        uvhttp__http2_carrier_abort(carrier, UVHTTP_E_ABORTED);
    else
        uvhttp__http2_release(&connection->core, event->stream);
    return skip_block(connection, event->data);
}

static NOINLINE int on_other(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    switch (event->type) {
        case UVHTTP__HTTP2_EVENT_TRAILERS: return on_trailers(connection, event);
        case UVHTTP__HTTP2_EVENT_DATA: on_data(connection, event); break;
        case UVHTTP__HTTP2_EVENT_RESET: return on_reset(connection, event);
        case UVHTTP__HTTP2_EVENT_DISCARD: return skip_block(connection, event->data);
        case UVHTTP__HTTP2_EVENT_SETTINGS:
            uvhttp__hpack_encoder_set_limit(&connection->encoder, connection->core.peer_header_table_lowest);
            uvhttp__hpack_encoder_set_limit(&connection->encoder, connection->core.peer_header_table_size);
            break;
        case UVHTTP__HTTP2_EVENT_SETTINGS_ACKED:
            uvhttp__hpack_decoder_set_limit(&connection->decoder, connection->of_loop->limits.header_table_size);
            break;
        default: break;
    }
    return UVHTTP_OK;
}

UVHTTP__HOT int uvhttp__http2_on_event(uvhttp__http2_connection_t *connection, const uvhttp__http2_event_t *event) {
    return LIKELY(event->type == UVHTTP__HTTP2_EVENT_HEADERS) ? on_headers(connection, event)
                                                              : on_other(connection, event);
}
