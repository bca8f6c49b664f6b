/* Owns: windows of both directions (RFC 9113 section 5.2, 6.9). May include: base.
 *
 * Credit goes back when bytes are consumed, not when they come, and from a part of a window on that fits into it a
 * whole number of times: else a client at a distance would wait for the rest. A stream's step is a quarter: in larger
 * ones a client that has used up its window finds less of it returned when it looks, and so stops more often. A step is
 * returned when the loop iteration ends: nothing leaves earlier, and what else is consumed meanwhile needs no frame of
 * its own. */
#include "http2/http2_internal.h"

static void return_credit(uvhttp__http2_t *http2, uint32_t id, int32_t *window, uint32_t *consumed) {
    *window += (int32_t)*consumed;
    uvhttp__http2_control_number(http2, UVHTTP__HTTP2_WINDOW_UPDATE, id, *consumed);
    *consumed = 0;
}

static void return_connection_credit(uvhttp__http2_t *http2) {
    return_credit(http2, 0, &http2->receive_window, &http2->consumed);
}

void uvhttp__http2_consume_connection(uvhttp__http2_t *http2, size_t size) {
    http2->consumed += (uint32_t)size;
    if (UNLIKELY(http2->consumed >= http2->limits->connection_window / 2)) return_connection_credit(http2);
}

/* Until the peer has acknowledged our SETTINGS it may know the default only, and must not wait for more than that. */
static uint32_t window_of_streams(const uvhttp__http2_t *http2) {
    uint32_t window = http2->limits->stream_window;
    return http2->settings_acked || window < UVHTTP__HTTP2_WINDOW_DEFAULT ? window : UVHTTP__HTTP2_WINDOW_DEFAULT;
}

static bool may_receive(const uvhttp__http2_stream_t *stream) {
    return !(stream->flags & (UVHTTP__HTTP2_REMOTE_ENDED | UVHTTP__HTTP2_RESET));
}

/* The connection's credit goes along with a stream's, in the same send: while a large body comes, its own is never the
 * only frame. */
void uvhttp__http2_return_stream_credit(uvhttp__http2_t *http2) {
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, http2->credit_stream_id);
    http2->credit_stream_id = 0;
    if (!stream || !may_receive(stream)) return;
    return_credit(http2, stream->id, &stream->receive_window, &stream->consumed);
    if (http2->consumed >= http2->limits->connection_credit_min) return_connection_credit(http2);
}

/* Marks the credit of the stream as due after a step. Bytes consumed before it is returned are added to it. */
static void consume_stream(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size) {
    stream->consumed += (uint32_t)size;
    if (stream->consumed < window_of_streams(http2) / http2->limits->stream_credit_steps || !may_receive(stream))
        return;
    if (http2->credit_stream_id != stream->id) uvhttp__http2_return_due_credit(http2);
    http2->credit_stream_id = stream->id;
}

void uvhttp__http2_discard(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size) {
    assert(size <= stream->held);
    stream->held -= (uint32_t)size;
    uvhttp__http2_consume_connection(http2, size);
}

void uvhttp__http2_consume(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size) {
    uvhttp__http2_discard(http2, stream, size);
    consume_stream(http2, stream, size);
}

void uvhttp__http2_consume_padding(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size) {
    uvhttp__http2_consume_connection(http2, size);
    if (stream) consume_stream(http2, stream, size);
}

bool uvhttp__http2_open_window(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t increment) {
    int64_t window = (int64_t)stream->send_window + increment;
    if (window > UVHTTP__HTTP2_WINDOW_MAX) return false;
    stream->send_window = (int32_t)window;
    uvhttp__http2_requeue(http2, stream);
    return true;
}
