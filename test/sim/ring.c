/* Owns: io_uring, as far as the backend uses it: behind liburing's functions that enter the kernel. The queues lie
 * where liburing's inline functions look for them. As with DEFER_TASKRUN, what does not complete while it is submitted
 * completes in a call that fetches events, in an order that comes from the seed. So do short sends and receives,
 * refused calls, entries that are consumed in part, and small queues, which overflow.
 *
 * The kernel of a ring reads memory later than the submission: a send that waits finds what is there then. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "kernel.h"

#ifndef IORING_RECVSEND_BUNDLE
#define IORING_RECVSEND_BUNDLE (1U << 4)
#endif

enum {
    SPILLED_MAX = 16384,
    IOV_MAX_USED = 64,
    BUFFERS_MAX = 256,         /* a multiple of 64 */
    PREFLIGHT_ENTRIES_MAX = 8, /* rings of this size are tried out only: nothing fails there */
    GUESTS_MAX = 4,
    STARVED_MAX = 3,
    EXCUSE_MS = 100, /* for so long a refusal excuses that completions are not looked at */
};

/* What the kernel has consumed and not completed. */
typedef struct op {
    struct io_uring_sqe sqe;
    uint64_t deadline_ns; /* a timeout's */
    struct iovec iov[IOV_MAX_USED];
    size_t iov_count; /* a send's: the kernel copies header and vector when it takes the entry, but not the bytes */
    bool asleep;      /* a receive that was not woken by a reset or FIN (pitfall 11 of docs/internals/io.md) */
} op_t;

struct sim_ring {
    struct io_uring *uring;
    unsigned sq_head, sq_tail, sq_mask, sq_entries, sq_flags, sq_dropped;
    unsigned cq_head, cq_tail, cq_mask, cq_entries, cq_flags, cq_overflow;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    struct io_uring_cqe *spilled; /* SPILLED_MAX of them: completions that found no space */
    uint32_t spilled_count;
    op_t *ops;
    uint32_t op_count, op_capacity;
    struct io_uring_buf_ring *buffers;
    uint16_t buffer_head, buffer_mask;
    uint16_t seen_tail, buffers_used, buffers_most; /* of those that were published together */
    sim_random_t random;
    bool faults;
    bool prompt;         /* what is ready when its entry is consumed completes there, always, as in the kernel */
    uint32_t refuses_in; /* one in so many calls */
    uint32_t dies_in;    /* so many calls from now on, in runs that may fail; 0: never */
    bool dead;           /* completions were dropped: it is of no use any more, and does nothing */
    bool lost;           /* one completion found no memory: the server is going to close what operations wait for */
    int event_fd;        /* of a guest: it is signalled for completions, unless they are switched off; -1: none */
};

static uint64_t rings_seed;
static uint32_t rings_made;
static struct sim_ring *guests[GUESTS_MAX]; /* those with an event */

void sim_rings_reset(uint64_t seed) {
    rings_seed = seed;
    rings_made = 0;
}

static struct sim_ring *ring_of(const struct io_uring *uring) {
    descriptor_t *it = sim_find(uring->ring_fd, "io_uring_enter");
    if (it->kind != RING) sim_fail("io_uring_enter on descriptor %d, which is no ring", uring->ring_fd);
    return it->ring;
}

/* --- the event of a guest --- */

static void signal_event(const struct sim_ring *ring) {
    if (ring->event_fd >= 0 && !(ring->cq_flags & IORING_CQ_EVENTFD_DISABLED)) sim_event_add(ring->event_fd, 1);
}

/* --- completions --- */

static bool cq_full(const struct sim_ring *ring) {
    return ring->cq_tail - ring->cq_head == ring->cq_entries;
}

static void put_completion(struct sim_ring *ring, const struct io_uring_cqe *cqe) {
    ring->cqes[ring->cq_tail & ring->cq_mask] = *cqe;
    ring->cq_tail++;
}

static void post(struct sim_ring *ring, const struct io_uring_sqe *sqe, int result, unsigned flags) {
    struct io_uring_cqe cqe = {.user_data = sqe->user_data, .res = result, .flags = flags};
    sim_trace("completion", sqe->opcode, (uint32_t)result);
    signal_event(ring);
    if (!cq_full(ring) && ring->spilled_count == 0) {
        put_completion(ring, &cqe);
        return;
    }
    if (ring->faults && sim_failing && sim_one_in(&ring->random, 50)) { /* no memory to keep it */
        sim_trace("a completion is lost", sqe->opcode, (uint32_t)result);
        ring->cq_overflow++;
        ring->lost = true;
        sim_ring_has_died = sim_ring_has_lost = true;
        return;
    }
    if (ring->spilled_count == SPILLED_MAX) sim_fail("more than %d completions wait for room", SPILLED_MAX);
    ring->spilled[ring->spilled_count++] = cqe;
    ring->sq_flags |= IORING_SQ_CQ_OVERFLOW;
}

/* Of an operation that was submitted with CQE_SKIP_SUCCESS only failures are reported. */
static void finish(struct sim_ring *ring, const struct io_uring_sqe *sqe, int result, bool failed) {
    if (failed || !(sqe->flags & IOSQE_CQE_SKIP_SUCCESS)) post(ring, sqe, result, 0);
}

static void flush_spilled(struct sim_ring *ring) {
    uint32_t moved = 0;
    while (moved < ring->spilled_count && !cq_full(ring)) put_completion(ring, &ring->spilled[moved++]);
    ring->spilled_count -= moved;
    memmove(ring->spilled, ring->spilled + moved, ring->spilled_count * sizeof *ring->spilled);
    if (ring->spilled_count == 0) ring->sq_flags &= ~(unsigned)IORING_SQ_CQ_OVERFLOW;
}

/* --- operations that wait --- */

static void wait_with(struct sim_ring *ring, const struct io_uring_sqe *sqe, uint64_t deadline_ns) {
    if (ring->op_count == ring->op_capacity) {
        ring->op_capacity = ring->op_capacity ? 2 * ring->op_capacity : 64;
        ring->ops = realloc(ring->ops, ring->op_capacity * sizeof *ring->ops);
        if (!ring->ops) abort();
    }
    ring->ops[ring->op_count++] = (op_t){.sqe = *sqe, .deadline_ns = deadline_ns};
}

static void drop_op(struct sim_ring *ring, op_t *op) {
    *op = ring->ops[--ring->op_count];
}

static sim_conn_t *conn_of(const op_t *op) {
    descriptor_t *it = sim_find(op->sqe.fd, "an operation of a ring");
    if (it->kind != STREAM) sim_fail("operation %d on descriptor %d, which is no stream", op->sqe.opcode, op->sqe.fd);
    return it->conn;
}

static uint32_t poll_mask(const op_t *op) {
    return op->sqe.poll32_events | POLLERR | POLLHUP;
}

/* A loop without memory for an entry ends the use of its ring, and closes what the ring holds. */
static bool is_abandoned(const op_t *op) {
    return sim_memory_has_failed() && sim_is_simulated(op->sqe.fd) && !sim_is_open(op->sqe.fd);
}

static bool is_ready(const op_t *op) {
    if (is_abandoned(op)) return false;
    switch (op->sqe.opcode) {
        case IORING_OP_RECV: return !op->asleep && (sim_events(op->sqe.fd) & POLLIN);
        case IORING_OP_SEND:
        case IORING_OP_SENDMSG: return sim_events(op->sqe.fd) & POLLOUT;
        case IORING_OP_POLL_ADD: return sim_events(op->sqe.fd) & poll_mask(op);
        case IORING_OP_READ: return sim_events(op->sqe.fd) & POLLIN;
        default: return op->deadline_ns <= sim_now_ns;
    }
}

static int take_error(sim_conn_t *conn) {
    int error = conn->error;
    conn->error = 0;
    return error;
}

/* A server with fewer buffers is one whose kernel uses no more of them before it publishes those that are back. */
static bool has_buffer(struct sim_ring *ring) {
    if (ring->seen_tail != ring->buffers->tail) ring->buffers_used = 0;
    ring->seen_tail = ring->buffers->tail;
    return ring->buffer_head != ring->buffers->tail && ring->buffers_used < ring->buffers_most;
}

/* Bytes into the buffers at the head of the buffer ring; the first one's number. */
static unsigned fill_buffers(struct sim_ring *ring, sim_conn_t *conn, size_t size, bool bundle) {
    const struct io_uring_buf *bufs = ring->buffers->bufs;
    unsigned first = bufs[ring->buffer_head & ring->buffer_mask].bid;
    while (size > 0 && has_buffer(ring)) {
        const struct io_uring_buf *buf = &bufs[ring->buffer_head & ring->buffer_mask];
        size_t part = size < buf->len ? size : buf->len;
        char *data = (char *)(uintptr_t)buf->addr;
        sim_queue_take(&conn->to_server, data, part);
        if (conn->takes_place) sim_traffic.received += part;
        sim_address_look(conn);
        sim_trace_bytes(data, part);
        ring->buffer_head++;
        ring->buffers_used++;
        size -= part;
        if (!bundle) break;
    }
    return first;
}

/* Buffers that are in use come back with the next change of the tail. Before that a receive that has found none is in
 * vain, again and again. */
static void found_no_buffer(struct sim_ring *ring, sim_conn_t *conn) {
    if (conn->starved_at != ring->buffers->tail) conn->starved = 0;
    conn->starved_at = ring->buffers->tail;
    if (++conn->starved > STARVED_MAX)
        sim_fail("descriptor %d: %u receives in vain, and no buffer was put back meanwhile", conn->fd, conn->starved);
}

static void receive(struct sim_ring *ring, op_t *op) {
    sim_conn_t *conn = conn_of(op);
    struct io_uring_sqe sqe = op->sqe;
    if (conn->to_server.size == 0) {
        int error = take_error(conn);
        drop_op(ring, op);
        post(ring, &sqe, -error, 0);
        return;
    }
    if (!has_buffer(ring)) {
        found_no_buffer(ring, conn);
        drop_op(ring, op);
        post(ring, &sqe, -ENOBUFS, 0);
        return;
    }
    bool bundle = sqe.ioprio & IORING_RECVSEND_BUNDLE;
    size_t size = sqe.len > 0 ? sqe.len : ring->buffers->bufs[ring->buffer_head & ring->buffer_mask].len;
    if (size > conn->to_server.size) size = conn->to_server.size;
    uint32_t before = conn->to_server.size;
    if (ring->faults) size = sim_share(&conn->random, size);
    unsigned first = fill_buffers(ring, conn, size, bundle);
    unsigned more = conn->to_server.size > 0 ? IORING_CQE_F_SOCK_NONEMPTY : 0;
    bool goes_on = !ring->faults || !sim_one_in(&ring->random, 6); /* else it has to be armed again */
    if (goes_on && !more && (conn->client_rst || (conn->is_unix && conn->client_fin)))
        op->asleep = sim_one_in(&ring->random, 2);
    if (!goes_on) drop_op(ring, op);
    post(ring, &sqe, (int)(before - conn->to_server.size),
         IORING_CQE_F_BUFFER | (goes_on ? IORING_CQE_F_MORE : 0) | more | first << IORING_CQE_BUFFER_SHIFT);
    sim_wake_client(conn);
}

/* What an entry sends, as a vector. */
static void read_vector(const struct io_uring_sqe *sqe, op_t *op) {
    const struct msghdr *message = (const void *)(uintptr_t)sqe->addr;
    op->iov[0] = (struct iovec){.iov_base = (void *)(uintptr_t)sqe->addr, .iov_len = sqe->len};
    op->iov_count = 1;
    if (sqe->opcode != IORING_OP_SENDMSG) return;
    if (message->msg_iovlen > IOV_MAX_USED) sim_fail("%zu pieces in one send", message->msg_iovlen);
    op->iov_count = message->msg_iovlen;
    memcpy(op->iov, message->msg_iov, message->msg_iovlen * sizeof *op->iov);
}

static ssize_t try_send(const op_t *op) {
    descriptor_t *it = sim_find(op->sqe.fd, "send of a ring");
    if (it->kind == PEER) return (ssize_t)sim_queue_put(&it->conn->to_server, op->iov[0].iov_base, op->iov[0].iov_len);
    return sim_stream_send(conn_of(op), op->iov, op->iov_count);
}

static void complete(struct sim_ring *ring, op_t *op) {
    struct io_uring_sqe sqe = op->sqe;
    ssize_t sent;
    switch (sqe.opcode) {
        case IORING_OP_RECV: receive(ring, op); return;
        case IORING_OP_SEND:
        case IORING_OP_SENDMSG:
            sent = try_send(op);
            if (sent == -EAGAIN) return;
            drop_op(ring, op);
            finish(ring, &sqe, (int)sent, sent < 0);
            return;
        case IORING_OP_POLL_ADD: {
            int events = (int)(sim_events(sqe.fd) & poll_mask(op));
            drop_op(ring, op);
            finish(ring, &sqe, events, false);
            return;
        }
        case IORING_OP_READ: {
            descriptor_t *event = sim_find(sqe.fd, "read of a ring");
            memcpy((void *)(uintptr_t)sqe.addr, &event->number, sizeof event->number);
            event->number = 0;
            drop_op(ring, op);
            finish(ring, &sqe, sizeof event->number, false);
            return;
        }
        default: drop_op(ring, op); finish(ring, &sqe, -ETIME, true);
    }
}

/* Task work of a guest's ring is flagged, and signalled, when it begins to wait. */
static void look(struct sim_ring *ring) {
    if (ring->event_fd < 0 || ring->lost || (ring->sq_flags & IORING_SQ_TASKRUN)) return;
    for (uint32_t i = 0; i < ring->op_count; i++) {
        if (!is_ready(&ring->ops[i])) continue;
        ring->sq_flags |= IORING_SQ_TASKRUN;
        signal_event(ring);
        return;
    }
}

void sim_rings_look(void) {
    for (uint32_t i = 0; i < GUESTS_MAX; i++)
        if (guests[i]) look(guests[i]);
}

/* Task work: what is ready completes, mostly, in any order. */
static void run_ready(struct sim_ring *ring) {
    static uint64_t ready[FD_MAX * 2]; /* one thread runs at a time */
    uint32_t count = 0;
    flush_spilled(ring);
    ring->sq_flags &= ~(unsigned)IORING_SQ_TASKRUN;
    if (ring->op_count > FD_MAX * 2) sim_fail("%u operations in a ring", ring->op_count);
    for (uint32_t i = 0; i < ring->op_count; i++)
        if (is_ready(&ring->ops[i])) ready[count++] = ring->ops[i].sqe.user_data;
    for (uint32_t left = count; left > 0; left--) {
        uint32_t at = sim_below(&ring->random, left);
        uint64_t chosen = ready[at];
        ready[at] = ready[left - 1];
        if (left < count && sim_one_in(&ring->random, 8)) continue; /* next time */
        for (uint32_t i = 0; i < ring->op_count; i++) {
            if (ring->ops[i].sqe.user_data != chosen || !is_ready(&ring->ops[i])) continue;
            complete(ring, &ring->ops[i]);
            break;
        }
    }
    look(ring);
}

bool sim_ring_ready(const struct sim_ring *ring) {
    if (ring->cq_head != ring->cq_tail || ring->spilled_count > 0) return true;
    for (uint32_t i = 0; i < ring->op_count && !ring->lost; i++)
        if (is_ready(&ring->ops[i])) return true;
    return false;
}

uint64_t sim_ring_next_ns(const struct sim_ring *ring) {
    uint64_t next = SIM_NEVER;
    for (uint32_t i = 0; i < ring->op_count; i++)
        if (ring->ops[i].sqe.opcode == IORING_OP_TIMEOUT && ring->ops[i].deadline_ns > sim_now_ns &&
            ring->ops[i].deadline_ns < next)
            next = ring->ops[i].deadline_ns;
    return next;
}

/* --- submission --- */

/* Whether an operation is tried when its entry is consumed. */
static bool is_tried(struct sim_ring *ring) {
    return ring->prompt || sim_one_in(&ring->random, 2);
}

/* The operation that was added last; a prompt ring continues it while it is ready. */
static void try_now(struct sim_ring *ring) {
    uint32_t count = ring->op_count;
    if (!is_tried(ring)) return;
    while (ring->op_count == count && is_ready(&ring->ops[count - 1])) {
        complete(ring, &ring->ops[count - 1]);
        if (!ring->prompt) break;
    }
}

static void cancel(struct sim_ring *ring, const struct io_uring_sqe *sqe) {
    if (sqe->cancel_flags)
        sim_fail("a cancel with flags %x: the kernel looks at every operation of the ring", sqe->cancel_flags);
    for (uint32_t i = 0; i < ring->op_count; i++) {
        op_t *op = &ring->ops[i];
        if (op->sqe.user_data != sqe->addr) continue;
        struct io_uring_sqe cancelled = op->sqe;
        drop_op(ring, op);
        post(ring, &cancelled, -ECANCELED, 0);
        finish(ring, sqe, 0, false);
        return;
    }
    finish(ring, sqe, -ENOENT, true);
}

static void submit_send(struct sim_ring *ring, const struct io_uring_sqe *sqe) {
    wait_with(ring, sqe, SIM_NEVER);
    op_t *op = &ring->ops[ring->op_count - 1];
    read_vector(sqe, op);
    bool waits = !(sqe->msg_flags & MSG_DONTWAIT);
    if (waits && !is_tried(ring)) return;
    size_t size = 0;
    for (size_t i = 0; i < op->iov_count; i++) size += op->iov[i].iov_len;
    ssize_t sent = try_send(op);
    if (sent == -EAGAIN && waits) return;
    drop_op(ring, op);
    finish(ring, sqe, (int)sent, sent < 0 || ((sqe->msg_flags & MSG_WAITALL) && (size_t)sent < size));
}

static void submit_close(struct sim_ring *ring, const struct io_uring_sqe *sqe) {
    for (uint32_t i = 0; i < ring->op_count; i++)
        if (ring->ops[i].sqe.fd == sqe->fd && ring->ops[i].sqe.opcode != IORING_OP_TIMEOUT)
            sim_fail("descriptor %d is closed while operation %d of the ring holds it: no FIN would be sent", sqe->fd,
                     ring->ops[i].sqe.opcode);
    (void)__wrap_close(sqe->fd);
    finish(ring, sqe, 0, false);
}

static uint64_t time_of(uint64_t address) {
    const struct __kernel_timespec *time = (const void *)(uintptr_t)address;
    return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static void update_timeout(struct sim_ring *ring, const struct io_uring_sqe *sqe) {
    for (uint32_t i = 0; i < ring->op_count; i++) {
        if (ring->ops[i].sqe.user_data != sqe->addr) continue;
        ring->ops[i].deadline_ns = time_of(sqe->off);
        finish(ring, sqe, 0, false);
        return;
    }
    finish(ring, sqe, -ENOENT, true);
}

static void issue(struct sim_ring *ring, const struct io_uring_sqe *sqe) {
    sim_trace("submission", sqe->opcode, (uint32_t)sqe->fd);
    switch (sqe->opcode) {
        case IORING_OP_SEND:
        case IORING_OP_SENDMSG: submit_send(ring, sqe); break;
        case IORING_OP_RECV:
        case IORING_OP_POLL_ADD:
        case IORING_OP_READ:
            wait_with(ring, sqe, SIM_NEVER);
            try_now(ring);
            break;
        case IORING_OP_TIMEOUT: wait_with(ring, sqe, time_of(sqe->addr)); break;
        case IORING_OP_TIMEOUT_REMOVE: update_timeout(ring, sqe); break;
        case IORING_OP_ASYNC_CANCEL: cancel(ring, sqe); break;
        case IORING_OP_CLOSE: submit_close(ring, sqe); break;
        default: sim_fail("operation %d of a ring is not simulated", sqe->opcode);
    }
}

static bool is_dead(struct sim_ring *ring) {
    if (ring->dies_in == 0 || --ring->dies_in > 0) return ring->dead;
    sim_trace("a ring fails", (uint64_t)ring->uring->ring_fd, ring->op_count);
    ring->op_count = ring->spilled_count = 0;
    return ring->dead = sim_ring_has_died = true;
}

static int refuse(struct sim_ring *ring, unsigned waiting) {
    static const int refusals[] = {EAGAIN, EBUSY, ENOMEM, EINTR};
    int error = refusals[sim_below(&ring->random, 4)];
    sim_ring_refused_ns = sim_now_ns;
    sim_trace("refused", (uint64_t)error, waiting);
    return -error;
}

/* Returns how many entries were consumed, or a refusal. */
static int consume(struct sim_ring *ring) {
    unsigned tail = ring->uring->sq.sqe_tail, waiting = tail - ring->sq_head, max = waiting;
    ring->uring->sq.sqe_head = ring->sq_tail = tail;
    if (is_dead(ring)) return -EBADR;
    if (ring->faults && sim_one_in(&ring->random, ring->refuses_in)) return refuse(ring, waiting);
    if (ring->faults && sim_one_in(&ring->random, ring->refuses_in)) max = sim_below(&ring->random, waiting);
    if (max < waiting) sim_ring_refused_ns = sim_now_ns; /* the rest */
    for (unsigned i = 0; i < max; i++) {
        struct io_uring_sqe sqe = ring->sqes[ring->sq_head & ring->sq_mask];
        ring->sq_head++;
        issue(ring, &sqe);
    }
    return (int)max;
}

static bool all_consumed(const struct sim_ring *ring) {
    return ring->sq_head == ring->sq_tail;
}

/* A loop that has seen every completion and waits holds no receive buffer: each is in the ring, once. */
static void check_buffers(const struct sim_ring *ring) {
    if (!ring->buffers || !ring->faults) return;
    uint16_t there = (uint16_t)(ring->buffers->tail - ring->buffer_head);
    if (there != ring->buffer_mask + 1u)
        sim_fail("%u receive buffers of %u are in the ring of a loop that waits", there, ring->buffer_mask + 1u);
    uint64_t seen[BUFFERS_MAX / 64] = {0};
    for (uint16_t i = 0; i < there; i++) {
        unsigned id = ring->buffers->bufs[(ring->buffer_head + i) & ring->buffer_mask].bid;
        if (id > ring->buffer_mask) sim_fail("receive buffer %u of %u is in the ring", id, ring->buffer_mask + 1u);
        if (seen[id / 64] >> id % 64 & 1) sim_fail("receive buffer %u is in the ring twice", id);
        seen[id / 64] |= UINT64_C(1) << id % 64;
    }
}

void sim_rings_check_guests(bool waits) {
    for (uint32_t i = 0; i < GUESTS_MAX && waits; i++) {
        const struct sim_ring *ring = guests[i];
        if (!ring || sim_find(ring->event_fd, "wait")->number > 0 ||
            sim_now_ns - sim_ring_refused_ns < EXCUSE_MS * SIM_MS)
            continue;
        if (ring->dead || ring->cq_overflow > 0) continue; /* nobody looks at it any more */
        if (ring->cq_head != ring->cq_tail || (ring->sq_flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)))
            sim_fail("the loop of an application waits although the ring of its guest has completions");
        check_buffers(ring);
    }
}

/* A thread that waits or fetches events may let others go first. */
static int enter(struct io_uring *uring, bool wait, uint64_t deadline_ns) {
    struct sim_ring *ring = ring_of(uring);
    int done = consume(ring);
    if (done < 0 || !all_consumed(ring)) return done;
    if (wait && ring->faults && done == 0 && sim_one_in(&ring->random, 256)) return -EINTR;
    bool waits = wait && ring->cq_head == ring->cq_tail && ring->spilled_count == 0;
    if (waits) check_buffers(ring);
    sim_wait_fd(uring->ring_fd, waits ? deadline_ns : sim_now_ns);
    run_ready(ring);
    return done > 0 || !waits || ring->cq_head != ring->cq_tail ? done : -ETIME;
}

/* --- liburing's functions --- */

/* A guest's enters the kernel only if there is something to do, and fetches events if there are any. */
int __wrap_io_uring_submit(struct io_uring *uring) {
    struct sim_ring *ring = ring_of(uring);
    if (ring->event_fd < 0) return consume(ring);
    bool has_events = ring->sq_flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
    if (!has_events && ring->sq_head == uring->sq.sqe_tail) return 0;
    int done = consume(ring);
    if (done >= 0 && has_events && all_consumed(ring)) run_ready(ring);
    look(ring);
    return done;
}

int __wrap_io_uring_register_eventfd(struct io_uring *uring, int fd) {
    struct sim_ring *ring = ring_of(uring);
    uint32_t place = 0;
    while (place < GUESTS_MAX && guests[place]) place++;
    if (place == GUESTS_MAX) sim_fail("more than %d guests", GUESTS_MAX);
    guests[place] = ring;
    ring->event_fd = fd;
    return 0;
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *uring) {
    return enter(uring, false, 0);
}

int __wrap_io_uring_get_events(struct io_uring *uring) {
    struct sim_ring *ring = ring_of(uring);
    if (ring->faults && sim_one_in(&ring->random, ring->refuses_in)) return refuse(ring, 0);
    run_ready(ring);
    return 0;
}

int __wrap_io_uring_submit_and_wait(struct io_uring *uring, unsigned count) {
    (void)count;
    return enter(uring, true, SIM_NEVER);
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *uring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *time, sigset_t *signals) {
    (void)count, (void)signals;
    int status = enter(uring, true, sim_now_ns + time_of((uintptr_t)time));
    struct sim_ring *ring = ring_of(uring);
    *cqe = ring->cq_head != ring->cq_tail ? &ring->cqes[ring->cq_head & ring->cq_mask] : NULL;
    return status;
}

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *uring, struct io_uring_params *params) {
    struct sim_ring *ring = calloc(1, sizeof *ring);
    int fd = sim_descriptor_new(RING);
    if (!ring || fd < 0) abort();
    sim_find(fd, "io_uring_setup")->ring = ring;
    ring->uring = uring;
    ring->random = sim_random_of(rings_seed, 0x9000 + rings_made++);
    ring->faults = entries > PREFLIGHT_ENTRIES_MAX;
    ring->event_fd = -1;
    ring->prompt = sim_one_in(&ring->random, 2);
    bool few = ring->faults && (sim_beat_ns || sim_one_in(&ring->random, 4));
    ring->buffers_most = few ? (uint16_t)(1u << sim_below(&ring->random, 4)) : UINT16_MAX;
    /* Each costs some ms, in which a crowd would wait for seconds behind small queues. */
    ring->refuses_in = sim_one_in(&ring->random, 4) && !sim_crowd ? 8 : 200;
    bool dies = ring->faults && sim_failing && sim_one_in(&ring->random, 8);
    ring->dies_in = dies ? 1 + sim_log_uniform(&ring->random, 3000) : 0;
    ring->sq_entries =
        ring->faults && sim_one_in(&ring->random, sim_beat_ns ? 2 : 4) ? 1u << sim_below(&ring->random, 4) : entries;
    ring->cq_entries =
        ring->faults && sim_one_in(&ring->random, 2) ? 2u << sim_below(&ring->random, 4) : params->cq_entries;
    ring->sq_mask = ring->sq_entries - 1;
    ring->cq_mask = ring->cq_entries - 1;
    ring->sqes = calloc(ring->sq_entries, sizeof *ring->sqes);
    ring->cqes = calloc(ring->cq_entries, sizeof *ring->cqes);
    ring->spilled = calloc(SPILLED_MAX, sizeof *ring->spilled);
    if (!ring->sqes || !ring->cqes || !ring->spilled) abort();
    *uring = (struct io_uring){.ring_fd = fd, .enter_ring_fd = fd, .flags = params->flags};
    uring->sq = (struct io_uring_sq){.khead = &ring->sq_head,
                                     .ktail = &ring->sq_tail,
                                     .kring_mask = &ring->sq_mask,
                                     .kring_entries = &ring->sq_entries,
                                     .kflags = &ring->sq_flags,
                                     .kdropped = &ring->sq_dropped,
                                     .sqes = ring->sqes,
                                     .ring_mask = ring->sq_mask,
                                     .ring_entries = ring->sq_entries};
    uring->cq = (struct io_uring_cq){.khead = &ring->cq_head,
                                     .ktail = &ring->cq_tail,
                                     .kring_mask = &ring->cq_mask,
                                     .kring_entries = &ring->cq_entries,
                                     .kflags = &ring->cq_flags,
                                     .koverflow = &ring->cq_overflow,
                                     .cqes = ring->cqes,
                                     .ring_mask = ring->cq_mask,
                                     .ring_entries = ring->cq_entries};
    return 0;
}

void __wrap_io_uring_queue_exit(struct io_uring *uring) {
    struct sim_ring *ring = ring_of(uring);
    for (uint32_t i = 0; i < GUESTS_MAX; i++)
        if (guests[i] == ring) guests[i] = NULL;
    *sim_find(uring->ring_fd, "io_uring_queue_exit") = (descriptor_t){.kind = FREE};
    free(ring->sqes);
    free(ring->cqes);
    free(ring->spilled);
    free(ring->ops);
    free(ring);
}

int __wrap_io_uring_register_buf_ring(struct io_uring *uring, struct io_uring_buf_reg *reg, unsigned flags) {
    (void)flags;
    struct sim_ring *ring = ring_of(uring);
    ring->buffers = (void *)(uintptr_t)reg->ring_addr;
    ring->buffer_mask = (uint16_t)(reg->ring_entries - 1);
    if (reg->ring_entries > BUFFERS_MAX) sim_fail("%u receive buffers", reg->ring_entries);
    return 0;
}

int __wrap_io_uring_register_ring_fd(struct io_uring *uring) {
    (void)uring;
    return -EINVAL;
}

int __wrap_io_uring_unregister_ring_fd(struct io_uring *uring) {
    (void)uring;
    return -EINVAL;
}
