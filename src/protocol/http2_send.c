/* Owns: bodies of responses on their way to the wire: which stream is next is the core's to say. */
#include "base/hot_path.h"
#include "protocol/http2_connection.h"

/* The last of the response is on the wire, or what is left needs no window. */
static void send_trailers(uvhttp__http2_carrier_t *carrier) {
    const uvhttp__trailers_t *trailers = carrier->exchange.response.trailers;
    const uvhttp__http2_response_t section = {
        .status = 0, .fields = {trailers->text, trailers->size}, .content_length = UVHTTP__HTTP2_LENGTH_NONE};
    (void)uvhttp__http2_wire_section(carrier->connection, carrier->stream, &section, true);
}

static bool has_trailers(const uvhttp__http2_carrier_t *carrier) {
    const uvhttp__trailers_t *trailers = carrier->exchange.response.trailers;
    return trailers && trailers->size > 0;
}

void uvhttp__http2_send_end(uvhttp__http2_carrier_t *carrier) {
    if (!uvhttp__http2_writable(carrier->stream)) return;
    if (uvhttp__response_is(&carrier->exchange.response, UVHTTP__RESPONSE_MISSIZED))
        uvhttp__http2_carrier_cut(carrier, UVHTTP__HTTP2_INTERNAL_ERROR, UVHTTP_E_ABORTED);
    else if (has_trailers(carrier))
        send_trailers(carrier);
    else
        uvhttp__http2_wire_end(carrier->connection, carrier->stream);
}

/* Whether END_STREAM goes with the last byte of the body. */
static bool ends_with_data(const uvhttp__http2_carrier_t *carrier) {
    const uvhttp__outgoing_t *outgoing = carrier->exchange.outgoing;
    return uvhttp__outgoing_is_over(outgoing) && !has_trailers(carrier) &&
           !uvhttp__response_is(&carrier->exchange.response, UVHTTP__RESPONSE_MISSIZED);
}

/* There is nothing to be pulled now. */
static void after_last_piece(uvhttp__http2_carrier_t *carrier) {
    const uvhttp__outgoing_t *outgoing = carrier->exchange.outgoing;
    if (!carrier->responded) carrier->copied = 0;
    (void)uvhttp__http2_carrier_account(carrier);
    if (uvhttp__http2_writable(carrier->stream)) uvhttp__http2_want(&carrier->connection->core, carrier->stream, false);
    if (outgoing->ended) uvhttp__http2_send_end(carrier);
    if (carrier->due & UVHTTP__HTTP2_DUE_CUT) return;
    if (carrier->responded && (carrier->stream->flags & UVHTTP__HTTP2_LOCAL_ENDED))
        uvhttp__http2_carrier_finish(carrier);
    else if (carrier->wants_writable)
        uvhttp__http2_carrier_set_due(carrier, UVHTTP__HTTP2_DUE_WRITABLE);
}

/* At most `size` bytes of one body. */
static void send_piece(uvhttp__http2_carrier_t *carrier, uint32_t size) {
    uvhttp__outgoing_t *outgoing = carrier->exchange.outgoing;
    uvhttp__piece_t piece;
    uvhttp__keeper_t keeper;
    int status = uvhttp__outgoing_peek(outgoing, false, &piece);
    if (status == UVHTTP_OK && piece.size > size) piece.size = size;
    if (status == UVHTTP_OK) status = uvhttp__outgoing_consume(outgoing, piece.size, &keeper);
    if (status == UVHTTP_E_AGAIN && outgoing->size > 0) {
        uvhttp__http2_want(&carrier->connection->core, carrier->stream, false); /* body_ready follows */
    } else if (status == UVHTTP_E_AGAIN || status == UVHTTP_E_EOF) {
        after_last_piece(carrier);
    } else if (status != UVHTTP_OK) {
        uvhttp__http2_carrier_cut(carrier, UVHTTP__HTTP2_INTERNAL_ERROR, status);
    } else {
        carrier->exchange.response.sent_size += piece.size;
        bool written =
            uvhttp__http2_wire_data(carrier->connection, carrier->stream, &piece, keeper, ends_with_data(carrier));
        if (written && outgoing->size == 0) after_last_piece(carrier);
    }
}

void uvhttp__http2_send_bodies(uvhttp__http2_connection_t *connection) {
    uvhttp__http2_stream_t *stream;
    uint32_t size;
    bool encodes = uvhttp__stream_encodes(&connection->conn->stream);
    while (uvhttp__http2_wire_size(connection) < UVHTTP__HTTP2_WIRE_MAX) {
        stream = uvhttp__http2_next(&connection->core, &size);
        if (!stream) return;
        if (connection->conn->flags & UVHTTP__CONN_CLOSED) return;
        if (encodes && size > UVHTTP__HTTP2_RECORD_PAYLOAD) size = UVHTTP__HTTP2_RECORD_PAYLOAD;
        if (UNLIKELY(stream->flags & UVHTTP__HTTP2_TUNNEL))
            uvhttp__http2_tunnel_send(stream->user, size);
        else
            send_piece(stream->user, size);
    }
    uvhttp__stream_notify_sent(&connection->conn->stream);
}
