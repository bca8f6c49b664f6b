/* Owns: see utf8.h. */
#include "base/utf8.h"

#include <string.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* Most text is ASCII: skips it 32 bytes at a time, then 8. */
static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end) {
    uint64_t words[4];
    while ((size_t)(end - at) >= sizeof words) {
        memcpy(words, at, sizeof words);
        if ((words[0] | words[1] | words[2] | words[3]) & HIGH_BITS) break;
        at += sizeof words;
    }
    while ((size_t)(end - at) >= sizeof *words) {
        memcpy(words, at, sizeof *words);
        if (words[0] & HIGH_BITS) break;
        at += sizeof *words;
    }
    while (at < end && *at < 0x80) at++;
    return at;
}

/* The first byte of a character of several bytes: how many follow, and what the next may be (RFC 3629 section 4). */
static bool begin_character(uvhttp__utf8_t *state, uint8_t byte) {
    if (byte < 0xc2 || byte > 0xf4) return false;
    *state = (uvhttp__utf8_t){.left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3, .low = 0x80, .high = 0xbf};
    switch (byte) {
        case 0xe0: state->low = 0xa0; break;
        case 0xed: state->high = 0x9f; break;
        case 0xf0: state->low = 0x90; break;
        case 0xf4: state->high = 0x8f; break;
        default: break;
    }
    return true;
}

static inline bool take_continuation(uvhttp__utf8_t *state, uint8_t byte) {
    if (byte < state->low || byte > state->high) return false;
    *state = (uvhttp__utf8_t){.left = (uint8_t)(state->left - 1), .low = 0x80, .high = 0xbf};
    return true;
}

bool uvhttp__utf8_take(uvhttp__utf8_t *state, const char *data, size_t size) {
    if (size == 0) return true;
    const uint8_t *at = (const uint8_t *)data, *end = at + size;
    uvhttp__utf8_t now = *state;
    while (at < end) {
        if (now.left == 0) {
            at = skip_ascii(at, end);
            if (at == end) break;
            if (!begin_character(&now, *at++)) return false;
            continue;
        }
        if (!take_continuation(&now, *at++)) return false;
    }
    *state = now;
    return true;
}

bool uvhttp__utf8_valid(const void *data, size_t size) {
    uvhttp__utf8_t state = {0};
    return uvhttp__utf8_take(&state, data, size) && uvhttp__utf8_complete(&state);
}

size_t uvhttp__utf8_read(const char *text, size_t size, uint32_t *code) {
    const uint8_t *bytes = (const uint8_t *)text;
    uvhttp__utf8_t state = {0};
    size_t length = 1;
    *code = bytes[0] < 0x80 ? bytes[0] : UVHTTP__UTF8_MALFORMED;
    if (bytes[0] < 0x80 || !begin_character(&state, bytes[0])) return length;
    uint32_t point = bytes[0] & (0x3fu >> state.left);
    for (; state.left > 0; length++) {
        if (length == size || !take_continuation(&state, bytes[length])) return length;
        point = point << 6 | (bytes[length] & 0x3fu);
    }
    *code = point;
    return length;
}
