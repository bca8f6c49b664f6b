/* Owns: operations on uvhttp_str_t: compare, trim, split lists, parse and write numbers, percent-decode. May include:
 * load. */
#ifndef UVHTTP_SRC_BASE_STR_H
#define UVHTTP_SRC_BASE_STR_H

#include <assert.h>
#include <string.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

#include "base/load.h"

/* A literal as a view: UVHTTP__STR("close"). UVHTTP__STR_INIT is for static initialisers. */
#define UVHTTP__STR_INIT(literal)                                                                                      \
    { "" literal, sizeof(literal) - 1 }
#define UVHTTP__STR(literal) ((uvhttp_str_t)UVHTTP__STR_INIT(literal))

/* ASCII upper case to lower case, every other byte as it is. */
extern const uint8_t uvhttp__lower[256];

static inline char uvhttp__char_lower(char c) {
    return (char)uvhttp__lower[(uint8_t)c];
}

static inline char uvhttp__char_upper(char c) {
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* In place. */
static inline void uvhttp__text_lower(char *text) {
    for (; *text; text++) *text = uvhttp__char_lower(*text);
}

static inline uvhttp_str_t uvhttp__str_from(const char *text) {
    return (uvhttp_str_t){text, text ? strlen(text) : 0};
}

static inline bool uvhttp__str_equal(uvhttp_str_t a, uvhttp_str_t b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Eight bytes at once: sets bit 5 of the bytes 'A'..'Z'. A byte above 127 is never changed. */
static inline uint64_t uvhttp__fold8(uint64_t bytes) {
    const uint64_t ones = 0x0101010101010101u;
    uint64_t low7 = bytes & (0x7f * ones);
    uint64_t from_a = low7 + (0x80 - 'A') * ones; /* bit 7: at least 'A' */
    uint64_t past_z = low7 + (0x7f - 'Z') * ones; /* bit 7: more than 'Z' */
    uint64_t upper = ~bytes & (from_a ^ past_z) & (0x80 * ones);
    return bytes | upper >> 2;
}

/* Whether `size` bytes are equal when the case of ASCII letters is ignored. */
static inline bool uvhttp__bytes_equal_nocase(const char *a, const char *b, size_t size) {
    if (size >= 8) {
        for (size_t i = 0; i + 8 < size; i += 8)
            if (uvhttp__fold8(uvhttp__load64(a + i)) != uvhttp__fold8(uvhttp__load64(b + i))) return false;
        /* The last eight overlap what was compared before. */
        return uvhttp__fold8(uvhttp__load64(a + size - 8)) == uvhttp__fold8(uvhttp__load64(b + size - 8));
    }
    if (size >= 4) {
        uint64_t x = uvhttp__load32(a) | (uint64_t)uvhttp__load32(a + size - 4) << 32;
        uint64_t y = uvhttp__load32(b) | (uint64_t)uvhttp__load32(b + size - 4) << 32;
        return uvhttp__fold8(x) == uvhttp__fold8(y);
    }
    for (size_t i = 0; i < size; i++)
        if (uvhttp__lower[(uint8_t)a[i]] != uvhttp__lower[(uint8_t)b[i]]) return false;
    return true;
}

static inline bool uvhttp__str_equal_nocase(uvhttp_str_t a, uvhttp_str_t b) {
    return a.size == b.size && uvhttp__bytes_equal_nocase(a.data, b.data, a.size);
}

static inline bool uvhttp__text_equal_nocase(const char *a, const char *b) {
    return uvhttp__str_equal_nocase(uvhttp__str_from(a), uvhttp__str_from(b));
}

static inline bool uvhttp__str_starts_with(uvhttp_str_t str, uvhttp_str_t prefix) {
    return str.size >= prefix.size && (prefix.size == 0 || memcmp(str.data, prefix.data, prefix.size) == 0);
}

static inline bool uvhttp__str_starts_with_nocase(uvhttp_str_t str, uvhttp_str_t prefix) {
    return str.size >= prefix.size && uvhttp__bytes_equal_nocase(str.data, prefix.data, prefix.size);
}

/* Without the optional whitespace (SP and HTAB, RFC 9110 section 5.6.3) at both ends. */
static inline uvhttp_str_t uvhttp__str_trim(uvhttp_str_t str) {
    while (str.size && (str.data[0] == ' ' || str.data[0] == '\t')) str.data++, str.size--;
    while (str.size && (str.data[str.size - 1] == ' ' || str.data[str.size - 1] == '\t')) str.size--;
    return str;
}

/* Takes the next element that is not empty off the front of a comma-separated list, trimmed (RFC 9110 section 5.6.1).
 * False at the end. */
static inline bool uvhttp__list_next(uvhttp_str_t *rest, uvhttp_str_t *item) {
    while (rest->size > 0) {
        const char *comma = (const char *)memchr(rest->data, ',', rest->size);
        size_t size = comma ? (size_t)(comma - rest->data) : rest->size, consumed = size + (comma != NULL);
        *item = uvhttp__str_trim((uvhttp_str_t){rest->data, size});
        *rest = (uvhttp_str_t){rest->data + consumed, rest->size - consumed};
        if (item->size > 0) return true;
    }
    return false;
}

/* Digits only, at least one; no sign, no space. Returns 0, UVHTTP_E_INVALID, or UVHTTP_E_LIMIT when the number is above
 * UINT64_MAX. *out is left alone on failure. */
UVHTTP_MUST_USE int uvhttp__str_parse_u64(uvhttp_str_t str, uint64_t *out);

/* Replaces %XX, and '+' by a space if asked. `out` holds at least in.size bytes and may be in.data; the result may hold
 * NUL and is not terminated. Returns 0 or UVHTTP_E_INVALID (a '%' without two hex digits; what is in `out` means
 * nothing). */
UVHTTP_MUST_USE int uvhttp__percent_decode(uvhttp_str_t in, char *out, size_t *out_size, bool plus_as_space);

/* 0..15, or -1 for what is not a hex digit. */
static inline int uvhttp__hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Decimal digits of n, at most UVHTTP__DECIMAL_MAX bytes; returns how many. */
#define UVHTTP__DECIMAL_MAX 20
size_t uvhttp__write_decimal(char *out, uint64_t n);

#endif
