/* Owns: the server itself, and what its files share. Composition root: may include everything. */
#ifndef UVHTTP_SRC_SERVER_SERVER_INTERNAL_H
#define UVHTTP_SRC_SERVER_SERVER_INTERNAL_H

#include <pthread.h>
#include <uvhttp.h>

#include "exchange/exchange_internal.h"

/* What SIGHUP calls (reload.c). */
typedef struct uvhttp__reload {
    void (*cb)(uvhttp_server_t *server, void *user); /* NULL: nothing */
    void *user;
    pthread_mutex_t lock;
    pthread_t thread;
    bool made;    /* thread is to be joined; of the thread of the first loop */
    bool running; /* under lock */
    bool wanted;  /* under lock: a signal has come */
} uvhttp__reload_t;

void uvhttp__reload_init(uvhttp__reload_t *reload);
/* For the thread that runs; the loops have ended. */
void uvhttp__reload_wait(uvhttp__reload_t *reload);
void uvhttp__reload_deinit(uvhttp__reload_t *reload);

struct uvhttp_server {
    uvhttp__service_t service; /* first */
    uvhttp__host_t *host;
    struct uvhttp__ws_hub *ws_hub; /* NULL: no WebSocket route */
    void (*ws_hub_release)(struct uvhttp__ws_hub *hub);
    void (*on_stopped)(uvhttp_server_t *server, void *user);
    void *on_stopped_user;
    struct uvhttp__static_site *sites; /* static files */
    uint64_t drain_ns;                 /* when the first loop was told to stop; written by it. 0: not yet */
    uvhttp__reload_t reload;
    int setup_status; /* the first error of what was set up before the routes were complete */
    bool frozen;      /* routes are complete */
    bool ran;         /* once: the loops and listening sockets are gone with the first run */
    char error[512];
    char engine_reason[128];
    _Atomic(const char *) engine; /* set when all loops are made: who sees it, on any thread, sees engine_reason and the
                                     workers' state, too */
};

/* The server whose loop it is. */
static inline uvhttp_server_t *uvhttp__server_of(const uvhttp__http_worker_t *worker) {
    return UVHTTP__CONTAINER_OF(worker->service, uvhttp_server_t, service);
}

/* What the server has on each of its loops; worker->upper. */
typedef struct uvhttp__http_loop {
    uvhttp__http_worker_t http; /* first */
    /* Of a server that is being freed: they go with the first of its loops. */
    struct uvhttp__static_site *sites;
    uvhttp__work_t *work;
} uvhttp__http_loop_t;

/* http_loop.c: what a host calls of HTTP. */
extern const uvhttp__conn_ops_t uvhttp__http_conn_ops;

/* server_config.c: *config becomes what is given, checked and made whole (it may be of an older, shorter header; NULL:
 * the defaults). Returns 0 or UVHTTP_E_CONFIG, and says why. */
int uvhttp__server_take_config(const uvhttp_server_config_t *given, uvhttp_server_config_t *config, char *message,
                               size_t size);
void uvhttp__server_apply_log_level(const uvhttp_performance_config_t *performance);

/* tls_config.c: all or nothing. config NULL: the files alone. *count: what was read again. Returns as
 * uvhttp_server_reload. */
int uvhttp__server_reload_tls(uvhttp_server_t *server, const uvhttp_server_config_t *config, unsigned *count,
                              char *message, size_t size);

/* Keeps the text for uvhttp_server_error_text, logs it as an error, and returns `status`. */
UVHTTP_PRINTF(3, 4) int uvhttp__server_remember(uvhttp_server_t *server, int status, const char *format, ...);
/* uvhttp_server_listen with a filter, as uvhttp__host_listen. */
int uvhttp__server_listen(uvhttp_server_t *server, const char *address, const uvhttp__conn_filter_t *filter,
                          uint16_t *port);

/* --- static files (static.c) --- */

#if UVHTTP_WITH_STATIC
/* The worker's loop ends, and does not turn any more. */
void uvhttp__static_worker_stop(uvhttp__http_worker_t *worker);
void uvhttp__static_free(struct uvhttp__static_site *sites);
#else
static inline void uvhttp__static_worker_stop(uvhttp__http_worker_t *worker) {
    (void)worker;
}
static inline void uvhttp__static_free(struct uvhttp__static_site *sites) {
    (void)sites;
}
#endif

#endif
