/* Owns: what the engines share in a libuv loop of the application: the timer of the wheel. May include: io. */
#include "io/uv_embed.h"

void uvhttp__uv_embed_arm_timer(uvhttp__loop_t *loop, uv_timer_t *timer, uv_timer_cb on_timer) {
    uint64_t next = 0;
    uv_update_time(
        loop->uv); /* the embedding loop measures its wait from here, and the iteration may have lasted long */
    if (!uvhttp__wheel_next(&loop->wheel, &next) || next >= loop->timer_tick) return;
    loop->timer_tick = next;
    uint64_t next_ms = (next + UVHTTP__TICKS_PER_MS - 1) / UVHTTP__TICKS_PER_MS;
    uint64_t now_ms = uv_now(loop->uv); /* of the same clock */
    uv_timer_start(timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}
