/* Owns: what the files of a client of HTTP/2 share: http2_send.c (requests, bodies, what hostile ones send),
 * http2_tunnel.c (WebSockets), http2_credit.c (windows of both directions, and what must have come back of them),
 * http2.c (what comes). */
#ifndef UVHTTP_TEST_SIM_HTTP2_H
#define UVHTTP_TEST_SIM_HTTP2_H

#include "client.h"
#include "http2/hpack.h"
#include "http2/http2_internal.h"
#include "websocket.h"

enum {
    FRAME_HEAD_SIZE = UVHTTP__HTTP2_FRAME_HEAD_SIZE,
    PENDING_MAX = 8, /* SETTINGS frames that the server has not acknowledged */
};

/* Of requests[i]: its stream has the number 2 * i + 1. */
typedef struct stream {
    tunnel_t *tunnel; /* NULL: it is that of an ordinary request */
    bool headed, tagged, done;
    bool reset;   /* by this client */
    bool cut_off; /* by the server, for the memory of the connection */
    bool ended;   /* END_STREAM or RST_STREAM was sent, or the server wants no more of its body */
    bool trailer;
    uint64_t at;
    int status;
    uint32_t body, body_at; /* of the request: what is sent; a tunnel has no `body` */
    uint32_t cut_at;        /* here it is reset instead; UINT32_MAX: nowhere */
    int64_t send_window, receive_window;
    uint32_t credit; /* bytes of DATA that were read and not returned */
} stream_t;

/* When a client returns credit. */
typedef enum give_when { WHEN_HALF, WHEN_EMPTY, AT_ONCE } give_when_t;

typedef enum settling { NOT_YET, PINGED, AT_REST, PROBING, PINGED_AGAIN, SETTLED } settling_t;

struct sim_h2 {
    uvhttp__hpack_decoder_t decoder;
    char frame[FRAME_HEAD_SIZE + UVHTTP__HTTP2_FRAME_SIZE_MAX];
    uint32_t have;
    uint32_t last_id; /* of the server's last GOAWAY; UINT32_MAX: there was none that names a stream */
    bool deaf;        /* there was no memory for its table: heads mean nothing any more */
    bool lawless;     /* it has sent what is no frame: nobody knows what credit that was */
    bool mute;        /* it has misbehaved, and sends no more of its bodies */
    bool never_gives; /* credit */
    bool heard;       /* the SETTINGS of the server have come */
    bool connects;    /* ... with SETTINGS_ENABLE_CONNECT_PROTOCOL */
    /* what it may send */
    int64_t send_window;
    uint32_t server_window; /* SETTINGS_INITIAL_WINDOW_SIZE of the server */
    uint64_t starved_ns;    /* since then it has bytes and no window; 0: it has not */
    uint32_t pumped;        /* its last frame is on its way: of that stream's request, and one more; 0: of none */
    uint32_t pads;          /* one in so many DATA frames has padding; 0: none */
    uint32_t piece_max;
    /* what the server may send */
    int64_t receive_window;
    uint32_t window; /* its own SETTINGS_INITIAL_WINDOW_SIZE, that the server has acknowledged */
    uint32_t pending[PENDING_MAX];
    uint32_t pending_count;
    uint32_t credit;
    give_when_t give_when;
    settling_t settling;
    bool probes;
    uint32_t due_error, due_stream; /* the server must report it; due_stream 0: the connection; 0: it need not */
    bool punished;                  /* it has */
    stream_t streams[REQUESTS_MAX];
};

/* --- http2_send.c --- */

typedef struct writer {
    char *data;
    size_t size;
} writer_t;

/* Returns where the payload is. */
char *sim_h2_put_frame(writer_t *out, size_t size, uint8_t type, unsigned flags, uint32_t id);
void sim_h2_put_number(writer_t *out, uint8_t type, uint32_t id, uint32_t number);
/* A frame in front of the next of its own. False: there is no space. */
bool sim_h2_owe(client_t *client, uint8_t type, unsigned flags, uint32_t id, const char *payload, size_t size);
/* A POST whose body is as long as that, all of which is consumed at once. */
void sim_h2_probe(client_t *client, uint32_t body);

void sim_h2_put_string(char **block, const char *text);
void sim_h2_put_field(char **block, const char *name, const char *value);

/* --- http2_tunnel.c --- */

/* Returns whether it is open. */
bool sim_h2_tunnel_opens(stream_t *stream, int status, const char *extension, bool ends);
/* END_STREAM has come. */
void sim_h2_tunnel_ended(client_t *client, stream_t *stream);

/* --- http2_memory.c --- */

/* Whether the memory of the connection is the reason of a reset. */
bool sim_h2_is_cut_off(client_t *client, stream_t *stream, uint32_t error);

/* --- http2_credit.c: both windows of both directions --- */

void sim_h2_credit_init(client_t *client, uint32_t window);
void sim_h2_credit_open(struct sim_h2 *h2, stream_t *stream);
/* Bytes of DATA that the stream may send now. */
uint32_t sim_h2_capacity(const struct sim_h2 *h2, const stream_t *stream);
void sim_h2_data_sent(struct sim_h2 *h2, stream_t *stream, uint32_t size);
/* stream: NULL if it is gone. */
void sim_h2_data_came(client_t *client, stream_t *stream, uint32_t id, uint32_t size);
void sim_h2_window_came(client_t *client, uint32_t id, uint32_t increment);
void sim_h2_settings_came(client_t *client, const char *payload, uint32_t size);
void sim_h2_settings_acked(client_t *client);
/* The response to a PING of its own. */
void sim_h2_ping_acked(client_t *client);

#endif
