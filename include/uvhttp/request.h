/* Owns: access to a request: method, target, header fields, query, body and client. A returned view is valid until the
 * handler returns. uvhttp_response_defer ends the lifetime of earlier views; a view obtained after it is valid until
 * the handle sends a response or is released. Call the functions on the request's loop thread, or on the thread that
 * owns the deferred response, one thread at a time.
 *
 * A request copies the properties of its connection (peer, client, scheme, certificate) when it is deferred, moves to a
 * worker thread or waits in a coroutine. The copies stay readable after the client has disconnected and after
 * uvhttp_server_free. In uvhttp_response_on_done after an abort, a request that stayed on the loop has only the
 * properties that were read before; the others are "unknown".
 */
#ifndef UVHTTP_REQUEST_H
#define UVHTTP_REQUEST_H

#include <uvhttp/method.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** Returns the method by number (UVHTTP_METHOD_OTHER for an unknown method), and as text. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_method_t uvhttp_request_method(const uvhttp_request_t *req);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_method_text(const uvhttp_request_t *req);

/** Returns the token of a method, such as "GET". Returns "" for UVHTTP_METHOD_OTHER and UVHTTP_ANY. Static storage. Any
 * thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_method_name(uvhttp_method_t method);

/** Returns the request target as sent (RFC 9112 section 3.2). */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_target(const uvhttp_request_t *req);

/** Returns the path that was routed. It is percent-decoded, except for %2F, and dot segments are removed (RFC 3986
 * section 5.2.4). A path that climbs above the root is refused with 400. The result never contains NUL. It is "*" for
 * `OPTIONS *`, and empty for CONNECT. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_path(const uvhttp_request_t *req);

/** Returns the query as sent, without '?'. Empty if there is none. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_query(const uvhttp_request_t *req);

/** Finds the first query parameter named `name` and decodes it. '+' is a space; '&' separates parameters, ';' does not.
 * Returns false and an empty view if there is no such parameter, or no memory. Pairs with malformed escapes are
 * skipped, and so are pairs after the first 1000. A value may contain NUL. `value` may be NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_query_param(uvhttp_request_t *req, const char *name,
                                                                  uvhttp_str_t *value);

/** Returns the decoded query parameter at `index`, from 0. Returns false past the last one. `name` and `value` may be
 * NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_query_at(uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                                               uvhttp_str_t *value);

/** Returns what `:name` or `*name` of the route's pattern matched, decoded including %2F. The value may therefore
 * contain '/' and "../": check it before using it as a file name. `data` is NULL if the pattern has no such name. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_param(const uvhttp_request_t *req, const char *name);

/** Returns the value of the first header field named `name` (ASCII case ignored). `data` is NULL if there is none. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_header(const uvhttp_request_t *req, const char *name);

/** Returns the header field at `index`, from 0, in the order received. Returns false past the last one. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_header_at(const uvhttp_request_t *req, size_t index,
                                                                uvhttp_str_t *name, uvhttp_str_t *value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD size_t uvhttp_request_header_count(const uvhttp_request_t *req);

/** Iterates over repeated fields: set *index to 0, then call until it returns false. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_header_next(const uvhttp_request_t *req, const char *name,
                                                                  size_t *index, uvhttp_str_t *value);

/** Returns the host and port that the client addressed: from the target if it contains them, else from Host (RFC 9112
 * section 3.2.2). */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_host(const uvhttp_request_t *req);

/** Returns the HTTP version of the request. HTTP/1.2 and later 1.x versions are UVHTTP_HTTP_1_1. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_http_version_t uvhttp_request_http_version(const uvhttp_request_t *req);

/** Returns "HTTP/1.0", "HTTP/1.1" or "HTTP/2.0", as access logs write it. Static storage. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_http_version_name(uvhttp_http_version_t version);

/** Returns the buffered body with chunked coding removed. config.body_size_max limits its size. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_body(const uvhttp_request_t *req);

/** Returns the peer of the connection as text: "192.0.2.1:50000", "[2001:db8::1]:50000" or "unix:". The second function
 * returns the address without the port. `data` is NULL only when out of memory. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_peer(uvhttp_request_t *req);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_peer_address(uvhttp_request_t *req);

/** Returns the address of the client: "192.0.2.1", "2001:db8::1", "unix:" or "unknown". Header fields and PROXY headers
 * of trusted proxies are evaluated (uvhttp_server_trust_proxies). Without trusted proxies it is the peer. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_client(uvhttp_request_t *req);
/** Returns "https" or "http": the scheme that the client used, as trusted proxies report it, else that of the
 * connection. `:scheme` of HTTP/2 and the scheme of an absolute target do not count. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_client_scheme(uvhttp_request_t *req);
/** Returns the host and port that the client addressed, as a trusted proxy reports them, else uvhttp_request_host. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_client_host(uvhttp_request_t *req);

/** Returns the monotonic time in ns. On the request's loop it is the time of the loop iteration: it costs no system
 * call, is the same for the whole iteration, and never decreases. On any other thread the call reads the clock. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uint64_t uvhttp_request_time_ns(const uvhttp_request_t *req);

/** Stores a pointer for middleware and handlers of this request to share. NULL initially. The library does not free it.
 */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_request_set_data(uvhttp_request_t *req, void *data);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void *uvhttp_request_data(const uvhttp_request_t *req);

/** Allocates memory that lives as long as the request, 16-byte aligned. Returns NULL when `size` is 0 or
 * config.request_memory_max is reached. Copies that the library makes for itself do not count. After
 * uvhttp_response_defer the request and the response have separate shares of the remaining memory, so that the reading
 * thread needs no lock. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void *uvhttp_request_alloc(uvhttp_request_t *req, size_t size);
/** Returns a terminated copy of `text`, such as a parameter or a header field, that lives as long as the request. NULL
 * when config.request_memory_max is reached. A text that contains NUL seems to end there. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD char *uvhttp_request_str_dup(uvhttp_request_t *req, uvhttp_str_t text);

UVHTTP_END_DECLS

#endif
