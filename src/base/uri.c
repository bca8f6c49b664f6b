/* Owns: the syntax of an authority (RFC 3986 section 3.2, RFC 9110 section 4.2): a registered name, an IPv4 address or
 * an IPv6 literal, and a port; userinfo is refused. And what a path without escapes and dot segments is. May include:
 * chars. */
#include "base/uri.h"

#include <string.h>

#include "base/chars.h"
#include "base/hot_path.h"

/* 1*4HEXDIG at *at, which it passes. */
static bool take_group(const char *text, size_t size, size_t *at) {
    size_t start = *at;
    while (*at < size && *at - start < 4 && uvhttp__char_is(text[*at], UVHTTP__CHAR_HEX)) ++*at;
    return *at > start;
}

/* A dotted quad of numbers 0..255 without leading zeros, and nothing after it. */
static bool valid_ipv4(const char *text, size_t size) {
    size_t at = 0;
    for (int part = 0; part < 4; ++part) {
        if (part > 0 && (at == size || text[at++] != '.')) return false;
        size_t start = at;
        unsigned value = 0;
        while (at < size && at - start < 3 && uvhttp__char_is(text[at], UVHTTP__CHAR_DIGIT))
            value = value * 10 + (unsigned)(text[at++] - '0');
        if (at == start || value > 255 || (text[start] == '0' && at - start > 1)) return false;
    }
    return at == size;
}

/* The text between the brackets (RFC 3986 IPv6address); zone identifiers and IPvFuture are refused. */
static NOINLINE bool valid_ipv6(const char *text, size_t size) {
    size_t at = 0;
    int groups = 0;
    bool gap = false;
    if (size >= 2 && text[0] == ':' && text[1] == ':') {
        gap = true;
        at = 2;
    }
    while (at < size) {
        size_t start = at;
        if (!take_group(text, size, &at)) return false;
        if (at < size && text[at] == '.') {
            if (!valid_ipv4(text + start, size - start)) return false;
            groups += 2;
            break;
        }
        ++groups;
        if (at == size) break;
        if (text[at++] != ':') return false;
        if (at == size) return false; /* a single ':' at the end */
        if (text[at] != ':') continue;
        if (gap) return false;
        gap = true;
        ++at;
    }
    return gap ? groups <= 7 : groups == 8;
}

/* The part after the host, which is not empty: ':' and at most five digits. */
static bool valid_port(const char *text, size_t size, bool required) {
    if (size == 1) return !required && text[0] == ':';
    if (text[0] != ':' || size > 6) return false;
    uint32_t port = 0;
    for (size_t i = 1; i < size; ++i) {
        uint32_t digit = (uint32_t)(text[i] - '0');
        if (digit > 9) return false;
        port = port * 10 + digit;
    }
    return port <= 65535;
}

static inline bool all_regname(const char text[4]) {
    const uint8_t *class = uvhttp__char_class;
    return (class[(unsigned char)text[0]] & class[(unsigned char)text[1]] & class[(unsigned char)text[2]] &
            class[(unsigned char)text[3]] & UVHTTP__CHAR_REGNAME) != 0;
}

bool uvhttp__valid_authority(uvhttp_str_t text, bool port_required) {
    const char *p = text.data;
    size_t size = text.size, at = 0;
    if (size > 0 && p[0] == '[') {
        const char *close = memchr(p, ']', size);
        if (close == NULL || !valid_ipv6(p + 1, (size_t)(close - p) - 1)) return false;
        at = (size_t)(close - p) + 1;
    } else {
        while (size - at >= 4 && all_regname(p + at)) at += 4;
        for (; at < size; ++at) {
            if (uvhttp__char_is(p[at], UVHTTP__CHAR_REGNAME)) continue;
            if (p[at] != '%') break;
            if (size - at < 3 || !uvhttp__char_is(p[at + 1], UVHTTP__CHAR_HEX) ||
                !uvhttp__char_is(p[at + 2], UVHTTP__CHAR_HEX))
                return false;
            at += 2;
        }
        if (at == 0) return false;
    }
    return at == size ? !port_required : valid_port(p + at, size - at, port_required);
}

bool uvhttp__plain_path(const char *path, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        if (path[i] == '%') return false;
        if (path[i] != '/') continue;
        size_t rest = size - i - 1;
        const char *segment = path + i + 1;
        if (rest == 0 || (segment[0] != '/' && segment[0] != '.')) continue;
        if (segment[0] == '/') return false;
        size_t dots = rest > 1 && segment[1] == '.' ? 2 : 1;
        if (rest == dots || segment[dots] == '/') return false;
    }
    return true;
}
