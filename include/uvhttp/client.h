/* Owns: the HTTP client: requests from a loop's thread to other servers. A coroutine waits for the response; other code
 * passes a callback. */
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

/** A request to send. A field that is 0 has its default. All fields except `body` are copied. */
typedef struct uvhttp_client_request {
    const char
        *url; /**< "http://host[:port][/path][?query]". The host is a name, an IPv4 address or an IPv6 address in
                 brackets; the default port is 80. No user information and no fragment. The rest is sent unchanged, so
                 encode it first. A url reaches TCP only: a url from a user cannot reach a local socket. Required */
    const char *method; /**< a token, sent unchanged; not CONNECT. Default "GET" */
    const uvhttp_client_header_t
        *headers; /**< default none. The library adds Connection, Content-Length and Host (unless given here). Fields
                     for which uvhttp_field_is_hop_by_hop returns true are refused */
    size_t header_count;
    const void *body; /**< must stay unchanged until the request is over. Default none */
    size_t body_size;
    uint32_t timeout_ms;        /**< for the whole request, from the name lookup to the last byte. Default 30000;
                                   UVHTTP_NEVER: no limit */
    uint32_t response_size_max; /**< bytes of the response body after decoding chunks. Default 1048576 */
    uint32_t head_size_max; /**< bytes of the response head, 64..16777216; also of an interim response. Default 65536 */
    const char *unix_socket; /**< "/path/of/socket" (at most 107 bytes) or "@abstract" (108). Connects to this socket;
                                host and port of the url only set the Host field. Default none */
    uint32_t
        interim_max; /**< interim responses (1xx) before the final one, 1..; above: UVHTTP_E_PEER_INTERIM. Default 16 */
} uvhttp_client_request_t;

/** A request to another server, and its response after it has arrived. */
typedef struct uvhttp_client_response uvhttp_client_response_t;

UVHTTP_EXPORT UVHTTP_IN_COROUTINE UVHTTP_MUST_USE int uvhttp_coro_request_sized(const uvhttp_client_request_t *request,
                                                                                size_t request_size,
                                                                                uvhttp_client_response_t **response);
/** Sends a request and waits for the complete response, in a coroutine. The caller frees *response; register that with
 * uvhttp_coro_defer if the coroutine waits again. Each request uses its own connection. Redirects are not followed and
 * nothing is retried. Any status is a response: 404 is not an error.
 *
 * Returns 0. On failure *response is NULL, and the result is one of:
 * - UVHTTP_E_ABORTED: the client of this server has disconnected (<uvhttp/coro.h>); UVHTTP_E_STOPPING
 * (uvhttp_coro_wake_on_stop); UVHTTP_E_TIMEOUT;
 * - UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_PEER_NAME;
 * - UVHTTP_E_PEER_RESET: reset, or closed before the response was complete;
 * - UVHTTP_E_PEER_RESPONSE: no HTTP response, or an ambiguous one;
 * - UVHTTP_E_PEER_TOO_LARGE (response_size_max, head_size_max), UVHTTP_E_PEER_INTERIM (interim_max);
 * - UVHTTP_E_ADDRESS (the url, unix_socket), UVHTTP_E_CLIENT_UNIX_URL (the url starts with "http://unix:/"),
 * UVHTTP_E_UNSUPPORTED (https), UVHTTP_E_INVALID (any other field);
 * - UVHTTP_E_STATE: not in a coroutine;
 * - UVHTTP_E_WORK_FULL, UVHTTP_E_WORK_CANCELLED (the server stops): the name lookup found no worker thread;
 * - UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_NOMEM, UVHTTP_E_LIMIT, UVHTTP_E_IO. */
static inline UVHTTP_MUST_USE int uvhttp_coro_request(const uvhttp_client_request_t *request,
                                                      uvhttp_client_response_t **response) {
    return uvhttp_coro_request_sized(request, sizeof *request, response);
}

/** Returns whether a header field belongs to one connection or frames one message, so that a gateway does not pass it
 * on (RFC 9110 section 7.6.1): Connection, Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade,
 * Content-Length and Expect, in any case. uvhttp_client_request_t refuses them. A gateway also drops the fields that
 * Connection names. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_field_is_hop_by_hop(uvhttp_str_t name);

/** Called at the end of a request of uvhttp_client_send, in a loop iteration. `response` may be freed in it. Its
 * contents are readable only with status 0. */
typedef void (*uvhttp_client_cb)(uvhttp_client_response_t *response, int status, void *user);

UVHTTP_EXPORT UVHTTP_LOOP_THREAD UVHTTP_MUST_USE int uvhttp_client_send_sized(const uvhttp_client_request_t *request,
                                                                              size_t request_size,
                                                                              uvhttp_client_cb on_done, void *user,
                                                                              uvhttp_client_response_t **response);
/** Starts a request. on_done is called exactly once, never inside this call. Freeing the response earlier aborts the
 * request, and on_done is not called. Call it on the thread of a loop: in handlers and in any callback of a server. The
 * response must be freed before the loop ends; if a request of this server depends on it, free it in
 * uvhttp_deferred_on_abort. Returns 0, or an immediate error, one of the codes of uvhttp_coro_request: *response is
 * NULL then, and on_done is not called. UVHTTP_E_STATE: no loop runs on this thread, or a name is to be looked up on a
 * loop of a uvhttp_tcp_server_t, which has no worker threads. */
static inline UVHTTP_MUST_USE int uvhttp_client_send(const uvhttp_client_request_t *request, uvhttp_client_cb on_done,
                                                     void *user, uvhttp_client_response_t **response) {
    return uvhttp_client_send_sized(request, sizeof *request, on_done, user, response);
}

/** Returns the status, 200..999. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_client_response_status(const uvhttp_client_response_t *response);
/** Returns the value of the first header field named `name` (ASCII case ignored). `data` is NULL if there is none.
 * Views are valid until the response is freed. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD uvhttp_str_t uvhttp_client_response_header(const uvhttp_client_response_t *response,
                                                                            const char *name);
/** Returns the header field at `index`, from 0, in the order received. Returns false past the last one. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD bool uvhttp_client_response_header_at(const uvhttp_client_response_t *response,
                                                                       size_t index, uvhttp_str_t *name,
                                                                       uvhttp_str_t *value);
/** Returns the complete body with chunked coding removed, followed by a NUL. Content codings (gzip) are not decoded. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD uvhttp_str_t uvhttp_client_response_body(const uvhttp_client_response_t *response);
/** Frees a response on the thread of its loop. A request in flight is aborted. NULL is allowed. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_client_response_free(uvhttp_client_response_t *response);

UVHTTP_END_DECLS

#endif
