/* Owns: HTTP/1.x message syntax (RFC 9112): request head, chunked coding, response head. Sans-I/O: bytes in, views out;
 * no allocation, no clock, no global state but the SIMD choice. May include: base. */
#ifndef UVHTTP_SRC_HTTP1_H
#define UVHTTP_SRC_HTTP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/error.h>
#include <uvhttp/method.h>
#include <uvhttp/types.h>

#include "base/http_head.h"

/* The progress in a head that arrives in several receives; zero it for a new message. */
typedef struct uvhttp__http1_scan {
    uint32_t scanned;       /* bytes looked at */
    uint32_t head_start;    /* first byte of the request line: after empty lines */
    uint32_t headers_start; /* first byte after the request line; 0 until that is complete */
    uint32_t lines;         /* complete lines, the request line being the first */
} uvhttp__http1_scan_t;

/* Reads the request head that data[0..size) starts with, where data[0..scan->scanned) was seen before (it may have
 * moved). Returns 0 and the head, its size included; UVHTTP_E_AGAIN for more; or a UVHTTP_E_HTTP_* code that holds
 * whatever follows (docs/internals/http1.md lists the code of each input). The result depends on the bytes only, never
 * on their splits or on what follows the head. The work over all calls is linear in the size of the head. The maximum
 * sizes, bare LFs, an impossible method, and the syntax of the request line at its end are checked first, as bytes
 * arrive. Of several faults in a complete head, the first in the syntax of the fields is reported, then the target,
 * then the first in the meaning of the fields, then conflicts between fields. On an error do not use *head. */
int uvhttp__http1_read_request(uvhttp__http1_scan_t *scan, const char *data, size_t size,
                               const uvhttp__head_limits_t *limits, uvhttp__head_t *head);

/* What can be said of a head that was refused, of which data[0..size) has come: *head is that of a GET without fields,
 * and has the method, its text, the target, path and query as far as the request line shows them without doubt within
 * line_size_max bytes. head->size: bytes of data that it has views into. Independent of how the bytes came. */
void uvhttp__http1_read_refused(const char *data, size_t size, uint32_t line_size_max, uvhttp__head_t *head);

/* --- vector instructions --- */

typedef enum uvhttp__http1_simd {
    UVHTTP__HTTP1_SIMD_AUTO, /* the best that this processor has; what is used if nobody selects */
    UVHTTP__HTTP1_SIMD_SCALAR,
    UVHTTP__HTTP1_SIMD_SSE42,
    UVHTTP__HTTP1_SIMD_AVX2,
    UVHTTP__HTTP1_SIMD_NEON,
} uvhttp__http1_simd_t;

/* Forces a level for the whole process (tests and benchmarks; every level gives the same results). Returns 0, or
 * UVHTTP_E_UNSUPPORTED, changing nothing, if this processor or build lacks it. Any thread. */
int uvhttp__http1_simd_select(uvhttp__http1_simd_t level);

/* "scalar", "sse4.2", "avx2" or "neon": the level in use. */
const char *uvhttp__http1_simd_name(void);

/* --- chunked transfer coding (RFC 9112 section 7.1) --- */

typedef struct uvhttp__http1_chunked {
    uint64_t chunk_left;     /* data bytes of the current chunk still to come */
    uint32_t extension_size; /* bytes of chunk extensions in the whole body so far */
    uint32_t extension_size_max;
    uint32_t trailer_size; /* bytes of the trailer section so far, without its last CRLF */
    uint32_t trailer_size_max;
    uint16_t forbidden_left; /* names that the trailer field may still turn out to have and must not, a bit each */
    int16_t error;           /* what the failed state keeps returning */
    uint8_t state;
    uint8_t digits; /* of the chunk size; in a trailer name the bytes compared with the forbidden ones */
} uvhttp__http1_chunked_t;

/* extension_size_max, trailer_size_max: bytes, bounds over the whole body. */
void uvhttp__http1_chunked_init(uvhttp__http1_chunked_t *chunked, uint32_t extension_size_max,
                                uint32_t trailer_size_max);

/* Decodes from data[0..size). Stops at the end of the input, after one run of chunk data, at the end of the body, or at
 * an error. *consumed: bytes taken from data; *body: the run of body bytes among them, a view into data (size 0 if
 * none). Returns 0 when the body has ended (trailers are checked for syntax; uvhttp__http1_chunked_trailer has them),
 * UVHTTP_E_AGAIN when not (call again while consumed < size, otherwise with more bytes), or an error, which it then
 * keeps returning:
 *   UVHTTP_E_HTTP_CHUNK_SIZE         not 1 to 16 hexadecimal digits, more than INT64_MAX, or not followed by CRLF or an
 *                                    extension
 *   UVHTTP_E_HTTP_CHUNK_EXTENSION    not by the grammar of RFC 9112 section 7.1.1, or more than extension_size_max
 *   UVHTTP_E_HTTP_CHUNK_DATA         chunk data not followed by CRLF
 *   UVHTTP_E_HTTP_TRAILER            malformed, or a field that frames or routes the message
 *   UVHTTP_E_HTTP_TRAILER_TOO_LARGE  more than trailer_size_max */
int uvhttp__http1_chunked_decode(uvhttp__http1_chunked_t *chunked, const char *data, size_t size, size_t *consumed,
                                 uvhttp_str_t *body);

/* The bytes of the trailer section (lines with their CRLF, without the last empty one) among the `consumed` that a call
 * of decode took from `data`. size_before: chunked->trailer_size before that call. */
uvhttp_str_t uvhttp__http1_chunked_trailer(const uvhttp__http1_chunked_t *chunked, uint32_t size_before,
                                           const char *data, size_t consumed);

/* --- response --- */

/* "HTTP/1.1 200 OK\r\n" for a status (100..999; unknown ones get an empty reason phrase). Writes at most
 * UVHTTP__HTTP1_STATUS_LINE_MAX bytes at out and returns how many. */
#define UVHTTP__HTTP1_STATUS_LINE_MAX 64
size_t uvhttp__http1_write_status_line(char *out, int status);
const char *uvhttp__http1_reason(int status); /* "" if unknown */

/* "<hex size>\r\n", at most UVHTTP__HTTP1_CHUNK_HEAD_MAX bytes; returns how many. The caller writes the data and the
 * CRLF after it; the body ends with the head of a chunk of size 0 and CRLF. */
#define UVHTTP__HTTP1_CHUNK_HEAD_MAX 20
size_t uvhttp__http1_write_chunk_head(char *out, uint64_t size);

#endif
