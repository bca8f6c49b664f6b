/* Owns: what host.c, accept.c and conn.c share. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_HOST_INTERNAL_H
#define UVHTTP_SRC_CONN_HOST_INTERNAL_H

#include "conn/host.h"

void uvhttp__conn_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

/* accept.c */
int uvhttp__worker_open_listeners(uvhttp__worker_t *worker);
void uvhttp__worker_close_listeners(uvhttp__worker_t *worker);
/* host.c */
void uvhttp__worker_check_done(uvhttp__worker_t *worker);

#endif
