/* Owns: the middleware that lets pages of other origins read answers (CORS: WHATWG Fetch section 3.2). */
#ifndef UVHTTP_CORS_H
#define UVHTTP_CORS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** All fields zero: every origin, without credentials. Lists are comma-separated; everything is copied. */
typedef struct uvhttp_cors_options {
    /** "https://a.example, http://localhost:3000": exactly as browsers write them, scheme://host[:port] in lower case,
     * without a path and without the default port; "null" is one too. NULL or "*": every origin. */
    const char *origins;
    /** In place of `origins`: whether the page at `origin` may read answers to `req`. `origin` is what the client sent,
     * one field of any text, valid in the call. Once per request with an Origin, on the loop's thread; must not block.
     * NULL (default): `origins` decides. */
    bool (*origin_allowed)(uvhttp_request_t *req, uvhttp_str_t origin, void *user);
    void *user;
    /** Methods that a preflight permits. NULL: "GET, HEAD, POST, PUT, PATCH, DELETE"; "*": all. */
    const char *methods;
    /** Request header fields that a preflight permits beside the safelisted. NULL: "Content-Type, Authorization"; "":
     * none; "*": all but Authorization, which must be named. */
    const char *request_headers;
    /** Header fields of answers that scripts may read beside the safelisted. NULL or "": none; "*": all. */
    const char *exposed_headers;
    /** Seconds that a browser may remember a preflight, 1..86400; 0 (default): not said, browsers take 5; -1: not at
     * all. */
    int32_t max_age;
    /** Whether requests may carry cookies and HTTP authentication. Default false. Not together with every origin or
     * with
     * "*" in a list (browsers would refuse or misread them: Fetch section 3.2.5). */
    bool credentials;
    /** Whether a preflight may come from a public network to a private one (Access-Control-Allow-Private-Network).
     * Default false. */
    bool private_network;
} uvhttp_cors_options_t;

UVHTTP_EXPORT uvhttp_middleware_t uvhttp_cors_sized(const uvhttp_cors_options_t *options, size_t options_size);
/** Middleware that answers preflights itself (OPTIONS with Origin and Access-Control-Request-Method: 204, or 403 for an
 * origin that is not allowed) and adds the CORS fields to all other answers, errors too. Requests of an origin that is
 * not allowed are served as always, for same-origin requests carry an Origin as well: their answers only lack the
 * fields. `Vary: Origin` is added wherever the answer depends on it. On a group it sees preflights of the group's
 * routes; on the server also 404. Before authentication, for a preflight carries no credentials.
 * options NULL: defaults. Wrong options, or no memory: logged as an error, and `run` is NULL, so that registering it
 * fails with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_cors(const uvhttp_cors_options_t *options) {
    return uvhttp_cors_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
