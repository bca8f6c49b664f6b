/* Owns: writing JSON strings (RFC 8259 section 7). */
#include <string.h>
#include <uvhttp/str.h>

#include "base/utf8.h"

/* The buffer of the result. `size` also counts bytes beyond its capacity. */
typedef struct sink {
    char *buffer;
    size_t capacity, size;
} sink_t;

static void put(sink_t *sink, const char *bytes, size_t size) {
    if (sink->buffer && sink->size <= sink->capacity && size <= sink->capacity - sink->size)
        memcpy(sink->buffer + sink->size, bytes, size);
    sink->size += size;
}

static void put_escaped(sink_t *sink, uint8_t c) {
    static const char digits[] = "0123456789abcdef";
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i < sizeof named - 1; i += 2) {
        if ((uint8_t)named[i] != c) continue;
        put(sink, (char[]){'\\', named[i + 1]}, 2);
        return;
    }
    put(sink, (char[]){'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}, 6);
}

int uvhttp_json_string(char *buffer, size_t buffer_size, uvhttp_str_t text, size_t *written) {
    if (!buffer && buffer_size > 0) return UVHTTP_E_INVALID;
    sink_t sink = {buffer, buffer_size, 0};
    put(&sink, "\"", 1);
    for (size_t at = 0; at < text.size;) {
        uint32_t code;
        size_t size = uvhttp__utf8_read(text.data + at, text.size - at, &code);
        if (code == UVHTTP__UTF8_MALFORMED)
            put(&sink, "\xef\xbf\xbd", 3);
        else if (code < 0x20 || code == '"' || code == '\\')
            put_escaped(&sink, (uint8_t)code);
        else
            put(&sink, text.data + at, size);
        at += size;
    }
    put(&sink, "\"", 2); /* with the terminator */
    if (written) *written = sink.size - 1;
    return sink.size <= buffer_size ? UVHTTP_OK : UVHTTP_E_LIMIT;
}
