/* Owns: what the files of the WebSocket handler share: an endpoint (a route), a connection, and the topic registry. May
 * include: route message exec websocket conn base obs. */
#ifndef UVHTTP_SRC_HANDLER_WEBSOCKET_H
#define UVHTTP_SRC_HANDLER_WEBSOCKET_H

#include <uvhttp/websocket.h>

#include "base/list.h"
#include "base/slab.h"
#include "base/utf8.h"
#include "conn/channel.h"
#include "conn/loop_ref.h"
#include "websocket/deflate.h"
#include "websocket/extension.h"
#include "websocket/frame.h"

typedef struct uvhttp__ws_registry uvhttp__ws_registry_t;
typedef struct uvhttp__ws_loop uvhttp__ws_loop_t;
typedef struct uvhttp__ws_subscription uvhttp__ws_subscription_t;

/* What was registered. */
typedef struct uvhttp__ws_endpoint {
    uvhttp_ws_handlers_t handlers; /* options points to what follows */
    uvhttp_ws_options_t options;   /* every field set; lists in the memory behind */
    void *user;
    uvhttp__rate_limits_t output;    /* what a client has to take, of the options */
    uvhttp__ws_registry_t *registry; /* of the server, which keeps it; set after the endpoint is made */
    _Atomic uint32_t subscriptions;  /* of all its connections */
    _Alignas(char *) char text[];    /* lists of pointers, then what they point to */
} uvhttp__ws_endpoint_t;

/* Checks and copies. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_CONFIG (both logged, with the pattern), or
 * UVHTTP_E_NOMEM. */
int uvhttp__ws_endpoint_new(const uvhttp_ws_handlers_t *handlers, void *user, const char *pattern,
                            uvhttp__ws_endpoint_t **endpoint);
void uvhttp__ws_endpoint_free(uvhttp__ws_endpoint_t *endpoint);

/* The settings of what the server sends with a window of so many bits. */
static inline uvhttp__ws_deflate_settings_t uvhttp__ws_settings(const uvhttp_ws_options_t *options, unsigned bits) {
    return (uvhttp__ws_deflate_settings_t){.level = (uint8_t)options->compression_level,
                                           .memory_level = (uint8_t)options->compression_memory_level,
                                           .bits = (uint8_t)bits};
}

/* An incomplete message; its memory exists only then. */
typedef struct uvhttp__ws_assembly {
    char *data;
    size_t size;        /* inflated; with on_fragment: what has been given to it */
    size_t capacity;    /* of data */
    uint64_t wire_size; /* payload of its frames that have begun */
    uint64_t start_ms;
    uint32_t fragments; /* frames begun; 0: no message is in hand */
    uint8_t type;       /* uvhttp_ws_type_t */
    bool compressed;
    bool started; /* on_fragment has had its first piece */
    uvhttp__utf8_t utf8;
} uvhttp__ws_assembly_t;

/* A streamed message, and the messages that wait for its end. */
typedef struct uvhttp__ws_out uvhttp__ws_out_t;

typedef enum uvhttp__ws_state {
    UVHTTP__WS_OPEN,
    UVHTTP__WS_CLOSING, /* our close frame is out, the peer's is awaited */
    UVHTTP__WS_ENDED,   /* on_close has been called */
} uvhttp__ws_state_t;

struct uvhttp_ws {
    uvhttp__channel_t *channel; /* NULL until on_open */
    uvhttp__loop_ref_t *ref;    /* handle for other threads, NULL until asked for */
    const uvhttp__ws_endpoint_t *endpoint;
    const char *subprotocol;
    void *data;
    uvhttp__ws_assembly_t message;
    uint64_t received_ms; /* last byte of the client, later by the pauses since then */
    uint64_t pinged_ms;
    uint64_t paused_ms;  /* start of the last pause */
    uint64_t closing_ms; /* when our close frame was sent */
    uvhttp__ws_parser_t parser;
    uint8_t state; /* uvhttp__ws_state_t */
    bool paused;
    bool special;                 /* messages out take the long way: they may be compressed, or wait behind `out` */
    uint8_t control_size;         /* bytes in `control` */
    uvhttp__ws_deflate_t deflate; /* server_bits 0: not agreed on */
    uint32_t topic_count;
    uint32_t cost;                   /* eighths of a request that were read and are not counted yet */
    char *control;                   /* an incomplete control frame */
    uvhttp__ws_out_t *out;           /* a message that is being streamed */
    uvhttp__ws_inflater_t *inflater; /* while a compressed message is in hand; with context takeover for good */
    uvhttp__ws_deflater_t *deflater; /* with context takeover, from the first message on */
    uvhttp__ws_subscription_t *topics;
};

static inline const uvhttp_ws_options_t *uvhttp__ws_options(const uvhttp_ws_t *ws) {
    return &ws->endpoint->options;
}
static inline uvhttp__counters_t *uvhttp__ws_counters(const uvhttp_ws_t *ws) {
    return ws->channel->loop->counters;
}

/* The opening handshake. *ws: a WebSocket to upgrade to, as the user of uvhttp__ws_events, or NULL: `res` has a
 * response. Returns 0 (also if the application has refused) or why it was refused. */
int uvhttp__ws_handshake(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp__ws_endpoint_t *endpoint,
                         uvhttp_ws_t **ws);
/* deflate: what was agreed on. NULL if out of memory. */
uvhttp_ws_t *uvhttp__ws_new(const uvhttp__ws_endpoint_t *endpoint, uvhttp__ws_deflate_t deflate);
/* One that never got a channel. */
void uvhttp__ws_discard(uvhttp_ws_t *ws);

/* channel->user is a uvhttp_ws_t, which ends with the channel. */
extern const uvhttp__channel_events_t uvhttp__ws_events;

/* --- websocket.c --- */

/* A deadline may have come nearer. */
void uvhttp__ws_set_timer(uvhttp_ws_t *ws);
/* uvhttp_ws_close with a valid code and reason. */
int uvhttp__ws_start_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason);

/* --- websocket_send.c --- */

/* A control frame; not held up by the queue's limit. */
void uvhttp__ws_send_control(uvhttp_ws_t *ws, uint8_t opcode, const void *data, size_t size);
/* Whether uvhttp_ws_send would take it for a message. */
bool uvhttp__ws_may_be_sent(uvhttp_ws_type_t type, const void *data, size_t size);
/* A message that may be sent. */
int uvhttp__ws_send_message(uvhttp_ws_t *ws, uvhttp_ws_type_t type, const void *data, size_t size);
/* A frame that stands somewhere until release(arg), which is called exactly once. compressed: in no context. */
int uvhttp__ws_send_shared(uvhttp_ws_t *ws, uvhttp_str_t frame, bool compressed, void (*release)(void *arg), void *arg);
/* Memory that is only for sending. */
void uvhttp__ws_drop_out(uvhttp_ws_t *ws);

/* --- websocket_topics.c: topics, and what the connections of a loop share --- */

/* One for a server. NULL if out of memory. */
uvhttp__ws_registry_t *uvhttp__ws_registry_new(uint32_t loop_count);
/* The server's hold: publications that are on their way have one, too. */
void uvhttp__ws_registry_release(uvhttp__ws_registry_t *registry);
/* The first route with compression decides how publications are compressed. Before the loops run. */
void uvhttp__ws_registry_settle(uvhttp__ws_registry_t *registry, const uvhttp_ws_options_t *options);

void uvhttp__ws_unsubscribe_all(uvhttp_ws_t *ws);
uvhttp__ws_codecs_t *uvhttp__ws_codecs_of(const uvhttp_ws_t *ws);

#define UVHTTP__WS_SCRATCH_SIZE 16384
/* Where a loop inflates to; what is in it is valid until the next call. NULL if out of memory. */
char *uvhttp__ws_scratch_of(const uvhttp_ws_t *ws);

/* --- websocket_publish.c --- */

/* Any thread. Checks everything. except: who does not get it; NULL: nobody. */
int uvhttp__ws_publish(uvhttp__ws_registry_t *registry, const uvhttp_ws_t *except, const char *topic,
                       uvhttp_ws_type_t type, const void *data, size_t size);

#endif
