/* Owns: submissions that the kernel refuses (EAGAIN, EBUSY, ENOMEM, EINTR, EPERM, ...) or consumes in part. May
 * include: base, obs, io.
 *
 * An entry that was not consumed stays in the queue, and the next successful call submits it: the memory that it refers
 * to must stay unchanged until then. The kernel's head of the submission queue shows it: an entry is consumed when the
 * head has passed it. Until the head has passed the whole flush, the loop is held. It reads completions, runs messages
 * and timers, and collects output in the current half of the arena, but it settles nothing, flushes nothing and frees
 * no stream. A full queue is no reason to wait in a callback: further entries are kept aside, in order.
 *
 * Every iteration tries again (io_refusal.c). Refusals beyond a bound end the backend (io_uring_loop.c): connections
 * are reset by plain system calls, and the loop's owner is notified. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/io_uring.h"

#define SPILL_MIN 256u

/* --- entries --- */

static unsigned sq_head(const uvhttp__uring_t *uring) {
    return io_uring_smp_load_acquire(uring->ring.sq.khead);
}

static bool all_consumed(const uvhttp__uring_t *uring) {
    return uring->spill_count == 0 && sq_head(uring) == uring->ring.sq.sqe_tail;
}

/* An entry whose memory cannot be had is lost, and with it what the loop knows about the kernel: it fails. */
static struct io_uring_sqe *spill(uvhttp__uring_t *uring) {
    if (uring->failed || uring->fatal) return &uring->nowhere;
    if (uring->spill_count == uring->spill_capacity) {
        uint32_t capacity = uring->spill_capacity ? uring->spill_capacity * 2 : SPILL_MIN;
        struct io_uring_sqe *more = uvhttp__realloc(uring->spill, capacity * sizeof *more);
        if (!more) {
            uring->fatal = ENOMEM;
            return &uring->nowhere;
        }
        uring->spill = more;
        uring->spill_capacity = capacity;
    }
    uring->trouble = true;
    return &uring->spill[uring->spill_count++];
}

struct io_uring_sqe *uvhttp__uring_sqe_full(uvhttp__uring_t *uring) {
    if (!uring->trouble) {
        int status = io_uring_submit(&uring->ring);
        struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);
        if (sqe) return sqe;
        uvhttp__uring_refused(uring, status < 0 ? -status : EAGAIN);
    }
    struct io_uring_sqe *sqe = spill(uring);
    memset(sqe, 0, sizeof *sqe);
    return sqe;
}

/* Moves entries that were kept aside into free entries of the queue. Returns whether any was. */
static bool refill(uvhttp__uring_t *uring) {
    uint32_t moved = 0;
    for (struct io_uring_sqe *sqe; moved < uring->spill_count && (sqe = io_uring_get_sqe(&uring->ring)); moved++)
        *sqe = uring->spill[moved];
    uring->spill_count -= moved;
    if (moved > 0 && uring->spill_count > 0)
        memmove(uring->spill, uring->spill + moved, uring->spill_count * sizeof *uring->spill);
    return moved > 0;
}

void uvhttp__uring_abandon(uvhttp__uring_t *uring) {
    const struct io_uring_sq *sq = &uring->ring.sq;
    for (unsigned at = sq_head(uring); at != sq->sqe_tail; at++) {
        const struct io_uring_sqe *sqe = &sq->sqes[at & sq->ring_mask];
        if (sqe->opcode == IORING_OP_CLOSE) close(sqe->fd);
    }
    for (uint32_t i = 0; i < uring->spill_count; i++)
        if (uring->spill[i].opcode == IORING_OP_CLOSE) close(uring->spill[i].fd);
    uvhttp__free(uring->spill);
    uring->spill = NULL;
    uring->spill_count = uring->spill_capacity = 0;
}

/* --- refusals --- */

void uvhttp__uring_refused(uvhttp__uring_t *uring, int error) {
    unsigned head = sq_head(uring);
    if (head != uring->refused_head) uvhttp__refusals_end(&uring->refusals); /* it has consumed some since the last */
    uring->refused_head = head;
    uring->trouble = true;
    bool too_long = uvhttp__refusals_add(&uring->refusals, &uring->loop, "io_uring_enter", error);
    if (error == EBADR || too_long) uring->fatal = error;
}

void uvhttp__uring_hold(uvhttp__uring_t *uring) {
    uring->trouble = true;
    if (uring->loop.held) return;
    uring->loop.held = true;
    uring->held_tail = sq_head(uring); /* consumed already: the next call that works may end it */
}

/* A wait that ended without a completion is no refusal, and neither is a signal, as long as all was consumed. */
void uvhttp__uring_trouble(uvhttp__uring_t *uring, int status) {
    uvhttp__loop_t *loop = &uring->loop;
    if (uring->failed) return;
    while (status >= 0 && refill(uring)) status = io_uring_submit(&uring->ring);
    bool consumed = all_consumed(uring);
    bool entered = status >= 0 || status == -ETIME || status == -EINTR;
    if (!consumed || !entered)
        uvhttp__uring_refused(uring, status < 0 && status != -ETIME ? -status : EAGAIN);
    else
        uvhttp__refusals_end(&uring->refusals);
    if (loop->held) {
        loop->held = (int)(sq_head(uring) - uring->held_tail) < 0;
    } else if (!consumed) {
        loop->held = true;
        uring->held_tail = uring->ring.sq.sqe_tail + uring->spill_count;
    }
    uring->trouble = loop->held || uring->refusals.count > 0 || uring->spill_count > 0;
}
