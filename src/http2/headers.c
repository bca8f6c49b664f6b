/* Owns: header blocks of both directions: HEADERS and CONTINUATION (RFC 9113 section 4.3, 6.2, 6.10). May include:
 * base. */
#include <string.h>

#include "http2/http2_internal.h"

/* --- what comes of a block --- */

/* A stream is not admitted: it is reset, and its block is for the decoder only. */
static int refuse(uvhttp__http2_t *http2, uint32_t id, uvhttp__http2_error_t error) {
    if (!uvhttp__http2_count_control_frame(http2)) return http2->failure;
    http2->counters->resets_sent++;
    uvhttp__http2_control_number(http2, UVHTTP__HTTP2_RST_STREAM, id, error);
    return http2->phase == UVHTTP__HTTP2_FAILED ? http2->failure : UVHTTP_OK;
}

int uvhttp__http2_refuse_full(uvhttp__http2_t *http2, uint32_t id) {
    http2->counters->streams_refused++;
    return refuse(http2, id, UVHTTP__HTTP2_REFUSED_STREAM);
}

static int open_request(uvhttp__http2_t *http2, uint32_t id, uvhttp__http2_event_t *event) {
    bool end = http2->block_flags & UVHTTP__HTTP2_FLAG_END_STREAM;
    uvhttp__http2_stream_t *stream = uvhttp__http2_open_stream(http2, id, end);
    if (UNLIKELY(!stream)) return uvhttp__http2_refuse_full(http2, id);
    event->type = UVHTTP__HTTP2_EVENT_HEADERS;
    event->stream = stream;
    event->end = end;
    uvhttp__http2_count_request(http2);
    return UVHTTP_OK;
}

/* After the last GOAWAY, or with a priority that names itself. */
static int pass_request(uvhttp__http2_t *http2, uint32_t id, bool self_dependent) {
    uvhttp__http2_pass_stream(http2, id, http2->block_flags & UVHTTP__HTTP2_FLAG_END_STREAM);
    return self_dependent ? refuse(http2, id, UVHTTP__HTTP2_PROTOCOL_ERROR) : UVHTTP_OK;
}

/* An error of the stream whose event keeps the block. */
static int block_error(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error,
                       uvhttp__http2_event_t *event) {
    uvhttp_str_t block = event->data;
    int status = uvhttp__http2_stream_error(http2, stream, error, event);
    event->data = block;
    return status;
}

/* A second block of a stream that is there: the only one that may come is the trailer section (section 8.1). */
static int end_request(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, bool self_dependent,
                       uvhttp__http2_event_t *event) {
    if (stream->flags & UVHTTP__HTTP2_REMOTE_ENDED)
        return block_error(http2, stream, UVHTTP__HTTP2_STREAM_CLOSED, event);
    if (!(http2->block_flags & UVHTTP__HTTP2_FLAG_END_STREAM) || self_dependent)
        return block_error(http2, stream, UVHTTP__HTTP2_PROTOCOL_ERROR, event);
    if (stream->flags & UVHTTP__HTTP2_HAS_LENGTH && stream->content_left > 0) {
        http2->counters->length_mismatches++;
        return block_error(http2, stream, UVHTTP__HTTP2_PROTOCOL_ERROR, event);
    }
    stream->flags |= UVHTTP__HTTP2_REMOTE_ENDED;
    event->type = UVHTTP__HTTP2_EVENT_TRAILERS;
    event->stream = stream;
    event->end = true;
    return UVHTTP_OK;
}

static int end_block(uvhttp__http2_t *http2, const char *block, size_t size, uvhttp__http2_event_t *event) {
    const uint32_t whole = UVHTTP__HTTP2_REMOTE_ENDED | UVHTTP__HTTP2_LOCAL_ENDED;
    uint32_t id = http2->block_stream_id;
    bool self_dependent = http2->block_self_dependent;
    http2->block_stream_id = 0;
    *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_DISCARD, .data = {block, size}};
    if (id > http2->last_stream_id) {
        bool pass = http2->phase == UVHTTP__HTTP2_CLOSED || self_dependent;
        return pass ? pass_request(http2, id, self_dependent) : open_request(http2, id, event);
    }
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    bool closed = !stream || stream->flags & UVHTTP__HTTP2_RESET || (stream->flags & whole) == whole;
    if (!closed) return end_request(http2, stream, self_dependent, event);
    int status = uvhttp__http2_closed_stream(http2, stream, id, 0);
    return status == UVHTTP__HTTP2_CONTINUE ? UVHTTP_OK : status;
}

/* --- collecting it --- */

static int reserve(uvhttp__http2_t *http2, size_t size) {
    int status = uvhttp__http2_reserve(http2, &http2->block, size);
    if (LIKELY(status == UVHTTP_OK)) return UVHTTP_OK;
    return uvhttp__http2_fail(http2, status == UVHTTP_E_LIMIT ? UVHTTP__HTTP2_ENHANCE_YOUR_CALM
                                                              : UVHTTP__HTTP2_INTERNAL_ERROR);
}

/* Padding and priority of a HEADERS frame are cut off. Returns 0 or a connection error. */
static int strip(uvhttp__http2_t *http2, const char **payload, uint32_t *size) {
    uint32_t padded = http2->frame_flags & UVHTTP__HTTP2_FLAG_PADDED ? 1 : 0, padding = 0;
    uint32_t fixed = padded + (http2->frame_flags & UVHTTP__HTTP2_FLAG_PRIORITY ? 5 : 0);
    http2->block_self_dependent = false;
    if (LIKELY(fixed == 0)) return UVHTTP_OK;
    if (*size < fixed) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_FRAME_SIZE_ERROR);
    if (padded) padding = (uint8_t) * *payload;
    if (padding > *size - fixed) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    if (fixed > padded)
        http2->block_self_dependent =
            (uvhttp__http2_get32(*payload + padded) & UVHTTP__HTTP2_STREAM_ID_MAX) == http2->frame_stream_id;
    *payload += fixed;
    *size -= fixed + padding;
    return UVHTTP_OK;
}

/* A first part is at the start of http2->block, where the next ones are appended. */
static int keep_first(uvhttp__http2_t *http2, const char *part, uint32_t size) {
    bool inside = http2->block.size > 0;
    if (!inside) {
        int status = reserve(http2, size);
        if (status != UVHTTP_OK) return status;
    }
    if (size > 0) memmove(http2->block.data, part, size);
    http2->block.size = size;
    return UVHTTP__HTTP2_CONTINUE;
}

static int begin_block(uvhttp__http2_t *http2, const char *part, uint32_t size, uvhttp__http2_event_t *event) {
    int status = strip(http2, &part, &size);
    if (status != UVHTTP_OK) return status;
    http2->block_stream_id = http2->frame_stream_id;
    http2->block_flags = http2->frame_flags;
    http2->block_frames = 0;
    if (LIKELY(http2->frame_flags & UVHTTP__HTTP2_FLAG_END_HEADERS)) return end_block(http2, part, size, event);
    return keep_first(http2, part, size);
}

int uvhttp__http2_headers_payload(uvhttp__http2_t *http2, const char *payload, uint32_t size,
                                  uvhttp__http2_event_t *event) {
    if (LIKELY(http2->frame_type == UVHTTP__HTTP2_HEADERS)) return begin_block(http2, payload, size, event);
    uvhttp__http2_buffer_t *block = &http2->block;
    bool inside = block->data && payload >= block->data && payload < block->data + block->size;
    if (!inside && size > 0) {
        int status = reserve(http2, size);
        if (status != UVHTTP_OK) return status;
        memcpy(block->data + block->size, payload, size);
        block->size += size;
    }
    if (!(http2->frame_flags & UVHTTP__HTTP2_FLAG_END_HEADERS)) return UVHTTP__HTTP2_CONTINUE;
    return end_block(http2, block->size > 0 ? block->data : "", block->size, event);
}

int uvhttp__http2_set_content_length(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint64_t length) {
    if (stream->flags & UVHTTP__HTTP2_REMOTE_ENDED) {
        if (length == 0) return UVHTTP_OK;
        http2->counters->length_mismatches++;
        return UVHTTP_E_HTTP_CONTENT_LENGTH;
    }
    stream->flags |= UVHTTP__HTTP2_HAS_LENGTH;
    stream->content_left = length;
    return UVHTTP_OK;
}

/* --- writing them --- */

/* Bytes of all frame heads but the first. */
size_t uvhttp__http2_continuation_heads(const uvhttp__http2_t *http2, size_t block_size) {
    if (LIKELY(block_size <= UVHTTP__HTTP2_FRAME_SIZE_MAX)) return 0;
    return (block_size - 1) / http2->peer_frame_size * UVHTTP__HTTP2_FRAME_HEAD_SIZE;
}

/* From the last part on, so that none is overwritten before it has moved. */
static void spread(const uvhttp__http2_t *http2, uint32_t id, char *block, size_t block_size) {
    size_t part = http2->peer_frame_size, count = (block_size - 1) / part, size = block_size - count * part;
    for (size_t i = count; i > 0; i--, size = part) {
        char *to = block + i * (part + UVHTTP__HTTP2_FRAME_HEAD_SIZE);
        memmove(to, block + i * part, size);
        uvhttp__http2_put_head(to - UVHTTP__HTTP2_FRAME_HEAD_SIZE, size, UVHTTP__HTTP2_CONTINUATION,
                               i == count ? UVHTTP__HTTP2_FLAG_END_HEADERS : 0, id);
    }
}

size_t uvhttp__http2_write_all_headers(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, char *frame,
                                       size_t block_size, bool end) {
    assert(uvhttp__http2_writable(stream));
    size_t heads = uvhttp__http2_continuation_heads(http2, block_size),
           first = heads > 0 ? http2->peer_frame_size : block_size;
    unsigned flags = (end ? UVHTTP__HTTP2_FLAG_END_STREAM : 0u) | (heads > 0 ? 0u : UVHTTP__HTTP2_FLAG_END_HEADERS);
    if (UNLIKELY(heads > 0)) spread(http2, stream->id, frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE, block_size);
    uvhttp__http2_put_head(frame, first, UVHTTP__HTTP2_HEADERS, (uint8_t)flags, stream->id);
    stream->flags |= UVHTTP__HTTP2_HEAD_WRITTEN;
    if (end) {
        stream->flags |= UVHTTP__HTTP2_LOCAL_ENDED;
        uvhttp__http2_requeue(http2, stream);
    }
    return UVHTTP__HTTP2_FRAME_HEAD_SIZE + block_size + heads;
}
