/* Owns: the chunked transfer coding (RFC 9112 section 7.1), strictly: what two parsers could read differently is
 * refused. Lines go through a state machine byte by byte, data in runs. May include: base. */
#include "http1/scan.h"

#include <assert.h>

typedef enum state {
    STATE_SIZE,         /* in the chunk size */
    STATE_SIZE_BLANK,   /* in blanks behind it, which a ';' has to follow */
    STATE_EXTENSION,    /* after a ';': a name has to follow */
    STATE_NAME,         /* in the name of an extension */
    STATE_NAME_BLANK,   /* in blanks behind it */
    STATE_EQUALS,       /* after its '=': a value has to follow */
    STATE_VALUE,        /* in a value that is a token */
    STATE_QUOTED,       /* in one that is a quoted string */
    STATE_ESCAPED,      /* after a backslash in one */
    STATE_QUOTED_END,   /* after its last '"' */
    STATE_VALUE_BLANK,  /* in blanks behind a value */
    STATE_SIZE_LF,      /* after the CR of the size line */
    STATE_EXTENSION_LF, /* the same if it has extensions */
    STATE_DATA,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_TRAILER_START, /* first byte of a trailer line */
    STATE_TRAILER_NAME,
    STATE_TRAILER_VALUE,
    STATE_TRAILER_LF,
    STATE_END_LF, /* after the CR of the last line */
    STATE_DONE,
    STATE_FAILED,
} state_t;

enum { SIZE_DIGITS_MAX = 16, SHORT_LINE = 2 + 8 /* CRLF and a size of 32 bits */ };

/* Fields that frame or route a message or steer its connection (RFC 9110 section 6.5.1): in a trailer they are an
 * attack or a grave fault. '_' counts as '-', as it does behind CGI. */
static const char *const forbidden[] = {
    "content-length", "transfer-encoding", "host", "trailer", "connection", "upgrade", "expect", "te", "keep-alive",
};

enum { FORBIDDEN_COUNT = sizeof forbidden / sizeof *forbidden };

static_assert(FORBIDDEN_COUNT <= 16, "one bit of forbidden_left each");

void uvhttp__http1_chunked_init(uvhttp__http1_chunked_t *chunked, uint32_t extension_size_max,
                                uint32_t trailer_size_max) {
    *chunked = (uvhttp__http1_chunked_t){
        .extension_size_max = extension_size_max,
        .trailer_size_max = trailer_size_max,
        .state = STATE_SIZE,
    };
}

static int fail(uvhttp__http1_chunked_t *chunked, int error) {
    chunked->state = STATE_FAILED;
    chunked->error = (int16_t)error;
    return error;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS ( token / quoted-string ) ] ) (RFC 9112 section 7.1.1).
 * Extensions mean nothing here, but a line that breaks the grammar is one that two parsers could end at different
 * places. STATE_FAILED: c must not stand here. */
static state_t after_extension_byte(state_t state, char c) {
    bool blank = c == ' ' || c == '\t', token = uvhttp__char_is(c, UVHTTP__CHAR_TOKEN);
    switch (state) {
        case STATE_SIZE_BLANK: return c == ';' ? STATE_EXTENSION : blank ? STATE_SIZE_BLANK : STATE_FAILED;
        case STATE_EXTENSION: return token ? STATE_NAME : blank ? STATE_EXTENSION : STATE_FAILED;
        case STATE_NAME:
            if (token || c == '\r') return token ? STATE_NAME : STATE_EXTENSION_LF;
            /* fall through */
        case STATE_NAME_BLANK:
            if (c == ';' || c == '=') return c == ';' ? STATE_EXTENSION : STATE_EQUALS;
            return blank ? STATE_NAME_BLANK : STATE_FAILED;
        case STATE_EQUALS:
            if (token || c == '"') return token ? STATE_VALUE : STATE_QUOTED;
            return blank ? STATE_EQUALS : STATE_FAILED;
        case STATE_QUOTED:
            if (c == '"' || c == '\\') return c == '"' ? STATE_QUOTED_END : STATE_ESCAPED;
            return uvhttp__char_is(c, UVHTTP__CHAR_VALUE) ? STATE_QUOTED : STATE_FAILED;
        case STATE_ESCAPED: return uvhttp__char_is(c, UVHTTP__CHAR_VALUE) ? STATE_QUOTED : STATE_FAILED;
        case STATE_VALUE:
            if (token) return STATE_VALUE;
            /* fall through */
        case STATE_QUOTED_END:
            if (c == '\r') return STATE_EXTENSION_LF;
            /* fall through */
        default:
            assert(state == STATE_QUOTED_END || state == STATE_VALUE || state == STATE_VALUE_BLANK);
            return c == ';' ? STATE_EXTENSION : blank ? STATE_VALUE_BLANK : STATE_FAILED;
    }
}

/* Every byte of extensions counts but the CRLF behind them. */
static int step_extension(uvhttp__http1_chunked_t *chunked, char c) {
    state_t next = after_extension_byte((state_t)chunked->state, c);
    if (next == STATE_FAILED)
        return chunked->state == STATE_SIZE_BLANK ? UVHTTP_E_HTTP_CHUNK_SIZE : UVHTTP_E_HTTP_CHUNK_EXTENSION;
    if (next != STATE_EXTENSION_LF) {
        if (chunked->extension_size >= chunked->extension_size_max) return UVHTTP_E_HTTP_CHUNK_EXTENSION;
        chunked->extension_size++;
    }
    chunked->state = (uint8_t)next;
    return 0;
}

static int step_size(uvhttp__http1_chunked_t *chunked, char c) {
    int digit = hex_value(c);
    if (digit >= 0) {
        if (chunked->digits == SIZE_DIGITS_MAX || chunked->chunk_left > (uint64_t)INT64_MAX >> 4)
            return UVHTTP_E_HTTP_CHUNK_SIZE;
        chunked->chunk_left = chunked->chunk_left << 4 | (uint64_t)digit;
        ++chunked->digits;
        return 0;
    }
    if (chunked->digits == 0) return UVHTTP_E_HTTP_CHUNK_SIZE;
    if (c == ';' || c == ' ' || c == '\t') {
        chunked->state = STATE_SIZE_BLANK;
        return step_extension(chunked, c);
    }
    chunked->state = STATE_SIZE_LF;
    return c == '\r' ? 0 : UVHTTP_E_HTTP_CHUNK_SIZE;
}

static int step_trailer_name(uvhttp__http1_chunked_t *chunked, char c) {
    if (c == ':') {
        for (unsigned i = 0; i < FORBIDDEN_COUNT; ++i) {
            if ((chunked->forbidden_left >> i & 1) != 0 && forbidden[i][chunked->digits] == '\0')
                return UVHTTP_E_HTTP_TRAILER;
        }
        chunked->state = STATE_TRAILER_VALUE;
        return 0;
    }
    if (!uvhttp__char_is(c, UVHTTP__CHAR_TOKEN)) return UVHTTP_E_HTTP_TRAILER;
    if (chunked->forbidden_left == 0) return 0;
    if (c >= 'A' && c <= 'Z') c = (char)(c | 0x20);
    if (c == '_') c = '-';
    for (unsigned i = 0; i < FORBIDDEN_COUNT; ++i) {
        /* A name that is used up holds its NUL here, which is no token, so its bit goes and it is not read beyond. */
        if ((chunked->forbidden_left >> i & 1) != 0 && forbidden[i][chunked->digits] != c)
            chunked->forbidden_left = (uint16_t)(chunked->forbidden_left & ~(1U << i));
    }
    ++chunked->digits;
    return 0;
}

static int step_trailer(uvhttp__http1_chunked_t *chunked, char c) {
    if (chunked->state == STATE_TRAILER_START) {
        if (c == '\r') {
            chunked->state = STATE_END_LF;
            return 0;
        }
        chunked->state = STATE_TRAILER_NAME;
        chunked->digits = 0;
        chunked->forbidden_left = (uint16_t)((1U << FORBIDDEN_COUNT) - 1);
        if (c == ':') return UVHTTP_E_HTTP_TRAILER;
    }
    if (chunked->trailer_size >= chunked->trailer_size_max) return UVHTTP_E_HTTP_TRAILER_TOO_LARGE;
    ++chunked->trailer_size;
    if (chunked->state == STATE_TRAILER_NAME) return step_trailer_name(chunked, c);
    if (chunked->state == STATE_TRAILER_LF) {
        chunked->state = STATE_TRAILER_START;
        return c == '\n' ? 0 : UVHTTP_E_HTTP_TRAILER;
    }
    if (c == '\r')
        chunked->state = STATE_TRAILER_LF;
    else if (!uvhttp__char_is(c, UVHTTP__CHAR_VALUE))
        return UVHTTP_E_HTTP_TRAILER;
    return 0;
}

static int step(uvhttp__http1_chunked_t *chunked, char c) {
    switch ((state_t)chunked->state) {
        case STATE_SIZE: return step_size(chunked, c);
        case STATE_SIZE_LF:
        case STATE_EXTENSION_LF:
            if (c != '\n')
                return chunked->state == STATE_SIZE_LF ? UVHTTP_E_HTTP_CHUNK_SIZE : UVHTTP_E_HTTP_CHUNK_EXTENSION;
            chunked->state = chunked->chunk_left > 0 ? STATE_DATA : STATE_TRAILER_START;
            return 0;
        case STATE_DATA_CR: chunked->state = STATE_DATA_LF; return c == '\r' ? 0 : UVHTTP_E_HTTP_CHUNK_DATA;
        case STATE_DATA_LF:
            chunked->state = STATE_SIZE;
            chunked->digits = 0;
            return c == '\n' ? 0 : UVHTTP_E_HTTP_CHUNK_DATA;
        case STATE_TRAILER_START:
        case STATE_TRAILER_NAME:
        case STATE_TRAILER_VALUE:
        case STATE_TRAILER_LF: return step_trailer(chunked, c);
        case STATE_END_LF: chunked->state = STATE_DONE; return c == '\n' ? 0 : UVHTTP_E_HTTP_TRAILER;
        default:
            assert(chunked->state >= STATE_SIZE_BLANK && chunked->state <= STATE_VALUE_BLANK);
            return step_extension(chunked, c);
    }
}

/* The usual way from the data of one chunk to that of the next, which is there whole: CRLF, a size without extensions,
 * CRLF. Returns its bytes; 0: it is left to the steps. */
static size_t skip_to_next(uvhttp__http1_chunked_t *chunked, const char *data, size_t size) {
    size_t at = 2, end = size < SHORT_LINE ? size : SHORT_LINE;
    uint32_t left = 0;
    if (size < 5 || data[0] != '\r' || data[1] != '\n') return 0;
    for (int digit; at < end && (digit = hex_value(data[at])) >= 0; at++) left = left << 4 | (uint32_t)digit;
    if (left == 0 || size - at < 2 || data[at] != '\r' || data[at + 1] != '\n') return 0;
    chunked->chunk_left = left;
    chunked->digits = (uint8_t)(at - 2);
    chunked->state = STATE_DATA;
    return at + 2;
}

int uvhttp__http1_chunked_decode(uvhttp__http1_chunked_t *chunked, const char *data, size_t size, size_t *consumed,
                                 uvhttp_str_t *body) {
    *consumed = 0;
    *body = (uvhttp_str_t){data, 0};
    size_t pos = chunked->state == STATE_DATA_CR ? skip_to_next(chunked, data, size) : 0;
    while (chunked->state < STATE_DONE) {
        if (pos == size) {
            *consumed = pos;
            return UVHTTP_E_AGAIN;
        }
        if (chunked->state == STATE_DATA) {
            size_t run = size - pos < chunked->chunk_left ? size - pos : (size_t)chunked->chunk_left;
            *body = (uvhttp_str_t){data + pos, run};
            *consumed = pos + run;
            chunked->chunk_left -= run;
            if (chunked->chunk_left == 0) chunked->state = STATE_DATA_CR;
            return UVHTTP_E_AGAIN;
        }
        int rc = step(chunked, data[pos]);
        if (rc != 0) {
            *consumed = pos;
            return fail(chunked, rc);
        }
        ++pos;
    }
    *consumed = pos;
    return chunked->state == STATE_DONE ? 0 : chunked->error;
}

/* They are counted as they are read, and only the last empty line, which is not, can stand behind them. */
uvhttp_str_t uvhttp__http1_chunked_trailer(const uvhttp__http1_chunked_t *chunked, uint32_t size_before,
                                           const char *data, size_t consumed) {
    size_t size = chunked->trailer_size - size_before;
    size_t behind = chunked->state == STATE_DONE ? 2 : chunked->state == STATE_END_LF ? 1 : 0;
    if (size == 0 || chunked->state == STATE_FAILED) return (uvhttp_str_t){NULL, 0};
    return (uvhttp_str_t){data + consumed - behind - size, size};
}
