/* Owns: the middleware that accepts only requests for given hosts. docs/guide/middleware.md. */
#ifndef UVHTTP_ALLOWED_HOSTS_H
#define UVHTTP_ALLOWED_HOSTS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Options. Strings are copied. */
typedef struct uvhttp_allowed_hosts_options {
    const char
        *hosts; /**< hosts, separated by commas, without ports; case is ignored. A name ("example.com"), all names below
                   one ("*.example.com"), or an address ("192.0.2.1", "[2001:db8::1]"). NULL (default): none */
    bool loopback;    /**< also accept "localhost", all names below it, 127.0.0.0/8 and [::1]. Default false */
    const char *hint; /**< line for the body of the 421, with advice for the user. NULL (default): none */
} uvhttp_allowed_hosts_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t
uvhttp_allowed_hosts_sized(const uvhttp_allowed_hosts_options_t *options, size_t options_size);
/** Creates a middleware that refuses requests for other hosts. It compares the host of the target or of Host
 * (uvhttp_request_host), without the port. A refused request gets 421 (RFC 9110 section 15.5.20) and counts in
 * rejected_http_host_not_allowed; uvhttp_server_on_error gets UVHTTP_E_HTTP_HOST_NOT_ALLOWED. A request without a host
 * (HTTP/1.0, an empty Host) passes, because browsers always send one.
 *
 * This prevents DNS rebinding, in which a page of another site reads a server on loopback or in a private network
 * through the visitor's browser. Register it after the access log and before all other middleware. On failure (no host,
 * a malformed host, a host with a port, no memory) the log has the reason, and `run` is NULL. Any thread. */
static inline uvhttp_middleware_t uvhttp_allowed_hosts(const uvhttp_allowed_hosts_options_t *options) {
    return uvhttp_allowed_hosts_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
