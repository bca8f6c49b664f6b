/* Owns: the static table (RFC 7541 appendix A), and which name a text is. Private to src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HPACK_STATIC_H
#define UVHTTP_SRC_HTTP2_HPACK_STATIC_H

#include "http2/hpack.h"

#define UVHTTP__HPACK_STATIC_TEXT 32 /* no entry is larger, so that all are copied by one size */

typedef struct uvhttp__hpack_static {
    _Alignas(64) char text[UVHTTP__HPACK_STATIC_TEXT]; /* name, then value, zeros behind */
    uint8_t name_size;
    uint8_t value_size;
    uint8_t name;  /* uvhttp__hpack_name_t */
    uint8_t facts; /* UVHTTP__HPACK_* bits; also of any good value behind that name */
} uvhttp__hpack_static_t;

/* [1..61]. */
extern const uvhttp__hpack_static_t uvhttp__hpack_static[UVHTTP__HPACK_STATIC_COUNT + 1];

/* Returns the facts of a value that is valid for any field, by the name of the field. */
static inline uint8_t uvhttp__hpack_static_facts(unsigned name) {
    if (name > UVHTTP__HPACK_STATIC_COUNT) return 0;
    return name > 0 ? uvhttp__hpack_static[name].facts : (uint8_t)UVHTTP__HPACK_PLAIN_FIELD;
}

/* Which name the text is, in lower case. Any thread, after uvhttp__hpack_names_prepare. */
uvhttp__hpack_name_t uvhttp__hpack_find_name(const char *text, size_t size);

/* Makes the tables of names and of the Huffman code, once in the process. Any thread. */
void uvhttp__hpack_prepare(void);
void uvhttp__hpack_prepare_names(void);
void uvhttp__hpack_prepare_huffman(void);

#endif
