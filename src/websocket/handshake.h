/* Owns: the arithmetic of the opening handshake (RFC 6455 section 4.2). SHA-1 and Base64 are OpenSSL's. May include:
 * base. */
#ifndef UVHTTP_SRC_WEBSOCKET_HANDSHAKE_H
#define UVHTTP_SRC_WEBSOCKET_HANDSHAKE_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

#define UVHTTP__WS_KEY_SIZE 24    /* 16 bytes as Base64 */
#define UVHTTP__WS_ACCEPT_SIZE 28 /* 20 bytes as Base64 */

/* Whether a Sec-WebSocket-Key is the Base64 of 16 bytes: 22 digits and "==". The last digit's spare bits are not
 * looked at, because the bytes do not matter. */
bool uvhttp__ws_key_valid(uvhttp_str_t key);

/* Sec-WebSocket-Accept for a valid key, terminated. Returns 0, or UVHTTP_E_UNSUPPORTED if the cryptographic library
 * refuses SHA-1. */
int uvhttp__ws_accept(uvhttp_str_t key, char out[UVHTTP__WS_ACCEPT_SIZE + 1]);

/* Whether a comma-separated list has the token, in any case (RFC 9110 section 5.6.1). */
bool uvhttp__ws_list_has(uvhttp_str_t list, uvhttp_str_t token);

/* Whether an Origin ("https://example.com") names the authority that a request was for (Host, "example.com:443"), the
 * default port of its scheme being the same as none. "null" and malformed ones do not. */
bool uvhttp__ws_origin_is_host(uvhttp_str_t origin, uvhttp_str_t host);

#endif
