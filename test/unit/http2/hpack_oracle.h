/* Owns: comparing our header compression with libnghttp2's, block by block. Header only: tests and fuzzing use it. */
#ifndef UVHTTP_TEST_HTTP2_HPACK_ORACLE_H
#define UVHTTP_TEST_HTTP2_HPACK_ORACLE_H

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "http2/hpack.h"

enum { ORACLE_TEXT_MAX = 1 << 20, ORACLE_LIST_MAX = 1 << 18 };

/* The fields of a block: each as size of name, size of value, name, value. */
typedef struct oracle_text {
    int code; /* 0: a good block */
    size_t size;
    char bytes[ORACLE_TEXT_MAX];
} oracle_text_t;

static inline bool oracle_add(oracle_text_t *text, const void *name, size_t name_size, const void *value,
                              size_t value_size) {
    size_t sizes[2] = {name_size, value_size};
    if (text->size + sizeof sizes + name_size + value_size > ORACLE_TEXT_MAX) return false;
    memcpy(text->bytes + text->size, sizes, sizeof sizes);
    text->size += sizeof sizes;
    memcpy(text->bytes + text->size, name, name_size);
    text->size += name_size;
    if (value_size > 0) memcpy(text->bytes + text->size, value, value_size);
    text->size += value_size;
    return true;
}

static inline void oracle_theirs(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t size,
                                 oracle_text_t *text) {
    text->size = 0;
    text->code = 0;
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, size, 1);
        if (used < 0) {
            text->code = (int)used;
            return;
        }
        block += used;
        size -= (size_t)used;
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0 &&
            !oracle_add(text, field.name, field.namelen, field.value, field.valuelen))
            abort();
        if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
            nghttp2_hd_inflate_end_headers(inflater);
            return;
        }
        if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && size == 0) return;
    }
}

/* The block is moved to memory of its size, so that a read behind its end is seen. */
static inline void oracle_ours(uvhttp__hpack_decoder_t *decoder, const uint8_t *block, size_t size,
                               oracle_text_t *text) {
    static char scratch[ORACLE_LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK];
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (size > 0) memcpy(exact, block, size);
    text->size = 0;
    text->code = uvhttp__hpack_read(&reader, decoder, exact, size, scratch, ORACLE_LIST_MAX);
    while (text->code == 0 && (text->code = uvhttp__hpack_read_next(&reader, &field)) == 0)
        if (!oracle_add(text, field.text, field.name_size, field.text + field.name_size, field.value_size)) abort();
    if (text->code == UVHTTP_E_EOF) text->code = 0;
    free(exact);
}

/* What libnghttp2 accepts and we do not: a third size update at the start (RFC 7541 section 4.2 knows two). */
static inline bool oracle_third_update(const uint8_t *block, size_t size) {
    size_t at = 0;
    for (int updates = 0; at < size && (block[at] & 0xe0) == 0x20;) {
        if (++updates == 3) return true;
        if ((block[at++] & 0x1f) == 0x1f) {
            while (at < size && (block[at] & 0x80) != 0) ++at;
            ++at;
        }
    }
    return false;
}

/* NULL, or what differs. *good: both have read the block. */
static inline const char *oracle_compare(uvhttp__hpack_decoder_t *decoder, nghttp2_hd_inflater *inflater,
                                         const uint8_t *block, size_t size, bool *good) {
    static oracle_text_t ours, theirs;
    oracle_ours(decoder, block, size, &ours);
    oracle_theirs(inflater, block, size, &theirs);
    *good = ours.code == 0 && theirs.code == 0;
    if (ours.code == UVHTTP_E_HTTP_HEADERS_TOO_LARGE) return NULL;
    if (oracle_third_update(block, size)) return ours.code != 0 ? NULL : "three size updates are accepted";
    if ((ours.code == 0) != (theirs.code == 0)) return ours.code == 0 ? "only we accept" : "only libnghttp2 accepts";
    if (*good && (ours.size != theirs.size || memcmp(ours.bytes, theirs.bytes, ours.size) != 0)) return "fields differ";
    if (*good && decoder->table.size != nghttp2_hd_inflate_get_dynamic_table_size(inflater))
        return "sizes of the tables differ";
    return NULL;
}

#endif
