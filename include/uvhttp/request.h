/* Owns: what a handler can ask about a request. Everything returned is a view that is valid until the handler returns.
 * After uvhttp_response_defer, ask again: what is asked for from then on is valid until the handle has answered or is
 * released. Loop thread of the request, or the thread that a deferred response was handed to (one thread at a time).
 *
 * A request owns what it shows. From the moment that it is deferred, handed to a worker thread or waits in a coroutine,
 * it knows all that it will ever show of its connection, and shows it also when the client has gone and after
 * uvhttp_server_free. A handler on the loop that is told of the client's going (uvhttp_response_on_done) gets what was
 * asked for before, else "unknown". */
#ifndef UVHTTP_REQUEST_H
#define UVHTTP_REQUEST_H

#include <uvhttp/method.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** The method by number (UVHTTP_METHOD_OTHER for one that the library does not know) and as text. */
UVHTTP_EXPORT uvhttp_method_t uvhttp_request_method(const uvhttp_request_t *req);
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_method_text(const uvhttp_request_t *req);

/** The token of a method, "GET"; "" for UVHTTP_METHOD_OTHER and UVHTTP_ANY. Static storage; any thread. */
UVHTTP_EXPORT const char *uvhttp_method_name(uvhttp_method_t method);

/** The request target as sent (RFC 9112 section 3.2). */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_target(const uvhttp_request_t *req);

/** The path that was routed: percent-decoded (but for %2F, which stays), dot segments removed (RFC 3986 section 5.2.4;
 * one that climbs above the root is refused with 400). Never holds NUL. "*" for `OPTIONS *`. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_path(const uvhttp_request_t *req);

/** The query as sent, without '?'; empty if there is none. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_query(const uvhttp_request_t *req);

/** The first query parameter called `name`, decoded ('+' is a space, '&' separates, ';' does not). Returns false, and
 * an empty view, if there is none, or no memory. Pairs with malformed escapes are left out, as are those after the
 * first 1000. A value may hold NUL. `value` may be NULL. */
UVHTTP_EXPORT bool uvhttp_request_query_param(uvhttp_request_t *req, const char *name, uvhttp_str_t *value);

/** The query parameter at `index` (from 0), decoded. Returns false past the last. name and value may be NULL. */
UVHTTP_EXPORT bool uvhttp_request_query_at(uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                           uvhttp_str_t *value);

/** What `:name` or `*name` of the route's pattern matched, decoded, %2F too: it may hold '/' and so also "../", which
 * matters to who makes a file name of it. data is NULL if the pattern has no such name. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_param(const uvhttp_request_t *req, const char *name);

/** The value of the first header field called `name` (ASCII case ignored); data is NULL if there is none. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_header(const uvhttp_request_t *req, const char *name);

/** Header fields in the order received; `index` from 0. Returns false past the last. */
UVHTTP_EXPORT bool uvhttp_request_header_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                            uvhttp_str_t *value);
UVHTTP_EXPORT size_t uvhttp_request_header_count(const uvhttp_request_t *req);

/** Repeated fields: set *index to 0, call until it returns false. */
UVHTTP_EXPORT bool uvhttp_request_header_next(const uvhttp_request_t *req, const char *name, size_t *index,
                                              uvhttp_str_t *value);

/** Host and port that the client addressed: of the target if it has one, else of Host (RFC 9112 section 3.2.2). */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_host(const uvhttp_request_t *req);

/** The version of HTTP that the request came with; HTTP/1.2 and later 1.x are UVHTTP_HTTP_1_1. */
UVHTTP_EXPORT uvhttp_http_version_t uvhttp_request_http_version(const uvhttp_request_t *req);

/** "HTTP/1.0", "HTTP/1.1" or "HTTP/2.0", as access logs write it. Static storage; any thread. */
UVHTTP_EXPORT const char *uvhttp_http_version_name(uvhttp_http_version_t version);

/** The whole body, unchunked. Its size was limited by config.body_size_max. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_body(const uvhttp_request_t *req);

/** The peer of the connection as text, "192.0.2.1:50000", "[2001:db8::1]:50000" or "unix:"; the address alone without
 * the port. data is NULL only when out of memory. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_peer(uvhttp_request_t *req);
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_peer_address(uvhttp_request_t *req);

/** Who the request comes from: the address of the client, "192.0.2.1", "2001:db8::1", "unix:" or "unknown". What
 * trusted proxies have said counts (uvhttp_server_trust_proxies); without any it is the peer. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_client(uvhttp_request_t *req);
/** "https" or "http": how that client has asked, as far as trusted proxies say. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_client_scheme(uvhttp_request_t *req);
/** Host and port that it has addressed: what a trusted proxy says, else uvhttp_request_host. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_client_host(uvhttp_request_t *req);

/** Monotonic time in ns. On the request's loop that of the loop's turn: no call of the system, the same for all that a
 * turn handles, never goes back. On any other thread the clock is read when it is asked for. */
UVHTTP_EXPORT uint64_t uvhttp_request_time_ns(const uvhttp_request_t *req);

/** A pointer for middleware and handlers of this request to share; NULL at first. Not freed by the library. */
UVHTTP_EXPORT void uvhttp_request_set_data(uvhttp_request_t *req, void *data);
UVHTTP_EXPORT void *uvhttp_request_data(const uvhttp_request_t *req);

/** Memory that lives as long as the request, 16-byte aligned; NULL when size is 0 or config.request_memory_max is
 * reached. What the library copies for itself does not count. After uvhttp_response_defer the request and its response
 * take from what is left each for itself, so that the thread that reads the request needs no lock. */
UVHTTP_EXPORT void *uvhttp_request_alloc(uvhttp_request_t *req, size_t size);

UVHTTP_END_DECLS

#endif
