/* Owns: WebSocket frames as a client writes and reads them. May include: base. */
#include "load/ws_frame.h"

#include <string.h>

enum { FIN = 0x80, MASKED = 0x80, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

/* One for all: it has to differ from zero so that the server has its work, and nobody is to be surprised. */
static const char mask[4] = {0x37, (char)0xfa, 0x21, 0x3d};

void load_ws_mask(char *data, size_t size) {
    for (size_t i = 0; i < size; i++) data[i] = (char)(data[i] ^ mask[i % 4]);
}

static size_t write_head(char *out, int opcode, size_t size) {
    size_t at = 2;
    out[0] = (char)(FIN | opcode);
    if (size < 126) {
        out[1] = (char)(MASKED | size);
    } else {
        unsigned bytes = size < 65536 ? 2 : 8;
        out[1] = (char)(MASKED | (bytes == 2 ? 126 : 127));
        while (bytes-- > 0) out[at++] = (char)((uint64_t)size >> 8 * bytes);
    }
    memcpy(out + at, mask, sizeof mask);
    return at + sizeof mask;
}

size_t load_ws_write_head(char out[LOAD_WS_HEAD_MAX], size_t payload_size) {
    return write_head(out, TEXT, payload_size);
}

size_t load_ws_write_pong(char out[LOAD_WS_HEAD_MAX + LOAD_WS_CONTROL_MAX], const char *data, size_t size) {
    size_t head = write_head(out, PONG, size);
    memcpy(out + head, data, size);
    load_ws_mask(out + head, size);
    return head + size;
}

/* How long the head is, as far as its bytes so far say. */
static size_t head_size(const load_ws_reader_t *reader) {
    if (reader->head_size < 2) return 2;
    unsigned length = reader->head[1] & 127u;
    return length < 126 ? 2 : length == 126 ? 4 : 10;
}

static int check_head(load_ws_reader_t *reader) {
    unsigned opcode = reader->head[0] & 15u, length = reader->head[1] & 127u;
    bool fin = reader->head[0] & FIN, control = opcode >= CLOSE;
    if ((reader->head[0] & 0x70) || (reader->head[1] & MASKED)) return UVHTTP_E_WS_RESERVED;
    if (opcode > PONG || (opcode > BINARY && opcode < CLOSE)) return UVHTTP_E_WS_RESERVED;
    if (control && (!fin || length > LOAD_WS_CONTROL_MAX)) return UVHTTP_E_WS_CONTROL;
    if (!control && (opcode == 0) != reader->in_message) return UVHTTP_E_WS_CONTINUATION;
    uint64_t size = length;
    if (length >= 126) {
        size = 0;
        for (size_t i = 2; i < head_size(reader); i++) size = size << 8 | reader->head[i];
        if (size < (length == 126 ? 126u : 65536u) || size > INT64_MAX) return UVHTTP_E_WS_LENGTH;
    }
    reader->left = size;
    reader->in_payload = true;
    reader->control_size = 0;
    if (!control) reader->in_message = !fin;
    return 0;
}

static int take_control(load_ws_reader_t *reader, const char *data, size_t size, load_ws_piece_t *piece) {
    memcpy(reader->control + reader->control_size, data, size);
    reader->control_size = (uint8_t)(reader->control_size + size);
    if (reader->left > 0) return UVHTTP_E_AGAIN;
    unsigned opcode = reader->head[0] & 15u;
    piece->kind = opcode == PING ? LOAD_WS_PING : opcode == PONG ? LOAD_WS_PONG : LOAD_WS_CLOSE;
    piece->data = reader->control;
    piece->size = reader->control_size;
    return 0;
}

static int take_payload(load_ws_reader_t *reader, const char *data, size_t size, size_t *consumed,
                        load_ws_piece_t *piece) {
    size_t take = reader->left < size ? (size_t)reader->left : size;
    *consumed += take;
    reader->left -= take;
    bool ended = reader->left == 0;
    if (ended) {
        reader->in_payload = false;
        reader->head_size = 0;
    }
    if ((reader->head[0] & 15u) >= CLOSE) return take_control(reader, data, take, piece);
    if (take == 0 && !ended) return UVHTTP_E_AGAIN;
    piece->kind = ended && (reader->head[0] & FIN) ? LOAD_WS_MESSAGE_END : LOAD_WS_DATA;
    piece->data = data;
    piece->size = take;
    return 0;
}

int load_ws_read(load_ws_reader_t *reader, const char *data, size_t size, size_t *consumed, load_ws_piece_t *piece) {
    *consumed = 0;
    while (!reader->in_payload) {
        if (*consumed == size) return UVHTTP_E_AGAIN;
        reader->head[reader->head_size++] = (uint8_t)data[(*consumed)++];
        if (reader->head_size < head_size(reader)) continue;
        int code = check_head(reader);
        if (code != 0) return code;
    }
    return take_payload(reader, data + *consumed, size - *consumed, consumed, piece);
}
