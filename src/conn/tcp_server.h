/* Owns: the core of all servers: loops and their threads, listeners, the limit of connections, start, drain and stop.
 * Loops share nothing except the atomics declared here. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_TCP_SERVER_H
#define UVHTTP_SRC_CONN_TCP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "conn/conn.h"

#define UVHTTP__CONN_DESCRIPTION_MAX 64

/* The upper layer's callbacks, on the loop's thread. */
typedef struct uvhttp__conn_ops {
    size_t conn_size; /* bytes of the upper layer's connection, which begins with uvhttp__conn_t */
    int (*on_loop_start)(uvhttp__tcp_loop_t *loop);            /* may be NULL; a code other than 0 ends the start */
    void (*on_loop_stop)(uvhttp__tcp_loop_t *loop);            /* may be NULL; all connections are gone */
    void (*on_loop_delete)(uvhttp__tcp_loop_t *loop);          /* may be NULL; the server is being freed */
    void (*on_loop_drain)(uvhttp__tcp_loop_t *loop, bool cut); /* may be NULL; the server stops, or (cut) the time
                                                                    for that is over */
    bool (*is_busy)(const uvhttp__tcp_loop_t *loop);    /* may be NULL. While it is true the loop does not end; when it
                                                           becomes false: uvhttp__tcp_loop_check_done */
    void (*on_iteration_end)(uvhttp__tcp_loop_t *loop); /* may be NULL */
    void (*on_open)(uvhttp__conn_t *conn);              /* the upper part of the memory is not initialised */
    size_t (*on_data)(uvhttp__conn_t *conn, const char *data, size_t size); /* as uvhttp__stream_ops_t */
    void (*on_end)(uvhttp__conn_t *conn); /* FIN; a broken connection is closed instead */
    void (*on_sent)(uvhttp__conn_t *conn);
    void (*on_timer)(uvhttp__conn_t *conn);
    /* The rate at which a peer must acknowledge output; NULL: options.output of the server. While the connection
     * finishes, that of the server applies. */
    const uvhttp__rate_limits_t *(*output_limits)(const uvhttp__conn_t *conn);
    /* May be NULL: never. Whether it waits for its client with nothing under way. Asked of connections that
     * uvhttp__conn_idle was called for. */
    bool (*is_idle)(const uvhttp__conn_t *conn);
    /* Whether nothing was ever asked on it, so that its first bytes may be on their way. NULL only if is_idle is. */
    bool (*is_new)(const uvhttp__conn_t *conn);
    /* May be NULL: the connection is closed. It is evicted for a new client: send a last message, then call
     * uvhttp__conn_finish, which does not wait for the peer. */
    void (*on_evict)(uvhttp__conn_t *conn);
    /* May be NULL: UVHTTP__PHASE_IDLE. What its client is about. */
    uvhttp__conn_phase_t (*phase)(const uvhttp__conn_t *conn);
    /* May be NULL. For the log: what it spoke, and how much of it, such as "HTTP/1.1, 3 requests". Returns `text`. */
    const char *(*describe)(const uvhttp__conn_t *conn, char text[UVHTTP__CONN_DESCRIPTION_MAX]);
    void (*on_drain)(uvhttp__conn_t *conn);  /* the server stops: end it when what is running is done */
    void (*on_closed)(uvhttp__conn_t *conn); /* last; conn->close_status says why */
    /* May be NULL: none, else up to three. The events, from on_data to on_closed, of connections that speak another
     * protocol of the same server (uvhttp__conn_set_protocol). The other members of such a structure are ignored. */
    const struct uvhttp__conn_ops *const *others;
} uvhttp__conn_ops_t;

/* What connections of an address go through (TLS). */
typedef struct uvhttp__conn_filter {
    /* Instead of the upper layer's on_open: sets the stream's filter and the timer. uvhttp__conn_opened follows when
     * the handshake is done. A code other than 0 closes the connection. */
    int (*open)(uvhttp__conn_t *conn, void *arg);
    void (*release)(void *arg); /* once, when the server is freed */
    void *arg;
    const char *name; /* for the line that tells the addresses */
} uvhttp__conn_filter_t;

typedef struct uvhttp__tcp_server_options {
    uvhttp__engine_kind_t engine;
    uint32_t io_threads; /* 0: one per CPU */
    uint32_t max_connections;
    uint32_t connections_per_address_max; /* 0: no limit */
    uint32_t descriptors_reserved;
    bool raise_descriptor_limit; /* in uvhttp__tcp_server_run */
    bool descriptor_limit_given; /* by the operator: it is not raised */
    uint32_t backlog;
    const char
        *congestion_control; /* TCP congestion control of the listeners (io.h); lives as long as the server, or NULL */
    uint32_t read_buffer_size;
    uint32_t read_buffer_count;
    uint32_t drain_timeout;        /* seconds */
    uint32_t drain_idle_ms;        /* for connections without a request when the server stops */
    uint32_t drain_grace_ms;       /* between a stop and the drain; 0: none */
    uint32_t proxy_timeout;        /* seconds; for a PROXY protocol header, 0: none */
    uint32_t idle_timeout;         /* seconds; for connections of the public TCP server, 0: none */
    uvhttp__rate_limits_t output;  /* what a peer has to take */
    uvhttp__rate_limits_t finish;  /* the same of a connection that ends; its timeout is not 0 */
    uint64_t write_high_watermark; /* bytes; for uvhttp_tcp_send */
    uint64_t write_queue_max;      /* bytes */
    bool install_signal_handlers;
    bool keeps_ages;    /* each loop remembers when its connections were accepted (inspect.h) */
    bool private_paths; /* Unix sockets are created with mode 0600 */
    bool speaks_h2;     /* connections may speak h2 (ALPN) */
    const char *name;   /* for log lines */
    const uvhttp__conn_ops_t *ops;
    void *user;
} uvhttp__tcp_server_options_t;

/* Of a connection whose output is checked. */
typedef struct uvhttp__output_check {
    uvhttp__rate_t rate;
    uvhttp__given_t given;
    uint64_t look_ms; /* when it is looked at next */
    union {
        uint64_t deadline_ms; /* the upper layer's; UINT64_MAX: none */
        uint32_t next_free;
    };
} uvhttp__output_check_t;

struct uvhttp__tcp_loop {
    uvhttp__counters_t counters; /* first: on cache lines of its own */
    uvhttp__tcp_server_t *tcp_server;
    uvhttp__loop_t *io;
    void *user;           /* the upper layer's state of this loop */
    uvhttp__list_t conns; /* all but those in `idle` */
    uvhttp__list_t idle;  /* by idle_since, the longest idle first (evict.c) */
    uvhttp__slab_t slab;
    uvhttp__listener_t *listeners; /* one per address of the server */
    uint32_t listeners_open;
    uint32_t index;
    uvhttp__output_check_t
        *output_checks; /* indexed by conn->output_check, so that the table may grow; entry 0 is unused */
    uint32_t output_check_count, output_check_capacity, output_check_free; /* free: the first of a list; 0: none */
    uint32_t *accepted; /* by descriptor, if options.keeps_ages (inspect.c); NULL: none yet */
    uint32_t accepted_capacity;
    uint64_t discard_tick;               /* since when `discarded` counts, in UVHTTP__CONN_DISCARD_MS */
    uint64_t discarded;                  /* bytes that came behind the end of their connection */
    uint32_t flights, flights_iteration; /* of TLS handshakes, in that iteration of the loop (src/tls/filter.c) */
    uvhttp__timer_t drain_timer;
    uvhttp__timer_t place_timer; /* while a client waits for a place */
    uvhttp__post_t stop_post, cut_post, place_post, evict_post;
    atomic_uint open_questions; /* questions of the admin listener that wait for its reply (src/server/admin_loops.c) */
    atomic_bool place_posted, evict_posted;
    uvhttp__post_t alive_post;
    atomic_bool alive;             /* it has run alive_post */
    atomic_uint evictions_asked;   /* connections that this loop has yet to evict */
    _Atomic(uint32_t) idle_oldest; /* idle_since of the front of `idle`, for other loops; 0: it is empty */
    atomic_bool paused;            /* listeners wait for a place */
    uvhttp__timer_kind_t conn_timer_kind;
    bool draining; /* drain_timer: until the cut; before it: until the end of the grace period */
    bool cut;      /* the drain deadline has passed */
    bool started;
    bool done;
    bool reachable; /* under stop_lock: messages of uvhttp__tcp_server_post are run */
    pthread_t thread;
    _Atomic(clockid_t) cpu_clock; /* of the thread that runs it; 0: none does */
    _Atomic(uint64_t) cpu_ns;     /* that a thread of the past has used */
};

/* The life of a server; the numbers are those of uvhttp_server_state_t. */
typedef enum uvhttp__state {
    UVHTTP__STATE_STARTING,
    UVHTTP__STATE_READY,
    UVHTTP__STATE_GRACE,
    UVHTTP__STATE_DRAINING,
    UVHTTP__STATE_STOPPED
} uvhttp__state_t;

/* Whether it ends when what runs is done: the server stops, or this connection drains alone. */
static inline bool uvhttp__conn_drains(const uvhttp__conn_t *conn) {
    return conn->loop->draining || (conn->flags & UVHTTP__CONN_LAST);
}

/* In on_drain, of who calls the application's on_stop: a connection that drains alone, or has begun to speak while the
 * server stops, knows it already. */
static inline bool uvhttp__conn_drains_again(const uvhttp__conn_t *conn) {
    return conn->loop->draining && (conn->flags & UVHTTP__CONN_LAST);
}

/* Listening sockets that came from the process that this one replaces (inherit.c). */
typedef struct uvhttp__inherited_socket {
    int fd; /* -1: a listener has it */
    uint32_t group;
} uvhttp__inherited_socket_t;

typedef struct uvhttp__inherited {
    uvhttp__inherited_socket_t *sockets;
    uint32_t count;
    uint32_t group_count; /* a group has the sockets of one address */
    char (*addresses)[UVHTTP__ADDRESS_TEXT_MAX];
} uvhttp__inherited_t;

/* Whether all loops iterate (liveness.c). */
typedef struct uvhttp__liveness {
    uint32_t period_ms; /* 0: nobody asks */
    void (*on_alive)(void *arg);
    void *arg;
    uvhttp__timer_t timer; /* of the first loop */
} uvhttp__liveness_t;

struct uvhttp__tcp_server {
    uvhttp__tcp_server_options_t options;
    uvhttp__tcp_loop_t *loops; /* worker_count of them, from alloc_aligned */
    uint32_t loop_count;
    uvhttp__endpoint_t *endpoints;
    uvhttp__conn_filter_t *filters; /* one per endpoint; open is NULL for none */
    int *fds; /* endpoint_count rows of worker_count listening sockets, -1 once a worker owns them */
    _Atomic uint32_t endpoint_count;    /* any thread may read it, and what so many endpoints and filters are */
    const uvhttp__ip_ranges_t *proxies; /* who may speak the PROXY protocol; the upper layer's. NULL: nobody */
    uint32_t connections_limit;    /* max_connections, or fewer for want of descriptors; known before the loops run */
    uint32_t descriptors_promised; /* to its connections (descriptors.c) */
    struct uvhttp__address_limit *addresses; /* NULL: no limit of connections per address */
    atomic_uint connections;                 /* open, over all loops */
    atomic_uint loops_paused;
    atomic_uint loops_closed;  /* whose listeners are closed: all of them */
    pthread_mutex_t stop_lock; /* a stop of another thread meets all loops or none, and none of them twice */
    int stop_level;            /* under stop_lock: 0 runs, 1 drains, 2 cuts off */
    bool loops_ready;          /* under stop_lock */
    bool dry_run;              /* listen and run open nothing, and return what they would as far as that is known */
    const struct uvhttp__tcp_server *companion; /* has addresses, too; NULL: none */
    bool passed_on; /* another process has the listening sockets, too; before the loops are asked to drain */
    bool signalled; /* the first loop's: a signal has asked for a stop */
    uvhttp__late_signals_t late_signals;
    int failure;                /* under stop_lock: UVHTTP_E_IO once a loop's backend has failed, which error tells */
    bool gate_open;             /* under stop_lock: the loops iterate */
    uint32_t loops_entered;     /* under stop_lock: by the threads that run them, before the gate opens */
    pthread_cond_t gate;        /* one of these two has changed */
    atomic_uint others;         /* threads that run loops, without that of the first loop ... */
    bool others_run;            /* ... and whether there are any, as that one knows: it ends last, for the signals */
    uvhttp__post_t others_post; /* to the first loop: there are none any more */
    atomic_int state;           /* uvhttp__state_t; written under stop_lock, except for the last */
    atomic_bool stopping;       /* a loop has begun to drain */
    struct uv_loop_s *uv;       /* attached to, or NULL */
    uint64_t thread;            /* attached: number of the one that did it; with next_attached under attached_lock */
    struct uvhttp__tcp_server *next_attached;
    bool running;
    bool finished;                 /* it has run: a server runs once, because its sockets went with its loops */
    void (*on_stopped)(void *arg); /* attached */
    void *on_stopped_arg;
    void (*on_hangup)(void *arg); /* SIGHUP, on the first loop's thread; NULL: that signal is not handled */
    void *on_hangup_arg;
    void (*on_upgrade)(void *arg); /* SIGUSR2, in the same way */
    void *on_upgrade_arg;
    /* May be NULL. The state has changed. Under stop_lock, except for STOPPED: it must not block. */
    void (*on_state)(void *arg, uvhttp__state_t state);
    void *on_state_arg;
    /* May be NULL. The state is READY, nothing is locked, and no loop has accepted a connection. On the thread of the
     * first loop. */
    void (*on_ready)(void *arg);
    void *on_ready_arg;
    uvhttp__inherited_t inherited; /* from the process that this one replaces */
    uvhttp__liveness_t liveness;
    char error[256];
    char engine_reason[128];
    _Atomic(const char *) engine; /* set when all loops are made: a thread that reads it also sees engine_reason and the
                                     state of the loops, which remain when these have ended */
};

/* The name of the engine, and *reason why it was chosen; both NULL before the loops are made. Any thread. */
static inline const char *uvhttp__tcp_server_engine(const uvhttp__tcp_server_t *tcp_server, const char **reason) {
    const char *engine = atomic_load_explicit(&tcp_server->engine, memory_order_acquire);
    *reason = engine ? tcp_server->engine_reason : NULL;
    return engine;
}

/* Whom the events of the connection go to. */
static inline const uvhttp__conn_ops_t *uvhttp__conn_ops(const uvhttp__conn_t *conn) {
    const uvhttp__conn_ops_t *ops = conn->loop->tcp_server->options.ops;
    unsigned number = (conn->flags & UVHTTP__CONN_PROTOCOL) >> 13;
    return __builtin_expect(number > 0, 0) ? ops->others[number - 1] : ops;
}

/* Returns 0 or UVHTTP_E_NOMEM; on failure *tcp_server is not written. Options are copied, ops must be static. */
int uvhttp__tcp_server_new(const uvhttp__tcp_server_options_t *options, uvhttp__tcp_server_t **tcp_server);
int uvhttp__tcp_server_attach(uvhttp__tcp_server_t *tcp_server, struct uv_loop_s *uv);
/* filter: NULL for none; copied, and released by uvhttp__tcp_server_free, if 0 is returned. */
int uvhttp__tcp_server_listen(uvhttp__tcp_server_t *tcp_server, const char *address,
                              const uvhttp__conn_filter_t *filter, uint16_t *port);
int uvhttp__tcp_server_run(uvhttp__tcp_server_t *tcp_server);
/* Instead of a run, because a step of the start before it has failed: closes the sockets. Not for an attached server.
 * Does nothing after a run. */
void uvhttp__tcp_server_abandon(uvhttp__tcp_server_t *tcp_server);
/* Nothing of the start can fail any more: a server that is starting, and was not asked to stop, is READY. Otherwise
 * nothing happens. Attached servers: after a listen, on the loop's thread. */
void uvhttp__tcp_server_enter_ready(uvhttp__tcp_server_t *tcp_server);
void uvhttp__tcp_server_stop(uvhttp__tcp_server_t *tcp_server); /* any thread */
/* Another process accepts on the same sockets: drains without a grace period, and leaves the backlog to it. Any thread.
 */
void uvhttp__tcp_server_pass_on(uvhttp__tcp_server_t *tcp_server);
/* An attached server whose loop still iterates is freed when its handles have closed. */
void uvhttp__tcp_server_free(uvhttp__tcp_server_t *tcp_server);

/* Addresses that are listened on, one after the other, separated by ", ". */
void uvhttp__tcp_server_addresses(const uvhttp__tcp_server_t *tcp_server, char *text, size_t size);
void uvhttp__tcp_server_counters(const uvhttp__tcp_server_t *tcp_server, uvhttp__counter_sums_t *sums);
/* CPU time of the loop's thread, ns. Any thread. */
uint64_t uvhttp__tcp_loop_cpu_ns(const uvhttp__tcp_loop_t *loop);
/* The calling thread runs the loop from here on, or does so no more. */
void uvhttp__tcp_loop_enter(uvhttp__tcp_loop_t *loop);
void uvhttp__tcp_loop_leave(uvhttp__tcp_loop_t *loop);
/* Returns the loop of the calling thread; of several attached servers that have not been freed, the one that calls or,
 * in what others call, has called last. NULL: there is none. It does not tell whether an object belongs to that loop.
 */
uvhttp__loop_t *uvhttp__tcp_server_current_loop(void);

/* --- inherit.c --- */

/* Keeps a listening socket of the process that this one replaces, for a listen on the same text; more: it belongs to
 * the address of the call before. Takes the descriptor. Returns 0, UVHTTP_E_NOMEM, or UVHTTP_E_ADDRESS (no listening
 * stream socket). */
int uvhttp__inherited_add(uvhttp__inherited_t *inherited, const char *address, int fd, bool more);
/* One of the sockets that a listen on endpoint->text would take, which stays here; -1: none. */
int uvhttp__inherited_peek(const uvhttp__tcp_server_t *tcp_server, const uvhttp__endpoint_t *endpoint);
/* Closes those that no listener uses, and frees. Idempotent. */
void uvhttp__inherited_close(uvhttp__inherited_t *inherited);
/* Calls each(text, fd, more, arg) with a duplicate of every listening socket, which becomes the callee's, while the
 * loops run and no stop was asked for; fd -1: there are no descriptors left. Returns 0 or UVHTTP_E_STATE. Any thread.
 */
int uvhttp__tcp_server_each_socket(uvhttp__tcp_server_t *tcp_server,
                                   void (*each)(const char *text, int fd, bool more, void *arg), void *arg);

/* uvhttp_tcp_server_listen with a filter, as uvhttp__tcp_server_listen. */
int uvhttp__tcp_server_listen_filter(uvhttp_tcp_server_t *server, const char *address,
                                     const uvhttp__conn_filter_t *filter, uint16_t *port);

/* The loop may have nothing left to wait for: then a draining loop ends. Notifies the owner of an attached server. */
void uvhttp__tcp_loop_check_done(uvhttp__tcp_loop_t *loop);

#endif
