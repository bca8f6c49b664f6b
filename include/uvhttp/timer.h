/* Owns: timers of a loop thread, in memory of the caller: for who waits between a request and its deferred answer. */
#ifndef UVHTTP_TIMER_H
#define UVHTTP_TIMER_H

#include <uvhttp/error.h>

UVHTTP_BEGIN_DECLS

/** Zero before its first start. It must not be moved, copied or freed while it is set. */
typedef struct uvhttp_timer {
    union {
        uint64_t align;
        unsigned char bytes[56];
    } internal; /**< the library's */
} uvhttp_timer_t;

/** Calls on_timer(timer, user) once on this loop's thread, when at least delay_ms have passed since the loop's turn
 * began, at the next quarter of a millisecond or when the loop is free; never inside this call. A timer that is set
 * starts anew; in on_timer it is stopped, and may be started or freed. Allocates nothing. On the thread of a loop: in
 * handlers and all that a server calls. A timer must be stopped before the loop ends, as deferred handles are answered
 * before: on_abort is the place for a request that is given up. Returns 0, UVHTTP_E_INVALID (on_timer NULL) or
 * UVHTTP_E_STATE (no loop runs on this thread). */
UVHTTP_EXPORT int uvhttp_timer_start(uvhttp_timer_t *timer, uint64_t delay_ms,
                                     void (*on_timer)(uvhttp_timer_t *timer, void *user), void *user);
/** Does nothing to a timer that is not set, or zero. The thread that has started it. */
UVHTTP_EXPORT void uvhttp_timer_stop(uvhttp_timer_t *timer);

UVHTTP_END_DECLS

#endif
