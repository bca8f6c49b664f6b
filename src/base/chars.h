/* Owns: the character classes of header fields (RFC 9110 sections 5.5 and 5.6.2), request targets and authorities. May
 * include: nothing. */
#ifndef UVHTTP_SRC_BASE_CHARS_H
#define UVHTTP_SRC_BASE_CHARS_H

#include <uvhttp/types.h>

enum {                           /* bits of uvhttp__char_class */
       UVHTTP__CHAR_TOKEN = 1,   /* tchar */
       UVHTTP__CHAR_VALUE = 2,   /* in a field value: HTAB, SP, VCHAR, obs-text */
       UVHTTP__CHAR_TARGET = 4,  /* in a request target: 0x21..0x7e without '#' */
       UVHTTP__CHAR_REGNAME = 8, /* RFC 3986 unreserved and sub-delims without ',' */
       UVHTTP__CHAR_DIGIT = 16,
       UVHTTP__CHAR_HEX = 32,
       UVHTTP__CHAR_PARAM_NAME = 64, /* [A-Za-z0-9_-]: in the name of a route's parameter */
};

extern const uint8_t uvhttp__char_class[256];

static inline bool uvhttp__char_is(char c, unsigned classes) {
    return (uvhttp__char_class[(uint8_t)c] & classes) != 0;
}

/* Whether every character is of one of the classes; true for an empty text. */
bool uvhttp__chars_are(uvhttp_str_t text, unsigned classes);

/* A field name: a token, not empty. */
static inline bool uvhttp__valid_header_name(uvhttp_str_t name) {
    return name.size != 0 && uvhttp__chars_are(name, UVHTTP__CHAR_TOKEN);
}

/* A field value: free of control characters but HTAB; may be empty. */
static inline bool uvhttp__valid_header_value(uvhttp_str_t value) {
    return uvhttp__chars_are(value, UVHTTP__CHAR_VALUE);
}

#endif
