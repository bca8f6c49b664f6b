/* Owns: requests of HTTP/2 as they are sent: each a HEADERS frame, encoded once for all connections. May include: base,
 * http2. */
#ifndef UVHTTP_TOOLS_LOAD_H2_REQUEST_H
#define UVHTTP_TOOLS_LOAD_H2_REQUEST_H

#include "base/str.h"
#include "load/options.h"

/* The largest frame that every peer accepts (RFC 9113 section 4.2). */
enum { LOAD_H2_FRAME_MAX = 16384, LOAD_H2_HEAD_SIZE = 9 };

/* What the header compression of a connection allows. */
typedef enum load_h2_table {
    LOAD_H2_INDEXED, /* the server's table has 4096 bytes at least */
    LOAD_H2_LITERAL, /* it has less, and none of it is used */
    LOAD_H2_TABLES
} load_h2_table_t;

typedef struct load_h2_frame {
    char *data; /* with stream 0 */
    uint32_t size;
} load_h2_frame_t;

/* The same request as the first of a connection, which adds its fields to the server's table, and as a later one, which
 * refers to them. All requests of a run add the same fields in the same order, so that any of them may be the first. */
typedef struct load_h2_request {
    load_h2_frame_t first[LOAD_H2_TABLES];
    load_h2_frame_t later[LOAD_H2_TABLES];
} load_h2_request_t;

/* Returns 0, UVHTTP_E_NOMEM, or UVHTTP_E_HTTP_HEADERS_TOO_LARGE if a frame cannot hold the fields. deinit in any case;
 * zeroed memory is an empty one. */
int load_h2_request_init(load_h2_request_t *request, const load_options_t *options, uvhttp_str_t method,
                         uvhttp_str_t target, size_t body_size);
void load_h2_request_deinit(load_h2_request_t *request);

#endif
