/* Owns: reading of HTTP/1.x responses (RFC 9112) by a client: strict, sans-I/O. It allocates only for a head that is
 * split. May include: base. */
#ifndef UVHTTP_SRC_HTTP1_RESPONSE_READ_H
#define UVHTTP_SRC_HTTP1_RESPONSE_READ_H

#include "http1/http1.h"

/* Interim responses before a final one, unless interim_max says otherwise: a server sends 100, 103, now and then a 102.
 */
#define UVHTTP__HTTP1_INTERIM_DEFAULT 16u

/* Heads up to here are remembered by a uvhttp__http1_head_cache_t. */
#define UVHTTP__HTTP1_HEAD_CACHED_MAX 1024u

typedef struct uvhttp__http1_response_head {
    uint64_t length; /* Content-Length, if has_length */
    int status;      /* 100..999 */
    bool has_length;
    bool chunked;
    bool coded;      /* the body is in a transfer coding other than chunked, of which nothing is decoded */
    bool close;      /* the connection ends with this response, by what the head says */
    char accept[28]; /* Sec-WebSocket-Accept, if it has that many bytes */
} uvhttp__http1_response_head_t;

/* The last whole head that was read, and what it says: a server repeats itself, but for the seconds of its Date. One
 * thread; zeroed memory is an empty one. */
typedef struct uvhttp__http1_head_cache {
    uint32_t size;
    uvhttp__http1_response_head_t head;
    char data[UVHTTP__HTTP1_HEAD_CACHED_MAX];
} uvhttp__http1_head_cache_t;

typedef struct uvhttp__http1_response {
    uvhttp__http1_response_head_t head; /* of the response that is being read, once its head is complete */
    uvhttp_str_t head_text; /* its bytes with the last empty line; valid until the next call of feed, begin or deinit */
    uint64_t left;          /* body bytes still to come */
    uvhttp__http1_chunked_t chunked;
    uvhttp__http1_head_cache_t *cache;
    char *held; /* the bytes of a split head; NULL if none */
    uint32_t held_size;
    uint32_t head_size_max;
    uint32_t interim_max;   /* interim responses before a final one; the caller may change it after init */
    uint32_t interim_count; /* of them that have come */
    uint8_t state;
    bool to_head; /* the request was HEAD: no body whatever the fields say */
} uvhttp__http1_response_t;

/* Before the first use. head_size_max: bytes of a head with its last empty line, 16..; more:
 * UVHTTP_E_HTTP_HEADERS_TOO_LARGE. `cache` may be NULL. */
void uvhttp__http1_response_init(uvhttp__http1_response_t *response, uint32_t head_size_max,
                                 uvhttp__http1_head_cache_t *cache);
void uvhttp__http1_response_deinit(uvhttp__http1_response_t *response);

/* Prepares for the next response; to_head: the response to a HEAD request. */
void uvhttp__http1_response_begin(uvhttp__http1_response_t *response, bool to_head);

/* Parses data[0..size). *consumed: bytes parsed; *body: the run of body bytes among them, a view into data (size 0:
 * none). Returns 0 when the response is complete (interim 1xx responses are skipped), or UVHTTP_E_AGAIN (call again
 * while consumed < size, otherwise with more bytes). Errors are UVHTTP_E_NOMEM, UVHTTP_E_PEER_INTERIM (more than
 * interim_max of them) or a UVHTTP_E_HTTP_* code; afterwards only deinit is permitted. The result does not depend on
 * how the bytes were split. */
int uvhttp__http1_response_feed(uvhttp__http1_response_t *response, const char *data, size_t size, size_t *consumed,
                                uvhttp_str_t *body);

/* The peer has sent FIN. Returns 0 if that ends the response (a body without a length), else UVHTTP_E_ABORTED. */
int uvhttp__http1_response_end(uvhttp__http1_response_t *response);

/* Whether the head, and perhaps some of the body, has come. */
bool uvhttp__http1_response_has_head(const uvhttp__http1_response_t *response);

/* The lines of the head behind the first, as long as head_text is valid. */
uvhttp_str_t uvhttp__http1_response_lines(const uvhttp__http1_response_t *response);
/* Takes the next field off the front of them, or of a copy. False at the end. */
bool uvhttp__http1_response_field(uvhttp_str_t *lines, uvhttp_str_t *name, uvhttp_str_t *value);

#endif
