/* Owns: making a ring and its receive buffers, and trying whether io_uring works here. May include: base, obs, io. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/sanitize.h"
#include "io/io_uring.h"

/* Small rings: what they cost is charged to the user and given back late. */
#define SQ_ENTRIES 256
#define CQ_ENTRIES 1024
/* Buffers begin at different offsets in their pages: at equal offsets all would share one set of the first-level cache.
 */
#define BUFFER_COLOUR 192
/* What one stream is given before the others get theirs: bytes, and buffers. */
#define RECEIVE_SHARE (64u * 1024)
#define RECEIVE_BUFFERS_MAX 4u
/* --- receives --- */

/* A receive that has more to do than `max` bytes goes to the end of the kernel's queue, but only if it may fill several
 * buffers at once. */
void uvhttp__uring_prepare_receive(struct io_uring_sqe *sqe, int fd, uint32_t max) {
    io_uring_prep_recv_multishot(sqe, fd, NULL, max, 0);
    if (max > 0) sqe->ioprio |= IORING_RECVSEND_BUNDLE;
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
}

/* --- making a ring --- */

/* liburing maps and unmaps rings by system calls of its own, which ThreadSanitizer does not see: without this order it
 * takes the memory of a new ring for that of a closed one at the same address. */
static char mappings;

/* A ring that was just closed may still be charged: -ENOMEM is tried again for half a second. */
static int queue_init(unsigned entries, unsigned cq_entries, unsigned flags, struct io_uring *ring) {
    for (int tries = 0;; tries++) {
        struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                                  IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | flags,
                                         .cq_entries = cq_entries};
        int status = io_uring_queue_init_params(entries, ring, &params);
        UVHTTP__TSAN_ACQUIRE(&mappings);
        if (status != -ENOMEM || tries == 50) return status;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

void uvhttp__uring_ring_close(struct io_uring *ring) {
    UVHTTP__TSAN_RELEASE(&mappings);
    io_uring_queue_exit(ring);
}

static struct io_uring_buf_ring *buf_ring_new(struct io_uring *ring, unsigned count) {
    size_t size = count * sizeof(struct io_uring_buf);
    struct io_uring_buf_ring *buf_ring = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (buf_ring == MAP_FAILED) return NULL;
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)buf_ring, .ring_entries = count};
    int status = io_uring_register_buf_ring(ring, &reg, 0);
    if (status < 0) {
        munmap(buf_ring, size);
        errno = -status;
        return NULL;
    }
    io_uring_buf_ring_init(buf_ring);
    return buf_ring;
}

int uvhttp__uring_open(uvhttp__uring_t *uring, unsigned flags) {
    int status = queue_init(SQ_ENTRIES, CQ_ENTRIES, flags, &uring->ring);
    if (status < 0) uring->ring.ring_fd = -1;
    return status;
}

/* --- preflight --- */

#define PREFLIGHT_BUFFER_SIZE 16u

static atomic_bool receive_is_bounded;

static int64_t preflight_receive(struct io_uring *ring, int fd, int peer, bool bounded, const char **step) {
    *step = "multishot receive";
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    uvhttp__uring_prepare_receive(sqe, fd, bounded ? PREFLIGHT_BUFFER_SIZE : 0);
    sqe->user_data = 1;
    sqe = io_uring_get_sqe(ring);
    io_uring_prep_send(sqe, peer, "ping", 4, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_WAITALL);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = 2;
    struct __kernel_timespec second = {.tv_sec = 1};
    struct io_uring_cqe *cqe = NULL;
    int status = io_uring_submit_and_wait_timeout(ring, &cqe, 1, &second, NULL);
    if (status < 0) return status;
    if (!cqe) return -ETIME; /* not documented, and not worth a crash */
    bool good =
        cqe->user_data == 1 && cqe->res == 4 && (cqe->flags & IORING_CQE_F_BUFFER) && (cqe->flags & IORING_CQE_F_MORE);
    return good ? 0 : cqe->res < 0 ? cqe->res : -EINVAL;
}

/* The features that the engine stands on, in one round trip over a socket pair. */
static int64_t preflight_run(bool bounded, const char **step) {
    struct io_uring ring;
    *step = "io_uring_setup";
    int64_t status = queue_init(8, 32, 0, &ring);
    if (status < 0) return status;
    *step = "provided buffer ring";
    struct io_uring_buf_ring *buf_ring = buf_ring_new(&ring, 4);
    if (!buf_ring) {
        status = -errno;
        uvhttp__uring_ring_close(&ring);
        return status;
    }
    char buffers[4][PREFLIGHT_BUFFER_SIZE];
    for (int i = 0; i < 4; i++)
        io_uring_buf_ring_add(buf_ring, buffers[i], sizeof buffers[i], (unsigned short)i, io_uring_buf_ring_mask(4), i);
    io_uring_buf_ring_advance(buf_ring, 4);
    int pair[2];
    *step = "socketpair";
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0) {
        status = preflight_receive(&ring, pair[0], pair[1], bounded, step);
        shutdown(pair[0], SHUT_RDWR); /* ends the receive; the ring's end waits for it */
        close(pair[0]);
        close(pair[1]);
    } else {
        status = -errno;
    }
    uvhttp__uring_ring_close(&ring);
    munmap(buf_ring, 4 * sizeof(struct io_uring_buf));
    return status;
}

/* Whether the error means that the kernel lacks the feature, rather than that it forbids it. */
static bool is_unknown_to_kernel(int error_number) {
    return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

bool uvhttp__uring_preflight(char *reason, size_t size) {
    static atomic_int passed; /* once it has worked, it is not tried again in this process */
    if (atomic_load(&passed)) return true;
    const char *step = "";
    bool bounded = true;
    int64_t status = preflight_run(bounded, &step);
    if (status == -EINVAL) {
        bounded = false; /* a kernel before 6.17 */
        status = preflight_run(bounded, &step);
    }
    if (status == 0) {
        atomic_store(&receive_is_bounded, bounded);
        atomic_store(&passed, 1);
        return true;
    }
    snprintf(reason, size, "io_uring: %s: %s%s", step, strerrordesc_np((int)-status),
             is_unknown_to_kernel((int)-status) ? "; Linux 6.1 or newer is needed" : "");
    return false;
}

/* --- buffers --- */

/* As much as on libuv if the buffers are small enough for it, but never many: the kernel keeps a vector of them for
 * each connection. */
static uint32_t receive_max(uint32_t buffer_size) {
    uint32_t count = RECEIVE_SHARE / buffer_size;
    if (count < 1) count = 1;
    if (count > RECEIVE_BUFFERS_MAX) count = RECEIVE_BUFFERS_MAX;
    return count * buffer_size;
}

int uvhttp__uring_buffers_new(uvhttp__uring_t *uring, const uvhttp__loop_options_t *options) {
    uring->buffer_count = options->receive_buffer_count;
    uring->buffer_size = options->receive_buffer_size;
    uring->receive_max = atomic_load(&receive_is_bounded) ? receive_max(uring->buffer_size) : 0;
    uring->buffer_stride = ((size_t)uring->buffer_size + BUFFER_COLOUR + 63) & ~(size_t)63;
    uring->buffers = mmap(NULL, uring->buffer_count * uring->buffer_stride, PROT_READ | PROT_WRITE,
                          MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    if (uring->buffers == MAP_FAILED) {
        uring->buffers = NULL;
        return UVHTTP_E_NOMEM;
    }
    uring->buf_ring = buf_ring_new(&uring->ring, uring->buffer_count);
    if (!uring->buf_ring) return errno == ENOMEM ? UVHTTP_E_NOMEM : UVHTTP_E_UNSUPPORTED;
    for (unsigned i = 0; i < uring->buffer_count; i++)
        io_uring_buf_ring_add(uring->buf_ring, uring->buffers + i * uring->buffer_stride, uring->buffer_size,
                              (unsigned short)i, io_uring_buf_ring_mask(uring->buffer_count), (int)i);
    io_uring_buf_ring_advance(uring->buf_ring, (int)uring->buffer_count);
    return UVHTTP_OK;
}

void uvhttp__uring_buffers_free(uvhttp__uring_t *uring) {
    if (uring->buffers) munmap(uring->buffers, uring->buffer_count * uring->buffer_stride);
    if (uring->buf_ring) munmap(uring->buf_ring, uring->buffer_count * sizeof(struct io_uring_buf));
}
