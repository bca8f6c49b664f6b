/* Owns: what a handler can ask about a request but its path's decoding and its query. May include: base. */
#include <string.h>
#include <uvhttp/body.h>

#include "base/hot_path.h"
#include "base/str.h"
#include "message/message.h"

void uvhttp__request_init(uvhttp_request_t *req, uvhttp__arena_t *arena, const uvhttp__request_ops_t *ops) {
    *req = (uvhttp_request_t){.arena = arena, .ops = ops};
}

const uvhttp__request_extras_t uvhttp__request_no_extras;

uvhttp__request_extras_t *uvhttp__request_make_extras(uvhttp_request_t *req) {
    uvhttp__request_extras_t *extras =
        uvhttp__arena_alloc_uncounted(req->arena, sizeof *extras, _Alignof(uvhttp__request_extras_t));
    if (!extras) return NULL;
    *extras = (uvhttp__request_extras_t){.trailer = {NULL, 0}};
    /* Release: who finds them finds them empty. */
    atomic_store_explicit(&req->extras, extras, memory_order_release);
    return extras;
}

UVHTTP__HOT uvhttp_method_t uvhttp_request_method(const uvhttp_request_t *req) {
    return (uvhttp_method_t)req->head.method;
}

uvhttp_str_t uvhttp_request_method_text(const uvhttp_request_t *req) {
    return uvhttp__span_str(req->base, req->head.method_text);
}

const char *uvhttp_method_name(uvhttp_method_t method) {
    switch (method) {
#define CASE(symbol, token)                                                                                            \
    case UVHTTP_##symbol: return token;
        UVHTTP_METHOD_MAP(CASE)
#undef CASE
        case UVHTTP_METHOD_OTHER:
        case UVHTTP_ANY: break;
    }
    return "";
}

uvhttp_str_t uvhttp_request_target(const uvhttp_request_t *req) {
    return uvhttp__span_str(req->base, req->head.target);
}

UVHTTP__HOT uvhttp_str_t uvhttp_request_path(const uvhttp_request_t *req) {
    const uvhttp__request_extras_t *extras = uvhttp__request_find_extras(req);
    if (UNLIKELY(extras && extras->decoded)) return (uvhttp_str_t){extras->decoded, extras->decoded_size};
    return uvhttp__span_str(req->base, req->head.path);
}

uvhttp_str_t uvhttp_request_query(const uvhttp_request_t *req) {
    return uvhttp__span_str(req->base, req->head.query);
}

uvhttp_str_t uvhttp_request_host(const uvhttp_request_t *req) {
    return uvhttp__span_str(req->base, req->head.authority);
}

uvhttp_http_version_t uvhttp_request_http_version(const uvhttp_request_t *req) {
    return (uvhttp_http_version_t)req->head.version;
}

const char *uvhttp_http_version_name(uvhttp_http_version_t version) {
    switch (version) {
        case UVHTTP_HTTP_1_0: return "HTTP/1.0";
        case UVHTTP_HTTP_2: return "HTTP/2.0";
        default: return "HTTP/1.1";
    }
}

uvhttp_str_t uvhttp_request_body(const uvhttp_request_t *req) {
    return req->body;
}

void uvhttp_request_set_data(uvhttp_request_t *req, void *data) {
    req->data = data;
}

void *uvhttp_request_data(const uvhttp_request_t *req) {
    return req->data;
}

void *uvhttp_request_alloc(uvhttp_request_t *req, size_t size) {
    return size ? uvhttp__arena_alloc(req->arena, size) : NULL;
}

char *uvhttp_request_str_dup(uvhttp_request_t *req, uvhttp_str_t text) {
    char *copy = text.size < SIZE_MAX ? uvhttp__arena_alloc(req->arena, text.size + 1) : NULL;
    if (!copy) return NULL;
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* --- notes --- */

int uvhttp__request_set_note(uvhttp_request_t *req, const void *key, uvhttp_str_t text) {
    uvhttp__request_extras_t *extras = uvhttp__request_extras(req);
    uvhttp__note_t *note = extras ? uvhttp__arena_alloc(req->arena, sizeof *note + text.size) : NULL;
    if (!note) return UVHTTP_E_NOMEM;
    char *copy = (char *)(note + 1);
    if (text.size) memcpy(copy, text.data, text.size);
    *note = (uvhttp__note_t){extras->notes, key, {copy, text.size}};
    extras->notes = note;
    return UVHTTP_OK;
}

uvhttp_str_t uvhttp__request_note(const uvhttp_request_t *req, const void *key) {
    for (const uvhttp__note_t *note = uvhttp__request_see_extras(req)->notes; note; note = note->next)
        if (note->key == key) return note->text;
    return (uvhttp_str_t){NULL, 0};
}

static const char trace_note; /* its address counts */

int uvhttp__request_set_trace_record(uvhttp_request_t *req, const uvhttp__trace_record_t *record, size_t size) {
    return uvhttp__request_set_note(req, &trace_note, (uvhttp_str_t){(const char *)record, size});
}

uvhttp__trace_record_t *uvhttp__request_trace_record(const uvhttp_request_t *req) {
    return (uvhttp__trace_record_t *)(uintptr_t)uvhttp__request_note(req, &trace_note).data;
}

/* --- header fields --- */

/* The index of the first field called `name` at or after `index`, or field_count. Most fields differ in size already,
 * and none is called "" or NULL. */
static size_t find_field(const uvhttp_request_t *req, const char *name, size_t index) {
    size_t size = name ? strlen(name) : 0;
    for (; index < req->head.header_count; ++index) {
        uvhttp__span_t span = req->head.headers[index].name;
        if (span.size == size && uvhttp__bytes_equal_nocase(req->base + span.offset, name, size)) break;
    }
    return index;
}

uvhttp_str_t uvhttp_request_header(const uvhttp_request_t *req, const char *name) {
    size_t index = find_field(req, name, 0);
    if (index >= req->head.header_count) return (uvhttp_str_t){NULL, 0};
    return uvhttp__span_str(req->base, req->head.headers[index].value);
}

bool uvhttp_request_header_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name, uvhttp_str_t *value) {
    bool found = index < req->head.header_count;
    const uvhttp_str_t none = {NULL, 0};
    if (name) *name = found ? uvhttp__span_str(req->base, req->head.headers[index].name) : none;
    if (value) *value = found ? uvhttp__span_str(req->base, req->head.headers[index].value) : none;
    return found;
}

size_t uvhttp_request_header_count(const uvhttp_request_t *req) {
    return req->head.header_count;
}

bool uvhttp_request_header_next(const uvhttp_request_t *req, const char *name, size_t *index, uvhttp_str_t *value) {
    size_t found = find_field(req, name, *index);
    *index = found < req->head.header_count ? found + 1 : req->head.header_count;
    return uvhttp_request_header_at(req, found, NULL, value);
}

/* The text up to a comma outside of quotes. A backslash means nothing in an entity tag (RFC 9110 section 8.8.3), and
 * tokens have none. */
static size_t member_size(uvhttp_str_t text) {
    bool quoted = false;
    size_t size = 0;
    for (; size < text.size && (quoted || text.data[size] != ','); size++) quoted ^= text.data[size] == '"';
    return size;
}

bool uvhttp__member_next(uvhttp__members_t *at, uvhttp_str_t *member) {
    for (;;) {
        while (at->rest.size > 0) {
            size_t size = member_size(at->rest), consumed = size + (size < at->rest.size);
            *member = uvhttp__str_trim((uvhttp_str_t){at->rest.data, size});
            at->rest = (uvhttp_str_t){at->rest.data + consumed, at->rest.size - consumed};
            if (member->size > 0) return true;
        }
        if (!uvhttp_request_header_next(at->req, at->name, &at->index, &at->rest)) return false;
    }
}

bool uvhttp__members_have(const uvhttp_request_t *req, const char *name, uvhttp_str_t wanted) {
    uvhttp__members_t at = {.req = req, .name = name};
    uvhttp_str_t member;
    while (uvhttp__member_next(&at, &member))
        if (uvhttp__str_equal_nocase(member, wanted)) return true;
    return false;
}

/* --- trailers --- */

/* Removes a line from *rest. Line feed and colon are always found: the decoder has checked the lines. */
static bool next_trailer(uvhttp_str_t *rest, uvhttp_str_t *name, uvhttp_str_t *value) {
    *name = *value = (uvhttp_str_t){NULL, 0};
    if (rest->size == 0) return false;
    const char *line = rest->data, *lf = memchr(line, '\n', rest->size);
    const char *colon = memchr(line, ':', rest->size);
    *name = (uvhttp_str_t){line, (size_t)(colon - line)};
    *value = uvhttp__str_trim((uvhttp_str_t){colon + 1, (size_t)(lf - 1 - (colon + 1))});
    rest->size -= (size_t)(lf + 1 - line);
    rest->data = lf + 1;
    return true;
}

bool uvhttp_request_trailer_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name, uvhttp_str_t *value) {
    const uvhttp__request_extras_t *extras = uvhttp__request_see_extras(req);
    uvhttp__request_extras_t *memo = uvhttp__request_find_extras(req); /* one thread's */
    bool known = extras->trailer_known && index >= extras->last_trailer.index;
    size_t at = known ? extras->last_trailer.index : 0, offset = known ? extras->last_trailer.offset : 0;
    uvhttp_str_t rest = extras->trailer, name_here, value_here;
    if (offset > 0) rest = (uvhttp_str_t){rest.data + offset, rest.size - offset};
    bool found = next_trailer(&rest, &name_here, &value_here);
    for (; found && at < index; at++) {
        offset = extras->trailer.size - rest.size;
        found = next_trailer(&rest, &name_here, &value_here);
    }
    if (memo) {
        memo->trailer_known = found;
        memo->last_trailer.index = (uint32_t)at;
        memo->last_trailer.offset = (uint32_t)offset;
    }
    if (name) *name = name_here;
    if (value) *value = value_here;
    return found;
}

uvhttp_str_t uvhttp_request_trailer(const uvhttp_request_t *req, const char *wanted_text) {
    uvhttp_str_t wanted = uvhttp__str_from(wanted_text), rest = uvhttp__request_see_extras(req)->trailer, name, value;
    while (next_trailer(&rest, &name, &value))
        if (uvhttp__str_equal_nocase(name, wanted)) return value;
    return value;
}

/* --- parameters of the route --- */

uvhttp_str_t uvhttp_request_param(const uvhttp_request_t *req, const char *name) {
    const uvhttp__request_extras_t *extras = uvhttp__request_see_extras(req);
    uvhttp_str_t wanted = uvhttp__str_from(name);
    for (size_t i = 0; i < extras->param_count; ++i) {
        if (!uvhttp__str_equal(extras->param_names[i], wanted)) continue;
        const char *text = extras->param_text ? extras->param_text : uvhttp_request_path(req).data;
        return uvhttp__span_str(text, extras->params[i]);
    }
    return (uvhttp_str_t){NULL, 0};
}

uint64_t uvhttp_request_time_ns(const uvhttp_request_t *req) {
    return req->ops->time_ns(req);
}
