/* Owns: server-sent events (HTML Standard, section 9.2): a response without an end, to which any thread sends events.
 * Over HTTP/1.1 it is a chunked response, over HTTP/2 a stream. */
#ifndef UVHTTP_EVENTS_H
#define UVHTTP_EVENTS_H

#include <uvhttp/error.h>
#include <uvhttp/response.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** An open event stream. Reference-counted. */
typedef struct uvhttp_events uvhttp_events_t;

/** Called exactly once at the end of each stream that uvhttp_events_open has opened, on the loop's thread. Later sends
 * are refused. `status` is UVHTTP_OK (the application or a stop of the server has ended the stream, and all of it was
 * sent), UVHTTP_E_ABORTED (the client has disconnected), UVHTTP_E_LIMIT (the client did not read and was cut off, see
 * queue_max) or UVHTTP_E_NOMEM (no memory: the client got 503 if the stream had not started, and was cut off
 * otherwise). */
typedef void (*uvhttp_events_close_cb)(uvhttp_events_t *events, int status, void *user);

#define UVHTTP_EVENTS_HEARTBEAT_MS 15000u /**< default of heartbeat_ms */
#define UVHTTP_EVENTS_QUEUE_SIZE 262144u  /**< default of queue_max */

/** Options. A field that is 0 has its default. Everything is copied. */
typedef struct uvhttp_events_options {
    uint32_t heartbeat_ms; /**< ms without an event after which a comment is sent. It keeps proxies from closing the
                              connection, and detects that a client has disconnected. It is left out while so much is
                              queued that it does not fit. 1..86,400,000 or UVHTTP_NEVER;
                              default UVHTTP_EVENTS_HEARTBEAT_MS */
    uint64_t queue_max;    /**< bytes that may wait for a client that does not read, 1024 or more. A client for which
                              more would wait is cut off, and counted (events_clients_dropped). The same number of bytes
                              may be queued from sending threads to the loop. config.write_queue_max holds as well.
                              Default UVHTTP_EVENTS_QUEUE_SIZE */
    uvhttp_events_close_cb on_close; /**< default: no callback */
    void *user;                      /**< argument of on_close */
} uvhttp_events_options_t;

/** An event. A field that is 0 is not sent. */
typedef struct uvhttp_event {
    uvhttp_str_t data; /**< UTF-8. It may contain line breaks (LF, CR, CRLF), which the client receives as LF. Without
                          data (data NULL) the client dispatches no event: only `id` and `retry_ms` have an effect */
    const char *event; /**< type, without line breaks; default "message" */
    const char *id;    /**< what the client sends as Last-Event-ID when it connects again, without line breaks. ""
                          resets it */
    uint32_t retry_ms; /**< ms that the client waits before it connects again */
} uvhttp_event_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD UVHTTP_MUST_USE int uvhttp_events_open_sized(uvhttp_response_t *res,
                                                                               const uvhttp_events_options_t *options,
                                                                               size_t options_size,
                                                                               uvhttp_events_t **events);
/** Opens an event stream as the response. It defers the response and sends 200 with Content-Type "text/event-stream",
 * and "Cache-Control: no-store" unless the handler has set that field. Call it in a handler or middleware on the loop
 * or a worker thread, before any response; not in a coroutine. The handler returns, and the request stays readable
 * until the stream has ended. For HEAD the response ends at once. A stop of the server ends the stream. `options` NULL
 * means defaults.
 *
 * *events receives a reference that the caller must release; NULL on failure. Returns 0, UVHTTP_E_INVALID (an argument
 * is NULL, or an option out of range), UVHTTP_E_STATE (already responded, begun or deferred, or in a coroutine),
 * UVHTTP_E_LIMIT (the maximum of header fields, see uvhttp_response_header) or UVHTTP_E_NOMEM. After a failure the
 * handler can still respond, unless memory ran out after the response was deferred: then the client gets 500. */
static inline UVHTTP_MUST_USE int uvhttp_events_open(uvhttp_response_t *res, const uvhttp_events_options_t *options,
                                                     uvhttp_events_t **events) {
    return uvhttp_events_open_sized(res, options, sizeof *options, events);
}

/** Sends an event, which is copied. Never blocks, and keeps the order of each thread. Returns 0 (queued; it is lost if
 * the client disconnects first), UVHTTP_E_ABORTED (the stream has ended), UVHTTP_E_LIMIT (larger than queue_max, or
 * queue_max bytes are queued to the loop: this event was dropped), UVHTTP_E_INVALID (an argument is NULL, a line break
 * in `id` or `event`, or all fields 0) or UVHTTP_E_NOMEM. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_events_send(uvhttp_events_t *events, const uvhttp_event_t *event);

/** Ends the stream after the events that this thread has sent; on_close follows. A browser connects again, unless the
 * page closes its EventSource or the next response is 204. Returns 0, UVHTTP_E_ABORTED (the stream has ended) or
 * UVHTTP_E_INVALID (NULL). Any thread.
 */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_events_close(uvhttp_events_t *events);

/** Adds a reference and returns `events`. Any thread that holds one. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_events_t *uvhttp_events_retain(uvhttp_events_t *events);
/** Releases a reference. The last one ends the stream, as uvhttp_events_close does. A reference keeps the memory of the
 * request: release it in on_close at the latest. NULL is allowed. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_events_release(uvhttp_events_t *events);

UVHTTP_END_DECLS

#endif
