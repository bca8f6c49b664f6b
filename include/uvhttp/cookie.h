/* Owns: cookies (RFC 6265, and the draft that revises it, "6265bis"): those of a request, and setting one. */
#ifndef UVHTTP_COOKIE_H
#define UVHTTP_COOKIE_H

#include <uvhttp/request.h>
#include <uvhttp/response.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_COOKIE_SIZE_MAX 4096u           /**< bytes of name and value together: browsers drop larger ones */
#define UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX 1024u /**< bytes of path, and of domain */
#define UVHTTP_COOKIE_MAX_AGE_S 34560000       /**< 400 days: browsers keep none longer */

/* --- a request's cookies --- (RFC 6265 section 5.4.) Pairs "name=value" between ';' of all Cookie fields in the order
 * received, without whitespace around them, values as sent (quotes and escapes belong to the value). Pairs without '=',
 * or with a name that is no token, are left out. Views like those of a header field: see request.h. */

/** The first cookie called `name` (case matters). Returns false, and an empty view, if there is none. `value` may be
 * NULL. */
UVHTTP_EXPORT bool uvhttp_request_cookie(const uvhttp_request_t *req, const char *name, uvhttp_str_t *value);
/** The cookie at `index` (from 0). Returns false past the last. name and value may be NULL. Asking for one after the
 * other reads the fields once. */
UVHTTP_EXPORT bool uvhttp_request_cookie_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                            uvhttp_str_t *value);

/* --- setting a cookie --- */

typedef enum uvhttp_same_site {
    UVHTTP_SAME_SITE_LAX,    /**< the default: not with requests from other sites, but when one follows a link */
    UVHTTP_SAME_SITE_STRICT, /**< never with what other sites begin */
    UVHTTP_SAME_SITE_NONE,   /**< with every request; only with `secure` */
} uvhttp_same_site_t;

/** What is not set is left to its default. Strings are copied. */
typedef struct uvhttp_cookie_options {
    const char *name;   /**< a token; no default */
    const char *value;  /**< default ""; visible ASCII but '"', ',', ';' and '\\', perhaps within two '"'
                             (RFC 6265 section 4.1.1): encode other bytes first */
    const char *path;   /**< default "/"; begins with '/', no control characters, no ';' */
    const char *domain; /**< default: the host that was asked, and no host below it; else a host name: letters,
                             digits, '-' and '.' */
    int64_t max_age_s;  /**< seconds, at most UVHTTP_COOKIE_MAX_AGE_S; 0, the default: until the browser ends;
                             negative: deletes the cookie (of the same name, path and domain) */
    uvhttp_same_site_t same_site; /**< default UVHTTP_SAME_SITE_LAX; always sent */
    bool secure;                  /**< default false: also over plain HTTP */
    bool http_only;               /**< default false: scripts of the page can read it */
    size_t value_size;            /**< bytes of `value` when it is not terminated; 0, the default: it is */
} uvhttp_cookie_options_t;

/** Adds a Set-Cookie field. The prefixes of 6265bis section 4.1.3 are enforced, case ignored: a name "__Secure-..."
 * wants `secure`, "__Host-..." also the path "/" and no domain. Returns 0, UVHTTP_E_INVALID (a field of the options is
 * out of range), or what uvhttp_response_header_add returns; on failure nothing has changed. */
UVHTTP_EXPORT int uvhttp_response_cookie(uvhttp_response_t *res, const uvhttp_cookie_options_t *options);

UVHTTP_END_DECLS

#endif
