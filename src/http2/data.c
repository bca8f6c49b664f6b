/* Owns: DATA frames that come (RFC 9113 section 6.1). May include: base.
 *
 * A frame counts against both windows with its padding, whoever takes its body. What nobody takes is consumed at once:
 * only that of the connection matters then. */
#include "http2/http2_internal.h"

/* The frame has no owner: what there is of it is thrown away. */
static int discard(uvhttp__http2_t *http2, int status) {
    http2->data_stream = NULL;
    return status;
}

static int stream_error(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error,
                        uvhttp__http2_event_t *event) {
    return discard(http2, uvhttp__http2_stream_error(http2, stream, error, event));
}

/* Section 8.1.1: found before the last bytes are shown. */
static bool length_mismatch(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t size, bool end) {
    if (!(stream->flags & UVHTTP__HTTP2_HAS_LENGTH)) return false;
    if (size > stream->content_left || (end && size != stream->content_left)) {
        http2->counters->length_mismatches++;
        return true;
    }
    stream->content_left -= size;
    return false;
}

/* For a stream that is there and may get it. */
static int accept(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t frame_size,
                  uvhttp__http2_event_t *event) {
    bool end = http2->frame_flags & UVHTTP__HTTP2_FLAG_END_STREAM;
    uint32_t body = http2->frame_left;
    /* A window may be below 0, and a frame without bytes needs none (section 6.9.1). */
    if (UNLIKELY((int32_t)frame_size > stream->receive_window) && frame_size > 0) {
        http2->counters->windows_exceeded++;
        return stream_error(http2, stream, UVHTTP__HTTP2_FLOW_CONTROL_ERROR, event);
    }
    stream->receive_window -= (int32_t)frame_size;
    if (UNLIKELY(length_mismatch(http2, stream, body, end)))
        return stream_error(http2, stream, UVHTTP__HTTP2_PROTOCOL_ERROR, event);
    http2->data_stream = stream;
    if (end) stream->flags |= UVHTTP__HTTP2_REMOTE_ENDED;
    if (frame_size > body) uvhttp__http2_consume_padding(http2, stream, frame_size - body);
    if (body > 0) return UVHTTP__HTTP2_CONTINUE;
    if (!end) return uvhttp__http2_count_control_frame(http2) ? UVHTTP__HTTP2_CONTINUE : http2->failure;
    *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_DATA, .end = true, .stream = stream, .data = {"", 0}};
    return UVHTTP_OK;
}

/* Section 5.1: which streams may get DATA. */
static int find_owner(uvhttp__http2_t *http2, uint32_t frame_size, uvhttp__http2_event_t *event) {
    uint32_t id = http2->frame_stream_id;
    if (id > http2->last_stream_id || !(id & 1)) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    uint32_t flags = stream ? stream->flags : UVHTTP__HTTP2_RESET;
    if (LIKELY(!(flags & (UVHTTP__HTTP2_RESET | UVHTTP__HTTP2_REMOTE_ENDED))))
        return accept(http2, stream, frame_size, event);
    if (flags & (UVHTTP__HTTP2_RESET | UVHTTP__HTTP2_LOCAL_ENDED))
        return discard(http2, uvhttp__http2_closed_stream(http2, stream, id, frame_size));
    return stream_error(http2, stream, UVHTTP__HTTP2_STREAM_CLOSED, event);
}

int uvhttp__http2_data_head(uvhttp__http2_t *http2, uint32_t frame_size, uvhttp__http2_event_t *event) {
    if ((int32_t)frame_size > http2->receive_window) {
        http2->counters->windows_exceeded++;
        return uvhttp__http2_fail(http2, UVHTTP__HTTP2_FLOW_CONTROL_ERROR);
    }
    http2->receive_window -= (int32_t)frame_size;
    http2->data_stream = NULL;
    int status = find_owner(http2, frame_size, event);
    if (!http2->data_stream) uvhttp__http2_consume_connection(http2, frame_size);
    return status;
}

int uvhttp__http2_data_piece(uvhttp__http2_t *http2, const char *data, uint32_t size, uvhttp__http2_event_t *event) {
    uvhttp__http2_stream_t *stream = http2->data_stream;
    http2->frame_left -= size;
    if (!stream) return UVHTTP__HTTP2_CONTINUE; /* its credit went back with the head of the frame */
    if (stream->flags & UVHTTP__HTTP2_RESET) {  /* meanwhile */
        uvhttp__http2_consume_connection(http2, size);
        return UVHTTP__HTTP2_CONTINUE;
    }
    stream->held += size;
    *event = (uvhttp__http2_event_t){
        .type = UVHTTP__HTTP2_EVENT_DATA,
        .end = http2->frame_left == 0 && http2->frame_flags & UVHTTP__HTTP2_FLAG_END_STREAM,
        .stream = stream,
        .data = {data, size},
    };
    return UVHTTP_OK;
}
