/* Owns: what the files of a WebSocket client share: websocket_send.c (what it sends, polite or hostile), websocket.c
 * (what comes), websocket_deflate.c (permessage-deflate). A tunnel is a WebSocket on a stream of bytes: a connection of
 * HTTP/1, or a stream of HTTP/2 (RFC 8441).
 */
#ifndef UVHTTP_TEST_SIM_WEBSOCKET_H
#define UVHTTP_TEST_SIM_WEBSOCKET_H

#include "client.h"

enum { CONTINUATION = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, COMPRESSED = 0x40, LAST = 0x80 };
enum { MESSAGES_MAX = 32, OWED_MAX = 1024, EXTENSION_MAX = 240 };
enum {
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_PROTOCOL_ERROR = 1002,
    WS_NO_CODE = 1005,
    WS_ABNORMAL = 1006,
    WS_INVALID_DATA = 1007,
    WS_TOO_LARGE = 1009,
    WS_INTERNAL_ERROR = 1011
};

/* What a subscriber has seen of a tunnel that publishes. */
typedef struct seen {
    uint32_t numbers; /* a bit for each publication */
    int last;         /* of those that its loop has published */
} seen_t;
enum { SEEN_NONE = -2, SEEN_ALL = -1 }; /* last: the first one that comes is any, or number 0 */

typedef struct message {
    uint32_t tag, size;
    uint64_t end;     /* of all bytes that the tunnel sends */
    uint64_t sent_ns; /* 0: not yet */
} message_t;

/* A frame of the server that is coming, and the message that it belongs to. */
typedef struct frames {
    unsigned char head[10];
    uint32_t head_have, head_size;
    uint64_t left;
    uint8_t opcode;
    bool last, in_message, compressed;
    unsigned char control[125];
    uint32_t control_have;
    uint64_t message_at, wire_size; /* of the message */
    char publication[8];            /* tag and size of the one that is coming */
} frames_t;

/* Of permessage-deflate, to a server that may agree. */
typedef struct offer {
    char text[EXTENSION_MAX];
    bool made, server_forgets, client_forgets;
    bool second;                      /* one without parameters is behind it */
    uint8_t server_bits, client_bits; /* 0: not named; client_bits 1: without a value */
} offer_t;

typedef struct sim_deflate sim_deflate_t;

struct tunnel {
    client_t *client;
    uint32_t number, tag; /* tag: of the request */
    bool topic;           /* messages are publications */
    bool open;            /* the server has accepted it */
    bool decided;         /* ... or refused */
    bool ended;           /* nothing more comes */
    /* what comes */
    frames_t frames;
    bool closes; /* a close frame has come */
    seen_t *seen;
    uint32_t responded, pongs_seen, pongs_due;
    /* what is sent */
    message_t messages[MESSAGES_MAX];
    uint32_t asked, pings_sent;
    char *out; /* what waits for the stream */
    size_t out_size, out_at;
    uint64_t queued;     /* bytes, in all */
    bool closing;        /* a close frame was sent, with this code */
    uint16_t code;       /* 0: without one */
    bool ends;           /* END_STREAM is behind `out` */
    bool half_ended;     /* ... without a close frame before it */
    bool reset;          /* by this client */
    bool stingy;         /* it gives no credit for the stream */
    uint16_t due;        /* its offence must bring a close frame with this code; 0: there was none */
    bool punished;       /* it has */
    bool opened, closed; /* as the application has seen it */
    offer_t offer;
    sim_deflate_t *deflate; /* NULL: it was not agreed on */
};

uint32_t sim_ws_tag(const tunnel_t *tunnel, uint32_t message);
/* A frame behind what waits already. */
void sim_ws_put(tunnel_t *tunnel, unsigned first, const void *data, size_t size);

/* A part of a message, inflated. */
void sim_ws_payload(tunnel_t *tunnel, const char *data, size_t size);

/* --- websocket_deflate.c --- */

void sim_ws_offer(tunnel_t *tunnel, sim_random_t *random);
/* What the server replies; NULL: nothing. */
void sim_ws_agree(tunnel_t *tunnel, const char *extension);
/* A message as it goes into frames; to be freed. */
char *sim_ws_deflate(tunnel_t *tunnel, const char *data, size_t size, size_t *packed);
void sim_ws_put_bomb(tunnel_t *tunnel);
/* The next part of a compressed message, and its end. */
void sim_ws_inflate(tunnel_t *tunnel, const char *data, size_t size);
void sim_ws_inflate_end(tunnel_t *tunnel);
void sim_ws_deflate_free(tunnel_t *tunnel);

#endif
