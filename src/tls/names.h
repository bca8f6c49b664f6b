/* Owns: which certificates serve a host name (SNI, RFC 6066 section 3). May include: base. */
#ifndef UVHTTP_SRC_TLS_NAMES_H
#define UVHTTP_SRC_TLS_NAMES_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

/* A host name in lower case, "example.org" or "*.example.org", and who serves it. */
typedef struct uvhttp__tls_name {
    char *text;
    uint32_t size;
    uint32_t certificate; /* index; before the table is built there is one entry per certificate of a name */
    uint32_t site;        /* index of the set of certificates, after the table was built */
} uvhttp__tls_name_t;

/* Different sets of certificates that names are served with. Set 0 is the one of the first certificate's first name, or
 * of that certificate alone if it has none. */
typedef struct uvhttp__tls_site {
    uint32_t *certificates; /* ascending */
    uint32_t count;
} uvhttp__tls_site_t;

typedef struct uvhttp__tls_names {
    uvhttp__tls_name_t *names; /* sorted once the table is built */
    size_t count, capacity;
    uvhttp__tls_site_t *sites;
    size_t site_count;
} uvhttp__tls_names_t;

/* Zeroed memory is an empty table. */
void uvhttp__tls_names_deinit(uvhttp__tls_names_t *names);
/* Returns 0, UVHTTP_E_INVALID (not a host name, nor one behind "*.") or UVHTTP_E_NOMEM. */
int uvhttp__tls_names_add(uvhttp__tls_names_t *names, uvhttp_str_t name, uint32_t certificate);
/* After the last add. */
int uvhttp__tls_names_build(uvhttp__tls_names_t *names);
/* The entry for a host name as a client sent it (any case, a dot at the end is ignored): the name itself, else a
 * wildcard for its first label; NULL if nobody serves it. */
const uvhttp__tls_name_t *uvhttp__tls_names_find(const uvhttp__tls_names_t *names, uvhttp_str_t host);

#endif
