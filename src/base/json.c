/* Owns: writing JSON strings (RFC 8259 section 7). */
#include <string.h>
#include <uvhttp/str.h>

/* The buffer of the result. `size` also counts bytes beyond its capacity. */
typedef struct sink {
    char *buffer;
    size_t capacity, size;
} sink_t;

static void put(sink_t *sink, const char *bytes, size_t size) {
    if (sink->size <= sink->capacity && size <= sink->capacity - sink->size)
        memcpy(sink->buffer + sink->size, bytes, size);
    sink->size += size;
}

/* Returns the bytes of the character at `text`, 1..4. If it is malformed, *valid is false and the result is its maximal
 * part: the longest piece that a character could start with, at least a byte (Unicode 15, table 3-7 and section 3.9).
 */
static size_t next_character(const uint8_t *text, size_t size, bool *valid) {
    uint8_t first = text[0], low = 0x80, high = 0xbf;
    size_t length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    *valid = length > 0;
    if (length < 2) return 1;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        if (i == size || text[i] < low || text[i] > high) {
            *valid = false;
            return i;
        }
        low = 0x80;
        high = 0xbf;
    }
    return length;
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
        const uint8_t *c = (const uint8_t *)text.data + at;
        bool valid;
        size_t size = next_character(c, text.size - at, &valid);
        if (!valid)
            put(&sink, "\xef\xbf\xbd", 3);
        else if (*c < 0x20 || *c == '"' || *c == '\\')
            put_escaped(&sink, *c);
        else
            put(&sink, (const char *)c, size);
        at += size;
    }
    put(&sink, "\"", 2); /* with the terminator */
    if (written) *written = sink.size - 1;
    return sink.size <= buffer_size ? UVHTTP_OK : UVHTTP_E_LIMIT;
}
