/* Owns: request and response heads of HTTP/2 (RFC 9113 section 8): header blocks become the record of base/http_head.h,
 * and responses become header blocks. Sans-I/O. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HEAD_H
#define UVHTTP_SRC_HTTP2_HEAD_H

#include "base/http_head.h"
#include "http2/hpack.h"

/* --- requests --- */

typedef struct uvhttp__http2_head_limits {
    uint32_t list_size_max;    /* bytes: name, value and 32 of each field, pseudo-fields and cookie crumbs included */
    uint32_t target_size_max;  /* bytes of :path */
    uint32_t header_count_max; /* fields of the record */
    bool connect_protocol;     /* we have sent SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441) */
} uvhttp__http2_head_limits_t;

/* Bytes of the scratch memory that a request head needs. */
static inline size_t uvhttp__http2_scratch_size(const uvhttp__http2_head_limits_t *limits) {
    return 2 * uvhttp__hpack_scratch_size(limits->list_size_max);
}

/* What HTTP/2 says beyond uvhttp__head_t; offsets from the same base. */
typedef struct uvhttp__http2_request {
    uvhttp__span_t protocol; /* of an extended CONNECT (RFC 8441); else empty */
    uvhttp__span_t priority; /* value of the first priority field (RFC 9218); empty if there is none */
    bool extended_connect;   /* :protocol is there: method is CONNECT, form is ORIGIN, and there is a path */
} uvhttp__http2_request_t;

/* Whose fault a code is. */
typedef enum uvhttp__http2_scope {
    UVHTTP__HTTP2_SCOPE_CONNECTION, /* UVHTTP_E_HPACK_*, UVHTTP_E_NOMEM: the connection ends: COMPRESSION_ERROR, or
                                       INTERNAL_ERROR for UVHTTP_E_NOMEM */
    UVHTTP__HTTP2_SCOPE_STREAM,   /* UVHTTP_E_HTTP2_*: a malformed request (RFC 9113 section 8.1.1): the stream is reset
                                     with PROTOCOL_ERROR */
    UVHTTP__HTTP2_SCOPE_RESPONSE, /* UVHTTP_E_HTTP_*: well-formed, but refused: a response with the status of the
                                     code */
} uvhttp__http2_scope_t;
uvhttp__http2_scope_t uvhttp__http2_scope(int code);

/* Reads the complete header block of a request into scratch[0..uvhttp__http2_scratch_size(limits)). The caller sets
 * head->headers (room for limits->header_count_max fields). Returns 0 and *head and *request, offsets from scratch,
 * valid until scratch is used again; head->size bytes of it are what uvhttp__exchange_own copies. The decoder's table
 * is right after every code but those of scope CONNECTION.
 *
 * The record is that of an HTTP/1.1 request that means the same, so that nothing above can tell: version is
 * UVHTTP_HTTP_2, keep_alive true, chunked false, a "host" field is made of :authority if there is none, and cookie
 * crumbs are one field. has_content_length as sent; a body without one is the caller's to know (END_STREAM).
 *
 * After a code of scope RESPONSE, *head is as after uvhttp__http1_read_refused: no fields, and of method, target, path
 * and query what was seen before (method GET and an empty path, if nothing).
 *
 * Codes of scope STREAM:
 *   UVHTTP_E_HTTP2_PSEUDO_FIELD      unknown, or not one of a request
 *   UVHTTP_E_HTTP2_PSEUDO_ORDER      behind another field
 *   UVHTTP_E_HTTP2_PSEUDO_REPEATED
 *   UVHTTP_E_HTTP2_PSEUDO_MISSING    :method, :scheme or :path; of CONNECT :authority, and the other two are there
 *   UVHTTP_E_HTTP2_METHOD            not a token
 *   UVHTTP_E_HTTP2_SCHEME            not a scheme of RFC 3986
 *   UVHTTP_E_HTTP2_PATH              empty, without a slash (but "*" of OPTIONS), or with a byte that no target has
 *   UVHTTP_E_HTTP2_AUTHORITY         malformed, missing in :authority and host, or these two differ; host repeated
 *   UVHTTP_E_HTTP2_CONNECT_PROTOCOL  :protocol that we have not offered, without CONNECT, or not a token
 *   UVHTTP_E_HTTP2_FIELD_NAME        empty, not a token, or with an upper case letter
 *   UVHTTP_E_HTTP2_FIELD_VALUE       with a control character, or whitespace at either end
 *   UVHTTP_E_HTTP2_CONNECTION_FIELD  a field of a connection: connection, keep-alive, proxy-connection, upgrade,
 *                                    transfer-encoding
 *   UVHTTP_E_HTTP2_TE                te that is not "trailers"
 *   UVHTTP_E_HTTP2_CONTENT_LENGTH    malformed or repeated
 * Of scope RESPONSE:
 *   UVHTTP_E_HTTP_HEADERS_TOO_LARGE, UVHTTP_E_HTTP_TOO_MANY_HEADERS, UVHTTP_E_HTTP_LINE_TOO_LONG (:path),
 *   UVHTTP_E_HTTP_EXPECTATION
 * Of several faults of scope STREAM and RESPONSE any may be returned. */
int uvhttp__http2_read_request(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                               const uvhttp__http2_head_limits_t *limits, char *scratch, uvhttp__head_t *head,
                               uvhttp__http2_request_t *request);

/* Reads the trailer section of a request: *text is "name: value\r\n" lines, as uvhttp__exchange_trailer takes them, in
 * scratch[0..uvhttp__http2_scratch_size(limits)). Returns 0, a code of scope CONNECTION, UVHTTP_E_HTTP2_PSEUDO_FIELD,
 * UVHTTP_E_HTTP2_FIELD_NAME, UVHTTP_E_HTTP2_FIELD_VALUE, UVHTTP_E_HTTP2_CONNECTION_FIELD,
 * UVHTTP_E_HTTP_TRAILER (a field that frames or routes the message, as in HTTP/1) or
 * UVHTTP_E_HTTP_TRAILER_TOO_LARGE. */
int uvhttp__http2_read_trailer(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size,
                               const uvhttp__http2_head_limits_t *limits, char *scratch, uvhttp_str_t *text);

/* Decodes a block whose stream is gone (reset, refused), for the table's sake. Returns 0 or a code of scope CONNECTION.
 * scratch: uvhttp__hpack_scratch_size(0) bytes. */
int uvhttp__http2_skip_block(uvhttp__hpack_decoder_t *decoder, const void *block, size_t size, char *scratch);

/* --- responses --- */

#define UVHTTP__HTTP2_LENGTH_NONE UINT64_MAX /* no content-length */

typedef struct uvhttp__http2_response {
    uint16_t status;           /* 100..999; 0: a trailer section */
    uvhttp_str_t content_type; /* size 0: none */
    uvhttp_str_t fields;     /* "Name: value\r\n" lines, well-formed: as uvhttp_response.headers. Fields of a connection
                                are left out, as HTTP/2 has none */
    uint64_t content_length; /* or UVHTTP__HTTP2_LENGTH_NONE */
    const char *date;        /* UVHTTP__DATE_SIZE bytes; NULL: none */
    uint64_t date_id;        /* any number that changes when the text of the date does, not 0 */
} uvhttp__http2_response_t;

/* The most that uvhttp__http2_write_response writes, with what copies of a fixed size write behind the end. */
static inline size_t uvhttp__http2_response_size_max(const uvhttp__http2_response_t *response) {
    return 256 + 2 * response->content_type.size + 2 * response->fields.size;
}

/* Writes the header block of a response, an interim one (100, 103) or a trailer section at out, which has
 * uvhttp__http2_response_size_max(response) bytes. Returns how many it has. Never fails: without memory for a table
 * less is indexed. Each block that was written must be sent, in order. */
size_t uvhttp__http2_write_response(uvhttp__hpack_encoder_t *encoder, const uvhttp__http2_response_t *response,
                                    char *out);

#endif
