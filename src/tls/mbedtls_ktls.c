/* Owns: that there is no kernel TLS with mbedTLS, which tells neither secrets nor record numbers. May include: base. */
#include "tls/backend.h"

const uvhttp__tls_notes_ops_t *const uvhttp__tls_notes = NULL;
