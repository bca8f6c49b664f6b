/* The bytes of a body that a request asks for: no two requests ask for the same, so a byte of another response is found
 * out wherever it is. */
#ifndef UVHTTP_TEST_PATTERN_H
#define UVHTTP_TEST_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t pattern_word(uint64_t seed, uint64_t at) {
    return (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + at * UINT64_C(0xff51afd7ed558ccd);
}

/* bytes [0, size) of the body of `seed`, into data */
static inline void pattern_fill(char *data, size_t size, uint64_t seed) {
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern_word(seed, at / 8);
        memcpy(data + at, &word, size - at < 8 ? size - at : 8);
    }
}

/* The position of the first byte that differs, or size. */
static inline size_t pattern_check(const char *data, size_t size, uint64_t seed) {
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = pattern_word(seed, at / 8);
        if (memcmp(data + at, &word, size - at < 8 ? size - at : 8) != 0) return at;
    }
    return size;
}

#endif
