/* Owns: what the files of the io_uring engine share. May include: io. */
#ifndef UVHTTP_SRC_IO_IO_URING_H
#define UVHTTP_SRC_IO_IO_URING_H

#include <liburing.h>
#include <uv.h>

#include "io/engine.h"
#include "io/io_inner.h"

/* Missing in liburing 2.3; kernel ABI. */
#ifndef IORING_SETUP_R_DISABLED
#define IORING_SETUP_R_DISABLED (1U << 6)
#endif
#ifndef IORING_RECVSEND_BUNDLE
#define IORING_RECVSEND_BUNDLE (1U << 4)
#endif

typedef struct uvhttp__uring {
    uvhttp__loop_t loop; /* first: the loop is found by it */
    struct io_uring ring;
    struct io_uring_buf_ring *buf_ring;
    char *buffers;
    size_t buffer_stride; /* bytes from one receive buffer to the next */
    uint32_t buffer_size;
    uint32_t buffer_count; /* a power of two */
    uint32_t buffers_back; /* given back in this drain and not yet published */
    uint32_t receive_max;  /* bytes that one stream receives before the others get theirs; 0: the kernel has no such
                              bound, and fills up to 33 buffers */
    uvhttp__stream_t **starved; /* whose receive found no buffer (io_uring_starved.c), from begin to before end */
    uint32_t starved_begin, starved_end, starved_capacity;
    bool enabled;

    /* What the kernel has refused (io_uring_submit.c): */
    bool trouble; /* refusals, spilled entries or a held loop: the only one of these that the plain path looks at */
    bool failed;  /* the ring is not used any more */
    int fatal;    /* errno: the loop fails at the end of this drain; 0: it does not */
    uvhttp__refusals_t refusals;
    unsigned refused_head; /* position of the first entry that the last refusal left */
    unsigned held_tail;    /* position after the last entry of the flush that is held */
    unsigned cq_dropped;   /* completions that the kernel has dropped, as far as we know */
    struct io_uring_sqe
        *spill; /* entries that did not fit into a full queue, in order. While there are any, the queue is full */
    uint32_t spill_count, spill_capacity;
    struct io_uring_sqe nowhere; /* an entry that is not submitted */
    uvhttp__list_t closing;      /* streams that wait for the kernel's references, linked by `dirty` */

    /* Loop of our own: */
    uvhttp__inner_t inner;
    int wake_fd;
    uint64_t wake_value;
    bool uv_polled; /* the poll of the inner loop's descriptor is armed */
    struct __kernel_timespec timer;

    /* Guest of the application's loop: */
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_timer_t uv_timer;
    uv_async_t async;
    uv_poll_t poll;
    int event_fd;
    int handles_open;
    void (*on_freed)(void *arg);
    void *on_freed_arg;
} uvhttp__uring_t;

/* The low four bits of user_data say what completed; the rest is the stream, the listener, or one of INTERNAL. */
enum {
    UVHTTP__URING_IGNORE,
    UVHTTP__URING_RECEIVE,
    UVHTTP__URING_SEND_NOW,   /* only failures complete visibly */
    UVHTTP__URING_SEND_PLAIN, /* as SEND_NOW; the rest is the segment */
    UVHTTP__URING_SEND,
    UVHTTP__URING_POLL_OUT,
    UVHTTP__URING_CONNECT,
    UVHTTP__URING_ACCEPT,
    UVHTTP__URING_INTERNAL,
    UVHTTP__URING_POLL_RESET,
    UVHTTP__URING_WHAT = 15, /* mask */
};
enum { UVHTTP__URING_WAKE = 1, UVHTTP__URING_UV, UVHTTP__URING_TIMER };
#define UVHTTP__URING_INTERNAL_DATA(what) ((uint64_t)(what) << 4 | UVHTTP__URING_INTERNAL)

static inline uvhttp__uring_t *uvhttp__uring_of(uvhttp__loop_t *loop) {
    return UVHTTP__CONTAINER_OF(loop, uvhttp__uring_t, loop);
}

/* A free submission entry, to be filled before the next is asked for. Submits what is there if the queue is full. Never
 * NULL. */
struct io_uring_sqe *uvhttp__uring_sqe_full(uvhttp__uring_t *uring);
static inline struct io_uring_sqe *uvhttp__uring_sqe(uvhttp__uring_t *uring) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
    return __builtin_expect(sqe != NULL, 1) ? sqe : uvhttp__uring_sqe_full(uring);
}

/* --- io_uring_submit.c: what becomes of a refusal --- */

/* Looks at the outcome of a call that submits: `status` is liburing's. Decides whether the loop is held. */
void uvhttp__uring_trouble(uvhttp__uring_t *uring, int status);
static inline void uvhttp__uring_submitted(uvhttp__uring_t *uring, int status) {
    bool consumed = io_uring_smp_load_acquire(uring->ring.sq.khead) == uring->ring.sq.sqe_tail;
    if (__builtin_expect(!consumed || status < 0 || uring->trouble, 0)) uvhttp__uring_trouble(uring, status);
}
/* Completions could not be had. */
void uvhttp__uring_refused(uvhttp__uring_t *uring, int error);
/* Completions of flushed entries may be unseen. */
void uvhttp__uring_hold(uvhttp__uring_t *uring);
/* Closes the descriptors whose close was not submitted. */
void uvhttp__uring_abandon(uvhttp__uring_t *uring);

/* --- io_uring_ring.c: making it --- */

bool uvhttp__uring_preflight(char *reason, size_t size);
/* Returns 0 or -errno. */
int uvhttp__uring_open(uvhttp__uring_t *uring, unsigned flags);
/* Closes a ring that uvhttp__uring_open or io_uring_queue_init_params has made; in place of io_uring_queue_exit. */
void uvhttp__uring_ring_close(struct io_uring *ring);
/* Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_UNSUPPORTED; what was made is freed by buffers_free in any case. */
int uvhttp__uring_buffers_new(uvhttp__uring_t *uring, const uvhttp__loop_options_t *options);
void uvhttp__uring_buffers_free(uvhttp__uring_t *uring);
/* Prepares a multishot receive into the buffers of the ring. max: as receive_max. */
void uvhttp__uring_prepare_receive(struct io_uring_sqe *sqe, int fd, uint32_t max);

/* --- io_uring_starved.c: streams that wait for a receive buffer --- */

/* For a stream whose receive has failed with -ENOBUFS. Returns 0 or UVHTTP_E_NOMEM. */
int uvhttp__uring_starve(uvhttp__stream_t *stream);
/* Of any stream: it is not waited for any more. */
void uvhttp__uring_starved_remove(uvhttp__stream_t *stream);
/* The one that has waited longest, which does so no more; NULL: none waits. */
uvhttp__stream_t *uvhttp__uring_starved_pop(uvhttp__uring_t *uring);

/* --- io_uring.c: streams, listeners and completions --- */

/* As the functions of uvhttp__engine_t. */
int uvhttp__uring_read_start(uvhttp__stream_t *stream);
void uvhttp__uring_flush(uvhttp__stream_t *stream);
void uvhttp__uring_close(uvhttp__stream_t *stream);
int uvhttp__uring_connect(uvhttp__stream_t *stream, const uvhttp__endpoint_t *endpoint);
void uvhttp__uring_listener_update(uvhttp__listener_t *listener);
/* The start of a loop iteration: runs all completions in the queue, and those that the kernel keeps while the queue is
 * full, and settles. If `fatal` is set afterwards, the ring is no longer usable. */
void uvhttp__uring_collect(uvhttp__uring_t *uring);
/* Closes a stream without the ring, whatever the kernel still has of it. */
void uvhttp__uring_close_directly(uvhttp__stream_t *stream);
void uvhttp__uring_arm_wake(uvhttp__uring_t *uring);

/* --- io_uring_end.c --- */

/* How often a loop whose ring has failed looks at its timers. */
#define UVHTTP__URING_FAILED_WAIT_MS 10

/* The use of the ring ends: nothing is submitted and no completion is looked at any more. */
void uvhttp__uring_fail(uvhttp__uring_t *uring);
/* Frees a loop without handles of its own in the application's loop; also one that was made in part. */
void uvhttp__uring_free(uvhttp__uring_t *uring);

/* --- what its loops share --- */

/* The start of a loop iteration. */
static inline void uvhttp__uring_iterate(uvhttp__uring_t *uring) {
    uvhttp__uring_collect(uring);
    if (__builtin_expect(uring->fatal && !uring->failed, 0)) uvhttp__uring_fail(uring);
}

/* Whether work is pending that needs no ring. */
static inline bool uvhttp__uring_pending_without_ring(const uvhttp__loop_t *loop) {
    return !uvhttp__list_empty(&loop->ready) || !uvhttp__list_empty(&loop->closed) ||
           !uvhttp__list_empty(&loop->closed_listeners) || loop->released || !uvhttp__mpsc_empty(&loop->posts);
}

#endif
