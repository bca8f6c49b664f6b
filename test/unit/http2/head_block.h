/* Owns: header blocks for tests: fields given as text become literals, and blocks become text again. Header only: every
 * test program here is one file. */
#ifndef UVHTTP_TEST_HTTP2_HEAD_BLOCK_H
#define UVHTTP_TEST_HTTP2_HEAD_BLOCK_H

#include <stdio.h>
#include <string.h>

#include "http2/head.h"
#include "http2/hpack_huffman.h"
#include "http2/hpack_static.h"

/* How names and values are written. Names that the static table lacks are always text. */
typedef enum head_form {
    HEAD_TEXT,         /* name and value as text */
    HEAD_INDEXED_NAME, /* an index, and the value as text */
    HEAD_HUFFMAN,      /* an index, and the value in Huffman code */
    HEAD_WHOLE,        /* one index for both if the static table has them, else the same */
    HEAD_FORMS,
} head_form_t;

static inline size_t head_put_integer(uint8_t *out, unsigned first, unsigned prefix_max, size_t value) {
    size_t at = 0;
    out[at++] = (uint8_t)(first | (value < prefix_max ? value : prefix_max));
    if (value < prefix_max) return at;
    for (value -= prefix_max; value >= 128; value >>= 7) out[at++] = (uint8_t)(value | 0x80);
    out[at++] = (uint8_t)value;
    return at;
}

static inline size_t head_put_string(uint8_t *out, const char *text, size_t size) {
    size_t at = head_put_integer(out, 0, 127, size);
    memcpy(out + at, text, size);
    return at + size;
}

static inline size_t head_put_value(uint8_t *out, const char *text, size_t size, head_form_t form) {
    if (form < HEAD_HUFFMAN) return head_put_string(out, text, size);
    size_t at = head_put_integer(out, 0x80, 127, uvhttp__huffman_size(text, size));
    return (size_t)(uvhttp__huffman_encode(text, size, out + at) - out);
}

static inline size_t head_put_name(uint8_t *out, const char *text, size_t size, uint8_t first, head_form_t form) {
    unsigned name = uvhttp__hpack_find_name(text, size);
    if (form != HEAD_TEXT && name > 0 && name <= UVHTTP__HPACK_STATIC_COUNT)
        return head_put_integer(out, first, first == 0x40 ? 0x3f : 0x0f, name);
    out[0] = first;
    return 1 + head_put_string(out + 1, text, size);
}

/* The entry of the static table that has both; 0: none. */
static inline unsigned head_find_whole(const char *name, size_t name_size, const char *value, size_t value_size) {
    for (unsigned i = 1; i <= UVHTTP__HPACK_STATIC_COUNT; ++i) {
        const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[i];
        if (entry->name_size == name_size && entry->value_size == value_size &&
            memcmp(entry->text, name, name_size) == 0 && memcmp(entry->text + name_size, value, value_size) == 0)
            return i;
    }
    return 0;
}

/* Lines of "name=value\n" (the first '=' counts, but one at the start) as literals, without indexing (`first` 0), never
 * indexed (0x10) or with indexing (0x40). After uvhttp__hpack_decoder_init. */
static inline size_t head_block(uint8_t *out, const char *lines, uint8_t first, head_form_t form) {
    size_t size = 0;
    while (*lines) {
        const char *equals = strchr(lines, '='), *end = strchr(lines, '\n');
        size_t name_size = (size_t)(equals - lines), value_size = (size_t)(end - equals - 1);
        unsigned whole = head_find_whole(lines, name_size, equals + 1, value_size);
        if (form == HEAD_WHOLE && first == 0 && whole > 0) {
            out[size++] = (uint8_t)(0x80 | whole);
        } else {
            size += head_put_name(out + size, lines, name_size, first, form);
            size += head_put_value(out + size, equals + 1, value_size, form);
        }
        lines = end + 1;
    }
    return size;
}

#endif
