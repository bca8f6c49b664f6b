/* Owns: looking at a field's bytes in large steps, and what can be said of a path: every request has one. Private to
 * src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_FIELD_PATH_H
#define UVHTTP_SRC_HTTP2_FIELD_PATH_H

#include <string.h>

#include "base/hot_path.h"
#include "http2/field.h"

typedef uint8_t uvhttp__field_vector_t __attribute__((vector_size(UVHTTP__FIELD_SLACK)));
typedef int8_t uvhttp__field_signed_t __attribute__((vector_size(UVHTTP__FIELD_SLACK)));

static inline uvhttp__field_vector_t uvhttp__field_load(const char *at) {
    uvhttp__field_vector_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    return bytes;
}

/* Which bytes of a comparison hold: one bit for each, the first one the lowest. */
static inline uint32_t uvhttp__field_bits(uvhttp__field_vector_t comparison) {
#ifdef __SSE2__
    typedef char vector_t __attribute__((vector_size(UVHTTP__FIELD_SLACK)));
    return (uint32_t)__builtin_ia32_pmovmskb128((vector_t)comparison);
#else
    uint64_t halves[2];
    memcpy(halves, &comparison, sizeof halves);
    uint32_t bits = 0;
    for (unsigned i = 0; i < 2; ++i) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        halves[i] = __builtin_bswap64(halves[i]);
#endif
        uint64_t lowest = halves[i] & UINT64_C(0x0101010101010101); /* of each byte */
        bits |= (uint32_t)(lowest * UINT64_C(0x0102040810204080) >> 56) << 8 * i;
    }
    return bits;
#endif
}

/* Whether one of the next bytes has no place in a plain path or its query, and which of them are '?'. */
static ALWAYS_INLINE bool uvhttp__field_is_odd_path(const char *path, uint32_t *questions) {
    uvhttp__field_vector_t bytes = uvhttp__field_load(path), before = uvhttp__field_load(path - 1);
    uvhttp__field_vector_t climbs =
        (uvhttp__field_vector_t)(before == '/') & (uvhttp__field_vector_t)((bytes | 1) == '/');
    /* Below '!' when signed: of those that a value has, space, HTAB and what is not ASCII. '!' and '\'' are looked at,
     * as '#' and '%' are. */
    uvhttp__field_vector_t others =
        (uvhttp__field_vector_t)((uvhttp__field_signed_t)bytes < '!') | (uvhttp__field_vector_t)((bytes & 0xf9) == '!');
    *questions = uvhttp__field_bits((uvhttp__field_vector_t)(bytes == '?'));
    return uvhttp__field_bits(climbs | others) != 0;
}

/* uvhttp__field_path_facts of one that is longer than a step. */
uint8_t uvhttp__field_long_path_facts(const char *path, size_t size, uint32_t *query);

/* The facts of a :path without a byte that no value has, and without whitespace at either end, in memory with
 * UVHTTP__FIELD_SLACK bytes more. *query: where its first '?' is, if the facts say that there is one. Good is a target
 * whose characters are all allowed in one, without '%', "//" and "/."; the byte before it is not '/'. Facts of 0 say
 * nothing. */
static ALWAYS_INLINE uint8_t uvhttp__field_path_facts(char *path, size_t size, uint32_t *query) {
    uint32_t questions;
    memset(path + size, 'a', UVHTTP__FIELD_SLACK);
    if (UNLIKELY(path[0] != '/')) return 0;
    if (UNLIKELY(size > UVHTTP__FIELD_SLACK)) return uvhttp__field_long_path_facts(path, size, query);
    if (UNLIKELY(uvhttp__field_is_odd_path(path, &questions))) return 0;
    if (questions == 0) return UVHTTP__HPACK_GOOD_PSEUDO;
    *query = (uint32_t)__builtin_ctz(questions);
    return UVHTTP__HPACK_GOOD_PSEUDO | UVHTTP__HPACK_QUERY;
}

#endif
