/* Owns: streaming request bodies and trailers. Call the functions on the loop's thread, unless documented otherwise. */
#ifndef UVHTTP_BODY_H
#define UVHTTP_BODY_H

#include <uvhttp/form.h>
#include <uvhttp/request.h>
#include <uvhttp/response.h>

UVHTTP_BEGIN_DECLS

/** Receives the next bytes of the body, in order and with chunked coding removed: 1 to config.read_buffer_size bytes.
 * Valid during the call. */
typedef void (*uvhttp_body_data_cb)(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user);

/** Called once at the end of the body. `status` is UVHTTP_OK when the body is complete; trailers are available then.
 * Otherwise the rest will never arrive, and the client receives the status in brackets unless this call responds:
 * - UVHTTP_E_ABORTED, UVHTTP_E_HTTP_BODY_INCOMPLETE: the client has disconnected, and no response can be sent;
 * - UVHTTP_E_HTTP_BODY_TOO_LARGE (413), UVHTTP_E_HTTP_CHUNK_* (400), UVHTTP_E_HTTP_TRAILER* (400, 431);
 * - UVHTTP_E_HTTP_TIMEOUT (408), UVHTTP_E_RESPONSE_TIMEOUT (503), UVHTTP_E_NOMEM (503).
 * A deferred request cannot respond in this call, because the thread that holds its handle may be using it; that handle
 * gets UVHTTP_E_ABORTED. The function is not called after a complete response; uvhttp_response_on_done always is. */
typedef void (*uvhttp_body_end_cb)(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user);

/** Requests the body as a stream. Call it in a handler with `stream_body` on the loop before it returns, or in a
 * middleware of such a route. It also works in a middleware of a coroutine route; the handler then gets UVHTTP_E_STATE
 * from uvhttp_coro_read_body. on_data is first called after the handler has returned. A client that sent "Expect:
 * 100-continue" first receives 100.
 *
 * The request stays readable, and its views valid, until the response. Send the response in the handler, in on_data, in
 * on_end, or through a deferred handle. In these callbacks a deferred response may be used directly, as in
 * uvhttp_deferred_run. The rules for the handler's return apply to the return of on_end: a response or a deferred
 * handle must exist then, and a streamed response that was begun is ended. After an early complete response, no further
 * bytes are delivered. Up to 64 KiB announced by Content-Length are discarded; with more, the connection closes after
 * the response (RFC 9112 section 9.6).
 *
 * Returns 0, UVHTTP_E_INVALID (a function is NULL) or UVHTTP_E_STATE (the wrong kind of route, called before, or too
 * late). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_request_on_body(uvhttp_request_t *req, uvhttp_body_data_cb on_data,
                                                            uvhttp_body_end_cb on_end, void *user);

/** Pauses or resumes on_data. While paused, the server stops reading the socket after 64 KiB and what is already
 * received, so that TCP slows the client down. With io_uring that can be all receive buffers of the loop, 1 MiB by
 * default. Paused time does not count for body_timeout and min_receive_rate.
 *
 * on_end may still be called: after the last bytes of a body with Content-Length, or on failure. A client that resets
 * the connection is noticed immediately. A client that closes it is noticed after its bytes were read. Both functions
 * are idempotent. They return 0, UVHTTP_E_STATE (uvhttp_request_on_body was not called, or the wrong thread) or
 * UVHTTP_E_ABORTED (the client has disconnected). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_request_pause_body(uvhttp_request_t *req);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_request_resume_body(uvhttp_request_t *req);

/** Pauses or resumes on_data from any thread, asynchronously. Returns 0, UVHTTP_E_INVALID, UVHTTP_E_NOMEM,
 * UVHTTP_E_ABORTED or UVHTTP_E_STATE (the response was already sent). */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_pause_body(uvhttp_deferred_t *deferred);
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_deferred_resume_body(uvhttp_deferred_t *deferred);

/** Receives a part's start, bytes or end (UVHTTP_MULTIPART_PART, _DATA, _PART_END). Views are valid during the call. No
 * event follows after the function has responded. */
typedef void (*uvhttp_multipart_cb)(uvhttp_request_t *req, uvhttp_response_t *res,
                                    const uvhttp_multipart_event_t *event, void *user);

UVHTTP_EXPORT UVHTTP_LOOP_THREAD UVHTTP_MUST_USE int
uvhttp_request_on_multipart_sized(uvhttp_request_t *req, const uvhttp_form_limits_t *limits, size_t limits_size,
                                  uvhttp_multipart_cb on_event, uvhttp_body_end_cb on_end, void *user);
/** Streams a multipart/form-data body as parts, by the rules of uvhttp_request_on_body. The body may have any size.
 * `limits` NULL means defaults. on_end gets UVHTTP_OK when the last boundary and the complete body have arrived. It may
 * also get UVHTTP_E_FORM_TOO_MANY_FIELDS and UVHTTP_E_MULTIPART_*; uvhttp_request_form lists the statuses that the
 * client receives unless on_end responds. A pause takes effect after the current bytes, at most
 * config.read_buffer_size: their events are still delivered. The parser takes 4.4 KiB of the request's memory.
 *
 * Returns 0, a code of uvhttp_request_on_body, UVHTTP_E_FORM_TYPE (415: no Content-Type, several, or another type; a
 * Content-Encoding), UVHTTP_E_MULTIPART_BOUNDARY (400), UVHTTP_E_INVALID (limits) or UVHTTP_E_NOMEM. On failure the
 * handler must respond. */
static inline UVHTTP_MUST_USE int uvhttp_request_on_multipart(uvhttp_request_t *req, const uvhttp_form_limits_t *limits,
                                                              uvhttp_multipart_cb on_event, uvhttp_body_end_cb on_end,
                                                              void *user) {
    return uvhttp_request_on_multipart_sized(req, limits, sizeof *limits, on_event, on_end, user);
}

/** Reads the next bytes of the body on a worker thread (UVHTTP_EXEC_WORKER; in a coroutine use uvhttp_coro_read_body).
 * Blocks until there are some. The view stays valid until the next call or the handler's return.
 * - Without `stream_body`, the buffered body is returned at once.
 * - With `stream_body`, the body has been spooled (route.h), so that the call never waits for the client. It returns at
 * most config.read_buffer_size bytes, also after the client has disconnected. Only UVHTTP_E_EOF, UVHTTP_E_IO (the
 * temporary file) and UVHTTP_E_NOMEM can occur.
 * - With `live_body`, bytes are returned as received. Between calls the body is paused (uvhttp_request_pause_body).
 * On failure *piece is empty.
 *
 * With `live_body`, `timeout_ms` is 1 or more (0 counts as 1), and body_timeout and min_receive_rate apply during the
 * call. Returns 0, UVHTTP_E_EOF (the end; trailers are available), UVHTTP_E_TIMEOUT (call again), UVHTTP_E_INVALID
 * (NULL), UVHTTP_E_STATE (not in such a handler), or the reason why the rest will never arrive: UVHTTP_E_ABORTED (the
 * client has disconnected, or the server stops), UVHTTP_E_LIMIT (http2_connection_memory_max), UVHTTP_E_HTTP_*,
 * UVHTTP_E_NOMEM. A time limit of the server is UVHTTP_E_HTTP_TIMEOUT or UVHTTP_E_RESPONSE_TIMEOUT. Every later call
 * returns such a reason immediately. In all these cases except UVHTTP_E_NOMEM, the client receives the server's
 * response instead of the handler's. */
UVHTTP_EXPORT UVHTTP_WORKER_THREAD UVHTTP_MUST_USE int
uvhttp_request_read_body(uvhttp_request_t *req, uvhttp_str_t *piece, uint32_t timeout_ms);

UVHTTP_EXPORT UVHTTP_WORKER_THREAD UVHTTP_MUST_USE int
uvhttp_request_save_form_sized(uvhttp_request_t *req, int directory, const uvhttp_form_limits_t *limits,
                               size_t limits_size, uvhttp_form_t **form);
/** Saves a multipart/form-data body of any size to disk, on a worker thread (UVHTTP_EXEC_WORKER), best on a route with
 * `stream_body`. It reads as uvhttp_request_read_body does without a timeout, and writes files while they arrive. A
 * slow disk slows the client down; at most one read is in memory. On return *form has the fields, and the files with
 * `saved` and without data.
 *
 * The caller keeps the descriptor `directory`. Files are named as by uvhttp_form_file_save with name NULL, with mode
 * 0600; other processes may see them grow. An empty file input creates no file. In `limits` (NULL: defaults),
 * part_size_max bounds each file and field_count_max their number; the route's body_size_max bounds the total. Field
 * values use the request's memory (config.request_memory_max). Nothing is synced to disk.
 *
 * On failure *form is NULL and saved files are removed. Returns 0, or a code for uvhttp_error_http_status: those of
 * uvhttp_request_form for multipart, those of uvhttp_request_read_body (after most of which no response can be sent),
 * UVHTTP_E_UPLOAD_NO_SPACE (507: disk or quota full, or the file is too large for the system), UVHTTP_E_LIMIT,
 * UVHTTP_E_PERMISSION, UVHTTP_E_IO (500), UVHTTP_E_NO_DESCRIPTORS (503), UVHTTP_E_INVALID or UVHTTP_E_STATE (not in
 * such a handler). */
static inline UVHTTP_MUST_USE int uvhttp_request_save_form(uvhttp_request_t *req, int directory,
                                                           const uvhttp_form_limits_t *limits, uvhttp_form_t **form) {
    return uvhttp_request_save_form_sized(req, directory, limits, sizeof *limits, form);
}

/** Reports progress of a body that is being saved: `received` bytes of it are in the file. `total` is the size
 * announced by Content-Length, or -1. It is called after each piece, on the handler's thread, and must not block for
 * long. The last call has the whole size unless the body is empty. With `live_body` it follows what the client sends; a
 * spooled body is complete before the handler runs (route.h). */
typedef void (*uvhttp_save_progress_cb)(uvhttp_request_t *req, uint64_t received, int64_t total, void *user);

/** Options. A field that is 0 has its default. */
typedef struct uvhttp_save_options {
    const char *name;                    /**< name of the file, as for uvhttp_form_file_save; default "upload" */
    uvhttp_save_progress_cb on_progress; /**< default: no callback */
    void *user;                          /**< argument of on_progress */
} uvhttp_save_options_t;

UVHTTP_EXPORT UVHTTP_WORKER_THREAD UVHTTP_MUST_USE int
uvhttp_request_save_body_sized(uvhttp_request_t *req, int directory, const uvhttp_save_options_t *options,
                               size_t options_size, char saved[UVHTTP_FORM_SAVED_NAME_SIZE], uint64_t *size);
/** Saves a body of any other type as one file, as uvhttp_form_file_save does. `options` NULL means defaults. `saved`
 * and `size` receive its name and its bytes, and may be NULL. Otherwise as uvhttp_request_save_form. */
static inline UVHTTP_MUST_USE int uvhttp_request_save_body(uvhttp_request_t *req, int directory,
                                                           const uvhttp_save_options_t *options,
                                                           char saved[UVHTTP_FORM_SAVED_NAME_SIZE], uint64_t *size) {
    return uvhttp_request_save_body_sized(req, directory, options, sizeof *options, saved, size);
}

UVHTTP_EXPORT UVHTTP_WORKER_THREAD UVHTTP_MUST_USE int
uvhttp_request_write_body_sized(uvhttp_request_t *req, int fd, const uvhttp_save_options_t *options,
                                size_t options_size, uint64_t *size);
/** Writes a body of any size to an open descriptor, from its current position on. For an upload that continues an
 * earlier one: open the file, seek to its end, and use a route with `live_body`, so that bytes are in the file when the
 * client disconnects. What was written stays, also on failure. `size` receives its bytes in both cases, and may be
 * NULL; when the disk is full, up to config.read_buffer_size more bytes may be in the file. The caller keeps `fd`.
 * `options` NULL means defaults; `name` must be NULL. Otherwise as uvhttp_request_save_form, without the codes of
 * forms. */
static inline UVHTTP_MUST_USE int uvhttp_request_write_body(uvhttp_request_t *req, int fd,
                                                            const uvhttp_save_options_t *options, uint64_t *size) {
    return uvhttp_request_write_body_sized(req, fd, options, sizeof *options, size);
}

/** Returns trailer fields of a chunked body (RFC 9110 section 6.5) after its end. The first function returns the value
 * of the first trailer named `name` (ASCII case ignored); `data` is NULL if there is none. The second returns trailers
 * in the order received, from index 0; false past the last one. Trailers never become header fields. Valid as long as
 * the request. */
UVHTTP_EXPORT UVHTTP_OWNER_THREAD uvhttp_str_t uvhttp_request_trailer(const uvhttp_request_t *req, const char *name);
UVHTTP_EXPORT UVHTTP_OWNER_THREAD bool uvhttp_request_trailer_at(const uvhttp_request_t *req, size_t index,
                                                                 uvhttp_str_t *name, uvhttp_str_t *value);

UVHTTP_END_DECLS

#endif
