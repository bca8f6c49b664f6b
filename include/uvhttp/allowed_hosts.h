/* Owns: the middleware that answers only for the hosts that it is told. docs/middleware.md. */
#ifndef UVHTTP_ALLOWED_HOSTS_H
#define UVHTTP_ALLOWED_HOSTS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Texts are copied. */
typedef struct uvhttp_allowed_hosts_options {
    const char *hosts; /**< comma-separated, without ports, case ignored: a name ("example.com"), all names below one
                            ("*.example.com"), an address ("192.0.2.1", "[2001:db8::1]"). NULL (default): none */
    bool loopback;     /**< also "localhost", all names below it, 127.0.0.0/8 and [::1]. Default false */
    const char *hint;  /**< a line for the body of the 421 that says what to do. NULL (default): none */
} uvhttp_allowed_hosts_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_allowed_hosts_sized(const uvhttp_allowed_hosts_options_t *options,
                                                             size_t options_size);
/** Refuses a request whose target or Host (uvhttp_request_host) names another host than these, whatever the port: 421
 * (RFC 9110 section 15.5.20), counted as rejected_http_host_not_allowed, with the code UVHTTP_E_HTTP_HOST_NOT_ALLOWED
 * for uvhttp_server_on_error. A request without a host (HTTP/1.0, an empty Host) passes: a browser always sends one.
 * That ends DNS rebinding, by which a page of another site reads a server on loopback or in a private network through
 * the visitor's browser. Register it after the access log and before everything else. On failure (no host at all, a
 * host that is malformed or has a port, no memory) the log says what, and `run` is NULL. Any thread. */
static inline uvhttp_middleware_t uvhttp_allowed_hosts(const uvhttp_allowed_hosts_options_t *options) {
    return uvhttp_allowed_hosts_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
