/* Owns: see frame.h. May include: base. */
#include "websocket/frame.h"

#include <assert.h>
#include <string.h>

#include "base/utf8.h"

enum { FIN = 0x80, RESERVED = 0x70, OPCODE = 0x0f, MASKED = 0x80, LENGTH = 0x7f, LENGTH_16 = 126, LENGTH_64 = 127 };

/* --- masking --- */

void uvhttp__ws_mask(char *data, size_t size, const uint8_t mask[4], unsigned at) {
    uint8_t turned[8];
    for (unsigned i = 0; i < 8; i++) turned[i] = mask[(at + i) & 3];
    uint64_t key, words[4];
    memcpy(&key, turned, sizeof key);
    for (; size >= sizeof words; data += sizeof words, size -= sizeof words) {
        memcpy(words, data, sizeof words);
        for (int i = 0; i < 4; i++) words[i] ^= key;
        memcpy(data, words, sizeof words);
    }
    for (; size >= sizeof *words; data += sizeof *words, size -= sizeof *words) {
        memcpy(words, data, sizeof *words);
        words[0] ^= key;
        memcpy(data, words, sizeof *words);
    }
    for (size_t i = 0; i < size; i++) data[i] = (char)(data[i] ^ turned[i]);
}

/* --- reading --- */

static int check_first_byte(const uvhttp__ws_parser_t *parser) {
    uint8_t byte = parser->head[0], opcode = byte & OPCODE;
    if (byte & RESERVED & ~parser->allowed || (opcode > UVHTTP__WS_BINARY && opcode < UVHTTP__WS_CLOSE) ||
        opcode > UVHTTP__WS_PONG)
        return UVHTTP_E_WS_RESERVED;
    if (byte & parser->allowed && opcode != UVHTTP__WS_TEXT && opcode != UVHTTP__WS_BINARY) return UVHTTP_E_WS_RESERVED;
    if (uvhttp__ws_is_control(opcode)) return byte & FIN ? UVHTTP_OK : UVHTTP_E_WS_CONTROL;
    return parser->in_message == (opcode == UVHTTP__WS_CONTINUATION) ? UVHTTP_OK : UVHTTP_E_WS_CONTINUATION;
}

static int check_second_byte(const uvhttp__ws_parser_t *parser) {
    uint8_t byte = parser->head[1];
    if (!(byte & MASKED)) return UVHTTP_E_WS_UNMASKED;
    if (uvhttp__ws_is_control(parser->head[0] & OPCODE) && (byte & LENGTH) > UVHTTP__WS_CONTROL_SIZE_MAX)
        return UVHTTP_E_WS_CONTROL;
    return UVHTTP_OK;
}

/* Bytes of head before the mask; the second byte has come. */
static unsigned unmasked_head_size(const uvhttp__ws_parser_t *parser) {
    uint8_t length = parser->head[1] & LENGTH;
    return length == LENGTH_64 ? 10 : length == LENGTH_16 ? 4 : 2;
}

/* The length is complete. It must not have been sendable in fewer bytes (section 5.2). */
static int check_length(uvhttp__ws_parser_t *parser) {
    unsigned size = unmasked_head_size(parser);
    uint64_t length = parser->head[1] & LENGTH;
    if (size > 2) {
        length = 0;
        for (unsigned i = 2; i < size; i++) length = length << 8 | parser->head[i];
        if (length < (size == 4 ? LENGTH_16 : 0x10000) || length >> 63) return UVHTTP_E_WS_LENGTH;
    }
    parser->left = parser->frame_size = length;
    return UVHTTP_OK;
}

static int check_head(uvhttp__ws_parser_t *parser) {
    if (parser->head_size == 1) return check_first_byte(parser);
    if (parser->head_size == 2) {
        int status = check_second_byte(parser);
        if (status != UVHTTP_OK) return status;
    }
    return parser->head_size == unmasked_head_size(parser) ? check_length(parser) : UVHTTP_OK;
}

/* Returns 0 (the head is complete), UVHTTP_E_AGAIN or what is wrong. */
static int take_head(uvhttp__ws_parser_t *parser, const char *data, size_t size, size_t *used) {
    while (*used < size) {
        parser->head[parser->head_size++] = (uint8_t)data[(*used)++];
        int status = check_head(parser);
        if (status != UVHTTP_OK) {
            parser->error = (int16_t)status;
            return status;
        }
        if (parser->head_size >= 2 && parser->head_size == unmasked_head_size(parser) + 4) return UVHTTP_OK;
    }
    return UVHTTP_E_AGAIN;
}

int uvhttp__ws_parse(uvhttp__ws_parser_t *parser, char *data, size_t size, size_t *consumed,
                     uvhttp__ws_piece_t *piece) {
    *consumed = 0;
    if (parser->error) return parser->error;
    bool first = !parser->in_payload;
    if (first) {
        int status = take_head(parser, data, size, consumed);
        if (status != UVHTTP_OK) return status;
        parser->mask_at = 0;
    } else if (size == 0) {
        return UVHTTP_E_AGAIN;
    }
    size_t come = size - *consumed;
    *piece = (uvhttp__ws_piece_t){.data = data + *consumed,
                                  .size = come < parser->left ? come : (size_t)parser->left,
                                  .frame_size = parser->frame_size,
                                  .opcode = parser->head[0] & OPCODE,
                                  .fin = parser->head[0] & FIN,
                                  .first = first,
                                  .compressed = parser->head[0] & UVHTTP__WS_COMPRESSED};
    uvhttp__ws_mask(piece->data, piece->size, parser->head + parser->head_size - 4, parser->mask_at);
    parser->mask_at = (uint8_t)((parser->mask_at + piece->size) & 3);
    parser->left -= piece->size;
    *consumed += piece->size;
    piece->last = parser->left == 0;
    parser->in_payload = !piece->last;
    if (piece->last) {
        parser->head_size = 0;
        if (!uvhttp__ws_is_control(piece->opcode)) parser->in_message = !piece->fin;
    }
    return UVHTTP_OK;
}

/* --- writing --- */

size_t uvhttp__ws_write_head(char out[UVHTTP__WS_SERVER_HEAD_MAX], bool fin, uint8_t opcode, uint64_t payload_size) {
    assert(payload_size >> 63 == 0);
    out[0] = (char)((fin ? FIN : 0) | opcode);
    unsigned bytes = payload_size < LENGTH_16 ? 0 : payload_size < 0x10000 ? 2 : 8;
    out[1] = (char)(bytes == 0 ? payload_size : bytes == 2 ? LENGTH_16 : LENGTH_64);
    for (unsigned i = 0; i < bytes; i++) out[2 + i] = (char)(payload_size >> 8 * (bytes - 1 - i) & 0xff);
    return 2 + bytes;
}

/* --- close frames --- */

bool uvhttp__ws_close_code_valid(unsigned code) {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

int uvhttp__ws_read_close(const char *data, size_t size, uint16_t *code, uvhttp_str_t *reason) {
    *code = UVHTTP__WS_CLOSE_NO_CODE;
    *reason = (uvhttp_str_t){"", 0};
    if (size == 0) return UVHTTP_OK;
    if (size == 1) return UVHTTP_E_WS_CLOSE;
    unsigned sent = (unsigned)(uint8_t)data[0] << 8 | (uint8_t)data[1];
    if (!uvhttp__ws_close_code_valid(sent)) return UVHTTP_E_WS_CLOSE;
    if (!uvhttp__utf8_valid(data + 2, size - 2)) return UVHTTP_E_WS_UTF8;
    *code = (uint16_t)sent;
    *reason = (uvhttp_str_t){data + 2, size - 2};
    return UVHTTP_OK;
}

size_t uvhttp__ws_write_close(char out[UVHTTP__WS_CONTROL_SIZE_MAX], uint16_t code, const char *reason,
                              size_t reason_size) {
    assert(reason_size <= UVHTTP__WS_REASON_SIZE_MAX);
    out[0] = (char)(code >> 8);
    out[1] = (char)(code & 0xff);
    if (reason_size > 0) memcpy(out + 2, reason, reason_size);
    return 2 + reason_size;
}
