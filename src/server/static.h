/* Owns: static files on routes of the server. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_STATIC_H
#define UVHTTP_SRC_SERVER_STATIC_H

#include "exchange/service.h"

struct uvhttp__static_site;

#if UVHTTP_WITH_STATIC
/* The loop ends, and makes no further iteration. */
void uvhttp__static_loop_stop(uvhttp__http_loop_t *loop);
void uvhttp__static_free(struct uvhttp__static_site *sites);
#else
static inline void uvhttp__static_loop_stop(uvhttp__http_loop_t *loop) {
    (void)loop;
}
static inline void uvhttp__static_free(struct uvhttp__static_site *sites) {
    (void)sites;
}
#endif

#endif
