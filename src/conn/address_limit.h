/* Owns: how many connections each client address has, of all loops. Private to src/conn. May include: base. */
#ifndef UVHTTP_SRC_CONN_ADDRESS_LIMIT_H
#define UVHTTP_SRC_CONN_ADDRESS_LIMIT_H

#include "base/ip.h"

typedef struct uvhttp__address_limit uvhttp__address_limit_t;
typedef struct uvhttp__address_count uvhttp__address_count_t;

/* max: connections of one address, from 1. Returns NULL if out of memory. */
uvhttp__address_limit_t *uvhttp__address_limit_new(uint32_t max);
/* All connections are gone. NULL: does nothing. */
void uvhttp__address_limit_free(uvhttp__address_limit_t *limit);

/* Counts a connection of an IPv4 address, or of the /64 of an IPv6 one. Any thread. Returns 0 and *count, which is
 * given back once; UVHTTP_E_LIMIT (that address has `max`) or UVHTTP_E_NOMEM. */
UVHTTP_MUST_USE int uvhttp__address_limit_take(uvhttp__address_limit_t *limit, const uvhttp__ip_t *ip,
                                               uvhttp__address_count_t **count);
void uvhttp__address_limit_give(uvhttp__address_limit_t *limit, uvhttp__address_count_t *count);

#endif
