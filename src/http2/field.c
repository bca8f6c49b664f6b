/* Owns: what can be said of a field by its name and value alone (RFC 9113 section 8.2.1). May include: base. */
#include "http2/field_path.h"

#include <string.h>

#include "base/chars.h"
#include "base/hot_path.h"
#include "base/str.h"
#include "base/uri.h"

/* Behind CGI and its kin '_' is '-': such a name would be a second length there, as in HTTP/1. */
static bool smuggles(const char *name, size_t size) {
    return (size == 14 && memcmp(name, "content_length", 14) == 0) ||
           (size == 17 && memcmp(name, "transfer_encoding", 17) == 0);
}

uint8_t uvhttp__field_name_facts(const char *name, size_t size) {
    bool good = size > 0;
    for (size_t i = 0; i < size; ++i)
        good &= uvhttp__char_is(name[i], UVHTTP__CHAR_TOKEN) && !(name[i] >= 'A' && name[i] <= 'Z');
    return good && !smuggles(name, size) ? 0 : UVHTTP__HPACK_BAD_NAME;
}

static bool good_bytes(char *value, size_t size) {
    memset(value + size, 'a', UVHTTP__FIELD_SLACK);
    for (size_t at = 0; at < size; at += UVHTTP__FIELD_SLACK) {
        uvhttp__field_vector_t bytes = uvhttp__field_load(value + at);
        if (UNLIKELY(uvhttp__field_bits((uvhttp__field_vector_t)(bytes < 0x20) |
                                        (uvhttp__field_vector_t)(bytes == 0x7f)) != 0))
            return uvhttp__chars_are((uvhttp_str_t){value, size}, UVHTTP__CHAR_VALUE); /* it may be HTAB */
    }
    return true;
}

static inline bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

uint8_t uvhttp__field_long_path_facts(const char *path, size_t size, uint32_t *query) {
    uint8_t facts = UVHTTP__HPACK_GOOD_PSEUDO;
    for (size_t at = 0; at < size; at += UVHTTP__FIELD_SLACK) {
        uint32_t questions;
        if (UNLIKELY(uvhttp__field_is_odd_path(path + at, &questions))) return 0;
        if (facts != UVHTTP__HPACK_GOOD_PSEUDO || questions == 0) continue;
        facts |= UVHTTP__HPACK_QUERY;
        *query = (uint32_t)at + (uint32_t)__builtin_ctz(questions);
    }
    return facts;
}

static bool is_scheme(uvhttp_str_t text) {
    char first = uvhttp__char_lower(text.data[0]);
    for (size_t i = 0; i < text.size; ++i) {
        char c = uvhttp__char_lower(text.data[i]);
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.')) return false;
    }
    return first >= 'a'; /* of those, the letters */
}

static uint8_t pseudo_facts(uvhttp__hpack_name_t name, char *value, size_t size) {
    uvhttp_str_t text = {value, size};
    bool good = false;
    uint32_t query;
    switch ((unsigned)name) {
        case UVHTTP__HPACK_METHOD: good = uvhttp__valid_header_name(text); break;
        case UVHTTP__HPACK_SCHEME: good = size > 0 && is_scheme(text); break;
        case UVHTTP__HPACK_PATH: return uvhttp__field_path_facts(value, size, &query);
        case UVHTTP__HPACK_AUTHORITY:
        case UVHTTP__HPACK_HOST: good = size == 0 || uvhttp__valid_authority(text, false); break;
        default: break;
    }
    return good ? UVHTTP__HPACK_GOOD_PSEUDO : 0;
}

uint8_t uvhttp__field_value_facts(uvhttp__hpack_name_t name, char *value, size_t size, bool clean) {
    if (size > 0 && ((!clean && !good_bytes(value, size)) || is_blank(value[0]) || is_blank(value[size - 1])))
        return UVHTTP__HPACK_BAD_VALUE;
    return uvhttp__field_is_special(name) ? pseudo_facts(name, value, size) : UVHTTP__HPACK_PLAIN_FIELD;
}
