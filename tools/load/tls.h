/* Owns: TLS of the client's side, as a filter on a connection's stream. May include: base, io, obs, http1. */
#ifndef UVHTTP_TOOLS_LOAD_TLS_H
#define UVHTTP_TOOLS_LOAD_TLS_H

#include "load/conn.h"

/* What all connections share: NULL after a line on `err`, if --ca-file cannot be read. Not in a build
 * without TLS. */
void *load_tls_context_new(const load_options_t *options, FILE *err);
void load_tls_context_free(void *context);

/* Begins the handshake on a connection that has just been made, in place of read_start; load_conn_secured follows.
 * Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_IO. */
int load_tls_start(load_conn_t *conn);

#endif
