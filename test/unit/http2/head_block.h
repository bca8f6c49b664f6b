/* Owns: header blocks for tests: fields given as text become literals, and blocks become text again. Header only: every
 * test program here is one file. */
#ifndef UVHTTP_TEST_HTTP2_HEAD_BLOCK_H
#define UVHTTP_TEST_HTTP2_HEAD_BLOCK_H

#include <stdio.h>
#include <string.h>

#include "http2/head.h"

static inline size_t head_put_string(uint8_t *out, const char *text, size_t size) {
    size_t at = 0, rest = size;
    if (size < 127) {
        out[at++] = (uint8_t)size;
    } else {
        out[at++] = 127;
        for (rest -= 127; rest >= 128; rest >>= 7) out[at++] = (uint8_t)(rest | 0x80);
        out[at++] = (uint8_t)rest;
    }
    memcpy(out + at, text, size);
    return at + size;
}

/* Lines of "name=value\n" (the first '=' counts, but one at the start) as literals with a name, without indexing, or,
 * `first` 0x40, with. */
static inline size_t head_block(uint8_t *out, const char *lines, uint8_t first) {
    size_t size = 0;
    while (*lines) {
        const char *equals = strchr(lines, '='), *end = strchr(lines, '\n');
        out[size++] = first;
        size += head_put_string(out + size, lines, (size_t)(equals - lines));
        size += head_put_string(out + size, equals + 1, (size_t)(end - equals - 1));
        lines = end + 1;
    }
    return size;
}

#endif
