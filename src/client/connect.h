/* Owns: connections to other servers: a name is looked up on a thread of the pool, and its addresses are tried one
 * after the other. May include: exec, conn, io, base, obs. */
#ifndef UVHTTP_SRC_CLIENT_CONNECT_H
#define UVHTTP_SRC_CLIENT_CONNECT_H

#include <uvhttp/timer.h>

#include "io/io.h"

/* A name may have many addresses; so many are tried. */
#define UVHTTP__CONNECT_ADDRESSES_MAX 8
/* Bytes of an address with its port and a NUL: a name of DNS has 253 at most. */
#define UVHTTP__CONNECT_TEXT_MAX 264

#define UVHTTP_NEVER UINT32_MAX

/* Where an address may lead. */
typedef enum uvhttp__connect_reach {
    UVHTTP__CONNECT_TCP, /* "host:port" only: "unix" and "fd" are names like any other */
    UVHTTP__CONNECT_ANY, /* also "unix:/path" and "unix:@abstract" */
} uvhttp__connect_reach_t;

typedef struct uvhttp__connector uvhttp__connector_t;
typedef void (*uvhttp__connect_cb)(uvhttp__connector_t *connector, int status, int fd);

/* In memory of the caller; the fields are its own. */
struct uvhttp__connector {
    uvhttp__loop_t *loop;
    uvhttp__connect_cb on_connect;
    uvhttp__fd_wait_t wait;
    uvhttp_timer_t timer;             /* of the address that is being tried, or of the name */
    struct uvhttp__look_up *look_up;  /* on its way; NULL: none is */
    struct addrinfo *found, *address; /* of a name: all, and the one that is being tried */
    uint64_t deadline_ms;             /* UINT64_MAX: none */
    int addresses_left;               /* after that one */
    int fd;                           /* -1: none */
};

/* Begins to connect to "127.0.0.1:80", "[::1]:80", "localhost:80", "name:80" or, with UVHTTP__CONNECT_ANY,
 * "unix:/path"; an address that was made of what a peer or user has said is UVHTTP__CONNECT_TCP. on_connect follows
 * once, in a turn and never in this call: with status 0 and a connected, non-blocking, close-on-exec socket that is the
 * callee's, else with why not and -1: UVHTTP_E_PEER_UNREACHABLE, UVHTTP_E_PEER_NAME, UVHTTP_E_TIMEOUT,
 * UVHTTP_E_WORK_CANCELLED (the server stops), UVHTTP_E_NO_DESCRIPTORS, ... timeout_ms is for all of it; each address of
 * a name has an even share of what is left. Loop's thread. Returns 0, or a code, and on_connect does not come:
 * UVHTTP_E_ADDRESS, UVHTTP_E_TIMEOUT (0), UVHTTP_E_WORK_FULL, UVHTTP_E_STATE (a name, and the loop has no pool),
 * UVHTTP_E_NOMEM, or those of on_connect. */
UVHTTP_MUST_USE int uvhttp__connector_start(uvhttp__connector_t *connector, uvhttp__loop_t *loop, const char *address,
                                            uvhttp__connect_reach_t reach, uint32_t timeout_ms,
                                            uvhttp__connect_cb on_connect);
/* on_connect does not come any more. Zeroed memory, and one that has connected, may be stopped. */
void uvhttp__connector_stop(uvhttp__connector_t *connector);

#endif
