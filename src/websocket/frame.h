/* Owns: WebSocket frames (RFC 6455 section 5): streaming those of a client, writing those of a server. Sans-I/O: no
 * allocation, no clock. May include: base. */
#ifndef UVHTTP_SRC_WEBSOCKET_FRAME_H
#define UVHTTP_SRC_WEBSOCKET_FRAME_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

typedef enum uvhttp__ws_opcode {
    UVHTTP__WS_CONTINUATION = 0,
    UVHTTP__WS_TEXT = 1,
    UVHTTP__WS_BINARY = 2,
    UVHTTP__WS_CLOSE = 8,
    UVHTTP__WS_PING = 9,
    UVHTTP__WS_PONG = 10
} uvhttp__ws_opcode_t;

#define UVHTTP__WS_COMPRESSED 0x40      /* RSV1, next to an opcode (RFC 7692 section 6) */
#define UVHTTP__WS_CONTROL_SIZE_MAX 125 /* payload of a control frame (section 5.5) */
#define UVHTTP__WS_CLIENT_HEAD_MAX 14   /* 2, length of 8, mask of 4 */
#define UVHTTP__WS_SERVER_HEAD_MAX 10
#define UVHTTP__WS_REASON_SIZE_MAX (UVHTTP__WS_CONTROL_SIZE_MAX - 2)

/* Zeroed: at the beginning of a connection without compression. */
typedef struct uvhttp__ws_parser {
    uint64_t left; /* payload of the frame in hand that has not come */
    uint64_t frame_size;
    uint8_t head[UVHTTP__WS_CLIENT_HEAD_MAX];
    uint8_t head_size; /* bytes of the head so far */
    uint8_t mask_at;   /* 0..3: byte of the mask that the next byte of payload goes with */
    bool in_payload;   /* the head is complete, the frame is not */
    bool in_message;   /* the last data frame was not a final one */
    uint8_t allowed;   /* reserved bits that the first frame of a message may have: 0 or UVHTTP__WS_COMPRESSED */
    int16_t error;     /* not 0: what is reported from here on */
} uvhttp__ws_parser_t;

/* A piece of a frame, as large as what has come allows. */
typedef struct uvhttp__ws_piece {
    char *data; /* unmasked, in the buffer that was passed in */
    size_t size;
    uint64_t frame_size; /* payload of the whole frame, as its head says */
    uint8_t opcode;      /* uvhttp__ws_opcode_t, of the frame: CONTINUATION stays that */
    bool fin;            /* the frame ends a message */
    bool first;          /* the frame starts with this part, which may be empty: its head has just become complete */
    bool last;           /* the frame ends with this piece */
    bool compressed;     /* the frame has RSV1 */
} uvhttp__ws_piece_t;

static inline bool uvhttp__ws_is_control(uint8_t opcode) {
    return opcode >= UVHTTP__WS_CLOSE;
}

/* Reads what came, up to the end of a frame at most, and unmasks it in place: the bytes must not be passed in again.
 * *consumed says how far. Returns 0 with a piece, UVHTTP_E_AGAIN (all is consumed, there is no piece) or, at the first
 * byte that shows it, whatever the cuts: UVHTTP_E_WS_RESERVED, _UNMASKED, _LENGTH, _CONTROL or _CONTINUATION; the same
 * again for every later call. */
int uvhttp__ws_parse(uvhttp__ws_parser_t *parser, char *data, size_t size, size_t *consumed, uvhttp__ws_piece_t *piece);

/* Applies a mask, whose byte `at` (0..3) goes with data[0], in place. */
void uvhttp__ws_mask(char *data, size_t size, const uint8_t mask[4], unsigned at);

/* Writes the head of an unmasked frame; opcode may have UVHTTP__WS_COMPRESSED; returns its size, 2, 4 or 10.
 * payload_size < 2^63. */
size_t uvhttp__ws_write_head(char out[UVHTTP__WS_SERVER_HEAD_MAX], bool fin, uint8_t opcode, uint64_t payload_size);

/* Whether a close frame may carry the code (section 7.4): 1000..1003, 1007..1014, 3000..4999. */
bool uvhttp__ws_close_code_valid(unsigned code);

#define UVHTTP__WS_CLOSE_NO_CODE 1005 /* a close frame without one (section 7.1.5) */

/* Takes the payload of a close frame apart; the reason is a view of it. Returns 0, UVHTTP_E_WS_CLOSE (one byte, a code
 * that is not allowed) or UVHTTP_E_WS_UTF8. */
int uvhttp__ws_read_close(const char *data, size_t size, uint16_t *code, uvhttp_str_t *reason);

/* Writes the payload of a close frame; reason_size is at most UVHTTP__WS_REASON_SIZE_MAX. Returns its size. */
size_t uvhttp__ws_write_close(char out[UVHTTP__WS_CONTROL_SIZE_MAX], uint16_t code, const char *reason,
                              size_t reason_size);

#endif
