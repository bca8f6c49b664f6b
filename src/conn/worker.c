/* Owns: what the connections of a worker leave behind when they are gone: places among max_connections, and, once the
 * server stops, the end of the worker's loop. May include: io, base, obs. */
#include <assert.h>
#include <uvhttp/log.h>

#include "conn/host_internal.h"

/* --- places --- */

bool uvhttp__host_has_place(uvhttp__host_t *host) {
    return atomic_load(&host->connections) < host->connections_limit;
}

bool uvhttp__host_take_place(uvhttp__host_t *host) {
    unsigned now = atomic_load_explicit(&host->connections, memory_order_relaxed);
    while (now < host->connections_limit)
        if (atomic_compare_exchange_weak_explicit(&host->connections, &now, now + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

unsigned uvhttp__host_leave_place(uvhttp__host_t *host) {
    unsigned left = atomic_fetch_sub(&host->connections, 1) - 1;
    if (atomic_load(&host->workers_paused) == 0) return left;
    for (uint32_t i = 0; i < host->worker_count; i++) {
        uvhttp__worker_t *other = &host->workers[i];
        if (atomic_load(&other->paused) && !atomic_exchange(&other->room_posted, true))
            uvhttp__loop_post(other->loop, &other->room_post);
    }
    return left;
}

/* --- the end --- */

static void finished(uvhttp__worker_t *worker) {
    uvhttp__host_t *host = worker->host;
    host->finished = true;
    if (host->on_stopped) host->on_stopped(host->on_stopped_arg); /* may free the server */
}

/* Nothing is left to wait for: the loop may end. */
void uvhttp__worker_check_done(uvhttp__worker_t *worker) {
    const uvhttp__conn_ops_t *ops = worker->host->options.ops;
    if (!worker->draining || worker->done || worker->listeners_open > 0 || !uvhttp__list_empty(&worker->conns)) return;
    if (worker->started && ops->is_busy && ops->is_busy(worker)) return;
    worker->done = true;
    UVHTTP_LOG_INFO("%s: loop %u has drained", worker->host->options.name, worker->index);
    uvhttp__timer_stop(&worker->loop->wheel, &worker->drain_timer);
    if (worker->host->uv)
        finished(worker);
    else
        uvhttp__loop_stop(worker->loop);
}

void uvhttp__worker_conn_closed(uvhttp__conn_t *conn) {
    uvhttp__worker_t *worker = conn->worker;
    assert(!uvhttp__timer_active(&conn->timer));
    uvhttp__conn_unlink(conn);
    uvhttp__slab_free(&worker->slab, conn);
    uvhttp__counters_add(&worker->counters, connections_closed, 1);
    unsigned left = uvhttp__host_leave_place(worker->host);
    if (!worker->draining) return;
    /* Some lines, however many there were. */
    if ((left & (left - 1)) == 0)
        UVHTTP_LOG_INFO("%s: drain: %u connection%s left", worker->host->options.name, left, left == 1 ? "" : "s");
    uvhttp__worker_check_done(worker);
}
