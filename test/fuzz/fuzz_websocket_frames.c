/* Owns: fuzzing of the WebSocket frame parser (libFuzzer). Every input is parsed whole and split, from heap
 * blocks of the exact size; frames, payloads and the end must agree, the frames written anew must be those that were
 * read, and text must be judged alike however it is cut. Input: a byte for the number of cuts (its highest bit:
 * compressed messages are allowed), that many bytes for the places, the frames. */
/* Needs: websocket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "websocket/frame.h"

enum { CUTS_MAX = 8 };

typedef struct outcome {
    int code;
    size_t consumed;
    size_t size;        /* of `bytes` */
    char *bytes;        /* the frames, unmasked, their heads in the shortest form */
    uint64_t open_size; /* payload that the last frame lacks */
    bool text_good;     /* all payloads together are the beginning of a UTF-8 text */
    uvhttp__utf8_t utf8;
} outcome_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_websocket_frames: %s\n", what);
    abort();
}

static void take(const uvhttp__ws_piece_t *piece, outcome_t *out) {
    if (piece->first) {
        if (uvhttp__ws_is_control(piece->opcode) && (!piece->fin || piece->frame_size > UVHTTP__WS_CONTROL_SIZE_MAX))
            die("a control frame that is none");
        if (piece->compressed && (piece->opcode == UVHTTP__WS_CONTINUATION || uvhttp__ws_is_control(piece->opcode)))
            die("a compressed frame that cannot be one");
        out->open_size = piece->frame_size;
        out->size += uvhttp__ws_write_head(out->bytes + out->size, piece->fin,
                                           piece->compressed ? piece->opcode | UVHTTP__WS_COMPRESSED : piece->opcode,
                                           piece->frame_size);
    }
    if (piece->size > out->open_size) die("more payload than the frame has");
    out->open_size -= piece->size;
    if (piece->last != (out->open_size == 0)) die("the end of a frame is not where its length says");
    if (piece->size > 0) memcpy(out->bytes + out->size, piece->data, piece->size);
    out->size += piece->size;
    out->text_good = out->text_good && uvhttp__utf8_take(&out->utf8, piece->data, piece->size);
    if (piece->opcode == UVHTTP__WS_CLOSE && piece->first && piece->last) {
        uint16_t code;
        uvhttp_str_t reason;
        if (uvhttp__ws_read_close(piece->data, piece->size, &code, &reason) == UVHTTP_OK &&
            code != UVHTTP__WS_CLOSE_NO_CODE && !uvhttp__ws_close_code_valid(code))
            die("a close code that is not allowed");
    }
}

/* Parses one piece of input; true if more is wanted. */
static bool parse(uvhttp__ws_parser_t *parser, const char *data, size_t size, outcome_t *out) {
    char *copy = malloc(size > 0 ? size : 1);
    if (copy == NULL) abort();
    if (size > 0) memcpy(copy, data, size);
    size_t at = 0;
    for (;;) {
        uvhttp__ws_piece_t piece;
        size_t consumed;
        out->code = uvhttp__ws_parse(parser, copy + at, size - at, &consumed, &piece);
        if (consumed > size - at) die("more consumed than there is");
        at += consumed;
        out->consumed += consumed;
        if (out->code != UVHTTP_OK) break;
        if (piece.data < copy || piece.data + piece.size > copy + size) die("a payload outside of the input");
        take(&piece, out);
    }
    if (out->code == UVHTTP_E_AGAIN && at != size) die("more wanted, and not all taken");
    free(copy);
    return out->code == UVHTTP_E_AGAIN;
}

static void run(const char *data, size_t size, const uint8_t *cuts, size_t cut_count, uint8_t allowed, outcome_t *out) {
    uvhttp__ws_parser_t parser = {.allowed = allowed};
    *out = (outcome_t){.code = UVHTTP_E_AGAIN, .text_good = true, .bytes = malloc(2 * size + 16)};
    if (out->bytes == NULL) abort();
    size_t seen = 0;
    for (size_t i = 0; i <= cut_count; ++i) {
        size_t next = i == cut_count ? size : size * cuts[i] / 256;
        if (next < seen) continue;
        if (!parse(&parser, data + seen, next - seen, out)) break;
        seen = next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    size_t cut_count = input[0] % (CUTS_MAX + 1);
    if (input_size < 1 + cut_count) return 0;
    const char *data = (const char *)input + 1 + cut_count;
    size_t size = input_size - 1 - cut_count;
    outcome_t whole, cut;
    uint8_t allowed = input[0] & 0x80 ? UVHTTP__WS_COMPRESSED : 0;
    run(data, size, NULL, 0, allowed, &whole);
    run(data, size, input + 1, cut_count, allowed, &cut);
    if (whole.code != cut.code || whole.consumed != cut.consumed) die("results differ");
    if (whole.size != cut.size || memcmp(whole.bytes, cut.bytes, whole.size) != 0) die("frames differ");
    if (whole.text_good != cut.text_good) die("texts differ");
    if (whole.text_good && memcmp(&whole.utf8, &cut.utf8, sizeof whole.utf8) != 0) die("ends of texts differ");
    free(whole.bytes);
    free(cut.bytes);
    return 0;
}
