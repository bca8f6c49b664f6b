/* Owns: WebSocket (RFC 6455) on routes of the HTTP server. Callbacks run on the loop thread of their connection and
 * must not block; a function that takes a uvhttp_ws_t is for that thread, and the pointer is valid until on_close
 * returns. Other threads use a uvhttp_ws_ref_t. */
#ifndef UVHTTP_WEBSOCKET_H
#define UVHTTP_WEBSOCKET_H

#include <uvhttp/error.h>
#include <uvhttp/request.h>
#include <uvhttp/response.h>
#include <uvhttp/route.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

typedef struct uvhttp_server uvhttp_server_t;
typedef struct uvhttp_ws uvhttp_ws_t;
typedef struct uvhttp_ws_ref uvhttp_ws_ref_t;

typedef enum uvhttp_ws_type { UVHTTP_WS_TEXT = 1, UVHTTP_WS_BINARY = 2 } uvhttp_ws_type_t;

/** Codes that a connection is closed with (RFC 6455 section 7.4); 3000..4999 are the application's. */
typedef enum uvhttp_ws_code {
    UVHTTP_WS_NORMAL = 1000,
    UVHTTP_WS_GOING_AWAY = 1001, /**< what a server that stops sends */
    UVHTTP_WS_PROTOCOL_ERROR = 1002,
    UVHTTP_WS_UNSUPPORTED_DATA = 1003,
    UVHTTP_WS_NO_CODE = 1005,  /**< on_close only: the peer's close had none */
    UVHTTP_WS_ABNORMAL = 1006, /**< on_close only: the connection ended without a close, or a time limit was reached */
    UVHTTP_WS_INVALID_DATA = 1007,
    UVHTTP_WS_POLICY = 1008,
    UVHTTP_WS_TOO_LARGE = 1009,
    UVHTTP_WS_INTERNAL_ERROR = 1011,
    UVHTTP_WS_TRY_LATER = 1013
} uvhttp_ws_code_t;

/** A whole message; text is valid UTF-8. data is valid until on_message returns, never NULL and not terminated. */
typedef struct uvhttp_ws_message {
    uvhttp_ws_type_t type;
    const char *data;
    size_t size; /**< bytes */
} uvhttp_ws_message_t;

#define UVHTTP_WS_NEVER UINT32_MAX /**< for a time: no limit */

/** 0 (NULL) in any field means its default, so that an initialiser names only what differs. Times are seconds,
 * 1..1,000,000 or UVHTTP_WS_NEVER. Everything is copied. */
typedef struct uvhttp_ws_options {
    uint64_t message_size_max;    /**< bytes of a message, fragments together, 1..2^32-1; default 1 MiB; more: 1009 */
    uint32_t fragments_max;       /**< frames of a message; default 131072; more: 1009 */
    uint32_t message_timeout;     /**< from the first byte of a message to its last; default 300; then 1008 */
    uint32_t ping_interval;       /**< without a byte from the client before a ping is sent; default 30 */
    uint32_t idle_timeout;        /**< without a byte from the client, or without it taking one of what is queued for
                                       it, before it is given up; default 75 */
    uint32_t close_timeout;       /**< for the client to answer our close frame; default 5 */
    uint32_t send_high_watermark; /**< bytes queued above which send reports backpressure; default 65536 */
    uint32_t send_queue_max;      /**< bytes queued at most; default 4 MiB */
    /** NULL-terminated: protocols that the server speaks (tokens). The first that the client offers and the server has
     * is chosen; if there is none the handshake goes on without (RFC 6455 section 4.2.2). Default: none. */
    const char *const *subprotocols;
    /** NULL-terminated: whose pages may connect, as browsers write it ("https://example.com", no slash at the end,
     * compared without case); "*": all. Others get 403. Default: pages of the same host and port as the request's. A
     * request without Origin is from no browser and is let through. */
    const char *const *origins;
} uvhttp_ws_options_t;

typedef struct uvhttp_ws_handlers {
    /** The request is a valid handshake from an allowed origin. UVHTTP_NEXT: accept it; headers set on res go out with
     * the 101, and uvhttp_request_data(req) becomes uvhttp_ws_data(ws). UVHTTP_STOP: it has answered res itself (401
     * ...). May be NULL: accept all. */
    uvhttp_flow_t (*on_upgrade)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
    /** The 101 is on its way; messages can be sent. May be NULL. */
    void (*on_open)(uvhttp_ws_t *ws, void *user);
    /** Required. */
    void (*on_message)(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user);
    /** After a send reported backpressure: the queue is empty again. May be NULL. */
    void (*on_drain)(uvhttp_ws_t *ws, void *user);
    /** Exactly once for each on_open, and the last call: the code and reason of the peer's close frame, or the code
     * that we have closed with because of an error of the peer, or UVHTTP_WS_ABNORMAL. The reason is valid in the call.
     * May be NULL. */
    void (*on_close)(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user);
    const uvhttp_ws_options_t *options; /**< NULL: defaults */
} uvhttp_ws_handlers_t;

/** Serves WebSocket at a pattern (route.h), for GET; handlers are copied. What is no handshake gets 426 (with the
 * version that is spoken), 400 or 403. Before the first listen or run. Returns 0, UVHTTP_E_INVALID (on_message is
 * missing), UVHTTP_E_CONFIG (an option out of range; the log says which), or a code of uvhttp_get. As with every
 * route, the first error is kept and returned by listen and run. */
UVHTTP_EXPORT int uvhttp_websocket(uvhttp_server_t *server, const char *pattern, const uvhttp_ws_handlers_t *handlers,
                                   void *user);
/** The same in a group, behind its prefix and middleware. */
UVHTTP_EXPORT int uvhttp_group_websocket(uvhttp_group_t *group, const char *pattern,
                                         const uvhttp_ws_handlers_t *handlers, void *user);

/** Queues a message, as one frame, a copy; all that is queued in one turn of the loop leaves in one send. Returns 0;
 * UVHTTP_E_AGAIN: taken, but the queue is above send_high_watermark: stop until on_drain; UVHTTP_E_LIMIT: not taken,
 * send_queue_max; UVHTTP_E_CLOSED: a close frame has been sent or received; UVHTTP_E_INVALID: text that is not UTF-8,
 * or an unknown type; UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size);
/** Bytes queued that the kernel has not taken. */
UVHTTP_EXPORT size_t uvhttp_ws_queued(const uvhttp_ws_t *ws);
/** Starts the close handshake (RFC 6455 section 7.1.2): what is queued goes out first, messages that still come are
 * dropped, on_close follows later with the peer's answer, or UVHTTP_WS_ABNORMAL after close_timeout. code: 1000..1003,
 * 1007..1014 or 3000..4999. reason: UTF-8, at most 123 bytes; NULL: none. Returns 0, UVHTTP_E_INVALID or
 * UVHTTP_E_CLOSED (closing already). */
UVHTTP_EXPORT int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason);
/** Stops and restarts reading, for an application that can not keep up. Messages that had come in the same receive are
 * still delivered. The client's silence is not held against it meanwhile. */
UVHTTP_EXPORT void uvhttp_ws_pause(uvhttp_ws_t *ws);
UVHTTP_EXPORT void uvhttp_ws_resume(uvhttp_ws_t *ws);
/** A pointer of the application's. */
UVHTTP_EXPORT void uvhttp_ws_set_data(uvhttp_ws_t *ws, void *data);
UVHTTP_EXPORT void *uvhttp_ws_data(const uvhttp_ws_t *ws);
/** The protocol that was agreed on; NULL if none. Valid as long as the server. */
UVHTTP_EXPORT const char *uvhttp_ws_subprotocol(const uvhttp_ws_t *ws);
/** As uvhttp_tcp_peer. */
UVHTTP_EXPORT int uvhttp_ws_peer(uvhttp_ws_t *ws, char *text, size_t size);

/** A counted handle for other threads; NULL when out of memory or closed. Release it with uvhttp_ws_ref_release. */
UVHTTP_EXPORT uvhttp_ws_ref_t *uvhttp_ws_ref(uvhttp_ws_t *ws);
/* Any thread: */
/** Sends a copy. Returns 0 (on its way; dropped if the connection closes first or its queue is at send_queue_max, which
 * counts in rejected_limit), UVHTTP_E_ABORTED (the connection is gone), UVHTTP_E_INVALID or UVHTTP_E_NOMEM. Order is
 * kept per thread. */
UVHTTP_EXPORT int uvhttp_ws_ref_send(uvhttp_ws_ref_t *ref, uvhttp_ws_type_t type, const void *data, size_t size);
/** uvhttp_ws_close. Returns 0, UVHTTP_E_ABORTED, UVHTTP_E_INVALID or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_ws_ref_close(uvhttp_ws_ref_t *ref, int code, const char *reason);
UVHTTP_EXPORT void uvhttp_ws_ref_retain(uvhttp_ws_ref_t *ref);
UVHTTP_EXPORT void uvhttp_ws_ref_release(uvhttp_ws_ref_t *ref);

UVHTTP_END_DECLS

#endif
