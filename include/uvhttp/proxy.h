/* Owns: servers behind proxies and load balancers: whom they believe. docs/proxy.md. */
#ifndef UVHTTP_PROXY_H
#define UVHTTP_PROXY_H

#include <uvhttp/server.h>

UVHTTP_BEGIN_DECLS

/** Which family of header fields tells of the client. Only that one is read: a proxy that sets one lets the others pass
 * as the client wrote them. */
typedef enum uvhttp_proxy_header {
    UVHTTP_PROXY_HEADER_NONE,       /**< none (default): only the PROXY protocol counts */
    UVHTTP_PROXY_HEADER_FORWARDED,  /**< Forwarded (RFC 7239): for, proto, host */
    UVHTTP_PROXY_HEADER_X_FORWARDED /**< X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host */
} uvhttp_proxy_header_t;

/** What of that family is believed, to be combined: of X-Forwarded-* each is a header field of its own, of Forwarded a
 * parameter of the element that a proxy adds. A proxy that does not set one lets it pass as the client wrote it, so
 * name only what every trusted proxy sets or removes. */
typedef enum uvhttp_proxy_field {
    UVHTTP_PROXY_FOR = 1 << 0,   /**< X-Forwarded-For, for=: the client's address */
    UVHTTP_PROXY_PROTO = 1 << 1, /**< X-Forwarded-Proto, proto=: how it has asked */
    UVHTTP_PROXY_HOST = 1 << 2   /**< X-Forwarded-Host, host=: what it has addressed */
} uvhttp_proxy_field_t;

/** Zero is the default everywhere. Strings are copied. */
typedef struct uvhttp_proxy_options {
    const char *const *trusted; /**< who may speak for clients: "192.0.2.1", "10.0.0.0/8", "2001:db8::/32", "unix:" */
    size_t trusted_count;       /**< 1..1000 */
    uvhttp_proxy_header_t header;
    uint32_t hops_max; /**< elements of that field that are looked at, from the last, 1..64; default 16 */
    uint32_t fields; /**< UVHTTP_PROXY_FOR, _PROTO and _HOST, combined; default config.proxy_fields. _FOR is needed with
                          UVHTTP_PROXY_HEADER_FORWARDED, whose other parameters belong to a for= */
} uvhttp_proxy_options_t;

/** Lets the listed proxies say who a request comes from: uvhttp_request_client, _client_scheme and _client_host, which
 * the rate limiter and the access log go by; uvhttp_request_peer stays the peer of the connection. The client is the
 * last address of the field that is not trusted itself. What cannot be read ends the search at the last address that
 * a trusted proxy has vouched for, and counts in forwarded_ignored.
 *
 * Needed for listeners of the PROXY protocol, whose address ends in " proxy_protocol" ("0.0.0.0:8080 proxy_protocol"):
 * there every connection has to begin with a header of version 1 or 2, before TLS if there is TLS, within
 * config.connection_timeout. Without one, with a malformed one, or from somebody who is not trusted, it is closed and
 * counted (rejected_proxy_*).
 *
 * Before the first listen. Returns 0; UVHTTP_E_CONFIG when an option is wrong, UVHTTP_E_STATE, UVHTTP_E_NOMEM: the log
 * and uvhttp_server_error_text say what, and listen returns the same. */
UVHTTP_EXPORT int uvhttp_server_trust_proxies(uvhttp_server_t *server, const uvhttp_proxy_options_t *options);

UVHTTP_END_DECLS

#endif
