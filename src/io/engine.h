/* Owns: the contract between the common part of a loop (io_loop.c) and an engine (io_uring.c, io_epoll.c), and the
 * helpers that both engines use. Not for anybody outside src/io/. */
#ifndef UVHTTP_SRC_IO_ENGINE_H
#define UVHTTP_SRC_IO_ENGINE_H

#include <signal.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <uv.h>

#include "io/io.h"
#include "io/io_state.h"

/* What may be handed to the kernel in one gathered operation. */
#define UVHTTP__OUT_IOV_MAX 32
/* Bytes that one stream may keep undelivered before its reading stops; what is in flight by then comes on top. */
#define UVHTTP__HELD_MAX (64u * 1024)
/* Bytes that one sendfile stream may send in an iteration before other streams get their share. */
#define UVHTTP__FILE_ITERATION_MAX (1024u * 1024)
/* Timers that may expire in an iteration before arrived data gets its share. On io_uring an iteration has about 40
 * completions. If all due timers ran in one iteration, the next requests of those clients would wait for the last of
 * them, and arrive in one burst from then on (docs/internals/decisions.md). */
#define UVHTTP__ITERATION_TIMERS_MAX 32

struct uvhttp__engine {
    const char *name;
    /* Whether it works here, tried with a real round trip. Writes why not into reason[size]. */
    bool (*preflight)(char *reason, size_t size);
    /* Returns as uvhttp__loop_new. UVHTTP_E_UNSUPPORTED: errno says why, and nothing is in the log. */
    int (*loop_new)(const uvhttp__loop_options_t *options, uvhttp__loop_t **loop);
    int (*loop_enter)(uvhttp__loop_t *loop); /* NULL: nothing can fail */
    void (*loop_run)(uvhttp__loop_t *loop);
    void (*loop_free)(uvhttp__loop_t *loop, void (*on_freed)(void *arg), void *arg);
    void (*wake)(uvhttp__loop_t *loop); /* any thread */
    int (*read_start)(uvhttp__stream_t *stream);
    /* Hands the head of the queue to the kernel. The stream is not in loop->dirty any more. */
    void (*flush)(uvhttp__stream_t *stream);
    /* The close state is WANTED and the unsent output is dropped; called again after an iteration in which the stream
     * was FLUSHED. */
    void (*close)(uvhttp__stream_t *stream);
    int (*connect)(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint);
    void (*listener_open)(uvhttp__listener_t *listener);
    void (*listener_update)(uvhttp__listener_t *listener); /* flags WANTED and CLOSING say what should be */
};

extern const uvhttp__engine_t uvhttp__engine_epoll;
#if UVHTTP_WITH_URING
extern const uvhttp__engine_t uvhttp__engine_uring;
#endif

/* --- common part, for engines --- */

int uvhttp__loop_init(uvhttp__loop_t *loop, const uvhttp__engine_t *engine, const uvhttp__loop_options_t *options);
void uvhttp__loop_deinit(uvhttp__loop_t *loop);

/* An iteration consists of: begin (clock), completions from the kernel, settle, end (posts, kept bytes, timers,
 * on_iteration_end, flush). Then the engine submits and waits, unless uvhttp__iteration_pending. */
void uvhttp__iteration_begin(uvhttp__loop_t *loop);
/* Runs after the completions of an iteration. What the previous iteration flushed and what has not failed counts as
 * sent. Calls on_sent, does FIN, and puts streams with more output into `dirty`. Frees the arena of the previous
 * iteration. */
void uvhttp__iteration_settle(uvhttp__loop_t *loop);
void uvhttp__iteration_end(uvhttp__loop_t *loop);
static inline bool uvhttp__iteration_pending(const uvhttp__loop_t *loop) {
    return loop->settle_due || !uvhttp__list_empty(&loop->ready) || !uvhttp__list_empty(&loop->dirty) ||
           !uvhttp__list_empty(&loop->closed) || !uvhttp__list_empty(&loop->closed_listeners) || loop->released ||
           !uvhttp__mpsc_empty(&loop->posts);
}

/* Bytes arrived: delivers or keeps them. Returns false when the stream should stop reading (too much is kept). */
bool uvhttp__stream_received(uvhttp__stream_t *stream, const char *data, size_t size);
/* Whether something follows the last byte of the queue: on_sent or FIN. */
static inline bool uvhttp__stream_outcome_wanted(const uvhttp__stream_t *stream) {
    return (stream->flags & UVHTTP__STREAM_NOTIFY) || stream->write == UVHTTP__WRITE_DRAINING;
}
/* A call on the socket has failed, and uvhttp__stream_ended follows: remembers whether the peer has reset it.
 * error_number 0: the socket is asked. */
void uvhttp__stream_note_error(uvhttp__stream_t *stream, int error_number, bool sending);
/* The connection is broken, from the close state NO: drops kept bytes and the output that the kernel does not read.
 * Calls nothing back. */
void uvhttp__stream_break(uvhttp__stream_t *stream);
/* FIN (UVHTTP_OK) or a broken connection (another code): tells on_end, after the kept bytes in the case of FIN. Does
 * nothing on a stream that is broken or closing. */
void uvhttp__stream_ended(uvhttp__stream_t *stream, int status);

/* Gathers unsent memory segments from the head of the queue, stopping before a file. Returns how many; *size in bytes.
 */
int uvhttp__out_gather(const uvhttp__stream_t *stream, struct iovec *iov, int max, size_t *size);
/* The kernel has accepted `size` bytes from the head of the queue. */
void uvhttp__out_advance(uvhttp__stream_t *stream, size_t size);
/* Copies what is in the iteration arena, because it is needed beyond the iteration. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__out_keep(uvhttp__stream_t *stream);
void uvhttp__out_drop(uvhttp__stream_t *stream);
/* Output has advanced: on_sent, FIN or the next flush follow in the next iteration. Calls nothing back. */
void uvhttp__out_progress(uvhttp__stream_t *stream);
/* A bounded sendfile(2) from the head of the queue, which does not wait, or the close_notify of a filter that encodes
 * no more. Returns 0 when that segment is done, UVHTTP_E_AGAIN when the socket is full, UVHTTP_E_LIMIT when the share
 * of this iteration is used up, UVHTTP_E_ABORTED when the connection or the file failed. */
int uvhttp__out_sendfile(uvhttp__stream_t *stream);

/* The head of the queue waits for the stream's filter: encodes a share of it, so that the head can be sent. Returns 0,
 * or what breaks the stream. */
int uvhttp__filter_encode(uvhttp__stream_t *stream);

/* --- refusals (io_refusal.c) --- */

/* Consecutive calls that the kernel refused to accept or to complete. Zeroed memory means that there were none. */
typedef struct uvhttp__refusals {
    uint32_t count;
    uint64_t since_ns;           /* the first of them */
    uint64_t forbidden_since_ns; /* the first of the consecutive refusals that are not known to pass; 0: the last one
                                    may pass */
    uint64_t reported_ns;        /* when the log last said so; 0: never */
} uvhttp__refusals_t;

/* Counts a refusal, and logs when refusals continue. Returns whether they have continued for too long. */
bool uvhttp__refusals_add(uvhttp__refusals_t *refusals, uvhttp__loop_t *loop, const char *call, int error_number);
static inline void uvhttp__refusals_end(uvhttp__refusals_t *refusals) {
    refusals->count = 0;
}
/* How long to wait before the next try, ms. */
int uvhttp__refusals_backoff_ms(const uvhttp__refusals_t *refusals);
/* The backend cannot be used any more: logs it and tells the loop's owner. */
void uvhttp__loop_fail(uvhttp__loop_t *loop, const char *call, int error_number);

/* --- iteration arena (io_iteration.c) --- */

/* The mark of the half that is not that of loop->iteration_mark. */
#define UVHTTP__ITERATION_OTHER(mark) ((uint8_t)(3 - (mark)))

int uvhttp__iteration_arena_init(uvhttp__loop_t *loop);
void uvhttp__iteration_arena_deinit(uvhttp__loop_t *loop);
/* The kernel has finished with the half of the previous iteration: its chunks beyond the first are released. */
void uvhttp__iteration_arena_sent(uvhttp__loop_t *loop);
/* The half that the kernel has finished with is filled in the next iteration. */
void uvhttp__iteration_arena_flip(uvhttp__loop_t *loop);
/* A segment for arena memory is itself in the arena, at its far end, and is freed with it. NULL: out of memory. */
uvhttp__segment_t *uvhttp__segment_of_iteration(uvhttp__loop_t *loop, const char *data, size_t size);

/* --- the output queue (io_out.c), for io_loop.c and io_filter.c --- */

/* Bytes of a file up to which it pays that what is before it waits for it; docs/internals/decisions.md says how it was
 * measured. */
#define UVHTTP__FILE_FOLLOWS_MAX (256u * 1024)

/* Whether the kernel should hold back what precedes `next` (MSG_MORE), because sendfile(2) follows without a wait. Not
 * on a stream with a filter: a kernel that encrypts would hold a record back forever. */
static inline bool uvhttp__file_follows(const uvhttp__stream_t *stream, const uvhttp__segment_t *next) {
    return next && next->kind == UVHTTP__SEGMENT_FILE && next->size <= UVHTTP__FILE_FOLLOWS_MAX && !stream->filter;
}

/* The segment has left its queue. Its release is called when nothing is under way with any stream, for it may send on
 * one, close or reset it: before the iteration's callbacks of closed streams, and behind its flush. */
void uvhttp__segment_release(uvhttp__loop_t *loop, uvhttp__segment_t *segment);
/* Calls the release of each segment in the list, and of those that join it meanwhile. */
void uvhttp__released_call(uvhttp__loop_t *loop);
/* `size` bytes less than all of it are gone from its front. */
void uvhttp__segment_cut(uvhttp__segment_t *segment, size_t size);
void uvhttp__out_append(uvhttp__stream_t *stream, uvhttp__segment_t *segment);
void uvhttp__out_mark_dirty(uvhttp__stream_t *stream);
void uvhttp__out_size_add(uvhttp__stream_t *stream, uint64_t size);
void uvhttp__out_size_remove(uvhttp__stream_t *stream, uint64_t size);
/* Copies what stands in the half of iteration memory with this mark; 0: in either. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__out_keep_half(uvhttp__stream_t *stream, uint8_t mark);
/* The stream is broken or closing: drops what the kernel does not read. */
void uvhttp__out_drop_unread(uvhttp__stream_t *stream);
/* All segments that the last flush gave to the kernel have been sent. */
void uvhttp__out_drop_flown(uvhttp__stream_t *stream);

void uvhttp__stream_pause_delivery(uvhttp__stream_t *stream);

/* Runs the pending messages, and those that they post. For the end of a guest, which iterates no more. */
void uvhttp__loop_run_posts(uvhttp__loop_t *loop);
/* Those that are there now. */
void uvhttp__posts_run(uvhttp__loop_t *loop);

/* Called by engines when no reference is left: on_closed follows in the same iteration. */
void uvhttp__stream_closed_due(uvhttp__stream_t *stream);
void uvhttp__listener_closed_due(uvhttp__listener_t *listener);

/* --- descriptors in an epoll set (io_wait.c) --- */

/* Events of one iteration; other ready descriptors follow in the next. */
#define UVHTTP__FD_EVENTS_MAX 256

/* What an event is about: in the low bits of its pointer. On io_uring there are only waits. */
enum {
    UVHTTP__FD_STREAM,
    UVHTTP__FD_LISTENER,
    UVHTTP__FD_WAIT,
    UVHTTP__FD_WAKE,
    UVHTTP__FD_TIMER,
    UVHTTP__FD_UV,
    UVHTTP__FD_WHAT = 7, /* mask */
};
#define UVHTTP__FD_DATA(object, what) ((uint64_t)(uintptr_t)(object) | (uint64_t)(what))

/* loop->waited. The epoll engine creates it with the loop and waits for it. io_uring creates it on first use, as a
 * descriptor that its libuv loop polls. */
struct uvhttp__fd_set {
    uvhttp__loop_t *loop;
    uvhttp__fd_watcher_t *watcher; /* NULL: the loop waits for the set itself */
    uvhttp__post_t post;
    int fd;    /* -1: closed */
    int at;    /* the event that is being looked at, of `count` */
    int count; /* 0: none is */
    int error; /* errno of the last wait; 0: it did not fail */
    bool posted;
    struct epoll_event events[UVHTTP__FD_EVENTS_MAX];
};

/* Makes loop->waited. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_NO_DESCRIPTORS. It is freed with the loop. */
int uvhttp__fd_set_new(uvhttp__loop_t *loop);
/* Makes the loop's libuv poll the set. Returns as uvhttp__fd_watcher_open. */
int uvhttp__fd_set_poll_by_uv(struct uvhttp__fd_set *set, void (*on_readable)(void *arg), void *arg);
/* Nothing waits for a descriptor any more. */
void uvhttp__fd_set_close(uvhttp__loop_t *loop);
/* EPOLL_CTL_ADD or EPOLL_CTL_MOD. Returns 0 or UVHTTP_E_STATE (it is in the set), UVHTTP_E_INVALID (not for epoll),
 * UVHTTP_E_NOMEM, UVHTTP_E_LIMIT (fs.epoll.max_user_watches), UVHTTP_E_IO. */
int uvhttp__fd_set_change(struct uvhttp__fd_set *set, int operation, int fd, uint32_t events, const void *object,
                          unsigned what);
/* Before the descriptor is closed: a copy of it would keep the entry in the set. Returns whether it is out of it. */
bool uvhttp__fd_set_remove(struct uvhttp__fd_set *set, int fd);
/* Waits up to `timeout_ms` (-1: forever) and fills set->events, set->count and set->error. */
void uvhttp__fd_set_poll(struct uvhttp__fd_set *set, int timeout_ms);
/* What the event that is being looked at is about. */
static inline void *uvhttp__fd_set_object(const struct uvhttp__fd_set *set) {
    return (void *)(uintptr_t)(set->events[set->at].data.u64 & ~(uint64_t)UVHTTP__FD_WHAT);
}
/* For an event that is about a wait. NULL: it was stopped by an event before it. */
void uvhttp__fd_wait_ready(uvhttp__fd_wait_t *wait);

/* --- accepting (io_accept.c) --- */

/* The listener is readable: accepts a bounded number of pending connections, each after reserving a place. May pause or
 * park the listener. */
void uvhttp__listener_accept(uvhttp__listener_t *listener);
/* The listener's owner has a place for one more connection; it is given back if none comes. */
bool uvhttp__listener_take_place(uvhttp__listener_t *listener);
void uvhttp__listener_give_place(uvhttp__listener_t *listener);

/* Before a listener's descriptor is closed: accepts what waits in its backlog. */
void uvhttp__listener_take_backlog(uvhttp__listener_t *listener);
/* Parked listeners try again. */
void uvhttp__listeners_unpark(uvhttp__loop_t *loop);
void uvhttp__listeners_on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *loop);

/* Accepting failed. Counts it, and parks the listener, unless the error concerns one connection and is not one of many
 * consecutive errors. Returns whether it is parked. */
bool uvhttp__listener_failed(uvhttp__listener_t *listener, int error_number);

#endif
