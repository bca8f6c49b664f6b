/* Owns: what SIGHUP calls, on a thread of its own. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_RELOAD_H
#define UVHTTP_SRC_SERVER_RELOAD_H

#include <pthread.h>
#include <uvhttp/server.h>

typedef struct uvhttp__reload {
    void (*cb)(uvhttp_server_t *server, void *user); /* NULL: nothing */
    void *user;
    pthread_mutex_t lock;
    pthread_t thread;
    bool made;                       /* thread is to be joined; of the thread of the first loop */
    bool running;                    /* under lock */
    bool wanted;                     /* under lock: a signal has come */
    uvhttp_server_config_t *applied; /* by the last reload, written under lock; NULL: there was none */
} uvhttp__reload_t;

void uvhttp__reload_init(uvhttp__reload_t *reload);
/* For the thread that runs; the loops have ended. */
void uvhttp__reload_wait(uvhttp__reload_t *reload);
void uvhttp__reload_deinit(uvhttp__reload_t *reload);

#endif
