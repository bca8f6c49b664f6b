/* Owns: see utf8.h. May include: base. */
#include "websocket/utf8.h"

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
        if (*at < now.low || *at > now.high) return false;
        now.left--;
        now.low = 0x80;
        now.high = 0xbf;
        at++;
    }
    *state = now;
    return true;
}
