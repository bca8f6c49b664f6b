/* Owns: SETTINGS of both directions (RFC 9113 section 6.5). May include: base. */
#include "http2/http2_internal.h"

enum { /* section 6.5.2; RFC 8441 section 3; RFC 9218 section 2.1 */
       HEADER_TABLE_SIZE = 0x1,
       ENABLE_PUSH = 0x2,
       MAX_CONCURRENT_STREAMS = 0x3,
       INITIAL_WINDOW_SIZE = 0x4,
       MAX_FRAME_SIZE = 0x5,
       MAX_HEADER_LIST_SIZE = 0x6,
       ENABLE_CONNECT_PROTOCOL = 0x8,
       NO_RFC7540_PRIORITIES = 0x9,
};
enum { ENTRY_SIZE = 6, ENTRIES_MAX = 6, FRAME_SIZE_LIMIT = (1 << 24) - 1 };

/* --- ours --- */

static char *put_setting(char *at, uint16_t id, uint32_t value) {
    at[0] = (char)(id >> 8);
    at[1] = (char)id;
    uvhttp__http2_put32(at + 2, value);
    return at + ENTRY_SIZE;
}

void uvhttp__http2_send_settings(uvhttp__http2_t *http2) {
    const uvhttp__http2_limits_t *limits = http2->limits;
    char entries[ENTRY_SIZE * ENTRIES_MAX], *end = entries;
    end = put_setting(end, MAX_CONCURRENT_STREAMS, limits->streams_max);
    end = put_setting(end, INITIAL_WINDOW_SIZE, limits->stream_window);
    end = put_setting(end, MAX_HEADER_LIST_SIZE, limits->header_list_size_max);
    end = put_setting(end, NO_RFC7540_PRIORITIES, 1);
    if (limits->header_table_size != 4096) end = put_setting(end, HEADER_TABLE_SIZE, limits->header_table_size);
    if (limits->connect_protocol) end = put_setting(end, ENABLE_CONNECT_PROTOCOL, 1);
    size_t size = (size_t)(end - entries);
    char *payload = uvhttp__http2_control_frame(http2, UVHTTP__HTTP2_SETTINGS, 0, 0, size);
    if (payload) __builtin_memcpy(payload, entries, size);
    http2->receive_window = (int32_t)limits->connection_window;
    uint32_t more = limits->connection_window - UVHTTP__HTTP2_WINDOW_DEFAULT;
    if (more > 0) uvhttp__http2_control_number(http2, UVHTTP__HTTP2_WINDOW_UPDATE, 0, more);
}

/* Streams were opened with the default window meanwhile (section 6.9.2). */
static void adjust_receive_window(uvhttp__http2_stream_t *stream, void *arg) {
    stream->receive_window += *(const int32_t *)arg;
}

void uvhttp__http2_settings_acked(uvhttp__http2_t *http2) {
    int32_t change = (int32_t)http2->limits->stream_window - UVHTTP__HTTP2_WINDOW_DEFAULT;
    http2->settings_acked = true;
    uvhttp__http2_each_stream(http2, adjust_receive_window, &change);
}

/* --- the peer's --- */

typedef struct change {
    uvhttp__http2_t *http2;
    int64_t by;
    bool overflow;
} change_t;

/* Section 6.9.2: windows may fall below 0, and must not rise above their maximum. Of streams on which nothing more is
 * sent they mean nothing. */
static void adjust_send_window(uvhttp__http2_stream_t *stream, void *arg) {
    change_t *change = arg;
    if (!uvhttp__http2_writable(stream)) return;
    int64_t window = stream->send_window + change->by;
    if (window > UVHTTP__HTTP2_WINDOW_MAX) {
        change->overflow = true;
        return;
    }
    stream->send_window = (int32_t)window;
    uvhttp__http2_requeue(change->http2, stream);
}

static int set_peer_window(uvhttp__http2_t *http2, uint32_t window) {
    change_t change = {http2, (int64_t)window - http2->peer_window, false};
    if (change.by == 0) return UVHTTP_OK;
    http2->peer_window = window;
    uvhttp__http2_each_stream(http2, adjust_send_window, &change);
    return change.overflow ? uvhttp__http2_fail(http2, UVHTTP__HTTP2_FLOW_CONTROL_ERROR) : UVHTTP_OK;
}

/* Returns NO_ERROR for values that are allowed and for settings that are unknown (section 6.5.2). */
static uvhttp__http2_error_t check_entry(unsigned id, uint32_t value) {
    switch (id) {
        case ENABLE_PUSH:
        case ENABLE_CONNECT_PROTOCOL:
        case NO_RFC7540_PRIORITIES: return value > 1 ? UVHTTP__HTTP2_PROTOCOL_ERROR : UVHTTP__HTTP2_NO_ERROR;
        case INITIAL_WINDOW_SIZE:
            return value > UVHTTP__HTTP2_WINDOW_MAX ? UVHTTP__HTTP2_FLOW_CONTROL_ERROR : UVHTTP__HTTP2_NO_ERROR;
        case MAX_FRAME_SIZE:
            return value < UVHTTP__HTTP2_FRAME_SIZE_MAX || value > FRAME_SIZE_LIMIT ? UVHTTP__HTTP2_PROTOCOL_ERROR
                                                                                    : UVHTTP__HTTP2_NO_ERROR;
        default: return UVHTTP__HTTP2_NO_ERROR;
    }
}

/* Every entry is checked, and of several entries for a window the last one is applied: what stands between would only
 * cost work. */
int uvhttp__http2_apply_settings(uvhttp__http2_t *http2, const char *payload, uint32_t size) {
    uint32_t window = http2->peer_window, table_lowest = UINT32_MAX;
    for (const char *entry = payload; entry < payload + size; entry += ENTRY_SIZE) {
        unsigned id = (unsigned)(uint8_t)entry[0] << 8 | (uint8_t)entry[1];
        uint32_t value = uvhttp__http2_get32(entry + 2);
        uvhttp__http2_error_t error = check_entry(id, value);
        if (error != UVHTTP__HTTP2_NO_ERROR) return uvhttp__http2_fail(http2, error);
        if (id == INITIAL_WINDOW_SIZE) window = value;
        if (id == MAX_FRAME_SIZE) http2->peer_frame_size = value;
        if (id == HEADER_TABLE_SIZE) http2->peer_header_table_size = value;
        if (id == HEADER_TABLE_SIZE && value < table_lowest) table_lowest = value;
    }
    uint32_t table_size = http2->peer_header_table_size;
    http2->peer_header_table_lowest = table_lowest < table_size ? table_lowest : table_size;
    int status = set_peer_window(http2, window);
    if (status != UVHTTP_OK) return status;
    (void)uvhttp__http2_control_frame(http2, UVHTTP__HTTP2_SETTINGS, UVHTTP__HTTP2_FLAG_ACK, 0, 0);
    return http2->phase == UVHTTP__HTTP2_FAILED ? http2->failure : UVHTTP_OK;
}
