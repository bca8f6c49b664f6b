/* Owns: what host.c, accept.c and conn.c share. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_HOST_INTERNAL_H
#define UVHTTP_SRC_CONN_HOST_INTERNAL_H

#include "conn/host.h"

extern const uvhttp__stream_ops_t uvhttp__conn_stream_ops;
void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* conn.c: the server stops. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);

/* peer.c: a connection of a listener for the PROXY protocol, from begin to its header's end. */
void uvhttp__conn_proxy_begin(uvhttp__conn_t *conn);
size_t uvhttp__conn_proxy_data(uvhttp__conn_t *conn, const char *data, size_t size);
void uvhttp__conn_proxy_end(uvhttp__conn_t *conn);
void uvhttp__conn_proxy_late(uvhttp__conn_t *conn);
void uvhttp__conn_forget_peer(uvhttp__conn_t *conn);

/* accept.c */
int uvhttp__worker_open_listeners(uvhttp__worker_t *worker);
void uvhttp__worker_close_listeners(uvhttp__worker_t *worker);
/* host.c */
void uvhttp__worker_check_done(uvhttp__worker_t *worker);

#endif
