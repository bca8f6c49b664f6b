/* Owns: views into a block of bytes as offsets from its first byte, so that the block may be copied elsewhere. */
#ifndef UVHTTP_SRC_BASE_SPAN_H
#define UVHTTP_SRC_BASE_SPAN_H

#include <uvhttp/types.h>

typedef struct uvhttp__span {
    uint32_t offset;
    uint32_t size;
} uvhttp__span_t;

/* A header field in a message head; the value is without surrounding whitespace. */
typedef struct uvhttp__field {
    uvhttp__span_t name;
    uvhttp__span_t value;
} uvhttp__field_t;

static inline uvhttp_str_t uvhttp__span_str(const char *base, uvhttp__span_t span) {
    return (uvhttp_str_t){base + span.offset, span.size};
}

#endif
