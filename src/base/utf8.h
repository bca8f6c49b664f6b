/* Owns: UTF-8 (RFC 3629): checking text in parts and as a whole, and reading a character. */
#ifndef UVHTTP_SRC_BASE_UTF8_H
#define UVHTTP_SRC_BASE_UTF8_H

#include <uvhttp/types.h>

/* What is known between two pieces. Zeroed: at the beginning of a text. */
typedef struct uvhttp__utf8 {
    uint8_t left;      /* continuation bytes that the character in hand still needs, 0..3 */
    uint8_t low, high; /* range of the next of them, if left > 0 */
} uvhttp__utf8_t;

/* Checks the next bytes. False at the first byte that cannot belong to a text (RFC 6455 section 8.1), however it is
 * split: overlong forms, surrogates and what is above U+10FFFF are seen at the earliest byte. */
bool uvhttp__utf8_take(uvhttp__utf8_t *state, const char *data, size_t size);

/* Whether the text may end here. */
static inline bool uvhttp__utf8_complete(const uvhttp__utf8_t *state) {
    return state->left == 0;
}

/* Whether a text is UTF-8 as a whole. */
bool uvhttp__utf8_valid(const void *data, size_t size);

#define UVHTTP__UTF8_MALFORMED UINT32_MAX

/* Reads the character that a text of at least one byte begins with. Returns its size, 1..4. If it is malformed, *code
 * is UVHTTP__UTF8_MALFORMED, and the result is the size of its maximal part: the longest piece that a character could
 * begin with, at least a byte (Unicode 15, table 3-7 and section 3.9). */
size_t uvhttp__utf8_read(const char *text, size_t size, uint32_t *code);

#endif
