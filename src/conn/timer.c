/* Owns: the public timers, which lie in the application's memory and in the wheel of their loop. */
#include <string.h>
#include <uvhttp/timer.h>

#include "conn/tcp_server_internal.h"

typedef struct timer {
    uvhttp__timer_t timer;
    uvhttp__loop_t *loop; /* NULL: not set */
    void (*on_timer)(uvhttp_timer_t *timer, void *user);
    void *user;
} __attribute__((may_alias)) waiter_t;

static_assert(sizeof(waiter_t) <= sizeof(uvhttp_timer_t), "it fits into the public one");

static waiter_t *inside(uvhttp_timer_t *timer) {
    return (void *)timer->internal.bytes;
}

static void on_expire(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel, (void)user;
    waiter_t *it = UVHTTP__CONTAINER_OF(timer, waiter_t, timer);
    it->loop = NULL;
    it->on_timer((uvhttp_timer_t *)(void *)it, it->user);
}

int uvhttp_timer_start(uvhttp_timer_t *timer, uint64_t delay_ms, void (*on_timer)(uvhttp_timer_t *timer, void *user),
                       void *user) {
    if (!timer || !on_timer) return UVHTTP_E_INVALID;
    uvhttp__loop_t *loop = uvhttp__tcp_server_current_loop();
    if (!loop) return UVHTTP_E_STATE;
    uvhttp_timer_stop(timer);
    uvhttp__loop_look_at_clock(loop);
    waiter_t *it = inside(timer);
    uvhttp__timer_init(&it->timer, uvhttp__wheel_kind(&loop->wheel, on_expire, NULL));
    it->loop = loop;
    it->on_timer = on_timer;
    it->user = user;
    uvhttp__timer_set_after(&loop->wheel, &it->timer, loop->now_ns, delay_ms);
    return UVHTTP_OK;
}

void uvhttp_timer_stop(uvhttp_timer_t *timer) {
    if (!timer) return;
    waiter_t *it = inside(timer);
    if (!it->loop) return;
    uvhttp__timer_stop(&it->loop->wheel, &it->timer);
    it->loop = NULL;
}
