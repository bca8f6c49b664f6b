/* Owns: the heads and trailers of responses over HTTP/2 (RFC 9113 section 8.3). May include: base, io, obs, http1,
 * http2.
 */
#include <string.h>

#include "base/str.h"
#include "load/h2_internal.h"

static uvhttp_str_t value_of(const uvhttp__hpack_field_t *field) {
    return (uvhttp_str_t){field->text + field->name_size, field->value_size};
}

static const char *read_status(const uvhttp__hpack_field_t *field, load_h2_head_t *head) {
    uint64_t status = 0;
    uvhttp_str_t value = value_of(field);
    if (head->status != 0) return "more than one :status";
    if (value.size != 3 || uvhttp__str_parse_u64(value, &status) != 0 || status < 100) return "a :status that is none";
    head->status = (uint16_t)status;
    return NULL;
}

static const char *read_length(const uvhttp__hpack_field_t *field, load_h2_head_t *head) {
    uint64_t length = 0;
    if (uvhttp__str_parse_u64(value_of(field), &length) != 0) return "a content-length that is none";
    if (head->has_length && head->length != length) return "more than one content-length";
    head->has_length = true;
    head->length = length;
    return NULL;
}

static const char *read_field(const uvhttp__hpack_field_t *field, bool is_trailer, load_h2_head_t *head) {
    if ((field->facts & (UVHTTP__HPACK_BAD_NAME | UVHTTP__HPACK_BAD_VALUE)) != 0) return "a malformed field";
    if (field->name == UVHTTP__HPACK_STATUS) return is_trailer ? "a :status in trailers" : read_status(field, head);
    if (field->text[0] == ':') return "a pseudo-field that no response has";
    if (head->status == 0 && !is_trailer) return "no :status before its fields";
    switch ((unsigned)field->name) {
        case UVHTTP__HPACK_CONTENT_LENGTH: return is_trailer ? NULL : read_length(field, head);
        case UVHTTP__HPACK_CONNECTION:
        case UVHTTP__HPACK_KEEP_ALIVE:
        case UVHTTP__HPACK_PROXY_CONNECTION:
        case UVHTTP__HPACK_TRANSFER_ENCODING:
        case UVHTTP__HPACK_UPGRADE: return "a field of HTTP/1 connections";
        default: return NULL;
    }
}

/* Whatever a field says, the rest is read for the table. */
static const char *read_block(load_conn_t *conn, const char *block, size_t size, bool is_trailer, load_h2_head_t *head,
                              bool *fatal) {
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    const char *wrong = NULL;
    int code =
        uvhttp__hpack_read(&reader, &conn->h2->decoder, block, size, conn->thread->h2_scratch, LOAD_HEAD_SIZE_MAX);
    while (code == 0 && (code = uvhttp__hpack_read_next(&reader, &field)) == 0)
        if (!wrong) wrong = read_field(&field, is_trailer, head);
    if (code == UVHTTP_E_HTTP_HEADERS_TOO_LARGE) return "a head of more than 64 KB";
    *fatal = code != UVHTTP_E_EOF;
    if (*fatal) return uvhttp_error_message(code);
    if (!wrong && head->status == 0 && !is_trailer) return "no :status";
    return wrong;
}

static bool remembers(const load_h2_t *h2, const char *block, size_t size) {
    return size == h2->memo_size && h2->decoder.table.inserted == h2->memo_inserted &&
           memcmp(h2->memo, block, size) == 0;
}

static void remember(load_h2_t *h2, const char *block, size_t size, const load_h2_head_t *head) {
    memcpy(h2->memo, block, size);
    h2->memo_size = (uint32_t)size;
    h2->memo_inserted = h2->decoder.table.inserted;
    h2->memo_head = *head;
}

const char *load_h2_read_head(load_conn_t *conn, const char *block, size_t size, bool is_trailer, load_h2_head_t *head,
                              bool *fatal) {
    load_h2_t *h2 = conn->h2;
    *fatal = false;
    if (!is_trailer && size > 0 && remembers(h2, block, size)) {
        *head = h2->memo_head;
        return NULL;
    }
    *head = (load_h2_head_t){0};
    uint32_t inserted = h2->decoder.table.inserted;
    bool resizes = size > 0 && ((unsigned char)block[0] & 0xe0) == 0x20;
    const char *wrong = read_block(conn, block, size, is_trailer, head, fatal);
    if (resizes)
        h2->memo_size = 0; /* entries may be gone */
    else if (!wrong && !is_trailer && size <= LOAD_H2_MEMO_MAX && h2->decoder.table.inserted == inserted)
        remember(h2, block, size, head);
    return wrong;
}
