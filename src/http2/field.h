/* Owns: what can be said of a field by its name and value alone. Private to src/http2. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_FIELD_H
#define UVHTTP_SRC_HTTP2_FIELD_H

#include "http2/hpack.h"

/* Bytes that these write behind a text, to look at it in large steps. */
#define UVHTTP__FIELD_SLACK 16

/* 0 or UVHTTP__HPACK_BAD_NAME. */
uint8_t uvhttp__field_name_facts(const char *name, size_t size);

/* The facts of a value in memory with UVHTTP__FIELD_SLACK bytes more. clean: it is known to have no byte that no value
 * has. */
uint8_t uvhttp__field_value_facts(uvhttp__hpack_name_t name, char *value, size_t size, bool clean);

/* Whether HTTP/2 gives the field a meaning, so that it has to be looked at. */
static inline bool uvhttp__field_is_special(uvhttp__hpack_name_t name) {
    const uint64_t low = UINT64_C(1) << UVHTTP__HPACK_AUTHORITY | UINT64_C(1) << UVHTTP__HPACK_METHOD |
                         UINT64_C(1) << UVHTTP__HPACK_PATH | UINT64_C(1) << UVHTTP__HPACK_SCHEME |
                         UINT64_C(1) << UVHTTP__HPACK_STATUS | UINT64_C(1) << UVHTTP__HPACK_CONTENT_LENGTH |
                         UINT64_C(1) << UVHTTP__HPACK_COOKIE | UINT64_C(1) << UVHTTP__HPACK_EXPECT |
                         UINT64_C(1) << UVHTTP__HPACK_HOST | UINT64_C(1) << UVHTTP__HPACK_TRANSFER_ENCODING;
    return name > UVHTTP__HPACK_STATIC_COUNT || (low >> name & 1) != 0;
}

#endif
