/* Owns: what stands in place of tls.c in a build without OpenSSL: options.c refuses what would call it. May include:
 * base, io. */
/* Needs: no_openssl. */
#include "load/tls.h"

const bool load_has_tls = false;

void *load_tls_context_new(const load_options_t *options, FILE *err) {
    (void)options, (void)err;
    return NULL;
}

void load_tls_context_free(void *context) {
    (void)context;
}

int load_tls_start(load_conn_t *conn) {
    (void)conn;
    return UVHTTP_E_UNSUPPORTED;
}
