/* Owns: response heads that repeat on a connection: what was written for one before is found and copied without a call.
 * May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HEAD_REPEATED_H
#define UVHTTP_SRC_HTTP2_HEAD_REPEATED_H

#include "base/load.h"
#include "http2/head.h"
#include "http2/hpack_encode.h"

/* --- the part that repeats --- */

static inline size_t uvhttp__http2_block_slot(const uvhttp__http2_response_t *response) {
    return (response->status + response->content_type.size + response->fields.size) % UVHTTP__HPACK_BLOCKS;
}

/* calls: otherwise false says nothing of what is small or large. */
static ALWAYS_INLINE bool uvhttp__http2_same_text(const char *a, const char *b, size_t size, bool calls) {
    enum { COMPARED_MAX = 64 }; /* bytes that are compared without a call */
    if (size == 0) return true;
    if (UNLIKELY(size - 8 > COMPARED_MAX - 8)) return calls && memcmp(a, b, size) == 0;
    for (size_t at = 8; UNLIKELY(at < size - 8); at += 8)
        if (uvhttp__load64(a + at) != uvhttp__load64(b + at)) return false;
    return uvhttp__load64(a) == uvhttp__load64(b) && uvhttp__load64(a + size - 8) == uvhttp__load64(b + size - 8);
}

/* The block that was written for such a response, or NULL. */
static ALWAYS_INLINE const uvhttp__hpack_block_t *
uvhttp__http2_recall(const uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response, bool calls) {
    const uvhttp__hpack_block_t *block = encoder->blocks[uvhttp__http2_block_slot(response)];
    if (UNLIKELY(!block || block->generation != encoder->table.inserted || block->status != response->status ||
                 block->type_size != response->content_type.size || block->fields_size != response->fields.size))
        return NULL;
    const char *type = block->text + block->size, *fields = type + block->type_size;
    bool same = uvhttp__http2_same_text(type, response->content_type.data, response->content_type.size, calls) &&
                uvhttp__http2_same_text(fields, response->fields.data, response->fields.size, calls);
    return LIKELY(same) ? block : NULL;
}

/* --- date and length --- */

/* Whether the table has the date; *age: where. */
static ALWAYS_INLINE bool uvhttp__http2_has_date(const uvhttp__hpack_encoder_t *encoder,
                                                 const uvhttp__http2_response_t *response, uint32_t *age) {
    *age = encoder->table.inserted - 1 - encoder->date_entry;
    return encoder->date_indexed && encoder->date_id == response->date_id && *age < encoder->table.count;
}

static ALWAYS_INLINE char *uvhttp__http2_put_date(char *out, uint32_t age) {
    return uvhttp__hpack_put_integer(out, UVHTTP__HPACK_INDEXED, 0x7f, UVHTTP__HPACK_STATIC_COUNT + 1 + age);
}

/* The same for any length, or none. */
size_t uvhttp__http2_end_with_any(const char *start, char *out, uint64_t length);

/* The length is the last; most have two digits or are not seen here. Returns the size of the block. */
static ALWAYS_INLINE size_t uvhttp__http2_end_with_length(const char *start, char *out, uint64_t length) {
    if (UNLIKELY(length < 10 || length >= 100)) return uvhttp__http2_end_with_any(start, out, length);
    unsigned tens = (unsigned)length / 10;
    out = uvhttp__hpack_put_integer(out, UVHTTP__HPACK_UNINDEXED, 0x0f, UVHTTP__HPACK_CONTENT_LENGTH);
    *out++ = 2; /* digits */
    *out++ = (char)('0' + tens);
    *out++ = (char)('0' + ((unsigned)length - 10 * tens));
    return (size_t)(out - start);
}

/* --- the whole --- */

/* uvhttp__http2_write_response if all of the head but its length was sent before; *size: what that returns. False: it
 * was not, and nothing is written. */
static ALWAYS_INLINE bool uvhttp__http2_repeat_response(const uvhttp__hpack_encoder_t *encoder,
                                                        const uvhttp__http2_response_t *response, char *out,
                                                        size_t *size) {
    uint32_t age;
    const uvhttp__hpack_block_t *block = uvhttp__http2_recall(encoder, response, false);
    if (UNLIKELY(!block || encoder->size_update || !response->date || !uvhttp__http2_has_date(encoder, response, &age)))
        return false;
    uvhttp__hpack_copy(out, block->text, block->size);
    char *end = uvhttp__http2_put_date(out + block->size, age);
    *size = uvhttp__http2_end_with_length(out, end, response->content_length);
    return true;
}

#endif
