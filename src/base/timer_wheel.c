/* Owns: where a timer stands in the wheel, and when it comes up. May include: list.
 *
 * The level of a timer is where its deadline and the wheel's time first differ, seen as numbers of base 64: level 0 if
 * only the last digit does. So all timers of a level come up before those of the level above, the slots of a level that
 * are behind the present digit are empty, and the lowest bit of the lowest level is what comes next. When the time
 * reaches a slot of a higher level, its timers stand at the begin of that slot: they are due, or go to a lower level.
 */
#include "base/timer_wheel.h"
#include "base/hot_path.h"

#define BITS 6 /* of a digit */
#define HORIZON_BITS (BITS * UVHTTP__WHEEL_LEVELS)

static_assert(1 << BITS == UVHTTP__WHEEL_SLOTS, "a slot is a digit");
static_assert(sizeof(((uvhttp__wheel_t *)0)->occupied[0]) * 8 == UVHTTP__WHEEL_SLOTS, "a bit per slot");

void uvhttp__wheel_init(uvhttp__wheel_t *wheel, uint64_t now) {
    assert(now < UVHTTP__TIMER_NEVER);
    *wheel = (uvhttp__wheel_t){.now = now};
    for (unsigned i = 0; i < UVHTTP__WHEEL_LISTS; i++) uvhttp__list_init(&wheel->lists[i]);
}

uvhttp__timer_kind_t uvhttp__wheel_kind(uvhttp__wheel_t *wheel, uvhttp__timer_cb cb, void *user) {
    assert(cb);
    uint8_t kind = 0;
    while (kind < wheel->kind_count && (wheel->on_expire[kind].cb != cb || wheel->on_expire[kind].user != user)) kind++;
    if (kind < wheel->kind_count) return kind;
    assert(kind < UVHTTP__TIMER_KINDS_MAX);
    wheel->on_expire[kind].cb = cb;
    wheel->on_expire[kind].user = user;
    wheel->kind_count++;
    return kind;
}

static void place(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer) {
    uint64_t deadline = uvhttp__timer_deadline(timer);
    unsigned list = UVHTTP__WHEEL_DUE;
    if (deadline > wheel->now) {
        unsigned level = (63 - (unsigned)__builtin_clzll(deadline ^ wheel->now)) / BITS;
        list = UVHTTP__WHEEL_FAR;
        if (level < UVHTTP__WHEEL_LEVELS) {
            unsigned slot = (unsigned)(deadline >> (BITS * level)) % UVHTTP__WHEEL_SLOTS;
            wheel->occupied[level] |= UINT64_C(1) << slot;
            list = level * UVHTTP__WHEEL_SLOTS + slot;
        }
    }
    uvhttp__list_push_back(&wheel->lists[list], &timer->link);
}

static void unlink_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer) {
    uvhttp__list_t *next = timer->link.next;
    uvhttp__list_remove(&timer->link);
    if (uvhttp__list_linked(next)) return;
    /* The list is empty, so `next` is its head. */
    size_t list = (size_t)(next - wheel->lists);
    assert(list < UVHTTP__WHEEL_LISTS);
    if (list < UVHTTP__WHEEL_FAR)
        wheel->occupied[list / UVHTTP__WHEEL_SLOTS] &= ~(UINT64_C(1) << list % UVHTTP__WHEEL_SLOTS);
}

void uvhttp__timer_link(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, uint64_t deadline_and_kind) {
    if (!uvhttp__timer_active(timer)) {
        wheel->count++;
    } else if (uvhttp__timer_deadline(timer) > wheel->now) {
        unlink_timer(wheel, timer);
    } else { /* It is due already and stands where it expires first. */
        timer->deadline_and_kind = deadline_and_kind;
        return;
    }
    timer->deadline_and_kind = deadline_and_kind;
    place(wheel, timer);
}

void uvhttp__timer_stop(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer) {
    if (!uvhttp__timer_active(timer)) return;
    unlink_timer(wheel, timer);
    assert(wheel->count > 0);
    wheel->count--;
}

/* The first list that comes up after now, and when. Returns UVHTTP__WHEEL_LISTS if there is none. */
UVHTTP__HOT static unsigned next_list(const uvhttp__wheel_t *wheel, uint64_t *at) {
    for (unsigned level = 0; level < UVHTTP__WHEEL_LEVELS; level++) {
        if (!wheel->occupied[level]) continue;
        unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[level]);
        uint64_t iteration = wheel->now >> (BITS * (level + 1)) << (BITS * (level + 1));
        *at = iteration + ((uint64_t)slot << (BITS * level));
        assert(*at > wheel->now);
        return level * UVHTTP__WHEEL_SLOTS + slot;
    }
    if (uvhttp__list_empty(&wheel->lists[UVHTTP__WHEEL_FAR])) return UVHTTP__WHEEL_LISTS;
    *at = ((wheel->now >> HORIZON_BITS) + 1) << HORIZON_BITS;
    return UVHTTP__WHEEL_FAR;
}

UVHTTP__HOT bool uvhttp__wheel_next(const uvhttp__wheel_t *wheel, uint64_t *deadline) {
    if (!uvhttp__list_empty(&wheel->lists[UVHTTP__WHEEL_DUE])) {
        *deadline = wheel->now;
        return true;
    }
    return next_list(wheel, deadline) != UVHTTP__WHEEL_LISTS;
}

/* Takes the timers of a list one by one, for a callback may stop and free any of them. Returns how many more than those
 * that expired might; what is left over when that is none is due before all others. */
static uint32_t fire(uvhttp__wheel_t *wheel, unsigned list, uint32_t max) {
    uvhttp__list_t *firing = &wheel->lists[UVHTTP__WHEEL_FIRING];
    uvhttp__list_splice(firing, &wheel->lists[list]);
    for (uvhttp__list_t *link; max > 0 && (link = uvhttp__list_pop_front(firing));) {
        uvhttp__timer_t *timer = UVHTTP__CONTAINER_OF(link, uvhttp__timer_t, link);
        if (uvhttp__timer_deadline(timer) > wheel->now) {
            place(wheel, timer); /* it was put off, or comes down from a higher level */
            continue;
        }
        wheel->count--;
        max--;
        unsigned kind = timer->deadline_and_kind & 0xff;
        assert(wheel->on_expire[kind].cb);
        wheel->on_expire[kind].cb(wheel, timer, wheel->on_expire[kind].user);
    }
    if (!uvhttp__list_empty(firing)) {
        uvhttp__list_splice(firing, &wheel->lists[UVHTTP__WHEEL_DUE]);
        uvhttp__list_splice(&wheel->lists[UVHTTP__WHEEL_DUE], firing);
    }
    return max;
}

/* No more may expire in this advance. What is due by now has its place behind what is left over, and before what is set
 * to the past from now on, which would else go before it forever. */
static void defer(uvhttp__wheel_t *wheel, unsigned list) {
    uvhttp__list_t *firing = &wheel->lists[UVHTTP__WHEEL_FIRING];
    uvhttp__list_splice(firing, &wheel->lists[list]);
    for (uvhttp__list_t *link; (link = uvhttp__list_pop_front(firing));)
        place(wheel, UVHTTP__CONTAINER_OF(link, uvhttp__timer_t, link));
}

UVHTTP__HOT void uvhttp__wheel_advance(uvhttp__wheel_t *wheel, uint64_t now, uint32_t max) {
    assert(!wheel->advancing && now < UVHTTP__TIMER_NEVER && max > 0);
    wheel->advancing = true;
    /* Only once: what a callback sets to the past waits for the next advance, or this would not end. */
    max = fire(wheel, UVHTTP__WHEEL_DUE, max);
    uint64_t at = 0;
    for (unsigned list; (list = next_list(wheel, &at)) != UVHTTP__WHEEL_LISTS && at <= now;) {
        wheel->now = at;
        if (list < UVHTTP__WHEEL_FAR)
            wheel->occupied[list / UVHTTP__WHEEL_SLOTS] &= ~(UINT64_C(1) << list % UVHTTP__WHEEL_SLOTS);
        if (max > 0)
            max = fire(wheel, list, max);
        else
            defer(wheel, list);
    }
    if (now > wheel->now) wheel->now = now;
    wheel->advancing = false;
}
