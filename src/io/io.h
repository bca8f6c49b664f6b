/* Owns: the interface of the I/O engines. A loop iterates on one thread, streams are connected sockets of a loop,
 * listeners make streams. Everything here belongs to the loop's thread unless it says otherwise. May include: base,
 * obs.
 *
 * The design is cheap for these reasons:
 * - Received bytes are lent: on_data sees them where the kernel put them and returns how many it has consumed.
 * - What is sent in an iteration is collected and submitted to the kernel at its end, one operation per stream. Bytes
 * written into the iteration arena (uvhttp__loop_iteration_alloc) are sent from there, without a buffer per connection
 * and without a copy. The engine keeps a copy only of what the kernel does not accept immediately.
 * - Nothing is called back inside a call: callbacks come only from the loop's iteration. */
#ifndef UVHTTP_SRC_IO_IO_H
#define UVHTTP_SRC_IO_IO_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

#include "base/list.h"
#include "base/mpsc.h"
#include "base/slab.h"
#include "base/timer_wheel.h"
#include "obs/counters.h"

struct uv_loop_s;
typedef struct uvhttp__loop uvhttp__loop_t;
typedef struct uvhttp__stream uvhttp__stream_t;
typedef struct uvhttp__listener uvhttp__listener_t;
typedef struct uvhttp__engine uvhttp__engine_t;

/* --- addresses (io_address.c) --- */

typedef union uvhttp__address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
} uvhttp__address_t;

#define UVHTTP__ADDRESS_TEXT_MAX 128

/* What "127.0.0.1:8080", "[::1]:8080", "*:8080" and ":8080" (dual stack any), "localhost:8080", "unix:/path" or
 * "unix:@abstract", "fd:3" or "systemd" and "systemd:name" (LISTEN_FDS: the first socket, or the
 * one of that name) mean. */
typedef struct uvhttp__endpoint {
    uvhttp__address_t address;
    socklen_t address_size; /* bytes; 0 for an inherited descriptor */
    int fd;                 /* inherited descriptor, or -1 */
    bool dual_stack;        /* IPv6 socket that takes IPv4 too */
    bool private_path;      /* the path of a Unix socket has mode 0600 */
    bool is_passed_in;      /* a socket of whoever starts the process: "fd:N", "systemd" */
    bool is_more;           /* further sockets of the endpoint before it */
    bool proxy_protocol;    /* " proxy_protocol" was behind the address: that is how connections have to begin */
    const char *congestion_control; /* TCP's, of a listener: a name, or "system"; NULL or "": uvhttp__listen_socket */
    char text[UVHTTP__ADDRESS_TEXT_MAX]; /* what was parsed, without " proxy_protocol" */
} uvhttp__endpoint_t;

/* The first half of parsing: takes the option off and keeps the rest as `text`; everything else is cleared. Returns 0
 * or UVHTTP_E_ADDRESS. */
int uvhttp__endpoint_split(const char *text, uvhttp__endpoint_t *endpoint);
/* Returns 0 or UVHTTP_E_ADDRESS; no DNS beyond "localhost". */
int uvhttp__endpoint_parse(const char *text, uvhttp__endpoint_t *endpoint);

/* Writes "127.0.0.1:8080", "[::1]:8080" or "unix:/path", terminated, into text[UVHTTP__ADDRESS_TEXT_MAX]. */
void uvhttp__address_format(const uvhttp__address_t *address, socklen_t size, char *text);

/* Whether only this machine reaches an address of IP. False for others. */
bool uvhttp__address_is_loopback(const uvhttp__address_t *address);
/* Whether two sockets cannot listen on these at the same time. */
bool uvhttp__endpoint_overlaps(const uvhttp__endpoint_t *a, const uvhttp__endpoint_t *b);

/* Makes a bound, listening, close-on-exec socket (or checks the inherited one, whose backlog 0 leaves as it is). TCP:
 * SO_REUSEADDR, TCP_NODELAY, and SO_REUSEPORT if `reuse_port`, and the endpoint's congestion control; where that names
 * none, "reno" on a loopback address (docs/internals/io.md) and else the system's. A stale Unix socket file that nobody
 * listens on is replaced. *fd is the caller's. Returns 0 or UVHTTP_E_ADDRESS_IN_USE, UVHTTP_E_PERMISSION,
 * UVHTTP_E_ADDRESS, UVHTTP_E_IO, UVHTTP_E_CONFIG (the congestion control: errno is ENOENT for an unknown one, EPERM for
 * one that is not allowed); errno is set. fd NULL: nothing is bound, and the result is what can be known without that;
 * other processes and the rights of this one are left out. */
int uvhttp__listen_socket(const uvhttp__endpoint_t *endpoint, int backlog, bool reuse_port, int *fd);

/* --- streams --- */

typedef struct uvhttp__stream_ops {
    /* Bytes came. Returns how many were consumed (<= size). Fewer: the engine keeps the rest and reads at most a
     * bounded number of bytes more until uvhttp__stream_resume; what is kept is delivered again first. data is valid in
     * the call. */
    size_t (*on_data)(uvhttp__stream_t *stream, const char *data, size_t size);
    /* The peer sent FIN (status UVHTTP_OK; all data before it has been consumed) or the connection broke
     * (UVHTTP_E_ABORTED; at once, kept bytes are dropped). Sending may still work after UVHTTP_OK. Each comes at
     * most once, and after UVHTTP_E_ABORTED nothing does. */
    void (*on_end)(uvhttp__stream_t *stream, int status);
    /* All that was queued has been handed to the kernel; only when it was asked for with uvhttp__stream_notify_sent. */
    void (*on_sent)(uvhttp__stream_t *stream);
    /* After uvhttp__stream_close: the kernel holds no reference any more; the memory may be freed here. Exactly once.
     */
    void (*on_closed)(uvhttp__stream_t *stream);
    /* Queued output continues beyond this iteration: the kernel does not accept it, it must still be read from disk, or
     * there is too much of it. Called within the iteration's end or a completion: nothing may be sent or closed in it.
     * May be NULL. */
    void (*on_kept)(uvhttp__stream_t *stream);
    /* Result of uvhttp__stream_connect: 0 or a UVHTTP_E_* code. May be NULL for accepted streams. */
    void (*on_connect)(uvhttp__stream_t *stream, int status);
} uvhttp__stream_ops_t;

typedef void (*uvhttp__release_cb)(void *arg);

/* A filter between a stream and its owner (TLS). The owner's output is encoded when it is flushed, not before, so that
 * a slow peer bounds the encoded bytes. The filter's ops are the stream's ops and decode input. io_filter.c */
typedef struct uvhttp__filter_ops {
    /* Encodes at most UVHTTP__FILTER_PIECE_MAX bytes with uvhttp__filter_put. A code other than 0 breaks the stream. */
    int (*encode)(uvhttp__stream_t *stream, const char *data, size_t size);
    /* All is encoded and FIN follows: the filter may send its close_notify. */
    void (*encode_end)(uvhttp__stream_t *stream);
    /* While may_pass is set, as uvhttp__stream_pass. */
    bool (*pass)(uvhttp__stream_t *stream);
    /* Called instead of encode_end when the kernel encrypts: writes close_notify to the descriptor. Returns 0,
     * UVHTTP_E_AGAIN (the socket is full) or the error that breaks the stream. */
    int (*pass_end)(uvhttp__stream_t *stream);
    /* uvhttp__stream_close with nothing queued or in flight: close_notify may be written to the descriptor. */
    void (*closing)(uvhttp__stream_t *stream);
    /* Whether something was received that the owner has not seen. */
    bool (*unread)(const uvhttp__stream_t *stream);
} uvhttp__filter_ops_t;

typedef struct uvhttp__filter {
    const uvhttp__filter_ops_t *ops;
    bool may_pass; /* ops->pass is worth a question */
} uvhttp__filter_t;

#define UVHTTP__FILTER_PIECE_MAX 16384
/* Bytes of a file for which what is done once per connection pays. */
#define UVHTTP__FILTER_PASS_MIN (64u * 1024)
/* Memory of the loop that all its filters decode into; valid in the call, from on_data only. */
#define UVHTTP__FILTER_INPUT_SIZE (64u * 1024)

/* What a segment is, which says where its bytes are and how long they stay. */
typedef enum uvhttp__segment_kind {
    UVHTTP__SEGMENT_ITERATION, /* memory of this loop iteration, as is the segment; both are gone with it */
    UVHTTP__SEGMENT_MEMORY,    /* a copy of the stream's: uvhttp__free(arg) */
    UVHTTP__SEGMENT_REFERENCE, /* somebody else's memory, until release(arg) */
    UVHTTP__SEGMENT_FILE,      /* bytes of a descriptor, until release(arg) */
    UVHTTP__SEGMENT_CONTROL,   /* no bytes: the position of the filter's close_notify */
} uvhttp__segment_kind_t;

/* A piece of output, in order. */
typedef struct uvhttp__segment {
    struct uvhttp__segment *next;
    const char *data;           /* NULL for FILE and CONTROL, and for what has to be encoded first */
    uint64_t size;              /* bytes still to send */
    int64_t offset;             /* FILE only */
    uvhttp__release_cb release; /* NULL: nothing to release */
    void *arg;
    const char *plain; /* memory that has to be encoded by the stream's filter, else NULL */
    int fd;            /* FILE only */
    uint8_t kind;      /* uvhttp__segment_kind_t */
    uint8_t iteration; /* ITERATION only: 1 or 2, which half of its memory; else 0 */
} uvhttp__segment_t;

/* Bytes on the wire of a connection from which on nothing is pulled from the bodies of its exchanges. */
#define UVHTTP__WIRE_FULL (64u * 1024)

/* Bytes kept for later delivery. Those that were consumed stay in front until all have been: nothing is moved. */
typedef struct uvhttp__held {
    uint32_t offset, capacity; /* of data: where the kept bytes begin, and all of it */
    char data[];
} uvhttp__held_t;

/* What the owner of a stream is given of what is received. */
typedef enum uvhttp__read_state {
    UVHTTP__READ_OPEN,
    UVHTTP__READ_PAUSED, /* on_data left bytes: nothing is delivered until uvhttp__stream_resume */
    UVHTTP__READ_ENDED,  /* on_end was called, or the stream is broken or closing */
} uvhttp__read_state_t;

/* What is sent on a stream. */
typedef enum uvhttp__write_state {
    UVHTTP__WRITE_OPEN,
    UVHTTP__WRITE_DRAINING, /* uvhttp__stream_shutdown was called: nothing is queued any more, FIN follows the queue */
    UVHTTP__WRITE_SHUT,     /* FIN was sent, or the stream is broken or closing */
} uvhttp__write_state_t;

/* What remains of a stream's life. Only the engine's own references to the stream delay the last step. */
typedef enum uvhttp__close_state {
    UVHTTP__CLOSE_NO,
    UVHTTP__CLOSE_BROKEN,  /* error: nothing is received or sent any more; the owner has yet to close the stream */
    UVHTTP__CLOSE_WANTED,  /* uvhttp__stream_close was called */
    UVHTTP__CLOSE_WAITING, /* io_uring: the kernel's references are being cancelled */
    UVHTTP__CLOSE_DONE,    /* no reference is left: on_closed is due */
} uvhttp__close_state_t;

/* Embedded in a connection. Fields are the engines' own: others use the functions. */
struct uvhttp__stream {
    _Alignas(16) uvhttp__loop_t *loop; /* engines keep marks in the low bits of a stream's address */
    const uvhttp__stream_ops_t *ops;
    uvhttp__segment_t *out_first, *out_last; /* output not yet known to be with the kernel */
    uvhttp__list_t dirty;                    /* in loop->dirty while it has output to flush in this iteration */
    uvhttp__list_t ready;                    /* in loop->ready while a delivery of kept bytes is due, or in
                                                loop->ended while FIN is to be reported */
    uvhttp__held_t *held;                    /* NULL: none */
    uvhttp__filter_t *filter;                /* NULL: none */
    int fd;
    uint32_t out_size;   /* bytes queued, saturating: for watermarks */
    uint32_t out_flying; /* segments at the head of the queue that the last flush gave to the kernel */
    uint32_t flags;      /* UVHTTP__STREAM_* */
    uint32_t held_size;  /* bytes kept for later delivery */
    uint32_t out_sent;   /* bytes that the kernel took; wraps, and what is sent and forgotten at once is missing */
    uint32_t idle_since; /* the owner's, stands where padding would be: uvhttp__conn_idle; 0: not in loop->idle */
    /* Written by the functions of io_state.h only: */
    uint8_t read;  /* uvhttp__read_state_t */
    uint8_t write; /* uvhttp__write_state_t */
    uint8_t close; /* uvhttp__close_state_t */
};

/* What is independent of the states, and of each other unless it is said. */
enum {
    /* Operations that the kernel has not completed. It completes them at any time, so each flag may be set in any
       state. On io_uring the kernel refers to the stream while one of the first five is set. */
    UVHTTP__STREAM_READING = 1 << 0,     /* a receive is armed */
    UVHTTP__STREAM_SENDING = 1 << 1,     /* a send that waits is in flight: the kernel reads the queue's memory */
    UVHTTP__STREAM_POLLING_OUT = 1 << 2, /* it tells when the socket is writable */
    UVHTTP__STREAM_CONNECTING =
        1 << 3, /* connect(2) is in progress; output may be queued and FIN requested meanwhile */
    UVHTTP__STREAM_POLLING_RESET =
        1 << 4,                         /* io_uring: a poll that tells of a reset, and of FIN on a Unix socket, only */
    UVHTTP__STREAM_CANCELLING = 1 << 5, /* io_uring: with READING: the receive is being cancelled */
    UVHTTP__STREAM_FLUSHED = 1 << 6, /* io_uring: flushed in the last iteration, outcome unknown until it is settled */
    /* What the engine is yet to do: */
    UVHTTP__STREAM_STARVED = 1 << 14, /* io_uring: no receive is armed, since there was no buffer; it will be */
    /* What was received: */
    UVHTTP__STREAM_FIN = 1 << 7,           /* the peer's: kept bytes are delivered before it, so in any read state */
    UVHTTP__STREAM_RESET = 1 << 8,         /* the peer's RST: only one of the reasons why a stream is broken, */
    UVHTTP__STREAM_RESET_SENDING = 1 << 9, /* ... while output was queued or in flight */
    /* What the owner asked for: */
    UVHTTP__STREAM_RESUMED = 1 << 10, /* resume was called in on_data, before it is known whether that leaves bytes */
    UVHTTP__STREAM_NOTIFY = 1 << 11,  /* on_sent is wanted, also in front of a FIN */
    UVHTTP__STREAM_PASSES = 1 << 12,  /* the kernel encodes: the filter only decodes, in every write state */
    /* What it is: */
    UVHTTP__STREAM_UNIX = 1 << 13, /* not TCP */
};

/* Whether the stream is broken or closing: nothing is received or sent any more. */
static inline bool uvhttp__stream_is_over(const uvhttp__stream_t *stream) {
    return stream->close != UVHTTP__CLOSE_NO;
}

/* Whether uvhttp__stream_close was called. */
static inline bool uvhttp__stream_is_closing(const uvhttp__stream_t *stream) {
    return stream->close >= UVHTTP__CLOSE_WANTED;
}

/* Whether what is queued has to be encoded by a filter first. */
static inline bool uvhttp__stream_encodes(const uvhttp__stream_t *stream) {
    return stream->filter && !(stream->flags & UVHTTP__STREAM_PASSES);
}

/* Takes over a connected, non-blocking socket, of a Unix address or of TCP. The stream's memory is the caller's and
 * must live until on_closed. */
void uvhttp__stream_open(uvhttp__stream_t *stream, uvhttp__loop_t *loop, int fd, bool is_unix,
                         const uvhttp__stream_ops_t *ops);

/* Begins to receive. Returns 0, UVHTTP_E_NOMEM, UVHTTP_E_LIMIT (fs.epoll.max_user_watches) or UVHTTP_E_IO. */
int uvhttp__stream_read_start(uvhttp__stream_t *stream);

/* The code for an errno of connect(2), the same on all engines. */
int uvhttp__connect_status(int error_number);

/* Connects to an endpoint; on_connect follows. On a code other than 0 nothing was opened and on_closed does not come.
 */
int uvhttp__stream_connect(uvhttp__stream_t *stream, uvhttp__loop_t *loop, const uvhttp__endpoint_t *endpoint,
                           const uvhttp__stream_ops_t *ops);

/* Delivers again what on_data did not consume, in the next iteration, after all streams that already wait. May be
 * called inside on_data. */
void uvhttp__stream_resume(uvhttp__stream_t *stream);

/* Queues output. None of these blocks or calls back; all are ignored (and released) once the stream is broken or
 * closing. send_iteration: data is in the arena of this iteration, or static. copy: data is copied into the arena. ref:
 * the caller keeps data unchanged until `release(arg)`, which is called exactly once, also on failure. Returns 0,
 * UVHTTP_E_NOMEM or UVHTTP_E_CLOSED (after calling release). */
int uvhttp__stream_send_iteration(uvhttp__stream_t *stream, const char *data, size_t size);
int uvhttp__stream_send_copy(uvhttp__stream_t *stream, const char *data, size_t size);
int uvhttp__stream_send_ref(uvhttp__stream_t *stream, const char *data, size_t size, uvhttp__release_cb release,
                            void *arg);

/* Queues the bytes [offset, offset + size) of an open regular file, which stays open until `release(arg)`; by
 * sendfile(2), which waits for a disk: the caller knows that they are in memory. Not on a stream that encodes. Returns
 * as uvhttp__stream_send_ref. If the file has become shorter the stream breaks. */
int uvhttp__stream_send_file(uvhttp__stream_t *stream, int fd, uint64_t offset, uint64_t size,
                             uvhttp__release_cb release, void *arg);
/* While nothing is queued on a stream that encodes, before a file of UVHTTP__FILTER_PASS_MIN bytes: whether what is
 * queued from now on goes as it is, because the kernel encodes it. */
bool uvhttp__stream_pass(uvhttp__stream_t *stream);
/* Whether that is worth a question. */
static inline bool uvhttp__stream_may_pass(const uvhttp__stream_t *stream) {
    return uvhttp__stream_encodes(stream) && stream->filter->may_pass;
}

/* Puts a filter on a stream that has not begun to read; `ops` take the place of the stream's. Returns 0 or
 * UVHTTP_E_NOMEM. The rest is for filters: */
int uvhttp__stream_set_filter(uvhttp__stream_t *stream, uvhttp__filter_t *filter, const uvhttp__stream_ops_t *ops);
/* Queues a copy of encoded bytes, behind those that are encoded already and before those that are not. Returns 0,
 * UVHTTP_E_NOMEM or UVHTTP_E_CLOSED. */
int uvhttp__filter_put(uvhttp__stream_t *stream, const char *data, size_t size);
/* Inside on_data: the filter keeps decoded bytes that the owner has left; on_data comes again after a resume, with no
 * new bytes if there are none. */
void uvhttp__filter_hold(uvhttp__stream_t *stream);

/* Bytes queued and not yet handed to the kernel (saturates at UINT32_MAX). */
static inline uint32_t uvhttp__stream_out_size(const uvhttp__stream_t *stream) {
    return stream->out_size;
}

/* Bytes that the peer's system has acknowledged; at most two system calls. */
typedef struct uvhttp__acknowledged {
    uint32_t held;  /* bytes that the kernel holds for the peer; a Unix socket's: of its memory */
    uint32_t bytes; /* bytes acknowledged so far, a counter that wraps; only while some are held */
} uvhttp__acknowledged_t;
uvhttp__acknowledged_t uvhttp__stream_acknowledged(const uvhttp__stream_t *stream);

/* What the kernel knows of a TCP connection. */
typedef struct uvhttp__kernel_facts {
    uint64_t bytes_received; /* in order, including what is unread */
    uint64_t bytes_acknowledged;
    uint32_t round_trip_us;
    uint32_t retransmits;
} uvhttp__kernel_facts_t;
/* Returns false for a Unix socket. One system call. */
bool uvhttp__stream_kernel_facts(const uvhttp__stream_t *stream, uvhttp__kernel_facts_t *facts);

/* Ask for on_sent when all that is queued now (or later, until then) has been handed to the kernel. */
void uvhttp__stream_notify_sent(uvhttp__stream_t *stream);

/* For an owner that closes or resets next: the kernel gets of the queue what it takes at once. What it does not take is
 * lost, and so is what stands behind a file, behind a send under way, or before a filter that encodes. */
void uvhttp__stream_send_last(uvhttp__stream_t *stream);

/* FIN once the queue is empty; receiving continues. */
void uvhttp__stream_shutdown(uvhttp__stream_t *stream);

/* Whether bytes wait in the socket that have not been received yet; never behind close or reset. */
bool uvhttp__stream_unread(const uvhttp__stream_t *stream);

/* Closes immediately. Queued output that the kernel has not accepted is dropped (released). The peer gets FIN, or RST
 * if it sent bytes that were not read. on_closed follows in a later iteration. No other callback comes after this call.
 * Idempotent. */
void uvhttp__stream_close(uvhttp__stream_t *stream);

/* Like close, but the peer gets RST. */
void uvhttp__stream_reset(uvhttp__stream_t *stream);

/* --- listeners --- */

typedef struct uvhttp__listener_ops {
    /* A connection. The callee owns fd, which is non-blocking and close-on-exec, and the place reserved for it. */
    void (*on_accept)(uvhttp__listener_t *listener, int fd);
    /* Before each accept: takes a place for the connection, or returns false if there is none. NULL: there is no limit.
     */
    bool (*take_place)(uvhttp__listener_t *listener);
    /* No connection came for the reserved place. NULL only if take_place is NULL. */
    void (*give_place)(uvhttp__listener_t *listener);
    /* A client waits in the backlog and there is no place for it: the listener has to be paused until there is. NULL
     * only if take_place is. */
    void (*on_full)(uvhttp__listener_t *listener);
    /* The process is out of descriptors (UVHTTP_E_NO_DESCRIPTORS) or memory (UVHTTP_E_NOMEM), or accepting fails again
     * and again (UVHTTP_E_IO): the listener has parked itself; it tries again by itself after UVHTTP__ACCEPT_RETRY_MS
     * and whenever a stream of this loop has closed. */
    void (*on_accept_error)(uvhttp__listener_t *listener, int status);
    void (*on_closed)(uvhttp__listener_t *listener);
} uvhttp__listener_ops_t;

#define UVHTTP__ACCEPT_RETRY_MS 20

struct uvhttp__listener {
    _Alignas(16) uvhttp__loop_t *loop;
    const uvhttp__listener_ops_t *ops;
    uvhttp__list_t link; /* in loop->listeners */
    int fd;
    uint32_t flags;           /* UVHTTP__LISTENER_* */
    uint32_t burst;           /* connections that the last event of it was good for, at most ... */
    uint32_t burst_iteration; /* the iteration of that burst: loop->iteration_number */
    uint32_t failures;        /* consecutive failures to accept, each concerning one connection */
};

enum {
    UVHTTP__LISTENER_ARMED = 1 << 0,
    UVHTTP__LISTENER_WANTED = 1 << 1, /* started and not paused */
    UVHTTP__LISTENER_PARKED = 1 << 2, /* accepting failed: tried again later */
    UVHTTP__LISTENER_CLOSING = 1 << 3,
    UVHTTP__LISTENER_CANCELLING = 1 << 4,
    UVHTTP__LISTENER_LEAVES = 1 << 5, /* its backlog alone: another process may have the socket, too */
    UVHTTP__LISTENER_UNIX = 1 << 6,   /* as UVHTTP__STREAM_UNIX of what is accepted */
};

/* Starts to accept on a listening socket, which the listener owns and closes. Memory is the caller's until on_closed.
 */
void uvhttp__listener_open(uvhttp__listener_t *listener, uvhttp__loop_t *loop, int fd,
                           const uvhttp__listener_ops_t *ops);
/* Leaves new connections in the backlog: on_accept does not come any more. */
void uvhttp__listener_pause(uvhttp__listener_t *listener);
void uvhttp__listener_resume(uvhttp__listener_t *listener);
void uvhttp__listener_close(uvhttp__listener_t *listener);

/* --- loops --- */

typedef enum uvhttp__engine_kind {
    UVHTTP__ENGINE_AUTO,
    UVHTTP__ENGINE_URING,
    UVHTTP__ENGINE_EPOLL
} uvhttp__engine_kind_t;

/* Parses "auto", "uring", "epoll" (any case). Returns 0 or UVHTTP_E_INVALID. */
int uvhttp__engine_parse(const char *text, uvhttp__engine_kind_t *kind);

typedef struct uvhttp__loop_options {
    uvhttp__engine_kind_t engine;
    struct uv_loop_s *embedding;   /* the application's loop to be a guest of; NULL: a loop of our own */
    uint32_t receive_buffer_size;  /* bytes of one receive buffer */
    uint32_t receive_buffer_count; /* power of two, io_uring only */
    uvhttp__counters_t *counters;  /* this loop's shard; lives longer than the loop */
    uint32_t index;                /* among the loops of its owner */
    void (*on_iteration_end)(uvhttp__loop_t *loop, void *arg); /* before the loop waits; NULL: none */
    void (*on_enter)(uvhttp__loop_t *loop, void *arg); /* of a guest, before callbacks of this loop; NULL: none */
    /* The backend can neither send nor receive any more, which the log says. The callee closes the loop's streams and
     * listeners, which needs nothing of the kernel but close(2). NULL: a loop of our own stops. */
    void (*on_failed)(uvhttp__loop_t *loop, void *arg);
    void *arg;
} uvhttp__loop_options_t;

/* A message to a loop from any thread: embedded in what it is about. */
typedef struct uvhttp__post {
    uvhttp__mpsc_node_t node;
    void (*run)(struct uvhttp__post *post);
} uvhttp__post_t;

struct uvhttp__loop {
    const uvhttp__engine_t *engine;
    uvhttp__counters_t *counters;
    uint64_t now_ns;       /* CLOCK_MONOTONIC at the start of the iteration */
    uint64_t now_ms;       /* now_ns / 1000000 */
    uvhttp__wheel_t wheel; /* timers: connections, deferred responses, ... (base/timer_wheel.h) */
    uvhttp__list_t dirty;  /* streams with output to flush; a stream's `dirty` node is in at most one of these lists */
    uvhttp__list_t settling; /* streams whose output was flushed: on_sent, FIN or more output may be due */
    uvhttp__list_t ended;    /* streams whose FIN has come in this iteration, with nothing kept in front of it */
    uvhttp__list_t ready;    /* streams with kept bytes to deliver */
    uvhttp__list_t listeners;
    uvhttp__list_t closed; /* streams whose on_closed is due, linked by `dirty` */
    uvhttp__list_t closed_listeners;
    uvhttp__slab_t segments;
    uvhttp__segment_t *released, *released_last; /* whose release is due, in the order in which they were sent */
    uvhttp__mpsc_t posts;
    struct uv_loop_s *uv; /* the application may use it on this thread */
    void (*on_iteration_end)(uvhttp__loop_t *loop, void *arg);
    void (*on_enter)(uvhttp__loop_t *loop, void *arg);
    void (*on_failed)(uvhttp__loop_t *loop, void *arg);
    void *arg;
    char *iteration_at, *iteration_end; /* free memory of the iteration arena */
    uint64_t flown_size;                /* flushed bytes that count as sent when the iteration is settled */
    struct uvhttp__iteration_arena
        *arena;                   /* two halves: one is being filled, from the other the kernel may still read */
    uvhttp__timer_t accept_timer; /* tries parked listeners again */
    uint64_t accept_reported_ms;  /* when a failure to accept was last logged; 0: never */
    uint64_t timer_tick;          /* of the wheel, when the engine's timer is set to fire; UINT64_MAX: not set */
    char reason[128];             /* why this engine, for people */
    struct uvhttp__signals *signals;
    struct uvhttp__fd_set *waited; /* descriptors that epoll waits for; io_uring: NULL before the first */
    void *blocking;                /* what runs blocking work of this thread, for who knows its type; NULL: nothing */
    char *filter_memory;    /* UVHTTP__FILTER_INPUT_SIZE to decode into, a piece to encode from; NULL before a filter */
    uint8_t iteration_mark; /* 1 or 2: the half of the arena that is being filled */
    bool settle_due;        /* the loop must not wait: a stream in `settling` wants to know */
    bool handing_over;      /* inside the flush at the end of an iteration */
    bool held; /* io_uring: the kernel has yet to consume the flushed entries. Nothing is settled, flushed or closed
                  before */
    bool stopping;
    bool is_guest;
    bool entered; /* of a guest: the embedding loop is in a callback of it */
    int failure;  /* errno of what ended the backend; 0: none */
    uint32_t stream_count;
    uint32_t iteration_number; /* wraps */
    uint32_t index;            /* among the loops of its owner */
};

/* Makes a loop. Called on any thread before it runs. `auto` falls back to libuv when the preflight of io_uring fails,
 * and loop->reason says why. Returns 0, UVHTTP_E_UNSUPPORTED (the engine asked for is not available; *loop is NULL,
 * reason in the log), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS or UVHTTP_E_IO. */
int uvhttp__loop_new(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop);
/* What can fail before the first iteration, on the thread that runs the loop; without this call it is a part of the
 * run. Returns 0 or UVHTTP_E_IO: then a run ends at once, and says so. Only for loops of our own. */
int uvhttp__loop_enter(uvhttp__loop_t *loop);
/* Iterates until uvhttp__loop_stop. Only for loops of our own. */
void uvhttp__loop_run(uvhttp__loop_t *loop);
/* Own loops: makes run return after this iteration. Loop's thread only; from others post a message. */
void uvhttp__loop_stop(uvhttp__loop_t *loop);
/* Call it after all streams and listeners are closed. Own loops: after run has returned. Guest: frees after its handles
 * have closed, then calls on_freed(arg) from the embedding loop (may be NULL). */
void uvhttp__loop_free(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg);

const char *uvhttp__loop_engine_name(const uvhttp__loop_t *loop); /* "io_uring" or "epoll" */

/* Whether io_uring works on this machine; if not, why[size] says why. */
bool uvhttp__io_uring_works(char *why, size_t size);
const char *uvhttp__uv_version(void);

/* Whether all flushed output is with the kernel: output that is in no queue has been sent. */
static inline bool uvhttp__loop_is_current(const uvhttp__loop_t *loop) {
    return !loop->held;
}

/* Runs post->run on the loop's thread, soon. Any thread; the only function here that is. The post's memory must stay
 * until it has run. Messages that are pending when the loop stops are run before uvhttp__loop_run returns. */
void uvhttp__loop_post(uvhttp__loop_t *loop, uvhttp__post_t *post);

/* Returns memory for output, valid until it has been sent in this iteration: `size` bytes, 1-aligned, contiguous; NULL
 * if out of memory. uvhttp__loop_iteration_trim returns the tail of the last allocation. */
char *uvhttp__loop_iteration_alloc_chunk(uvhttp__loop_t *loop, size_t size);
static inline char *uvhttp__loop_iteration_alloc(uvhttp__loop_t *loop, size_t size) {
    if (__builtin_expect((size_t)(loop->iteration_end - loop->iteration_at) < size, 0))
        return uvhttp__loop_iteration_alloc_chunk(loop, size);
    char *data = loop->iteration_at;
    loop->iteration_at += size;
    return data;
}
static inline void uvhttp__loop_iteration_trim(uvhttp__loop_t *loop, char *end) {
    loop->iteration_at = end;
}

/* Calls `cb` on the loop for SIGINT, SIGTERM and up to two others (0: none), until signals_stop. Loops of our own, from
 * the thread that runs them. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_IO.
 *
 * After signals_stop a handler of the application from before is in force again. Where there was none, a signal would
 * end the process, and it may come while a server that was asked to stop still does what follows its loops: until
 * late_signals_end, SIGINT or SIGTERM is ignored once (the next one ends the process), and the others always. */
#define UVHTTP__SIGNALS_MAX 4
typedef struct uvhttp__late_signals {
    int numbers[UVHTTP__SIGNALS_MAX], count;
} uvhttp__late_signals_t;
int uvhttp__loop_signals_start(uvhttp__loop_t *loop, const int others[2], void (*cb)(int signal_number, void *arg),
                               void *arg);
void uvhttp__loop_signals_stop(uvhttp__loop_t *loop, uvhttp__late_signals_t *late);
void uvhttp__late_signals_end(uvhttp__late_signals_t *late);

/* A timer finer than the wheel's. It starts an iteration at a time of CLOCK_MONOTONIC, in ns (a past time: soon; 0:
 * never). For pacing. Loop's thread; freed before the loop. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_IO. */
typedef struct uvhttp__fine_timer uvhttp__fine_timer_t;
int uvhttp__fine_timer_new(uvhttp__loop_t *loop, uvhttp__fine_timer_t **timer);
void uvhttp__fine_timer_set(uvhttp__fine_timer_t *timer, uint64_t deadline_ns);
void uvhttp__fine_timer_free(uvhttp__fine_timer_t *timer);

/* Calls on_readable(arg) on the loop's thread, outside an iteration, while a descriptor that is not the loop's is
 * readable. After uvhttp__fd_watcher_close nothing is called, and the descriptor may be closed. The loop's thread, or
 * before and after the loop runs. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_IO. */
typedef struct uvhttp__fd_watcher uvhttp__fd_watcher_t;
int uvhttp__fd_watcher_open(uvhttp__loop_t *loop, int fd, void (*on_readable)(void *arg), void *arg,
                            uvhttp__fd_watcher_t **watcher);
void uvhttp__fd_watcher_close(uvhttp__fd_watcher_t *watcher);

enum { UVHTTP__FD_READABLE = 1, UVHTTP__FD_WRITABLE = 2 };

/* A wait for a descriptor, once; in memory of the caller. */
typedef struct uvhttp__fd_wait uvhttp__fd_wait_t;
struct uvhttp__fd_wait {
    uvhttp__loop_t *loop; /* NULL: it does not wait */
    void (*on_ready)(uvhttp__fd_wait_t *wait);
    int fd;
};

/* Calls wait->on_ready in an iteration when the descriptor can be read or written without blocking. An error or the end
 * of a connection counts as ready. The wait is over then. Stop it before the descriptor is closed, and before the loop
 * is freed. Loop's thread. Returns 0, UVHTTP_E_INVALID (no such descriptor, or one that epoll does not accept),
 * UVHTTP_E_STATE (another wait exists for it), UVHTTP_E_NOMEM, UVHTTP_E_NO_DESCRIPTORS, UVHTTP_E_LIMIT
 * (fs.epoll.max_user_watches) or UVHTTP_E_IO. */
int uvhttp__fd_wait_start(uvhttp__loop_t *loop, uvhttp__fd_wait_t *wait, int fd, unsigned events,
                          void (*on_ready)(uvhttp__fd_wait_t *wait));
/* Does nothing if it does not wait. */
void uvhttp__fd_wait_stop(uvhttp__fd_wait_t *wait);

/* A fresh reading of the clock, ns; loop->now_ns is the cached one. */
uint64_t uvhttp__clock_ns(void);
/* For what an application may call outside of a guest's callbacks: in those of its own in the embedding loop, and while
 * that does not run. The guest's iteration may have started long ago: now_ns and now_ms are read anew. */
static inline void uvhttp__loop_look_at_clock(uvhttp__loop_t *loop) {
    if (__builtin_expect(!loop->is_guest || loop->entered, 1)) return;
    loop->now_ns = uvhttp__clock_ns();
    loop->now_ms = loop->now_ns / 1000000u;
}
/* Unix time, ms. */
int64_t uvhttp__clock_unix_ms(void);
/* CPU time that all threads of the process have used, ns. */
uint64_t uvhttp__clock_cpu_ns(void);

#endif
