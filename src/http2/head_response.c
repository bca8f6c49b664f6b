/* Owns: response heads, interim ones and trailer sections as header blocks (RFC 9113 section 8.3.2). What repeats on a
 * connection is written once and remembered. May include: base. */
#include "base/alloc.h"
#include "base/date.h"
#include "base/str.h"
#include "http2/head_repeated.h"

enum {
    REMEMBERED_MAX = 2048, /* bytes of content type and fields of a block that is remembered */
    DATE_TABLE_MIN = 256,  /* bytes of a table that dates are put into */
};

/* --- the part that repeats: status, content type and the application's fields --- */

/* The text of the field is built in the caller's memory, after the longest encoding of it. */
static char *put_field(uvhttp__hpack_encoder_t *encoder, char *out, uvhttp_str_t name, uvhttp_str_t value) {
    char *text = out + name.size + value.size + 16;
    for (size_t i = 0; i < name.size; ++i) text[i] = uvhttp__char_lower(name.data[i]);
    if (value.size > 0) memcpy(text + name.size, value.data, value.size);
    return uvhttp__hpack_put_field(encoder, out, text, name.size, value.size);
}

/* The entry of the static table; 0: there is none. */
static unsigned index_of_status(unsigned status) {
    switch (status) {
        case 200: return 8;
        case 204: return 9;
        case 206: return 10;
        case 304: return 11;
        case 400: return 12;
        case 404: return 13;
        case 500: return 14;
        default: return 0;
    }
}

static char *put_status(uvhttp__hpack_encoder_t *encoder, char *out, unsigned status) {
    if (status == 0) return out;
    unsigned index = index_of_status(status);
    if (index > 0) {
        *out = (char)(UVHTTP__HPACK_INDEXED | index);
        return out + 1;
    }
    char digits[UVHTTP__DECIMAL_MAX];
    return put_field(encoder, out, UVHTTP__STR(":status"),
                     (uvhttp_str_t){digits, uvhttp__write_decimal(digits, status)});
}

static char *put_lines(uvhttp__hpack_encoder_t *encoder, char *out, uvhttp_str_t lines) {
    while (lines.size > 0) {
        /* Both are always found: a name holds no ':' and a value no LF. */
        size_t size = (size_t)((const char *)memchr(lines.data, '\n', lines.size) - lines.data) + 1;
        size_t name_size = (size_t)((const char *)memchr(lines.data, ':', size) - lines.data);
        uvhttp_str_t value = {lines.data + name_size + 1, size - name_size - 3};
        out = put_field(encoder, out, (uvhttp_str_t){lines.data, name_size}, uvhttp__str_trim(value));
        lines = (uvhttp_str_t){lines.data + size, lines.size - size};
    }
    return out;
}

/* Keeps the block for the next response like this one; without memory it is not kept. */
static void remember(uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response, const char *block,
                     size_t size) {
    size_t type_size = response->content_type.size, fields_size = response->fields.size;
    if (type_size + fields_size > REMEMBERED_MAX || size > REMEMBERED_MAX) return;
    uvhttp__hpack_block_t **slot = &encoder->blocks[uvhttp__http2_block_slot(response)], *kept = *slot;
    size_t needed = size + type_size + fields_size + UVHTTP__HPACK_COPY;
    if (!kept || kept->capacity < needed) {
        kept = uvhttp__realloc(kept, sizeof *kept + needed);
        if (!kept) return;
        kept->capacity = (uint16_t)needed;
        *slot = kept;
    }
    kept->generation = encoder->table.inserted;
    kept->status = response->status;
    kept->size = (uint16_t)size;
    kept->type_size = (uint16_t)type_size;
    kept->fields_size = (uint32_t)fields_size;
    memcpy(kept->text, block, size);
    if (type_size > 0) memcpy(kept->text + size, response->content_type.data, type_size);
    if (fields_size > 0) memcpy(kept->text + size + type_size, response->fields.data, fields_size);
}

static NOINLINE char *write_repeating(uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response,
                                      char *out) {
    uint32_t inserted = encoder->table.inserted;
    char *start = out;
    out = put_status(encoder, out, response->status);
    if (response->content_type.size > 0)
        out = put_field(encoder, out, UVHTTP__STR("content-type"), response->content_type);
    out = put_lines(encoder, out, response->fields);
    /* A block that inserts cannot be sent again. */
    if (encoder->table.inserted == inserted) remember(encoder, response, start, (size_t)(out - start));
    return out;
}

/* --- date and length --- */

/* The first of a second is sent as it is, so that a connection with few requests has no table of dates. */
static NOINLINE char *put_new_date(uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response,
                                   char *out) {
    char text[4 + UVHTTP__DATE_SIZE] = "date";
    bool repeated = encoder->date_id == response->date_id;
    memcpy(text + 4, response->date, UVHTTP__DATE_SIZE);
    if (!repeated) uvhttp__hpack_encoder_calm(encoder);
    encoder->date_id = response->date_id;
    encoder->date_indexed = false;
    if (repeated && encoder->table.size_max >= DATE_TABLE_MIN &&
        uvhttp__hpack_put_inserted(encoder, &out, text, 4, UVHTTP__DATE_SIZE, UVHTTP__HPACK_DATE)) {
        encoder->date_indexed = true;
        encoder->date_entry = encoder->table.inserted - 1;
        return out;
    }
    *out++ = UVHTTP__HPACK_UNINDEXED | 0x0f; /* its index has two bytes */
    *out++ = UVHTTP__HPACK_DATE - 0x0f;
    return uvhttp__hpack_put_string(out, text + 4, UVHTTP__DATE_SIZE);
}

size_t uvhttp__http2_end_with_any(const char *start, char *out, uint64_t length) {
    if (length == UVHTTP__HTTP2_LENGTH_NONE) return (size_t)(out - start);
    out = uvhttp__hpack_put_integer(out, UVHTTP__HPACK_UNINDEXED, 0x0f, UVHTTP__HPACK_CONTENT_LENGTH);
    size_t size = uvhttp__write_decimal(out + 1, length);
    *out = (char)size;
    return (size_t)(out + 1 + size - start);
}

size_t uvhttp__http2_write_response(uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response,
                                    char *out) {
    uint32_t age;
    char *start = out;
    if (UNLIKELY(encoder->size_update)) out = uvhttp__hpack_put_updates(encoder, out);
    const uvhttp__hpack_block_t *block = uvhttp__http2_recall(encoder, response, true);
    if (LIKELY(block != NULL)) {
        uvhttp__hpack_copy(out, block->text, block->size);
        out += block->size;
    } else {
        out = write_repeating(encoder, response, out);
    }
    if (response->date)
        out = uvhttp__http2_has_date(encoder, response, &age) ? uvhttp__http2_put_date(out, age)
                                                              : put_new_date(encoder, response, out);
    return uvhttp__http2_end_with_length(start, out, response->content_length);
}
