/* Owns: responses. A request gets exactly one response, in one of three forms:
 * - buffered: the last call of uvhttp_response_text, _json, _send ... before the handler returns;
 * - streamed: uvhttp_response_begin, _write, _end;
 * - deferred: sent later, from any thread, through the handle of uvhttp_response_defer. */
#ifndef UVHTTP_RESPONSE_H
#define UVHTTP_RESPONSE_H

#include <uvhttp/error.h>
#include <uvhttp/request.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

typedef struct uvhttp_response uvhttp_response_t;
typedef struct uvhttp_deferred uvhttp_deferred_t;

/* --- buffered responses ---
 *
 * Each function sets the status (200..599; else UVHTTP_E_INVALID), Content-Type and body. The library adds
 * Content-Length and Date. The response is sent after the handler and the on_finish hooks have returned.
 *
 * Returns 0, UVHTTP_E_INVALID, UVHTTP_E_NOMEM, UVHTTP_E_LIMIT (config.request_memory_max), or UVHTTP_E_STATE
 * (uvhttp_response_begin was called, or the response was sent or deferred). On failure nothing has changed and
 * `release` has been called. */

/** Sends a copy of a terminated string as text/plain; charset=utf-8. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_text(uvhttp_response_t *res, int status, const char *text);
/** Sends a copy of a terminated string as application/json. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_json(uvhttp_response_t *res, int status, const char *json);
/** Sends a copy of `size` bytes. With content_type NULL, a Content-Type set by uvhttp_response_header stays; otherwise
 * none is sent. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send(uvhttp_response_t *res, int status, const char *content_type,
                                                           const void *data, size_t size);
/** Sends bytes without copying them. They must stay valid and unchanged as long as the server. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send_static(uvhttp_response_t *res, int status,
                                                                  const char *content_type, const void *data,
                                                                  size_t size);
/** Sends bytes without copying them. They must stay valid and unchanged until release(arg) is called. `release` may be
 * NULL. It is called exactly once: on the loop's thread, or inside a call that fails or replaces this response. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send_ref(uvhttp_response_t *res, int status,
                                                               const char *content_type, const void *data, size_t size,
                                                               void (*release)(void *arg), void *arg);

/** A shared body: immutable, reference-counted bytes that are created once and sent often, by any route and thread.
 * Examples are a page built into the program, or a snapshot that is renewed each second. A body of 64 KiB or more, on a
 * connection without TLS, is sent like a file, without a copy into each client's socket. docs/internals/decisions.md
 * has the figures. */
typedef struct uvhttp_shared_body uvhttp_shared_body_t;
/** Creates a shared body from a copy of `size` bytes (0..SIZE_MAX; `data` may be NULL if 0). The caller holds one
 * reference. A body of 64 KiB or more owns a descriptor (memfd_create(2)). Returns 0, UVHTTP_E_INVALID, UVHTTP_E_NOMEM,
 * UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO (memfd_create(2) is not allowed); on failure the result is NULL. Any thread.
 */
UVHTTP_EXPORT UVHTTP_ANY_THREAD UVHTTP_MUST_USE int uvhttp_shared_body_new(const void *data, size_t size,
                                                                           uvhttp_shared_body_t **body);
/** Adds or releases a reference. Release each reference exactly once. Responses in flight hold their own references.
 * Releasing NULL does nothing. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_shared_body_retain(uvhttp_shared_body_t *body);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_shared_body_release(uvhttp_shared_body_t *body);
/** Sends a shared body. The caller keeps its reference. Returns UVHTTP_E_INVALID if the body is NULL. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send_shared_body(uvhttp_response_t *res, int status,
                                                                       const char *content_type,
                                                                       uvhttp_shared_body_t *body);

/** Sends the bytes [offset, offset + size) of an open regular file; `size` UINT64_MAX means up to its end. The file is
 * sent by sendfile(2). Worker threads read it instead for TLS, or when it is not in the page cache; it waits for them
 * however many jobs wait (config.max_backlog does not apply). The library takes ownership of the descriptor and closes
 * it, also on failure. Returns UVHTTP_E_INVALID (not a regular file, or it has fewer bytes) and UVHTTP_E_IO as well. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send_fd(uvhttp_response_t *res, int status,
                                                              const char *content_type, int fd, uint64_t offset,
                                                              uint64_t size);
/** Sends a whole file by path. Calls open(2) on this thread. With content_type NULL, the type is
 * application/octet-stream. Also returns UVHTTP_E_NOT_FOUND, UVHTTP_E_PERMISSION, UVHTTP_E_INVALID (not a regular
 * file), UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_send_file(uvhttp_response_t *res, int status,
                                                                const char *content_type, const char *path);
/** Sends no body. 204 and 304 have no Content-Length (RFC 9110 section 8.6). A body that another function is given for
 * 204, 205 or 304 is not sent. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_empty(uvhttp_response_t *res, int status);
/** Sends 301, 302, 303, 307 or 308 with a Location field. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_redirect(uvhttp_response_t *res, int status,
                                                               const char *location);

/* --- header fields ---
 *
 * Call these before the response is sent. Name and value are copied and validated, so that CR and LF cannot be
 * injected; an invalid one returns UVHTTP_E_INVALID. The library owns Content-Length, Transfer-Encoding, Connection,
 * Date and Upgrade: setting them returns UVHTTP_E_INVALID, except for `Connection: close`. There is one Content-Type: a
 * field set here stays until a response function sets another.
 *
 * Other codes: UVHTTP_E_LIMIT (64 KiB of fields, or config.request_memory_max), UVHTTP_E_NOMEM, UVHTTP_E_STATE (the
 * head was sent, or the response is deferred). On failure nothing has changed. */

/** Replaces all fields of that name. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_header(uvhttp_response_t *res, const char *name,
                                                             const char *value);
/** Adds a field and keeps others of that name. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_header_add(uvhttp_response_t *res, const char *name,
                                                                 const char *value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_header_remove(uvhttp_response_t *res, const char *name);
/** Returns the value of a field set so far. `data` is NULL if there is none. Valid until the fields change. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_response_header_get(const uvhttp_response_t *res,
                                                                          const char *name);
/** Returns the status set so far, or 0. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_status(const uvhttp_response_t *res);
/** Changes the status (200..599) of a complete response and keeps its body. For an on_finish hook. Returns 0,
 * UVHTTP_E_INVALID or UVHTTP_E_STATE (there is no response yet, or it was sent). */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_set_status(uvhttp_response_t *res, int status);
/** Returns the request of this response, for hooks that need more than their `user`. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_request_t *uvhttp_response_request(uvhttp_response_t *res);
/** Closes the connection after this response. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_response_close(uvhttp_response_t *res);

/* --- interim responses --- */

/** A field of an interim response. Both strings are terminated. */
typedef struct uvhttp_response_field {
    const char *name;
    const char *value;
} uvhttp_response_field_t;

/** Sends an interim response (RFC 9110 section 15.2) before the final one. It may be called repeatedly. 103 Early Hints
 * (RFC 8297) with `Link` fields lets a browser load what a page needs while the server prepares the page.
 *
 * `status` is 102..199, except 101; the library sends 100 itself. The `fields`, `field_count` of them, are copied and
 * do not affect the final response; `fields` may be NULL if the count is 0. The interim response leaves at the end of
 * the loop iteration. A handler on the loop that responds immediately sends both together: interim responses are useful
 * on worker threads, in coroutines and for deferred responses. A client of HTTP/1.0 receives nothing, and 0 is
 * returned. Call it on the thread that owns the response.
 *
 * Returns 0, UVHTTP_E_INVALID (the status, or a field that uvhttp_response_header refuses), UVHTTP_E_STATE (the final
 * head was sent, the on_finish hooks run, or the response is deferred: use uvhttp_deferred_interim), UVHTTP_E_LIMIT (64
 * KiB of fields, or config.write_queue_max bytes are queued), UVHTTP_E_ABORTED (the client has disconnected) or
 * UVHTTP_E_NOMEM.
 */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int
uvhttp_response_interim(uvhttp_response_t *res, int status, const uvhttp_response_field_t *fields, size_t field_count);

/* --- streamed responses ---
 *
 * With UVHTTP_SIZE_UNKNOWN, the body is chunked for HTTP/1.1 and ends with the connection for HTTP/1.0. With a known
 * `size`, Content-Length is sent. A write beyond that size is refused with UVHTTP_E_INVALID. Such a write, and ending
 * early, close the connection. */

#define UVHTTP_SIZE_UNKNOWN UINT64_MAX
/** Begins a streamed response of `size` bytes, or UVHTTP_SIZE_UNKNOWN. The on_finish hooks run in this call, and the
 * head leaves. content_type as for uvhttp_response_send. Returns 0, UVHTTP_E_INVALID (status or content type),
 * UVHTTP_E_LIMIT (config.request_memory_max), UVHTTP_E_STATE (begun, sent or deferred before, or in a hook),
 * UVHTTP_E_ABORTED (the client has disconnected) or UVHTTP_E_NOMEM (the response may have been cut off). */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_begin(uvhttp_response_t *res, int status,
                                                            const char *content_type, uint64_t size);
/** Queues a copy of `size` bytes. Returns 0, UVHTTP_E_ABORTED (the client has disconnected), UVHTTP_E_STATE (before
 * begin or after end) or UVHTTP_E_LIMIT (more than config.write_queue_max bytes would be queued). After UVHTTP_E_LIMIT
 * nothing was queued: retry in uvhttp_deferred_on_drain. A write larger than that maximum never succeeds. On a worker
 * thread and in a coroutine the call waits for the client instead; on a worker thread `size` may be anything.
 * UVHTTP_E_INVALID: above the size of the response, or NULL. UVHTTP_E_STOPPING: see uvhttp_coro_wake_on_stop.
 * UVHTTP_E_NOMEM: bytes are lost, and the response was cut off, so that the client cannot take it for complete. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_write(uvhttp_response_t *res, const void *data, size_t size);
/** Adds a trailer field after the body (RFC 9110 section 6.5); copied. Call it between begin and end of a chunked
 * response, for a client that sent "TE: trailers". Announce it before begin with uvhttp_response_header(res, "Trailer",
 * name); the library removes that field where no trailer can follow.
 *
 * Returns 0, UVHTTP_E_UNSUPPORTED (HTTP/1.0, a known size, no body, or a client that does not accept trailers: nothing
 * is sent, which is not a fault), UVHTTP_E_INVALID (malformed, or a field that must not be a trailer: framing, routing,
 * authentication, caching, cookies, representation), UVHTTP_E_LIMIT (8 KiB of trailers, or config.request_memory_max),
 * UVHTTP_E_NOMEM, UVHTTP_E_ABORTED or UVHTTP_E_STATE. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_trailer(uvhttp_response_t *res, const char *name,
                                                              const char *value);
/** Ends the response. A handler that returns after begin, without end and without defer, ends it implicitly. Returns 0,
 * UVHTTP_E_STATE (before begin, or after end), UVHTTP_E_ABORTED (the client has disconnected) or UVHTTP_E_NOMEM (the
 * client cannot take the response for complete). */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_end(uvhttp_response_t *res);

/* --- hooks ---
 *
 * Hooks run on the loop thread, in reverse order of registration; uvhttp_compression acts behind all of them. Returns
 * 0, UVHTTP_E_INVALID (`hook` is NULL), UVHTTP_E_NOMEM, or UVHTTP_E_STATE (the hooks of that kind already run). */

/** Registers a hook that is called when the response is complete, or begin was called, and before its head is written.
 * The hook may change status and header fields, or replace a buffered body. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int
uvhttp_response_on_finish(uvhttp_response_t *res, void (*hook)(uvhttp_response_t *res, void *user), void *user);
/** Registers a hook that is called once, as the last event of the request. `status` is UVHTTP_OK when all bytes were
 * queued on the connection, else UVHTTP_E_ABORTED. Free what belongs to the request here. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int
uvhttp_response_on_done(uvhttp_response_t *res, void (*hook)(uvhttp_response_t *res, int status, void *user),
                        void *user);

/* --- deferred responses --- */

/** Defers the response: the handler may return without one. The request stays readable until the handle sends the
 * response or is released. The caller holds one reference. If the last reference is released without a response, the
 * client receives 500. Returns NULL when out of memory (the client receives 503), or when the response was already
 * begun or deferred. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_deferred_t *uvhttp_response_defer(uvhttp_response_t *res);

/** Sets a function that is called on the loop's thread, at most once, when the client disconnects before the response.
 * The request is still readable in it. Set it in the handler, directly after defer. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void
uvhttp_deferred_on_abort(uvhttp_deferred_t *deferred, void (*on_abort)(uvhttp_deferred_t *deferred, void *user),
                         void *user);

/** Sets a function that continues a streamed response. It is called on the loop's thread, with the response as in
 * uvhttp_deferred_run, when the client has received all queued bytes. The condition is that a write was refused with
 * UVHTTP_E_LIMIT, or left more than 4 KiB queued. Write in it until the next refusal. It is not called after
 * uvhttp_response_end, nor after the client has disconnected. Set it in the handler, directly after defer, or in a
 * function that uvhttp_deferred_run runs. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void
uvhttp_deferred_on_drain(uvhttp_deferred_t *deferred, void (*on_drain)(uvhttp_response_t *res, void *user), void *user);

/** Sets a function that is called on the loop's thread, at most once, when the server starts to stop; soon, if it
 * already stops. It is also called when only the connection is to end behind its requests: over HTTP/2 after
 * config.keepalive_requests_max or a uvhttp_response_close, or because the client changed TLS keys and the kernel
 * cannot. The response is available as in uvhttp_deferred_run. Use it to end a response that does not end by itself,
 * such as an event stream: a response that is open after config.drain_timeout is cut off. It is not called after the
 * response, nor after the client has disconnected. A second call replaces the function. Returns as uvhttp_deferred_run
 * does; UVHTTP_E_INVALID if `on_stop` is NULL. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int
uvhttp_deferred_on_stop(uvhttp_deferred_t *deferred, void (*on_stop)(uvhttp_response_t *res, void *user), void *user);
/** Returns whether the server has started to stop. For handlers that produce a long response on a worker thread or in a
 * coroutine; uvhttp_coro_wake_on_stop also wakes a coroutine. Call it on the thread that owns the response. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_response_stopping(const uvhttp_response_t *res);

/* The following functions may be called on any thread. Each sends the response and returns 0, UVHTTP_E_ABORTED (the
 * client has disconnected: release the handle), UVHTTP_E_STATE (already sent), UVHTTP_E_INVALID or UVHTTP_E_NOMEM. A
 * streamed response that uvhttp_deferred_run has begun and not ended is cut off instead. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_text(uvhttp_deferred_t *deferred, int status, const char *text);
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_json(uvhttp_deferred_t *deferred, int status, const char *json);
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_send(uvhttp_deferred_t *deferred, int status,
                                                         const char *content_type, const void *data, size_t size);
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_send_ref(uvhttp_deferred_t *deferred, int status,
                                                             const char *content_type, const void *data, size_t size,
                                                             void (*release)(void *arg), void *arg);
/** Sets a header field of the response to come, as uvhttp_response_header does. A refusal by the state of the response
 * or by a maximum is logged, and the field is not sent. One thread at a time. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_deferred_header(uvhttp_deferred_t *deferred, const char *name,
                                                             const char *value);
/** Sends an interim response, as uvhttp_response_interim does. A refusal by the state of the response or by a maximum
 * is logged, and nothing is sent. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_interim(uvhttp_deferred_t *deferred, int status,
                                                            const uvhttp_response_field_t *fields, size_t field_count);
/** Calls `run` on the loop's thread with the response, so that it can use all functions above. `res` is NULL if the
 * client has disconnected. The function may send the response, or leave it to a later call with the same handle. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_run(uvhttp_deferred_t *deferred,
                                                        void (*run)(uvhttp_response_t *res, void *user), void *user);
UVHTTP_EXPORT UVHTTP_ANY_THREAD bool uvhttp_deferred_aborted(const uvhttp_deferred_t *deferred);
/** Returns the request. It is readable by one thread at a time, until the response is sent or the handle is released.
 */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_request_t *uvhttp_deferred_request(uvhttp_deferred_t *deferred);
/** Adds or releases a reference. Release each reference exactly once. After the last one none of on_abort, on_drain and
 * on_stop is called. If it is released on the loop's thread, what they use may be freed as soon as release returns; if
 * on another thread, one of them may still be running. A function given to uvhttp_deferred_run or uvhttp_deferred_next
 * is still called once. Release ignores NULL. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_deferred_retain(uvhttp_deferred_t *deferred);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_deferred_release(uvhttp_deferred_t *deferred);

/* --- texts with a length --- As the functions without "_str", for a text that is not terminated:
 * `uvhttp_response_header_str(res, "X-Path", uvhttp_request_path(req))`. The text is copied. A value with `data` NULL,
 * such as that of a missing field, returns UVHTTP_E_INVALID; a body with `data` NULL and size 0 is "". */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_text_str(uvhttp_response_t *res, int status, uvhttp_str_t text);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_json_str(uvhttp_response_t *res, int status, uvhttp_str_t json);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_header_str(uvhttp_response_t *res, const char *name,
                                                                 uvhttp_str_t value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_header_add_str(uvhttp_response_t *res, const char *name,
                                                                     uvhttp_str_t value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_redirect_str(uvhttp_response_t *res, int status,
                                                                   uvhttp_str_t location);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_response_trailer_str(uvhttp_response_t *res, const char *name,
                                                                  uvhttp_str_t value);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD int uvhttp_deferred_header_str(uvhttp_deferred_t *deferred, const char *name,
                                                                 uvhttp_str_t value);

UVHTTP_END_DECLS

#endif
