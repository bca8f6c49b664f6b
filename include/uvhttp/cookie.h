/* Owns: cookies (RFC 6265, and its revision draft "6265bis"): reading those of a request, and setting one. */
#ifndef UVHTTP_COOKIE_H
#define UVHTTP_COOKIE_H

#include <uvhttp/request.h>
#include <uvhttp/response.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

#define UVHTTP_COOKIE_SIZE_MAX 4096u           /**< bytes of name and value together; browsers drop larger cookies */
#define UVHTTP_COOKIE_ATTRIBUTE_SIZE_MAX 1024u /**< bytes of path, and of domain */
#define UVHTTP_COOKIE_MAX_AGE_S 34560000       /**< 400 days, the maximum of browsers */

/* --- cookies of a request ---
 *
 * RFC 6265 section 5.4. Cookies are the pairs "name=value" between ';' of all Cookie fields, in the order received.
 * Surrounding whitespace is removed; values are as sent, with quotes and escapes. Pairs without '=', and names that are
 * not tokens, are skipped. Views are valid like those of header fields: request.h. */

/** Finds the first cookie named `name` (case-sensitive). Returns false and an empty view if there is none. `value` may
 * be NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_cookie(const uvhttp_request_t *req, const char *name,
                                                             uvhttp_str_t *value);
/** Returns the cookie at `index`, from 0. Returns false past the last one. `name` and `value` may be NULL. Ascending
 * calls read the fields once. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_cookie_at(const uvhttp_request_t *req, size_t index,
                                                                uvhttp_str_t *name, uvhttp_str_t *value);

/* --- setting a cookie --- */

typedef enum uvhttp_same_site {
    UVHTTP_SAME_SITE_LAX, /**< default: not sent with requests from other sites, except when the user follows a link */
    UVHTTP_SAME_SITE_STRICT, /**< never sent with requests from other sites */
    UVHTTP_SAME_SITE_NONE,   /**< sent with every request; requires `secure` */
} uvhttp_same_site_t;

/** A cookie to set. Fields that are 0 have their defaults. Strings are copied. */
typedef struct uvhttp_cookie_options {
    const char *name;   /**< a token; required */
    const char *value;  /**< default "". Visible ASCII except '"', ',', ';' and '\\', optionally between two '"' (RFC
                           6265 section 4.1.1): encode other bytes first */
    const char *path;   /**< default "/". It starts with '/' and contains no control characters and no ';' */
    const char *domain; /**< default: only the host of the request, no hosts below it. Otherwise a host name of letters,
                           digits, '-' and '.' */
    int64_t max_age_s;  /**< seconds, at most UVHTTP_COOKIE_MAX_AGE_S. 0 (default): until the browser exits. Negative:
                           deletes the cookie of the same name, path and domain */
    uvhttp_same_site_t same_site; /**< default UVHTTP_SAME_SITE_LAX; always sent */
    bool secure;                  /**< default false: also sent over plain HTTP */
    bool http_only;               /**< default false: scripts of the page can read it */
    size_t value_size;            /**< bytes of `value` if it is not terminated. Default 0: `value` is terminated */
} uvhttp_cookie_options_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD int
uvhttp_response_cookie_sized(uvhttp_response_t *res, const uvhttp_cookie_options_t *options, size_t options_size);
/** Adds a Set-Cookie field. The prefixes of 6265bis section 4.1.3 are enforced, ignoring case. A name "__Secure-..."
 * requires `secure`. A name "__Host-..." also requires the path "/" and no domain. Returns 0, UVHTTP_E_INVALID (a field
 * of the options is out of range), or a code of uvhttp_response_header_add; on failure nothing has changed. */
static inline int uvhttp_response_cookie(uvhttp_response_t *res, const uvhttp_cookie_options_t *options) {
    return uvhttp_response_cookie_sized(res, options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
