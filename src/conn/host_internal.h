/* Owns: what host.c, accept.c and conn.c share. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_HOST_INTERNAL_H
#define UVHTTP_SRC_CONN_HOST_INTERNAL_H

#include "conn/host.h"

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);
void uvhttp__timer_public_expired(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* conn.c: it is known who is there: the filter is set, or the upper layer hears of it. row: of the address that it came
 * to. A code other than 0 has to close the connection. */
int uvhttp__conn_begin(uvhttp__conn_t *conn, uint32_t row);
/* The server stops. */
void uvhttp__conn_drain(uvhttp__conn_t *conn);

/* output.c: the connection's timer has expired. Returns whether the upper layer's deadline is there. */
bool uvhttp__output_look(uvhttp__conn_t *conn);
/* Gives the check back; the timer is left as it is. */
void uvhttp__output_check_end(uvhttp__conn_t *conn);

/* peer.c: a connection of a listener for the PROXY protocol, from begin to its header's end. */
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

/* accept.c */
int uvhttp__worker_open_listeners(uvhttp__worker_t *worker);
void uvhttp__worker_close_listeners(uvhttp__worker_t *worker);

#endif
