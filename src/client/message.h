/* Owns: requests to other servers: parsing the url and writing the head. May include: http1, obs, base. */
#ifndef UVHTTP_SRC_CLIENT_MESSAGE_H
#define UVHTTP_SRC_CLIENT_MESSAGE_H

#include <stddef.h>
#include <uvhttp/client.h>

#include "obs/trace.h"

typedef struct uvhttp__client_url {
    uvhttp_str_t authority; /* "name", "127.0.0.1:8080": for Host, and the address; without a port it is 80 */
    uvhttp_str_t target;    /* begins with '/' or '?', or is empty: then a '/' goes before it */
} uvhttp__client_url_t;

/* Views into `text`. Returns 0, UVHTTP_E_UNSUPPORTED (https), UVHTTP_E_CLIENT_UNIX_URL or UVHTTP_E_ADDRESS. */
int uvhttp__client_url_parse(uvhttp_str_t text, uvhttp__client_url_t *url);

/* Writes the host and port as uvhttp__connector_start takes them with UVHTTP__CONNECT_TCP, terminated. Returns 0 or
 * UVHTTP_E_ADDRESS (too long). */
int uvhttp__client_url_address(const uvhttp__client_url_t *url, char *out, size_t size);

/* Returns 0, or UVHTTP_E_INVALID: the method or a field of the header cannot be sent. */
int uvhttp__client_check(const uvhttp_client_request_t *request);

/* Writes the head of a request that has been checked; with `out` NULL, its size is only found. trace: of whom it is
 * sent for, unless the request has a traceparent of its own; NULL: of nobody. */
size_t uvhttp__client_write_head(const uvhttp_client_request_t *request, const uvhttp__client_url_t *url,
                                 const uvhttp__trace_context_t *trace, char *out);

#endif
