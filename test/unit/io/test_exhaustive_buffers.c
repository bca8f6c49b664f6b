/* Owns: an exhaustive check of the bookkeeping of io_uring's receive buffers: who has which, and that each comes back
 * to its place.
 *
 * The test is the kernel: it takes buffers from the ring as they were published, fills them, and says so in completions
 * of its own making, which the library runs as those of a real ring. All sequences of completions that use up to all
 * buffers are gone through, in one drain and in two, from every place in the ring, and until the ring's counter of 16
 * bits has wrapped. Receives stay armed: nothing is submitted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/io_server.h"
#include "support/run.h"
#include "support/uring.h"

#if UVHTTP_WITH_URING
#include "io/io_uring.h"

enum { BUFFERS = 4, SIZE = 64, COMPLETIONS_MAX = BUFFERS };

/* Bytes of a completion: the ends of what each number of buffers can hold. */
static const unsigned results[] = {1,        SIZE - 1,     SIZE,     SIZE + 1,     2 * SIZE - 1,
                                   2 * SIZE, 2 * SIZE + 1, 3 * SIZE, 3 * SIZE + 1, 4 * SIZE};
enum { RESULTS = sizeof results / sizeof *results };

static struct {
    uvhttp__counters_t *counters;
    uvhttp__loop_t *loop;
    uvhttp__uring_t *uring;
    uvhttp__stream_t stream;
    unsigned cq_head, cq_tail, cq_overflow;
    uint64_t cqes[COMPLETIONS_MAX][sizeof(struct io_uring_cqe) / sizeof(uint64_t)]; /* which ends in no array here */
    uint16_t consumed;     /* buffers that the kernel has consumed so far: its head of the ring */
    uint8_t next_sent;     /* of the bytes that were put into buffers, ... */
    uint8_t next_received; /* ... and that were delivered */
    unsigned received;     /* bytes */
    uint16_t published;    /* tail of the ring when the drain began: nothing is given back in it */
    uint64_t drains;
} kernel;

static size_t receive(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)stream;
    assert_true(size > 0 && size <= SIZE);
    size_t offset = (size_t)(data - kernel.uring->buffers);
    assert_true(offset % kernel.uring->buffer_stride == 0 && offset / kernel.uring->buffer_stride < BUFFERS);
    for (size_t i = 0; i < size; i++) assert_int_equal((uint8_t)data[i], kernel.next_received++);
    assert_int_equal(kernel.uring->buf_ring->tail, kernel.published);
    kernel.received += (unsigned)size;
    return size;
}

static const uvhttp__stream_ops_t ops = {.on_data = receive};

static int set_up(void **state) {
    (void)state;
    memset(&kernel, 0, sizeof kernel);
    kernel.counters = aligned_alloc(64, (sizeof *kernel.counters + 63) / 64 * 64);
    assert_non_null(kernel.counters);
    memset(kernel.counters, 0, sizeof *kernel.counters);
    const uvhttp__loop_options_t options = {.engine = UVHTTP__ENGINE_URING,
                                            .receive_buffer_size = SIZE,
                                            .receive_buffer_count = BUFFERS,
                                            .counters = kernel.counters};
    assert_int_equal(uvhttp__loop_new(&options, &kernel.loop), UVHTTP_OK);
    kernel.uring = uvhttp__uring_of(kernel.loop);
    kernel.stream = (uvhttp__stream_t){.loop = kernel.loop, .ops = &ops, .fd = -1, .flags = UVHTTP__STREAM_READING};
    uvhttp__list_init(&kernel.stream.dirty);
    uvhttp__list_init(&kernel.stream.ready);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__loop_free(kernel.loop, NULL, NULL);
    free(kernel.counters);
    return 0;
}

/* The buffers that are the kernel's: all of them, each once, where it belongs, and of its size. */
static void expect_all_published(void) {
    unsigned seen = 0;
    assert_int_equal((uint16_t)(kernel.uring->buf_ring->tail - kernel.consumed), BUFFERS);
    assert_int_equal(kernel.uring->buffers_back, 0);
    for (unsigned i = 0; i < BUFFERS; i++) {
        const struct io_uring_buf *buffer = &kernel.uring->buf_ring->bufs[(kernel.consumed + i) & (BUFFERS - 1)];
        assert_true(buffer->bid < BUFFERS && !(seen >> buffer->bid & 1));
        seen |= 1u << buffer->bid;
        assert_true(buffer->addr == (uintptr_t)kernel.uring->buffers + buffer->bid * kernel.uring->buffer_stride);
        assert_int_equal(buffer->len, SIZE);
    }
}

/* Takes as many buffers as the bytes need, the oldest first, and names the first. */
static void complete(unsigned size) {
    unsigned first = kernel.uring->buf_ring->bufs[kernel.consumed & (BUFFERS - 1)].bid;
    for (unsigned left = size; left > 0;) {
        const struct io_uring_buf *buffer = &kernel.uring->buf_ring->bufs[kernel.consumed++ & (BUFFERS - 1)];
        unsigned bytes = left < buffer->len ? left : buffer->len;
        for (unsigned i = 0; i < bytes; i++) ((uint8_t *)(uintptr_t)buffer->addr)[i] = kernel.next_sent++;
        left -= bytes;
    }
    struct io_uring_cqe *cqe = (void *)kernel.cqes[kernel.cq_tail++ & (COMPLETIONS_MAX - 1)];
    cqe->user_data = (uint64_t)(uintptr_t)&kernel.stream | UVHTTP__URING_RECEIVE;
    cqe->res = (int)size;
    cqe->flags =
        IORING_CQE_F_BUFFER | IORING_CQE_F_MORE | IORING_CQE_F_SOCK_NONEMPTY | first << IORING_CQE_BUFFER_SHIFT;
}

/* The library runs what is in the queue: that of the test in the place of the ring's. */
static void run_queue(void) {
    struct io_uring_cq *cq = &kernel.uring->ring.cq, real = *cq;
    cq->khead = &kernel.cq_head;
    cq->ktail = &kernel.cq_tail;
    cq->koverflow = &kernel.cq_overflow;
    cq->ring_mask = COMPLETIONS_MAX - 1;
    cq->cqes = (void *)kernel.cqes;
    kernel.received = 0;
    kernel.published = kernel.uring->buf_ring->tail;
    uvhttp__uring_collect(kernel.uring);
    *cq = real;
}

static void drain(unsigned expected) {
    run_queue();
    assert_int_equal(kernel.cq_head, kernel.cq_tail);
    assert_int_equal(kernel.received, expected);
    kernel.drains++;
    expect_all_published();
}

/* All drains that use up to `left` buffers more. Returns how many there are; the one with number `pick` is run. */
static unsigned go_through(unsigned left, unsigned count, unsigned *chosen, unsigned number, unsigned pick) {
    if (count > 0) {
        if (number == pick) {
            unsigned sum = 0;
            for (unsigned i = 0; i < count; i++) {
                complete(chosen[i]);
                sum += chosen[i];
            }
            drain(sum);
        }
        number++;
    }
    for (unsigned i = 0; i < RESULTS; i++) {
        unsigned needed = (results[i] + SIZE - 1) / SIZE;
        if (needed > left) continue;
        chosen[count] = results[i];
        number = go_through(left - needed, count + 1, chosen, number, pick);
    }
    return number;
}

static void test_every_sequence_of_completions_from_every_place(void **state) {
    (void)state;
    unsigned chosen[COMPLETIONS_MAX + 1], count = go_through(BUFFERS, 0, chosen, 0, UINT32_MAX);
    expect_all_published();
    for (unsigned first = 0; first < count; first++) {
        for (unsigned second = 0; second < count; second++) {
            (void)go_through(BUFFERS, 0, chosen, 0, first);
            (void)go_through(BUFFERS, 0, chosen, 0, second);
        }
        complete(1); /* the next ones begin at another place */
        drain(1);
    }
    assert_true(count > 100 && kernel.drains > UINT16_MAX);
}

/* The bytes of the lost one would be missing before those that came later. */
static void test_behind_a_lost_completion_nothing_is_looked_at(void **state) {
    (void)state;
    complete(1);
    kernel.cq_tail--;
    kernel.cq_overflow++;
    complete(1);
    run_queue();
    assert_int_equal(kernel.received, 0);
    assert_int_equal(kernel.uring->fatal, EBADR);
    assert_true(kernel.loop->held);
}
#endif

int main(void) {
#if UVHTTP_WITH_URING
    if (!uring_works()) return 77;
    return RUN_TESTS_WITH(set_up, tear_down, test_every_sequence_of_completions_from_every_place,
                          test_behind_a_lost_completion_nothing_is_looked_at);
#else
    return 77;
#endif
}
