/* Owns: what the files of this folder share besides the backend, and what server/ needs of it. May include: conn, io,
 * base. */
#ifndef UVHTTP_SRC_TLS_TLS_H
#define UVHTTP_SRC_TLS_TLS_H

#include <uvhttp/tls.h>

#include "conn/host.h"

/* The filter for an address to listen on; it takes a reference to tls, which its release gives back. Returns 0,
 * UVHTTP_E_INVALID (tls NULL) or UVHTTP_E_UNSUPPORTED (this build has no TLS). */
int uvhttp__tls_filter(uvhttp_tls_t *tls, uvhttp__conn_filter_t *filter);

/* filter.c: opens a connection; arg is the uvhttp_tls_t. */
int uvhttp__tls_open(uvhttp__conn_t *conn, void *arg);

/* tls.c: what connections accepted now are served with; release it. */
struct uvhttp__tls_contexts *uvhttp__tls_now(uvhttp_tls_t *tls);
uint64_t uvhttp__tls_handshake_timeout_ms(const uvhttp_tls_t *tls);

#endif
