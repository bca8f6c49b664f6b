/* Owns: the header of a part, Content-Disposition above all (RFC 7578 section 4.2), and parameters. Strict, because two
 * readers that understand a name differently are how uploads pass a filter. May include: base. */
#include <assert.h>

#include "base/chars.h"
#include "base/str.h"
#include "message/multipart.h"

static bool is_space(char c) {
    return c == ' ' || c == '\t';
}

static uvhttp_str_t skip(uvhttp_str_t str, size_t size) {
    return (uvhttp_str_t){str.data + size, str.size - size};
}

static uvhttp_str_t skip_spaces(uvhttp_str_t str) {
    while (str.size > 0 && is_space(str.data[0])) str = skip(str, 1);
    return str;
}

uvhttp_str_t uvhttp__multipart_value_type(uvhttp_str_t value, uvhttp_str_t *rest) {
    const char *semicolon = value.size ? memchr(value.data, ';', value.size) : NULL;
    size_t size = semicolon ? (size_t)(semicolon - value.data) : value.size;
    *rest = value.size ? skip(value, size) : value;
    return uvhttp__str_trim((uvhttp_str_t){value.data, size});
}

/* The size of the text between the quotes, str.data[0] being the first; a backslash before a quote or a backslash takes
 * it in. SIZE_MAX if the end is missing. */
static size_t quoted_size(uvhttp_str_t str) {
    for (size_t i = 1; i < str.size; ++i) {
        if (str.data[i] == '"') return i - 1;
        bool escape = str.data[i] == '\\' && i + 1 < str.size && (str.data[i + 1] == '"' || str.data[i + 1] == '\\');
        if (escape) ++i;
    }
    return SIZE_MAX;
}

static size_t unquoted_size(uvhttp_str_t str) {
    size_t size = 0;
    while (size < str.size && !is_space(str.data[size]) && memchr(";\"\\", str.data[size], 3) == NULL) ++size;
    return size;
}

int uvhttp__multipart_next_param(uvhttp_str_t *rest, uvhttp__multipart_param_t *param) {
    uvhttp_str_t at = skip_spaces(*rest);
    if (at.size == 0) return UVHTTP_E_EOF;
    if (at.data[0] != ';') return UVHTTP_E_INVALID;
    at = skip_spaces(skip(at, 1));
    size_t size = 0;
    while (size < at.size && uvhttp__char_is(at.data[size], UVHTTP__CHAR_TOKEN)) ++size;
    /* A ';' with nothing behind it ends many a value that is sent. */
    if (at.size == 0) return UVHTTP_E_EOF;
    if (size == 0 || size == at.size || at.data[size] != '=') return UVHTTP_E_INVALID;
    param->name = (uvhttp_str_t){at.data, size};
    at = skip(at, size + 1);
    param->quoted = at.size > 0 && at.data[0] == '"';
    size = param->quoted ? quoted_size(at) : unquoted_size(at);
    if (size == SIZE_MAX || (size == 0 && !param->quoted)) return UVHTTP_E_INVALID;
    param->value = (uvhttp_str_t){at.data + param->quoted, size};
    *rest = skip(at, size + (param->quoted ? 2 : 0));
    return 0;
}

/* Unescapes within the header, which is ours to write to. A backslash is not the last: it would escape the quote that
 * ends the value. */
static uvhttp_str_t unescape(char *header, uvhttp_str_t value) {
    char *text = header + (value.data - header);
    size_t used = 0;
    for (size_t i = 0; i < value.size; ++i) {
        bool escape = text[i] == '\\' && (text[i + 1] == '"' || text[i + 1] == '\\');
        if (escape) ++i;
        text[used++] = text[i];
    }
    return (uvhttp_str_t){text, used};
}

static int parse_disposition(char *header, uvhttp_str_t value, uvhttp_multipart_event_t *event) {
    uvhttp_str_t rest;
    if (event->name.data) return UVHTTP_E_MULTIPART_DISPOSITION;
    if (!uvhttp__str_equal_nocase(uvhttp__multipart_value_type(value, &rest), UVHTTP__STR("form-data")))
        return UVHTTP_E_MULTIPART_DISPOSITION;
    uvhttp__multipart_param_t param;
    int status;
    while ((status = uvhttp__multipart_next_param(&rest, &param)) == 0) {
        if (!param.quoted && !uvhttp__chars_are(param.value, UVHTTP__CHAR_TOKEN)) return UVHTTP_E_MULTIPART_DISPOSITION;
        bool name = uvhttp__str_equal_nocase(param.name, UVHTTP__STR("name"));
        bool filename = uvhttp__str_equal_nocase(param.name, UVHTTP__STR("filename"));
        /* "name*" and "filename*": RFC 7578 section 4.2 forbids them, and who ignores them sees another file name. */
        bool extended = param.name.data[param.name.size - 1] == '*';
        if (extended || (name && event->name.data) || (filename && event->filename.data))
            return UVHTTP_E_MULTIPART_DISPOSITION;
        if (name) event->name = unescape(header, param.value);
        if (filename) event->filename = unescape(header, param.value);
    }
    return status == UVHTTP_E_EOF && event->name.data ? 0 : UVHTTP_E_MULTIPART_DISPOSITION;
}

/* Deprecated by RFC 7578 section 4.7; what does not encode may stand there. */
static bool is_identity(uvhttp_str_t encoding) {
    return uvhttp__str_equal_nocase(encoding, UVHTTP__STR("binary")) ||
           uvhttp__str_equal_nocase(encoding, UVHTTP__STR("8bit")) ||
           uvhttp__str_equal_nocase(encoding, UVHTTP__STR("7bit"));
}

static int parse_line(char *header, uvhttp_str_t line, uvhttp_multipart_event_t *event) {
    const char *colon = memchr(line.data, ':', line.size);
    if (!colon) return UVHTTP_E_MULTIPART_HEADER;
    uvhttp_str_t name = {line.data, (size_t)(colon - line.data)};
    uvhttp_str_t value = uvhttp__str_trim(skip(line, name.size + 1));
    /* A folded line begins with a space, which is in no name. */
    if (!uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(value)) return UVHTTP_E_MULTIPART_HEADER;
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("Content-Disposition")))
        return parse_disposition(header, value, event);
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("Content-Type"))) {
        if (event->content_type.data) return UVHTTP_E_MULTIPART_HEADER;
        event->content_type = value;
    }
    if (uvhttp__str_equal_nocase(name, UVHTTP__STR("Content-Transfer-Encoding")) && !is_identity(value))
        return UVHTTP_E_MULTIPART_ENCODING;
    return 0;
}

int uvhttp__multipart_parse_header(char *header, size_t size, uvhttp_multipart_event_t *event) {
    size_t at = 0;
    for (;;) {
        const char *end = memmem(header + at, size - at, "\r\n", 2);
        assert(end); /* the last line is empty */
        size_t line_size = (size_t)(end - header) - at;
        if (line_size == 0) break;
        int status = parse_line(header, (uvhttp_str_t){header + at, line_size}, event);
        if (status != 0) return status;
        at += line_size + 2;
    }
    return event->name.data ? 0 : UVHTTP_E_MULTIPART_DISPOSITION;
}
