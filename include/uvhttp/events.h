/* Owns: server-sent events (HTML Standard, section 9.2): a response that does not end, to which any thread sends
 * events. For a client of HTTP/1.1 it is a chunked response, of HTTP/2 a stream. */
#ifndef UVHTTP_EVENTS_H
#define UVHTTP_EVENTS_H

#include <uvhttp/error.h>
#include <uvhttp/response.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

/** An open event stream. Reference-counted. */
typedef struct uvhttp_events uvhttp_events_t;

/** The end of a stream, exactly once for each that uvhttp_events_open has opened, on the loop's thread. status:
 * UVHTTP_OK, the application or a stop of the server has ended it and all of it was sent; UVHTTP_E_ABORTED, the client
 * has gone; UVHTTP_E_LIMIT, it did not read and was cut off (queue_max). What is sent from now on is refused. */
typedef void (*uvhttp_events_close_cb)(uvhttp_events_t *events, int status, void *user);

#define UVHTTP_EVENTS_HEARTBEAT_MS 15000u /**< default of heartbeat_ms */
#define UVHTTP_EVENTS_QUEUE_SIZE 262144u  /**< default of queue_max */

/** A field that is 0 has its default. Copied. */
typedef struct uvhttp_events_options {
    uint32_t heartbeat_ms; /**< ms without an event after which a comment is sent, which keeps proxies from closing the
                                connection and shows that a client has gone; 1..86,400,000, or UINT32_MAX: never;
                              default UVHTTP_EVENTS_HEARTBEAT_MS */
    uint64_t queue_max;    /**< bytes that wait for a client that does not read, 1024..; a client for which more would
                                wait is cut off, and counted (events_clients_dropped). So many again can be on their way
                                from the threads that send. config.write_queue_max holds as well. Default
                                UVHTTP_EVENTS_QUEUE_SIZE */
    uvhttp_events_close_cb on_close; /**< default: nobody is called */
    void *user;                      /**< for on_close */
} uvhttp_events_options_t;

/** An event. A field that is 0 is not sent. */
typedef struct uvhttp_event {
    uvhttp_str_t data; /**< UTF-8; may hold line breaks (LF, CR, CRLF), which the client gets as LF. Without data (data
                            NULL) no event is dispatched: only `id` and `retry_ms` count */
    const char *event; /**< its type, without line breaks; default: "message" */
    const char *id; /**< what the client sends as Last-Event-ID when it connects again, without line breaks. "" resets
                         it */
    uint32_t retry_ms; /**< ms that the client waits before it connects again */
} uvhttp_event_t;

/** Opens an event stream as the response: defers it, and sends 200 with Content-Type "text/event-stream" and, unless
 * the handler has set one, "Cache-Control: no-store". In a handler or middleware on the loop or a worker thread, before
 * anything was responded; not in a coroutine. The handler returns; the request stays readable until the stream has
 * ended. For HEAD the response ends at once. options NULL: defaults. When the server stops, the stream is ended.
 *
 * *events is the caller's reference, and NULL on failure. Returns 0, UVHTTP_E_INVALID (an argument is NULL, or an
 * option out of range), UVHTTP_E_STATE (responded, begun or deferred already, or a coroutine) or UVHTTP_E_NOMEM. After
 * a failure the handler responds as it would otherwise, unless the memory ran out after the response was deferred: then
 * the client gets a 500. */
UVHTTP_EXPORT UVHTTP_MUST_USE int uvhttp_events_open(uvhttp_response_t *res, const uvhttp_events_options_t *options,
                                                     uvhttp_events_t **events);

/** Sends an event; copies. Never blocks, and keeps the order of each thread. Any thread. Returns 0 (on its way; it is
 * lost if the client goes first), UVHTTP_E_ABORTED (the stream has ended), UVHTTP_E_LIMIT (larger than queue_max, or
 * queue_max bytes are on their way to the loop: this event was dropped), UVHTTP_E_INVALID (an argument is NULL, a line
 * break in `id` or `event`, or all fields 0) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_events_send(uvhttp_events_t *events, const uvhttp_event_t *event);

/** Ends the stream behind what this thread has sent; on_close follows. Any thread. A browser connects again, unless an
 * event has told the page otherwise or the next response is a 204. Returns 0 or UVHTTP_E_ABORTED (it has ended). */
UVHTTP_EXPORT int uvhttp_events_close(uvhttp_events_t *events);

/** Another reference. Any thread that has one. Returns events. */
UVHTTP_EXPORT uvhttp_events_t *uvhttp_events_retain(uvhttp_events_t *events);
/** Gives a reference back. The last one ends the stream, as uvhttp_events_close. A reference keeps the memory of the
 * request, so release it in on_close at the latest. NULL is allowed. Any thread. */
UVHTTP_EXPORT void uvhttp_events_release(uvhttp_events_t *events);

UVHTTP_END_DECLS

#endif
