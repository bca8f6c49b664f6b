/* Owns: what the files of connections and their server share. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_TCP_SERVER_INTERNAL_H
#define UVHTTP_SRC_CONN_TCP_SERVER_INTERNAL_H

#include "conn/tcp_server.h"

/* --- conn_stream.c --- */

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
/* A connection that was accepted on address `address_index`: a PROXY header is awaited, or the filter or the upper
 * layer gets it. A code other than 0 has to close the connection; with 0 it may be closed already. */
int uvhttp__conn_start(uvhttp__conn_t *conn, uint32_t address_index);
/* The server stops. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);

/* --- output.c --- */

typedef enum uvhttp__output_verdict {
    UVHTTP__OUTPUT_WAITS,        /* nothing is due */
    UVHTTP__OUTPUT_DUE,          /* the upper layer's deadline is there */
    UVHTTP__OUTPUT_ACKNOWLEDGED, /* the peer has everything; the check has ended */
    UVHTTP__OUTPUT_SLOW,         /* the peer takes too little: to be reset */
    UVHTTP__OUTPUT_STALLED,      /* ... or nothing */
} uvhttp__output_verdict_t;

/* The timer of a connection whose output is checked has expired. */
uvhttp__output_verdict_t uvhttp__output_look(uvhttp__conn_t *conn);
/* Gives the check back; the timer is left as it is. */
void uvhttp__output_check_end(uvhttp__conn_t *conn);
/* The connection is FINISHING from here on: a limit that did not apply before begins to count now. */
void uvhttp__output_begin_end(uvhttp__conn_t *conn);

/* --- peer.c --- */

/* Counts the connection for its client's address: tcp_server->addresses is not NULL. Returns 0, UVHTTP_E_LIMIT or
 * UVHTTP_E_NOMEM. */
int uvhttp__conn_count_address(uvhttp__conn_t *conn);
/* A connection of a listener for the PROXY protocol, which came to address `address_index`: its header is awaited.
 * Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_PROXY_UNTRUSTED. */
int uvhttp__conn_proxy_begin(uvhttp__conn_t *conn, uint32_t address_index);
/* Bytes for the header. Returns 0 (the header is complete: bytes used, and the slot), UVHTTP_E_AGAIN (all are used) or
 * UVHTTP_E_PROXY_MALFORMED. */
int uvhttp__conn_proxy_read(uvhttp__conn_t *conn, const char *data, size_t size, size_t *used, uint32_t *address_index);
/* Whether a part of the header has come. */
bool uvhttp__conn_proxy_has_bytes(const uvhttp__conn_t *conn);
void uvhttp__conn_forget_peer(uvhttp__conn_t *conn);

/* descriptors.c */
/* The loops exist and do not run yet: sets tcp_server->connections_limit so that descriptors_reserved stay free, after
 * raising RLIMIT_NOFILE if it may. Logs a warning with all numbers if that is below max_connections. */
void uvhttp__tcp_server_fit_descriptors(uvhttp__tcp_server_t *tcp_server);
/* They are gone. Idempotent. */
void uvhttp__tcp_server_forget_descriptors(uvhttp__tcp_server_t *tcp_server);

/* evict.c */
/* Leaves its loop's list. */
void uvhttp__conn_unlink(uvhttp__conn_t *conn);
/* The rate check of its output has ended: its client has acknowledged everything. If nothing else is in progress it is
 * idle from now on. */
void uvhttp__conn_output_acknowledged(uvhttp__conn_t *conn);
/* A client waits and max_connections is reached: the connection that is idle for longest, of all loops, is closed.
 * again: that was asked for before, and may be under way. */
void uvhttp__tcp_loop_make_place(uvhttp__tcp_loop_t *loop, bool again);
void uvhttp__tcp_loop_on_evict_post(uvhttp__post_t *post);
/* Whether its end would cut off a request, a response, or an upgraded connection. */
bool uvhttp__conn_is_served(const uvhttp__conn_t *conn);
/* From now on no connection is evicted; all are in loop->conns. */
void uvhttp__tcp_loop_idle_drain(uvhttp__tcp_loop_t *loop);

/* accept.c */
/* While a client waits for a place: takes notice of one that is free, or makes one. again: as above. */
void uvhttp__tcp_loop_find_place(uvhttp__tcp_loop_t *loop, bool again);
int uvhttp__tcp_loop_open_listeners(uvhttp__tcp_loop_t *loop);
void uvhttp__tcp_loop_close_listeners(uvhttp__tcp_loop_t *loop);
/* Listeners that close leave their backlog to another process, or to the kernel, which resets it. */
void uvhttp__tcp_loop_leave_backlog(uvhttp__tcp_loop_t *loop);

/* --- inherit.c --- */

/* How many sets of sockets (one for each loop) the address endpoint->text has inherited; 0: none. */
uint32_t uvhttp__inherited_find(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint);
/* Fills those sets of descriptors, and the endpoint's address with what the sockets are bound to. Returns 0,
 * UVHTTP_E_NO_DESCRIPTORS, or as uvhttp__listen_socket. */
int uvhttp__inherited_take(uvhttp__tcp_server_t *tcp_server, uvhttp__endpoint_t *endpoint, int *fds, uint32_t sets);

/* --- liveness.c --- */

/* Before the loops run. */
void uvhttp__liveness_start(uvhttp__tcp_server_t *tcp_server);

/* --- tcp_loop.c --- */

bool uvhttp__tcp_server_has_place(uvhttp__tcp_server_t *tcp_server);
/* Takes a place among max_connections, or none. */
bool uvhttp__tcp_server_take_place(uvhttp__tcp_server_t *tcp_server);
/* Frees the place: loops that wait for one must be notified. Returns how many places are in use. */
unsigned uvhttp__tcp_server_leave_place(uvhttp__tcp_server_t *tcp_server);
/* A connection is gone. */
void uvhttp__tcp_loop_conn_closed(uvhttp__conn_t *conn);

#endif
