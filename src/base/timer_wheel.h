/* Owns: the timers of one loop: a hierarchical wheel of ticks of 1/4 ms. One thread; time is passed in. May include:
 * list.
 *
 * Exact: timers expire in the first advances whose time has reached their deadlines, earlier ones first. Putting a
 * deadline off, which every byte of a connection does, is one store: the timer keeps its place, and when that comes up
 * the wheel moves it to its true deadline without calling anybody. */
#ifndef UVHTTP_SRC_BASE_TIMER_WHEEL_H
#define UVHTTP_SRC_BASE_TIMER_WHEEL_H

#include <assert.h>
#include <uvhttp/types.h>

#include "base/list.h"

#define UVHTTP__WHEEL_LEVELS 5
#define UVHTTP__WHEEL_SLOTS 64
/* A deadline is rounded up to a tick, so that nothing is early, and what is due together still wakes the loop once. */
#define UVHTTP__TICKS_PER_MS 4u
#define UVHTTP__TICK_NS (1000000u / UVHTTP__TICKS_PER_MS)

/* Lists behind the slots of the levels: beyond the horizon (2^30 ticks), due at the next advance, being expired now. */
enum {
    UVHTTP__WHEEL_FAR = UVHTTP__WHEEL_LEVELS * UVHTTP__WHEEL_SLOTS,
    UVHTTP__WHEEL_DUE,
    UVHTTP__WHEEL_FIRING,
    UVHTTP__WHEEL_LISTS
};

/* Which callback of its wheel a timer calls: a number that the wheel gives out, one byte instead of two pointers. */
typedef uint8_t uvhttp__timer_kind_t;
#define UVHTTP__TIMER_KINDS_MAX 16

/* Deadlines at or above this tick are this: in half a million years, never. */
#define UVHTTP__TIMER_NEVER ((UINT64_C(1) << 56) - UVHTTP__TICKS_PER_MS)
#define UVHTTP__TIMER_NEVER_MS (UVHTTP__TIMER_NEVER / UVHTTP__TICKS_PER_MS)

/* Embedded in what it times. */
typedef struct uvhttp__timer {
    uvhttp__list_t link;
    uint64_t deadline_and_kind; /* tick << 8 | kind: compares like the deadline, and one store sets it */
} uvhttp__timer_t;

static_assert(sizeof(uvhttp__timer_t) == 2 * sizeof(void *) + 8, "every connection holds one");

typedef struct uvhttp__wheel uvhttp__wheel_t;

/* A timer has expired: it is stopped, and may be set or freed here, as may any other timer. */
typedef void (*uvhttp__timer_cb)(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user);

struct uvhttp__wheel {
    uint64_t now;                            /* tick: deadlines up to here have expired or are in the due list */
    uint64_t occupied[UVHTTP__WHEEL_LEVELS]; /* bit s of level l: slot l * 64 + s is not empty */
    uvhttp__list_t lists[UVHTTP__WHEEL_LISTS];
    struct {
        uvhttp__timer_cb cb;
        void *user;
    } on_expire[UVHTTP__TIMER_KINDS_MAX];
    size_t count; /* timers that are set */
    uint8_t kind_count;
    bool advancing;
};

void uvhttp__wheel_init(uvhttp__wheel_t *wheel, uint64_t now);

/* The kind of the timers that call cb(wheel, timer, user): the same for the same arguments, else a new one, of which a
 * wheel has UVHTTP__TIMER_KINDS_MAX. */
uvhttp__timer_kind_t uvhttp__wheel_kind(uvhttp__wheel_t *wheel, uvhttp__timer_cb cb, void *user);

/* Expires what is due at this tick, at most max (> 0) timers; if more are due, uvhttp__wheel_next returns 0 or a past
 * time. If time went backwards, it counts as unchanged. Not inside a callback. */
void uvhttp__wheel_advance(uvhttp__wheel_t *wheel, uint64_t now, uint32_t max);

/* The tick to advance to next: not later than the earliest deadline, perhaps earlier (the wheel has sorting to do).
 * Returns false if no timer is set. Constant time. */
bool uvhttp__wheel_next(const uvhttp__wheel_t *wheel, uint64_t *deadline);

/* A stopped timer. */
static inline void uvhttp__timer_init(uvhttp__timer_t *timer, uvhttp__timer_kind_t kind) {
    assert(kind < UVHTTP__TIMER_KINDS_MAX);
    uvhttp__list_init(&timer->link);
    timer->deadline_and_kind = (uint64_t)kind;
}

/* Whether it is set. */
static inline bool uvhttp__timer_active(const uvhttp__timer_t *timer) {
    return uvhttp__list_linked(&timer->link);
}

/* The tick it was last set to. */
static inline uint64_t uvhttp__timer_deadline(const uvhttp__timer_t *timer) {
    return timer->deadline_and_kind >> 8;
}

void uvhttp__timer_link(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, uint64_t deadline_and_kind);

/* (Re)starts a timer. A tick that has passed expires in the next advance, never inside this call. */
static inline void uvhttp__timer_set_tick(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, uint64_t deadline) {
    if (deadline > UVHTTP__TIMER_NEVER) deadline = UVHTTP__TIMER_NEVER;
    uint64_t word = deadline << 8 | (timer->deadline_and_kind & 0xff);
    if (uvhttp__timer_active(timer) && word >= timer->deadline_and_kind)
        timer->deadline_and_kind = word;
    else
        uvhttp__timer_link(wheel, timer, word);
}

/* The same for a moment of the loop's clock, ms. */
static inline void uvhttp__timer_set(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, uint64_t deadline_ms) {
    if (deadline_ms > UVHTTP__TIMER_NEVER_MS) deadline_ms = UVHTTP__TIMER_NEVER_MS;
    uvhttp__timer_set_tick(wheel, timer, deadline_ms * UVHTTP__TICKS_PER_MS);
}

/* The same for delay_ms after now_ns: not earlier, and less than a tick later. */
static inline void uvhttp__timer_set_after(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, uint64_t now_ns,
                                           uint64_t delay_ms) {
    uint64_t now = (now_ns + UVHTTP__TICK_NS - 1) / UVHTTP__TICK_NS;
    if (delay_ms > UVHTTP__TIMER_NEVER_MS) delay_ms = UVHTTP__TIMER_NEVER_MS;
    uvhttp__timer_set_tick(wheel, timer, now + delay_ms * UVHTTP__TICKS_PER_MS);
}

/* Stops a timer; does nothing to a stopped one. */
void uvhttp__timer_stop(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer);

#endif
