/* Owns: the Huffman code of strings (RFC 7541 section 5.2). It is canonical: the lengths of the codes say all. Decoding
 * looks at 12 bits at once, which are one or two characters. May include: base. */
#include "http2/hpack_huffman.h"

#include "base/chars.h"
#include "http2/hpack_static.h"

enum {
    SYMBOLS = 257, /* the last is EOS */
    EOS = 256,
    LENGTH_MAX = 30,
    STEP_BITS = UVHTTP__HUFFMAN_STEP_BITS,
};

/* clang-format off */
static const uint8_t lengths[SYMBOLS] = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, /* 0x00 */
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, /* 0x10 */
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, /* 0x20 */
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, /* 0x30 */
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, /* 0x40 */
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, /* 0x50 */
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, /* 0x60 */
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, /* 0x70 */
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, /* 0x80 */
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, /* 0x90 */
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, /* 0xa0 */
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, /* 0xb0 */
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, /* 0xc0 */
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, /* 0xd0 */
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, /* 0xe0 */
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, /* 0xf0 */
    30,                                                             /* EOS */
};
/* clang-format on */

uvhttp__huffman_step_t uvhttp__huffman_steps[1 << STEP_BITS];
static uint32_t codes[SYMBOLS]; /* right-aligned */
/* By length: the first code, aligned to the left of 32 bits; how many are shorter; and all symbols in that order. */
static uint32_t first_codes[LENGTH_MAX + 2];
static uint16_t shorter[LENGTH_MAX + 2];
static uint16_t sorted[SYMBOLS];

static void make_codes(void) {
    uint32_t code = 0;
    uint16_t count = 0;
    for (unsigned length = 1; length <= LENGTH_MAX; ++length, code <<= 1) {
        first_codes[length] = code << (32 - length);
        shorter[length] = count;
        for (unsigned symbol = 0; symbol < SYMBOLS; ++symbol) {
            if (lengths[symbol] != length) continue;
            codes[symbol] = code++;
            sorted[count++] = (uint16_t)symbol;
        }
    }
    first_codes[LENGTH_MAX + 1] = UINT32_MAX;
}

/* The symbol that the left of `bits` begins with. */
static unsigned find_symbol(uint32_t bits) {
    unsigned length = 5;
    while (length < LENGTH_MAX && bits >= first_codes[length + 1]) ++length;
    return sorted[shorter[length] + ((bits - first_codes[length]) >> (32 - length))];
}

static uvhttp__huffman_step_t make_step(uint32_t rest) {
    uvhttp__huffman_step_t step = {.count = 0};
    for (; step.count < sizeof step.text; ++step.count) {
        unsigned symbol = find_symbol(rest);
        if (step.bits + lengths[symbol] > STEP_BITS) break;
        step.text[step.count] = (char)symbol;
        step.bits = (uint8_t)(step.bits + lengths[symbol]);
        rest <<= lengths[symbol];
    }
    if (step.count == 0) step.bits = UVHTTP__HUFFMAN_LONG_CODE;
    return step;
}

void uvhttp__hpack_prepare_huffman(void) {
    make_codes();
    for (uint32_t index = 0; index < 1 << STEP_BITS; ++index)
        uvhttp__huffman_steps[index] = make_step(~index << (32 - STEP_BITS));
}

/* --- decoding --- */

/* The text from bit `position` on, one character at a time. out NULL: it is only counted. Returns false for a fault. */
static bool decode_each(const uint8_t *in, size_t size, size_t position, char *out, size_t *count, bool *odd) {
    size_t at = position / 8, end = 8 * size;
    uint64_t bits = 0;
    unsigned have = 0;
    *count = 0;
    *odd = false;
    if (position % 8 != 0) {
        have = 8 - (unsigned)(position % 8);
        bits = (uint64_t)(uint8_t)~in[at++] << (64 - have);
    }
    for (;;) {
        for (; have <= 56 && at < size; have += 8) bits |= (uint64_t)(uint8_t)~in[at++] << (56 - have);
        unsigned symbol = find_symbol((uint32_t)(~bits >> 32));
        position += lengths[symbol];
        if (symbol == EOS || position > end) return symbol == EOS && have < 8;
        bits <<= lengths[symbol];
        have -= lengths[symbol];
        *odd |= !uvhttp__char_is((char)symbol, UVHTTP__CHAR_VALUE);
        if (out) out[*count] = (char)symbol;
        ++*count;
    }
}

static NOINLINE uvhttp__huffman_text_t decode_rest(const uint8_t *in, size_t size, size_t position, char *out) {
    uvhttp__huffman_text_t text;
    size_t count;
    bool good = decode_each(in, size, position, out, &count, &text.odd);
    text.end = good ? out + count : NULL;
    return text;
}

uvhttp__huffman_text_t uvhttp__huffman_decode(const uint8_t *in, size_t size, char *out) {
    uvhttp__huffman_place_t place = {0, out};
    if (LIKELY(uvhttp__huffman_decode_short(in, size, &place))) return (uvhttp__huffman_text_t){.end = place.out};
    return decode_rest(in, size, place.position, place.out);
}

bool uvhttp__huffman_measure(const uint8_t *in, size_t size, size_t *out_size) {
    bool odd;
    return decode_each(in, size, 0, NULL, out_size, &odd);
}

/* --- encoding --- */

size_t uvhttp__huffman_size(const char *text, size_t size) {
    size_t bits = 0;
    for (size_t i = 0; i < size; ++i) bits += lengths[(uint8_t)text[i]];
    return (bits + 7) / 8;
}

uint8_t *uvhttp__huffman_encode(const char *text, size_t size, uint8_t *out) {
    uint64_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < size; ++i) {
        unsigned symbol = (uint8_t)text[i];
        bits = bits << lengths[symbol] | codes[symbol];
        for (have += lengths[symbol]; have >= 8; have -= 8) *out++ = (uint8_t)(bits >> (have - 8));
    }
    if (have > 0) *out++ = (uint8_t)(bits << (8 - have) | 0xffu >> have);
    return out;
}
