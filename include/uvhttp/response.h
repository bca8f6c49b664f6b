/* Owns: how a handler answers. One complete answer per request: the last call of the family text/json/send/... before
 * the handler returns counts, or begin/write/end for an answer in pieces, or defer to answer later from any thread. */
#ifndef UVHTTP_RESPONSE_H
#define UVHTTP_RESPONSE_H

#include <uvhttp/error.h>
#include <uvhttp/request.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

typedef struct uvhttp_response uvhttp_response_t;
typedef struct uvhttp_deferred uvhttp_deferred_t;

/* --- a complete answer --- Each sets status (200..599; else UVHTTP_E_INVALID), Content-Type and body; Content-Length
 * and Date are the library's. The answer leaves when the handler and the on_finish hooks have returned. Returns 0,
 * UVHTTP_E_INVALID, UVHTTP_E_NOMEM, UVHTTP_E_LIMIT (config.request_memory_max), or UVHTTP_E_STATE when begin() was
 * called or the response has been sent or deferred. On failure nothing has changed and `release` has been called. */

/** text/plain; charset=utf-8, a copy of a terminated string. */
UVHTTP_EXPORT int uvhttp_response_text(uvhttp_response_t *res, int status, const char *text);
/** application/json, a copy of a terminated string. */
UVHTTP_EXPORT int uvhttp_response_json(uvhttp_response_t *res, int status, const char *json);
/** A copy of size bytes. content_type may be NULL: none is sent, or one set by uvhttp_response_header stays. */
UVHTTP_EXPORT int uvhttp_response_send(uvhttp_response_t *res, int status, const char *content_type, const void *data,
                                       size_t size);
/** Bytes that stay valid and unchanged as long as the server: not copied. */
UVHTTP_EXPORT int uvhttp_response_send_static(uvhttp_response_t *res, int status, const char *content_type,
                                              const void *data, size_t size);
/** Bytes that stay valid and unchanged until release(arg) (may be NULL), called exactly once: on the loop's thread, or
 * at once in a call that fails or replaces this answer. Not copied. */
UVHTTP_EXPORT int uvhttp_response_send_ref(uvhttp_response_t *res, int status, const char *content_type,
                                           const void *data, size_t size, void (*release)(void *arg), void *arg);

/** Bytes that are made once and sent often, by any route and thread: a page built into the program, a snapshot that is
 * made anew each second. From 64 KiB on (and not by TLS) they go out as a large file does, without being copied into
 * each client's socket (docs/message.md has what that saves). Immutable and counted. */
typedef struct uvhttp_shared_body uvhttp_shared_body_t;
/** Copies size bytes (0 to SIZE_MAX; data may be NULL if 0); *content has a count of 1, and is NULL on failure. One of
 * 64 KiB or more has a descriptor of its own (memfd_create(2)). Any thread. Returns 0, UVHTTP_E_INVALID,
 * UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO (memfd_create(2) is not allowed). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_shared_body_new(const void *data, size_t size, uvhttp_shared_body_t **body);
/** Any thread; each is let go once. Answers that are under way have counts of their own. release: NULL is ignored. */
UVHTTP_EXPORT void uvhttp_shared_body_retain(uvhttp_shared_body_t *body);
UVHTTP_EXPORT void uvhttp_shared_body_release(uvhttp_shared_body_t *body);
/** All of a content; the caller's count stays the caller's. UVHTTP_E_INVALID if content is NULL. */
UVHTTP_EXPORT int uvhttp_response_send_shared_body(uvhttp_response_t *res, int status, const char *content_type,
                                                   uvhttp_shared_body_t *body);

/** The bytes [offset, offset + size) of an open regular file, by sendfile(2), or read by worker threads (TLS, or not in
 * memory); the descriptor is the library's from here on, and closed, also on failure. size UINT64_MAX: to its end. */
UVHTTP_EXPORT int uvhttp_response_send_fd(uvhttp_response_t *res, int status, const char *content_type, int fd,
                                          uint64_t offset, uint64_t size);
/** A whole file by path (open(2) on this thread; UVHTTP_E_NOT_FOUND, UVHTTP_E_PERMISSION; not a regular file:
 * UVHTTP_E_INVALID). content_type NULL: application/octet-stream. */
UVHTTP_EXPORT int uvhttp_response_send_file(uvhttp_response_t *res, int status, const char *content_type,
                                            const char *path);
/** No body. For 204 and 304 without Content-Length (RFC 9110 section 8.6). */
UVHTTP_EXPORT int uvhttp_response_empty(uvhttp_response_t *res, int status);
/** 301, 302, 303, 307 or 308 with a Location. */
UVHTTP_EXPORT int uvhttp_response_redirect(uvhttp_response_t *res, int status, const char *location);

/* --- headers --- Before the answer leaves; copies. Name and value are checked (a CR or LF cannot be smuggled in):
 * UVHTTP_E_INVALID. Content-Length, Transfer-Encoding, Connection, Date and Upgrade are the library's:
 * UVHTTP_E_INVALID, but `Connection: close` is taken. There is one Content-Type: a field set here stays until an answer
 * brings its own. Other codes: UVHTTP_E_LIMIT (64 KiB of fields, or config.request_memory_max), UVHTTP_E_NOMEM,
 * UVHTTP_E_STATE (the head has left, or the response is deferred). On failure nothing has changed. */

/** Replaces all fields of that name. */
UVHTTP_EXPORT int uvhttp_response_header(uvhttp_response_t *res, const char *name, const char *value);
/** Adds a field beside others of that name. */
UVHTTP_EXPORT int uvhttp_response_header_add(uvhttp_response_t *res, const char *name, const char *value);
UVHTTP_EXPORT int uvhttp_response_header_remove(uvhttp_response_t *res, const char *name);
/** The value of a field set so far; data NULL if there is none. Valid until headers change. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_response_header_get(const uvhttp_response_t *res, const char *name);
/** Status set so far; 0 if none. */
UVHTTP_EXPORT int uvhttp_response_status(const uvhttp_response_t *res);
/** Changes the status of an answer that was made already and keeps its body: for an on_finish hook. 200..599. Returns
 * 0, UVHTTP_E_INVALID or UVHTTP_E_STATE (no answer yet, or it has left). */
UVHTTP_EXPORT int uvhttp_response_set_status(uvhttp_response_t *res, int status);
/** The request that is being answered: what a hook needs beside its `user`. */
UVHTTP_EXPORT uvhttp_request_t *uvhttp_response_request(uvhttp_response_t *res);
/** Closes the connection after this answer. */
UVHTTP_EXPORT void uvhttp_response_close(uvhttp_response_t *res);

/* --- interim responses --- */

/** A field of an interim response; both are terminated. */
typedef struct uvhttp_response_field {
    const char *name;
    const char *value;
} uvhttp_response_field_t;

/** Sends an interim response (RFC 9110 section 15.2) before the final one, as often as wanted: 103 Early Hints (RFC
 * 8297) with `Link` fields lets a browser load what a page needs while the page is being made. status: 102..199; 100 is
 * the library's, and 101 is an upgrade. fields: field_count of them, copied, with no effect on the final response; NULL
 * if 0. It leaves when the loop's iteration ends: in a handler on the loop that responds at once it arrives together
 * with the final response, so it is of use to worker threads, coroutines and deferred responses. A client of HTTP/1.0
 * gets nothing, and 0 is returned. The thread that has the response. Returns 0, UVHTTP_E_INVALID (status, or a field
 * that uvhttp_response_header refuses), UVHTTP_E_STATE (the head of the final response has left, its on_finish hooks
 * run, or the response is deferred: uvhttp_deferred_interim), UVHTTP_E_LIMIT (64 KiB of fields, or
 * config.write_queue_max bytes wait for the client), UVHTTP_E_ABORTED (the client has gone) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_response_interim(uvhttp_response_t *res, int status, const uvhttp_response_field_t *fields,
                                          size_t field_count);

/* --- an answer in pieces --- Chunked for HTTP/1.1, ended by closing for HTTP/1.0; with a size known in advance
 * (size != UVHTTP_SIZE_UNKNOWN), Content-Length: a write beyond it is refused with UVHTTP_E_INVALID, and that or ending
 * early closes the connection. */

#define UVHTTP_SIZE_UNKNOWN UINT64_MAX
UVHTTP_EXPORT int uvhttp_response_begin(uvhttp_response_t *res, int status, const char *content_type, uint64_t size);
/** Copies. Returns 0, UVHTTP_E_ABORTED when the client has gone, UVHTTP_E_STATE before begin or after end,
 * UVHTTP_E_LIMIT when more than config.write_queue_max bytes would wait for a slow client (nothing was taken: try again
 * in uvhttp_deferred_on_drain; a piece larger than that is never taken). In a handler on a worker thread it waits for
 * the client instead, and a piece may be of any size. */
UVHTTP_EXPORT int uvhttp_response_write(uvhttp_response_t *res, const void *data, size_t size);
/** Adds a field behind the body (RFC 9110 section 6.5); copied. For a chunked answer, between begin and end, to a
 * client that has sent "TE: trailers"; such a one should be told before, by uvhttp_response_header(res, "Trailer",
 * name) before begin: the library takes that field away again where no trailer can follow. Returns 0,
 * UVHTTP_E_UNSUPPORTED (HTTP/1.0, a size known in advance, no body, or the client does not ask for trailers: nothing is
 * sent, and that is no fault), UVHTTP_E_INVALID (malformed, or a field that must not be a trailer: of framing, routing,
 * authentication, caching, cookies, or about the content), UVHTTP_E_LIMIT (8 KiB of them, or
 * config.request_memory_max), UVHTTP_E_NOMEM, UVHTTP_E_ABORTED or UVHTTP_E_STATE. */
UVHTTP_EXPORT int uvhttp_response_trailer(uvhttp_response_t *res, const char *name, const char *value);
/** A handler that returns after begin, without end and without defer, has ended its answer. */
UVHTTP_EXPORT int uvhttp_response_end(uvhttp_response_t *res);

/* --- hooks --- Loop thread. In reverse order of registration (the way back). Return 0, UVHTTP_E_INVALID (hook NULL),
 * UVHTTP_E_NOMEM, or UVHTTP_E_STATE when it is too late: the hooks of that kind run already. */

/** Called when the answer is complete (or begin was called) and its head not yet written: may change status and
 * headers, or replace a complete body. */
UVHTTP_EXPORT int uvhttp_response_on_finish(uvhttp_response_t *res, void (*hook)(uvhttp_response_t *res, void *user),
                                            void *user);
/** Called once at the very end: status UVHTTP_OK when the answer has been handed to the connection whole,
 * UVHTTP_E_ABORTED when not. The place to free what belongs to the request. */
UVHTTP_EXPORT int uvhttp_response_on_done(uvhttp_response_t *res,
                                          void (*hook)(uvhttp_response_t *res, int status, void *user), void *user);

/* --- answer later, from any thread --- */

/** The handler may return without an answer; the request stays readable until the handle has answered or is released.
 * The handle is counted (1). NULL when out of memory (the client gets a 503), or when the response was begun or
 * deferred already. Releasing the last reference unanswered gives the client a 500. */
UVHTTP_EXPORT uvhttp_deferred_t *uvhttp_response_defer(uvhttp_response_t *res);

/** Called on the loop's thread when the client goes before the answer, at most once; set it right after defer, in the
 * handler. The request is still readable in it. */
UVHTTP_EXPORT void uvhttp_deferred_on_abort(uvhttp_deferred_t *deferred,
                                            void (*on_abort)(uvhttp_deferred_t *deferred, void *user), void *user);

/** Called on the loop's thread, with the response as in uvhttp_deferred_run, whenever the client has taken all that
 * uvhttp_response_write queued after a write was refused with UVHTTP_E_LIMIT or left more than 4 KiB waiting: the place
 * to write on, until the next refusal. Not after uvhttp_response_end, nor when the client has gone. Set it right after
 * defer, in the handler, or in a function that uvhttp_deferred_run runs. */
UVHTTP_EXPORT void uvhttp_deferred_on_drain(uvhttp_deferred_t *deferred,
                                            void (*on_drain)(uvhttp_response_t *res, void *user), void *user);

/** Has on_stop called on the loop's thread, with the response as in uvhttp_deferred_run, at most once, when the server
 * begins to stop; soon, if it has begun already. The place to end an answer that does not end by itself (an event
 * stream): what has not ended is cut off after config.drain_timeout. Not after the answer, nor when the client has
 * gone. Another call replaces it. Any thread. Returns as uvhttp_deferred_run does; UVHTTP_E_INVALID: on_stop is NULL.
 */
UVHTTP_EXPORT int uvhttp_deferred_on_stop(uvhttp_deferred_t *deferred,
                                          void (*on_stop)(uvhttp_response_t *res, void *user), void *user);
/** Whether the server has begun to stop: for handlers that make a long answer on a thread of the pool or in a coroutine
 * (which can be woken for it: uvhttp_coro_wake_on_stop). The thread that has the response. */
UVHTTP_EXPORT bool uvhttp_response_stopping(const uvhttp_response_t *res);

/* Any thread from here on. Each answer returns 0, UVHTTP_E_ABORTED (the client has gone; nothing to do but release),
 * UVHTTP_E_STATE (answered already), UVHTTP_E_INVALID or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_deferred_text(uvhttp_deferred_t *deferred, int status, const char *text);
UVHTTP_EXPORT int uvhttp_deferred_json(uvhttp_deferred_t *deferred, int status, const char *json);
UVHTTP_EXPORT int uvhttp_deferred_send(uvhttp_deferred_t *deferred, int status, const char *content_type,
                                       const void *data, size_t size);
UVHTTP_EXPORT int uvhttp_deferred_send_ref(uvhttp_deferred_t *deferred, int status, const char *content_type,
                                           const void *data, size_t size, void (*release)(void *arg), void *arg);
/** A header for the answer to come; one thread at a time. */
UVHTTP_EXPORT int uvhttp_deferred_header(uvhttp_deferred_t *deferred, const char *name, const char *value);
/** Sends an interim response as uvhttp_response_interim does, before the response to come. A refusal by the state of
 * the response or by a limit is logged, and nothing is sent. */
UVHTTP_EXPORT int uvhttp_deferred_interim(uvhttp_deferred_t *deferred, int status,
                                          const uvhttp_response_field_t *fields, size_t field_count);
/** Runs `run` on the loop's thread with the response, to use every function above (begin, write, hooks ...); `res` is
 * NULL if the client has gone. The response may be answered there, or later through the same handle. */
UVHTTP_EXPORT int uvhttp_deferred_run(uvhttp_deferred_t *deferred, void (*run)(uvhttp_response_t *res, void *user),
                                      void *user);
UVHTTP_EXPORT bool uvhttp_deferred_aborted(const uvhttp_deferred_t *deferred);
/** The request that is being answered: readable by one thread at a time until the answer or the release. */
UVHTTP_EXPORT uvhttp_request_t *uvhttp_deferred_request(uvhttp_deferred_t *deferred);
UVHTTP_EXPORT void uvhttp_deferred_retain(uvhttp_deferred_t *deferred);
UVHTTP_EXPORT void uvhttp_deferred_release(uvhttp_deferred_t *deferred);

/* --- texts with a length --- The same as the functions without "_str" for a text that is not terminated, as the
 * library gives them: `uvhttp_response_header_str(res, "X-Path", uvhttp_request_path(req))`. Copies. A value whose data
 * is NULL, as of a field that is not there, is UVHTTP_E_INVALID; for a body of size 0 it is "". */
UVHTTP_EXPORT int uvhttp_response_text_str(uvhttp_response_t *res, int status, uvhttp_str_t text);
UVHTTP_EXPORT int uvhttp_response_json_str(uvhttp_response_t *res, int status, uvhttp_str_t json);
UVHTTP_EXPORT int uvhttp_response_header_str(uvhttp_response_t *res, const char *name, uvhttp_str_t value);
UVHTTP_EXPORT int uvhttp_response_header_add_str(uvhttp_response_t *res, const char *name, uvhttp_str_t value);
UVHTTP_EXPORT int uvhttp_response_redirect_str(uvhttp_response_t *res, int status, uvhttp_str_t location);
UVHTTP_EXPORT int uvhttp_response_trailer_str(uvhttp_response_t *res, const char *name, uvhttp_str_t value);
UVHTTP_EXPORT int uvhttp_deferred_header_str(uvhttp_deferred_t *deferred, const char *name, uvhttp_str_t value);

UVHTTP_END_DECLS

#endif
