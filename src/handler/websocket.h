/* Owns: what the files of the WebSocket handler share: an endpoint (a route) and a connection. May include: route
 * message exec websocket conn base obs. */
#ifndef UVHTTP_SRC_HANDLER_WEBSOCKET_H
#define UVHTTP_SRC_HANDLER_WEBSOCKET_H

#include <uvhttp/tcp.h>
#include <uvhttp/websocket.h>

#include "websocket/frame.h"
#include "websocket/utf8.h"

/* What was registered. */
typedef struct uvhttp__ws_endpoint {
    uvhttp_ws_handlers_t handlers; /* options points to what follows */
    uvhttp_ws_options_t options;   /* every field set; lists in the memory behind */
    void *user;
    char text[];
} uvhttp__ws_endpoint_t;

/* Checks and copies. Returns 0, UVHTTP_E_INVALID or UVHTTP_E_CONFIG (both logged, with the pattern), or
 * UVHTTP_E_NOMEM. */
int uvhttp__ws_endpoint_new(const uvhttp_ws_handlers_t *handlers, void *user, const char *pattern,
                            uvhttp__ws_endpoint_t **endpoint);
void uvhttp__ws_endpoint_free(uvhttp__ws_endpoint_t *endpoint);

/* A message that has not come whole; its memory exists only then. */
typedef struct uvhttp__ws_assembly {
    char *data;
    size_t size, capacity;
    uint32_t fragments; /* frames begun; 0: no message is in hand */
    uint8_t type;       /* uvhttp_ws_type_t */
    uvhttp__utf8_t utf8;
    uint64_t start_ms;
} uvhttp__ws_assembly_t;

typedef enum uvhttp__ws_state {
    UVHTTP__WS_OPEN,
    UVHTTP__WS_CLOSING, /* our close frame is out, the peer's is awaited */
    UVHTTP__WS_ENDED,   /* on_close has been called */
} uvhttp__ws_state_t;

struct uvhttp_ws {
    uvhttp_tcp_t *tcp; /* NULL until the hand-over */
    const uvhttp__ws_endpoint_t *endpoint;
    const char *subprotocol;
    void *data;
    uvhttp__ws_assembly_t message;
    uint64_t received_ms; /* last byte of the client */
    uint64_t pinged_ms;
    uint64_t closing_ms; /* when our close frame was sent */
    uint64_t queued;     /* bytes ever queued */
    uint64_t taken;      /* of those, what the kernel had taken when it was looked at last */
    uint64_t taken_ms;   /* when that was last seen to grow, or the queue to be empty */
    uvhttp__ws_parser_t parser;
    uint8_t state; /* uvhttp__ws_state_t */
    bool paused;
    uint8_t control_size; /* bytes in `control` */
    char control[UVHTTP__WS_CONTROL_SIZE_MAX];
};

/* The opening handshake. *ws: a connection for uvhttp_response_upgrade to hand uvhttp__ws_tcp_handlers, or NULL: res
 * has been answered. Returns 0 (also if the application has refused) or why it was refused. */
int uvhttp__ws_handshake(uvhttp_request_t *req, uvhttp_response_t *res, const uvhttp__ws_endpoint_t *endpoint,
                         uvhttp_ws_t **ws);
/* A connection that was never handed over. */
void uvhttp__ws_discard(uvhttp_ws_t *ws);

extern const uvhttp_tcp_handlers_t uvhttp__ws_tcp_handlers;

#endif
