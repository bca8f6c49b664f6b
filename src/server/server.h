/* Owns: the server: its service, its TCP server, and what registration added to them. Composition root: may include
 * everything. */
#ifndef UVHTTP_SRC_SERVER_SERVER_H
#define UVHTTP_SRC_SERVER_SERVER_H

#include <uvhttp.h>

#include "exchange/service.h"
#include "server/process.h"
#include "server/reload.h"
#include "trace/tracer.h"

struct uvhttp_server {
    uvhttp__service_t service; /* first */
    uvhttp__tcp_server_t *tcp_server;
    uvhttp__tracer_t *tracer;                /* of the outermost middleware, which frees it; NULL: none */
    struct uvhttp__ws_registry *ws_registry; /* NULL: no WebSocket route */
    void (*ws_registry_release)(struct uvhttp__ws_registry *registry);
    uvhttp_server_cb on_stopped;
    void *on_stopped_user;
    struct uvhttp__admin *admin; /* NULL: no admin listener */
    uvhttp_server_cb on_ready;   /* NULL: none */
    void *on_ready_user;
    bool nested;                       /* the server of another one, which reports start and end */
    struct uvhttp__static_site *sites; /* static files */
    uint64_t created_ns;
    uint64_t drain_ns; /* when the first loop was asked to stop; written by it. 0: not yet */
    uvhttp__reload_t reload;
    uvhttp__process_t *process; /* NULL: uvhttp_service_init was not called */
    int setup_status;           /* the first error of what was set up before the routes were complete */
    bool frozen;                /* routes are complete */
    bool log_opened;            /* by run, with uvhttp__log_writer_open */
    bool ran;                   /* once: the loops and listening sockets are gone with the first run */
    char error[512];            /* what went wrong last outside of the router, with error_code; "": nothing */
    int error_code;
};

/* The server whose loop it is. */
static inline uvhttp_server_t *uvhttp__server_of(const uvhttp__http_loop_t *loop) {
    return UVHTTP__CONTAINER_OF(loop->service, uvhttp_server_t, service);
}

/* uvhttp_server_listen with a filter, as uvhttp__tcp_server_listen. */
int uvhttp__server_listen(uvhttp_server_t *server, const char *address, const uvhttp__conn_filter_t *filter,
                          uint16_t *port);

#endif
