/* Owns: what a server knows of its process as a service (uvhttp/service.h). May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_PROCESS_H
#define UVHTTP_SRC_SERVER_PROCESS_H

#include <pthread.h>
#include <signal.h>
#include <uvhttp/service.h>

#include "conn/tcp_server.h"

/* An upgrade from this process to the next. */
typedef struct uvhttp__successor {
    char *executable; /* NULL: /proc does not tell it */
    char *words;      /* the bytes of `arguments` */
    char **arguments;
    sigset_t mask; /* of signals, as the program was started */
    pthread_mutex_t lock;
    pthread_t thread;
    bool made;     /* under lock: thread is to be joined */
    bool running;  /* under lock */
    bool over;     /* under lock: the server stops or has ended */
    bool replaced; /* under lock: the new process is ready */
    int channel;   /* under lock: to the new process while it starts, or -1 */
} uvhttp__successor_t;

typedef struct uvhttp__process {
    uvhttp_server_t *server;
    uvhttp__successor_t successor;
    int channel;             /* to the process that this one replaces, until this one is ready; else -1 */
    int pid_file;            /* locked; -1: none */
    bool borrowed;           /* pid_file is the old process's, too, until this one is ready */
    sigset_t held;           /* signals that this thread has blocked until the server is ready */
    const char *unreachable; /* why the service manager is; NULL: it is not known to be */
} uvhttp__process_t;

/* --- process.c --- */

/* All addresses are bound, and no loop has started. Returns 0 or a code; the server remembers the reason. */
int uvhttp__process_before_run(uvhttp__process_t *process);
/* The server is ready: after an upgrade, the process that this one replaces hears of it. */
void uvhttp__process_ready(uvhttp__process_t *process);
/* The run has ended, or never began. */
void uvhttp__process_free(uvhttp__process_t *process);
/* SIGHUP: before and after the program has reloaded. The reload's thread. */
void uvhttp__process_reloading(uvhttp__process_t *process);
void uvhttp__process_reloaded(uvhttp__process_t *process);

/* --- pid_file.c --- */

/* Opens and locks the file. fd NULL: nothing is opened, and the result is what can be known without that; other
 * processes and the rights of this one are left out. Returns 0, UVHTTP_E_ADDRESS_IN_USE, UVHTTP_E_PERMISSION or
 * UVHTTP_E_IO with `message`. */
int uvhttp__pid_file_open(const char *path, int *fd, char *message, size_t size);
/* Returns false with errno. */
bool uvhttp__pid_file_write(int fd);
/* Removes the file, or empties it where that is not allowed. */
void uvhttp__pid_file_remove(int fd, const char *path);

/* --- privileges.c --- */

/* As uvhttp_service_drop_privileges. dry_run: the names are looked up, and nothing is changed. */
int uvhttp__drop_privileges(const char *user, const char *group, bool dry_run, char *message, size_t size);

/* --- successor.c --- */

void uvhttp__successor_init(uvhttp__successor_t *successor);
/* The server stops: an upgrade that is in progress ends, and no other one begins. Any thread. */
void uvhttp__successor_cancel(uvhttp__successor_t *successor);
/* As uvhttp_service_notify, unless a new process is the service by now. Any thread. */
void uvhttp__successor_notify(uvhttp__successor_t *successor, const char *state);
/* The server does not run any more: as above, and waits for the end. Returns whether a new process has replaced this
 * one. */
bool uvhttp__successor_wait(uvhttp__successor_t *successor);
void uvhttp__successor_deinit(uvhttp__successor_t *successor);
/* In a process that was started by an upgrade: takes what the old one passes. Returns 0 (also when it was not) or a
 * code with `message`. */
int uvhttp__successor_receive(uvhttp__process_t *process, char *message, size_t size);
/* The loops run, or (why: not NULL) they never will. Returns false if the old process is gone. */
bool uvhttp__successor_report(uvhttp__process_t *process, const char *why);

#endif
