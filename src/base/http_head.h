/* Owns: a request head as offsets into its bytes: src/http1 writes it, and src/message reads it. May include: span. */
#ifndef UVHTTP_SRC_BASE_HTTP_HEAD_H
#define UVHTTP_SRC_BASE_HTTP_HEAD_H

#include "base/span.h"

typedef enum uvhttp__form { /* RFC 9112 section 3.2 */
                            UVHTTP__FORM_ORIGIN,
                            UVHTTP__FORM_ABSOLUTE,
                            UVHTTP__FORM_AUTHORITY,
                            UVHTTP__FORM_ASTERISK,
} uvhttp__form_t;

/* What a head may take. Together the sizes stay below 4 GiB, so that 32 bits hold every offset. */
typedef struct uvhttp__head_limits {
    uint32_t line_size_max;    /* request line, bytes without CRLF; more: UVHTTP_E_HTTP_LINE_TOO_LONG */
    uint32_t headers_size_max; /* header section, bytes with its CRLFs; more: UVHTTP_E_HTTP_HEADERS_TOO_LARGE */
    uint32_t header_count_max; /* fields; more: UVHTTP_E_HTTP_TOO_MANY_HEADERS */
} uvhttp__head_limits_t;

/* A parsed request head. `headers` is the caller's array of limits.header_count_max entries. */
typedef struct uvhttp__head {
    uvhttp__field_t *headers; /* set by the caller before the call */
    uint32_t header_count;
    uint32_t size; /* bytes of the head with its last CRLF CRLF (and CRLFs before the request line, RFC 9112 2.2) */
    uvhttp__span_t method_text;
    uvhttp__span_t target; /* as sent */
    uvhttp__span_t path;   /* raw (still percent-encoded) path part of the target; "*" for the asterisk form */
    uvhttp__span_t query;  /* without '?'; size 0 if there is none */
    uvhttp__span_t
        authority; /* of an absolute or authority form target (it wins over Host, RFC 9112 3.2.2), else of Host */
    uint64_t content_length; /* 0 if there is none */
    uint8_t method;          /* uvhttp_method_t */
    uint8_t form;            /* uvhttp__form_t */
    uint8_t version;         /* uvhttp_http_version_t */
    bool has_content_length;
    bool chunked;
    bool keep_alive;      /* what the client asked for or the version implies */
    bool expect_continue; /* "Expect: 100-continue" from an HTTP/1.1 client; any other expectation is an error (417) */
    bool upgrade;         /* an Upgrade header, and "upgrade" among the Connection options; or an extended CONNECT */
    bool path_plain;      /* path holds no '%', no "//" and no dot segment: it is its own decoded form */
} uvhttp__head_t;

#endif
