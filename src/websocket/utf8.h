/* Owns: checking UTF-8 piece by piece (RFC 3629). May include: base. */
#ifndef UVHTTP_SRC_WEBSOCKET_UTF8_H
#define UVHTTP_SRC_WEBSOCKET_UTF8_H

#include <uvhttp/types.h>

/* What is known between two pieces. Zeroed: at the beginning of a text. */
typedef struct uvhttp__utf8 {
    uint8_t left;      /* continuation bytes that the character in hand still needs, 0..3 */
    uint8_t low, high; /* range of the next of them, if left > 0 */
} uvhttp__utf8_t;

/* Takes the next piece. False at the first byte that cannot belong to a text (RFC 6455 section 8.1), however it is
 * cut: overlong forms, surrogates and what is above U+10FFFF are seen at the earliest byte. */
bool uvhttp__utf8_take(uvhttp__utf8_t *state, const char *data, size_t size);

/* Whether the text may end here. */
static inline bool uvhttp__utf8_complete(const uvhttp__utf8_t *state) {
    return state->left == 0;
}

#endif
