/* Owns: reading of HTTP/1.x responses (RFC 9112) as a client that checks its server: strict, sans-I/O. May include:
 * base, http1. */
#ifndef UVHTTP_TOOLS_LOAD_RESPONSE_H
#define UVHTTP_TOOLS_LOAD_RESPONSE_H

#include "http1/http1.h"

/* Bytes of a head; more: UVHTTP_E_HTTP_HEADERS_TOO_LARGE. */
#define LOAD_HEAD_SIZE_MAX (64u * 1024)
/* Heads up to here are remembered by a load_head_cache_t. */
#define LOAD_HEAD_CACHED_MAX 1024u

typedef struct load_head {
    uint64_t length; /* Content-Length, if has_length */
    int status;      /* 100..999 */
    bool has_length;
    bool chunked;
    bool close;      /* the connection ends with this response, by what the head says */
    char accept[28]; /* Sec-WebSocket-Accept, if it has that many bytes */
} load_head_t;

/* The last whole head that was read, and what it says: a server repeats itself, but for the seconds of its Date. One
 * thread; zeroed memory is an empty one. */
typedef struct load_head_cache {
    uint32_t size;
    load_head_t head;
    char data[LOAD_HEAD_CACHED_MAX];
} load_head_cache_t;

typedef struct load_response {
    load_head_t head; /* of the response that is being read, once its head is whole */
    uint64_t left;    /* body bytes still to come */
    uvhttp__http1_chunked_t chunked;
    load_head_cache_t *cache;
    char *held; /* a head that came in pieces so far; NULL if none */
    uint32_t held_size;
    uint8_t state;
    bool to_head; /* the request was HEAD: no body whatever the fields say */
} load_response_t;

/* Before the first use; `cache` may be NULL. */
void load_response_init(load_response_t *response, load_head_cache_t *cache);
void load_response_deinit(load_response_t *response);

/* Makes ready for the next response; to_head: it answers a HEAD request. */
void load_response_begin(load_response_t *response, bool to_head);

/* Reads from data[0..size). *consumed: bytes taken; *body: the run of body bytes among them, a view into data (size 0:
 * none). Returns 0 when the response is whole (interim 1xx responses are passed over), UVHTTP_E_AGAIN when not (call
 * again while consumed < size, otherwise with more bytes), or what is wrong with it: UVHTTP_E_NOMEM or a
 * UVHTTP_E_HTTP_* code. After an error it is only good for deinit. The result does not depend on how the bytes were cut
 * into pieces. */
int load_response_feed(load_response_t *response, const char *data, size_t size, size_t *consumed, uvhttp_str_t *body);

/* The peer has sent FIN. Returns 0 if that ends the response (a body without a length), else UVHTTP_E_ABORTED. */
int load_response_end(load_response_t *response);

/* Whether the head, and perhaps some of the body, has come. */
bool load_response_has_head(const load_response_t *response);

#endif
