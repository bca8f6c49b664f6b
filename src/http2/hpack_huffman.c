/* Owns: the Huffman code of strings (RFC 7541 section 5.2). It is canonical: the lengths of the codes say all. Decoding
 * looks at 12 bits at once, which are one or two characters. May include: base. */
#include "http2/hpack_huffman.h"

#include <string.h>

#include "base/chars.h"
#include "base/hot.h"
#include "http2/hpack_static.h"

enum {
    SYMBOLS = 257, /* the last is EOS */
    EOS = 256,
    LENGTH_MAX = 30,
    STEP_BITS = 12,
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

/* What STEP_BITS bits begin with: up to two characters. No character: a code that is longer, or the padding. */
typedef struct step {
    char text[2];
    uint8_t count;
    uint8_t bits; /* LONG_CODE: count is 0 */
} step_t;

/* More bits than a text of SHORT_MAX bytes has, which is how such a code is noticed. */
enum { LONG_CODE = 255, SHORT_MAX = LONG_CODE / 8 };

static step_t steps[1 << STEP_BITS]; /* by the complement of the bits */
static uint32_t codes[SYMBOLS];      /* right-aligned */
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

void uvhttp__hpack_prepare_huffman(void) {
    make_codes();
    for (uint32_t index = 0; index < 1 << STEP_BITS; ++index) {
        step_t step = {.count = 0};
        uint32_t rest = ~index << (32 - STEP_BITS);
        for (; step.count < 2; ++step.count) {
            unsigned symbol = find_symbol(rest);
            if (step.bits + lengths[symbol] > STEP_BITS) break;
            step.text[step.count] = (char)symbol;
            step.bits = (uint8_t)(step.bits + lengths[symbol]);
            rest <<= lengths[symbol];
        }
        if (step.count == 0) step.bits = LONG_CODE;
        steps[index] = step;
    }
}

/* --- decoding --- */

/* Bits are held complemented: the zeros that are shifted in are the ones of the padding. */
static inline uint64_t load_big(const uint8_t *in) {
    uint64_t bits;
    memcpy(&bits, in, sizeof bits);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return ~bits;
}

/* Of 1 to 7 bytes. */
static inline uint64_t load_few(const uint8_t *in, size_t size) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size; ++i) bits = bits << 8 | (uint8_t)~in[i];
    return size > 0 ? bits << (64 - 8 * size) : 0;
}

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
        const step_t *step = &steps[bits >> (64 - STEP_BITS)];
        unsigned symbol = step->count > 0 ? (uint8_t)step->text[0] : find_symbol((uint32_t)(~bits >> 32));
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

#define DECODE_STEP()                                                                                                  \
    do {                                                                                                               \
        const step_t *step = &steps[bits >> (64 - STEP_BITS)];                                                         \
        memcpy(at, step->text, sizeof step->text);                                                                     \
        at += step->count;                                                                                             \
        position += step->bits;                                                                                        \
        bits <<= step->bits & 63;                                                                                      \
    } while (0)

/* At least 57 bits, of which four steps take 48. */
#define DECODE_STEPS()                                                                                                 \
    do {                                                                                                               \
        bits = load_big(in + position / 8) << position % 8;                                                            \
        DECODE_STEP();                                                                                                 \
        DECODE_STEP();                                                                                                 \
        DECODE_STEP();                                                                                                 \
        DECODE_STEP();                                                                                                 \
    } while (0)

/* More than SHORT_MAX bytes. */
static NOINLINE uvhttp__huffman_text_t decode_long(const uint8_t *in, size_t size, char *out) {
    const size_t last = 8 * (size - 8); /* loads that start before this bit stay inside */
    size_t position = 0, before;
    char *at = out, *at_before;
    uint64_t bits;
    do {
        before = position;
        at_before = at;
        DECODE_STEPS();
        if (UNLIKELY(position - before > 4 * STEP_BITS)) return decode_rest(in, size, before, at_before);
    } while (position < last);
    before = position;
    at_before = at;
    bits = load_big(in + size - 8) << (position - last);
    while (bits != 0) DECODE_STEP();
    if (LIKELY(8 * size - position < 8)) return (uvhttp__huffman_text_t){.end = at};
    return decode_rest(in, size, before, at_before);
}

UVHTTP__HOT char *uvhttp__huffman_decode_usual(const uint8_t *in, size_t size, char *out) {
    size_t position = 0;
    char *at = out;
    uint64_t bits;
    if (LIKELY(size >= 8)) {
        const size_t last = 8 * (size - 8);
        if (UNLIKELY(size > SHORT_MAX)) {
            uvhttp__huffman_text_t text = decode_long(in, size, out);
            return text.odd ? NULL : text.end;
        }
        while (position < last) DECODE_STEPS();
        bits = load_big(in + size - 8) << ((position - last) & 63);
    } else {
        bits = load_few(in, size);
    }
    while (bits != 0) DECODE_STEP();
    return LIKELY(8 * size - position < 8) ? at : NULL;
}

uvhttp__huffman_text_t uvhttp__huffman_decode(const uint8_t *in, size_t size, char *out) {
    if (size > SHORT_MAX) return decode_long(in, size, out);
    char *end = uvhttp__huffman_decode_usual(in, size, out);
    if (LIKELY(end != NULL)) return (uvhttp__huffman_text_t){.end = end};
    return decode_rest(in, size, 0, out);
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
