/* Owns: types, flags and heads of frames (RFC 9113 section 4.1). May include: nothing. */
#ifndef UVHTTP_SRC_HTTP2_FRAME_H
#define UVHTTP_SRC_HTTP2_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define UVHTTP__HTTP2_FRAME_HEAD_SIZE 9

enum uvhttp__http2_frame_type { /* section 6; RFC 9218 section 7.1 */
                                UVHTTP__HTTP2_DATA = 0x0,
                                UVHTTP__HTTP2_HEADERS = 0x1,
                                UVHTTP__HTTP2_PRIORITY_FRAME = 0x2,
                                UVHTTP__HTTP2_RST_STREAM = 0x3,
                                UVHTTP__HTTP2_SETTINGS = 0x4,
                                UVHTTP__HTTP2_PUSH_PROMISE = 0x5,
                                UVHTTP__HTTP2_PING = 0x6,
                                UVHTTP__HTTP2_GOAWAY = 0x7,
                                UVHTTP__HTTP2_WINDOW_UPDATE = 0x8,
                                UVHTTP__HTTP2_CONTINUATION = 0x9,
                                UVHTTP__HTTP2_PRIORITY_UPDATE = 0x10,
};

enum uvhttp__http2_frame_flags {
    UVHTTP__HTTP2_FLAG_ACK = 0x1,
    UVHTTP__HTTP2_FLAG_END_STREAM = 0x1,
    UVHTTP__HTTP2_FLAG_END_HEADERS = 0x4,
    UVHTTP__HTTP2_FLAG_PADDED = 0x8,
    UVHTTP__HTTP2_FLAG_PRIORITY = 0x20,
};

static inline uint32_t uvhttp__http2_get32(const char *at) {
    uint32_t bytes;
    __builtin_memcpy(&bytes, at, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap32(bytes);
#endif
    return bytes;
}
static inline void uvhttp__http2_put32(char *at, uint32_t value) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    __builtin_memcpy(at, &value, sizeof value);
}
static inline void uvhttp__http2_put_head(char *out, size_t size, uint8_t type, uint8_t flags, uint32_t stream_id) {
    uvhttp__http2_put32(out, (uint32_t)size << 8 | type);
    out[4] = (char)flags;
    uvhttp__http2_put32(out + 5, stream_id);
}

#endif
