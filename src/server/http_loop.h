/* Owns: what HTTP has on each loop of a server. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_HTTP_LOOP_H
#define UVHTTP_SRC_SERVER_HTTP_LOOP_H

#include "server/server.h"

/* loop->user. */
typedef struct uvhttp__server_loop {
    uvhttp__http_loop_t http; /* first */
    /* Of a server that is being freed: they go with the first of its loops. */
    struct uvhttp__static_site *sites;
    uvhttp__work_t *work;
} uvhttp__server_loop_t;

/* What the TCP server calls of HTTP. */
extern const uvhttp__conn_ops_t uvhttp__http_conn_ops;

#endif
