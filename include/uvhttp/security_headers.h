/* Owns: the middleware that adds security header fields for browsers. */
#ifndef UVHTTP_SECURITY_HEADERS_H
#define UVHTTP_SECURITY_HEADERS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Options. With all fields zero, these are sent: "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY" and
 * "Referrer-Policy: strict-origin-when-cross-origin". Strings are copied; "" omits a field. */
typedef struct uvhttp_security_headers_options {
    bool allow_sniffing;         /**< true: no X-Content-Type-Options. Default false */
    const char *frame_options;   /**< "DENY", "SAMEORIGIN" or "". NULL: "DENY", or none if content_security_policy has
                                    frame-ancestors, which browsers prefer */
    const char *referrer_policy; /**< policies of Referrer Policy section 3, separated by commas; browsers use the last
                                    one they know. NULL: "strict-origin-when-cross-origin" */
    const char *content_security_policy;      /**< at most 8192 bytes. NULL (default): none */
    bool content_security_policy_report_only; /**< violations are reported, not prevented. Default false */
    /** Strict-Transport-Security (RFC 6797): seconds for which browsers use only TLS for this host, 0..63072000 (two
     * years); 0 (default): not sent. Only for a site that is reached by TLS, either here or at a proxy: it cannot be
     * revoked before that time. Browsers ignore it on plain connections. */
    uint32_t hsts_max_age;
    bool hsts_include_subdomains; /**< default false; needs hsts_max_age */
    bool hsts_preload; /**< permission for browsers' preload lists; needs hsts_include_subdomains and one year
                          (31536000) */
} uvhttp_security_headers_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t
uvhttp_security_headers_sized(const uvhttp_security_headers_options_t *options, size_t options_size);
/** Creates a middleware that adds the fields to every response, including errors, when it is complete. Fields set by
 * the handler, even to "", are kept. `options` NULL means defaults. Wrong options and lack of memory are logged as
 * errors, and `run` is NULL, so that registration fails with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_security_headers(const uvhttp_security_headers_options_t *options) {
    return uvhttp_security_headers_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
