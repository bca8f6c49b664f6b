/* Owns: the masks of 16 bytes at a time with SSE4.2. Compiled for every x86-64, used only where the processor has it.
 */
#include "http1/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define SCANNER_FN __attribute__((target("sse4.2,popcnt")))
#define WIDTH 16

typedef __m128i vec_t;

SCANNER_FN static inline vec_t load_vec(const char *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

SCANNER_FN static inline vec_t equals(vec_t v, char c) {
    return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

/* Bytes that are at most `max`, unsigned. */
SCANNER_FN static inline vec_t at_most(vec_t v, char max) {
    return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(max)), v);
}

SCANNER_FN static inline uint64_t mask_of(vec_t v) {
    return (uint32_t)_mm_movemask_epi8(v);
}

SCANNER_FN static inline line_bits_t lines_of(vec_t v) {
    return (line_bits_t){.lf = mask_of(equals(v, '\n')), .cr = mask_of(equals(v, '\r'))};
}

/* Zero where a byte is not in the set that the columns describe. A byte above 0x7f finds 0 in the columns: the shuffle
 * does that for an index with its highest bit set. */
SCANNER_FN static inline vec_t look_up(vec_t v, vec_t columns) {
    vec_t row = _mm_and_si128(_mm_srli_epi16(v, 4), _mm_set1_epi8(0x0f));
    return _mm_and_si128(_mm_shuffle_epi8(columns, v), _mm_shuffle_epi8(_mm_setr_epi8(ROW_BITS), row));
}

SCANNER_FN static inline uint64_t not_token_of(vec_t v) {
    return mask_of(equals(look_up(v, _mm_setr_epi8(TOKEN_COLUMNS)), 0));
}

SCANNER_FN static inline uint64_t not_value_of(vec_t v) {
    vec_t control = _mm_andnot_si128(equals(v, '\t'), at_most(v, 0x1f));
    return mask_of(_mm_or_si128(control, equals(v, 0x7f)));
}

SCANNER_FN static inline uint64_t not_regname_of(vec_t v) {
    return mask_of(equals(look_up(v, _mm_setr_epi8(REGNAME_COLUMNS)), 0));
}

SCANNER_FN static inline target_bits_t targets_of(vec_t v) {
    /* 0x00..0x20 wrap to 0xdf..0xff, so what is not in 0x21..0x7e is above 0x5d. */
    vec_t visible = at_most(_mm_sub_epi8(v, _mm_set1_epi8(0x21)), 0x5d);
    vec_t target = _mm_andnot_si128(equals(v, '#'), visible);
    return (target_bits_t){.not_target = mask_of(equals(target, 0)),
                           .question = mask_of(equals(v, '?')),
                           .percent = mask_of(equals(v, '%')),
                           .slash = mask_of(equals(v, '/')),
                           .dot = mask_of(equals(v, '.'))};
}

#include "http1/scan_impl.h"

const uvhttp__http1_scanner_t uvhttp__http1_scanner_sse42 = {
    .name = "sse4.2",
    .scan = scan_head,
    .tokenize = tokenize_head,
    .plain_host = plain_host,
};

#endif
