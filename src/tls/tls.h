/* Owns: what the files of this folder share besides the backend, and what server/ needs of it. May include: conn, io,
 * base. */
#ifndef UVHTTP_SRC_TLS_TLS_H
#define UVHTTP_SRC_TLS_TLS_H

#include <uvhttp/tls.h>

#include "conn/tcp_server.h"

/* The filter for an address to listen on; it takes a reference to tls, which its release gives back. Returns 0,
 * UVHTTP_E_INVALID (tls NULL) or UVHTTP_E_UNSUPPORTED (this build has no TLS). */
int uvhttp__tls_filter(uvhttp_tls_t *tls, uvhttp__conn_filter_t *filter);

/* filter.c: opens a connection; arg is the uvhttp_tls_t. */
int uvhttp__tls_open(uvhttp__conn_t *conn, void *arg);

/* tls.c: what connections accepted now are served with; release it. */
struct uvhttp__tls_contexts *uvhttp__tls_now(uvhttp_tls_t *tls);

/* Reloading in two steps, so that several can be all or nothing: what is prepared is committed or released
 * (uvhttp__tls_contexts_release). options NULL: those in force; without certificates, for one for development: its own.
 * Returns as uvhttp_tls_reload. The reload's thread. */
int uvhttp__tls_prepare(uvhttp_tls_t *tls, const uvhttp_tls_options_t *options, struct uvhttp__tls_contexts **fresh);
void uvhttp__tls_commit(uvhttp_tls_t *tls, struct uvhttp__tls_contexts *fresh);
void uvhttp__tls_contexts_release(struct uvhttp__tls_contexts *contexts);

/* What a filter for an address was made for; NULL if it is none of TLS. */
uvhttp_tls_t *uvhttp__tls_of_filter(const uvhttp__conn_filter_t *filter);

/* Whether it was made from a server's configuration. */
void uvhttp__tls_set_configured(uvhttp_tls_t *tls);
bool uvhttp__tls_is_configured(const uvhttp_tls_t *tls);

#endif
