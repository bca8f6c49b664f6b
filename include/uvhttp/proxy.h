/* Owns: the proxies and load balancers that a server trusts to report its clients. docs/guide/proxy.md. */
#ifndef UVHTTP_PROXY_H
#define UVHTTP_PROXY_H

#include <uvhttp/server.h>

UVHTTP_BEGIN_DECLS

/** The family of header fields that describes the client. Only this family is read: a proxy that sets one family
 * forwards the others as the client wrote them. */
typedef enum uvhttp_proxy_header {
    UVHTTP_PROXY_HEADER_NONE,       /**< none (default): only the PROXY protocol is evaluated */
    UVHTTP_PROXY_HEADER_FORWARDED,  /**< Forwarded (RFC 7239): for, proto, host */
    UVHTTP_PROXY_HEADER_X_FORWARDED /**< X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host */
} uvhttp_proxy_header_t;

/** The parts of that family that are trusted; they can be combined. With X-Forwarded-*, each is a separate header
 * field; with Forwarded, each is a parameter of the element that a proxy adds. A proxy that does not set a part
 * forwards it as the client wrote it. Name only the parts that every trusted proxy sets or removes. */
typedef enum uvhttp_proxy_field {
    UVHTTP_PROXY_FOR = 1 << 0,   /**< X-Forwarded-For, for=: the client's address */
    UVHTTP_PROXY_PROTO = 1 << 1, /**< X-Forwarded-Proto, proto=: the scheme that the client used */
    UVHTTP_PROXY_HOST = 1 << 2   /**< X-Forwarded-Host, host=: the host that the client addressed */
} uvhttp_proxy_field_t;

/** Options. Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_proxy_options {
    const char *const *trusted; /**< trusted proxies: "192.0.2.1", "10.0.0.0/8", "2001:db8::/32", "unix:" */
    size_t trusted_count;       /**< 1..1000 */
    uvhttp_proxy_header_t header;
    uint32_t hops_max; /**< elements of the field that are evaluated, from the last, 1..64; default 16 */
    uint32_t fields;   /**< UVHTTP_PROXY_FOR, _PROTO and _HOST, combined; default config.proxy_fields.
                          UVHTTP_PROXY_HEADER_FORWARDED requires _FOR, because its other parameters belong to a for= */
} uvhttp_proxy_options_t;

UVHTTP_EXPORT UVHTTP_SETUP_THREAD int
uvhttp_server_trust_proxies_sized(uvhttp_server_t *server, const uvhttp_proxy_options_t *options, size_t options_size);
/** Trusts the listed proxies to name the client of a request. uvhttp_request_client, _client_scheme and _client_host
 * return what they report, and the rate limiter and the access log use it. uvhttp_request_peer still returns the peer
 * of the connection. The client is the last address of the field that is not itself trusted. A malformed element ends
 * the search at the last address that a trusted proxy reported, and counts in forwarded_ignored.
 *
 * It is required for listeners of the PROXY protocol, whose address ends in " proxy_protocol" ("0.0.0.0:8080
 * proxy_protocol"). Every connection to such a listener must start with a header of version 1 or 2, before TLS, within
 * config.connection_timeout. A connection with a missing or malformed header, or from an untrusted peer, is closed and
 * counted (rejected_proxy_*).
 *
 * Before the first listen. Returns 0; UVHTTP_E_INVALID (NULL), UVHTTP_E_CONFIG (an option), UVHTTP_E_STATE,
 * UVHTTP_E_NOMEM: the log and uvhttp_server_error_text have the reason, and listen returns the same code. */
static inline int uvhttp_server_trust_proxies(uvhttp_server_t *server, const uvhttp_proxy_options_t *options) {
    return uvhttp_server_trust_proxies_sized(server, options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
