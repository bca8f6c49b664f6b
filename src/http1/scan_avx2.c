/* Owns: the masks of 32 bytes at a time with AVX2. Compiled for every x86-64, used only where the processor has it. */
#include "http1/scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define SCANNER_FN __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define WIDTH 32

typedef __m256i vec_t;

SCANNER_FN static inline vec_t load_vec(const char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

SCANNER_FN static inline vec_t equals(vec_t v, char c) {
    return _mm256_cmpeq_epi8(v, _mm256_set1_epi8(c));
}

/* Bytes that are at most `max`, unsigned. */
SCANNER_FN static inline vec_t at_most(vec_t v, char max) {
    return _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(max)), v);
}

SCANNER_FN static inline uint64_t mask_of(vec_t v) {
    return (uint32_t)_mm256_movemask_epi8(v);
}

SCANNER_FN static inline line_bits_t lines_of(vec_t v) {
    return (line_bits_t){.lf = mask_of(equals(v, '\n')), .cr = mask_of(equals(v, '\r'))};
}

/* Zero where a byte is not in the set that the columns describe. A byte above 0x7f finds 0 in the columns: the shuffle
 * does that for an index with its highest bit set. */
SCANNER_FN static inline vec_t look_up(vec_t v, vec_t columns) {
    vec_t row = _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(0x0f));
    return _mm256_and_si256(_mm256_shuffle_epi8(columns, v),
                            _mm256_shuffle_epi8(_mm256_setr_epi8(ROW_BITS, ROW_BITS), row));
}

SCANNER_FN static inline uint64_t not_token_of(vec_t v) {
    return mask_of(equals(look_up(v, _mm256_setr_epi8(TOKEN_COLUMNS, TOKEN_COLUMNS)), 0));
}

SCANNER_FN static inline uint64_t not_value_of(vec_t v) {
    vec_t control = _mm256_andnot_si256(equals(v, '\t'), at_most(v, 0x1f));
    return mask_of(_mm256_or_si256(control, equals(v, 0x7f)));
}

SCANNER_FN static inline uint64_t not_regname_of(vec_t v) {
    return mask_of(equals(look_up(v, _mm256_setr_epi8(REGNAME_COLUMNS, REGNAME_COLUMNS)), 0));
}

SCANNER_FN static inline target_bits_t targets_of(vec_t v) {
    /* 0x00..0x20 wrap to 0xdf..0xff, so what is not in 0x21..0x7e is above 0x5d. */
    vec_t visible = at_most(_mm256_sub_epi8(v, _mm256_set1_epi8(0x21)), 0x5d);
    vec_t target = _mm256_andnot_si256(equals(v, '#'), visible);
    return (target_bits_t){.not_target = mask_of(equals(target, 0)),
                           .question = mask_of(equals(v, '?')),
                           .percent = mask_of(equals(v, '%')),
                           .slash = mask_of(equals(v, '/')),
                           .dot = mask_of(equals(v, '.'))};
}

#include "http1/scan_impl.h"

const uvhttp__http1_scanner_t uvhttp__http1_scanner_avx2 = {
    .name = "avx2",
    .scan = scan_head,
    .tokenize = tokenize_head,
    .plain_host = plain_host,
};

#endif
