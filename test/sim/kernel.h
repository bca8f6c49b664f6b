/* Owns: what kernel.c and ring.c, which is a part of the simulated kernel, share. */
#ifndef UVHTTP_TEST_SIM_KERNEL_H
#define UVHTTP_TEST_SIM_KERNEL_H

#include <sys/types.h>
#include <sys/uio.h>

#include "sim.h"

enum {
    FD_FIRST = 100000, /* descriptors below are real ones */
    FD_MAX = 8192,
    BACKLOG_MAX = 128,
    QUEUE_MAX = 64 * 1024,
};

typedef enum kind {
    FREE,
    SOCKET,
    LISTENER,
    STREAM,
    PEER, /* the other end of a socket pair */
    EPOLL,
    EVENT,
    TIMER,
    RING,   /* ring.c */
    OUTPUT, /* outputs.c */
    DISK,   /* a file of disk.c */
    DIRECTORY,
} kind_t;

/* Bytes on their way: from `begin` on, `size` of them, in `data[capacity]`, a ring. */
typedef struct queue {
    char *data;
    uint32_t begin, size, capacity;
    uint64_t passed; /* read by the other end so far */
} queue_t;

struct sim_conn {
    queue_t to_server, to_client;
    sim_random_t random;
    void (*wake)(void *arg); /* whose connection it is hears of something */
    void *arg;               /* NULL: nobody's */
    uint64_t looked_at;      /* bytes that had come when the server last asked whether any wait, and none did */
    bool looked;
    uint32_t client;
    uint32_t ip;
    uint16_t port;
    int fd;    /* of the server; -1: it waits in the backlog */
    int error; /* of the socket, reported once */
    bool client_fin, client_rst, client_gone;
    bool server_fin, server_rst, server_gone;
    bool linger_zero;
    bool unheard;                 /* its SYN is lost */
    bool accepted, takes_place;   /* takes_place: of those of the server */
    bool is_unix;                 /* FIN may not wake a receive of the ring either (pitfall 11) */
    bool counts, refused;         /* for its address */
    uint32_t header_size;         /* of the PROXY protocol */
    bool never_accepted;          /* there were no descriptors for it, and its listener was closed */
    uint16_t starved, starved_at; /* receives that found no buffer, at this tail of the buffer ring */
};

typedef struct item {
    int fd;
    uint32_t events;
    uint64_t data;
    bool edge; /* something has happened since it was reported */
} item_t;

/* Of a listening socket. Several descriptors may have it. */
typedef struct backlog {
    sim_conn_t *conns[BACKLOG_MAX];
    uint32_t size, holders;
} backlog_t;

typedef struct epoll_set {
    item_t *items;
    uint32_t count, capacity;
    uint16_t places[FD_MAX]; /* of a simulated descriptor's item, from 1 on; 0: it has none */
} epoll_set_t;

typedef struct descriptor {
    kind_t kind;
    sim_conn_t *conn;      /* STREAM, PEER */
    struct sim_ring *ring; /* RING */
    struct output *output; /* OUTPUT */
    struct sim_file *file; /* DISK; its position is `number` */
    epoll_set_t *set;      /* EPOLL */
    uint64_t number;       /* EVENT: what was written; TIMER: when it fires, SIM_NEVER: not set */
    backlog_t *backlog;    /* LISTENER */
    bool closing;          /* LISTENER: it is about to be closed */
    uint16_t port;
} descriptor_t;

/* Fails the run if the descriptor is not open. */
descriptor_t *sim_find(int fd, const char *call);
int sim_descriptor_new(kind_t kind);
bool sim_is_open(int fd);
static inline bool sim_is_simulated(int fd) {
    return fd >= FD_FIRST;
}

extern sim_random_t sim_kernel_random;
void sim_machine_reset(uint64_t seed); /* machine.c */

/* epoll.c */
item_t *sim_set_find(epoll_set_t *set, int fd);
void sim_set_drop(epoll_set_t *set, int fd);
void sim_set_free(epoll_set_t *set);
bool sim_set_ready(const epoll_set_t *set);

size_t sim_queue_put(queue_t *queue, const char *data, size_t size);
size_t sim_queue_take(queue_t *queue, char *data, size_t size);
/* How much of a call is done, of `size`: all, a part, or a byte. */
size_t sim_share(sim_random_t *random, size_t size);

/* The connection of a socket of the server's; fails the run if it is none. */
sim_conn_t *sim_stream_of(int fd, const char *call);
/* What poll(2) would tell of it, whatever is asked for. */
uint32_t sim_events(int fd);
/* One try to send; returns bytes or -errno. */
ssize_t sim_stream_send(sim_conn_t *conn, const struct iovec *iov, size_t count);
/* Bytes were received, or the end was: the client may send more. */
void sim_wake_client(const sim_conn_t *conn);

/* addresses.c: it was accepted, or something was read. */
void sim_address_look(sim_conn_t *conn);
void sim_address_closed(sim_conn_t *conn);

/* uv.c: whether the libuv with this descriptor has something to tell. */
bool sim_uv_ready(int backend_fd);

/* ring.c; in a build without io_uring there are no rings. */
bool sim_ring_ready(const struct sim_ring *ring);
uint64_t sim_ring_next_ns(const struct sim_ring *ring);
void sim_rings_reset(uint64_t seed);
/* Somebody has done something: a ring that is a guest of an application's loop may have to wake it. */
void sim_rings_look(void);
/* That loop polls now, and perhaps waits. */
void sim_rings_check_guests(bool waits);
/* Adds to the value of an event. */
void sim_event_add(int fd, uint64_t number);

/* outputs.c */
struct stat;
/* Whether the descriptor is one that lines are written to. */
bool sim_output_is(int fd);
uint32_t sim_output_events(int fd);
ssize_t sim_output_write(int fd, const char *data, size_t size);
int sim_output_stat(int fd, struct stat *info);
/* Of a descriptor that is open; NULL: it is another. */
struct output *sim_output_of(int fd);
/* Opens SIM_ACCESS_LOG. A descriptor, or -1 and errno. */
int sim_access_log_open(void);

int __wrap_close(int fd);

#endif
