#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/timer_wheel.h"
#include "support/random.h"

static uvhttp__wheel_t wheel;
static uvhttp__timer_kind_t record_kind,
    other_kind; /* of the timers that are recorded; of those with a callback of the test */
static uvhttp__timer_t *fired[64];
static size_t fired_count;

static void record(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    assert_ptr_equal(w, &wheel);
    assert_ptr_equal(user, &fired_count);
    assert_false(uvhttp__timer_active(timer));
    assert_true(fired_count < 64);
    fired[fired_count++] = timer;
}

static int setup(void **state) {
    (void)state;
    uvhttp__wheel_init(&wheel, 1000);
    record_kind = uvhttp__wheel_kind(&wheel, record, &fired_count);
    fired_count = 0;
    return 0;
}

static void test_timer_expires_at_its_deadline_and_not_before(void **state) {
    (void)state;
    static const uint64_t delays[] = {1,
                                      2,
                                      63,
                                      64,
                                      65,
                                      100,
                                      4095,
                                      4096,
                                      5000,
                                      262143,
                                      262144,
                                      16777215,
                                      16777216,
                                      20000000,
                                      1073741823,
                                      1073741824,
                                      1073741825,
                                      3000000000,
                                      UINT64_C(1) << 33,
                                      UINT64_C(5000000000)};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        for (uint64_t begin = 0; begin < 3; begin++) {
            uint64_t now = 1000 + begin * 3095; /* 1000, 4095, 7190: before, at the end of and in a turn of level 1 */
            uvhttp__wheel_init(&wheel, now);
            record_kind = uvhttp__wheel_kind(&wheel, record, &fired_count);
            fired_count = 0;
            uvhttp__timer_t timer;
            uvhttp__timer_init(&timer, record_kind);
            assert_false(uvhttp__timer_active(&timer));
            uvhttp__timer_set_tick(&wheel, &timer, now + delays[i]);
            assert_true(uvhttp__timer_active(&timer));
            assert_int_equal(uvhttp__timer_deadline(&timer), now + delays[i]);
            uvhttp__wheel_advance(&wheel, now + delays[i] - 1, UINT32_MAX);
            assert_int_equal(fired_count, 0);
            uvhttp__wheel_advance(&wheel, now + delays[i], UINT32_MAX);
            assert_int_equal(fired_count, 1);
            assert_int_equal(wheel.count, 0);
        }
    }
}

static void test_next_leads_to_the_deadline_in_few_steps(void **state) {
    (void)state;
    uint64_t at = 0;
    assert_false(uvhttp__wheel_next(&wheel, &at));
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__timer_set_tick(&wheel, &timer, 1000 + 60000);
    int steps = 0;
    while (fired_count == 0) {
        assert_true(uvhttp__wheel_next(&wheel, &at));
        assert_true(at > wheel.now && at <= 61000);
        uvhttp__wheel_advance(&wheel, at, UINT32_MAX);
        steps++;
    }
    assert_int_equal(at, 61000);
    assert_true(steps <= UVHTTP__WHEEL_LEVELS);
    assert_false(uvhttp__wheel_next(&wheel, &at));
}

static void test_past_deadline_is_due_at_once_but_not_inside_set(void **state) {
    (void)state;
    uvhttp__timer_t timers[3];
    static const uint64_t deadlines[] = {0, 999, 1000};
    for (int i = 0; i < 3; i++) {
        uvhttp__timer_init(&timers[i], record_kind);
        uvhttp__timer_set_tick(&wheel, &timers[i], deadlines[i]);
    }
    assert_int_equal(fired_count, 0);
    uint64_t at = 0;
    assert_true(uvhttp__wheel_next(&wheel, &at));
    assert_int_equal(at, 1000);
    uvhttp__wheel_advance(&wheel, 1000, UINT32_MAX); /* the clock has not moved */
    assert_int_equal(fired_count, 3);
}

static void test_putting_off_keeps_the_place_and_expires_later(void **state) {
    (void)state;
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__timer_set_tick(&wheel, &timer, 1010);
    uvhttp__list_t *place = timer.link.next;
    uint64_t at = 0;
    for (uint64_t deadline = 1010; deadline <= 1500; deadline++) uvhttp__timer_set_tick(&wheel, &timer, deadline);
    assert_ptr_equal(timer.link.next, place);
    assert_true(uvhttp__wheel_next(&wheel, &at));
    assert_int_equal(at, 1010);
    uvhttp__wheel_advance(&wheel, 1010, UINT32_MAX);
    assert_int_equal(fired_count, 0);
    assert_true(uvhttp__timer_active(&timer));
    uvhttp__wheel_advance(&wheel, 1499, UINT32_MAX);
    assert_int_equal(fired_count, 0);
    uvhttp__wheel_advance(&wheel, 1500, UINT32_MAX);
    assert_int_equal(fired_count, 1);
}

static void test_earlier_deadline_moves_at_once(void **state) {
    (void)state;
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__timer_set_tick(&wheel, &timer, 100000);
    uvhttp__timer_set_tick(&wheel, &timer, 200000);
    uvhttp__timer_set_tick(&wheel, &timer, 1005);
    uint64_t at = 0;
    assert_true(uvhttp__wheel_next(&wheel, &at));
    assert_int_equal(at, 1005);
    uvhttp__wheel_advance(&wheel, 1005, UINT32_MAX);
    assert_int_equal(fired_count, 1);
    uvhttp__wheel_advance(&wheel, 300000, UINT32_MAX);
    assert_int_equal(fired_count, 1);
}

static void test_stopped_timer_does_not_expire(void **state) {
    (void)state;
    uvhttp__timer_t timers[4];
    for (int i = 0; i < 4; i++) uvhttp__timer_init(&timers[i], record_kind);
    uvhttp__timer_stop(&wheel, &timers[0]);
    uvhttp__timer_set_tick(&wheel, &timers[0], 1010);
    uvhttp__timer_set_tick(&wheel, &timers[1], 1010);
    uvhttp__timer_set_tick(&wheel, &timers[2], 900);
    uvhttp__timer_set_tick(&wheel, &timers[3], UVHTTP__TIMER_NEVER);
    assert_int_equal(wheel.count, 4);
    uvhttp__timer_stop(&wheel, &timers[0]);
    uvhttp__timer_stop(&wheel, &timers[0]);
    uvhttp__timer_stop(&wheel, &timers[2]);
    uvhttp__timer_stop(&wheel, &timers[3]);
    assert_int_equal(wheel.count, 1);
    uvhttp__wheel_advance(&wheel, 2000, UINT32_MAX);
    assert_int_equal(fired_count, 1);
    assert_ptr_equal(fired[0], &timers[1]);
    uint64_t at;
    assert_false(uvhttp__wheel_next(&wheel, &at));
}

static void test_one_advance_expires_in_order_of_deadlines(void **state) {
    (void)state;
    static const uint64_t delays[] = {70, 3, 500000, 64, 5000, 1, 300, 20000000, 2000000000};
    static const int order[] = {5, 1, 3, 0, 6, 4, 2, 7, 8};
    uvhttp__timer_t timers[9];
    for (int i = 0; i < 9; i++) {
        uvhttp__timer_init(&timers[i], record_kind);
        uvhttp__timer_set_tick(&wheel, &timers[i], 1000 + delays[i]);
    }
    uvhttp__wheel_advance(&wheel, UINT64_C(10000000000), UINT32_MAX);
    assert_int_equal(fired_count, 9);
    for (int i = 0; i < 9; i++) assert_ptr_equal(fired[i], &timers[order[i]]);
}

static void test_clock_that_goes_back_is_treated_as_standing(void **state) {
    (void)state;
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__wheel_advance(&wheel, 5000, UINT32_MAX);
    uvhttp__wheel_advance(&wheel, 4000, UINT32_MAX);
    assert_int_equal(wheel.now, 5000);
    uvhttp__timer_set_tick(&wheel, &timer, 5001);
    uvhttp__wheel_advance(&wheel, 4500, UINT32_MAX);
    assert_int_equal(fired_count, 0);
    uvhttp__wheel_advance(&wheel, 5001, UINT32_MAX);
    assert_int_equal(fired_count, 1);
}

static void test_never_is_never(void **state) {
    (void)state;
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__timer_set_tick(&wheel, &timer, UINT64_MAX);
    assert_true(uvhttp__timer_deadline(&timer) == UVHTTP__TIMER_NEVER);
    uvhttp__wheel_advance(&wheel, UINT64_C(1000) * 60 * 60 * 24 * 365 * 10, UINT32_MAX);
    assert_int_equal(fired_count, 0);
    uvhttp__timer_stop(&wheel, &timer);
}

static void test_a_time_from_now_is_rounded_up_to_a_tick_and_no_further(void **state) {
    (void)state;
    static const struct {
        uint64_t now_ns, delay_ms, tick;
    } cases[] = {
        {300000000, 0, 1200},   {300000000, 200, 2000},   {300000001, 200, 2001},
        {300249999, 200, 2001}, {300250000, 200, 2001},   {300250001, 200, 2002},
        {300999999, 1, 1208},   {299999999, 5000, 21200}, {300000000, UINT64_MAX, UVHTTP__TIMER_NEVER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uvhttp__timer_t timer;
        uvhttp__timer_init(&timer, record_kind);
        uvhttp__timer_set_after(&wheel, &timer, cases[i].now_ns, cases[i].delay_ms);
        assert_true(uvhttp__timer_deadline(&timer) == cases[i].tick);
        uvhttp__timer_stop(&wheel, &timer);
    }
}

static void test_milliseconds_are_whole_ticks(void **state) {
    (void)state;
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, record_kind);
    uvhttp__timer_set(&wheel, &timer, 300);
    assert_int_equal(uvhttp__timer_deadline(&timer), 1200);
    uvhttp__timer_set(&wheel, &timer, UINT64_MAX);
    assert_true(uvhttp__timer_deadline(&timer) == UVHTTP__TIMER_NEVER);
    uvhttp__timer_stop(&wheel, &timer);
}

/* --- callbacks that change the wheel --- */

static uvhttp__timer_t *victim;
static int again_left;

static void set_again(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    if (again_left-- > 0) uvhttp__timer_set_tick(w, timer, 0);
}

static void test_the_same_callback_and_argument_are_one_kind(void **state) {
    (void)state;
    int other = 0;
    assert_int_equal(uvhttp__wheel_kind(&wheel, record, &fired_count), record_kind);
    assert_int_not_equal(uvhttp__wheel_kind(&wheel, record, &other), record_kind);
    assert_int_not_equal(uvhttp__wheel_kind(&wheel, set_again, &fired_count), record_kind);
    for (int i = 0; i < 2 * UVHTTP__TIMER_KINDS_MAX; i++) /* they do not use it up */
        assert_int_equal(uvhttp__wheel_kind(&wheel, set_again, &fired_count), 2);
}

static void test_callback_that_sets_itself_to_the_past_runs_once_per_advance(void **state) {
    (void)state;
    int runs = 0;
    again_left = 3;
    other_kind = uvhttp__wheel_kind(&wheel, set_again, &runs);
    uvhttp__timer_t timer;
    uvhttp__timer_init(&timer, other_kind);
    uvhttp__timer_set_tick(&wheel, &timer, 1100);
    uvhttp__wheel_advance(&wheel, 2000, UINT32_MAX);
    assert_int_equal(runs, 1);
    for (int i = 2; i <= 4; i++) {
        uvhttp__wheel_advance(&wheel, 2000, UINT32_MAX);
        assert_int_equal(runs, i);
    }
    uvhttp__wheel_advance(&wheel, 3000, UINT32_MAX);
    assert_int_equal(runs, 4);
}

static void stop_victim(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    if (victim != timer) uvhttp__timer_stop(w, victim);
}

/* Both are due in one tick. */
static void set_with_victim(uvhttp__timer_t *first, uvhttp__timer_t *second) {
    victim = second;
    uvhttp__timer_init(first, other_kind);
    uvhttp__timer_init(second, other_kind);
    uvhttp__timer_set_tick(&wheel, first, 1100);
    uvhttp__timer_set_tick(&wheel, second, 1100);
}

static void test_callback_may_stop_another_that_is_due_in_the_same_tick(void **state) {
    (void)state;
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, stop_victim, &runs);
    uvhttp__timer_t first, second;
    set_with_victim(&first, &second);
    uvhttp__wheel_advance(&wheel, 1100, UINT32_MAX);
    assert_int_equal(runs, 1);
    assert_int_equal(wheel.count, 0);
}

static void free_both(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    uvhttp__timer_stop(w, victim);
    free(victim);
    free(timer);
}

static void test_callback_may_free_itself_and_others(void **state) {
    (void)state;
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, free_both, &runs);
    uvhttp__timer_t *first = malloc(sizeof *first);
    victim = malloc(sizeof *victim);
    uvhttp__timer_init(first, other_kind);
    uvhttp__timer_init(victim, other_kind);
    uvhttp__timer_set_tick(&wheel, first, 1100);
    uvhttp__timer_set_tick(&wheel, victim, 1100);
    uvhttp__wheel_advance(&wheel, 1200, UINT32_MAX);
    assert_int_equal(runs, 1);
    uint64_t at;
    assert_false(uvhttp__wheel_next(&wheel, &at));
}

static void put_off_victim(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    if (timer != victim) uvhttp__timer_set_tick(w, victim, 5000);
}

static void test_callback_may_put_off_another_that_is_due(void **state) {
    (void)state;
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, put_off_victim, &runs);
    uvhttp__timer_t first, second;
    set_with_victim(&first, &second);
    uvhttp__wheel_advance(&wheel, 4999, UINT32_MAX);
    assert_int_equal(runs, 1);
    uvhttp__wheel_advance(&wheel, 5000, UINT32_MAX);
    assert_int_equal(runs, 2);
}

static void hurry_victim(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    if (timer != victim && uvhttp__timer_active(victim)) uvhttp__timer_set_tick(w, victim, 1);
}

static void test_timer_that_is_due_is_not_delayed_by_an_earlier_deadline(void **state) {
    (void)state;
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, hurry_victim, &runs);
    uvhttp__timer_t first, second;
    set_with_victim(&first, &second);
    uvhttp__wheel_advance(&wheel, 1100, UINT32_MAX);
    assert_int_equal(runs, 2);
}

/* --- no more than so many at once --- */

static void test_no_more_than_so_many_expire_in_an_advance_and_none_out_of_order(void **state) {
    (void)state;
    uvhttp__timer_t timers[7];
    static const uint64_t deadlines[] = {1010, 1010, 1010, 1012, 1100, 1100, 1200};
    static const size_t expired_by[] = {2, 4, 6};
    for (int i = 0; i < 7; i++) {
        uvhttp__timer_init(&timers[i], record_kind);
        uvhttp__timer_set_tick(&wheel, &timers[i], deadlines[i]);
    }
    uint64_t at = 0;
    for (int i = 0; i < 3; i++) {
        uvhttp__wheel_advance(&wheel, 1150, 2);
        assert_int_equal(fired_count, expired_by[i]);
        assert_true(uvhttp__wheel_next(&wheel, &at));
        assert_int_equal(at <= 1150, i < 2);
    }
    uvhttp__wheel_advance(&wheel, 1150, 2);
    assert_int_equal(fired_count, 6);
    assert_int_equal(wheel.now, 1150);
    for (int i = 0; i < 6; i++) assert_ptr_equal(fired[i], &timers[i]);
    uvhttp__timer_stop(&wheel, &timers[6]);
}

static void test_what_is_left_over_can_be_put_off_and_stopped(void **state) {
    (void)state;
    uvhttp__timer_t timers[4];
    for (int i = 0; i < 4; i++) {
        uvhttp__timer_init(&timers[i], record_kind);
        uvhttp__timer_set_tick(&wheel, &timers[i], 1010);
    }
    uvhttp__wheel_advance(&wheel, 1010, 1);
    uvhttp__timer_set_tick(&wheel, &timers[1], 1500);
    uvhttp__timer_stop(&wheel, &timers[2]);
    uvhttp__wheel_advance(&wheel, 1010, 2);
    assert_int_equal(fired_count, 2);
    assert_ptr_equal(fired[1], &timers[3]);
    uvhttp__wheel_advance(&wheel, 1500, 1);
    assert_int_equal(fired_count, 3);
    assert_ptr_equal(fired[2], &timers[1]);
    assert_int_equal(wheel.count, 0);
}

static uvhttp__timer_t late[2];

static void set_to_the_past(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    (void)timer;
    if (++*(int *)user == 1) uvhttp__timer_set_tick(w, &late[0], 1);
}

static void test_what_is_left_over_goes_before_what_was_set_to_the_past_since(void **state) {
    (void)state;
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, set_to_the_past, &runs);
    uvhttp__timer_t first;
    uvhttp__timer_init(&first, other_kind);
    for (int i = 0; i < 2; i++) uvhttp__timer_init(&late[i], record_kind);
    uvhttp__timer_set_tick(&wheel, &first, 1010);
    uvhttp__timer_set_tick(&wheel, &late[1], 1010);
    for (int i = 0; i < 3; i++) uvhttp__wheel_advance(&wheel, 1010, 1);
    assert_int_equal(runs, 1);
    assert_int_equal(fired_count, 2);
    assert_ptr_equal(fired[0], &late[1]);
    assert_ptr_equal(fired[1], &late[0]);
}

static void set_to_the_past_again(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    ++*(int *)user;
    uvhttp__timer_set_tick(w, timer, 1);
}

/* As a coroutine does that yields. */
static void test_those_that_are_set_to_the_past_again_and_again_do_not_hold_up_the_others(void **state) {
    (void)state;
    enum { MAX = 2, COUNT = 3 };
    int runs = 0;
    other_kind = uvhttp__wheel_kind(&wheel, set_to_the_past_again, &runs);
    uvhttp__timer_t again[COUNT], near, far;
    for (int i = 0; i < COUNT; i++) {
        uvhttp__timer_init(&again[i], other_kind);
        uvhttp__timer_set_tick(&wheel, &again[i], 1);
    }
    uvhttp__timer_init(&near, record_kind);
    uvhttp__timer_set_tick(&wheel, &near, 1010);
    uvhttp__timer_init(&far, record_kind);
    uvhttp__timer_set_tick(&wheel, &far, 1200);
    /* Behind those that are due when its time comes, whose number is COUNT. */
    for (int i = 0; i < 3; i++) uvhttp__wheel_advance(&wheel, 1010, MAX);
    assert_int_equal(fired_count, 1);
    assert_ptr_equal(fired[0], &near);
    assert_int_equal(runs, 3 * MAX - 1);
    for (int i = 0; i < 3; i++) uvhttp__wheel_advance(&wheel, 1300, MAX);
    assert_int_equal(fired_count, 2);
    assert_ptr_equal(fired[1], &far);
    assert_int_equal(runs, 6 * MAX - 2);
}

/* --- against a model: an array of deadlines --- */

enum { MODEL = 300 };
static struct {
    uvhttp__timer_t timer;
    uint64_t deadline; /* UINT64_MAX: not set */
} model[MODEL];
static test_random_t model_random;
static uint64_t model_last, model_target, model_expired;

static uint64_t random_delay(void) {
    uint64_t range = UINT64_C(1) << test_random_below(&model_random, 34);
    return test_random_below(&model_random, range);
}

static void model_set(size_t i, uint64_t deadline) {
    uvhttp__timer_set_tick(&wheel, &model[i].timer, deadline);
    model[i].deadline = deadline;
}

static void model_expire(uvhttp__wheel_t *w, uvhttp__timer_t *timer, void *user) {
    (void)user;
    size_t i = (size_t)((char *)timer - (char *)model) / sizeof *model;
    uint64_t deadline = model[i].deadline;
    assert_true(deadline <= model_target);
    /* What was due before the advance comes first, in any order; then by deadline. */
    if (deadline > model_last) {
        for (size_t j = 0; j < MODEL; j++)
            if (j != i && model[j].deadline != UINT64_MAX && model[j].deadline > model_last)
                assert_true(model[j].deadline >= deadline || model[j].deadline <= w->now);
        assert_int_equal(w->now, deadline);
    }
    model[i].deadline = UINT64_MAX;
    model_expired++;
    switch (test_random_below(&model_random, 6)) {
        case 0: model_set(i, w->now + 1 + random_delay()); break;
        case 1: model_set(test_random_below(&model_random, MODEL), w->now + 1 + random_delay()); break;
        case 2: {
            size_t other = test_random_below(&model_random, MODEL);
            uvhttp__timer_stop(w, &model[other].timer);
            model[other].deadline = UINT64_MAX;
            break;
        }
        default: break;
    }
}

static void model_check(void) {
    size_t count = 0;
    uint64_t first = UINT64_MAX, at;
    for (size_t i = 0; i < MODEL; i++) {
        bool set = model[i].deadline != UINT64_MAX;
        assert_int_equal(uvhttp__timer_active(&model[i].timer), set);
        if (!set) continue;
        count++;
        assert_true(uvhttp__timer_deadline(&model[i].timer) == model[i].deadline);
        if (model[i].deadline < first) first = model[i].deadline;
    }
    assert_int_equal(wheel.count, count);
    assert_int_equal(uvhttp__wheel_next(&wheel, &at), count > 0);
    if (count) assert_true(at >= wheel.now && (at <= first || at == wheel.now));
    for (unsigned list = 0; list < UVHTTP__WHEEL_FAR; list++) {
        bool bit = wheel.occupied[list / 64] >> list % 64 & 1;
        assert_int_equal(bit, !uvhttp__list_empty(&wheel.lists[list]));
    }
    assert_true(uvhttp__list_empty(&wheel.lists[UVHTTP__WHEEL_FIRING]));
}

static void model_run(uint64_t seed, uint64_t now, int steps) {
    model_random.state = seed;
    uvhttp__wheel_init(&wheel, now);
    uvhttp__timer_kind_t model_kind = uvhttp__wheel_kind(&wheel, model_expire, NULL);
    for (size_t i = 0; i < MODEL; i++) {
        uvhttp__timer_init(&model[i].timer, model_kind);
        model[i].deadline = UINT64_MAX;
    }
    for (int step = 0; step < steps; step++) {
        for (uint64_t n = test_random_below(&model_random, 20); n > 0; n--) {
            size_t i = test_random_below(&model_random, MODEL);
            uint64_t kind = test_random_below(&model_random, 10);
            if (kind == 0) {
                uvhttp__timer_stop(&wheel, &model[i].timer);
                model[i].deadline = UINT64_MAX;
            } else if (kind == 1) {
                uint64_t back = test_random_below(&model_random, 100);
                model_set(i, now > back ? now - back : 0);
            } else {
                model_set(i, now + random_delay());
            }
        }
        uint64_t at;
        if (test_random_below(&model_random, 2) && uvhttp__wheel_next(&wheel, &at) && at >= now)
            now = at;
        else
            now += random_delay() >> test_random_below(&model_random, 20);
        model_target = now;
        uint32_t max =
            test_random_below(&model_random, 2) ? UINT32_MAX : 1 + (uint32_t)test_random_below(&model_random, 40);
        do {
            uint64_t before = model_expired;
            model_last = wheel.now;
            uvhttp__wheel_advance(&wheel, now, max);
            assert_true(model_expired - before <= max);
            assert_int_equal(wheel.now, now);
        } while (uvhttp__wheel_next(&wheel, &at) && at <= now);
        for (size_t i = 0; i < MODEL; i++) assert_true(model[i].deadline > now);
        model_check();
    }
}

static void test_random_use_agrees_with_a_list_of_deadlines(void **state) {
    (void)state;
    model_expired = 0;
    for (uint64_t seed = 1; seed <= 60; seed++)
        model_run(seed, test_random_below(&(test_random_t){seed}, 1u << 31), 300);
    assert_true(model_expired > 10000);
}

static void test_random_use_agrees_near_the_borders_of_the_horizon(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 110; seed++) {
        model_run(seed, (UINT64_C(1) << 30) - 50, 200);
        model_run(seed, (UINT64_C(1) << 36) - 1, 200);
        model_run(seed, 0, 200);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_timer_expires_at_its_deadline_and_not_before, setup),
        cmocka_unit_test_setup(test_next_leads_to_the_deadline_in_few_steps, setup),
        cmocka_unit_test_setup(test_past_deadline_is_due_at_once_but_not_inside_set, setup),
        cmocka_unit_test_setup(test_putting_off_keeps_the_place_and_expires_later, setup),
        cmocka_unit_test_setup(test_earlier_deadline_moves_at_once, setup),
        cmocka_unit_test_setup(test_stopped_timer_does_not_expire, setup),
        cmocka_unit_test_setup(test_one_advance_expires_in_order_of_deadlines, setup),
        cmocka_unit_test_setup(test_clock_that_goes_back_is_treated_as_standing, setup),
        cmocka_unit_test_setup(test_never_is_never, setup),
        cmocka_unit_test_setup(test_a_time_from_now_is_rounded_up_to_a_tick_and_no_further, setup),
        cmocka_unit_test_setup(test_milliseconds_are_whole_ticks, setup),
        cmocka_unit_test_setup(test_the_same_callback_and_argument_are_one_kind, setup),
        cmocka_unit_test_setup(test_callback_that_sets_itself_to_the_past_runs_once_per_advance, setup),
        cmocka_unit_test_setup(test_callback_may_stop_another_that_is_due_in_the_same_tick, setup),
        cmocka_unit_test_setup(test_callback_may_free_itself_and_others, setup),
        cmocka_unit_test_setup(test_callback_may_put_off_another_that_is_due, setup),
        cmocka_unit_test_setup(test_timer_that_is_due_is_not_delayed_by_an_earlier_deadline, setup),
        cmocka_unit_test_setup(test_no_more_than_so_many_expire_in_an_advance_and_none_out_of_order, setup),
        cmocka_unit_test_setup(test_what_is_left_over_can_be_put_off_and_stopped, setup),
        cmocka_unit_test_setup(test_what_is_left_over_goes_before_what_was_set_to_the_past_since, setup),
        cmocka_unit_test_setup(test_those_that_are_set_to_the_past_again_and_again_do_not_hold_up_the_others, setup),
        cmocka_unit_test(test_random_use_agrees_with_a_list_of_deadlines),
        cmocka_unit_test(test_random_use_agrees_near_the_borders_of_the_horizon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
