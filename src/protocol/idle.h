/* Owns: the end of a connection that has asked for nothing for too long, which the protocols count alike. May include:
 * conn. */
#ifndef UVHTTP_SRC_PROTOCOL_IDLE_H
#define UVHTTP_SRC_PROTOCOL_IDLE_H

#include "conn/conn.h"
#include "conn/tcp_server.h"

/* Its time is over: for its first request, or for the next one. Nothing is counted while the server stops, when no
 * request is expected. */
static inline void uvhttp__count_idle_end(uvhttp__conn_t *conn, uint32_t request_count) {
    if (uvhttp__conn_drains(conn)) return;
    if (request_count == 0)
        uvhttp__counters_add(&conn->loop->counters, timeouts_header, 1);
    else
        uvhttp__counters_add(&conn->loop->counters, timeouts_keepalive, 1);
}

#endif
