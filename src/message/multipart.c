/* Owns: multipart/form-data piece by piece: where parts begin and end (RFC 2046 section 5.1.1). May include: base.
 *
 * The delimiter is CRLF "--" boundary. No boundary holds a CR, so when a match breaks off, no shorter one can have
 * begun within it: the bytes that matched are content, and a copy of them is the delimiter itself. Nothing is ever kept
 * but how many there were, and each byte is looked at a bounded number of times. */
#include "message/multipart.h"
#include "base/chars.h"
#include "base/str.h"

enum {
    STATE_PREAMBLE, /* before the first delimiter: thrown away */
    STATE_DATA,     /* in the content of a part */
    STATE_LINE,     /* right behind a delimiter */
    STATE_DASH,     /* ... and one '-' */
    STATE_PADDING,  /* ... or spaces */
    STATE_LF,       /* ... and CR */
    STATE_HEADER,   /* in the header of a part */
    STATE_CLOSED,   /* behind the last delimiter: END is to be told */
    STATE_TAIL,     /* ... told; spaces, then CRLF or the end of the body */
    STATE_TAIL_LF,  /* ... CR */
    STATE_EPILOGUE, /* thrown away */
};

#define FIELD_COUNT_MAX 1000000u
#define HEADER_SIZE_MIN 64u /* bytes */

static bool is_boundary_char(char c) {
    return c != '\0' && strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'()+_,-./:=? ", c);
}

static bool is_boundary(uvhttp_str_t text) {
    if (text.size < 1 || text.size > UVHTTP_MULTIPART_BOUNDARY_SIZE_MAX) return false;
    for (size_t i = 0; i < text.size; ++i)
        if (!is_boundary_char(text.data[i])) return false;
    return text.data[text.size - 1] != ' ';
}

static int find_boundary(uvhttp_str_t content_type, uvhttp_str_t *boundary) {
    uvhttp_str_t rest;
    uvhttp_str_t type = uvhttp__multipart_value_type(content_type, &rest);
    if (!uvhttp__str_equal_nocase(type, UVHTTP__STR("multipart/form-data"))) return UVHTTP_E_FORM_TYPE;
    uvhttp__multipart_param_t param;
    int status;
    *boundary = (uvhttp_str_t){NULL, 0};
    while ((status = uvhttp__multipart_next_param(&rest, &param)) == 0) {
        if (!uvhttp__str_equal_nocase(param.name, UVHTTP__STR("boundary"))) continue;
        if (boundary->data || !is_boundary(param.value)) return UVHTTP_E_MULTIPART_BOUNDARY;
        *boundary = param.value;
    }
    return status == UVHTTP_E_EOF && boundary->data ? 0 : UVHTTP_E_MULTIPART_BOUNDARY;
}

int uvhttp_multipart_init(uvhttp_multipart_t *parser, uvhttp_str_t content_type, const uvhttp_form_limits_t *limits) {
    const uvhttp_form_limits_t defaults = {0};
    if (!limits) limits = &defaults;
    size_t count_max = limits->field_count_max ? limits->field_count_max : UVHTTP_FORM_FIELD_COUNT_MAX_DEFAULT;
    size_t header_max = limits->header_size_max ? limits->header_size_max : UVHTTP_MULTIPART_HEADER_SIZE_MAX;
    parser->error = UVHTTP_E_INVALID;
    if (count_max > FIELD_COUNT_MAX || header_max < HEADER_SIZE_MIN || header_max > UVHTTP_MULTIPART_HEADER_SIZE_MAX)
        return parser->error;
    uvhttp_str_t boundary;
    parser->error = find_boundary(content_type, &boundary);
    if (parser->error != 0) return parser->error;
    parser->state = STATE_PREAMBLE;
    parser->in_part = false;
    parser->matched = parser->assumed = 2; /* the first delimiter may do without its CRLF */
    parser->delimiter_size = (uint8_t)(4 + boundary.size);
    memcpy(parser->delimiter, "\r\n--", 4);
    memcpy(parser->delimiter + 4, boundary.data, boundary.size);
    parser->parts = parser->header_size = 0;
    parser->part_size = 0;
    parser->field_count_max = count_max;
    parser->header_size_max = header_max;
    parser->part_size_max = limits->part_size_max ? limits->part_size_max : UINT64_MAX;
    return 0;
}

/* --- content --- */

/* How many of the last bytes may be the beginning of a delimiter. */
static size_t open_end(const uvhttp_multipart_t *parser, const char *data, size_t size) {
    size_t tail = size < parser->delimiter_size ? size : parser->delimiter_size - 1u;
    const char *cr = memrchr(data + size - tail, '\r', tail);
    if (!cr) return 0;
    size_t held = (size_t)(data + size - cr);
    return memcmp(cr, parser->delimiter, held) == 0 ? held : 0;
}

static int notify_data(uvhttp_multipart_t *parser, const char *data, size_t size, uvhttp_multipart_event_t *event) {
    if (size == 0 || parser->state == STATE_PREAMBLE) return UVHTTP_E_AGAIN;
    if (size > parser->part_size_max - parser->part_size) return UVHTTP_E_MULTIPART_PART_TOO_LARGE;
    parser->part_size += size;
    event->kind = UVHTTP_MULTIPART_DATA;
    event->data = (uvhttp_str_t){data, size};
    return 0;
}

/* The last piece ended within what may be a delimiter. */
static int resume_match(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                        uvhttp_multipart_event_t *event) {
    size_t matched = parser->matched, used = 0;
    while (matched < parser->delimiter_size && used < size && data[used] == parser->delimiter[matched])
        ++matched, ++used;
    *consumed = used;
    parser->matched = (uint8_t)matched;
    if (matched < parser->delimiter_size && used == size) return UVHTTP_E_AGAIN;
    size_t assumed = parser->assumed;
    parser->matched = parser->assumed = 0;
    if (matched < parser->delimiter_size)
        return notify_data(parser, parser->delimiter + assumed, matched - assumed, event);
    parser->state = STATE_LINE;
    return UVHTTP_E_AGAIN;
}

static int read_data(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                     uvhttp_multipart_event_t *event) {
    if (parser->matched > 0) return resume_match(parser, data, size, consumed, event);
    const char *found = memmem(data, size, parser->delimiter, parser->delimiter_size);
    if (!found) {
        parser->matched = (uint8_t)open_end(parser, data, size);
        *consumed = size;
        return notify_data(parser, data, size - parser->matched, event);
    }
    size_t before = (size_t)(found - data);
    *consumed = before + parser->delimiter_size;
    int status = notify_data(parser, data, before, event);
    parser->state = STATE_LINE;
    return status;
}

/* --- the line of a delimiter --- What follows the boundary must be "--" or spaces, and the end of the line: a line
 * that goes on would be a delimiter to one reader (RFC 2046) and content to another. */

static int end_part(uvhttp_multipart_t *parser, uvhttp_multipart_event_t *event) {
    if (!parser->in_part) return UVHTTP_E_AGAIN;
    parser->in_part = false;
    event->kind = UVHTTP_MULTIPART_PART_END;
    return 0;
}

static int read_line(uvhttp_multipart_t *parser, char c, uvhttp_multipart_event_t *event) {
    bool space = c == ' ' || c == '\t';
    switch (parser->state) {
        case STATE_DASH:
            if (c != '-') break;
            parser->state = STATE_CLOSED;
            return end_part(parser, event);
        case STATE_LINE:
        case STATE_PADDING:
            if (c == '-' && parser->state == STATE_LINE)
                parser->state = STATE_DASH;
            else if (space)
                parser->state = STATE_PADDING;
            else if (c == '\r')
                parser->state = STATE_LF;
            else
                break;
            return UVHTTP_E_AGAIN;
        case STATE_LF:
            if (c != '\n') break;
            parser->state = STATE_HEADER;
            parser->header_size = 0;
            return end_part(parser, event);
        case STATE_TAIL:
            if (!space && c != '\r') break;
            if (!space) parser->state = STATE_TAIL_LF;
            return UVHTTP_E_AGAIN;
        default: /* STATE_TAIL_LF */
            if (c != '\n') break;
            parser->state = STATE_EPILOGUE;
            return UVHTTP_E_AGAIN;
    }
    return UVHTTP_E_MULTIPART_FRAMING;
}

/* --- header --- */

static int begin_part(uvhttp_multipart_t *parser, uvhttp_multipart_event_t *event) {
    if (parser->parts == parser->field_count_max) return UVHTTP_E_FORM_TOO_MANY_FIELDS;
    int status = uvhttp__multipart_parse_header(parser->header, parser->header_size, event);
    if (status != 0) return status;
    ++parser->parts;
    parser->part_size = 0;
    parser->in_part = true;
    /* A part without content may end where its header does: the empty line's CRLF is that of the delimiter. */
    parser->matched = parser->assumed = 2;
    parser->state = STATE_DATA;
    event->kind = UVHTTP_MULTIPART_PART;
    return 0;
}

/* Takes the header line by line. */
static int read_header(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                       uvhttp_multipart_event_t *event) {
    size_t capacity = parser->header_size_max - parser->header_size;
    size_t seen = size < capacity ? size : capacity;
    const char *lf = memchr(data, '\n', seen);
    size_t used = lf ? (size_t)(lf - data) + 1 : seen;
    memcpy(parser->header + parser->header_size, data, used);
    parser->header_size += used;
    *consumed = used;
    const char *end = parser->header + parser->header_size;
    if (!lf) return seen < size ? UVHTTP_E_MULTIPART_HEADER_TOO_LARGE : UVHTTP_E_AGAIN;
    if (parser->header_size < 2 || end[-2] != '\r') return UVHTTP_E_MULTIPART_HEADER;
    bool empty_line = parser->header_size == 2 || (parser->header_size >= 4 && end[-3] == '\n');
    return empty_line ? begin_part(parser, event) : UVHTTP_E_AGAIN;
}

static int step(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                uvhttp_multipart_event_t *event) {
    switch (parser->state) {
        case STATE_PREAMBLE:
        case STATE_DATA: return read_data(parser, data, size, consumed, event);
        case STATE_HEADER: return read_header(parser, data, size, consumed, event);
        case STATE_EPILOGUE: *consumed = size; return UVHTTP_E_AGAIN;
        default: *consumed = 1; return read_line(parser, data[0], event);
    }
}

int uvhttp_multipart_read(uvhttp_multipart_t *parser, const char *data, size_t size, size_t *consumed,
                          uvhttp_multipart_event_t *event) {
    *consumed = 0;
    *event = (uvhttp_multipart_event_t){.kind = UVHTTP_MULTIPART_END};
    if (parser->error != 0) return parser->error;
    for (;;) {
        if (parser->state == STATE_CLOSED) {
            parser->state = STATE_TAIL;
            return 0;
        }
        if (*consumed == size) return UVHTTP_E_AGAIN;
        size_t used = 0;
        int status = step(parser, data + *consumed, size - *consumed, &used, event);
        *consumed += used;
        if (status == UVHTTP_E_AGAIN) continue;
        if (status != 0) parser->error = status;
        return status;
    }
}

int uvhttp_multipart_finish(const uvhttp_multipart_t *parser) {
    if (parser->error != 0) return parser->error;
    bool whole = parser->state == STATE_TAIL || parser->state == STATE_EPILOGUE;
    return whole ? 0 : UVHTTP_E_MULTIPART_INCOMPLETE;
}
