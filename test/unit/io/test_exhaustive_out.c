/* Owns: an exhaustive check of what a send queue counts: all sequences of five steps, against sums in 64 bits.
 *
 * The queue counts what is in it, saturating at 32 bits, and what the kernel took, which wraps. What can be queued is
 * small, or a file whose size is close to a bound of 32 bits; what is accepted ends inside a segment, at the end of
 * one, or is all that memory holds. */
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/engine.h"
#include "support/run.h"

enum { STEPS = 5, SEGMENTS_MAX = 2 * STEPS };

/* What is in the queue: sizes of what was sent, the oldest first, whoever made one segment of two. */
typedef struct model {
    uint64_t sizes[SEGMENTS_MAX];
    unsigned first, end;
    uint64_t consumed;
    unsigned references; /* of them, and files */
} model_t;

static uvhttp__counters_t *counters;
static uvhttp__loop_t *loop;
static uvhttp__stream_t stream;
static const uvhttp__stream_ops_t ops;
static unsigned released;

static void count(void *arg) {
    (void)arg;
    released++;
}

static int set_up(void **state) {
    (void)state;
    counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    assert_non_null(counters);
    memset(counters, 0, sizeof *counters);
    const uvhttp__loop_options_t options = {
        .engine = UVHTTP__ENGINE_EPOLL, .receive_buffer_size = 16384, .receive_buffer_count = 8, .counters = counters};
    assert_int_equal(uvhttp__loop_new(&options, &loop), UVHTTP_OK);
    stream = (uvhttp__stream_t){.loop = loop, .ops = &ops, .fd = -1};
    uvhttp__list_init(&stream.dirty);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    uvhttp__loop_free(loop, NULL, NULL);
    free(counters);
    return 0;
}

static uint64_t model_size(const model_t *model) {
    uint64_t sum = 0;
    for (unsigned i = model->first; i < model->end; i++) sum += model->sizes[i];
    return sum;
}

static void model_take(model_t *model, uint64_t size) {
    model->consumed += size;
    while (size > 0) {
        uint64_t bytes = size < model->sizes[model->first] ? size : model->sizes[model->first];
        model->sizes[model->first] -= bytes;
        size -= bytes;
        if (model->sizes[model->first] == 0) model->first++;
    }
}

static void check(const model_t *model) {
    uint64_t sum = 0, segments = 0;
    const uvhttp__segment_t *last = NULL;
    for (const uvhttp__segment_t *s = stream.out_first; s; s = s->next) {
        assert_true(s->size > 0);
        sum += s->size;
        segments++;
        last = s;
    }
    assert_ptr_equal(stream.out_last, last);
    assert_true(sum == model_size(model));
    assert_true(segments <= model->end - model->first);
    assert_int_equal(stream.out_size, sum > UINT32_MAX ? UINT32_MAX : sum);
    assert_int_equal(stream.out_sent, (uint32_t)model->consumed);
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(counters, &sums);
    assert_true(UVHTTP__COUNTER(&sums, bytes_sent) == model->consumed);
}

static void take(model_t *model, uint64_t size) {
    if (size > model_size(model)) size = model_size(model);
    uvhttp__out_advance(&stream, (size_t)size);
    model_take(model, size);
}

static void fly(model_t *model) {
    uint64_t size = 0;
    uint32_t segments = 0;
    for (const uvhttp__segment_t *s = stream.out_first; s && segments < 2; s = s->next, segments++) size += s->size;
    stream.out_flying = segments;
    uvhttp__out_drop_flown(&stream);
    assert_int_equal(stream.out_flying, 0);
    model_take(model, size);
}

static void step(model_t *model, unsigned which) {
    static const uint64_t files[] = {1, UINT32_MAX - 3, UINT32_MAX, UINT64_C(1) << 33};
    enum { FILES = sizeof files / sizeof *files };
    uint64_t first = stream.out_first ? stream.out_first->size : 0;
    switch (which) {
        case 0:
            assert_int_equal(uvhttp__stream_send_copy(&stream, "abc", 3), UVHTTP_OK);
            model->sizes[model->end++] = 3;
            break;
        case 1:
            assert_int_equal(uvhttp__stream_send_ref(&stream, "defg", 4, count, NULL), UVHTTP_OK);
            model->sizes[model->end++] = 4;
            model->references++;
            break;
        case 2: assert_int_equal(uvhttp__out_keep(&stream), UVHTTP_OK); break;
        case 3: take(model, 1); break;
        case 4: take(model, first); break;
        case 5: take(model, first + 1); break;
        case 6: take(model, first > 0 ? first - 1 : 0); break;
        case 7: fly(model); break;
        default:
            assert_int_equal(uvhttp__stream_send_file(&stream, 77, 0, files[(which - 8) % FILES], count, NULL),
                             UVHTTP_OK);
            model->sizes[model->end++] = files[(which - 8) % FILES];
            model->references++;
            break;
    }
}

static void test_every_sequence_of_sends_and_of_what_the_kernel_takes(void **state) {
    (void)state;
    enum { ALPHABET = 12 };
    uint32_t all = 1;
    uint64_t consumed = 0;
    for (int i = 0; i < STEPS; i++) all *= ALPHABET;
    for (uint32_t n = 0; n < all; n++) {
        model_t model = {.consumed = consumed};
        released = 0;
        uint32_t rest = n;
        for (int i = 0; i < STEPS; i++, rest /= ALPHABET) step(&model, rest % ALPHABET);
        check(&model);
        uvhttp__out_drop(&stream);
        assert_int_equal(stream.out_size, 0);
        assert_int_equal(released, 0); /* not while the queue is worked on */
        uvhttp__released_call(loop);
        assert_int_equal(released, model.references);
        assert_int_equal(loop->segments.in_use, 0);
        uvhttp__iteration_arena_sent(loop);
        uvhttp__iteration_arena_flip(loop);
        consumed = model.consumed;
    }
    uvhttp__list_remove(&stream.dirty);
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_every_sequence_of_sends_and_of_what_the_kernel_takes);
}
