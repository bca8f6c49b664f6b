/* Owns: exhaustive checks of the timer wheel: all pairs of a time and a deadline around the borders of its levels, and
 * all sequences of steps with two timers.
 *
 * Where a timer stands depends on the highest digit in which its deadline and the time differ, and on whether that is
 * reached; so each digit is used with its first and last values and those next to them. The sequences start before
 * a border of a level, which most of them cross. The wheel is copied and put back in its place, so that each step is
 * executed once for each sequence that leads to it. */
#include <cmocka.h>
#include <string.h>

#include "base/timer_wheel.h"
#include "support/run.h"

enum { TIMERS = 2, DEPTH = 5, NONE = -1 };

/* Everything that a step changes. The lists point into it: it stays where it is. */
static struct {
    uvhttp__wheel_t wheel;
    uvhttp__timer_t timers[TIMERS];
    int64_t deadlines[TIMERS]; /* the model: NONE, or when each is to expire */
} live;

static unsigned expired[TIMERS], expired_count; /* in this advance, in order */

static void on_expire(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    assert_true(expired_count < TIMERS);
    expired[expired_count++] = (unsigned)(timer - live.timers);
}

static void start(uint64_t now) {
    uvhttp__wheel_init(&live.wheel, now);
    uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&live.wheel, on_expire, NULL);
    for (unsigned i = 0; i < TIMERS; i++) {
        uvhttp__timer_init(&live.timers[i], kind);
        live.deadlines[i] = NONE;
    }
}

/* --- one timer --- */

/* c * 64^k + d: the ends of each digit, and what is next to them; up to beyond the horizon of 2^30. */
static unsigned make_times(uint64_t *times) {
    static const uint64_t digits[] = {1, 2, 63};
    unsigned count = 0;
    for (unsigned level = 0; level <= UVHTTP__WHEEL_LEVELS + 1; level++)
        for (unsigned i = 0; i < sizeof digits / sizeof *digits; i++)
            for (uint64_t d = 0; d < 5; d++)
                times[count++] = (digits[i] << 6 * level) + d - (d < 2 && level == 0 ? 0 : 2);
    times[count++] = UVHTTP__TIMER_NEVER - 2;
    return count;
}

/* It expires at its deadline, to which wheel_next leads in few steps, and not before; also if the time jumps there, or
 * beyond. */
static void expect_pair(uint64_t now, uint64_t deadline) {
    for (int way = 0; way < 3; way++) {
        uint64_t due = deadline > now ? deadline : now, at;
        unsigned steps = 0;
        start(now);
        uvhttp__timer_set_tick(&live.wheel, &live.timers[0], deadline);
        expired_count = 0;
        if (way > 0 && due > now) {
            uvhttp__wheel_advance(&live.wheel, due - 1, UINT32_MAX);
            assert_int_equal(expired_count, 0);
        }
        if (way == 1) uvhttp__wheel_advance(&live.wheel, due, UINT32_MAX);
        if (way == 2) uvhttp__wheel_advance(&live.wheel, due + 1, UINT32_MAX);
        for (; way == 0 && expired_count == 0; steps++) {
            assert_true(uvhttp__wheel_next(&live.wheel, &at) && at >= live.wheel.now && at <= due);
            if (due - now < UINT64_C(1) << 31) assert_true(steps <= UVHTTP__WHEEL_LEVELS + 2);
            if (steps > 64) break; /* one step for each 2^30 ticks: too many */
            uvhttp__wheel_advance(&live.wheel, at, UINT32_MAX);
            assert_int_equal(expired_count, at == due);
        }
        assert_true(expired_count == 1 || steps > 64);
        assert_int_equal(live.wheel.count, 1 - expired_count);
        uvhttp__timer_stop(&live.wheel, &live.timers[0]);
        assert_false(uvhttp__wheel_next(&live.wheel, &at));
        for (unsigned level = 0; level < UVHTTP__WHEEL_LEVELS; level++) assert_true(live.wheel.occupied[level] == 0);
    }
}

static void test_every_pair_of_a_time_and_a_deadline_at_the_borders(void **state) {
    (void)state;
    uint64_t times[256];
    unsigned count = make_times(times);
    for (unsigned i = 0; i < count; i++) {
        for (unsigned j = 0; j < count; j++) {
            /* Beyond the horizon an advance goes by steps of 2^30: a jump of half a million years takes its time. */
            if (times[j] > times[i] && times[j] - times[i] > UINT64_C(1) << 38) continue;
            expect_pair(times[i], times[j]);
        }
    }
    for (unsigned i = 0; i < count - 1; i++) { /* it is never, and does not overflow */
        uint64_t at;
        start(times[i]);
        uvhttp__timer_set_tick(&live.wheel, &live.timers[0], UINT64_MAX);
        assert_true(uvhttp__timer_deadline(&live.timers[0]) == UVHTTP__TIMER_NEVER);
        assert_true(uvhttp__wheel_next(&live.wheel, &at) && at > times[i] && at <= UVHTTP__TIMER_NEVER);
    }
}

/* All pairs of the lowest two digits and a bit: each slot of each of two levels, from each tick. */
static void test_every_pair_of_two_digits(void **state) {
    (void)state;
    for (uint64_t now = 0; now < 128; now++) {
        for (uint64_t delay = 0; delay < 4096 + 128; delay++) {
            start(now);
            expired_count = 0;
            uvhttp__timer_set_tick(&live.wheel, &live.timers[0], now + delay);
            if (delay > 0) uvhttp__wheel_advance(&live.wheel, now + delay - 1, UINT32_MAX);
            assert_int_equal(expired_count, 0);
            uvhttp__wheel_advance(&live.wheel, now + delay, UINT32_MAX);
            assert_int_equal(expired_count, 1);
        }
    }
}

/* --- sequences --- */

static int64_t first_deadline(void) {
    int64_t first = NONE;
    for (unsigned i = 0; i < TIMERS; i++)
        if (live.deadlines[i] != NONE && (first == NONE || live.deadlines[i] < first)) first = live.deadlines[i];
    return first;
}

static void check(void) {
    uint64_t at;
    size_t count = 0;
    int64_t first = first_deadline();
    for (unsigned i = 0; i < TIMERS; i++) {
        bool set = live.deadlines[i] != NONE;
        assert_int_equal(uvhttp__timer_active(&live.timers[i]), set);
        if (set) assert_int_equal(uvhttp__timer_deadline(&live.timers[i]), live.deadlines[i]);
        count += set;
    }
    assert_int_equal(live.wheel.count, count);
    assert_int_equal(uvhttp__wheel_next(&live.wheel, &at), count > 0);
    if (count == 0) return;
    assert_true(at >= live.wheel.now);
    assert_true((int64_t)at <= first || at == live.wheel.now);
}

/* Those that are due by then expire, no more than max: what was due before, then by deadline. */
static void advance(uint64_t to, uint32_t max) {
    int64_t now = (int64_t)live.wheel.now, then = (int64_t)to > now ? (int64_t)to : now;
    uint32_t due = 0;
    for (unsigned i = 0; i < TIMERS; i++) due += live.deadlines[i] != NONE && live.deadlines[i] <= then;
    expired_count = 0;
    uvhttp__wheel_advance(&live.wheel, to, max);
    assert_int_equal(expired_count, due < max ? due : max);
    assert_int_equal(live.wheel.now, then);
    for (unsigned i = 0; i < expired_count; i++) {
        int64_t deadline = live.deadlines[expired[i]];
        assert_true(deadline != NONE && deadline <= then);
        live.deadlines[expired[i]] = NONE;
        /* None of those left that were not due before, and are due earlier. */
        for (unsigned j = 0; j < TIMERS; j++)
            if (deadline > now && live.deadlines[j] > now) assert_true(live.deadlines[j] >= deadline);
        if (deadline > now) /* what was due before goes first */
            for (unsigned j = 0; j < TIMERS; j++) assert_true(live.deadlines[j] == NONE || live.deadlines[j] > now);
    }
}

static void set(unsigned i, int64_t deadline) {
    uvhttp__timer_set_tick(&live.wheel, &live.timers[i], (uint64_t)deadline);
    live.deadlines[i] = deadline;
}

static void stop(unsigned i) {
    uvhttp__timer_stop(&live.wheel, &live.timers[i]);
    live.deadlines[i] = NONE;
}

/* Delays of each timer, and what the time is advanced by. A timer that is set already is moved. */
static const int delays[] = {-1, 0, 1, 2, 63, 64, 4096}, jumps[] = {0, 1, 2, 62, 64, 4095};
enum { DELAYS = sizeof delays / sizeof *delays, JUMPS = sizeof jumps / sizeof *jumps };
enum { ALPHABET = TIMERS * (DELAYS + 1) + JUMPS + 1 };

static void step(unsigned which) {
    int64_t now = (int64_t)live.wheel.now;
    if (which < TIMERS * DELAYS)
        set(which / DELAYS, now + delays[which % DELAYS]);
    else if (which < TIMERS * (DELAYS + 1))
        stop(which - TIMERS * DELAYS);
    else if (which < ALPHABET - 1)
        advance(live.wheel.now + (uint64_t)jumps[which - TIMERS * (DELAYS + 1)], UINT32_MAX);
    else
        advance(live.wheel.now + 64, 1);
}

static void go_through(unsigned depth) {
    if (depth == 0) return;
    unsigned char before[sizeof live];
    memcpy(before, &live, sizeof live);
    for (unsigned which = 0; which < ALPHABET; which++) {
        step(which);
        check();
        go_through(depth - 1);
        memcpy(&live, before, sizeof live);
    }
}

/* Of five steps before the border that has a digit of each kind behind it; of four before the others, and of four
 * behind two timers that are set. */
static void test_every_sequence_of_set_move_stop_and_advance(void **state) {
    (void)state;
    start(4096 - 3);
    go_through(DEPTH);
    static const uint64_t borders[] = {64 * 3, 64 * 64, UINT64_C(1) << 18, UINT64_C(1) << 30};
    for (unsigned i = 0; i < sizeof borders / sizeof *borders; i++) {
        start(borders[i] - 2);
        go_through(DEPTH - 1);
    }
    start(64 - 2);
    set(0, 64);
    set(1, 128);
    go_through(DEPTH - 1);
}

int main(void) {
    return RUN_TESTS(test_every_pair_of_a_time_and_a_deadline_at_the_borders, test_every_pair_of_two_digits,
                     test_every_sequence_of_set_move_stop_and_advance);
}
