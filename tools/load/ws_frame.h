/* Owns: WebSocket frames (RFC 6455 section 5) as a client writes and reads them: the other half of src/websocket.
 * Sans-I/O. May include: base. */
#ifndef UVHTTP_TOOLS_LOAD_WS_FRAME_H
#define UVHTTP_TOOLS_LOAD_WS_FRAME_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

#define LOAD_WS_HEAD_MAX 14
#define LOAD_WS_CONTROL_MAX 125

/* The key is that of the RFC, and so is its response: nobody stands between who could keep it. */
#define LOAD_WS_HEADERS                                                                                                \
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"                                       \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define LOAD_WS_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

typedef enum load_ws_kind {
    LOAD_WS_DATA,        /* payload bytes of a message */
    LOAD_WS_MESSAGE_END, /* its last ones, perhaps none */
    LOAD_WS_PING,        /* a whole control frame */
    LOAD_WS_PONG,
    LOAD_WS_CLOSE
} load_ws_kind_t;

/* Zeroed: at the beginning of a connection. */
typedef struct load_ws_reader {
    uint64_t left; /* payload of the frame in hand that has not come */
    uint8_t head[10];
    uint8_t head_size;
    bool in_payload, in_message;
    uint8_t control_size;
    char control[LOAD_WS_CONTROL_MAX];
} load_ws_reader_t;

typedef struct load_ws_piece {
    load_ws_kind_t kind;
    const char *data; /* of a message: in what was passed in; of a control frame: in the reader */
    size_t size;
} load_ws_piece_t;

/* Reads up to the end of a frame at most. Returns 0 with a piece, UVHTTP_E_AGAIN (all is consumed, there is no piece),
 * or UVHTTP_E_WS_RESERVED (reserved bits, an unknown opcode, a mask), _LENGTH, _CONTROL or _CONTINUATION, after which
 * the reader is of no use. */
int load_ws_read(load_ws_reader_t *reader, const char *data, size_t size, size_t *consumed, load_ws_piece_t *piece);

/* The head of a masked text message of one frame; returns its size. */
size_t load_ws_write_head(char out[LOAD_WS_HEAD_MAX], size_t payload_size);
/* A masked pong; returns its size. */
size_t load_ws_write_pong(char out[LOAD_WS_HEAD_MAX + LOAD_WS_CONTROL_MAX], const char *data, size_t size);
/* Masks payload whose first byte is the first of the frame, in place. */
void load_ws_mask(char *data, size_t size);

#endif
