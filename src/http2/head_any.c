/* Owns: fields of a request head that are not usual, and the end of such a head (RFC 9113 sections 8.1 to 8.3). May
 * include: base. */
#include <assert.h>

#include "base/chars.h"
#include "base/method.h"
#include "base/str.h"
#include "base/uri.h"
#include "http2/head_assembly.h"

static ALWAYS_INLINE uvhttp__span_t value_span(const uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    return (uvhttp__span_t){uvhttp__http2_offset_of(at, field->text) + field->name_size, field->value_size};
}

static void refuse(uvhttp__http2_assembly_t *at, int code) {
    if (at->refusal == UVHTTP_OK) at->refusal = code;
    at->seen |= UVHTTP__SEEN_REFUSED;
}

/* --- pseudo-fields --- */

static ALWAYS_INLINE int see_once(uvhttp__http2_assembly_t *at, unsigned bit) {
    if (UNLIKELY((at->seen & (bit | UVHTTP__SEEN_FIELD)) != 0))
        return (at->seen & UVHTTP__SEEN_FIELD) != 0 ? UVHTTP_E_HTTP2_PSEUDO_ORDER : UVHTTP_E_HTTP2_PSEUDO_REPEATED;
    at->seen |= bit;
    return UVHTTP_OK;
}

/* The code for a value that is not good, or 0. */
static int pseudo_fault(const uvhttp__hpack_field_t *field) {
    switch (field->name) {
        case UVHTTP__HPACK_METHOD: return UVHTTP_E_HTTP2_METHOD;
        case UVHTTP__HPACK_SCHEME: return UVHTTP_E_HTTP2_SCHEME;
        case UVHTTP__HPACK_AUTHORITY: return UVHTTP_E_HTTP2_AUTHORITY;
        default: return UVHTTP_OK; /* a path is looked at when the method is known */
    }
}

static int read_protocol(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    int status = see_once(at, UVHTTP__SEEN_PROTOCOL);
    if (status != UVHTTP_OK) return status;
    at->request->protocol = value_span(at, field);
    return uvhttp__valid_header_name(uvhttp__span_str(at->scratch, at->request->protocol))
               ? UVHTTP_OK
               : UVHTTP_E_HTTP2_CONNECT_PROTOCOL;
}

static int read_pseudo(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    int status = see_once(at, 1u << field->name);
    if (status != UVHTTP_OK) return status;
    at->pseudo[field->name] = value_span(at, field);
    if ((field->facts & UVHTTP__HPACK_QUERY) != 0) at->seen |= UVHTTP__SEEN_QUERY;
    if ((field->facts & UVHTTP__HPACK_GOOD_PSEUDO) != 0) return UVHTTP_OK;
    if (field->name == UVHTTP__HPACK_PATH) at->seen |= UVHTTP__SEEN_ODD_PATH;
    return pseudo_fault(field);
}

/* --- fields --- */

static ALWAYS_INLINE int add_field(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    at->seen |= UVHTTP__SEEN_FIELD;
    if (UNLIKELY(at->field == at->fields_end)) {
        refuse(at, UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        return UVHTTP_OK;
    }
    uint32_t offset = uvhttp__http2_offset_of(at, field->text);
    *at->field++ = (uvhttp__field_t){{offset, field->name_size}, {offset + field->name_size, field->value_size}};
    return UVHTTP_OK;
}

static int read_content_length(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    uvhttp__head_t *head = at->head;
    uint64_t length;
    if (head->has_content_length ||
        uvhttp__str_parse_u64((uvhttp_str_t){field->text + field->name_size, field->value_size}, &length) !=
            UVHTTP_OK ||
        length > INT64_MAX)
        return UVHTTP_E_HTTP2_CONTENT_LENGTH;
    head->has_content_length = true;
    head->content_length = length;
    return add_field(at, field);
}

static int read_host(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    if ((at->seen & UVHTTP__SEEN_HOST) != 0 || (field->facts & UVHTTP__HPACK_GOOD_PSEUDO) == 0)
        return UVHTTP_E_HTTP2_AUTHORITY;
    at->seen |= UVHTTP__SEEN_HOST;
    at->host = value_span(at, field);
    return add_field(at, field);
}

/* Crumbs of a cookie become one field (RFC 9113 section 8.2.3). One that stands right behind the last is joined to it
 * now; with other fields in between that is done when all are known. */
static int read_cookie(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    if ((at->seen & UVHTTP__SEEN_COOKIE) != 0) {
        uvhttp__field_t *last = at->field - 1;
        char *end = at->scratch + last->value.offset + last->value.size;
        if (last->name.size == 6 && memcmp(at->scratch + last->name.offset, "cookie", 6) == 0 && end == field->text) {
            memcpy(end, "; ", 2);
            memmove(end + 2, field->text + field->name_size, field->value_size);
            last->value.size += 2 + field->value_size;
            at->reader.out = end + 2 + field->value_size;
            return UVHTTP_OK;
        }
        at->seen |= UVHTTP__SEEN_COOKIES_APART;
    }
    int status = add_field(at, field);
    if (at->refusal == UVHTTP_OK) at->seen |= UVHTTP__SEEN_COOKIE;
    return status;
}

static int read_te(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    uvhttp_str_t value = {field->text + field->name_size, field->value_size};
    if (!uvhttp__str_equal_nocase(value, UVHTTP__STR("trailers"))) return UVHTTP_E_HTTP2_TE;
    return add_field(at, field);
}

static int read_expect(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    uvhttp_str_t value = {field->text + field->name_size, field->value_size};
    if (uvhttp__str_equal_nocase(value, UVHTTP__STR("100-continue")))
        at->head->expect_continue = true;
    else
        refuse(at, UVHTTP_E_HTTP_EXPECTATION);
    return add_field(at, field);
}

static int read_priority(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (at->request->priority.size == 0) at->request->priority = value_span(at, field);
    return add_field(at, field);
}

static NOINLINE int bad_field(const uvhttp__hpack_field_t *field) {
    if ((field->facts & UVHTTP__HPACK_BAD_NAME) == 0) return UVHTTP_E_HTTP2_FIELD_VALUE;
    bool pseudo = field->name_size > 0 && field->text[0] == ':';
    return pseudo ? UVHTTP_E_HTTP2_PSEUDO_FIELD : UVHTTP_E_HTTP2_FIELD_NAME;
}

static NOINLINE int read_special(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (UNLIKELY((field->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_BAD_VALUE)) != 0)) return bad_field(field);
    switch (field->name) {
        case UVHTTP__HPACK_METHOD:
        case UVHTTP__HPACK_SCHEME:
        case UVHTTP__HPACK_PATH:
        case UVHTTP__HPACK_AUTHORITY: return read_pseudo(at, field);
        case UVHTTP__HPACK_PROTOCOL: return read_protocol(at, field);
        case UVHTTP__HPACK_STATUS: return UVHTTP_E_HTTP2_PSEUDO_FIELD;
        case UVHTTP__HPACK_CONTENT_LENGTH: return read_content_length(at, field);
        case UVHTTP__HPACK_EXPECT: return read_expect(at, field);
        case UVHTTP__HPACK_HOST: return read_host(at, field);
        case UVHTTP__HPACK_TE: return read_te(at, field);
        case UVHTTP__HPACK_PRIORITY: return read_priority(at, field);
        case UVHTTP__HPACK_TRANSFER_ENCODING:
        case UVHTTP__HPACK_CONNECTION:
        case UVHTTP__HPACK_KEEP_ALIVE:
        case UVHTTP__HPACK_PROXY_CONNECTION:
        case UVHTTP__HPACK_UPGRADE: return UVHTTP_E_HTTP2_CONNECTION_FIELD;
        default: return add_field(at, field);
    }
}

static ALWAYS_INLINE int read_field(uvhttp__http2_assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (LIKELY(field->facts == UVHTTP__HPACK_PLAIN_FIELD)) return add_field(at, field);
    if (LIKELY((field->facts & UVHTTP__HPACK_GOOD_PSEUDO) != 0 && field->name < UVHTTP__PSEUDO_COUNT))
        return read_pseudo(at, field);
    if (LIKELY(field->facts == 0 && field->name == UVHTTP__HPACK_COOKIE)) return read_cookie(at, field);
    return read_special(at, field);
}

/* --- the whole head --- */

/* The target that is not a plain path alone. */
static int finish_target(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    uvhttp_str_t target = uvhttp__span_str(at->scratch, head->target);
    if (target.size == 0) return UVHTTP_E_HTTP2_PATH;
    if (target.size == 1 && target.data[0] == '*') {
        head->form = UVHTTP__FORM_ASTERISK;
        head->path_plain = true;
        return head->method == UVHTTP_OPTIONS ? UVHTTP_OK : UVHTTP_E_HTTP2_PATH;
    }
    if (target.data[0] != '/' || !uvhttp__chars_are(target, UVHTTP__CHAR_TARGET)) return UVHTTP_E_HTTP2_PATH;
    uvhttp__http2_split_target(head, target.data);
    head->path_plain = uvhttp__plain_path(target.data, head->path.size);
    return UVHTTP_OK;
}

static int finish_connect(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    bool extended = (at->seen & UVHTTP__SEEN_PROTOCOL) != 0;
    if (extended && (!at->limits->connect_protocol || head->method != UVHTTP_CONNECT))
        return UVHTTP_E_HTTP2_CONNECT_PROTOCOL;
    if ((at->seen & UVHTTP__SEEN_AUTHORITY) == 0) return UVHTTP_E_HTTP2_PSEUDO_MISSING;
    at->request->extended_connect = extended;
    if (extended)
        return (at->seen & UVHTTP__SEEN_PATH) && (at->seen & UVHTTP__SEEN_SCHEME) ? UVHTTP_OK
                                                                                  : UVHTTP_E_HTTP2_PSEUDO_MISSING;
    if ((at->seen & (UVHTTP__SEEN_PATH | UVHTTP__SEEN_SCHEME)) != 0) return UVHTTP_E_HTTP2_PSEUDO_MISSING;
    if (!uvhttp__valid_authority(uvhttp__span_str(at->scratch, head->authority), true)) return UVHTTP_E_HTTP2_AUTHORITY;
    head->form = UVHTTP__FORM_AUTHORITY;
    head->path_plain = false;
    head->target = head->authority;
    head->path = head->query = (uvhttp__span_t){head->target.offset, 0};
    return UVHTTP_OK;
}

/* A "host" field for those who look for one. It is the last, and its value is that of :authority. */
static int add_host(uvhttp__http2_assembly_t *at) {
    if (UNLIKELY(at->field == at->fields_end)) {
        refuse(at, UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        return UVHTTP_OK;
    }
    *at->field++ = (uvhttp__field_t){UVHTTP__HTTP2_HOST, at->head->authority};
    return UVHTTP_OK;
}

/* An :authority that is there is not empty, whatever "host" says (RFC 9110 section 4.2.1, RFC 9113 section 8.3.1). */
static int finish_authority(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    if ((at->seen & UVHTTP__SEEN_HOST) == 0) return head->authority.size > 0 ? add_host(at) : UVHTTP_E_HTTP2_AUTHORITY;
    if ((at->seen & UVHTTP__SEEN_AUTHORITY) == 0) head->authority = at->host;
    bool same = uvhttp__str_equal_nocase(uvhttp__span_str(at->scratch, head->authority),
                                         uvhttp__span_str(at->scratch, at->host));
    return same && head->authority.size > 0 ? UVHTTP_OK : UVHTTP_E_HTTP2_AUTHORITY;
}

/* Joins crumbs of a cookie that are apart, after everything else, where there is space for them. */
static void join_cookies(uvhttp__http2_assembly_t *at) {
    uvhttp__field_t *joined = NULL, *kept = at->head->headers;
    char *out = at->reader.out;
    for (uvhttp__field_t *field = kept; field != at->field; ++field) {
        uvhttp_str_t value = uvhttp__span_str(at->scratch, field->value);
        bool crumb = field->name.size == 6 && memcmp(at->scratch + field->name.offset, "cookie", 6) == 0;
        if (crumb && joined) {
            memcpy(out, "; ", 2);
            out += 2;
        }
        if (crumb) {
            memcpy(out, value.data, value.size);
            out += value.size;
        }
        if (crumb && joined) continue;
        *kept = *field;
        if (crumb) joined = kept;
        ++kept;
    }
    assert(joined); /* called when crumbs have been seen */
    at->field = kept;
    joined->value = (uvhttp__span_t){uvhttp__http2_offset_of(at, at->reader.out), (uint32_t)(out - at->reader.out)};
    at->reader.out = out;
}

/* What the pseudo-fields say that were seen. */
static void show_pseudo(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    unsigned seen = at->seen;
    if ((seen & UVHTTP__SEEN_METHOD) != 0) {
        head->method_text = at->pseudo[UVHTTP__HPACK_METHOD];
        head->method = (uint8_t)uvhttp__find_method(at->scratch + head->method_text.offset, head->method_text.size);
    }
    if ((seen & UVHTTP__SEEN_PATH) != 0) head->target = head->path = at->pseudo[UVHTTP__HPACK_PATH];
    if ((seen & UVHTTP__SEEN_AUTHORITY) != 0) head->authority = at->pseudo[UVHTTP__HPACK_AUTHORITY];
    head->path_plain = (seen & UVHTTP__SEEN_ODD_PATH) == 0;
    if (head->target.size > at->limits->target_size_max) {
        head->target.size = head->path.size = 0;
        refuse(at, UVHTTP_E_HTTP_LINE_TOO_LONG);
    } else if ((seen & UVHTTP__SEEN_QUERY) != 0) {
        uvhttp__http2_split_target(head, at->scratch + head->target.offset);
    }
}

static int finish(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    const unsigned needed = UVHTTP__SEEN_METHOD | UVHTTP__SEEN_SCHEME | UVHTTP__SEEN_PATH;
    int status = UVHTTP_OK;
    if ((at->seen & needed) != needed || head->method == UVHTTP_CONNECT || (at->seen & UVHTTP__SEEN_PROTOCOL) != 0) {
        bool connect = head->method == UVHTTP_CONNECT || (at->seen & UVHTTP__SEEN_PROTOCOL) != 0;
        status = (at->seen & UVHTTP__SEEN_METHOD) != 0 && connect ? finish_connect(at) : UVHTTP_E_HTTP2_PSEUDO_MISSING;
        if (status != UVHTTP_OK) return status;
    }
    if ((at->seen & UVHTTP__SEEN_ODD_PATH) != 0 && at->refusal != UVHTTP_E_HTTP_LINE_TOO_LONG)
        status = finish_target(at);
    if (status == UVHTTP_OK) status = finish_authority(at);
    if (status == UVHTTP_OK && (at->seen & UVHTTP__SEEN_COOKIES_APART) != 0) join_cookies(at);
    if (status == UVHTTP_OK) head->header_count = (uint32_t)(at->field - head->headers);
    return status;
}

/* The head is refused, but well-formed as far as it was read: shows no fields. */
static int show_refused(uvhttp__http2_assembly_t *at) {
    uvhttp__head_t *head = at->head;
    *head = (uvhttp__head_t){.headers = head->headers,
                             .size = head->size,
                             .method_text = head->method_text,
                             .target = head->target,
                             .path = head->path,
                             .query = head->query,
                             .method = head->method_text.size > 0 ? head->method : (uint8_t)UVHTTP_GET,
                             .version = UVHTTP_HTTP_2,
                             .path_plain = head->path_plain,
                             .keep_alive = true};
    if ((at->seen & UVHTTP__SEEN_ODD_PATH) != 0 && finish_target(at) != UVHTTP_OK)
        head->target = head->path = head->query = (uvhttp__span_t){0, 0};
    return at->refusal;
}

/* The field is at fault: the rest is read for the table. */
static NOINLINE int read_rest(uvhttp__http2_assembly_t *at, int status) {
    int rest = uvhttp__hpack_read_rest(&at->reader);
    return rest != UVHTTP_OK ? rest : status;
}

int uvhttp__http2_read_any_field(uvhttp__http2_assembly_t *at) {
    uvhttp__hpack_field_t field;
    int status = uvhttp__hpack_read_other(&at->reader, &field);
    if (UNLIKELY(status != UVHTTP_OK)) return status;
    status = read_field(at, &field);
    return LIKELY(status == UVHTTP_OK) ? UVHTTP_OK : read_rest(at, status);
}

int uvhttp__http2_finish_any_head(uvhttp__http2_assembly_t *at, int status) {
    if (status == UVHTTP_E_HTTP_HEADERS_TOO_LARGE) refuse(at, status);
    show_pseudo(at);
    if (status == UVHTTP_OK) status = finish(at);
    at->head->size = uvhttp__http2_offset_of(at, at->reader.out);
    bool refused = (at->seen & UVHTTP__SEEN_REFUSED) != 0 && (status == UVHTTP_OK || status == at->refusal);
    return refused ? show_refused(at) : status;
}
