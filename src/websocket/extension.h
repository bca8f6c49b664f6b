/* Owns: Sec-WebSocket-Extensions: what a client offers, and the permessage-deflate that is agreed on (RFC 6455 section
 * 9, RFC 7692 section 7.1). Sans-I/O. May include: base. */
#ifndef UVHTTP_SRC_WEBSOCKET_EXTENSION_H
#define UVHTTP_SRC_WEBSOCKET_EXTENSION_H

#include <uvhttp/types.h>

#define UVHTTP__WS_BITS_MIN 9 /* zlib has no raw deflate with a window of 2^8 */
#define UVHTTP__WS_BITS_MAX 15
#define UVHTTP__WS_EXTENSION_SIZE_MAX 160

/* permessage-deflate, as agreed on or as the server is willing. */
typedef struct uvhttp__ws_deflate {
    uint8_t server_bits;        /* window of what the server sends, 9..15; 0: not agreed on */
    uint8_t client_bits;        /* window of what the client sends, 8..15 */
    bool server_takeover : 1;   /* the server may refer to messages before */
    bool client_takeover : 1;   /* the client may */
    bool server_bits_asked : 1; /* the client has named a window, so that the response must */
} uvhttp__ws_deflate_t;

/* Accepts the first usable offer of a header field. An offer that is malformed, unknown or beyond zlib's abilities is
 * declined: false if nothing is left. */
bool uvhttp__ws_deflate_negotiate(uvhttp_str_t offers, const uvhttp__ws_deflate_t *willing,
                                  uvhttp__ws_deflate_t *agreed);

/* The response's Sec-WebSocket-Extensions, terminated. */
void uvhttp__ws_deflate_write(const uvhttp__ws_deflate_t *agreed, char out[UVHTTP__WS_EXTENSION_SIZE_MAX]);

#endif
