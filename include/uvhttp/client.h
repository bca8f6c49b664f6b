/* Owns: requests to other HTTP servers, from the thread of a loop: in a coroutine that waits for the response, or with
 * a function that is called when it has come. */
#ifndef UVHTTP_CLIENT_H
#define UVHTTP_CLIENT_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** A header field of a request. */
typedef struct uvhttp_client_header {
    const char *name;
    const char *value;
} uvhttp_client_header_t;

/** What is asked. A field that is 0 has its default. All but `body` is copied. */
typedef struct uvhttp_client_request {
    const char *url; /**< "http://host[:port][/path][?query]", with a name, an IPv4 address or an IPv6 one in brackets
                          for the host. Port 80 by default; no userinfo, no fragment; the rest is sent as it
                          stands, so it has to be encoded. It reaches TCP only, so that a url of a user leads to no
                          local socket. Required */
    const char *method; /**< a token, as it is sent; not CONNECT. Default: "GET" */
    const uvhttp_client_header_t
        *headers; /**< default: none. The library writes Connection, Content-Length and Host
    (unless it is given here); fields that frame the message or steer the connection are refused */
    size_t header_count;
    const void *body; /**< must stay as it is until the request is over. Default: none */
    size_t body_size;
    uint32_t timeout_ms;        /**< for all of it, from the look-up of the name to the last byte. Default: 30000;
                                     UINT32_MAX: none */
    uint32_t response_size_max; /**< bytes of the response's body, unchunked. Default: 1048576 */
    uint32_t head_size_max;  /**< bytes of the response's head, 64..16777216; also of an interim one. Default: 65536 */
    const char *unix_socket; /**< "/path/of/socket" or "@abstract", at most 108 bytes: connects there in place of the
                                  url's host and port, which are sent as Host only. Default: none */
    uint32_t interim_max;    /**< interim responses (1xx) before the final one, 1..; more: UVHTTP_E_PEER_INTERIM.
                                  Default: 16 */
} uvhttp_client_request_t;

/** A request to another server, and its response when that has come. */
typedef struct uvhttp_client_response uvhttp_client_response_t;

UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_coro_request_sized(const uvhttp_client_request_t *request, size_t request_size,
                                                            uvhttp_client_response_t **response);
/** Asks, and waits for the whole response, in a coroutine. *response is the caller's to free: uvhttp_coro_defer is the
 * place if it waits again meanwhile. Each request has a connection of its own; redirections are not followed, nothing
 * is tried twice. Any status is a response: 404 is not an error here. Returns 0, or, and *response is NULL then,
 * UVHTTP_E_ABORTED (the client of this server has gone, ...; <uvhttp/coro.h>), UVHTTP_E_TIMEOUT,
 * UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_PEER_NAME, UVHTTP_E_PEER_RESET (also: it has closed before the response was
 * whole), UVHTTP_E_PEER_RESPONSE (what came is no response, or one that two clients could read differently),
 * UVHTTP_E_PEER_TOO_LARGE (response_size_max, head_size_max), UVHTTP_E_PEER_INTERIM (interim_max), UVHTTP_E_ADDRESS
 * (the url, unix_socket), UVHTTP_E_CLIENT_UNIX_URL (the url begins with "http://unix:/"), UVHTTP_E_UNSUPPORTED (https),
 * UVHTTP_E_INVALID (any other field), UVHTTP_E_STATE (not in a coroutine), UVHTTP_E_WORK_FULL (the look-up of the
 * name), UVHTTP_E_WORK_CANCELLED (the same, and the server stops), UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_NOMEM,
 * UVHTTP_E_LIMIT or UVHTTP_E_IO. */
static inline UVHTTP_MUST_USE int uvhttp_coro_request(const uvhttp_client_request_t *request,
                                                      uvhttp_client_response_t **response) {
    return uvhttp_coro_request_sized(request, sizeof *request, response);
}

/** The end of a request that was sent without a coroutine, in a turn of the loop; `response` may be freed in it. Only
 * with status 0 there is something to read in it. */
typedef void (*uvhttp_client_cb)(uvhttp_client_response_t *response, int status, void *user);

UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_client_send_sized(const uvhttp_client_request_t *request, size_t request_size,
                                                           uvhttp_client_cb on_done, void *user,
                                                           uvhttp_client_response_t **response);
/** Begins to ask; on_done follows exactly once, never inside this call, unless the response is freed before: that gives
 * the request up. On the thread of a loop: in handlers and all that a server calls. It must be freed before the loop
 * ends; who answers a request of this server with it does that in uvhttp_deferred_on_abort. Returns 0, or what can be
 * said at once of the above, and then *response is NULL and on_done does not come. UVHTTP_E_STATE: no loop runs on this
 * thread. */
static inline UVHTTP_MUST_USE int uvhttp_client_send(const uvhttp_client_request_t *request, uvhttp_client_cb on_done,
                                                     void *user, uvhttp_client_response_t **response) {
    return uvhttp_client_send_sized(request, sizeof *request, on_done, user, response);
}

/** 200..999. */
UVHTTP_EXPORT int uvhttp_client_response_status(const uvhttp_client_response_t *response);
/** The value of the first header field called `name` (ASCII case ignored); data is NULL if there is none. Views are
 * valid until the response is freed. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_client_response_header(const uvhttp_client_response_t *response, const char *name);
/** Header fields in the order received; `index` from 0. Returns false past the last. */
UVHTTP_EXPORT bool uvhttp_client_response_header_at(const uvhttp_client_response_t *response, size_t index,
                                                    uvhttp_str_t *name, uvhttp_str_t *value);
/** The whole body, unchunked; a NUL stands behind it. Codings of the content (gzip) are left as they are. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_client_response_body(const uvhttp_client_response_t *response);
/** On the thread of its loop. A request that is under way is given up. NULL is allowed. */
UVHTTP_EXPORT void uvhttp_client_response_free(uvhttp_client_response_t *response);

UVHTTP_END_DECLS

#endif
