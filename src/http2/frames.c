/* Owns: what frames mean that are neither DATA nor part of a header block, and errors of streams. May include: base. */
#include <string.h>

#include "http2/http2_internal.h"

/* --- errors of streams --- */

static int status_of(const uvhttp__http2_t *http2, int status) {
    return http2->phase == UVHTTP__HTTP2_FAILED ? http2->failure : status;
}

int uvhttp__http2_stream_error(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error,
                               uvhttp__http2_event_t *event) {
    uvhttp__http2_reset(http2, stream, error);
    *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_RESET, .error = error, .stream = stream};
    return status_of(http2, UVHTTP_OK);
}

/* Bytes within the window of a stream that was reset here, in however many frames. */
static bool was_under_way(uvhttp__http2_t *http2, uint32_t data_size) {
    if (data_size == 0 || data_size > http2->under_way) return false;
    http2->under_way -= data_size;
    return true;
}

/* Section 5.1, closed: after RST_STREAM of ours frames may still be under way; after one of the peer's they are an
 * error of the stream, and after END_STREAM in both directions one of the connection. */
int uvhttp__http2_closed_stream(uvhttp__http2_t *http2, const uvhttp__http2_stream_t *stream, uint32_t id,
                                uint32_t data_size) {
    uvhttp__http2_history_t how;
    if (!stream)
        how = uvhttp__http2_history(http2, id);
    else if (stream->flags & UVHTTP__HTTP2_RESET)
        how = stream->flags & UVHTTP__HTTP2_PEER_RESET ? UVHTTP__HTTP2_WAS_PEER_RESET : UVHTTP__HTTP2_WAS_RESET;
    else
        how = UVHTTP__HTTP2_FINISHED;
    if (how == UVHTTP__HTTP2_FINISHED) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_STREAM_CLOSED);
    if (how == UVHTTP__HTTP2_SKIPPED) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    if (how == UVHTTP__HTTP2_WAS_RESET && was_under_way(http2, data_size)) return UVHTTP__HTTP2_CONTINUE;
    if (!uvhttp__http2_count_control_frame(http2)) return http2->failure;
    if (how == UVHTTP__HTTP2_WAS_PEER_RESET) {
        http2->counters->resets_sent++;
        uvhttp__http2_control_number(http2, UVHTTP__HTTP2_RST_STREAM, id, UVHTTP__HTTP2_STREAM_CLOSED);
    }
    return status_of(http2, UVHTTP__HTTP2_CONTINUE);
}

/* --- the frames --- */

/* A stream that nothing was sent on yet (section 5.1, idle). We open none, so the even ones all are. */
static bool is_idle(const uvhttp__http2_t *http2, uint32_t id) {
    return id > http2->last_stream_id || !(id & 1);
}

/* The priorities of RFC 7540 are ignored, but for the one that makes no sense (its section 5.3.1). */
static int read_priority(uvhttp__http2_t *http2, const char *payload, uint32_t size, uvhttp__http2_event_t *event) {
    uint32_t id = http2->frame_stream_id;
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    bool self = size == 5 && (uvhttp__http2_get32(payload) & UVHTTP__HTTP2_STREAM_ID_MAX) == id;
    if (size == 5 && !self) return UVHTTP__HTTP2_CONTINUE;
    uvhttp__http2_error_t error = self ? UVHTTP__HTTP2_PROTOCOL_ERROR : UVHTTP__HTTP2_FRAME_SIZE_ERROR;
    if (stream && !(stream->flags & UVHTTP__HTTP2_RESET))
        return uvhttp__http2_stream_error(http2, stream, error, event);
    if (is_idle(http2, id)) return uvhttp__http2_fail(http2, error);
    if (self || stream) return UVHTTP__HTTP2_CONTINUE;
    /* Also where the response was faster than the frame (section 6.3). */
    http2->counters->resets_sent++;
    uvhttp__http2_control_number(http2, UVHTTP__HTTP2_RST_STREAM, id, error);
    return status_of(http2, UVHTTP__HTTP2_CONTINUE);
}

static int read_rst_stream(uvhttp__http2_t *http2, const char *payload, uvhttp__http2_event_t *event) {
    const uint32_t whole = UVHTTP__HTTP2_REMOTE_ENDED | UVHTTP__HTTP2_LOCAL_ENDED;
    uint32_t id = http2->frame_stream_id;
    if (is_idle(http2, id)) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    if (!stream || stream->flags & UVHTTP__HTTP2_RESET) return UVHTTP__HTTP2_CONTINUE;
    http2->counters->resets_received++;
    bool finished = (stream->flags & whole) == whole, responded = stream->flags & UVHTTP__HTTP2_LOCAL_ENDED;
    stream->flags |= UVHTTP__HTTP2_RESET | UVHTTP__HTTP2_PEER_RESET;
    uvhttp__http2_requeue(http2, stream);
    if (finished) return UVHTTP__HTTP2_CONTINUE; /* it came too late to stop anything */
    if (!responded && !uvhttp__http2_count_reset(http2)) return http2->failure;
    *event = (uvhttp__http2_event_t){
        .type = UVHTTP__HTTP2_EVENT_RESET, .by_peer = true, .error = uvhttp__http2_get32(payload), .stream = stream};
    return UVHTTP_OK;
}

static int read_settings(uvhttp__http2_t *http2, const char *payload, uint32_t size, uvhttp__http2_event_t *event) {
    if (http2->frame_flags & UVHTTP__HTTP2_FLAG_ACK) {
        if (http2->settings_acked) return UVHTTP__HTTP2_CONTINUE;
        uvhttp__http2_settings_acked(http2);
        *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_SETTINGS_ACKED};
        return UVHTTP_OK;
    }
    int status = uvhttp__http2_apply_settings(http2, payload, size);
    if (status != UVHTTP_OK) return status;
    http2->settings_received = true;
    *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_SETTINGS};
    return UVHTTP_OK;
}

static int read_ping(uvhttp__http2_t *http2, const char *payload) {
    if (http2->frame_flags & UVHTTP__HTTP2_FLAG_ACK) {
        bool ours = http2->phase == UVHTTP__HTTP2_CLOSING && memcmp(payload, UVHTTP__HTTP2_SHUTDOWN_PING, 8) == 0;
        if (ours) uvhttp__http2_shutdown(http2);
        return status_of(http2, UVHTTP__HTTP2_CONTINUE);
    }
    char *reply = uvhttp__http2_control_frame(http2, UVHTTP__HTTP2_PING, UVHTTP__HTTP2_FLAG_ACK, 0, 8);
    if (reply) memcpy(reply, payload, 8);
    return reply ? UVHTTP__HTTP2_CONTINUE : http2->failure;
}

static int read_goaway(uvhttp__http2_t *http2, const char *payload, uvhttp__http2_event_t *event) {
    http2->goaway_received = true;
    *event = (uvhttp__http2_event_t){.type = UVHTTP__HTTP2_EVENT_GOAWAY, .error = uvhttp__http2_get32(payload + 4)};
    return UVHTTP_OK;
}

static int open_connection_window(uvhttp__http2_t *http2, uint32_t increment) {
    int64_t window = (int64_t)http2->send_window + increment;
    if (increment == 0) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    if (window > UVHTTP__HTTP2_WINDOW_MAX) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_FLOW_CONTROL_ERROR);
    http2->send_window = (int32_t)window;
    return UVHTTP__HTTP2_CONTINUE;
}

static int read_window_update(uvhttp__http2_t *http2, const char *payload, uvhttp__http2_event_t *event) {
    uint32_t id = http2->frame_stream_id, increment = uvhttp__http2_get32(payload) & UVHTTP__HTTP2_WINDOW_MAX;
    if (id == 0) return open_connection_window(http2, increment);
    if (is_idle(http2, id)) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    if (!stream || stream->flags & UVHTTP__HTTP2_RESET) return UVHTTP__HTTP2_CONTINUE;
    if (increment == 0) return uvhttp__http2_stream_error(http2, stream, UVHTTP__HTTP2_PROTOCOL_ERROR, event);
    if (stream->flags & UVHTTP__HTTP2_LOCAL_ENDED) return UVHTTP__HTTP2_CONTINUE; /* nothing more is sent on it */
    if (uvhttp__http2_open_window(http2, stream, increment)) return UVHTTP__HTTP2_CONTINUE;
    return uvhttp__http2_stream_error(http2, stream, UVHTTP__HTTP2_FLOW_CONTROL_ERROR, event);
}

/* RFC 9218 section 7.1. */
static int read_priority_update(uvhttp__http2_t *http2, const char *payload, uint32_t size) {
    uint32_t id = uvhttp__http2_get32(payload) & UVHTTP__HTTP2_STREAM_ID_MAX;
    uint8_t priority = uvhttp__http2_parse_priority((uvhttp_str_t){payload + 4, size - 4});
    if (!(id & 1)) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(http2, id);
    if (stream) {
        stream->flags |= UVHTTP__HTTP2_PRIORITY_SET;
        uvhttp__http2_change_priority(http2, stream, priority);
    } else if (id > http2->last_stream_id) {
        uvhttp__http2_remember_priority(http2, id, priority);
    }
    return UVHTTP__HTTP2_CONTINUE;
}

int uvhttp__http2_control_payload(uvhttp__http2_t *http2, const char *payload, uint32_t size,
                                  uvhttp__http2_event_t *event) {
    if (!uvhttp__http2_count_control_frame(http2)) return http2->failure;
    switch (http2->frame_type) {
        case UVHTTP__HTTP2_PRIORITY_FRAME: return read_priority(http2, payload, size, event);
        case UVHTTP__HTTP2_RST_STREAM: return read_rst_stream(http2, payload, event);
        case UVHTTP__HTTP2_SETTINGS: return read_settings(http2, payload, size, event);
        case UVHTTP__HTTP2_PING: return read_ping(http2, payload);
        case UVHTTP__HTTP2_GOAWAY: return read_goaway(http2, payload, event);
        case UVHTTP__HTTP2_WINDOW_UPDATE: return read_window_update(http2, payload, event);
        default: return read_priority_update(http2, payload, size);
    }
}
