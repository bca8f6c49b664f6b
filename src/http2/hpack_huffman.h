/* Owns: the Huffman code of strings (RFC 7541 section 5.2). After uvhttp__hpack_prepare. Private to src/http2. May
 * include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_HUFFMAN_H
#define UVHTTP_SRC_HTTP2_HPACK_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hot_path.h"

/* The most characters that `size` bytes can be, and what a decoder may write behind them. */
#define UVHTTP__HUFFMAN_DECODED_MAX(size) ((size)*8 / 5)
#define UVHTTP__HUFFMAN_SLACK 32

/* A text that was decoded. */
typedef struct uvhttp__huffman_text {
    char *end; /* NULL: EOS, or padding that is longer than 7 bits or not of ones */
    bool odd;  /* there is a character that no field value has */
} uvhttp__huffman_text_t;

/* Decodes into out, which has UVHTTP__HUFFMAN_DECODED_MAX(size) + UVHTTP__HUFFMAN_SLACK bytes. */
uvhttp__huffman_text_t uvhttp__huffman_decode(const uint8_t *in, size_t size, char *out);

/* The same without the text. */
bool uvhttp__huffman_measure(const uint8_t *in, size_t size, size_t *out_size);

/* Bytes that the encoded text has. */
size_t uvhttp__huffman_size(const char *text, size_t size);

/* Writes those, and returns the end. */
uint8_t *uvhttp__huffman_encode(const char *text, size_t size, uint8_t *out);

/* --- texts whose characters have short codes, as those of most field values --- */

enum { UVHTTP__HUFFMAN_STEP_BITS = 12 };

/* What so many bits begin with: one or two characters. No character: a code that is longer, or the padding. */
typedef struct uvhttp__huffman_step {
    char text[2];
    uint8_t count;
    uint8_t bits; /* that they have; UVHTTP__HUFFMAN_LONG_CODE */
} uvhttp__huffman_step_t;

/* Takes 63 bits from those that are left. Added up modulo 256, one to four of them are more than four steps have, and
 * one is more than is left. */
#define UVHTTP__HUFFMAN_LONG_CODE 191

extern uvhttp__huffman_step_t uvhttp__huffman_steps[1 << UVHTTP__HUFFMAN_STEP_BITS]; /* by the complement of the bits */

static ALWAYS_INLINE char *uvhttp__huffman_take(uint64_t *bits, uint8_t *consumed, char *out) {
    const uvhttp__huffman_step_t *step = &uvhttp__huffman_steps[*bits >> (64 - UVHTTP__HUFFMAN_STEP_BITS)];
    memcpy(out, step->text, sizeof step->text);
    out += step->count;
    *consumed = (uint8_t)(*consumed + step->bits);
    *bits <<= step->bits & 63;
    return out;
}

/* Bits are held complemented: the zeros that are shifted in are the ones of the padding. */
static ALWAYS_INLINE uint64_t uvhttp__huffman_load(const uint8_t *in) {
    uint64_t bits;
    memcpy(&bits, in, sizeof bits);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return ~bits;
}

/* Of 0 to 7 bytes. */
static inline uint64_t uvhttp__huffman_load_few(const uint8_t *in, size_t size) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size; ++i) bits = bits << 8 | (uint8_t)~in[i];
    return size > 0 ? bits << (64 - 8 * size) : 0;
}

/* How far a decoder is: a character ends there. */
typedef struct uvhttp__huffman_place {
    size_t position; /* bits */
    char *out;
} uvhttp__huffman_place_t;

/* As uvhttp__huffman_decode, from the start: out is written to place->out. True: place->out is the end. False: there is
 * a long code or a fault behind *place, and something may have been written there. */
static ALWAYS_INLINE bool uvhttp__huffman_decode_short(const uint8_t *in, size_t size, uvhttp__huffman_place_t *place) {
    size_t position = 0, last = 8 * (size - 8); /* loads that start before this bit stay inside */
    char *out = place->out;
    uint64_t bits;
    uint8_t consumed = 0;
    place->position = 0;
    if (LIKELY(size >= 8)) {
        for (; position < last; consumed = 0) { /* at least 57 bits, of which four steps take 48 */
            bits = uvhttp__huffman_load(in + position / 8) << position % 8;
            out = uvhttp__huffman_take(&bits, &consumed, out);
            out = uvhttp__huffman_take(&bits, &consumed, out);
            out = uvhttp__huffman_take(&bits, &consumed, out);
            out = uvhttp__huffman_take(&bits, &consumed, out);
            if (UNLIKELY(consumed > 4 * UVHTTP__HUFFMAN_STEP_BITS)) return false;
            position += consumed;
            *place = (uvhttp__huffman_place_t){position, out};
        }
        bits = uvhttp__huffman_load(in + size - 8) << ((position - last) & 63);
    } else {
        bits = uvhttp__huffman_load_few(in, size);
    }
    while (bits != 0) out = uvhttp__huffman_take(&bits, &consumed, out);
    bool good = 8 * size - position - consumed < 8;
    if (LIKELY(good)) place->out = out;
    return good;
}

#endif
