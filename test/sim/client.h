/* Owns: what the files of a client share: plan.c (its script), transport.c (PROXY header and TLS), http.c and
 * websocket.h (what it sends, and the model of what it may see), clients.c (its steps). */
#ifndef UVHTTP_TEST_SIM_CLIENT_H
#define UVHTTP_TEST_SIM_CLIENT_H

#include "sim.h"

enum {
    ORDINARY_MAX = 16,
    OPS_MAX = 32, /* bits of a number */
    REQUESTS_MAX = 16,
    HEAD_MAX = 4096,
    CONTROL_MAX = 1024,
    FRAME_MAX = 65536,
    TUNNELS_MAX = 4,
    SIM_SENDERS = 3
};

typedef enum route {
    MEM,
    REF,
    DEFER,
    STREAM,
    SIZED,
    WORK,
    CORO,
    JOB,
    FILES,
    LIMIT, /* 200, or 429 */
    QUOTA, /* the same, as Redis decides */
    GATE,  /* asks another server */
    COGATE,
    DIAL, /* the same with a socket of the handler's */
    CODIAL,
    HANDLE,  /* 200, or nobody responds */
    WHANDLE, /* the same on a worker thread, or 503 */
    EVENTS,
    CHANNEL,
    JOBS,
    WJOBS,  /* on a worker thread */
    HINTED, /* interim responses before it, and a trailer */
    WHINTED,
    SHARED, /* its body is not its own */
    WSHARED,
    PART, /* of a file */
    WPART,
    ECHO,
    UPLOAD,
    SPOOL,
    LIVE,
    SAVE,  /* saves its body to disk while it comes */
    FORM,  /* the body is a form, saved from the spool */
    LFORM, /* the same while it comes */
    BFORM, /* from memory */
    PARTS, /* not saved */
    COBODY,
    BHANDLE, /* as HANDLE */
    EARLY,   /* the response does not wait for the body */
    BROKEN,  /* HTTP/2: a response that is begun and reset */
    ROUTES
} route_t;

static inline bool sim_is_form(route_t route) {
    return route >= FORM && route <= PARTS;
}

typedef enum op_kind {
    OP_REQUEST,
    OP_WAIT,         /* for all responses */
    OP_PAUSE,        /* sends nothing for ms */
    OP_RAW,          /* bytes that are no request, or a part of one */
    OP_STOP_READING, /* for ms */
    OP_FIN,
    OP_RESET,
    OP_AWAIT_CLOSE, /* of the server, within ms */
    OP_UPGRADE,     /* to WebSocket; `topic`: to what others publish */
    OP_MESSAGE,     /* of WebSocket: `body` bytes for a message of `size` bytes */
    OP_PING,
    OP_CLOSE,        /* frame, or another end of a tunnel: `raw` */
    OP_OFFEND,       /* breaks a rule of WebSocket: `raw` */
    OP_AWAIT_TUNNEL, /* its end, within ms */
    OP_SETTINGS,     /* of HTTP/2: windows of `size` bytes */
    OP_SETTLE,       /* all credit of HTTP/2 has come back */
    OP_TCP,          /* an upgrade to bytes, `body` of them right behind it; `eager`: does not wait for the 101 */
    OP_BYTES,        /* `size` of them */
} op_kind_t;

typedef struct op {
    op_kind_t kind;
    route_t route;
    uint32_t size, body; /* of the response, of the request */
    uint32_t ms;         /* of the op, or of the handler */
    uint32_t wait_ms;    /* of the middleware; 0: it does not wait */
    uint32_t from;       /* a file's range begins here */
    bool head, chunked, close, expect;
    bool cut; /* only a part of it is sent */
    bool topic;
    bool stingy; /* the stream of a tunnel gets no credit */
    bool eager;  /* what follows does not wait until the tunnel is open */
    bool prompt; /* the response must not wait for what else the connection does */
    bool edited; /* the file is one that somebody changes; `raw`: what it is asked for */
    uint8_t raw, file, frames, tunnel;
    uint8_t ranges;  /* of the file; 0: all of it */
    uint8_t accepts; /* codings: 1: gzip, 2: br, 3: both, and the former rather */
} op_t;

/* What has come of a stream of events: a part of a line, and how many of each sender. */
typedef struct sim_feed {
    char line[40];
    uint8_t size;
    uint32_t next[SIM_SENDERS];
} sim_feed_t;

typedef struct request {
    sim_feed_t feed; /* if it has events */
    uint32_t tag, size;
    uint32_t from;     /* the first byte of the body, of all that has the tag */
    uint32_t content;  /* the tag of the body's bytes; 0: its own */
    uint64_t sent_ns;  /* when the last byte was with the kernel; 0: not yet */
    uint64_t begin;    /* of all bytes that the client sends */
    uint64_t received; /* bytes of the response's body as they came */
    uint16_t status;
    uint8_t kind; /* its route, from 1 on; 0: it is an upgrade */
    bool head;
    uint16_t refusal; /* a status that it may get instead: of a limiter, or when no thread is free; 0: none */
    bool upgrade, untagged, may_break, events, prompt;
    bool raw;        /* of an upgrade: to bytes */
    bool may_be_503; /* whatever `refusal` is */
    bool on_disk;    /* the disk may fail */
    bool trailed, has_trailer;
    uint8_t hints;    /* interim responses that have come */
    uint32_t spooled; /* bytes of its body that wait for a thread */
    char *form;       /* what its body is, if it is a form; else bytes of its tag */
    uint8_t accepts;  /* as in op_t */
    bool is_coded;    /* in one of these, if there is one */
    struct sim_decoder *decoder;
    struct sim_ranges *ranges; /* NULL: the response has not several */
    struct sim_edited *edited; /* NULL: it is about no file that somebody changes */
} request_t;

static inline bool sim_may_be_refused(const request_t *request, int status) {
    return (request->refusal && status == request->refusal) || (request->may_be_503 && status == 503) ||
           (request->spooled && sim_spool_max &&
            (status == 503 || (status == 413 && request->spooled > sim_spool_max))) ||
           (request->on_disk && sim_disk_refuses(request->tag, status));
}

typedef enum parser_state { HEAD, BODY, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, FRAMES, RAW } parser_state_t;

/* How a client comes to the server. */
typedef struct transport {
    uint16_t port;
    bool proxy, tls;
    bool heard;       /* something has come over TLS */
    uint32_t address; /* what the PROXY header says, IPv4 */
    struct sim_tls *session;
} transport_t;

typedef struct tunnel tunnel_t; /* websocket.h */

/* How a client ends that gets no further than a part of what precedes its first request. */
typedef enum break_off { GOES_ON, BREAKS_BY_FIN, BREAKS_BY_RESET, BREAKS_BY_SILENCE } break_off_t;

/* A connection of bytes. */
typedef struct tcp {
    uint32_t tag;
    bool asked;        /* for an upgrade */
    bool direct;       /* of the TCP server */
    bool rude;         /* it resets, reads nothing, or cuts TLS off: anything may happen */
    bool ended;        /* its half, behind all of its bytes */
    bool server_ended; /* its half; the client continues with its own */
    bool stubborn;     /* it keeps its half open behind the end of the server, too */
    uint64_t ended_ns; /* since when it does; 0: it does not */
    uint64_t wakes_ns; /* it has read nothing for long until then; 0: it has not slept */
    uint64_t deaf_ns;  /* since when it reads nothing; 0: it reads */
    uint64_t sent;
    unsigned char head[3]; /* of the frame that is coming */
    uint8_t have, sender;
    uint32_t left;
    uint64_t received[SIM_SENDERS];
} tcp_t;

typedef struct client {
    uint32_t id;
    break_off_t breaks_off;
    sim_random_t random, plan;
    op_t ops[OPS_MAX];
    uint32_t op_count, at;
    bool dropped[OPS_MAX];
    sim_conn_t *conn;
    uint64_t next_ns, deadline_ns, read_ns; /* read_ns: nothing is read before */
    uint32_t piece_max, delay_max_us;
    transport_t transport;
    char *out; /* as it goes to the connection: encoded */
    size_t out_size, out_at;
    char control[CONTROL_MAX]; /* frames that it owes, in front of the next of its own */
    size_t control_size;
    request_t requests[REQUESTS_MAX];
    uint32_t asked, responded;
    uint64_t sent_size; /* bytes, in all */
    uint64_t moved_ns;  /* it has read something, or sent its FIN */
    bool flushing;      /* what is in `out` is no op's */
    bool fin;           /* it has sent one */
    bool notified;      /* ... behind a close_notify, if there is TLS */
    bool owed_last;     /* what was sent last is a frame that it owed */
    bool blocked;       /* the server's system takes no more */
    bool wild;          /* it has misbehaved: any response may be the last */
    bool owed;          /* ... but not the last one to what it sent before */
    bool lingers;       /* a handler may take its time for what is there of a request that was cut */
    bool closes;        /* the server has said that it will */
    uint64_t closes_ns; /* then the last byte before its FIN has come */
    bool started, done;
    bool publishes; /* WebSocket with a topic, whatever else there is */
    bool hasty;     /* it sends all in one go */
    bool hoards;    /* HTTP/2: large bodies at the same time, in large frames */
    /* the response that is coming */
    parser_state_t state;
    char head[HEAD_MAX];
    uint32_t head_size;
    int status;
    bool chunked, ends, tagged;
    uint64_t left, at_body;
    tcp_t tcp;
    tunnel_t *tunnels[TUNNELS_MAX]; /* until the end of the run; of HTTP/1 the first */
    struct sim_h2 *h2;              /* NULL: it speaks HTTP/1 */
} client_t;

/* plan.c */
void sim_client_plan(client_t *client);
void sim_op_describe(const op_t *op, char *text, size_t size);
extern const char *const sim_route_names[];

/* transport.c */
void sim_transport_plan(client_t *client);
/* Puts what has to precede the first request into client->out; false: nothing. */
bool sim_transport_begin(client_t *client);
/* The handshake is not over. */
bool sim_transport_busy(const client_t *client);
/* client->out as it goes to the connection from now on. */
void sim_transport_encode(client_t *client);
/* What has come; calls `take` with what it means. */
void sim_transport_decode(client_t *client, const char *data, size_t size,
                          void (*take)(client_t *client, const char *data, size_t size));
void sim_transport_free(client_t *client);
/* Bytes of an end that is said (close_notify) into client->out. */
void sim_transport_end(client_t *client);
/* Puts bytes into client->out, encoded. */
void sim_transport_out(client_t *client, const char *data, size_t size);

/* http.c */
void sim_http_request(client_t *client, const op_t *op);
void sim_http_raw(client_t *client, const op_t *op);
void sim_http_take(client_t *client, const char *data, size_t size);
request_t sim_http_request_of(const op_t *op, uint32_t tag);
/* Bytes of the body that a client sends. */
void sim_http_fill(const request_t *request, char *out, uint32_t offset, uint32_t size);
void sim_http_free(request_t *request);
/* The first request that was sent whole and has no response, or NULL. */
const request_t *sim_http_pending(const client_t *client);

/* http2.c */
/* window: of its streams; 0: it never opens one. */
void sim_h2_new(client_t *client, uint32_t window);
void sim_h2_free(client_t *client);
void sim_h2_take(client_t *client, const char *data, size_t size);
void sim_h2_responded(client_t *client);
/* The server has sent GOAWAY. */
bool sim_h2_is_sent_away(const client_t *client);
/* By the server's GOAWAY. */
bool sim_h2_is_refused(const client_t *client, const request_t *request);
bool sim_h2_is_cut(const client_t *client);
/* Bytes of a response that have come. */
uint64_t sim_h2_received(const client_t *client, uint32_t at);
/* The connection has ended, politely on both sides. */
void sim_h2_check_end(const client_t *client);
/* What the client has done brings an error, and the connection has ended otherwise than by a reset. */
void sim_h2_check_offence(const client_t *client);

/* http2_send.c */
/* What a hostile client sends that breaks a rule of flow control: op.raw. */
enum {
    SIM_H2_FIRST_OFFENCE = 8,
    SIM_H2_OVERFLOW = SIM_H2_FIRST_OFFENCE, /* of the connection's window */
    SIM_H2_STREAM_OVERFLOW,
    SIM_H2_STREAM_OVERRUN, /* more than the window */
    SIM_H2_CONNECTION_OVERRUN,
    SIM_H2_ZERO_UPDATE,
    SIM_H2_ZERO_STREAM_UPDATE,
    SIM_H2_LARGE_SETTING,
    SIM_H2_SETTINGS_OVERFLOW,
    SIM_H2_IDLE_DATA,
    SIM_H2_ENDED_DATA,
    SIM_H2_OFFENCES_END
};
/* Preface and SETTINGS. Returns their size. */
size_t sim_h2_begin(const client_t *client, char *data);
void sim_h2_request(client_t *client, const op_t *op);
void sim_h2_raw(client_t *client, const op_t *op);
bool sim_h2_may_ask(const client_t *client);
/* The request with this number was sent whole. */
bool sim_h2_is_sent(const client_t *client, uint32_t at);
/* Bodies are not whole, or streams are to be reset. */
bool sim_h2_sends(const client_t *client);
/* There is credit for some of that. */
bool sim_h2_can_pump(const client_t *client);
/* The next frame of a body into client->out; false: there is none. */
bool sim_h2_pump(client_t *client);
/* client->out was sent. */
void sim_h2_pumped(client_t *client);

/* http2_memory.c */
/* The server may keep more for it than a connection may have. */
bool sim_h2_is_greedy(const client_t *client);

/* http2_credit.c */
/* Credit that is due, into client->control. */
void sim_h2_credit(client_t *client);
void sim_h2_settings(client_t *client, const op_t *op);
/* When it will have waited for credit too long. */
uint64_t sim_h2_starves_ns(const client_t *client);
void sim_h2_check_starved(client_t *client, bool starved);
/* Continues the check of all credit; whether that is done. Every response has come before. */
bool sim_h2_settle(client_t *client);

/* websocket_send.c */
enum { SIM_WS_END_CLOSE, SIM_WS_END_AT_ONCE, SIM_WS_END_HALF, SIM_WS_END_IN_FRAME, SIM_WS_END_RESET, SIM_WS_ENDS };
enum {
    SIM_WS_UNMASKED,
    SIM_WS_RESERVED,
    SIM_WS_UNAGREED,
    SIM_WS_OPCODE,
    SIM_WS_LONG_PING,
    SIM_WS_PART_OF_PING,
    SIM_WS_NO_BEGIN,
    SIM_WS_NO_END,
    SIM_WS_LENGTH,
    SIM_WS_LARGE,
    SIM_WS_CLOSE_CODE,
    SIM_WS_CLOSE_SIZE,
    SIM_WS_CLOSE_TEXT,
    SIM_WS_UTF8,
    SIM_WS_RESERVED_1, /* where it may not be */
    SIM_WS_BOMB,       /* these, and what follows, in a message that is compressed */
    SIM_WS_NO_DEFLATE,
    SIM_WS_CUT_DEFLATE,
    SIM_WS_OFFENCES
};
/* NULL: there is one with this number. */
tunnel_t *sim_ws_new(client_t *client, const op_t *op, uint32_t tag);
const char *sim_ws_route(const tunnel_t *tunnel);
void sim_ws_free(client_t *client);
/* The server has accepted it. */
void sim_ws_opened(tunnel_t *tunnel, const char *extension);
/* By HTTP/1. */
void sim_ws_upgrade(client_t *client, const op_t *op);
/* A message, a ping, an end or an offence. */
void sim_ws_act(client_t *client, const op_t *op);
/* So many bytes of the tunnel are with the kernel. */
void sim_ws_sent(tunnel_t *tunnel, uint64_t bytes);
/* Frames that a client of HTTP/1 owes: whether there are some; into client->out. */
bool sim_ws_owes(const client_t *client);
bool sim_ws_flush(client_t *client);

/* websocket.c */
void sim_ws_take(tunnel_t *tunnel, const char *data, size_t size);
/* Nothing is awaited of the server. */
bool sim_ws_quiet(const client_t *client);
bool sim_ws_any_open(const client_t *client);
bool sim_ws_is_open(const tunnel_t *tunnel); /* or it will be; NULL: there is none */
bool sim_ws_is_asked(const tunnel_t *tunnel);
/* In the middle of what the server sends. */
bool sim_ws_is_cut(const tunnel_t *tunnel);
/* One of them is about to end, by what the client has done. */
bool sim_ws_any_ends(const client_t *client);
/* When the first message that has no response was sent whole, and its tag; 0: there is none. */
uint64_t sim_ws_pending_ns(const client_t *client, uint32_t *tag);
/* Bytes of messages that were asked for and have not come. */
uint64_t sim_ws_outstanding(const client_t *client);
void sim_ws_ended(tunnel_t *tunnel);
void sim_ws_was_reset(tunnel_t *tunnel, const char *error, bool is_slow);
void sim_ws_connection_ended(client_t *client, bool reset, bool excused);
/* No callback follows. */
void sim_ws_check_end(const client_t *client);

/* http2_tunnel.c */
/* A tunnel has something to send, or to end. */
void sim_h2_tunnel_acts(client_t *client, tunnel_t *tunnel);
/* The server has said what it supports. */
bool sim_h2_has_settings(const client_t *client);
void sim_h2_connect(client_t *client, const op_t *op);

/* --- events.c --- */

void sim_events_take(const client_t *client, request_t *request, const char *data, size_t size);
void sim_events_ended(const client_t *client, const request_t *request);
bool sim_events_are_dropped(const request_t *request);

/* --- replies.c --- */

void sim_reply_of(request_t *request, const op_t *op);
/* An interim response has come, and what it links to, or NULL; a trailer; the end. request: NULL if there is none. */
void sim_reply_hint(const client_t *client, request_t *request, const char *link);
void sim_reply_trailer(const client_t *client, request_t *request, const char *sum);
void sim_reply_ended(const client_t *client, const request_t *request);

/* --- bodies.c --- */

/* Checks bytes of the body, `at` of which have come before; returns how many these are without the coding. */
uint64_t sim_body_take(const client_t *client, request_t *request, uint64_t at, const char *data, size_t size);
/* The response is complete, and so many bytes have come. */
void sim_body_ended(const client_t *client, request_t *request, uint64_t at);
/* There will be no more of it. */
void sim_body_cut(const client_t *client, const request_t *request, uint64_t at);

/* --- ranges.c --- */

/* Fills in from, size and ranges: which of the op's file, and how many bytes the body of the response has. */
void sim_ranges_plan(op_t *op, sim_random_t *r);
/* The value of Range; valid until the next call. */
const char *sim_ranges_text(const op_t *op);
/* What the body is; NULL: the response has one range at most, and its bytes. */
struct sim_ranges *sim_ranges_new(const op_t *op);
void sim_ranges_free(struct sim_ranges *ranges);
/* How many bytes are right before the first that is not. `at`: their place in the body. */
size_t sim_ranges_mismatch(struct sim_ranges *ranges, uint64_t at, const char *data, size_t size);

/* --- editor.c --- */

enum { SIM_EDITED_ALL, SIM_EDITED_UNLESS, SIM_EDITED_PART, SIM_EDITED_RESUMES, SIM_EDITED_ASKS }; /* op.raw */

/* What of a response's head says which version of the file it is about; "": there is no such field. */
typedef struct sim_edited_head {
    int status;
    uint64_t size;
    bool coded; /* it is about the variant */
    char etag[64], range[64];
} sim_edited_head_t;

void sim_edited_plan(op_t *op, sim_random_t *r, bool slow);
struct sim_edited *sim_edited_new(const op_t *op);
/* Its fields of this kind, from 0 on; false: there are no more. */
bool sim_edited_field(const op_t *op, const request_t *request, uint32_t number, const char **name, char *value,
                      size_t size);
/* The head has come: what the request may get, and which bytes these are. */
void sim_edited_came(const client_t *client, request_t *request, const sim_edited_head_t *head);
void sim_edited_take(const client_t *client, request_t *request, uint64_t at, const char *data, size_t size);
void sim_edited_ended(const client_t *client, const request_t *request);
/* Bytes that the response has said that it has may be gone. */
bool sim_edited_may_break(const request_t *request);
/* ... of one of those that are to come, so that the connection may be cut off. */
bool sim_edited_any_may_break(const client_t *client);

/* --- coding.c --- */

/* Accept-Encoding, or NULL. */
const char *sim_coding_accept(const op_t *op);
void sim_coding_of(request_t *request, const op_t *op);
/* The head of a handler's response has come; "": it names no coding. varies: Vary names Accept-Encoding. */
void sim_coding_begin(const client_t *client, request_t *request, int status, const char *coding, bool varies);
void sim_coding_free(request_t *request);
/* Returns what it makes of the data, which it moves on; less than the capacity: it needs more. */
size_t sim_decode(struct sim_decoder *decoder, const char **data, size_t *size, char *out, size_t capacity, bool *good);
bool sim_decoded_all(const struct sim_decoder *decoder);

/* --- metrics.c --- */

/* A client makes this request, or a part of it. ms: as its handler is to wait. */
void sim_metrics_asked(const request_t *request, uint32_t body, uint32_t ms);
/* The client has the response. request: NULL if it was to none. */
void sim_metrics_responded(const client_t *client, const request_t *request, int status, bool by_handler);
/* A client sends what is no request, and may count as one all the same, or as up to any number of them. */
void sim_metrics_strayed(void);
void sim_metrics_lawless(void);
bool sim_metrics_are_lawless(void);
/* So many responses with this status have come. */
uint64_t sim_metrics_have(route_t route, int status);

/* --- tcp_client.c --- */

#define SIM_TCP_SLEEP_MS 40000u
/* It speaks to the TCP server. */
void sim_tcp_open(client_t *client);
void sim_tcp_upgrade(client_t *client, const op_t *op);
void sim_tcp_bytes(client_t *client, const op_t *op);
void sim_tcp_take(client_t *client, const char *data, size_t size);
bool sim_tcp_quiet(const client_t *client);
/* Before the 101 has come. */
bool sim_tcp_is_reset(const client_t *client);
void sim_tcp_ended(const client_t *client, bool reset);
/* The server has ended its half, and the client does not mind. */
bool sim_tcp_half_ended(client_t *client);
/* It has read nothing for a while. */
void sim_tcp_check_deaf(const client_t *client);
/* The server has to close until then a connection whose end its client does not return. */
uint64_t sim_tcp_closes_ns(const client_t *client);
void sim_tcp_check_closed(client_t *client);

/* --- clients.c --- */

client_t *sim_client(uint32_t id); /* NULL: there is none */

#endif
