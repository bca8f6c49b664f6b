/* Owns: the check that every loop still iterates, for a manager that restarts a service which hangs. The first loop
 * asks the others in each period. May include: io, base, obs. */
#include "conn/tcp_server_internal.h"

static void on_alive_post(uvhttp__post_t *post) {
    uvhttp__tcp_loop_t *loop = UVHTTP__CONTAINER_OF(post, uvhttp__tcp_loop_t, alive_post);
    atomic_store(&loop->alive, true);
}

/* A loop that drains may end at any time, and its server is about to end: from then on nobody asks. */
static void on_timer(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    uvhttp__tcp_server_t *tcp_server = user;
    const uvhttp__tcp_loop_t *first = &tcp_server->loops[0];
    bool all = true;
    if (first->draining) return;
    for (uint32_t i = 1; i < tcp_server->loop_count; i++) all &= atomic_load(&tcp_server->loops[i].alive);
    if (all) tcp_server->liveness.on_alive(tcp_server->liveness.arg);
    for (uint32_t i = 1; i < tcp_server->loop_count; i++) {
        uvhttp__tcp_loop_t *loop = &tcp_server->loops[i];
        if (atomic_exchange(&loop->alive, false)) uvhttp__loop_post(loop->io, &loop->alive_post);
    }
    uvhttp__timer_set(wheel, timer, first->io->now_ms + tcp_server->liveness.period_ms);
}

void uvhttp__liveness_start(uvhttp__tcp_server_t *tcp_server) {
    uvhttp__liveness_t *liveness = &tcp_server->liveness;
    uvhttp__loop_t *io = tcp_server->loops[0].io;
    if (liveness->period_ms == 0) return;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        tcp_server->loops[i].alive_post.run = on_alive_post;
        atomic_store(&tcp_server->loops[i].alive, true);
    }
    uvhttp__timer_init(&liveness->timer, uvhttp__wheel_kind(&io->wheel, on_timer, tcp_server));
    uvhttp__timer_set(&io->wheel, &liveness->timer, io->now_ms + liveness->period_ms);
}
