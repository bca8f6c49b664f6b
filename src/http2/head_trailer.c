/* Owns: trailer sections of requests (RFC 9113 section 8.1), and blocks that nobody wants. May include: base. */
#include <string.h>

#include "http2/head.h"
#include "http2/hpack_decode.h"

static int check_trailer(const uvhttp__hpack_field_t *field) {
    if (field->name_size > 0 && field->text[0] == ':') return UVHTTP_E_HTTP2_PSEUDO_FIELD;
    if ((field->facts & UVHTTP__HPACK_BAD_NAME) != 0) return UVHTTP_E_HTTP2_FIELD_NAME;
    if ((field->facts & UVHTTP__HPACK_BAD_VALUE) != 0) return UVHTTP_E_HTTP2_FIELD_VALUE;
    switch (field->name) {
        case UVHTTP__HPACK_TRANSFER_ENCODING:
        case UVHTTP__HPACK_CONNECTION:
        case UVHTTP__HPACK_KEEP_ALIVE:
        case UVHTTP__HPACK_PROXY_CONNECTION:
        case UVHTTP__HPACK_UPGRADE: return UVHTTP_E_HTTP2_CONNECTION_FIELD;
        case UVHTTP__HPACK_CONTENT_LENGTH: /* they frame or route the message (RFC 9110 section 6.5.1) */
        case UVHTTP__HPACK_HOST:
        case UVHTTP__HPACK_TRAILER:
        case UVHTTP__HPACK_EXPECT:
        case UVHTTP__HPACK_TE: return UVHTTP_E_HTTP_TRAILER;
        default: return UVHTTP_OK;
    }
}

static char *put_line(char *out, const uvhttp__hpack_field_t *field) {
    memcpy(out, field->text, field->name_size);
    out += field->name_size;
    memcpy(out, ": ", 2);
    memcpy(out + 2, field->text + field->name_size, field->value_size);
    out += 2 + field->value_size;
    memcpy(out, "\r\n", 2);
    return out + 2;
}

int uvhttp__http2_read_trailer(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                               const uvhttp__http2_head_limits_t *limits, char *scratch, uvhttp_str_t *text) {
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    char *lines = scratch + uvhttp__hpack_scratch_size(limits->list_size_max), *out = lines;
    int fault = UVHTTP_OK, status = uvhttp__hpack_read(&reader, decoder, block, size, scratch, limits->list_size_max);
    while (status == UVHTTP_OK && (status = uvhttp__hpack_next(&reader, &field)) == UVHTTP_OK) {
        if (fault == UVHTTP_OK) fault = check_trailer(&field);
        if (fault == UVHTTP_OK) out = put_line(out, &field);
    }
    *text = (uvhttp_str_t){lines, (size_t)(out - lines)};
    if (status == UVHTTP_E_HTTP_HEADERS_TOO_LARGE) return fault != UVHTTP_OK ? fault : UVHTTP_E_HTTP_TRAILER_TOO_LARGE;
    return status == UVHTTP_E_EOF ? fault : status;
}

int uvhttp__http2_skip_block(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size, char *scratch) {
    uvhttp__hpack_reader_t reader;
    int status = uvhttp__hpack_read(&reader, decoder, block, size, scratch, 0);
    return status == UVHTTP_OK ? uvhttp__hpack_read_rest(&reader) : status;
}
