/* Owns: reading the PROXY protocol, versions 1 and 2; no I/O. Private to src/conn. May include: base. */
#ifndef UVHTTP_SRC_CONN_PROXY_PROTOCOL_H
#define UVHTTP_SRC_CONN_PROXY_PROTOCOL_H

#include "base/ip.h"

#define UVHTTP__PROXY_V1_SIZE_MAX 107  /* bytes of the line with its end */
#define UVHTTP__PROXY_V2_SIZE_MAX 4096 /* bytes behind the first 16, of the 65535 that could be said */

/* Zeroed: nothing has come. */
typedef struct uvhttp__proxy {
    uint8_t have;  /* bytes kept */
    uint16_t skip; /* bytes of version 2 that still come and are thrown away */
    char bytes[UVHTTP__PROXY_V1_SIZE_MAX + 1];
} uvhttp__proxy_t;

/* Parses bytes; *used of them belong to the header. Returns 0 when the header is complete: *source is the client that
 * the proxy names, of kind UNKNOWN if it names none (LOCAL, UNSPEC, UNKNOWN). UVHTTP_E_AGAIN: all are used, more must
 * follow. UVHTTP_E_PROXY_MISSING: not such a header. UVHTTP_E_PROXY_MALFORMED, UVHTTP_E_PROXY_TOO_LARGE. */
int uvhttp__proxy_read(uvhttp__proxy_t *proxy, const char *data, size_t size, size_t *used, uvhttp__peer_t *source);

#endif
