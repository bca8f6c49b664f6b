/* Owns: the life of a server's admin listener. May include: as server.h.
 *
 * The listener is a server of its own with one loop, on a thread of its own and on epoll. So it shares neither ports,
 * routes, limits, loops nor the I/O backend with the server that it shows, and responds while that one is full, blocked
 * or draining. */
#ifndef UVHTTP_SRC_SERVER_ADMIN_H
#define UVHTTP_SRC_SERVER_ADMIN_H

#include <uvhttp/server.h>

typedef struct uvhttp__admin uvhttp__admin_t;

/* The life of a server, for the listener's own: the functions of server.c, which call those below. */
typedef struct uvhttp__admin_life {
    uvhttp_server_t *(*new)(const uvhttp_server_config_t *config);
    int (*listen)(uvhttp_server_t *server, const char *address, uint16_t *port);
    int (*run)(uvhttp_server_t *server, const char *address);
    int (*stop)(uvhttp_server_t *server);
    void (*free)(uvhttp_server_t *server);
} uvhttp__admin_life_t;

/* Listens on config.admin, if there is one: server->admin is NULL otherwise. Returns 0, UVHTTP_E_CONFIG (not without a
 * token, or a token that is none), UVHTTP_E_UNSUPPORTED (not in this build), UVHTTP_E_NOMEM or a code of
 * uvhttp_server_listen; the server's error text has the reason. */
int uvhttp__admin_listen(uvhttp_server_t *server, const uvhttp__admin_life_t *life);

/* The following functions accept NULL. One thread at a time. */

/* Starts its thread and waits until its loop runs. Idempotent. Returns 0, UVHTTP_E_LIMIT (the system refuses the
 * thread) or why the loop cannot run; the server's error text has the reason. */
int uvhttp__admin_start(uvhttp__admin_t *admin);
/* Stops it and waits for the end of its thread, or closes its sockets if there is none. Idempotent. */
void uvhttp__admin_stop(uvhttp__admin_t *admin);
/* Stops and frees it, before the server that it shows is freed. */
void uvhttp__admin_free(uvhttp__admin_t *admin);
/* As uvhttp__tcp_server_each_socket. Any thread. */
int uvhttp__admin_each_socket(uvhttp__admin_t *admin, void (*each)(const char *text, int fd, bool more, void *arg),
                              void *arg);
/* Another process has its sockets now: it stops listening, and its event streams end. Any thread. */
void uvhttp__admin_pass_on(uvhttp__admin_t *admin);
/* Where it listens, for people; "" without one. */
const char *uvhttp__admin_address(const uvhttp__admin_t *admin);

#endif
