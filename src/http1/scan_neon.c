/* Owns: the masks of 16 bytes at a time with NEON, which every 64-bit ARM processor has. */
#include "http1/scan.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define SCANNER_FN
#define WIDTH 16

typedef uint8x16_t vec_t;

static inline vec_t load_vec(const char *p) {
    return vld1q_u8((const uint8_t *)p);
}

static inline vec_t equals(vec_t v, char c) {
    return vceqq_u8(v, vdupq_n_u8((uint8_t)c));
}

/* NEON has no instruction for this: weigh the bytes by powers of two and add up each half. */
static inline uint64_t mask_of(vec_t v) {
    static const uint8_t weights[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    vec_t weighed = vandq_u8(v, vld1q_u8(weights));
    return vaddv_u8(vget_low_u8(weighed)) | (uint64_t)vaddv_u8(vget_high_u8(weighed)) << 8;
}

/* Zero where a byte is not in the set that the columns describe. A byte above 0x7f finds 0 in the row bits. */
static inline vec_t look_up(vec_t v, vec_t columns) {
    static const uint8_t row_bits[16] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80};
    return vandq_u8(vqtbl1q_u8(columns, vandq_u8(v, vdupq_n_u8(0x0f))),
                    vqtbl1q_u8(vld1q_u8(row_bits), vshrq_n_u8(v, 4)));
}

static inline line_bits_t lines_of(vec_t v) {
    return (line_bits_t){.lf = mask_of(equals(v, '\n')), .cr = mask_of(equals(v, '\r'))};
}

static inline uint64_t not_token_of(vec_t v) {
    static const char token_columns[16] = {TOKEN_COLUMNS};
    return mask_of(equals(look_up(v, load_vec(token_columns)), 0));
}

static inline uint64_t not_value_of(vec_t v) {
    vec_t control = vbicq_u8(vcleq_u8(v, vdupq_n_u8(0x1f)), equals(v, '\t'));
    return mask_of(vorrq_u8(control, equals(v, 0x7f)));
}

static inline uint64_t not_regname_of(vec_t v) {
    static const char regname_columns[16] = {REGNAME_COLUMNS};
    return mask_of(equals(look_up(v, load_vec(regname_columns)), 0));
}

static inline target_bits_t targets_of(vec_t v) {
    vec_t hidden = vcgtq_u8(vsubq_u8(v, vdupq_n_u8(0x21)), vdupq_n_u8(0x5d)); /* not in 0x21..0x7e */
    return (target_bits_t){.not_target = mask_of(vorrq_u8(hidden, equals(v, '#'))),
                           .question = mask_of(equals(v, '?')),
                           .percent = mask_of(equals(v, '%')),
                           .slash = mask_of(equals(v, '/')),
                           .dot = mask_of(equals(v, '.'))};
}

#include "http1/scan_impl.h"

const uvhttp__http1_scanner_t uvhttp__http1_scanner_neon = {
    .name = "neon",
    .scan = scan_head,
    .tokenize = tokenize_head,
    .plain_host = plain_host,
};

#endif
