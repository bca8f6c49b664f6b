/* Owns: the middleware that adds header fields by which browsers protect a page. */
#ifndef UVHTTP_SECURITY_HEADERS_H
#define UVHTTP_SECURITY_HEADERS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** All fields zero: "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY" and "Referrer-Policy:
 * strict-origin-when-cross-origin". Texts are copied; "" leaves a field out. */
typedef struct uvhttp_security_headers_options {
    bool allow_sniffing;         /**< true: no X-Content-Type-Options. Default false */
    const char *frame_options;   /**< "DENY", "SAMEORIGIN" or "". NULL: "DENY", or none if content_security_policy has
                                      frame-ancestors, which browsers follow in its place */
    const char *referrer_policy; /**< policies of Referrer Policy section 3, comma-separated, the last one known counts.
                                      NULL: "strict-origin-when-cross-origin" */
    const char *content_security_policy;      /**< at most 8192 bytes. NULL (default): none */
    bool content_security_policy_report_only; /**< violations are reported, not prevented. Default false */
    /** Strict-Transport-Security (RFC 6797): seconds for which browsers use nothing but TLS for this host, 0 (default:
     * not sent) .. 63072000 (two years). Only for a site that is reached by TLS, be it ended here or by a proxy: it can
     * not be taken back before the time is over. Browsers ignore it on plain connections. */
    uint32_t hsts_max_age;
    bool hsts_include_subdomains; /**< default false; needs hsts_max_age */
    bool hsts_preload;            /**< for the lists in browsers; needs hsts_include_subdomains and a year (31536000) */
} uvhttp_security_headers_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_security_headers_sized(const uvhttp_security_headers_options_t *options,
                                                                size_t options_size);
/** Middleware that adds the fields to every answer, errors too, when the answer is complete: a field that the handler
 * has set (even to "") stays as it is. options NULL: defaults. Wrong options, or no memory: logged as an error, and
 * `run` is NULL, so that registering it fails with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_security_headers(const uvhttp_security_headers_options_t *options) {
    return uvhttp_security_headers_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
