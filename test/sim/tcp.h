/* Owns: what both ends of a connection of bytes share: tcp.c (handlers of uvhttp/tcp.h), tcp_server.c (where such
 * connections come from) and tcp_client.c. Such a
 * connection is an upgraded one of HTTP/1, or one of a TCP server in the same process.
 *
 * What a client sends are the bytes of its tag. The server sends frames, each with the number of its sender, which is
 * the loop or one of the connection's hands, threads that have a reference; bytes of a sender have a tag of their own.
 */
#ifndef UVHTTP_TEST_SIM_TCP_H
#define UVHTTP_TEST_SIM_TCP_H

#include "client.h"

enum { SIM_FRAME_MARK = 0xa0, SIM_FRAME_HEAD = 3, SIM_FRAME_PAYLOAD_MAX = 16000 };

#define SIM_PIPE_TAG(tag, sender) ((tag) ^ (uint32_t)(sender) << 24)

typedef enum sim_pipe_mode {
    SIM_ECHO,  /* all that comes is sent back; the client ends it */
    SIM_FLOOD, /* the same, behind much that nobody has asked for */
    SIM_WILD,  /* anything may be called at any time */
    SIM_PIPE_MODES
} sim_pipe_mode_t;

/* What a client may know of the server's end. It lasts until the end of the run. */
typedef struct sim_pipe {
    uint32_t tag;
    sim_pipe_mode_t mode;
    bool ends_itself;           /* on_end is NULL */
    bool stops_itself;          /* on_stop is NULL */
    uint64_t received;          /* bytes of the client */
    uint64_t echoed;            /* of them */
    uint64_t sent[SIM_SENDERS]; /* bytes that were accepted; of hands: posted */
    uint64_t owed[SIM_SENDERS]; /* of hands: those that were accepted for sure */
    bool opened, closed;        /* on_open, on_close */
    bool shut, over, reset;     /* shutdown; close or reset; reset were called */
    bool may_close;             /* a hand is about to close it, or has */
    bool hands;                 /* ref_send was called */
    bool must_be_full;          /* its client was reset: the queue has refused what a hand has sent */
    uint64_t moved_ns;          /* a byte was received or accepted */
    uint64_t over_ns;           /* since when it is over; 0: it is not */
    bool leaves;                /* the server ends a flood in its middle */
    uint32_t idle_s, min_rate;  /* limits of the server; 0: none */
} sim_pipe_t;

/* What a server promises. */
typedef struct sim_pipe_limits {
    uint64_t high, max; /* of what is queued */
    uint32_t piece_max; /* of on_data */
    uint32_t idle_s, min_rate;
} sim_pipe_limits_t;

#define SIM_PIPE_NOBODY 0xf0000000u /* the tag, if it is not known whose it is */

struct uvhttp_tcp;
struct uvhttp_tcp_handlers;
/* user: what callbacks get. */
sim_pipe_t *sim_pipe_new(uint32_t tag, const sim_pipe_limits_t *limits, bool direct, void *user);
void sim_pipe_open(sim_pipe_t *pipe, struct uvhttp_tcp *tcp);
void sim_pipe_handlers(struct uvhttp_tcp_handlers *made, void (*on_open)(struct uvhttp_tcp *tcp, void *user));
void sim_pipes_reset(uint64_t seed);
/* There is no server any more. */
void sim_pipes_end(void);

/* NULL: the server knows of none. */
sim_pipe_t *sim_pipe_find(uint32_t tag);
/* What the server makes of a connection with this tag. */
sim_pipe_mode_t sim_pipe_mode(uint32_t tag);
/* tcp_server.c: whether the server of this connection was asked to stop, and when it closes what is left then. */
bool sim_pipe_is_stopped(bool direct);
uint64_t sim_pipe_cut_ns(bool direct);

/* tcp_client.c: whether a connection of this client may break off. */
bool sim_tcp_may_break(uint32_t client);
/* It has read nothing for so long that the server need not wait for it. */
bool sim_tcp_may_be_late(uint32_t client, const sim_pipe_t *pipe);
bool sim_tcp_has_ended(uint32_t client);
/* The client has ended its half, behind all of its bytes: `received` must be all of them. */
void sim_tcp_check_end_of(uint32_t client, uint64_t received);

#endif
