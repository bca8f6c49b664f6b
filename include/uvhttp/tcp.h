/* Owns: the TCP server, usable without HTTP. Callbacks run on the loop thread of their connection. Functions that take
 * a connection must be called on that thread, unless documented otherwise. */
#ifndef UVHTTP_TCP_H
#define UVHTTP_TCP_H

#include <uvhttp/error.h>
#include <uvhttp/types.h>

UVHTTP_BEGIN_DECLS

struct uv_loop_s;
typedef struct uvhttp_tcp uvhttp_tcp_t;
typedef struct uvhttp_tcp_server uvhttp_tcp_server_t;
typedef struct uvhttp_tcp_ref_s uvhttp_tcp_ref_t;

typedef struct uvhttp_tcp_handlers {
    /** A client has connected. May be NULL. */
    void (*on_open)(uvhttp_tcp_t *tcp, void *user);
    /** Bytes have arrived. `data` is valid during the call, and the callback may overwrite it. Required. */
    void (*on_data)(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user);
    /** The queue is empty again after uvhttp_tcp_send reported backpressure. May be NULL. */
    void (*on_drain)(uvhttp_tcp_t *tcp, void *user);
    /** The client has sent FIN; sending is still possible. NULL: the connection closes after queued bytes are sent. */
    void (*on_end)(uvhttp_tcp_t *tcp, void *user);
    /** The last call for a connection. `status` is 0 (closed by the application or the client, or uvhttp_tcp_reset),
     * UVHTTP_E_ABORTED (reset by the client), UVHTTP_E_TIMEOUT (idle_timeout, min_send_rate or drain_timeout),
     * UVHTTP_E_LIMIT (see uvhttp_tcp_ref_send), UVHTTP_E_NOMEM, or UVHTTP_E_TLS_* with TLS. May be NULL. */
    void (*on_close)(uvhttp_tcp_t *tcp, int status, void *user);
    /** The time of uvhttp_tcp_set_timer has passed. May be NULL. */
    void (*on_timer)(uvhttp_tcp_t *tcp, void *user);
    /** The server starts to stop. The connection may send a last message; it is cut off at the end of the drain time.
     * NULL: it closes after queued bytes are sent. */
    void (*on_stop)(uvhttp_tcp_t *tcp, void *user);
    void *reserved[4]; /**< NULL: for later releases */
} uvhttp_tcp_handlers_t;

typedef struct uvhttp_tcp_config {
    uint32_t struct_size;          /**< set by config_default */
    uint32_t io_threads;           /**< 0..1024; 0: one per CPU (default) */
    int engine;                    /**< 0: auto, 1: io_uring, 2: epoll (uvhttp_engine_t) */
    uint32_t max_connections;      /**< default 10000 */
    uint32_t backlog;              /**< default 4096 */
    uint32_t read_buffer_size;     /**< bytes; default 16384 */
    uint32_t read_buffer_count;    /**< per loop, power of two; default 64 */
    uint32_t idle_timeout;         /**< seconds without a byte in either direction, 1..604800; default UVHTTP_NEVER */
    uint32_t drain_timeout;        /**< seconds, 0..604800. 0: at once; default 30 */
    uint64_t write_high_watermark; /**< queued bytes at which send reports backpressure; default 1 MiB */
    uint64_t write_queue_max;     /**< maximum of queued bytes; send refuses more with UVHTTP_E_LIMIT; default 64 MiB */
    bool install_signal_handlers; /**< uvhttp_tcp_server_run drains on SIGINT and SIGTERM, and a second one cuts off.
                                     From its return until uvhttp_tcp_server_free one more is ignored, the next ends the
                                     process; a handler that the program has set is in force again. Default true */
    uint32_t min_send_rate; /**< bytes per second at which a peer must acknowledge queued output, 1..2^30; below it the
                               connection is reset. Bytes acknowledged ahead count for rate_grace seconds. Default
                               UVHTTP_NEVER, because a peer may have reasons not to read for a while */
    uint32_t rate_grace;    /**< seconds, 0..604800; default 5 */
    bool raise_descriptor_limit;          /**< as in uvhttp_server_config_t; default true */
    uint32_t descriptors_reserved;        /**< the same; 0..1,000,000; default 512 */
    uint32_t connections_per_address_max; /**< the same; 1..10,000,000 or UVHTTP_NEVER (default) */
} uvhttp_tcp_config_t;

UVHTTP_EXPORT UVHTTP_OWNER_THREAD void uvhttp_tcp_config_init(uvhttp_tcp_config_t *config, size_t struct_size);
#define uvhttp_tcp_config_default(config) uvhttp_tcp_config_init((config), sizeof(uvhttp_tcp_config_t))

/** Creates a TCP server. `config` NULL means defaults; the handlers are copied. Returns NULL when out of memory or when
 * an argument is wrong (logged). Functions that are given NULL for a server return UVHTTP_E_INVALID, NULL or 0, and do
 * nothing; uvhttp_tcp_server_error_text says so. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD uvhttp_tcp_server_t *
uvhttp_tcp_server_new(const uvhttp_tcp_config_t *config, const uvhttp_tcp_handlers_t *handlers, void *user);
/** Listens, as uvhttp_server_listen does. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_tcp_server_listen(uvhttp_tcp_server_t *server, const char *address,
                                                               uint16_t *port);
/** Runs, as uvhttp_server_run does, but prints nothing on stderr. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_tcp_server_run(uvhttp_tcp_server_t *server, const char *address);
/** Attaches the server to a loop, as uvhttp_server_attach does. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD int uvhttp_tcp_server_attach(uvhttp_tcp_server_t *server, struct uv_loop_s *loop);
/** Starts to stop. Connections close when their queue is sent, at the latest after config.drain_timeout. Idempotent.
 * Any thread, but not a signal handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_tcp_server_stop(uvhttp_tcp_server_t *server);
/** Sets the function that is called when the server is ready, as uvhttp_server_on_ready does. Call it before run or
 * attach. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD void uvhttp_tcp_server_on_ready(uvhttp_tcp_server_t *server,
                                                                  void (*on_ready)(void *user), void *user);
/** Sets the function that an attached server calls on its loop when it has stopped. */
UVHTTP_EXPORT UVHTTP_SETUP_THREAD void uvhttp_tcp_server_on_stopped(uvhttp_tcp_server_t *server,
                                                                    void (*on_stopped)(void *user), void *user);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD void uvhttp_tcp_server_free(uvhttp_tcp_server_t *server);
UVHTTP_EXPORT UVHTTP_SETUP_THREAD const char *uvhttp_tcp_server_error_text(const uvhttp_tcp_server_t *server);
/** As uvhttp_server_engine. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_tcp_server_engine(const uvhttp_tcp_server_t *server,
                                                                     const char **reason);

/** Queues a copy of `size` bytes. *queued (may be NULL) receives the number of queued bytes. Returns 0,
 * UVHTTP_E_CLOSED, UVHTTP_E_NOMEM, UVHTTP_E_AGAIN (queued, but the queue is above write_high_watermark: stop until
 * on_drain) or UVHTTP_E_LIMIT (not queued because of write_queue_max). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_tcp_send(uvhttp_tcp_t *tcp, const void *data, size_t size, size_t *queued);
/** Queues bytes without copying them. They must stay unchanged until release(arg), which is called exactly once, on the
 * loop's thread: inside this call if it fails, otherwise before on_close. It may use the connection, for example to
 * queue more. Otherwise as uvhttp_tcp_send. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_tcp_send_ref(uvhttp_tcp_t *tcp, const void *data, size_t size,
                                                         void (*release)(void *arg), void *arg);
/** Pauses or resumes on_data. While paused, the socket is not read beyond a bound. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_pause(uvhttp_tcp_t *tcp);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_resume(uvhttp_tcp_t *tcp);
/** Sends FIN after the queue; receiving continues. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_shutdown(uvhttp_tcp_t *tcp);
/** Sends the queue, then closes. on_data is not called any more. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_close(uvhttp_tcp_t *tcp);
/** Closes immediately with RST. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_reset(uvhttp_tcp_t *tcp);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_tcp_set_data(uvhttp_tcp_t *tcp, void *data);
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void *uvhttp_tcp_data(const uvhttp_tcp_t *tcp);
/** Calls on_timer once, `ms` (at most 2^40) from now and up to 64 ms late. A second call replaces the timer; 0 stops
 * it. Returns 0, UVHTTP_E_CLOSED, or UVHTTP_E_STATE (the server's idle_timeout uses the connection's only timer). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_tcp_set_timer(uvhttp_tcp_t *tcp, uint64_t ms);
/** Writes the peer's address ("192.0.2.1:50000", terminated) into text[size]. 64 bytes suffice for IP. Returns 0 or
 * UVHTTP_E_IO. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_tcp_peer(uvhttp_tcp_t *tcp, char *text, size_t size);

/** Returns a reference-counted handle for other threads, or NULL when out of memory or closed. Release it with
 * uvhttp_tcp_ref_release. The functions below return UVHTTP_E_INVALID for NULL, or do nothing. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD uvhttp_tcp_ref_t *uvhttp_tcp_ref(uvhttp_tcp_t *tcp);
/* Any thread: */
/** Sends a copy. Returns 0 (queued), UVHTTP_E_ABORTED (the connection has ended), UVHTTP_E_INVALID (`data` is NULL and
 * `size` is not 0) or UVHTTP_E_NOMEM. Calls of one thread keep their order. Bytes that the connection's queue refuses
 * (write_queue_max, or no memory) reset the connection with UVHTTP_E_LIMIT or UVHTTP_E_NOMEM, so that none are missing
 * in front of others; behind uvhttp_tcp_close or uvhttp_tcp_shutdown they are dropped. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_tcp_ref_send(uvhttp_tcp_ref_t *ref, const void *data, size_t size);
/** Closes the connection as uvhttp_tcp_close does, after all bytes of earlier calls have left. Returns 0,
 * UVHTTP_E_ABORTED or UVHTTP_E_NOMEM. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_tcp_ref_close(uvhttp_tcp_ref_t *ref);
/** Calls run(tcp, arg) on the connection's thread, asynchronously. `tcp` is NULL if the connection has ended by then.
 * Returns 0, UVHTTP_E_ABORTED (the connection has ended), UVHTTP_E_INVALID (`run` is NULL) or UVHTTP_E_NOMEM; on
 * failure `run` is not called. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_tcp_ref_run(uvhttp_tcp_ref_t *ref, void (*run)(uvhttp_tcp_t *tcp, void *arg),
                                                       void *arg);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_tcp_ref_retain(uvhttp_tcp_ref_t *ref);
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_tcp_ref_release(uvhttp_tcp_ref_t *ref);

typedef struct uvhttp_tcp_metrics {
    uint64_t connections_accepted, connections_closed, bytes_received, bytes_sent;
} uvhttp_tcp_metrics_t;
UVHTTP_EXPORT UVHTTP_ANY_THREAD void
uvhttp_tcp_server_metrics_sized(const uvhttp_tcp_server_t *server, uvhttp_tcp_metrics_t *metrics, size_t metrics_size);
/** Takes a snapshot of the counters. Any thread. */
static inline void uvhttp_tcp_server_metrics(const uvhttp_tcp_server_t *server, uvhttp_tcp_metrics_t *metrics) {
    uvhttp_tcp_server_metrics_sized(server, metrics, sizeof *metrics);
}

UVHTTP_END_DECLS

#endif
