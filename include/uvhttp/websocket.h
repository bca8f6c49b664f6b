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

typedef struct uvhttp_ws uvhttp_ws_t;
typedef struct uvhttp_ws_ref_s uvhttp_ws_ref_t;

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

/** A piece of a message, as it has come: the client's frames are not told apart. Text is valid UTF-8 as a whole; a
 * piece may end inside a character. data is valid until on_fragment returns, never NULL and not terminated. */
typedef struct uvhttp_ws_fragment {
    uvhttp_ws_type_t type; /**< of the message */
    bool first, last;      /**< the message begins, ends with this piece */
    const char *data;
    size_t size; /**< bytes; may be 0 */
} uvhttp_ws_fragment_t;

/** 0 (NULL) in any field means its default, so that an initialiser names only what differs. Times are seconds,
 * 1..1,000,000 or UVHTTP_NEVER. Everything is copied. */
typedef struct uvhttp_ws_options {
    uint64_t message_size_max;    /**< bytes of a message, fragments together and inflated, 1..2^32-1; default 1 MiB;
                                       with on_fragment 1..2^63-1, default 1 GiB; more: 1009 */
    uint32_t fragments_max;       /**< frames of a message; default 131072; more: 1009 */
    uint32_t message_timeout;     /**< from the first byte of a message to its last; default 300; then 1008 */
    uint32_t ping_interval;       /**< without a byte from the client before a ping is sent; default 30 */
    uint32_t idle_timeout;        /**< without a byte from the client, or without it taking one of what is queued for
                                       it, before it is given up; default 75 */
    uint32_t close_timeout;       /**< for the client to answer our close frame; default 5 */
    uint32_t send_high_watermark; /**< bytes queued above which send reports backpressure; default 65536 */
    uint32_t send_queue_max;      /**< bytes queued at most; default 4 MiB */
    uint32_t min_send_rate; /**< bytes per second that a client must acknowledge of what waits for it, also of what
                                 the kernel holds already; what it acknowledges ahead counts for rate_grace
                                 seconds; 1..2^30 or UVHTTP_NEVER; default 240; then it is reset */
    uint32_t rate_grace;    /**< seconds that it may take nothing for; default 5 */
    /** permessage-deflate (RFC 7692) with clients that offer it; default false. A build without compression
     * declines all offers, and says so in the log. Secrets do not belong into one message with what others choose: the
     * size tells. */
    bool compression;
    /** Messages may refer to those before: smaller, for about 300 KB per connection that sends and receives; default
     * false: a connection needs memory for compression only while a compressed message of it is incomplete. */
    bool context_takeover;
    uint32_t compression_level;        /**< 1 (fast)..9 (small); default 4 */
    uint32_t compression_memory_level; /**< 1..9: 2^(n+9) bytes of a compressor; default 8 */
    uint32_t compression_size_min;     /**< bytes; smaller messages go as they are; default 256 */
    uint32_t server_window_bits;       /**< 9..15: 2^(n+2) bytes of a compressor; default 15 */
    uint32_t client_window_bits;       /**< 9..15: asked of clients that can be asked; default 15 */
    uint32_t topics_max;               /**< of a connection; default 64; more: subscribe returns UVHTTP_E_LIMIT */
    uint32_t topic_size_max;           /**< bytes of a topic, 1..65535; default 128 */
    uint32_t subscriptions_max;        /**< of all connections of the route; default 1,000,000 */
    bool publish_to_self;              /**< uvhttp_ws_publish reaches the publishing connection, too; default false */
    /** What happens to a subscriber whose queue has no room below send_queue_max: true: it is reset; false (default):
     * the publication is left out for it. */
    bool drop_slow_subscribers;
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
    /** Required, unless there is on_fragment. */
    void (*on_message)(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user);
    /** Instead of on_message: messages in pieces as they come, for those that are not to stand in memory as a whole.
     * uvhttp_ws_pause works between two pieces. A message of which the end does not come ends with on_close. */
    void (*on_fragment)(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user);
    /** After a send reported backpressure, or publications filled the queue that far: it is empty again. May be NULL.
     */
    void (*on_drain)(uvhttp_ws_t *ws, void *user);
    /** Exactly once for each on_open, and the last call: the code and reason of the peer's close frame, or the code
     * that we have closed with because of an error of the peer, or UVHTTP_WS_ABNORMAL. The reason is valid in the call.
     * May be NULL. */
    void (*on_close)(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user);
    const uvhttp_ws_options_t *options; /**< NULL: defaults */
    /** The server begins to stop: last messages can be sent; the connection is closed with UVHTTP_WS_GOING_AWAY when
     * this returns, if it has not been closed in it. May be NULL. */
    void (*on_stop)(uvhttp_ws_t *ws, void *user);
} uvhttp_ws_handlers_t;

/** Serves WebSocket at a pattern (route.h), for GET. A request that is no handshake gets 426 (with the version that the
 * server speaks), 400 or 403. `handlers` and the options in it are copied; `user` must live as long as the server.
 * Before the first listen or run, on the registering thread. Returns the route, for uvhttp_route_use; options do not
 * apply to it. NULL: it was refused (on_message and on_fragment are both missing or both set, an option is out of
 * range, or for a reason of uvhttp_get); listen returns the code, and uvhttp_server_error_text and the log say why. RFC
 * 6455 section 4.2, for HTTP/2 RFC 8441. */
UVHTTP_EXPORT uvhttp_route_t *uvhttp_websocket(uvhttp_server_t *server, const char *pattern,
                                               const uvhttp_ws_handlers_t *handlers, void *user);
/** The same in a group, behind its prefix and middleware. */
UVHTTP_EXPORT uvhttp_route_t *uvhttp_group_websocket(uvhttp_group_t *group, const char *pattern,
                                                     const uvhttp_ws_handlers_t *handlers, void *user);

/** Queues a message, as one frame, a copy; all that is queued in one turn of the loop leaves in one send. It waits
 * behind a message that is being sent in pieces. Returns 0; UVHTTP_E_AGAIN: taken, but the queue is above
 * send_high_watermark: stop until on_drain; UVHTTP_E_LIMIT: not taken, send_queue_max; UVHTTP_E_CLOSED: a close frame
 * has been sent or received; UVHTTP_E_INVALID: text that is not UTF-8, or an unknown type; UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size);
/** Begins a message that is sent in pieces, uncompressed. Nothing goes out yet. Returns 0, UVHTTP_E_CLOSED,
 * UVHTTP_E_INVALID (type), UVHTTP_E_STATE (another has not ended) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_ws_begin(uvhttp_ws_t *ws, uvhttp_ws_type_t type);
/** Queues the next piece, as a frame, a copy. Text may be cut anywhere. Returns as uvhttp_ws_send (after
 * UVHTTP_E_AGAIN: go on in on_drain), or UVHTTP_E_STATE: no message has begun. */
UVHTTP_EXPORT int uvhttp_ws_write(uvhttp_ws_t *ws, const void *data, size_t size);
/** Ends the message; what has waited behind it follows. Returns 0, UVHTTP_E_CLOSED, UVHTTP_E_STATE, UVHTTP_E_INVALID
 * (the text ends inside a character: go on, or close) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT int uvhttp_ws_end(uvhttp_ws_t *ws);
/** Bytes queued that the kernel has not taken. */
UVHTTP_EXPORT size_t uvhttp_ws_queued(const uvhttp_ws_t *ws);
/** Starts the close handshake (RFC 6455 section 7.1.2): what is queued goes out first, messages that still come are
 * dropped, on_close follows later with the peer's answer, or UVHTTP_WS_ABNORMAL after close_timeout. code: 1000..1003,
 * 1007..1014 or 3000..4999. reason: UTF-8, at most 123 bytes; NULL: none. Returns 0, UVHTTP_E_INVALID or
 * UVHTTP_E_CLOSED (closing already). */
UVHTTP_EXPORT int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason);
/** Stops and restarts reading, for an application that cannot keep up. No message follows until uvhttp_ws_resume; of a
 * compressed one on_fragment may get up to 256 KiB more. The client's silence is not held against it meanwhile. */
UVHTTP_EXPORT void uvhttp_ws_pause(uvhttp_ws_t *ws);
UVHTTP_EXPORT void uvhttp_ws_resume(uvhttp_ws_t *ws);
/** A pointer of the application's. */
UVHTTP_EXPORT void uvhttp_ws_set_data(uvhttp_ws_t *ws, void *data);
UVHTTP_EXPORT void *uvhttp_ws_data(const uvhttp_ws_t *ws);
/** The protocol that was agreed on; NULL if none. Valid as long as the server. */
UVHTTP_EXPORT const char *uvhttp_ws_subprotocol(const uvhttp_ws_t *ws);
/** As uvhttp_tcp_peer. */
UVHTTP_EXPORT int uvhttp_ws_peer(uvhttp_ws_t *ws, char *text, size_t size);

/** Whether messages may be compressed on this connection. */
UVHTTP_EXPORT bool uvhttp_ws_is_compressed(const uvhttp_ws_t *ws);

/* Topics are texts of the server, the same on all routes and loops; one exists as long as it has a subscriber. */
/** The connection gets what is published to the topic from now on. Returns 0 (also if it had subscribed),
 * UVHTTP_E_INVALID (an empty topic, or one above topic_size_max), UVHTTP_E_LIMIT (topics_max or subscriptions_max),
 * UVHTTP_E_CLOSED or UVHTTP_E_NOMEM. A connection that closes unsubscribes by itself. */
UVHTTP_EXPORT int uvhttp_ws_subscribe(uvhttp_ws_t *ws, const char *topic);
/** Returns 0 or UVHTTP_E_NOT_FOUND. */
UVHTTP_EXPORT int uvhttp_ws_unsubscribe(uvhttp_ws_t *ws, const char *topic);
/** Sends a message to all subscribers of a topic but, unless publish_to_self, this connection, which need not be one.
 * It is encoded, and compressed, once. What one thread publishes arrives in that order. Returns 0 (on its way; also if
 * nobody has subscribed), UVHTTP_E_INVALID (type, or text that is not UTF-8), UVHTTP_E_LIMIT (64 MiB of publications
 * wait for the loops) or UVHTTP_E_NOMEM (it may have gone to some of the loops). */
UVHTTP_EXPORT int uvhttp_ws_publish(uvhttp_ws_t *ws, const char *topic, uvhttp_ws_type_t type, const void *data,
                                    size_t size);
/** The same to all subscribers, from any thread. UVHTTP_E_STATE: the server has no WebSocket route. */
UVHTTP_EXPORT int uvhttp_websocket_publish(uvhttp_server_t *server, const char *topic, uvhttp_ws_type_t type,
                                           const void *data, size_t size);

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
