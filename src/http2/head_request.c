/* Owns: request heads as nearly all are: fields become the record of base/http_head.h (RFC 9113 sections 8.1 to 8.3) in
 * one pass without a call but for values. What is not usual is head_any.c's, field by field. May include: base. */
#include <assert.h>

#include "base/hot_path.h"
#include "base/method.h"
#include "http2/field_path.h"
#include "http2/head_assembly.h"

/* --- common fields --- */

/* What is read, in registers: the assembly has it only while something unusual is read, and at the end. */
typedef struct cursor {
    const uint8_t *in, *end;
    char *base;
    size_t offset; /* from base, of the text that comes next */
    uint32_t left; /* of the header list, as of the reader */
    unsigned seen;
    uvhttp__field_t *field;
    /* Entries of the dynamic table that one byte names: entry n is at (newest - byte) & entry_mask. */
    uint32_t newest, entry_mask, ages;
} cursor_t;

/* A pseudo-field that the static table has whole. Its value is a part of what stands in front of all text; that of
 * :scheme is not shown. */
typedef struct preset {
    uvhttp__span_t value;
    uint16_t name, seen;
    uint16_t size;   /* as the header list counts */
    uint16_t before; /* what may not have been seen */
} preset_t;

#define PRESET(name, text, offset, value_size)                                                                         \
    {                                                                                                                  \
        {(offset), (value_size)}, UVHTTP__HPACK_##name, UVHTTP__SEEN_##name,                                           \
            sizeof(text) - 1 + (value_size) + UVHTTP__HPACK_FIELD_OVERHEAD, UVHTTP__SEEN_##name | UVHTTP__SEEN_FIELD   \
    }

/* Entries 2 to 7. */
static const preset_t presets[] = {
    PRESET(METHOD, ":method", 0, 3), PRESET(METHOD, ":method", 3, 4), PRESET(PATH, ":path", 7, 1),
    PRESET(PATH, ":path", 7, 11),    PRESET(SCHEME, ":scheme", 0, 4), PRESET(SCHEME, ":scheme", 0, 5),
};

enum { FIRST_PRESET = 0x80 + UVHTTP__HPACK_METHOD, PRESETS = sizeof presets / sizeof *presets };

enum { FIRST_AGE = 0x80 + UVHTTP__HPACK_STATIC_COUNT + 1, ONE_BYTE_AGES = 0xff - FIRST_AGE };

static ALWAYS_INLINE void look_at_table(cursor_t *cursor, const uvhttp__hpack_table_t *table) {
    cursor->newest = table->inserted - 1 + FIRST_AGE;
    cursor->entry_mask = table->entry_capacity - 1u;
    cursor->ages = table->count < ONE_BYTE_AGES ? table->count : ONE_BYTE_AGES;
}

static ALWAYS_INLINE void enter(const uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    cursor->in = at->reader.at;
    cursor->offset = uvhttp__http2_offset_of(at, at->reader.out);
    cursor->left = at->reader.left;
    cursor->seen = at->seen;
    cursor->field = at->field;
    look_at_table(cursor, &at->reader.decoder->table);
}

static ALWAYS_INLINE void leave(uvhttp__http2_assembly_t *at, const cursor_t *cursor) {
    at->reader.at = cursor->in;
    at->reader.end = cursor->end;
    at->reader.out = cursor->base + cursor->offset;
    at->reader.limit =
        cursor->base + UVHTTP__HTTP2_PREFIX_SIZE + at->limits->list_size_max + UVHTTP__HPACK_TABLE_SIZE_MAX;
    at->reader.left = cursor->left;
    at->seen = cursor->seen;
    at->field = cursor->field;
}

/* The next one of the record. The caller knows that it fits. */
static ALWAYS_INLINE void put_field(cursor_t *cursor, uint32_t name_size, uint32_t value_size, unsigned seen) {
    uint32_t name = (uint32_t)cursor->offset;
    *cursor->field++ = (uvhttp__field_t){{name, name_size}, {name + name_size, value_size}};
    cursor->seen |= seen | UVHTTP__SEEN_FIELD;
}

static ALWAYS_INLINE void advance(cursor_t *cursor, const uint8_t *in, uint32_t text_size) {
    cursor->left -= text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    cursor->offset += text_size;
    cursor->in = in;
}

/* A pseudo-field of the static table. False: it is one too many. */
static ALWAYS_INLINE bool read_preset(uvhttp__http2_assembly_t *at, cursor_t *cursor, const preset_t *preset) {
    if (UNLIKELY((cursor->seen & preset->before) != 0 || preset->size > cursor->left)) return false;
    at->pseudo[preset->name] = preset->value;
    cursor->seen |= preset->seen;
    cursor->left -= preset->size;
    cursor->in++;
    return true;
}

/* --- fields of a table --- */

/* A field that one byte names, if it is a good pseudo-field or one without a meaning to HTTP/2. Facts are compared as a
 * whole: nothing else may be said of it. False: it is something else, and nothing is read. */
static ALWAYS_INLINE bool read_listed(uvhttp__http2_assembly_t *at, cursor_t *cursor, const char *text,
                                      uint32_t name_size, uint32_t value_size, unsigned name, unsigned facts) {
    uint32_t text_size = name_size + value_size, size = text_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    if (UNLIKELY(size > cursor->left)) return false;
    if (facts == UVHTTP__HPACK_PLAIN_FIELD) {
        if (UNLIKELY(cursor->field == at->fields_end)) return false;
        put_field(cursor, name_size, value_size, 0);
    } else {
        if (UNLIKELY(facts != UVHTTP__HPACK_GOOD_PSEUDO || name >= UVHTTP__PSEUDO_COUNT)) return false;
        if (UNLIKELY((cursor->seen & (1u << name | UVHTTP__SEEN_FIELD)) != 0)) return false;
        at->pseudo[name] = (uvhttp__span_t){(uint32_t)cursor->offset + name_size, value_size};
        cursor->seen |= 1u << name;
    }
    uvhttp__hpack_copy(cursor->base + cursor->offset, text, text_size);
    advance(cursor, cursor->in + 1, text_size);
    return true;
}

/* --- literals --- */

enum {
    INDEXED = 0x40, /* the bit of a literal that the table gets */
    PATH_NAME_SIZE = 5,
    VALUE_SIZE_MAX = 0x7e, /* of a string whose size has one byte */
};
static_assert(UVHTTP__HPACK_USUAL_NAME_MAX + UVHTTP__HPACK_COPY + UVHTTP__HUFFMAN_DECODED_MAX(VALUE_SIZE_MAX) +
                      UVHTTP__HUFFMAN_SLACK <=
                  UVHTTP__HPACK_TABLE_SIZE_MAX,
              "they fit behind what the list may still have");

/* The value of a literal, which is Huffman code whose size has one byte, written behind the name. Both surely fit
 * before the end of the memory for text, which leaves UVHTTP__HPACK_TABLE_SIZE_MAX bytes behind what the list may still
 * have. *in: its first byte, then what follows it. *value_size: its size, which is not 0. False: it is empty, something
 * else, too large or faulty. */
static ALWAYS_INLINE bool take_value(const cursor_t *cursor, const uint8_t **in, uint32_t name_size,
                                     uint32_t *value_size) {
    char *value = cursor->base + cursor->offset + name_size;
    size_t size = *(*in)++ - (size_t)0x80;
    if (UNLIKELY(size - 1 >= VALUE_SIZE_MAX || size > (size_t)(cursor->end - *in))) return false;
    uvhttp__huffman_place_t place = {0, value};
    if (UNLIKELY(!uvhttp__huffman_decode_short(*in, size, &place))) return false;
    *in += size;
    *value_size = (uint32_t)(place.out - value);
    return LIKELY(name_size + *value_size + UVHTTP__HPACK_FIELD_OVERHEAD <= cursor->left);
}

/* A :path that the table does not get. False: it is something else, or there is a fault, and nothing is read. */
static ALWAYS_INLINE bool read_path(uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    const uint8_t *in = cursor->in + 1;
    if (UNLIKELY(in == cursor->end || (cursor->seen & (UVHTTP__SEEN_PATH | UVHTTP__SEEN_FIELD)) != 0)) return false;
    memcpy(cursor->base + cursor->offset, ":path", PATH_NAME_SIZE);
    uint32_t size, query;
    if (UNLIKELY(!take_value(cursor, &in, PATH_NAME_SIZE, &size))) return false;
    char *path = cursor->base + cursor->offset + PATH_NAME_SIZE;
    unsigned facts = uvhttp__field_path_facts(path, size, &query);
    if (UNLIKELY(facts == 0) && !uvhttp__hpack_is_trimmed(path, size)) return false;
    at->pseudo[UVHTTP__HPACK_PATH] = (uvhttp__span_t){(uint32_t)cursor->offset + PATH_NAME_SIZE, size};
    unsigned seen = facts != 0 ? UVHTTP__SEEN_PATH : UVHTTP__SEEN_PATH | UVHTTP__SEEN_ODD_PATH;
    if ((facts & UVHTTP__HPACK_QUERY) != 0) {
        seen |= UVHTTP__SEEN_QUERY;
        at->query = query;
    }
    cursor->seen |= seen;
    advance(cursor, in, PATH_NAME_SIZE + size);
    return true;
}

/* A field that the table does not get, without a meaning to HTTP/2, or the first cookie, with a name of the static
 * table. False: the same. */
static ALWAYS_INLINE bool read_literal(uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    const uint8_t *in = cursor->in;
    if (UNLIKELY(cursor->end - in < 3 || cursor->field == at->fields_end)) return false;
    size_t index = *in++ & 0x0fu;
    if (index == 0x0f) index += *in++;
    if (UNLIKELY(index - 1 >= UVHTTP__HPACK_STATIC_COUNT)) return false;
    const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[index];
    unsigned seen = 0;
    if (entry->facts != UVHTTP__HPACK_PLAIN_FIELD) {
        if (UNLIKELY(entry->name != UVHTTP__HPACK_COOKIE || (cursor->seen & UVHTTP__SEEN_COOKIE) != 0)) return false;
        seen = UVHTTP__SEEN_COOKIE;
    }
    uint32_t name_size = entry->name_size, size;
    char *text = cursor->base + cursor->offset;
    memcpy(text, entry->text, sizeof entry->text);
    if (UNLIKELY(!take_value(cursor, &in, name_size, &size))) return false;
    if (UNLIKELY(!uvhttp__hpack_is_trimmed(text + name_size, size))) return false;
    put_field(cursor, name_size, size, seen);
    advance(cursor, in, name_size + size);
    return true;
}

/* --- less common fields --- */

enum { COOKIE_SIZE = 6 };

/* Whether the field before is a cookie. The record has it, as long as there is a place in it for the next: none was
 * left out. */
static ALWAYS_INLINE bool is_behind_cookie(const cursor_t *cursor) {
    const uvhttp__field_t *last = cursor->field - 1;
    return last->name.size == COOKIE_SIZE && memcmp(cursor->base + last->name.offset, "cookie", COOKIE_SIZE) == 0;
}

/* A further crumb right behind a cookie becomes a part of it (RFC 9113 section 8.2.3). Its value may stand in the
 * scratch memory, where its name is not needed any more. */
static ALWAYS_INLINE void join_crumb(cursor_t *cursor, const uint8_t *in, const char *value, uint32_t value_size) {
    char *out = cursor->base + cursor->offset;
    memcpy(out, "; ", 2);
    for (uint32_t at = 0; at < value_size; at += UVHTTP__FIELD_SLACK) {
        uvhttp__field_vector_t bytes = uvhttp__field_load(value + at);
        memcpy(out + 2 + at, &bytes, sizeof bytes);
    }
    cursor->field[-1].value.size += 2 + value_size;
    cursor->offset += 2 + value_size;
    cursor->left -= COOKIE_SIZE + value_size + UVHTTP__HPACK_FIELD_OVERHEAD;
    cursor->in = in;
}

/* Whether no more comes of a good field with a meaning to HTTP/2 than note_special does. */
static ALWAYS_INLINE bool is_noted(unsigned name) {
    return name == UVHTTP__HPACK_COOKIE || name == UVHTTP__HPACK_PRIORITY;
}

static ALWAYS_INLINE bool is_crumb(const cursor_t *cursor, unsigned name) {
    return name == UVHTTP__HPACK_COOKIE && (cursor->seen & UVHTTP__SEEN_COOKIE) != 0;
}

static ALWAYS_INLINE void note_special(uvhttp__http2_assembly_t *at, cursor_t *cursor, uint32_t name_size,
                                       uint32_t value_size, unsigned name) {
    if (LIKELY(name == UVHTTP__HPACK_COOKIE))
        cursor->seen |= UVHTTP__SEEN_COOKIE;
    else if (at->request->priority.size == 0)
        at->request->priority = (uvhttp__span_t){(uint32_t)cursor->offset + name_size, value_size};
    put_field(cursor, name_size, value_size, 0);
}

/* The literal at cursor->offset becomes an entry of the table. Returns false without memory. */
static ALWAYS_INLINE bool insert(uvhttp__http2_assembly_t *at, const cursor_t *cursor, uint32_t name_size,
                                 uint32_t value_size, unsigned name, unsigned facts) {
    return uvhttp__hpack_table_insert(&at->reader.decoder->table, cursor->base + cursor->offset, name_size, value_size,
                                      (uint8_t)name, (uint8_t)facts) == UVHTTP_OK;
}

/* A cookie, a priority, or a :path with a query, which a table has whole. False: as of read_listed. */
static ALWAYS_INLINE bool read_listed_special(uvhttp__http2_assembly_t *at, cursor_t *cursor, const uint8_t *in,
                                              const char *text, uint32_t name_size, uint32_t value_size, unsigned name,
                                              unsigned facts) {
    uint32_t text_size = name_size + value_size;
    if (facts == (UVHTTP__HPACK_GOOD_PSEUDO | UVHTTP__HPACK_QUERY)) {
        if ((cursor->seen & (UVHTTP__SEEN_PATH | UVHTTP__SEEN_FIELD)) != 0) return false;
        at->pseudo[UVHTTP__HPACK_PATH] = (uvhttp__span_t){(uint32_t)cursor->offset + name_size, value_size};
        cursor->seen |= UVHTTP__SEEN_PATH | UVHTTP__SEEN_QUERY;
    } else {
        bool crumb = is_crumb(cursor, name);
        if (facts != 0 || !is_noted(name) || (crumb && !is_behind_cookie(cursor))) return false;
        if (crumb) {
            join_crumb(cursor, in, text + name_size, value_size);
            return true;
        }
        note_special(at, cursor, name_size, value_size, name);
    }
    uvhttp__hpack_copy(cursor->base + cursor->offset, text, text_size);
    advance(cursor, in, text_size);
    return true;
}

/* A field of the dynamic table, which one or two bytes name. False: the same. */
static ALWAYS_INLINE bool read_far(uvhttp__http2_assembly_t *at, cursor_t *cursor, unsigned byte) {
    const uvhttp__hpack_table_t *table = &at->reader.decoder->table;
    const uint8_t *in = cursor->in + 1;
    uint32_t age = byte - FIRST_AGE;
    if (byte == 0xff) {
        if (in == cursor->end || *in >= 0x80) return false;
        age += *in++;
    }
    if (age >= table->count) return false;
    const uvhttp__hpack_entry_t *entry = uvhttp__hpack_table_entry(table, age);
    uint32_t name_size = entry->name_size, value_size = entry->value_size, text_size = name_size + value_size;
    const char *text = table->text + entry->offset;
    if (text_size + UVHTTP__HPACK_FIELD_OVERHEAD > cursor->left || cursor->field == at->fields_end) return false;
    if (entry->facts != UVHTTP__HPACK_PLAIN_FIELD)
        return read_listed_special(at, cursor, in, text, name_size, value_size, entry->name, entry->facts);
    put_field(cursor, name_size, value_size, 0);
    uvhttp__hpack_copy(cursor->base + cursor->offset, text, text_size);
    advance(cursor, in, text_size);
    return true;
}

/* A cookie, a priority, or a field without a meaning to HTTP/2, which the table gets, or whose name it has. False: the
 * same. */
static ALWAYS_INLINE bool read_inserted(uvhttp__http2_assembly_t *at, cursor_t *cursor, unsigned byte) {
    const uint8_t *in = cursor->in + 1;
    uvhttp__hpack_known_name_t name;
    uint32_t prefix = byte >= INDEXED ? 0x3f : 0x0f, index = byte & prefix, size;
    if (byte - 0x20 < 0x20 || cursor->end - in < 2 || cursor->field == at->fields_end) return false;
    char *text = cursor->base + cursor->offset;
    if (index == prefix) {
        if (*in >= 0x80) return false;
        index += *in++;
    }
    if (!uvhttp__hpack_take_name(&at->reader.decoder->table, index, text, &name)) return false;
    bool special = name.facts != UVHTTP__HPACK_PLAIN_FIELD, crumb = special && is_crumb(cursor, name.name);
    if (special && (name.facts != 0 || !is_noted(name.name))) return false;
    if (crumb && !is_behind_cookie(cursor)) return false;
    if (!take_value(cursor, &in, name.size, &size)) return false;
    if (!uvhttp__hpack_is_trimmed(text + name.size, size)) return false;
    if (byte >= INDEXED && !insert(at, cursor, name.size, size, name.name, name.facts)) return false;
    if (crumb) {
        join_crumb(cursor, in, text + name.size, size);
        return true;
    }
    if (special)
        note_special(at, cursor, name.size, size, name.name);
    else
        put_field(cursor, name.size, size, 0);
    advance(cursor, in, name.size + size);
    return true;
}

/* A :path that the table gets. False: the same. */
static ALWAYS_INLINE bool read_inserted_path(uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    cursor_t before = *cursor;
    if (!read_path(at, cursor)) return false;
    uint32_t value_size = (uint32_t)(cursor->offset - before.offset) - PATH_NAME_SIZE;
    unsigned facts = UVHTTP__HPACK_GOOD_PSEUDO;
    if ((cursor->seen & UVHTTP__SEEN_QUERY) != 0) facts |= UVHTTP__HPACK_QUERY;
    if ((cursor->seen & UVHTTP__SEEN_ODD_PATH) != 0) facts = 0;
    if (insert(at, &before, PATH_NAME_SIZE, value_size, UVHTTP__HPACK_PATH, facts)) return true;
    *cursor = before;
    return false;
}

static ALWAYS_INLINE bool read_one_less_usual(uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    unsigned byte = *cursor->in;
    if (byte >= FIRST_AGE) return read_far(at, cursor, byte);
    if (byte == (INDEXED | UVHTTP__HPACK_PATH)) return read_inserted_path(at, cursor);
    return byte < 0x80 && read_inserted(at, cursor, byte);
}

/* As many fields as are one of these. By itself, so that those that are more usual keep the registers; in a loop of its
 * own, because few heads have one alone. What the cursor says of the table may be out of date afterwards. */
static UVHTTP__HOT NOINLINE void read_less_usual(uvhttp__http2_assembly_t *at, cursor_t *shared) {
    cursor_t cursor = *shared;
    while (cursor.in != cursor.end && read_one_less_usual(at, &cursor)) continue;
    *shared = cursor;
}

/* --- all fields --- */

/* The next field, if it is usual. False: it is not, and nothing is read. */
static ALWAYS_INLINE bool read_usual(uvhttp__http2_assembly_t *at, cursor_t *cursor) {
    uint32_t byte = *cursor->in;
    if (byte - FIRST_AGE < cursor->ages) {
        const uvhttp__hpack_table_t *table = &at->reader.decoder->table;
        const uvhttp__hpack_entry_t *entry = &table->entries[(cursor->newest - byte) & cursor->entry_mask];
        return read_listed(at, cursor, table->text + entry->offset, entry->name_size, entry->value_size, entry->name,
                           entry->facts);
    }
    if (byte - FIRST_PRESET < PRESETS) return read_preset(at, cursor, &presets[byte - FIRST_PRESET]);
    if (byte == UVHTTP__HPACK_PATH) return read_path(at, cursor);
    if (byte < 0x20) return read_literal(at, cursor);
    if (byte - 0x81u >= UVHTTP__HPACK_STATIC_COUNT) return false;
    const uvhttp__hpack_static_t *entry = &uvhttp__hpack_static[byte - 0x80u];
    return read_listed(at, cursor, entry->text, entry->name_size, entry->value_size, entry->name, entry->facts);
}

/* At the end the assembly is out of date, unless there is a fault. */
static ALWAYS_INLINE int read_fields(uvhttp__http2_assembly_t *at, cursor_t *cursor, const uint8_t *block) {
    while (cursor->in != cursor->end) {
        if (LIKELY(read_usual(at, cursor))) continue;
        cursor_t moved = *cursor;
        read_less_usual(at, &moved);
        *cursor = moved;
        if (LIKELY(cursor->in == cursor->end)) break;
        bool updates = cursor->in == block && (*block & 0xe0) == 0x20;
        leave(at, cursor);
        int status = UNLIKELY(updates) ? uvhttp__hpack_read_updates(&at->reader) : uvhttp__http2_read_any_field(at);
        if (UNLIKELY(status != UVHTTP_OK)) return status;
        enter(at, cursor);
    }
    return UVHTTP_OK;
}

/* --- the end --- */

/* False: something is unusual, and nothing says more of it than the assembly. */
static ALWAYS_INLINE bool finish_usual(uvhttp__http2_assembly_t *at, const cursor_t *cursor) {
    uvhttp__head_t *head = at->head;
    const uvhttp__span_t *pseudo = at->pseudo;
    if (UNLIKELY((cursor->seen & (UVHTTP__SEEN_USUAL | UVHTTP__SEEN_UNUSUAL)) != UVHTTP__SEEN_USUAL)) return false;
    uvhttp__span_t method = pseudo[UVHTTP__HPACK_METHOD], target = pseudo[UVHTTP__HPACK_PATH];
    char *base = cursor->base;
    head->method_text = method;
    head->method = (uint8_t)uvhttp__find_method(base + method.offset, method.size);
    head->target = head->path = target;
    head->authority = pseudo[UVHTTP__HPACK_AUTHORITY];
    head->path_plain = true;
    if (UNLIKELY(head->method == UVHTTP_CONNECT || head->authority.size == 0 ||
                 target.size > at->limits->target_size_max || cursor->field == at->fields_end))
        return false;
    if (at->query != 0)
        uvhttp__http2_split_at(head, at->query);
    else if (UNLIKELY((cursor->seen & UVHTTP__SEEN_QUERY) != 0))
        uvhttp__http2_split_target(head, base + target.offset);
    *cursor->field = (uvhttp__field_t){UVHTTP__HTTP2_HOST, head->authority};
    head->header_count = (uint32_t)(cursor->field + 1 - head->headers);
    head->size = (uint32_t)cursor->offset;
    return true;
}

UVHTTP__HOT int uvhttp__http2_read_request(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                                           const uvhttp__http2_head_limits_t *limits, char *scratch,
                                           uvhttp__head_t *head, uvhttp__http2_request_t *request) {
    uvhttp__http2_assembly_t at;
    at.reader.decoder = decoder;
    at.reader.too_large = false;
    at.limits = limits;
    at.scratch = scratch;
    at.head = head;
    at.request = request;
    at.fields_end = head->headers + limits->header_count_max;
    at.refusal = UVHTTP_OK;
    at.query = 0;
    *request = (uvhttp__http2_request_t){.extended_connect = false};
    *head = (uvhttp__head_t){.headers = head->headers, .version = UVHTTP_HTTP_2, .keep_alive = true};
    cursor_t cursor = {.in = block,
                       .end = (const uint8_t *)block + size,
                       .base = scratch,
                       .offset = UVHTTP__HTTP2_PREFIX_SIZE,
                       .left = limits->list_size_max,
                       .field = head->headers};
    memcpy(scratch, UVHTTP__HTTP2_PREFIX, sizeof UVHTTP__HTTP2_PREFIX);
    look_at_table(&cursor, &decoder->table);
    int status = UVHTTP_OK;
    if (UNLIKELY(decoder->table.size_max > decoder->size_lowest)) { /* the block has to say so */
        leave(&at, &cursor);
        status = uvhttp__hpack_read_updates(&at.reader);
        enter(&at, &cursor);
    }
    if (LIKELY(status == UVHTTP_OK)) status = read_fields(&at, &cursor, block);
    if (LIKELY(status == UVHTTP_OK)) {
        if (LIKELY(finish_usual(&at, &cursor))) return UVHTTP_OK;
        leave(&at, &cursor);
    }
    return uvhttp__http2_finish_any_head(&at, status);
}

uvhttp__http2_scope_t uvhttp__http2_scope(int code) {
    if (code <= UVHTTP_E_HTTP2_PSEUDO_FIELD && code >= UVHTTP_E_HTTP2_CONTENT_LENGTH) return UVHTTP__HTTP2_SCOPE_STREAM;
    if (code <= UVHTTP_E_HTTP_METHOD && code >= UVHTTP_E_HTTP_HOST_NOT_ALLOWED) return UVHTTP__HTTP2_SCOPE_RESPONSE;
    return UVHTTP__HTTP2_SCOPE_CONNECTION;
}
