/* Owns: one-shot timers on a loop's thread, in memory of the caller. A handler can use one to delay a deferred
 * response. */
#ifndef UVHTTP_TIMER_H
#define UVHTTP_TIMER_H

#include <uvhttp/error.h>

UVHTTP_BEGIN_DECLS

/** A timer. Zero it before its first start. Do not move, copy or free it while it is active. */
typedef struct uvhttp_timer {
    union {
        uint64_t align;
        unsigned char bytes[56];
    } internal; /**< owned by the library */
} uvhttp_timer_t;

/** Calls on_timer(timer, user) once on this loop's thread, never inside this call. At least delay_ms pass from the
 * start of the loop iteration. The call happens at the next quarter of a millisecond, or when the loop is free.
 * Starting an active timer restarts it. In on_timer the timer is stopped, and may be started or freed. Allocates
 * nothing.
 *
 * Call it on the thread of a loop: in handlers and in any callback of a server. Stop timers before the loop ends, and
 * in uvhttp_deferred_on_abort for a request that is aborted. Returns 0, UVHTTP_E_INVALID (on_timer is NULL) or
 * UVHTTP_E_STATE (no loop runs on this thread). */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD int uvhttp_timer_start(uvhttp_timer_t *timer, uint64_t delay_ms,
                                                        void (*on_timer)(uvhttp_timer_t *timer, void *user),
                                                        void *user);
/** Stops a timer. Does nothing if it is not active, or zero. Call it on the thread that started it. */
UVHTTP_EXPORT UVHTTP_LOOP_THREAD void uvhttp_timer_stop(uvhttp_timer_t *timer);

UVHTTP_END_DECLS

#endif
