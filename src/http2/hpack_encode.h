/* Owns: writing the parts of a header block (RFC 7541 section 6). Private to src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_ENCODE_H
#define UVHTTP_SRC_HTTP2_HPACK_ENCODE_H

#include "base/hot_path.h"
#include "http2/hpack_static.h"
#include "http2/hpack_table.h"

enum {                                 /* what a representation starts with (RFC 7541 section 6), ... */
       UVHTTP__HPACK_INDEXED = 0x80,   /* ... and an index of 7 bits, */
       UVHTTP__HPACK_INSERTED = 0x40,  /* ... of 6 bits, */
       UVHTTP__HPACK_RESIZED = 0x20,   /* ... a size of 5 bits, */
       UVHTTP__HPACK_NEVER = 0x10,     /* ... and an index of 4 bits, */
       UVHTTP__HPACK_UNINDEXED = 0x00, /* ... the same */
};

/* A block that was written before. */
struct uvhttp__hpack_block {
    uint32_t generation; /* table.inserted: with any other its indexes are wrong */
    uint32_t fields_size;
    uint16_t status;
    uint16_t type_size;
    uint16_t size;     /* bytes of the block, */
    uint16_t capacity; /* ... and of all that follows: */
    char text[];       /* the block, the content type, the fields, and UVHTTP__HPACK_COPY bytes */
};

/* Writes an integer whose prefix has the bits of prefix_max, behind `first`. */
static ALWAYS_INLINE char *uvhttp__hpack_put_integer(char *out, unsigned first, unsigned prefix_max, size_t value) {
    if (LIKELY(value < prefix_max)) {
        *out = (char)(first | value);
        return out + 1;
    }
    *out++ = (char)(first | prefix_max);
    for (value -= prefix_max; value >= 0x80; value >>= 7) *out++ = (char)(value | 0x80);
    *out = (char)value;
    return out + 1;
}

/* A literal string that is not Huffman-coded: for what is sent once, that would cost more than it saves. */
static inline char *uvhttp__hpack_put_string(char *out, const char *text, size_t size) {
    out = uvhttp__hpack_put_integer(out, 0, 0x7f, size);
    memcpy(out, text, size);
    return out + size;
}

/* Size updates that are due. */
char *uvhttp__hpack_put_updates(uvhttp__hpack_encoder_t *encoder, char *out);

/* text: the name in lower case, then the value. Fields of a connection are left out. */
char *uvhttp__hpack_put_field(uvhttp__hpack_encoder_t *encoder, char *out, const char *text, size_t name_size,
                              size_t value_size);

/* Inserts and writes the field. False: it cannot be in the table, and nothing is written. */
bool uvhttp__hpack_put_inserted(uvhttp__hpack_encoder_t *encoder, char **out, const char *text, size_t name_size,
                                size_t value_size, uvhttp__hpack_name_t name);

/* A second has passed: names that were inserted too often may be inserted again. */
void uvhttp__hpack_encoder_calm(uvhttp__hpack_encoder_t *encoder);

#endif
