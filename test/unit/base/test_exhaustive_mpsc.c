/* Owns: a model check of the queue of several producers: all interleavings of two producers, with two nodes each, and a
 * consumer that sleeps until it is woken.
 *
 * The code under test is that of the library, compiled anew with atomic operations that stop: a thread runs from one
 * to the next, and a schedule says who does. A thread is carried on by running it again from the start of its call,
 * with the results that its operations had before; what they store elsewhere is theirs until the last one. A compare
 * and exchange of the first producer may also fail for no reason, once a call. Operations are sequentially consistent
 * here: what weaker orders allow is for ThreadSanitizer, by test_mpsc.c. */
#include <cmocka.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/run.h"

enum { PRODUCERS = 2, NODES = 2, CONSUMER = PRODUCERS, ACTORS, OPERATIONS_MAX = 8 };

typedef struct result {
    void *seen;
    bool done; /* of a compare and exchange */
} result_t;

/* A thread in a call: what its operations have brought so far. */
typedef struct actor {
    result_t results[OPERATIONS_MAX];
    unsigned count;
    unsigned call; /* how many have ended */
    bool may_fail; /* a compare and exchange has not failed for no reason yet in this call */
} actor_t;

static actor_t actors[ACTORS];
static actor_t *running;
static unsigned replayed;     /* operations of this run that were results of before */
static bool stepped, failing; /* the one operation of this step is done; it fails for no reason */
static jmp_buf stop;

/* Whether the result is known; if not this operation is the step, or the thread stops in front of it. */
static bool replay(result_t **result) {
    bool known = replayed < running->count;
    if (!known && stepped) longjmp(stop, 1);
    if (!known) {
        assert_true(running->count < OPERATIONS_MAX);
        running->count++;
        stepped = true;
    }
    *result = &running->results[replayed++];
    return known;
}

static void *step_load(_Atomic(void *) *place) {
    result_t *result;
    if (!replay(&result)) result->seen = atomic_load(place);
    return result->seen;
}

static void *step_exchange(_Atomic(void *) *place, void *value) {
    result_t *result;
    if (!replay(&result)) result->seen = atomic_exchange(place, value);
    return result->seen;
}

static bool step_compare_exchange(_Atomic(void *) *place, void *expected, void *value) {
    result_t *result;
    if (!replay(&result)) {
        memcpy(&result->seen, expected, sizeof result->seen);
        result->done = false;
        if (!failing) result->done = atomic_compare_exchange_strong(place, &result->seen, value);
        if (failing) running->may_fail = false;
    }
    memcpy(expected, &result->seen, sizeof result->seen);
    return result->done;
}

#define PLACE(place) ((_Atomic(void *) *)(void *)(uintptr_t)(place))
#undef atomic_load_explicit
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_weak_explicit
#define atomic_load_explicit(place, order) step_load(PLACE(place))
#define atomic_exchange_explicit(place, value, order) step_exchange(PLACE(place), value)
#define atomic_compare_exchange_weak_explicit(place, expected, value, good, bad)                                       \
    step_compare_exchange(PLACE(place), expected, value)
#define uvhttp__mpsc_take take_in_steps
#include "base/mpsc.c"

typedef struct message {
    uvhttp__mpsc_node_t node;
    unsigned producer, number;
} message_t;

/* All that a step changes besides `actors`. */
static struct {
    uvhttp__mpsc_t queue;
    message_t messages[PRODUCERS][NODES];
    unsigned wakes;               /* that the consumer has not slept away */
    unsigned received[PRODUCERS]; /* messages of each that came, in order */
    unsigned empty_takes;
} state;

static uint64_t schedules;

static void produce(unsigned producer) {
    message_t *message = &state.messages[producer][running->call];
    bool was_empty = uvhttp__mpsc_push(&state.queue, &message->node);
    state.wakes += was_empty;
}

/* In the loop a wake-up and a take are two things: takes may come before the wake-up of what they take. */
static void consume(void) {
    uvhttp__mpsc_node_t *after, *node = take_in_steps(&state.queue);
    state.empty_takes += node == NULL;
    for (; node; node = after) {
        message_t *message = (message_t *)(void *)node;
        after = node->next;
        assert_int_equal(message->number, state.received[message->producer]++);
        memset((void *)&message->node, 0x5a, sizeof message->node); /* it may be gone */
    }
}

static bool can_run(unsigned who) {
    if (who < PRODUCERS) return actors[who].call < NODES;
    return state.wakes > 0; /* asleep otherwise */
}

/* One operation of a thread, and all it does up to the next. */
static void run(unsigned who, bool fails) {
    running = &actors[who];
    replayed = 0;
    stepped = false;
    failing = fails;
    if (setjmp(stop) != 0) return;
    if (who < PRODUCERS) {
        produce(who);
    } else {
        state.wakes--;
        consume();
    }
    running->call++;
    running->count = 0;
    running->may_fail = true;
}

/* Nobody can run: all is sent, all has come, and the consumer was woken for nothing at most so often as two pushes
 * found the queue empty between two takes, which is never. */
static void expect_all(void) {
    for (unsigned i = 0; i < PRODUCERS; i++) {
        assert_int_equal(actors[i].call, NODES);
        assert_int_equal(state.received[i], NODES); /* else a wake-up is lost */
    }
    assert_int_equal(state.empty_takes, 0);
    schedules++;
}

static void go_through(void) {
    actor_t actors_before[ACTORS];
    unsigned char before[sizeof state];
    bool any = false;
    memcpy(actors_before, actors, sizeof actors);
    memcpy(before, &state, sizeof state);
    for (unsigned who = 0; who < ACTORS; who++) {
        if (!can_run(who)) continue;
        any = true;
        /* The operation behind a load is a compare and exchange, which may fail. */
        for (int fails = 0; fails <= (who == 0 && actors[who].count == 1 && actors[who].may_fail); fails++) {
            run(who, fails);
            go_through();
            memcpy(actors, actors_before, sizeof actors);
            memcpy(&state, before, sizeof state);
        }
    }
    if (!any) expect_all();
}

static void test_every_interleaving_of_two_producers_and_a_consumer(void **unused) {
    (void)unused;
    uvhttp__mpsc_init(&state.queue);
    for (unsigned i = 0; i < ACTORS; i++) actors[i].may_fail = true;
    for (unsigned i = 0; i < PRODUCERS; i++)
        for (unsigned j = 0; j < NODES; j++) state.messages[i][j] = (message_t){.producer = i, .number = j};
    go_through();
    assert_true(schedules > 10000);
}

int main(void) {
    return RUN_TESTS(test_every_interleaving_of_two_producers_and_a_consumer);
}
