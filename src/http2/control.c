/* Owns: frames of the core itself that wait to be sent, connection errors and the graceful end. May include: base. */
#include <string.h>

#include "base/alloc.h"
#include "http2/http2_internal.h"

enum { BUFFER_SIZE_MIN = 128, GOAWAY_SIZE = UVHTTP__HTTP2_FRAME_HEAD_SIZE + 8 };

const char *uvhttp__http2_error_name(uint32_t error) {
    static const char *const names[] = {
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    };
    return error < sizeof names / sizeof *names ? names[error] : "UNKNOWN";
}

/* --- buffers --- */

int uvhttp__http2_reserve(uvhttp__http2_t *http2, uvhttp__http2_buffer_t *buffer, size_t size) {
    size_t needed = buffer->size + size, capacity = buffer->capacity ? buffer->capacity : BUFFER_SIZE_MIN;
    if (LIKELY(needed <= buffer->capacity)) return UVHTTP_OK;
    while (capacity < needed) capacity *= 2;
    int status = uvhttp__http2_charge(http2, capacity - buffer->capacity);
    if (status != UVHTTP_OK) return status;
    char *data = uvhttp__realloc(buffer->data, capacity);
    if (!data) {
        uvhttp__http2_discharge(http2, capacity - buffer->capacity);
        return UVHTTP_E_NOMEM;
    }
    buffer->data = data;
    buffer->capacity = (uint32_t)capacity;
    return UVHTTP_OK;
}

void uvhttp__http2_drop_buffer(uvhttp__http2_t *http2, uvhttp__http2_buffer_t *buffer) {
    uvhttp__free(buffer->data);
    uvhttp__http2_discharge(http2, buffer->capacity);
    *buffer = (uvhttp__http2_buffer_t){0};
}

/* --- connection errors --- */

static void append_goaway(uvhttp__http2_t *http2, uint32_t error) {
    if (http2->goaway_id > http2->last_stream_id) http2->goaway_id = http2->last_stream_id;
    if (uvhttp__http2_reserve(http2, &http2->control, GOAWAY_SIZE) != UVHTTP_OK) return; /* it ends without a word */
    char *frame = http2->control.data + http2->control.size;
    uvhttp__http2_put_head(frame, 8, UVHTTP__HTTP2_GOAWAY, 0, 0);
    uvhttp__http2_put32(frame + 9, http2->goaway_id);
    uvhttp__http2_put32(frame + 13, error);
    http2->control.size += GOAWAY_SIZE;
}

int uvhttp__http2_fail_with(uvhttp__http2_t *http2, uvhttp__http2_error_t error, int status) {
    if (http2->phase == UVHTTP__HTTP2_FAILED) return http2->failure;
    http2->phase = UVHTTP__HTTP2_FAILED;
    http2->failure = (int16_t)status;
    http2->counters->connection_errors++;
    append_goaway(http2, error);
    return status;
}

int uvhttp__http2_fail(uvhttp__http2_t *http2, uvhttp__http2_error_t error) {
    int status;
    switch (error) {
        case UVHTTP__HTTP2_INTERNAL_ERROR: status = UVHTTP_E_NOMEM; break;
        case UVHTTP__HTTP2_FLOW_CONTROL_ERROR: status = UVHTTP_E_HTTP2_FLOW_CONTROL; break;
        case UVHTTP__HTTP2_SETTINGS_TIMEOUT: status = UVHTTP_E_HTTP2_SETTINGS_TIMEOUT; break;
        case UVHTTP__HTTP2_STREAM_CLOSED: status = UVHTTP_E_HTTP2_STREAM_CLOSED; break;
        case UVHTTP__HTTP2_FRAME_SIZE_ERROR: status = UVHTTP_E_HTTP2_FRAME_SIZE; break;
        case UVHTTP__HTTP2_COMPRESSION_ERROR: status = UVHTTP_E_HTTP2_COMPRESSION; break;
        case UVHTTP__HTTP2_ENHANCE_YOUR_CALM: status = UVHTTP_E_HTTP2_FLOOD; break;
        default: status = UVHTTP_E_HTTP2_PROTOCOL; break;
    }
    return uvhttp__http2_fail_with(http2, error, status);
}

/* --- frames --- */

/* Room for GOAWAY is kept behind, so that a connection which fails can always say so. */
static bool control_capacity(uvhttp__http2_t *http2, size_t size) {
    if (http2->control.size + size > http2->limits->control_size_max) {
        http2->counters->control_overflows++;
        (void)uvhttp__http2_fail(http2, UVHTTP__HTTP2_ENHANCE_YOUR_CALM);
        return false;
    }
    int status = uvhttp__http2_reserve(http2, &http2->control, size + GOAWAY_SIZE);
    if (LIKELY(status == UVHTTP_OK)) return true;
    (void)uvhttp__http2_fail(http2,
                             status == UVHTTP_E_LIMIT ? UVHTTP__HTTP2_ENHANCE_YOUR_CALM : UVHTTP__HTTP2_INTERNAL_ERROR);
    return false;
}

char *uvhttp__http2_control_frame(uvhttp__http2_t *http2, uint8_t type, uint8_t flags, uint32_t stream_id,
                                  size_t payload_size) {
    size_t size = UVHTTP__HTTP2_FRAME_HEAD_SIZE + payload_size;
    if (http2->phase == UVHTTP__HTTP2_FAILED || !control_capacity(http2, size)) return NULL;
    char *frame = http2->control.data + http2->control.size;
    uvhttp__http2_put_head(frame, payload_size, type, flags, stream_id);
    http2->control.size += (uint32_t)size;
    return frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
}

void uvhttp__http2_control_number(uvhttp__http2_t *http2, uint8_t type, uint32_t stream_id, uint32_t number) {
    char *payload = uvhttp__http2_control_frame(http2, type, 0, stream_id, 4);
    if (payload) uvhttp__http2_put32(payload, number);
}

/* --- graceful shutdown --- */

static void send_goaway(uvhttp__http2_t *http2, uint32_t last_stream_id) {
    char *payload = uvhttp__http2_control_frame(http2, UVHTTP__HTTP2_GOAWAY, 0, 0, 8);
    if (!payload) return;
    http2->goaway_id = last_stream_id;
    uvhttp__http2_put32(payload, last_stream_id);
    uvhttp__http2_put32(payload + 4, UVHTTP__HTTP2_NO_ERROR);
}

void uvhttp__http2_shutdown(uvhttp__http2_t *http2) {
    if (http2->phase == UVHTTP__HTTP2_OPEN) {
        http2->phase = UVHTTP__HTTP2_CLOSING;
        send_goaway(http2, UVHTTP__HTTP2_STREAM_ID_MAX);
        char *payload = uvhttp__http2_control_frame(http2, UVHTTP__HTTP2_PING, 0, 0, 8);
        if (payload) memcpy(payload, UVHTTP__HTTP2_SHUTDOWN_PING, 8);
    } else {
        uvhttp__http2_shutdown_now(http2);
    }
}

void uvhttp__http2_shutdown_now(uvhttp__http2_t *http2) {
    if (http2->phase >= UVHTTP__HTTP2_CLOSED) return;
    http2->phase = UVHTTP__HTTP2_CLOSED;
    send_goaway(http2, http2->last_stream_id);
}
