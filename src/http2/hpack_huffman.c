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

/* What STEP_BITS bits begin with: up to two characters, in the order of memory. count 0: a code that is longer. */
typedef struct step {
    uint16_t text;
    uint8_t bits;
    uint8_t count;
} step_t;

static step_t steps[1 << STEP_BITS];
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

void uvhttp__hpack_prepare_huffman(void) {
    make_codes();
    for (uint32_t index = 0; index < 1 << STEP_BITS; ++index) {
        step_t step = {.count = 0};
        uint32_t rest = index << (32 - STEP_BITS);
        for (; step.count < 2; ++step.count) {
            unsigned symbol = find_symbol(rest);
            if (step.bits + lengths[symbol] > STEP_BITS) break;
            memcpy((char *)&step.text + step.count, &(char){(char)symbol}, 1);
            step.bits = (uint8_t)(step.bits + lengths[symbol]);
            rest <<= lengths[symbol];
        }
        steps[index] = step;
    }
}

/* --- decoding --- */

static inline uint64_t load_big(const uint8_t *in) {
    uint64_t bits;
    memcpy(&bits, in, sizeof bits);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return bits;
}

static inline uint64_t load_bits(const uint8_t *in, size_t position) {
    return load_big(in + position / 8) << position % 8;
}

/* A text being decoded. */
typedef struct decoding {
    size_t position; /* in bits */
    char *out;
    size_t count; /* of characters, if out is NULL */
    bool odd;     /* a character that no field value has */
} decoding_t;

/* A load brings at least 57 bits, and four steps take 48. */
#define DECODE_STEP()                                                                                                  \
    do {                                                                                                               \
        const step_t *step = &steps[bits >> (64 - STEP_BITS)];                                                         \
        memcpy(out, &step->text, sizeof step->text);                                                                   \
        bits <<= step->bits;                                                                                           \
        position += step->bits;                                                                                        \
        count = step->count;                                                                                           \
        out += count;                                                                                                  \
    } while (0)

/* Decodes the codes that start before bit `end`; behind bit `end` there are at least 71 bits. True: go on after a code
 * that is too long for a step. */
static ALWAYS_INLINE bool decode_steps(const uint8_t *in, decoding_t *at, size_t end) {
    size_t position = at->position;
    char *out = at->out;
    while (LIKELY(position < end)) {
        uint64_t bits = load_bits(in, position);
        size_t count;
        DECODE_STEP(); /* a step of no character is followed by others like it */
        DECODE_STEP();
        DECODE_STEP();
        DECODE_STEP();
        if (UNLIKELY(count == 0)) break;
    }
    at->position = position;
    at->out = out;
    return position < end;
}

/* One code of more than STEP_BITS bits. Returns false for EOS. */
static NOINLINE bool decode_long(const uint8_t *in, decoding_t *at) {
    unsigned symbol = find_symbol((uint32_t)(load_bits(in, at->position) >> 32));
    if (symbol == EOS) return false;
    at->position += lengths[symbol];
    at->odd |= !uvhttp__char_is((char)symbol, UVHTTP__CHAR_VALUE);
    *at->out++ = (char)symbol;
    return true;
}

/* The last bytes, with ones behind them, which are a prefix of nothing but EOS. */
enum { TAIL_MAX = 16, TAIL_PADDING = 16 };

/* memcpy of up to TAIL_MAX bytes, without a call. */
static ALWAYS_INLINE void copy_tail(uint8_t *out, const uint8_t *in, size_t size) {
    if (size >= 8) {
        memcpy(out + size - 8, in + size - 8, 8);
        memcpy(out, in, 8);
    } else if (size >= 4) {
        memcpy(out + size - 4, in + size - 4, 4);
        memcpy(out, in, 4);
    } else {
        for (size_t i = 0; i < size; ++i) out[i] = in[i];
    }
}

static NOINLINE bool decode_any(const uint8_t *in, size_t size, char *out, size_t *out_size, bool *odd) {
    decoding_t at;
    at.position = 0;
    at.out = out;
    at.odd = false;
    size_t body = size > TAIL_MAX ? size - TAIL_MAX + 7 : 0; /* loads from before `body` stay inside */
    while (body > 0 && decode_steps(in, &at, body * 8))
        if (!decode_long(in, &at)) return false;
    uint8_t tail[TAIL_MAX + TAIL_PADDING];
    size_t skipped = at.position / 8, rest = size - skipped;
    memset(tail, 0xff, sizeof tail);
    copy_tail(tail, in + skipped, rest);
    at.position -= skipped * 8;
    size_t end = rest * 8;
    while (decode_steps(tail, &at, end)) {
        /* Ones up to the end are padding, and EOS if there are too many. */
        if (load_bits(tail, at.position) >> (64 - 30) == (1u << 30) - 1) {
            if (end - at.position >= 8) return false;
            at.position = end;
        } else if (!decode_long(tail, &at)) {
            return false;
        }
    }
    *out_size = (size_t)(at.out - out);
    *odd = at.odd;
    return at.position <= end;
}

/* 8 to 16 bytes, which two registers hold with ones behind them. False says nothing: there is a code that is longer
 * than a step, or a fault. */
static ALWAYS_INLINE bool decode_short(const uint8_t *in, size_t size, char *out, size_t *out_size) {
    char *const start = out;
    size_t position = 0, count = 1, end = 8 * size, half = 4 * (size - 8); /* of the bits of `more` */
    uint64_t bits = load_big(in), more = load_big(in + size - 8) << (32 - half) << (32 - half);
    more |= UINT64_MAX >> half >> half;
    DECODE_STEP();
    DECODE_STEP();
    DECODE_STEP();
    DECODE_STEP();
    DECODE_STEP();
    if (UNLIKELY(position == 0)) return false;
    bits |= more >> (64 - position); /* at most 60 are used */
    more <<= position;
    for (unsigned left = 5; position < end && count > 0 && left > 0; --left) DECODE_STEP();
    *out_size = (size_t)(out - start);
    size_t padding = end - position;
    return padding < 8 && (padding == 0 || bits >> (64 - padding) == (1u << padding) - 1);
}

UVHTTP__HOT bool uvhttp__huffman_decode(const uint8_t *in, size_t size, char *out, size_t *out_size, bool *odd) {
    *odd = false;
    if (LIKELY(size - 8 <= 8) && LIKELY(decode_short(in, size, out, out_size))) return true;
    return decode_any(in, size, out, out_size, odd);
}

/* Without output, for what is too large to be kept: one symbol at a time. */
bool uvhttp__huffman_measure(const uint8_t *in, size_t size, size_t *out_size) {
    uint64_t bits = 0;
    unsigned have = 0;
    size_t count = 0, at = 0;
    for (;;) {
        while (have <= 56 && at < size) {
            bits |= (uint64_t)in[at++] << (56 - have);
            have += 8;
        }
        /* Ones behind the end. */
        uint64_t padded = have < 64 ? bits | UINT64_MAX >> have : bits;
        unsigned symbol = find_symbol((uint32_t)(padded >> 32));
        if (symbol == EOS || lengths[symbol] > have) {
            *out_size = count;
            return symbol == EOS && have < 8 && at == size;
        }
        bits <<= lengths[symbol];
        have -= lengths[symbol];
        ++count;
    }
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
