/* Owns: what follows the end of a connection: its place among max_connections is released, and the loop ends after the
 * last one once the server stops. Also the CPU time of the loop's thread. May include: io, base, obs. */
#include <assert.h>
#include <time.h>
#include <uvhttp/log.h>

#include "conn/tcp_server_internal.h"
#include "obs/probe.h"

/* --- places --- */

bool uvhttp__tcp_server_has_place(uvhttp__tcp_server_t *tcp_server) {
    return atomic_load(&tcp_server->connections) < tcp_server->connections_limit;
}

bool uvhttp__tcp_server_take_place(uvhttp__tcp_server_t *tcp_server) {
    unsigned now = atomic_load_explicit(&tcp_server->connections, memory_order_relaxed);
    while (now < tcp_server->connections_limit)
        if (atomic_compare_exchange_weak_explicit(&tcp_server->connections, &now, now + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

unsigned uvhttp__tcp_server_leave_place(uvhttp__tcp_server_t *tcp_server) {
    unsigned left = atomic_fetch_sub(&tcp_server->connections, 1) - 1;
    if (atomic_load(&tcp_server->loops_paused) == 0) return left;
    for (uint32_t i = 0; i < tcp_server->loop_count; i++) {
        uvhttp__tcp_loop_t *other = &tcp_server->loops[i];
        if (atomic_load(&other->paused) && !atomic_exchange(&other->place_posted, true))
            uvhttp__loop_post(other->io, &other->place_post);
    }
    return left;
}

/* --- the end --- */

static void finished(uvhttp__tcp_loop_t *loop) {
    uvhttp__tcp_server_t *tcp_server = loop->tcp_server;
    tcp_server->finished = true;
    atomic_store(&tcp_server->state, UVHTTP__STATE_STOPPED);
    if (tcp_server->on_stopped) tcp_server->on_stopped(tcp_server->on_stopped_arg); /* may free the server */
}

/* Nothing is left to wait for: the loop may end. */
void uvhttp__tcp_loop_check_done(uvhttp__tcp_loop_t *loop) {
    const uvhttp__conn_ops_t *ops = loop->tcp_server->options.ops;
    if (!loop->draining || loop->done || loop->listeners_open > 0 || !uvhttp__list_empty(&loop->conns)) return;
    if (loop->started && ops->is_busy && ops->is_busy(loop)) return;
    if (loop->index == 0 && loop->tcp_server->others_run) return; /* a second signal is for all loops */
    loop->done = true;
    pthread_mutex_lock(&loop->tcp_server->stop_lock);
    loop->reachable = false; /* messages from before are run when the loop stops; later ones would not be */
    pthread_mutex_unlock(&loop->tcp_server->stop_lock);
    UVHTTP_LOG_INFO("%s: loop %u has drained", loop->tcp_server->options.name, loop->index);
    uvhttp__timer_stop(&loop->io->wheel, &loop->drain_timer);
    if (loop->tcp_server->uv)
        finished(loop);
    else
        uvhttp__loop_stop(loop->io);
}

void uvhttp__tcp_loop_conn_closed(uvhttp__conn_t *conn) {
    UVHTTP__PROBE(close, conn, conn->close_status);
    uvhttp__tcp_loop_t *loop = conn->loop;
    assert(!uvhttp__timer_active(&conn->timer));
    uvhttp__conn_unlink(conn);
    uvhttp__slab_free(&loop->slab, conn);
    uvhttp__counters_add(&loop->counters, connections_closed, 1);
    unsigned left = uvhttp__tcp_server_leave_place(loop->tcp_server);
    if (!loop->draining) return;
    /* Some lines, however many there were. */
    if ((left & (left - 1)) == 0)
        UVHTTP_LOG_INFO("%s: drain: %u connection%s left", loop->tcp_server->options.name, left, left == 1 ? "" : "s");
    uvhttp__tcp_loop_check_done(loop);
}

/* --- CPU time --- */

static uint64_t clock_value(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) return 0; /* the thread has ended meanwhile */
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

void uvhttp__tcp_loop_enter(uvhttp__tcp_loop_t *loop) {
    clockid_t clock;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0)
        atomic_store_explicit(&loop->cpu_clock, clock, memory_order_relaxed);
}

void uvhttp__tcp_loop_leave(uvhttp__tcp_loop_t *loop) {
    uint64_t ns = clock_value(CLOCK_THREAD_CPUTIME_ID);
    atomic_store_explicit(&loop->cpu_ns, ns, memory_order_relaxed);
    atomic_store_explicit(&loop->cpu_clock, 0, memory_order_release);
}

uint64_t uvhttp__tcp_loop_cpu_ns(const uvhttp__tcp_loop_t *loop) {
    clockid_t clock = atomic_load_explicit(&loop->cpu_clock, memory_order_acquire);
    uint64_t ns = clock ? clock_value(clock) : 0;
    return ns ? ns : atomic_load_explicit(&loop->cpu_ns, memory_order_relaxed);
}
