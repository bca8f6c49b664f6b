/* Owns: the middleware that lets pages of other origins read responses (CORS: WHATWG Fetch section 3.2). */
#ifndef UVHTTP_CORS_H
#define UVHTTP_CORS_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

/** Options. With all fields zero, every origin is allowed, without credentials. Lists are separated by commas.
 * Everything is copied. */
typedef struct uvhttp_cors_options {
    /** Allowed origins: "https://a.example, http://localhost:3000". Write them as browsers do: scheme://host[:port] in
     * lower case, without a path and without the default port. "null" is also an origin. NULL or "*": every origin. */
    const char *origins;
    /** Decides, instead of `origins`, whether the page at `origin` may read responses to `req`. `origin` is one field
     * of any text from the client, valid during the call. Called once per request with an Origin, on the loop's thread;
     * must not block. NULL (default): `origins` decides. */
    bool (*origin_allowed)(uvhttp_request_t *req, uvhttp_str_t origin, void *user);
    void *user;
    /** Methods that a preflight allows. NULL: "GET, HEAD, POST, PUT, PATCH, DELETE"; "*": all. */
    const char *methods;
    /** Request header fields that a preflight allows in addition to the safelisted ones. NULL: "Content-Type,
     * Authorization"; "": none; "*": all except Authorization, which must be named. */
    const char *request_headers;
    /** Response header fields that scripts may read in addition to the safelisted ones. NULL or "": none; "*": all. */
    const char *exposed_headers;
    /** Seconds for which a browser may cache a preflight, 1..86400. 0 (default): not sent, browsers use 5. -1: not
     * cached. */
    int32_t max_age;
    /** Whether requests may carry cookies and HTTP authentication. Default false. It excludes "every origin", and "*"
     * in a list, which browsers would refuse or misread (Fetch section 3.2.5). */
    bool credentials;
    /** Whether a page of a public network may send a preflight to a private one (Access-Control-Allow-Private-Network).
     * Default false. */
    bool private_network;
} uvhttp_cors_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t uvhttp_cors_sized(const uvhttp_cors_options_t *options,
                                                                      size_t options_size);
/** Creates a middleware that responds to preflights and adds the CORS fields to all other responses, including errors.
 * A preflight is OPTIONS with Origin and Access-Control-Request-Method; it gets 204, or 403 for an origin that is not
 * allowed. Other requests of such an origin are served without the fields, because same-origin requests also carry an
 * Origin. `Vary: Origin` is added where the response depends on the origin.
 *
 * On a group it sees the preflights of the group's routes; on the server also 404. Register it before authentication,
 * because a preflight carries no credentials. `options` NULL means defaults. Wrong options and lack of memory are
 * logged as errors, and `run` is NULL, so that registration fails with UVHTTP_E_INVALID. Any thread. */
static inline uvhttp_middleware_t uvhttp_cors(const uvhttp_cors_options_t *options) {
    return uvhttp_cors_sized(options, sizeof *options);
}

UVHTTP_END_DECLS

#endif
