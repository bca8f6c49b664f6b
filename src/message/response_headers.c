/* Owns: the header fields of a response, stored as the text that is sent. Content-Type is stored separately, because
 * every response sets it. May include: base. */
#include "base/chars.h"
#include "base/hot_path.h"
#include "base/str.h"
#include "message/response_internal.h"

#define HEADERS_CAPACITY_FIRST 256u /* bytes */

/* One field in res->headers: text[begin, end) is "Name: value\r\n". */
typedef struct line {
    size_t begin, end;
    uvhttp_str_t name, value;
} line_t;

/* The line that begins at `at`; false at the end. */
static bool next_line(const uvhttp_response_t *res, size_t at, line_t *line) {
    if (at >= res->headers_size) return false;
    const char *text = res->headers + at;
    /* Both are always found: a name holds no ':' and a value no LF. */
    size_t size = (size_t)((const char *)memchr(text, '\n', res->headers_size - at) - text) + 1;
    size_t name_size = (size_t)((const char *)memchr(text, ':', size) - text);
    *line = (line_t){at, at + size, {text, name_size}, {text + name_size + 2, size - name_size - 4}};
    return true;
}

/* Removes the fields called `name` among the first `limit` bytes. What stands behind is moved last, so that `name` may
 * be a view into that. */
static void remove_before(uvhttp_response_t *res, uvhttp_str_t name, size_t limit) {
    size_t kept = 0;
    line_t line;
    for (size_t at = 0; at < limit && next_line(res, at, &line); at = line.end) {
        if (uvhttp__str_equal_nocase(line.name, name)) continue;
        memmove(res->headers + kept, res->headers + line.begin, line.end - line.begin);
        kept += line.end - line.begin;
    }
    if (kept == limit) return;
    memmove(res->headers + kept, res->headers + limit, res->headers_size - limit);
    res->headers_size -= (uint32_t)(limit - kept);
}

void uvhttp__response_remove_fields(uvhttp_response_t *res, uvhttp_str_t name) {
    remove_before(res, name, res->headers_size);
}

static int reserve(uvhttp_response_t *res, size_t size) {
    size_t needed = res->headers_size + size;
    if (needed <= res->headers_capacity) return 0;
    if (size > UVHTTP__RESPONSE_HEADERS_SIZE_MAX || needed > UVHTTP__RESPONSE_HEADERS_SIZE_MAX) return UVHTTP_E_LIMIT;
    size_t capacity = res->headers_capacity ? res->headers_capacity : HEADERS_CAPACITY_FIRST;
    while (capacity < needed) capacity *= 2;
    int status = UVHTTP_E_NOMEM;
    char *headers = uvhttp__response_alloc(res, capacity, &status);
    if (!headers) return status;
    if (res->headers_size) memcpy(headers, res->headers, res->headers_size);
    res->headers = headers;
    res->headers_capacity = (uint32_t)capacity;
    return 0;
}

static void recall_type(uvhttp_response_t *res, uvhttp__content_type_t *type) {
    type->data = res->checked_type;
    type->size = res->checked_type_size;
}

static int check_type(uvhttp_response_t *res, uvhttp_str_t text, uvhttp__content_type_t *type) {
    if (text.size > UVHTTP__RESPONSE_CONTENT_TYPE_SIZE_MAX || !uvhttp__valid_header_value(text))
        return UVHTTP_E_INVALID;
    /* Not while it is in use: when the rest of the call fails, the old type must still be there. */
    bool in_use = res->content_type_size > 0 && res->content_type == res->checked_type;
    if (text.size < sizeof res->checked_type && !in_use) {
        memcpy(res->checked_type, text.data, text.size);
        res->checked_type[text.size] = '\0';
        res->checked_type_size = (uint8_t)text.size;
        recall_type(res, type);
        return 0;
    }
    int status = 0;
    char *copy = uvhttp__response_alloc(res, text.size, &status);
    if (!copy) return status;
    type->data = memcpy(copy, text.data, text.size);
    type->size = (uint32_t)text.size;
    return 0;
}

int uvhttp__response_copy_type(uvhttp_response_t *res, const char *text, uvhttp__content_type_t *type) {
    *type = (uvhttp__content_type_t){"", 0, false};
    if (text) return text[0] == '\0' ? 0 : check_type(res, uvhttp__str_from(text), type);
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_TYPE_KEPT))
        *type = (uvhttp__content_type_t){res->content_type, res->content_type_size, true};
    return 0;
}

static bool is_content_type(uvhttp_str_t name) {
    return uvhttp__str_equal_nocase(name, UVHTTP__STR("Content-Type"));
}

int uvhttp__response_put_header(uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t value, bool replace) {
    if (!uvhttp__valid_header_name(name) || !uvhttp__valid_header_value(value)) return UVHTTP_E_INVALID;
    if (is_content_type(name)) {
        uvhttp__content_type_t type = {"", 0, true};
        int status = value.size > 0 ? check_type(res, value, &type) : 0;
        if (status == 0) uvhttp__response_set_type(res, type);
        return status;
    }
    if (name.size > UVHTTP__RESPONSE_HEADERS_SIZE_MAX || value.size > UVHTTP__RESPONSE_HEADERS_SIZE_MAX)
        return UVHTTP_E_LIMIT;
    int status = reserve(res, name.size + value.size + 4);
    if (status != 0) return status;
    size_t before = res->headers_size;
    char *at = res->headers + before;
    memcpy(at, name.data, name.size);
    memcpy(at + name.size, ": ", 2);
    if (value.size) memcpy(at + name.size + 2, value.data, value.size);
    memcpy(at + name.size + 2 + value.size, "\r\n", 2);
    res->headers_size += (uint32_t)(name.size + value.size + 4);
    if (replace) remove_before(res, (uvhttp_str_t){at, name.size}, before);
    return 0;
}

int uvhttp__response_put_fields(uvhttp_response_t *res, const char *text, size_t size) {
    int status = reserve(res, size);
    if (status != 0) return status;
    size_t before = res->headers_size, at = before;
    memcpy(res->headers + before, text, size);
    res->headers_size += (uint32_t)size;
    line_t line;
    while (before > 0 && next_line(res, at, &line)) {
        uint32_t whole = res->headers_size;
        if (!uvhttp__str_equal_nocase(line.name, UVHTTP__STR("Vary"))) remove_before(res, line.name, before);
        before -= whole - res->headers_size;
        at = line.end - (whole - res->headers_size);
    }
    return 0;
}

bool uvhttp__response_lists(const uvhttp_response_t *res, uvhttp_str_t name, uvhttp_str_t item) {
    line_t line;
    uvhttp_str_t found;
    for (size_t at = 0; next_line(res, at, &line); at = line.end)
        if (uvhttp__str_equal_nocase(line.name, name))
            while (uvhttp__list_next(&line.value, &found))
                if (uvhttp__str_equal_nocase(found, item)) return true;
    return false;
}

bool uvhttp__response_field_is_reserved(uvhttp_str_t name) {
    static const uvhttp_str_t reserved[] = {UVHTTP__STR_INIT("Content-Length"), UVHTTP__STR_INIT("Transfer-Encoding"),
                                            UVHTTP__STR_INIT("Connection"), UVHTTP__STR_INIT("Date"),
                                            UVHTTP__STR_INIT("Upgrade")};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; ++i)
        if (uvhttp__str_equal_nocase(name, reserved[i])) return true;
    return false;
}

static bool asks_to_close(uvhttp_str_t name, uvhttp_str_t value) {
    return uvhttp__str_equal_nocase(name, UVHTTP__STR("Connection")) &&
           uvhttp__str_equal_nocase(value, UVHTTP__STR("close"));
}

bool uvhttp__response_may_have_field(uvhttp_str_t name, uvhttp_str_t value) {
    if (uvhttp__response_field_is_reserved(name)) return asks_to_close(name, value);
    return uvhttp__valid_header_name(name) && uvhttp__valid_header_value(value);
}

static int put_header(uvhttp_response_t *res, const char *name_text, uvhttp_str_t value, bool replace) {
    if (!name_text || !value.data) return UVHTTP_E_INVALID;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED)) return UVHTTP_E_STATE;
    uvhttp_str_t name = uvhttp__str_from(name_text);
    if (uvhttp__response_field_is_reserved(name)) {
        if (!asks_to_close(name, value)) return UVHTTP_E_INVALID;
        res->flags |= UVHTTP__RESPONSE_CLOSE;
        return 0;
    }
    return uvhttp__response_put_header(res, name, value, replace);
}

int uvhttp_response_header(uvhttp_response_t *res, const char *name, const char *value) {
    return put_header(res, name, uvhttp__str_from(value), true);
}

int uvhttp_response_header_str(uvhttp_response_t *res, const char *name, uvhttp_str_t value) {
    return put_header(res, name, value, true);
}

int uvhttp_response_header_add(uvhttp_response_t *res, const char *name, const char *value) {
    return put_header(res, name, uvhttp__str_from(value), false);
}

int uvhttp_response_header_add_str(uvhttp_response_t *res, const char *name, uvhttp_str_t value) {
    return put_header(res, name, value, false);
}

int uvhttp_response_header_remove(uvhttp_response_t *res, const char *name_text) {
    uvhttp_str_t name = uvhttp__str_from(name_text);
    if (!uvhttp__valid_header_name(name) || uvhttp__response_field_is_reserved(name)) return UVHTTP_E_INVALID;
    if (uvhttp__response_is(res, UVHTTP__RESPONSE_COMMITTED | UVHTTP__RESPONSE_DEFERRED)) return UVHTTP_E_STATE;
    if (is_content_type(name))
        uvhttp__response_set_type(res, (uvhttp__content_type_t){"", 0, false});
    else
        uvhttp__response_remove_fields(res, name);
    return 0;
}

uvhttp_str_t uvhttp_response_header_get(const uvhttp_response_t *res, const char *name_text) {
    uvhttp_str_t name = uvhttp__str_from(name_text);
    if (is_content_type(name) && res->content_type_size)
        return (uvhttp_str_t){res->content_type, res->content_type_size};
    line_t line;
    for (size_t at = 0; next_line(res, at, &line); at = line.end)
        if (uvhttp__str_equal_nocase(line.name, name)) return line.value;
    return (uvhttp_str_t){NULL, 0};
}
