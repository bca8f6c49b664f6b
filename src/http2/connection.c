/* Owns: the life of a connection of HTTP/2. May include: base. */
#include <string.h>

#include "http2/http2_internal.h"

int uvhttp__http2_init(uvhttp__http2_t *http2, const uvhttp__http2_limits_t *limits, uvhttp__http2_counters_t *counters,
                       uint64_t now_ms) {
    assert(limits->connection_window >= UVHTTP__HTTP2_WINDOW_DEFAULT && limits->connection_window <= 1 << 20);
    assert(limits->stream_window <= limits->connection_window / 4 && limits->continuation_frames_max <= 255);
    *http2 = (uvhttp__http2_t){
        .limits = limits,
        .counters = counters,
        .goaway_id = UVHTTP__HTTP2_STREAM_ID_MAX,
        .send_window = UVHTTP__HTTP2_WINDOW_DEFAULT,
        .peer_window = UVHTTP__HTTP2_WINDOW_DEFAULT,
        .peer_frame_size = UVHTTP__HTTP2_FRAME_SIZE_MAX,
        .peer_header_table_size = 4096,
        .refilled_ms = now_ms,
    };
    uvhttp__http2_streams_init(http2);
    uvhttp__http2_begin_iteration(http2, now_ms);
    uvhttp__http2_send_settings(http2);
    if (http2->phase != UVHTTP__HTTP2_FAILED) return UVHTTP_OK;
    uvhttp__http2_deinit(http2);
    return UVHTTP_E_NOMEM;
}

void uvhttp__http2_deinit(uvhttp__http2_t *http2) {
    uvhttp__http2_streams_deinit(http2);
    uvhttp__http2_drop_buffer(http2, &http2->block);
    uvhttp__http2_drop_buffer(http2, &http2->control);
}

void uvhttp__http2_trim(uvhttp__http2_t *http2) {
    if (http2->stream_count > 0) return;
    uvhttp__http2_streams_deinit(http2);
    memset(http2->own_buckets, 0, sizeof http2->own_buckets);
    uvhttp__http2_streams_init(http2);
    if (!uvhttp__http2_in_frame(http2)) uvhttp__http2_drop_buffer(http2, &http2->block);
    if (http2->control.size == 0) uvhttp__http2_drop_buffer(http2, &http2->control);
}

bool uvhttp__http2_done(const uvhttp__http2_t *http2) {
    if (http2->phase == UVHTTP__HTTP2_FAILED) return true;
    return http2->stream_count == 0 && (http2->phase == UVHTTP__HTTP2_CLOSED || http2->goaway_received);
}
