/* Owns: what host.c, accept.c and conn.c share. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_HOST_INTERNAL_H
#define UVHTTP_SRC_CONN_HOST_INTERNAL_H

#include "conn/host.h"

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
void uvhttp__timer_public_expired(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* conn.c: it is known who is there: the filter is set, or the upper layer hears of it. row: of the address that it came
 * to. A code other than 0 has to close the connection; with 0 it may be closed already. */
int uvhttp__conn_begin(uvhttp__conn_t *conn, uint32_t row);
/* The server stops. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);

/* output.c: the connection's timer has expired. Returns whether the upper layer's deadline is there. */
bool uvhttp__output_look(uvhttp__conn_t *conn);
/* Gives the check back; the timer is left as it is. */
void uvhttp__output_check_end(uvhttp__conn_t *conn);

/* peer.c: counts it for its client's address: host->addresses is not NULL. Returns 0, UVHTTP_E_LIMIT or UVHTTP_E_NOMEM.
 */
int uvhttp__conn_count_address(uvhttp__conn_t *conn);
/* ... a connection of a listener for the PROXY protocol, from begin to its header's end. */
void uvhttp__conn_proxy_begin(uvhttp__conn_t *conn, uint32_t row);
size_t uvhttp__conn_proxy_data(uvhttp__conn_t *conn, const char *data, size_t size);
bool uvhttp__conn_proxy_begun(const uvhttp__conn_t *conn);
void uvhttp__conn_proxy_end(uvhttp__conn_t *conn);
void uvhttp__conn_proxy_late(uvhttp__conn_t *conn);
void uvhttp__conn_forget_peer(uvhttp__conn_t *conn);

/* conn.c: what a line of the log calls a connection. Asks the system: for DEBUG. Returns text. */
#define UVHTTP__CONN_NAME_MAX (UVHTTP__ADDRESS_TEXT_MAX + 48)
typedef struct uvhttp__conn_name {
    char text[UVHTTP__CONN_NAME_MAX];
} uvhttp__conn_name_t;
const char *uvhttp__conn_log_name(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_NAME_MAX]);
/* descriptors.c */
/* The loops are made and do not run yet: sets host->connections_limit so that descriptors_reserved stay free, after
 * RLIMIT_NOFILE was raised if `raise`. Logs a warning with all numbers if that is below max_connections. */
void uvhttp__host_fit_descriptors(uvhttp__host_t *host, bool raise);
/* They are gone. Idempotent. */
void uvhttp__host_forget_descriptors(uvhttp__host_t *host);

/* evict.c */
/* Leaves its worker's list. */
void uvhttp__conn_unlink(uvhttp__conn_t *conn);
/* The check of its output has ended: its client has taken everything. If nothing else is under way it is idle from now
 * on. */
void uvhttp__conn_output_taken(uvhttp__conn_t *conn);
/* A client waits and max_connections is reached: the connection that is idle for longest, of all loops, is closed.
 * again: that was asked for before, and may be under way. */
void uvhttp__worker_make_room(uvhttp__worker_t *worker, bool again);
void uvhttp__worker_on_evict_post(uvhttp__post_t *post);
/* From now on no connection is closed to make room; all are in worker->conns. */
void uvhttp__worker_idle_drain(uvhttp__worker_t *worker);

/* accept.c */
/* While a client waits for a place: takes notice of one that is free, or makes one. again: as above. */
void uvhttp__worker_find_room(uvhttp__worker_t *worker, bool again);
int uvhttp__worker_open_listeners(uvhttp__worker_t *worker);
void uvhttp__worker_close_listeners(uvhttp__worker_t *worker);

#endif
