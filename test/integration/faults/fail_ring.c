/* Owns: what the linker puts in place of liburing's calls, and entries of the submission queue that fail: they become a
 * NOP that completes with the error (IORING_NOP_INJECT_RESULT, Linux 6.10), as if the kernel had refused to do them. */
#include <errno.h>
#include <liburing.h>
#include <stdbool.h>

#include "fail_calls.h"

#define NOP_INJECT_RESULT 1u

static struct io_uring_sqe failing(const struct io_uring_sqe *sqe, int error) {
    return (struct io_uring_sqe){.opcode = IORING_OP_NOP,
                                 .flags = sqe->flags & IOSQE_CQE_SKIP_SUCCESS,
                                 .rw_flags = NOP_INJECT_RESULT,
                                 .len = (unsigned)-error,
                                 .user_data = sqe->user_data};
}

static bool can_inject;

int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *parameters);
int __real_io_uring_submit_and_wait(struct io_uring *ring, unsigned count);

/* An older kernel would take such an entry for one that succeeds. */
__attribute__((constructor)) static void try_to_inject(void) {
    struct io_uring ring;
    struct io_uring_params parameters = {0};
    if (__real_io_uring_queue_init_params(2, &ring, &parameters) != 0) return;
    *io_uring_get_sqe(&ring) = failing(&(struct io_uring_sqe){0}, EXDEV);
    struct io_uring_cqe *cqe;
    can_inject =
        __real_io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_peek_cqe(&ring, &cqe) == 0 && cqe->res == -EXDEV;
    io_uring_queue_exit(&ring);
}

static int call_of(unsigned opcode) {
    if (!can_inject) return -1;
    switch (opcode) {
        case IORING_OP_RECV: return FAIL_sqe_recv;
        case IORING_OP_SEND: return FAIL_sqe_send;
        case IORING_OP_SENDMSG: return FAIL_sqe_sendmsg;
        case IORING_OP_POLL_ADD: return FAIL_sqe_poll;
        case IORING_OP_CONNECT: return FAIL_sqe_connect;
        case IORING_OP_READ: return FAIL_sqe_read;
        case IORING_OP_TIMEOUT: return FAIL_sqe_timeout;
        default: return -1; /* cancel and close: the kernel does them, or there is nothing to do */
    }
}

/* Looks at each entry once, though a call that is refused leaves it in the queue. */
static void look_at_entries(struct io_uring *ring) {
    static _Thread_local struct io_uring *of;
    static _Thread_local unsigned seen;
    struct io_uring_sq *sq = &ring->sq;
    if (of != ring || sq->sqe_tail - seen > sq->ring_entries) {
        of = ring;
        seen = io_uring_smp_load_acquire(sq->khead);
    }
    for (; seen != sq->sqe_tail; seen++) {
        struct io_uring_sqe *sqe = &sq->sqes[seen & sq->ring_mask];
        int call = call_of(sqe->opcode), error = call < 0 ? 0 : fail_next(call);
        if (error) *sqe = failing(sqe, error);
    }
}

int __real_io_uring_submit(struct io_uring *ring);

static int submit_half(struct io_uring *ring) {
    unsigned tail = ring->sq.sqe_tail, count = tail - ring->sq.sqe_head;
    ring->sq.sqe_tail = ring->sq.sqe_head + count / 2;
    int status = __real_io_uring_submit(ring);
    ring->sq.sqe_tail = tail;
    return status;
}

#define WRAP_ENTER(symbol, parameters, arguments, half)                                                                \
    int __real_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters {                                                                                   \
        look_at_entries(ring);                                                                                         \
        int error = fail_next(FAIL_io_uring_enter);                                                                    \
        return error == 0 ? __real_##symbol arguments : error == FAIL_PARTIAL ? half : -error;                         \
    }
WRAP_ENTER(io_uring_submit, (struct io_uring * ring), (ring), submit_half(ring))
WRAP_ENTER(io_uring_submit_and_wait, (struct io_uring * ring, unsigned count), (ring, count), submit_half(ring))
WRAP_ENTER(io_uring_submit_and_wait_timeout,
           (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned count, struct __kernel_timespec *time,
            sigset_t *mask),
           (ring, cqe, count, time, mask), submit_half(ring))
WRAP_ENTER(io_uring_submit_and_get_events, (struct io_uring * ring), (ring), submit_half(ring))
WRAP_ENTER(io_uring_get_events, (struct io_uring * ring), (ring), __real_io_uring_get_events(ring))

#define WRAP_RING(call, symbol, parameters, arguments)                                                                 \
    int __real_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters {                                                                                   \
        int error = fail_next(FAIL_##call);                                                                            \
        return error ? -error : __real_##symbol arguments;                                                             \
    }
WRAP_RING(io_uring_setup, io_uring_queue_init_params,
          (unsigned entries, struct io_uring *ring, struct io_uring_params *parameters), (entries, ring, parameters))
WRAP_RING(io_uring_register, io_uring_register_buf_ring,
          (struct io_uring * ring, struct io_uring_buf_reg *buffers, unsigned flags), (ring, buffers, flags))
WRAP_RING(io_uring_register, io_uring_register_eventfd, (struct io_uring * ring, int fd), (ring, fd))
WRAP_RING(io_uring_register, io_uring_register_ring_fd, (struct io_uring * ring), (ring))
