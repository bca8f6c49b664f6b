/* Owns: addresses of peers as bytes, ranges of them, and how they are written. May include: str. */
#ifndef UVHTTP_SRC_BASE_IP_H
#define UVHTTP_SRC_BASE_IP_H

#include <stddef.h>
#include <uvhttp/types.h>

typedef struct uvhttp__ip {
    uint8_t bytes[16]; /* network order */
    uint8_t size;      /* 4 or 16 */
} uvhttp__ip_t;

typedef struct uvhttp__ip_range {
    uvhttp__ip_t ip; /* size 0: clients of Unix sockets */
    uint8_t prefix;  /* bits */
} uvhttp__ip_range_t;

/* Ranges of one list, in one allocation with it. */
typedef struct uvhttp__ip_ranges {
    size_t count;
    uvhttp__ip_range_t items[];
} uvhttp__ip_ranges_t;

enum { UVHTTP__PEER_UNKNOWN = '?', UVHTTP__PEER_IPV4 = '4', UVHTTP__PEER_IPV6 = '6', UVHTTP__PEER_UNIX = 'u' };

/* Somebody on the other side. An IPv4 address within IPv6 is kept as IPv4. */
typedef struct uvhttp__peer {
    uvhttp__ip_t ip; /* size 0 unless kind is IPV4 or IPV6 */
    char kind;       /* UVHTTP__PEER_* */
    uint16_t port;   /* 0: not known */
} uvhttp__peer_t;

#define UVHTTP__IP_TEXT_MAX 46 /* bytes of an address, terminated */

/* "192.0.2.1", "2001:db8::1", "fe80::1%2" (the zone is left out), "::ffff:192.0.2.1" (that is IPv4). */
bool uvhttp__ip_parse(uvhttp_str_t text, uvhttp__ip_t *ip);
/* Zeroes the bits behind the first `prefix`. */
void uvhttp__ip_mask(uvhttp__ip_t *ip, unsigned prefix);
/* An address, address/prefix or "unix:". Returns NULL, or what is wrong with it, for people. */
const char *uvhttp__ip_range_parse(const char *text, uvhttp__ip_range_t *range);
/* ip NULL: a client of a Unix socket. */
bool uvhttp__ip_range_has(const uvhttp__ip_range_t *range, const uvhttp__ip_t *ip);
/* Whether one of the ranges has it; an unknown peer is in none. ranges NULL: there are none. */
bool uvhttp__ip_ranges_have(const uvhttp__ip_ranges_t *ranges, const uvhttp__peer_t *peer);

/* Returns 0 and *ranges, for uvhttp__free; NULL if count is 0. UVHTTP_E_NOMEM; or UVHTTP_E_INVALID, then *at is the
 * index of the text that is wrong and *fault says what is, for people. */
UVHTTP_MUST_USE int uvhttp__ip_ranges_new(const char *const *texts, size_t count, uvhttp__ip_ranges_t **ranges,
                                          size_t *at, const char **fault);

/* size: 4 or 16 bytes. */
uvhttp__peer_t uvhttp__peer_of_ip(const void *bytes, size_t size, uint16_t port);
/* Writes the address alone, "192.0.2.1", "2001:db8::1", "unix:" or "unknown", terminated. Returns its size. */
size_t uvhttp__peer_text(const uvhttp__peer_t *peer, char text[UVHTTP__IP_TEXT_MAX]);

#endif
