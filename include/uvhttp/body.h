/* Owns: request bodies that a handler takes piece by piece, as they come, and their trailers. Loop's thread, unless a
 * function says otherwise. */
#ifndef UVHTTP_BODY_H
#define UVHTTP_BODY_H

#include <uvhttp/form.h>
#include <uvhttp/request.h>
#include <uvhttp/response.h>

UVHTTP_BEGIN_DECLS

/** A piece of the body, unchunked, in order: 1 to config.read_buffer_size bytes, valid during the call. */
typedef void (*uvhttp_body_data_cb)(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user);

/** The end, once: UVHTTP_OK when the body has come whole (trailers can be asked for now), else why it never will:
 * UVHTTP_E_ABORTED or UVHTTP_E_HTTP_BODY_INCOMPLETE (the client has gone: nobody waits for an answer),
 * UVHTTP_E_HTTP_BODY_TOO_LARGE (413), UVHTTP_E_HTTP_CHUNK_* and UVHTTP_E_HTTP_TRAILER* (400, 431), UVHTTP_E_TIMEOUT
 * (408), UVHTTP_E_RESPONSE_TIMEOUT (503), UVHTTP_E_NOMEM (503). For these the client gets the status in brackets,
 * unless an answer is made in this call (which a deferred response does not allow: the thread that has its handle may
 * be using the request; that handle gets UVHTTP_E_ABORTED). It does not come once an answer is complete:
 * uvhttp_response_on_done always does. */
typedef void (*uvhttp_body_end_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user);

/** In the handler of a route with `stream_body` on the loop, or a middleware of it or of one in a coroutine (whose
 * handler gets UVHTTP_E_STATE from uvhttp_coro_read_body then), before it returns: it wants the body. Its first piece
 * comes after the handler has returned; for a client that has sent "Expect: 100-continue", 100 is sent first.
 *
 * The request stays readable, and its views valid, until it is answered. The answer can be made in the handler, in any
 * call of on_data and in on_end, or by a deferred handle; in the calls a deferred response may be used directly, as in
 * uvhttp_deferred_run. What is said elsewhere of the handler's return holds for the return of on_end: then there has to
 * be an answer or a deferred handle, and an answer in pieces that was begun is ended. An answer that is complete before
 * the body is: nothing of the rest is told; up to 64 KiB that Content-Length has announced are thrown away, else the
 * connection ends after the answer (RFC 9112 section 9.6).
 *
 * Returns 0, UVHTTP_E_INVALID (a function is NULL) or UVHTTP_E_STATE (not such a route, called already, or too late).
 */
UVHTTP_EXPORT int uvhttp_request_on_body(uvhttp_request_t *req, uvhttp_body_data_cb on_data, uvhttp_body_end_cb on_end,
                                         void *user);

/** No on_data from here on, until resume. The socket is not read beyond a bound, so that TCP holds the client back: 64
 * KiB and what has been received when they are reached (on io_uring up to all receive buffers of the loop, 1 MiB by
 * default). The time does not count for body_timeout and min_receive_rate. on_end can still come: behind the last piece
 * of a body with Content-Length, or because it has failed. A client that goes is noticed at once when it resets the
 * connection, else when what it had sent has been read. Both are idempotent and return 0, UVHTTP_E_STATE
 * (uvhttp_request_on_body was not called, or this is not the thread of the request's loop) or UVHTTP_E_ABORTED (the
 * client has gone). */
UVHTTP_EXPORT int uvhttp_request_pause_body(uvhttp_request_t *req);
UVHTTP_EXPORT int uvhttp_request_resume_body(uvhttp_request_t *req);

/** The same from any thread; they take effect soon. Return 0, UVHTTP_E_INVALID, UVHTTP_E_NOMEM, UVHTTP_E_ABORTED or
 * UVHTTP_E_STATE (answered already). */
UVHTTP_EXPORT int uvhttp_deferred_pause_body(uvhttp_deferred_t *deferred);
UVHTTP_EXPORT int uvhttp_deferred_resume_body(uvhttp_deferred_t *deferred);

/** A part begins, a piece of its content, or its end (UVHTTP_MULTIPART_PART, _DATA, _PART_END). Views are valid during
 * the call. When it has made an answer, no more is told. */
typedef void (*uvhttp_multipart_cb)(uvhttp_request_t *req, uvhttp_response_t *res,
                                    const uvhttp_multipart_event_t *event, void *user);

/** uvhttp_request_on_body for multipart/form-data: the parts as they come, with the same rules. A body may have any
 * size; limits NULL: defaults. on_end gets UVHTTP_OK when the last boundary and the whole body have come, or also
 * UVHTTP_E_FORM_TOO_MANY_FIELDS and UVHTTP_E_MULTIPART_* (see uvhttp_request_form for the status that the client gets,
 * unless an answer is made there). A pause takes effect behind the piece of the body in hand, of at most
 * config.read_buffer_size: its events still come. The parser takes 4.4 KiB of the request's memory.
 *
 * Returns 0, or a code of uvhttp_request_on_body, UVHTTP_E_FORM_TYPE (415: no Content-Type, several, or another one),
 * UVHTTP_E_MULTIPART_BOUNDARY (400), UVHTTP_E_INVALID (limits) or UVHTTP_E_NOMEM: the handler has to answer then. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_request_on_multipart(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                              uvhttp_multipart_cb on_event, uvhttp_body_end_cb on_end,
                                                              void *user);

/** The next piece of the request's body, for a handler with UVHTTP_EXEC_WORKER (in a coroutine: uvhttp_coro_read_body).
 * Blocks its thread until there is one: a view that stays valid until the next call or the handler's return. Of a route
 * with `stream_body` at most config.read_buffer_size bytes; the body has been spooled (route.h), so that this does not
 * wait for the client, and what has come can be read when the client has gone. With `live_body` pieces are what has
 * come; between calls the body is paused (uvhttp_request_pause_body), so that the client is held back. Else the whole
 * body is the only piece.
 *
 * What follows is for `live_body`; of a spooled body only UVHTTP_E_EOF, UVHTTP_E_IO (its file) and UVHTTP_E_NOMEM come.
 * timeout_ms: from 1; 0 is taken as 1, and the deadlines of the server (body_timeout, min_receive_rate) hold as well,
 * while this waits. Returns 0, UVHTTP_E_EOF at the end (trailers can be asked for now), UVHTTP_E_TIMEOUT (it may be
 * called again), or why the rest will never come, as on_end is told: UVHTTP_E_ABORTED (the client has gone, or the
 * server stops), UVHTTP_E_HTTP_*, UVHTTP_E_NOMEM; a limit of the server is UVHTTP_E_TIMEOUT, and then each later call
 * returns it at once. Except for UVHTTP_E_NOMEM the client then gets the server's answer (or has gone), and not the
 * handler's. UVHTTP_E_INVALID (NULL) or UVHTTP_E_STATE (not in such a handler). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_request_read_body(uvhttp_request_t *req, uvhttp_str_t *piece,
                                                           uint32_t timeout_ms);

/** Has a multipart/form-data body of any size written to disk, for a handler with UVHTTP_EXEC_WORKER: its thread takes
 * the body piece by piece, as uvhttp_request_read_body does without a timeout of its own (best on a route with
 * `stream_body`), and writes the files as they come. The client is held back while a disk is slow, and no more than a
 * piece is in memory. Returns when all has come: *form has the fields, and the files with `saved` and without data.
 *
 * directory: a descriptor, which stays the caller's. Files get names as from uvhttp_form_file_save with name NULL, and
 * mode 0600; others may see them grow. An input for files that was left empty leaves none. limits (NULL: defaults):
 * part_size_max bounds each file, field_count_max their number, the route's body_size_max all together; what fields
 * hold is in the request's memory (config.request_memory_max). Nothing is synced to the disk.
 *
 * On failure *form is NULL, and what was saved is removed again. Returns 0, or a code for uvhttp_error_http_status: as
 * uvhttp_request_form for multipart, as uvhttp_request_read_body (after most of which nobody waits for an answer),
 * UVHTTP_E_UPLOAD_NO_SPACE (507: disk or quota full, or a file larger than the system allows), UVHTTP_E_LIMIT,
 * UVHTTP_E_PERMISSION, UVHTTP_E_IO (500), UVHTTP_E_NO_DESCRIPTORS (503), UVHTTP_E_INVALID or UVHTTP_E_STATE (not in
 * such a handler). */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_request_save_form(uvhttp_request_t *req, int directory,
                                                           const uvhttp_form_limits_t *limits, uvhttp_form_t **form);

/** How far a body is saved: `received` bytes of it are in the file; total: what Content-Length has announced, or -1.
 * After each piece, so that the last call has all of a body that is not empty; on the thread of the handler, which it
 * holds up. With `live_body` it follows what the client sends; a spooled body has come before the handler runs
 * (route.h). */
typedef void (*uvhttp_save_progress_cb)(uvhttp_request_t *req, uint64_t received, int64_t total, void *user);

/** A field that is 0 has its default. */
typedef struct uvhttp_save_options {
    const char *name;                    /**< of the file, as for uvhttp_form_file_save; default "upload" */
    uvhttp_save_progress_cb on_progress; /**< default: nobody is called */
    void *user;                          /**< for on_progress */
} uvhttp_save_options_t;

/** The same for a body of any other type: all of it becomes one file. options NULL: defaults. `saved` and `size` get
 * its name and bytes, and may be NULL. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_request_save_body(uvhttp_request_t *req, int directory,
                                                           const uvhttp_save_options_t *options,
                                                           char saved[UVHTTP_FORM_SAVED_NAME_SIZE], uint64_t *size);

/** Trailer fields of a chunked body (RFC 9110 section 6.5), when it has come whole: the value of the first one called
 * `name` (ASCII case ignored; data is NULL if there is none), or all in the order received, `index` from 0, false past
 * the last. They never become header fields. Valid as long as the request. */
UVHTTP_EXPORT uvhttp_str_t uvhttp_request_trailer(const uvhttp_request_t *req, const char *name);
UVHTTP_EXPORT bool uvhttp_request_trailer_at(const uvhttp_request_t *req, size_t index, uvhttp_str_t *name,
                                             uvhttp_str_t *value);

UVHTTP_END_DECLS

#endif
