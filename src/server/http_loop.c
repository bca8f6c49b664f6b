/* Owns: the state of HTTP on each loop: its start, the end of each iteration, drain and stop. */
#include "server/http_loop.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hot.h"
#include "exchange/coroutine.h"
#include "exchange/exchange.h"
#include "exchange/watchdog.h"
#include "exchange/worker.h"
#include "protocol/http1_session.h"
#include "protocol/http2_connection.h"
#include "protocol/select.h"
#include "server/server.h"
#include "server/static.h"

static int on_worker_start(uvhttp__worker_t *worker) {
    uvhttp__service_t *service = &((uvhttp_server_t *)worker->host->options.user)->service;
    size_t fields_size = service->config.header_count_max * sizeof(uvhttp__field_t);
    uvhttp__http_loop_t *loop = uvhttp__alloc_aligned(64, sizeof *loop + fields_size);
    if (!loop) return UVHTTP_E_NOMEM;
    uvhttp__http_worker_t *upper = &loop->http;
    loop->sites = NULL;
    loop->work = NULL;
    memset(upper, 0, offsetof(uvhttp__http_worker_t, response_time));
    upper->worker = worker;
    upper->service = service;
    upper->http1.protocol = &uvhttp__http1_protocol;
    upper->fields = (uvhttp__field_t *)(void *)(loop + 1);
    uvhttp__histogram_init(&upper->response_time);
    worker->upper = upper;
    uvhttp__calls_open(upper);
    uvhttp__watch_open(upper);
    uvhttp__coroutine_worker_start(upper);
    return UVHTTP_OK;
}

static void on_worker_stop(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = worker->upper;
    uvhttp__static_worker_stop(upper);
    uvhttp__work_port_close(&upper->port);
    uvhttp__work_port_assign(worker->loop, NULL);
    uvhttp__coroutine_worker_stop(upper);
    uvhttp__exchange_pool_free(&upper->http1);
    uvhttp__http2_loop_free(upper);
    upper->due_in_turn = 0; /* a guest's loop may end its iteration after the server is gone */
}

/* Until here the figures of a server that has stopped can be read. */
static void on_worker_delete(uvhttp__worker_t *worker) {
    uvhttp__http_loop_t *loop = worker->upper;
    uvhttp__static_free(loop->sites);
    uvhttp__work_free(loop->work);
    uvhttp__free_aligned(loop);
}

static void on_worker_drain(uvhttp__worker_t *worker, bool cut) {
    uvhttp__http_worker_t *upper = worker->upper;
    if (!cut) uvhttp__coroutine_worker_drain(upper);
    if (worker->index == 0 && !cut) {
        uvhttp__server_of(upper)->drain_ns = worker->loop->now_ns;
        uvhttp__work_drain(upper->service->work);
    }
    uvhttp__work_port_cancel(&upper->port, !cut);
}

/* A job of this loop runs: it may have to respond. */
static bool is_busy(const uvhttp__worker_t *worker) {
    return ((const uvhttp__http_worker_t *)worker->upper)->port.pending > 0;
}

#define SETTLE_ROUNDS 4

/* A coroutine consumes from its stream of HTTP/2 and writes to it, and a stream that has more for a coroutine wakes it:
 * what is left after some rounds belongs to the next iteration. */
UVHTTP__HOT static void settle(uvhttp__http_worker_t *upper) {
    uvhttp__coroutine_turn_end(upper);
    if (!upper->http2) return;
    uvhttp__http2_end_iteration(upper->http2);
    for (int round = 0; round < SETTLE_ROUNDS && uvhttp__coro_sched_due(&upper->coros); round++) {
        uvhttp__coroutine_turn_end(upper);
        uvhttp__http2_end_iteration(upper->http2);
    }
    if (uvhttp__coro_sched_due(&upper->coros)) uvhttp__coro_sched_soon(&upper->coros);
}

/* A refused call has its response at once, in iteration memory, and requests that are held behind it may bring calls. */
static NOINLINE void submit_calls(uvhttp__http_worker_t *upper) {
    while (upper->has_calls) {
        uvhttp__calls_submit(upper);
        if (upper->http2) uvhttp__http2_end_iteration(upper->http2);
    }
}

/* All requests that arrived and were completed in this iteration took the same time: from its start to this flush. */
UVHTTP__HOT static void on_turn_end(uvhttp__worker_t *worker) {
    uvhttp__http_worker_t *upper = worker->upper;
    if (!upper) return; /* the worker could not be started */
    settle(upper);
    if (upper->due_in_turn == 0) return;
    if (upper->has_calls) submit_calls(upper);
    assert(!upper->http2 || uvhttp__http2_is_settled(upper->http2)); /* iteration memory is about to be used again */
    uint64_t ns = uvhttp__clock_ns() - worker->loop->now_ns;
    if (upper->service->config.performance.enable_statistics)
        uvhttp__histogram_record_n(&upper->response_time, ns, upper->answered_in_turn);
    if (__builtin_expect(ns >= upper->look_ns, false)) uvhttp__watch_turn(upper, ns);
    upper->due_in_turn = 0;
}

static const uvhttp__conn_ops_t http2_ops = {.on_data = uvhttp__http2_on_data,
                                             .on_end = uvhttp__http2_on_end,
                                             .on_sent = uvhttp__http2_on_sent,
                                             .on_timer = uvhttp__http2_on_timer,
                                             .is_idle = uvhttp__http2_is_idle,
                                             .is_new = uvhttp__http2_is_new,
                                             .on_evict = uvhttp__http2_on_evict,
                                             .phase = uvhttp__http2_phase,
                                             .on_drain = uvhttp__http2_on_drain,
                                             .on_closed = uvhttp__http2_on_closed};

/* Of a connection that speaks HTTP/1, or about which nothing else is known yet. */
#define SESSION_OPS                                                                                                    \
    .on_end = uvhttp__session_on_end, .on_sent = uvhttp__session_on_sent, .on_timer = uvhttp__session_on_timer,        \
    .output_limits = uvhttp__session_output_limits, .is_idle = uvhttp__session_is_idle,                                \
    .is_new = uvhttp__session_is_new, .phase = uvhttp__session_phase, .on_drain = uvhttp__session_on_drain,            \
    .on_closed = uvhttp__session_on_closed

static const uvhttp__conn_ops_t unknown_ops = {SESSION_OPS, .on_data = uvhttp__select_on_data};

/* By the numbers of protocol/select.h. */
static const uvhttp__conn_ops_t *const others[] = {[UVHTTP__PROTOCOL_HTTP2 - 1] = &http2_ops,
                                                   [UVHTTP__PROTOCOL_UNKNOWN - 1] = &unknown_ops};

/* Not a part of the server: an attached loop may end an iteration after the server is gone. */
const uvhttp__conn_ops_t uvhttp__http_conn_ops = {.conn_size = sizeof(uvhttp__session_t),
                                                  .on_worker_start = on_worker_start,
                                                  .on_worker_stop = on_worker_stop,
                                                  .on_worker_delete = on_worker_delete,
                                                  .on_worker_drain = on_worker_drain,
                                                  .is_busy = is_busy,
                                                  .on_turn_end = on_turn_end,
                                                  .on_open = uvhttp__select_on_open,
                                                  .on_data = uvhttp__session_on_data,
                                                  SESSION_OPS,
                                                  .others = others};
