/* Owns: request heads and their trailers: fields become the record of base/head.h (RFC 9113 sections 8.1 to 8.3). May
 * include: base. */
#include <string.h>

#include "base/chars.h"
#include "base/method.h"
#include "base/str.h"
#include "base/uri.h"
#include "http2/head.h"
#include "http2/hpack_decode.h"

/* What has been seen of a request. Those of pseudo-fields are 1 << name. */
enum {
    SEEN_AUTHORITY = 1 << UVHTTP__HPACK_AUTHORITY,
    SEEN_METHOD = 1 << UVHTTP__HPACK_METHOD,
    SEEN_PATH = 1 << UVHTTP__HPACK_PATH,
    SEEN_SCHEME = 1 << UVHTTP__HPACK_SCHEME,
    SEEN_USUAL = SEEN_AUTHORITY | SEEN_METHOD | SEEN_PATH | SEEN_SCHEME,
    PSEUDO_COUNT = UVHTTP__HPACK_SCHEME + 1,
    SEEN_PROTOCOL = 1 << 8,
    SEEN_FIELD = 1 << 9, /* a field that is not a pseudo-field: none of those may follow */
    SEEN_HOST = 1 << 10,
    SEEN_COOKIE = 1 << 11,
    SEEN_COOKIES_APART = 1 << 12, /* crumbs with other fields in between */
    SEEN_ODD_PATH = 1 << 13,      /* :path has to be looked at: UVHTTP__HPACK_GOOD_PSEUDO does not hold */
    SEEN_QUERY = 1 << 14,         /* it does hold, and there is a query */
    SEEN_UNUSUAL = SEEN_PROTOCOL | SEEN_HOST | SEEN_COOKIES_APART | SEEN_ODD_PATH,
};

/* A request being read. */
typedef struct assembly {
    uvhttp__hpack_reader_t reader;
    char *scratch;
    uvhttp__head_t *head;
    uvhttp__http2_request_t *request;
    uvhttp__field_t *field, *fields_end; /* the next one */
    unsigned seen;
    int refusal; /* of scope RESPONSE: the first */
    uvhttp__span_t host;
    uvhttp__span_t pseudo[PSEUDO_COUNT]; /* values by name; of those that were seen */
    uint32_t query;                      /* where the first '?' of a good :path is; 0: it is not known */
} assembly_t;

static ALWAYS_INLINE uint32_t offset_of(const assembly_t *at, const char *text) {
    return (uint32_t)(text - at->scratch);
}

static ALWAYS_INLINE uvhttp__span_t value_span(const assembly_t *at, const uvhttp__hpack_field_t *field) {
    return (uvhttp__span_t){offset_of(at, field->text) + field->name_size, field->value_size};
}

static void refuse(assembly_t *at, int code) {
    if (at->refusal == UVHTTP_OK) at->refusal = code;
}

/* --- pseudo-fields --- */

static ALWAYS_INLINE int see_once(assembly_t *at, unsigned bit) {
    if (UNLIKELY((at->seen & (bit | SEEN_FIELD)) != 0))
        return (at->seen & SEEN_FIELD) != 0 ? UVHTTP_E_HTTP2_PSEUDO_ORDER : UVHTTP_E_HTTP2_PSEUDO_REPEATED;
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

static int read_protocol(assembly_t *at, const uvhttp__hpack_field_t *field) {
    int status = see_once(at, SEEN_PROTOCOL);
    if (status != UVHTTP_OK) return status;
    at->request->protocol = value_span(at, field);
    return uvhttp__valid_header_name(uvhttp__span_str(at->scratch, at->request->protocol))
               ? UVHTTP_OK
               : UVHTTP_E_HTTP2_CONNECT_PROTOCOL;
}

static int read_pseudo(assembly_t *at, const uvhttp__hpack_field_t *field) {
    int status = see_once(at, 1u << field->name);
    if (status != UVHTTP_OK) return status;
    at->pseudo[field->name] = value_span(at, field);
    if ((field->facts & UVHTTP__HPACK_QUERY) != 0) at->seen |= SEEN_QUERY;
    if ((field->facts & UVHTTP__HPACK_GOOD_PSEUDO) != 0) return UVHTTP_OK;
    if (field->name == UVHTTP__HPACK_PATH) at->seen |= SEEN_ODD_PATH;
    return pseudo_fault(field);
}

/* --- fields --- */

static ALWAYS_INLINE int add_field(assembly_t *at, const uvhttp__hpack_field_t *field) {
    at->seen |= SEEN_FIELD;
    if (UNLIKELY(at->field == at->fields_end)) {
        refuse(at, UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        return UVHTTP_OK;
    }
    uint32_t offset = offset_of(at, field->text);
    *at->field++ = (uvhttp__field_t){{offset, field->name_size}, {offset + field->name_size, field->value_size}};
    return UVHTTP_OK;
}

static int read_content_length(assembly_t *at, const uvhttp__hpack_field_t *field) {
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

static int read_host(assembly_t *at, const uvhttp__hpack_field_t *field) {
    if ((at->seen & SEEN_HOST) != 0 || (field->facts & UVHTTP__HPACK_GOOD_PSEUDO) == 0) return UVHTTP_E_HTTP2_AUTHORITY;
    at->seen |= SEEN_HOST;
    at->host = value_span(at, field);
    return add_field(at, field);
}

/* Crumbs of a cookie become one field (RFC 9113 section 8.2.3). One that stands right behind the last is joined to it
 * now; with other fields in between that is done when all are known. */
static int read_cookie(assembly_t *at, const uvhttp__hpack_field_t *field) {
    if ((at->seen & SEEN_COOKIE) != 0) {
        uvhttp__field_t *last = at->field - 1;
        char *end = at->scratch + last->value.offset + last->value.size;
        if (last->name.size == 6 && memcmp(at->scratch + last->name.offset, "cookie", 6) == 0 && end == field->text) {
            memcpy(end, "; ", 2);
            memmove(end + 2, field->text + field->name_size, field->value_size);
            last->value.size += 2 + field->value_size;
            at->reader.out = end + 2 + field->value_size;
            return UVHTTP_OK;
        }
        at->seen |= SEEN_COOKIES_APART;
    }
    int status = add_field(at, field);
    if (at->refusal == UVHTTP_OK) at->seen |= SEEN_COOKIE;
    return status;
}

static int read_te(assembly_t *at, const uvhttp__hpack_field_t *field) {
    uvhttp_str_t value = {field->text + field->name_size, field->value_size};
    if (!uvhttp__str_equal_nocase(value, UVHTTP__STR("trailers"))) return UVHTTP_E_HTTP2_TE;
    return add_field(at, field);
}

static int read_expect(assembly_t *at, const uvhttp__hpack_field_t *field) {
    uvhttp_str_t value = {field->text + field->name_size, field->value_size};
    if (uvhttp__str_equal_nocase(value, UVHTTP__STR("100-continue")))
        at->head->expect_continue = true;
    else
        refuse(at, UVHTTP_E_HTTP_EXPECTATION);
    return add_field(at, field);
}

static int read_priority(assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (at->request->priority.size == 0) at->request->priority = value_span(at, field);
    return add_field(at, field);
}

static NOINLINE int bad_field(const uvhttp__hpack_field_t *field) {
    if ((field->facts & UVHTTP__HPACK_BAD_NAME) == 0) return UVHTTP_E_HTTP2_FIELD_VALUE;
    bool pseudo = field->name_size > 0 && field->text[0] == ':';
    return pseudo ? UVHTTP_E_HTTP2_PSEUDO_FIELD : UVHTTP_E_HTTP2_FIELD_NAME;
}

static NOINLINE int read_special(assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (UNLIKELY((field->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_BAD_VALUE)) != 0)) return bad_field(field);
    switch (field->name) {
        case UVHTTP__HPACK_METHOD:
        case UVHTTP__HPACK_SCHEME:
        case UVHTTP__HPACK_PATH:
        case UVHTTP__HPACK_AUTHORITY: return read_pseudo(at, field);
        case UVHTTP__HPACK_PROTOCOL: return read_protocol(at, field);
        case UVHTTP__HPACK_STATUS: return UVHTTP_E_HTTP2_PSEUDO_FIELD;
        case UVHTTP__HPACK_CONTENT_LENGTH: return read_content_length(at, field);
        case UVHTTP__HPACK_COOKIE: return read_cookie(at, field);
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

static ALWAYS_INLINE int read_field(assembly_t *at, const uvhttp__hpack_field_t *field) {
    if (LIKELY(field->facts == UVHTTP__HPACK_PLAIN_FIELD)) return add_field(at, field);
    if (LIKELY((field->facts & UVHTTP__HPACK_GOOD_PSEUDO) != 0 && field->name < PSEUDO_COUNT))
        return read_pseudo(at, field);
    if (LIKELY(field->facts == 0 && field->name == UVHTTP__HPACK_COOKIE)) return read_cookie(at, field);
    return read_special(at, field);
}

/* --- the whole head --- */

/* Path and query are the parts of the target before and behind the '?' at that place. */
static ALWAYS_INLINE void split_at(uvhttp__head_t *head, uint32_t question) {
    head->path.size = question;
    head->query = (uvhttp__span_t){head->path.offset + question + 1, head->target.size - question - 1};
}

/* At the first one, if there is one. */
static NOINLINE void split_target(uvhttp__head_t *head, const char *target) {
    const char *question = memchr(target, '?', head->target.size);
    if (question) split_at(head, (uint32_t)(question - target));
}

/* The target that is not a plain path alone. */
static NOINLINE int finish_target(assembly_t *at) {
    uvhttp__head_t *head = at->head;
    uvhttp_str_t target = uvhttp__span_str(at->scratch, head->target);
    if (target.size == 0) return UVHTTP_E_HTTP2_PATH;
    if (target.size == 1 && target.data[0] == '*') {
        head->form = UVHTTP__FORM_ASTERISK;
        head->path_plain = true;
        return head->method == UVHTTP_OPTIONS ? UVHTTP_OK : UVHTTP_E_HTTP2_PATH;
    }
    if (target.data[0] != '/' || !uvhttp__chars_are(target, UVHTTP__CHAR_TARGET)) return UVHTTP_E_HTTP2_PATH;
    split_target(head, target.data);
    head->path_plain = uvhttp__plain_path(target.data, head->path.size);
    return UVHTTP_OK;
}

static NOINLINE int finish_connect(assembly_t *at, bool connect_protocol) {
    uvhttp__head_t *head = at->head;
    bool extended = (at->seen & SEEN_PROTOCOL) != 0;
    if (extended && (!connect_protocol || head->method != UVHTTP_CONNECT)) return UVHTTP_E_HTTP2_CONNECT_PROTOCOL;
    if ((at->seen & SEEN_AUTHORITY) == 0) return UVHTTP_E_HTTP2_PSEUDO_MISSING;
    at->request->extended_connect = extended;
    if (extended) return (at->seen & SEEN_PATH) && (at->seen & SEEN_SCHEME) ? UVHTTP_OK : UVHTTP_E_HTTP2_PSEUDO_MISSING;
    if ((at->seen & (SEEN_PATH | SEEN_SCHEME)) != 0) return UVHTTP_E_HTTP2_PSEUDO_MISSING;
    if (!uvhttp__valid_authority(uvhttp__span_str(at->scratch, head->authority), true)) return UVHTTP_E_HTTP2_AUTHORITY;
    head->form = UVHTTP__FORM_AUTHORITY;
    head->path_plain = false;
    head->target = head->authority;
    head->path = head->query = (uvhttp__span_t){head->target.offset, 0};
    return UVHTTP_OK;
}

/* A "host" field for those who look for one. It is the last, and its value is that of :authority. */
static ALWAYS_INLINE int add_host(assembly_t *at) {
    if (UNLIKELY(at->field == at->fields_end)) {
        refuse(at, UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        return UVHTTP_OK;
    }
    memcpy(at->reader.out, "host", 4);
    *at->field++ = (uvhttp__field_t){{offset_of(at, at->reader.out), 4}, at->head->authority};
    at->reader.out += 4;
    return UVHTTP_OK;
}

static int finish_authority(assembly_t *at) {
    uvhttp__head_t *head = at->head;
    if ((at->seen & SEEN_HOST) == 0) return head->authority.size > 0 ? add_host(at) : UVHTTP_E_HTTP2_AUTHORITY;
    if (head->authority.size == 0) head->authority = at->host;
    bool same = uvhttp__str_equal_nocase(uvhttp__span_str(at->scratch, head->authority),
                                         uvhttp__span_str(at->scratch, at->host));
    return same && head->authority.size > 0 ? UVHTTP_OK : UVHTTP_E_HTTP2_AUTHORITY;
}

/* Joins crumbs of a cookie that stand apart, behind everything else, which has room for them. */
static NOINLINE void join_cookies(assembly_t *at) {
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
    at->field = kept;
    joined->value = (uvhttp__span_t){offset_of(at, at->reader.out), (uint32_t)(out - at->reader.out)};
    at->reader.out = out;
}

/* What the pseudo-fields say that were seen. */
static ALWAYS_INLINE void show_seen(assembly_t *at, unsigned seen) {
    uvhttp__head_t *head = at->head;
    if ((seen & SEEN_METHOD) != 0) {
        head->method_text = at->pseudo[UVHTTP__HPACK_METHOD];
        head->method = (uint8_t)uvhttp__find_method(at->scratch + head->method_text.offset, head->method_text.size);
    }
    if ((seen & SEEN_PATH) != 0) head->target = head->path = at->pseudo[UVHTTP__HPACK_PATH];
    if ((seen & SEEN_SCHEME) != 0) at->request->scheme = at->pseudo[UVHTTP__HPACK_SCHEME];
    if ((seen & SEEN_AUTHORITY) != 0) head->authority = at->pseudo[UVHTTP__HPACK_AUTHORITY];
}

static NOINLINE void show_some(assembly_t *at) {
    show_seen(at, at->seen);
}

static ALWAYS_INLINE void show_pseudo(assembly_t *at, uint32_t target_size_max) {
    uvhttp__head_t *head = at->head;
    if (LIKELY((at->seen & SEEN_USUAL) == SEEN_USUAL))
        show_seen(at, SEEN_USUAL);
    else
        show_some(at);
    head->path_plain = (at->seen & SEEN_ODD_PATH) == 0;
    if (UNLIKELY(head->target.size > target_size_max)) {
        head->target.size = head->path.size = 0;
        refuse(at, UVHTTP_E_HTTP_LINE_TOO_LONG);
    } else if ((at->seen & SEEN_QUERY) != 0) {
        if (LIKELY(at->query != 0))
            split_at(head, at->query);
        else
            split_target(head, at->scratch + head->target.offset);
    }
}

static NOINLINE int finish_unusual(assembly_t *at, bool connect_protocol) {
    uvhttp__head_t *head = at->head;
    const unsigned needed = SEEN_METHOD | SEEN_SCHEME | SEEN_PATH;
    int status = UVHTTP_OK;
    if ((at->seen & needed) != needed || head->method == UVHTTP_CONNECT || (at->seen & SEEN_PROTOCOL) != 0) {
        bool connect = head->method == UVHTTP_CONNECT || (at->seen & SEEN_PROTOCOL) != 0;
        status = (at->seen & SEEN_METHOD) != 0 && connect ? finish_connect(at, connect_protocol)
                                                          : UVHTTP_E_HTTP2_PSEUDO_MISSING;
        if (status != UVHTTP_OK) return status;
    }
    if ((at->seen & SEEN_ODD_PATH) != 0 && at->refusal != UVHTTP_E_HTTP_LINE_TOO_LONG) status = finish_target(at);
    if (status == UVHTTP_OK) status = finish_authority(at);
    if (status == UVHTTP_OK && (at->seen & SEEN_COOKIES_APART) != 0) join_cookies(at);
    return status;
}

static ALWAYS_INLINE int finish(assembly_t *at, bool connect_protocol) {
    uvhttp__head_t *head = at->head;
    bool usual = (at->seen & (SEEN_USUAL | SEEN_UNUSUAL)) == SEEN_USUAL && head->authority.size > 0 &&
                 head->method != UVHTTP_CONNECT;
    int status = LIKELY(usual) ? add_host(at) : finish_unusual(at, connect_protocol);
    if (LIKELY(status == UVHTTP_OK)) head->header_count = (uint32_t)(at->field - head->headers);
    return status;
}

/* The head is refused, but well-formed as far as it was read: shows no fields. */
static NOINLINE int refused(assembly_t *at, int code) {
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
    if ((at->seen & SEEN_ODD_PATH) != 0 && finish_target(at) != UVHTTP_OK)
        head->target = head->path = head->query = (uvhttp__span_t){0, 0};
    return code;
}

/* The field is at fault: the rest is read for the table. */
static NOINLINE int read_rest(assembly_t *at, int status) {
    int rest = uvhttp__hpack_read_rest(&at->reader);
    return rest != UVHTTP_OK ? rest : status;
}

/* One field, whatever it is. */
static NOINLINE int read_any(assembly_t *at) {
    uvhttp__hpack_field_t field;
    int status = uvhttp__hpack_read_other(&at->reader, &field);
    if (UNLIKELY(status != UVHTTP_OK)) return status;
    status = read_field(at, &field);
    return LIKELY(status == UVHTTP_OK) ? UVHTTP_OK : read_rest(at, status);
}

/* --- fields of tables --- */

/* Entries of the dynamic table that one byte names: entry n is at (newest - byte) & entry_mask, the byte being that of
 * its index. */
typedef struct view {
    const uvhttp__hpack_table_t *table;
    uint32_t newest;
    uint32_t entry_mask;
    uint32_t ages;
} view_t;

enum { FIRST_AGE = 0x80 + UVHTTP__HPACK_STATIC_COUNT + 1, ONE_BYTE_AGES = 0xff - FIRST_AGE };

static ALWAYS_INLINE view_t view_of(const uvhttp__hpack_table_t *table) {
    return (view_t){.table = table,
                    .newest = table->inserted - 1 + FIRST_AGE,
                    .entry_mask = table->entry_capacity - 1u,
                    .ages = table->count < ONE_BYTE_AGES ? table->count : ONE_BYTE_AGES};
}

static ALWAYS_INLINE uvhttp__hpack_cursor_t cursor_of(const assembly_t *at) {
    const uvhttp__hpack_reader_t *reader = &at->reader;
    return (uvhttp__hpack_cursor_t){.in = reader->at,
                                    .end = reader->end,
                                    .base = at->scratch,
                                    .offset = offset_of(at, reader->out),
                                    .left = reader->left};
}

static ALWAYS_INLINE void leave(assembly_t *at, const uvhttp__hpack_cursor_t *cursor) {
    at->reader.at = cursor->in;
    at->reader.out = cursor->base + cursor->offset;
    at->reader.left = cursor->left;
}

/* What a table says of a field, and where its text is. */
typedef struct listed {
    const char *text;
    uint32_t name_size, value_size;
    unsigned name, facts;
} listed_t;

/* The field that the next byte is the index of. False: the byte is something else. */
static ALWAYS_INLINE bool find_listed(const uvhttp__hpack_cursor_t *cursor, const view_t *view, listed_t *field) {
    uint32_t byte = *cursor->in;
    if (byte - FIRST_AGE < view->ages) {
        const uvhttp__hpack_entry_t *entry = &view->table->entries[(view->newest - byte) & view->entry_mask];
        *field = (listed_t){view->table->text + entry->offset, entry->name_size, entry->value_size, entry->name,
                            entry->facts};
        return true;
    }
    if (byte - 0x81u >= UVHTTP__HPACK_STATIC_COUNT) return false;
    const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[byte - 0x80u];
    *field = (listed_t){entry->text, entry->name_size, entry->value_size, entry->name, entry->facts};
    return true;
}

/* Copies the text of a field. False: the list has no room for it. */
static ALWAYS_INLINE bool take_listed(uvhttp__hpack_cursor_t *cursor, const listed_t *field) {
    uint32_t text_size = field->name_size + field->value_size, size = text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    if (UNLIKELY(size > cursor->left)) return false;
    cursor->left -= size;
    uvhttp__hpack_copy(cursor->base + cursor->offset, field->text, text_size);
    cursor->offset += text_size;
    cursor->in++;
    return true;
}

/* Good pseudo-fields. Facts are compared as a whole: nothing else may be said of the field. */
static ALWAYS_INLINE void read_listed_pseudo(assembly_t *at, uvhttp__hpack_cursor_t *cursor, const view_t *view) {
    unsigned seen = at->seen;
    listed_t field;
    while (cursor->in < cursor->end && find_listed(cursor, view, &field)) {
        uint32_t value = cursor->offset + field.name_size;
        bool good = field.facts == UVHTTP__HPACK_GOOD_PSEUDO && field.name < PSEUDO_COUNT;
        if (UNLIKELY(!good || (seen >> field.name & 1) != 0 || !take_listed(cursor, &field))) break;
        at->pseudo[field.name] = (uvhttp__span_t){value, field.value_size};
        seen |= 1u << field.name;
    }
    at->seen = seen;
}

/* Fields without a meaning to HTTP/2. */
static ALWAYS_INLINE void read_listed_plain(assembly_t *at, uvhttp__hpack_cursor_t *cursor, const view_t *view) {
    uvhttp__field_t *next = at->field, *const fields_end = at->fields_end;
    listed_t field;
    while (cursor->in < cursor->end && find_listed(cursor, view, &field)) {
        uint32_t name = cursor->offset, value = name + field.name_size;
        if (UNLIKELY(field.facts != UVHTTP__HPACK_PLAIN_FIELD || next == fields_end || !take_listed(cursor, &field)))
            break;
        next->name = (uvhttp__span_t){name, field.name_size};
        next->value = (uvhttp__span_t){value, field.value_size};
        ++next;
    }
    if (next != at->field) at->seen |= SEEN_FIELD;
    at->field = next;
}

/* --- fields that are no index --- */

/* A literal that was decoded, and that needs more than to be put in its place. */
static NOINLINE int put_unusual(assembly_t *at, uint32_t offset, uvhttp__hpack_literal_t literal) {
    char *text = at->scratch + offset;
    uvhttp__hpack_field_t field = {.text = text,
                                   .name_size = literal.name_size,
                                   .value_size = literal.value_size,
                                   .name = (uint8_t)literal.name,
                                   .facts = uvhttp__field_value_facts((uvhttp__hpack_name_t)literal.name,
                                                                      text + literal.name_size, literal.value_size,
                                                                      !literal.odd)};
    int status = read_field(at, &field);
    return LIKELY(status == UVHTTP_OK) ? UVHTTP_OK : read_rest(at, status);
}

static ALWAYS_INLINE bool put_path(assembly_t *at, uint32_t value, uint32_t size) {
    uint32_t query;
    if (UNLIKELY((at->seen & (SEEN_PATH | SEEN_FIELD)) != 0)) return false;
    unsigned facts = uvhttp__field_path_facts(at->scratch + value, size, &query);
    if (UNLIKELY(facts == 0)) return false;
    at->pseudo[UVHTTP__HPACK_PATH] = (uvhttp__span_t){value, size};
    at->seen |= SEEN_PATH;
    if (facts == UVHTTP__HPACK_GOOD_PSEUDO) return true;
    at->seen |= SEEN_QUERY;
    at->query = query;
    return true;
}

/* Puts a good path, a plain field and the first cookie in their places. False: it is another one. */
static ALWAYS_INLINE bool put_usual(assembly_t *at, uint32_t offset, const uvhttp__hpack_literal_t *literal) {
    uint32_t value = offset + literal->name_size;
    if (UNLIKELY(literal->odd)) return false;
    if (literal->name == UVHTTP__HPACK_PATH) return put_path(at, value, literal->value_size);
    bool plain = literal->facts == UVHTTP__HPACK_PLAIN_FIELD;
    bool cookie = literal->name == UVHTTP__HPACK_COOKIE && (at->seen & SEEN_COOKIE) == 0;
    if (UNLIKELY(!plain && !cookie)) return false;
    if (UNLIKELY(!uvhttp__hpack_is_trimmed(at->scratch + value, literal->value_size) || at->field == at->fields_end))
        return false;
    *at->field++ = (uvhttp__field_t){{offset, literal->name_size}, {value, literal->value_size}};
    at->seen |= plain ? SEEN_FIELD : SEEN_FIELD | SEEN_COOKIE;
    return true;
}

/* A literal that the table does not get. False: it is something else, and nothing is read. */
static ALWAYS_INLINE bool read_literal(assembly_t *at, uvhttp__hpack_cursor_t *cursor, int *status) {
    uvhttp__hpack_literal_t literal;
    uint32_t offset = cursor->offset;
    if (UNLIKELY(*cursor->in >= 0x20)) return false;
    if (UNLIKELY(!uvhttp__hpack_take_literal(cursor, &at->reader.decoder->table, 0x0f, &literal))) return false;
    if (LIKELY(put_usual(at, offset, &literal))) return true;
    leave(at, cursor);
    *status = put_unusual(at, offset, literal);
    *cursor = cursor_of(at);
    return true;
}

static ALWAYS_INLINE int read_fields(assembly_t *at) {
    uvhttp__hpack_cursor_t cursor = cursor_of(at);
    view_t view = view_of(&at->reader.decoder->table);
    int status = UVHTTP_OK;
    do {
        if ((at->seen & SEEN_FIELD) == 0) read_listed_pseudo(at, &cursor, &view);
        read_listed_plain(at, &cursor, &view);
        if (LIKELY(cursor.in == cursor.end)) break;
        if (UNLIKELY(!read_literal(at, &cursor, &status))) {
            leave(at, &cursor);
            status = read_any(at);
            cursor = cursor_of(at);
            view = view_of(&at->reader.decoder->table);
        }
    } while (LIKELY(status == UVHTTP_OK) && cursor.in != cursor.end);
    leave(at, &cursor);
    if (LIKELY(status == UVHTTP_OK || status == UVHTTP_E_EOF)) return UVHTTP_OK;
    if (status == UVHTTP_E_HTTP_HEADERS_TOO_LARGE) refuse(at, status);
    return status;
}

UVHTTP__HOT int uvhttp__http2_read_request(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                                           const uvhttp__http2_head_limits_t *limits, bool connect_protocol,
                                           char *scratch, uvhttp__head_t *head, uvhttp__http2_request_t *request) {
    assembly_t at;
    at.scratch = scratch;
    at.head = head;
    at.request = request;
    at.field = head->headers;
    at.fields_end = head->headers + limits->header_count_max;
    at.seen = 0;
    at.query = 0;
    at.refusal = UVHTTP_OK;
    *request = (uvhttp__http2_request_t){.extended_connect = false};
    *head = (uvhttp__head_t){.headers = head->headers, .version = UVHTTP_HTTP_2, .keep_alive = true};
    int status = uvhttp__hpack_begin(&at.reader, decoder, block, size, scratch, limits->list_size_max);
    if (LIKELY(status == UVHTTP_OK)) status = read_fields(&at);
    show_pseudo(&at, limits->target_size_max);
    if (LIKELY(status == UVHTTP_OK)) status = finish(&at, connect_protocol);
    head->size = (uint32_t)(at.reader.out - scratch);
    if (UNLIKELY(at.refusal != UVHTTP_OK) && (status == UVHTTP_OK || status == at.refusal))
        return refused(&at, at.refusal);
    return status;
}

uvhttp__http2_scope_t uvhttp__http2_scope(int code) {
    if (code <= UVHTTP_E_HTTP2_PSEUDO_FIELD && code >= UVHTTP_E_HTTP2_CONTENT_LENGTH) return UVHTTP__HTTP2_SCOPE_STREAM;
    if (code <= UVHTTP_E_HTTP_METHOD && code >= UVHTTP_E_HTTP_HOST_NOT_ALLOWED) return UVHTTP__HTTP2_SCOPE_RESPONSE;
    return UVHTTP__HTTP2_SCOPE_CONNECTION;
}
