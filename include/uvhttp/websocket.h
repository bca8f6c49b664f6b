/* Owns: WebSocket (RFC 6455) on routes of the HTTP server. Callbacks run on the loop thread of their connection and
 * must not block. Functions with a uvhttp_ws_t are for that thread; the pointer is valid until on_close returns. Other
 * threads use a uvhttp_ws_ref_t. */
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

/** Close codes (RFC 6455 section 7.4). 3000..4999 belong to the application. */
typedef enum uvhttp_ws_code {
    UVHTTP_WS_NORMAL = 1000,
    UVHTTP_WS_GOING_AWAY = 1001, /**< sent by a server that stops */
    UVHTTP_WS_PROTOCOL_ERROR = 1002,
    UVHTTP_WS_UNSUPPORTED_DATA = 1003,
    UVHTTP_WS_NO_CODE = 1005, /**< on_close only: the peer's close frame had no code */
    UVHTTP_WS_ABNORMAL =
        1006, /**< on_close only: the connection ended without a close frame, or a time limit was reached */
    UVHTTP_WS_INVALID_DATA = 1007,
    UVHTTP_WS_POLICY = 1008,
    UVHTTP_WS_TOO_LARGE = 1009,
    UVHTTP_WS_INTERNAL_ERROR = 1011,
    UVHTTP_WS_TRY_LATER = 1013
} uvhttp_ws_code_t;

/** A complete message. Text is valid UTF-8. `data` is valid until on_message returns, never NULL, and not terminated.
 */
typedef struct uvhttp_ws_message {
    uvhttp_ws_type_t type;
    const char *data;
    size_t size; /**< bytes */
} uvhttp_ws_message_t;

/** A part of a message as received, regardless of the client's frames. The whole text is valid UTF-8; a part may end
 * inside a character. `data` is valid until on_fragment returns, never NULL, and not terminated. */
typedef struct uvhttp_ws_fragment {
    uvhttp_ws_type_t type; /**< of the message */
    bool first, last;      /**< the message starts, ends with this part */
    const char *data;
    size_t size; /**< bytes; may be 0 */
} uvhttp_ws_fragment_t;

/** Options. 0 or NULL in a field means its default, so that an initialiser names only what differs. Times are in
 * seconds, 1..1,000,000 or UVHTTP_NEVER. Everything is copied. */
typedef struct uvhttp_ws_options {
    uint64_t message_size_max; /**< bytes of a message after inflation, 1..2^32-1; default 1 MiB; with
                                  on_fragment 1..2^63-1, default 1 GiB. Above: close code 1009 */
    uint32_t fragments_max;    /**< frames of a message; default 131072. Above: 1009 */
    uint32_t message_timeout;  /**< from the first byte of a message to its last; default 300. Above: 1008 */
    uint32_t ping_interval;    /**< time without a byte from the client before a ping is sent; default 30 */
    uint32_t idle_timeout; /**< time without a byte from the client, or without one of the queued bytes sent, before the
                              connection is aborted; default 75 */
    uint32_t close_timeout;       /**< time that the client has to reply to our close frame; default 5 */
    uint32_t send_high_watermark; /**< queued bytes above which send reports backpressure; default 65536 */
    uint32_t send_queue_max;      /**< maximum of queued bytes; default 4 MiB */
    uint32_t min_send_rate; /**< bytes per second at which a client must acknowledge queued output, including what the
                               kernel holds; below it the connection is reset. Bytes acknowledged ahead count for
                               rate_grace seconds. 1..2^30 or UVHTTP_NEVER; default 240 */
    uint32_t rate_grace;    /**< seconds for which it may acknowledge nothing; default 5 */
    /** permessage-deflate (RFC 7692) with clients that offer it; default false. A build without compression declines
     * all offers and logs that. Do not mix secrets with data of others in one message: its size reveals them. */
    bool compression;
    /** Messages may refer to earlier ones: they are smaller, for about 300 KB per connection that sends and receives.
     * Default false: a connection uses memory for compression only while a compressed message is incomplete. */
    bool context_takeover;
    uint32_t compression_level;        /**< 1 (fast)..9 (small); default 4 */
    uint32_t compression_memory_level; /**< 1..9; a compressor has 2^(n+9) bytes; default 8 */
    uint32_t compression_size_min;     /**< bytes; smaller messages are not compressed; default 256 */
    uint32_t server_window_bits;       /**< 9..15; a compressor has 2^(n+2) bytes; default 15 */
    uint32_t client_window_bits;       /**< 9..15; requested from clients that support it; default 15 */
    uint32_t topics_max;        /**< topics of a connection; default 64. Above: subscribe returns UVHTTP_E_LIMIT */
    uint32_t topic_size_max;    /**< bytes of a topic, 1..65535; default 128 */
    uint32_t subscriptions_max; /**< subscriptions of all connections of the route; default 1,000,000 */
    bool publish_to_self;       /**< uvhttp_ws_publish also reaches the publishing connection; default false */
    /** What happens to a subscriber whose queue would exceed send_queue_max. true: the connection is reset. false
     * (default): it misses the publication. */
    bool drop_slow_subscribers;
    /** Subprotocols that the server speaks (tokens), terminated by NULL. The first one offered by the client that the
     * server has is selected. If there is none, the handshake continues without a subprotocol (RFC 6455 section 4.2.2).
     * Default: none. */
    const char *const *subprotocols;
    /** Origins whose pages may connect, terminated by NULL. Write them as browsers do ("https://example.com", without a
     * final slash); case is ignored. "*" permits all. Other origins get 403. Default: pages with the host and port of
     * the request. A request without Origin does not come from a browser and is permitted. */
    const char *const *origins;
} uvhttp_ws_options_t;

typedef struct uvhttp_ws_handlers {
    /** Called for a valid handshake from a permitted origin. UVHTTP_NEXT accepts it: header fields set on `res` are
     * sent with the 101, and uvhttp_request_data(req) becomes uvhttp_ws_data(ws). UVHTTP_STOP: the function has set
     * another response (401 ...). May be NULL: all are accepted. */
    uvhttp_flow_t (*on_upgrade)(uvhttp_request_t *req, uvhttp_response_t *res, void *user);
    /** The connection is open and messages can be sent. May be NULL. */
    void (*on_open)(uvhttp_ws_t *ws, void *user);
    /** A message has arrived. Required, unless on_fragment is set. */
    void (*on_message)(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user);
    /** Set it instead of on_message to receive messages in parts, without buffering whole messages. uvhttp_ws_pause
     * works between two parts. A message that never ends is ended by on_close. */
    void (*on_fragment)(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user);
    /** The queue is empty again, after a send reported backpressure or publications filled it. May be NULL. */
    void (*on_drain)(uvhttp_ws_t *ws, void *user);
    /** The last call, exactly once per on_open. `code` and `reason` are those of the peer's close frame. After an error
     * of the peer, `code` is the code that the server sent, else UVHTTP_WS_ABNORMAL. `reason` is valid during the call.
     * May be NULL. */
    void (*on_close)(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user);
    const uvhttp_ws_options_t *options; /**< NULL: defaults */
    /** The server starts to stop. Last messages can be sent. After the call the connection is closed with
     * UVHTTP_WS_GOING_AWAY, unless the function has closed it. May be NULL. */
    void (*on_stop)(uvhttp_ws_t *ws, void *user);
} uvhttp_ws_handlers_t;

UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *uvhttp_websocket_sized(uvhttp_server_t *server, const char *pattern,
                                                                         const uvhttp_ws_handlers_t *handlers,
                                                                         size_t handlers_size, size_t options_size,
                                                                         void *user);
/** Serves WebSocket at a pattern (route.h), for GET. The handlers and their options are copied; `user` must live as
 * long as the server. A request that is not a handshake gets 426 (with the supported version), 400 or 403. Call it
 * before the first listen or run. Returns the route, for uvhttp_route_use; options of routes do not apply to it. NULL
 * means that it was refused: UVHTTP_E_INVALID (on_message and on_fragment are both missing, or both set),
 * UVHTTP_E_CONFIG (an option out of range; the log names it), or a code of uvhttp_get. The server keeps the first
 * error, and listen and run return it. RFC 6455 section 4.2, RFC 8441 for HTTP/2. */
static inline uvhttp_route_t *uvhttp_websocket(uvhttp_server_t *server, const char *pattern,
                                               const uvhttp_ws_handlers_t *handlers, void *user) {
    return uvhttp_websocket_sized(server, pattern, handlers, sizeof *handlers, sizeof *handlers->options, user);
}
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_route_t *
uvhttp_group_websocket_sized(uvhttp_group_t *group, const char *pattern, const uvhttp_ws_handlers_t *handlers,
                             size_t handlers_size, size_t options_size, void *user);
/** Serves WebSocket in a group, with its prefix and middleware. */
static inline uvhttp_route_t *uvhttp_group_websocket(uvhttp_group_t *group, const char *pattern,
                                                     const uvhttp_ws_handlers_t *handlers, void *user) {
    return uvhttp_group_websocket_sized(group, pattern, handlers, sizeof *handlers, sizeof *handlers->options, user);
}

/** Queues a copy of a message as one frame. All messages queued in one loop iteration leave in one send. A message
 * waits while a streamed message is open, and is lost if the connection closes before uvhttp_ws_end; the counter
 * rejected_closed counts it. If there is no memory for it at that end, the connection is reset. Returns:
 * - 0;
 * - UVHTTP_E_AGAIN: queued, but the queue is above send_high_watermark: stop until on_drain;
 * - UVHTTP_E_LIMIT: not queued because of send_queue_max;
 * - UVHTTP_E_CLOSED: a close frame was sent or received;
 * - UVHTTP_E_INVALID: text that is not UTF-8, or an unknown type; UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_send(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data,
                                                    size_t size);
/** Starts a streamed, uncompressed message. Nothing is sent yet. Returns 0, UVHTTP_E_CLOSED, UVHTTP_E_INVALID (type),
 * UVHTTP_E_STATE (another streamed message is open) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_begin(uvhttp_ws_t *ws, uvhttp_ws_type_t type);
/** Queues a copy of the next part of a streamed message as one frame. Text may be split anywhere. Returns as
 * uvhttp_ws_send does (after UVHTTP_E_AGAIN, continue in on_drain), or UVHTTP_E_STATE (no message was started). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_write(uvhttp_ws_t *ws, const void *data, size_t size);
/** Ends a streamed message; messages that waited for it follow. Returns 0, UVHTTP_E_CLOSED, UVHTTP_E_STATE,
 * UVHTTP_E_INVALID (the text ends inside a character: continue, or close) or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_end(uvhttp_ws_t *ws);
/** Returns the number of queued bytes that the kernel has not accepted. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD size_t uvhttp_ws_queued(const uvhttp_ws_t *ws);
/** Starts the close handshake (RFC 6455 section 7.1.2). Queued messages are sent first. Messages that still arrive are
 * dropped. Call uvhttp_ws_end before, if a streamed message is open: the client discards one without an end, and the
 * messages that wait for its end are not sent (sections 5.4 and 5.5.1). on_close follows with the peer's code, or with
 * UVHTTP_WS_ABNORMAL after close_timeout. `code` is 1000..1003, 1007..1014 or 3000..4999. `reason` is UTF-8 of at most
 * 123 bytes; NULL means none. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_CLOSED (already closing). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_close(uvhttp_ws_t *ws, int code, const char *reason);
/** Pauses or resumes reading, for an application that cannot keep up. No message arrives until uvhttp_ws_resume; of a
 * compressed message, on_fragment may get up to 256 KiB more. A pause counts for no time limit of the client. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_ws_pause(uvhttp_ws_t *ws);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_ws_resume(uvhttp_ws_t *ws);
/** Stores or returns a pointer of the application. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_ws_set_data(uvhttp_ws_t *ws, void *data);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void *uvhttp_ws_data(const uvhttp_ws_t *ws);
/** Returns the selected subprotocol, or NULL. Valid as long as the server. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD const char *uvhttp_ws_subprotocol(const uvhttp_ws_t *ws);
/** Writes the peer's address, as uvhttp_tcp_peer does. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_peer(uvhttp_ws_t *ws, char *text, size_t size);

/** Returns whether messages may be compressed on this connection. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD bool uvhttp_ws_is_compressed(const uvhttp_ws_t *ws);

/* Topics are strings, shared by all routes and loops of a server. A topic exists as long as it has a subscriber. */
/** Subscribes the connection to a topic. Returns 0 (also if it was subscribed before), UVHTTP_E_INVALID (an empty
 * topic, or one above topic_size_max), UVHTTP_E_LIMIT (topics_max or subscriptions_max), UVHTTP_E_CLOSED or
 * UVHTTP_E_NOMEM. Closing the connection unsubscribes it. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_subscribe(uvhttp_ws_t *ws, const char *topic);
/** Unsubscribes the connection from a topic. Returns 0 or UVHTTP_E_NOT_FOUND. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_unsubscribe(uvhttp_ws_t *ws, const char *topic);
/** Sends a message to all subscribers of a topic. Without publish_to_self, this connection is excluded; it need not be
 * a subscriber. The message is encoded and compressed once. Messages of one thread arrive in order. Returns 0 (queued,
 * also without subscribers), UVHTTP_E_INVALID (type, or text that is not UTF-8), UVHTTP_E_LIMIT (64 MiB of publications
 * are queued for the loops) or UVHTTP_E_NOMEM (some loops may have received it). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_ws_publish(uvhttp_ws_t *ws, const char *topic, uvhttp_ws_type_t type,
                                                       const void *data, size_t size);
/** Sends a message to all subscribers of a topic, from any thread. Returns as uvhttp_ws_publish does, or
 * UVHTTP_E_STATE (the server has no WebSocket route). */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_websocket_publish(uvhttp_server_t *server, const char *topic,
                                                             uvhttp_ws_type_t type, const void *data, size_t size);

/** Returns a reference-counted handle for other threads, or NULL when out of memory or closed. Release it with
 * uvhttp_ws_ref_release. The functions below return UVHTTP_E_INVALID for NULL, or do nothing. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD uvhttp_ws_ref_t *uvhttp_ws_ref(uvhttp_ws_t *ws);
/* Any thread: */
/** Sends a copy. Returns 0 (queued), UVHTTP_E_ABORTED (the connection has ended), UVHTTP_E_INVALID or UVHTTP_E_NOMEM. A
 * queued message is dropped if the connection closes first, or if its queue is at send_queue_max; that counts in
 * rejected_limit. Messages of one thread keep their order. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_ws_ref_send(uvhttp_ws_ref_t *ref, uvhttp_ws_type_t type, const void *data,
                                                       size_t size);
/** Closes the connection as uvhttp_ws_close does. Returns 0, UVHTTP_E_ABORTED, UVHTTP_E_INVALID or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_ws_ref_close(uvhttp_ws_ref_t *ref, int code, const char *reason);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_ws_ref_retain(uvhttp_ws_ref_t *ref);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_ws_ref_release(uvhttp_ws_ref_t *ref);

UVHTTP_END_DECLS

#endif
