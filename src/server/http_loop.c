/* Owns: the state of HTTP on each loop: its start, the end of each iteration, drain and stop. */
#include "server/http_loop.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "exchange/coroutine.h"
#include "exchange/exchange.h"
#include "exchange/stall.h"
#include "exchange/worker.h"
#include "protocol/http1_session.h"
#include "protocol/http2_connection.h"
#include "protocol/select.h"
#include "server/server.h"
#include "server/static.h"

static int on_loop_start(uvhttp__tcp_loop_t *loop) {
    uvhttp__service_t *service = &((uvhttp_server_t *)loop->tcp_server->options.user)->service;
    size_t fields_size = service->config.header_count_max * sizeof(uvhttp__field_t);
    uvhttp__server_loop_t *own = uvhttp__alloc_aligned(64, sizeof *own + fields_size);
    if (!own) return UVHTTP_E_NOMEM;
    uvhttp__http_loop_t *http = &own->http;
    own->sites = NULL;
    own->work = NULL;
    memset(http, 0, offsetof(uvhttp__http_loop_t, response_time));
    http->tcp = loop;
    http->service = service;
    http->http1.protocol = &uvhttp__http1_protocol;
    http->fields = (uvhttp__field_t *)(void *)(own + 1);
    if (service->config.metrics) {
        http->metrics = uvhttp__series_shard_new(service->config.metrics_series_max);
        if (!http->metrics) {
            uvhttp__free_aligned(own);
            return UVHTTP_E_NOMEM;
        }
    }
    http->traced = service->traced;
    uvhttp__histogram_init(&http->response_time);
    loop->user = http;
    uvhttp__calls_open(http);
    uvhttp__stall_open(http);
    uvhttp__coroutine_loop_start(http);
    return UVHTTP_OK;
}

/* One without responses. */
static NOINLINE void record_iteration(uvhttp__http_loop_t *http) {
    uint64_t start_ns = http->tcp->io->now_ns;
    uvhttp__series_iteration(http->metrics, start_ns, uvhttp__clock_ns() - start_ns);
}

static void on_loop_stop(uvhttp__tcp_loop_t *loop) {
    uvhttp__http_loop_t *http = loop->user;
    uvhttp__static_loop_stop(http);
    uvhttp__work_port_close(&http->port);
    uvhttp__work_port_assign(loop->io, NULL);
    uvhttp__coroutine_loop_stop(http);
    uvhttp__exchange_pool_free(&http->http1);
    uvhttp__http2_loop_free(http);
    if (http->metrics) record_iteration(http); /* what ended after the last one */
    http->due_in_iteration = 0;                /* a guest's loop may end its iteration after the server is gone */
}

/* Until here the figures of a server that has stopped can be read. */
static void on_loop_delete(uvhttp__tcp_loop_t *loop) {
    uvhttp__server_loop_t *own = loop->user;
    uvhttp__static_free(own->sites);
    uvhttp__work_free(own->work);
    uvhttp__series_shard_free(own->http.metrics);
    uvhttp__free_aligned(own);
}

static void on_loop_drain(uvhttp__tcp_loop_t *loop, bool cut) {
    uvhttp__http_loop_t *http = loop->user;
    if (!cut) uvhttp__coroutine_loop_drain(http);
    if (loop->index == 0 && !cut) {
        uvhttp__server_of(http)->drain_ns = loop->io->now_ns;
        uvhttp__work_drain(http->service->work);
    }
    uvhttp__work_port_cancel(&http->port, !cut);
}

/* A job of this loop runs: it may have to respond. Or a coroutine whose connection has gone has not seen that yet. */
static bool is_busy(const uvhttp__tcp_loop_t *loop) {
    const uvhttp__http_loop_t *http = loop->user;
    return http->port.pending > 0 || uvhttp__coroutine_loop_is_busy(http);
}

#define SETTLE_ROUNDS 4

/* A coroutine consumes from its stream of HTTP/2 and writes to it, and a stream that has more for a coroutine wakes it:
 * what is left after some rounds belongs to the next iteration. */
UVHTTP__HOT static void settle(uvhttp__http_loop_t *http) {
    uvhttp__coroutine_iteration_end(http);
    if (!http->http2) return;
    uvhttp__http2_end_iteration(http->http2);
    for (int round = 0; round < SETTLE_ROUNDS && uvhttp__coro_sched_due(&http->coros); round++) {
        uvhttp__coroutine_iteration_end(http);
        uvhttp__http2_end_iteration(http->http2);
    }
    if (uvhttp__coro_sched_due(&http->coros)) uvhttp__coro_sched_soon(&http->coros);
}

/* A refused call has its response at once, in iteration memory, and requests that are held behind it may bring calls.
 */
static NOINLINE void submit_calls(uvhttp__http_loop_t *http) {
    while (http->has_calls) {
        uvhttp__calls_submit(http);
        if (http->http2) uvhttp__http2_end_iteration(http->http2);
    }
}

/* All requests that arrived and were completed in this iteration took the same time: from its start to this flush. */
UVHTTP__HOT static void on_iteration_end(uvhttp__tcp_loop_t *loop) {
    uvhttp__http_loop_t *http = loop->user;
    if (!http) return; /* the loop could not be started */
    settle(http);
    if (http->due_in_iteration == 0) {
        if (http->metrics) record_iteration(http);
        return;
    }
    if (http->has_calls) submit_calls(http);
    assert(!http->http2 || uvhttp__http2_is_settled(http->http2)); /* iteration memory is about to be used again */
    uint64_t ns = uvhttp__clock_ns() - loop->io->now_ns;
    if (http->service->config.performance.enable_statistics)
        uvhttp__histogram_record_n(&http->response_time, ns, http->responses_in_iteration);
    if (UNLIKELY(http->metrics != NULL)) uvhttp__series_iteration(http->metrics, loop->io->now_ns, ns);
    if (__builtin_expect(ns >= http->look_ns, false)) uvhttp__stall_check_iteration(http, ns);
    http->due_in_iteration = 0;
}

static const uvhttp__conn_ops_t http2_ops = {.on_data = uvhttp__http2_on_data,
                                             .on_end = uvhttp__http2_on_end,
                                             .on_sent = uvhttp__http2_on_sent,
                                             .on_timer = uvhttp__http2_on_timer,
                                             .is_idle = uvhttp__http2_is_idle,
                                             .is_new = uvhttp__http2_is_new,
                                             .on_evict = uvhttp__http2_on_evict,
                                             .phase = uvhttp__http2_phase,
                                             .describe = uvhttp__http2_describe,
                                             .on_drain = uvhttp__http2_on_drain,
                                             .on_closed = uvhttp__http2_on_closed};

/* Of a connection that speaks HTTP/1, or about which nothing else is known yet. */
#define SESSION_OPS                                                                                                    \
    .on_end = uvhttp__session_on_end, .on_sent = uvhttp__session_on_sent, .on_timer = uvhttp__session_on_timer,        \
    .output_limits = uvhttp__session_output_limits, .is_idle = uvhttp__session_is_idle,                                \
    .is_new = uvhttp__session_is_new, .phase = uvhttp__session_phase, .on_drain = uvhttp__session_on_drain,            \
    .on_closed = uvhttp__session_on_closed

static const uvhttp__conn_ops_t unknown_ops = {SESSION_OPS, .on_data = uvhttp__select_on_data,
                                               .describe = uvhttp__select_describe};

/* By the numbers of protocol/select.h. */
static const uvhttp__conn_ops_t *const others[] = {[UVHTTP__PROTOCOL_HTTP2 - 1] = &http2_ops,
                                                   [UVHTTP__PROTOCOL_UNKNOWN - 1] = &unknown_ops};

/* Not a part of the server: an attached loop may end an iteration after the server is gone. */
const uvhttp__conn_ops_t uvhttp__http_conn_ops = {.conn_size = sizeof(uvhttp__session_t),
                                                  .on_loop_start = on_loop_start,
                                                  .on_loop_stop = on_loop_stop,
                                                  .on_loop_delete = on_loop_delete,
                                                  .on_loop_drain = on_loop_drain,
                                                  .is_busy = is_busy,
                                                  .on_iteration_end = on_iteration_end,
                                                  .on_open = uvhttp__select_on_open,
                                                  .on_data = uvhttp__session_on_data,
                                                  SESSION_OPS,
                                                  .describe = uvhttp__session_describe,
                                                  .others = others};
