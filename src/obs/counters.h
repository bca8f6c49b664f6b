/* Owns: the counters: one shard per loop thread, written by that thread alone, read by any. May include: base. */
#ifndef UVHTTP_SRC_OBS_COUNTERS_H
#define UVHTTP_SRC_OBS_COUNTERS_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <uvhttp/types.h>

#include "base/error_index.h"
#include "base/hot_path.h"

/* X(name, type, family, labels, help). Readers show them in this order; put a new one with its kin. TOTAL: only grows.
 * GAUGE: the value now. BYTES_TOTAL and BYTES: the same in bytes. Counters of one family differ by their labels, follow
 * each other, and have a line in UVHTTP__COUNTER_FAMILIES. */
#define UVHTTP__COUNTER_MAP(X)                                                                                         \
    X(connections_accepted, TOTAL, connections_accepted, "", "Connections accepted")                                   \
    X(connections_closed, TOTAL, connections_closed, "", "Connections closed")                                         \
    X(connections_limit, GAUGE, connections_limit, "",                                                                 \
      "Connections at once at most: max_connections, or what the descriptors allow, now")                              \
    X(connections_refused_address, TOTAL, connections_refused, "reason=\"address\"",                                   \
      "Connections reset at once because their address had connections_per_address_max")                               \
    X(connections_evicted, TOTAL, connections_evicted, "",                                                             \
      "Idle connections closed for new ones, because max_connections was reached")                                     \
    X(accept_paused, TOTAL, accept_paused, "", "Times that accepting paused because descriptors or memory ran out")    \
    X(accept_errors, TOTAL, accept_errors, "", "Errors of accepting connections")                                      \
    X(requests, TOTAL, requests, "", "Requests whose head was received completely")                                    \
    X(requests_faulty_head, TOTAL, requests_faulty_head, "",                                                           \
      "Requests whose head was refused: malformed, too large or too slow")                                             \
    X(responses_1xx, TOTAL, responses, "class=\"1xx\"", "Responses with status 100-199")                               \
    X(responses_2xx, TOTAL, responses, "class=\"2xx\"", "Responses with status 200-299")                               \
    X(responses_3xx, TOTAL, responses, "class=\"3xx\"", "Responses with status 300-399")                               \
    X(responses_4xx, TOTAL, responses, "class=\"4xx\"", "Responses with status 400-499")                               \
    X(responses_5xx, TOTAL, responses, "class=\"5xx\"", "Responses with status 500-599")                               \
    X(bytes_received, BYTES_TOTAL, received_bytes, "", "Bytes received from sockets")                                  \
    X(bytes_sent, BYTES_TOTAL, sent_bytes, "", "Bytes accepted by sockets")                                            \
    X(timeouts_header, TOTAL, connection_timeouts, "phase=\"header\"",                                                 \
      "Connections closed because a request head was not complete in time")                                            \
    X(timeouts_body, TOTAL, connection_timeouts, "phase=\"body\"",                                                     \
      "Connections closed because a request body was not complete in time")                                            \
    X(timeouts_keepalive, TOTAL, connection_timeouts, "phase=\"keepalive\"", "Idle connections closed")                \
    X(timeouts_write, TOTAL, connection_timeouts, "phase=\"write\"",                                                   \
      "Connections closed because a response was not received in time")                                                \
    X(timeouts_handshake, TOTAL, connection_timeouts, "phase=\"handshake\"",                                           \
      "Connections closed because the TLS handshake was not done in time")                                             \
    X(slow_read, TOTAL, slow_clients, "direction=\"receive\"",                                                         \
      "Connections closed because they sent below the minimum rate")                                                   \
    X(slow_write, TOTAL, slow_clients, "direction=\"send\"",                                                           \
      "Connections closed because they received below the minimum rate")                                               \
    X(resets_idle, TOTAL, connection_resets, "phase=\"idle\"", "Connections that clients reset between requests")      \
    X(resets_reading, TOTAL, connection_resets, "phase=\"reading\"",                                                   \
      "Connections that clients reset while a request, a handshake or a PROXY header was received")                    \
    X(resets_writing, TOTAL, connection_resets, "phase=\"writing\"",                                                   \
      "Connections that clients reset while a response was made or sent")                                              \
    X(resets_closing, TOTAL, connection_resets, "phase=\"closing\"",                                                   \
      "Connections that clients reset after the server had begun to close them")                                       \
    X(closing_floods, TOTAL, closing_floods, "",                                                                       \
      "Times that too many bytes came behind the ends of connections, and one was closed or paused")                   \
    X(aborted, TOTAL, aborted, "", "Requests whose client was gone before the response was sent")                      \
    X(deferred, TOTAL, deferred, "", "Responses that were deferred")                                                   \
    X(handler_no_response, TOTAL, handler_no_response, "",                                                             \
      "Requests whose handler neither sent nor deferred a response")                                                   \
    X(engine_enobufs, TOTAL, engine_enobufs, "", "Times that receiving waited for buffers")                            \
    X(engine_refusals, TOTAL, engine_refusals, "",                                                                     \
      "Times that the kernel refused what was submitted to io_uring, or completions")                                  \
    X(engine_wakeups, TOTAL, engine_wakeups, "", "Wake-ups by other threads")                                          \
    X(engine_iterations, TOTAL, engine_iterations, "", "Loop iterations")                                              \
    X(connections_waited, TOTAL, connections_waited, "",                                                               \
      "Times that accepting waited because max_connections was reached")                                               \
    X(write_queue_full, TOTAL, write_queue_full, "",                                                                   \
      "Times that a connection was not read because its output waited for the client")                                 \
    X(budget_exhausted, TOTAL, budget_exhausted, "", "Times that a connection used up its share of a loop iteration")  \
    X(upgrades, TOTAL, upgrades, "", "Connections upgraded to another protocol")                                       \
    X(ws_messages_received, TOTAL, ws_messages, "direction=\"received\"", "WebSocket messages received")               \
    X(ws_messages_sent, TOTAL, ws_messages, "direction=\"sent\"", "WebSocket messages sent")                           \
    X(refused_auth, TOTAL, refused_auth, "", "Requests that got 401 by basic_auth or bearer_auth")                     \
    X(refused_cors, TOTAL, refused_cors, "", "Preflights of an origin that is not allowed")                            \
    X(rate_limited, TOTAL, rate_limited, "", "Requests refused because their bucket was empty")                        \
    X(rate_limit_undecided, TOTAL, rate_limit_undecided, "",                                                           \
      "Requests that the store of a rate limiter could not decide on")                                                 \
    X(middleware_no_memory, TOTAL, middleware_no_memory, "",                                                           \
      "Requests that got 503 because a middleware had no memory for them")                                             \
    X(access_log_dropped, TOTAL, access_log_dropped, "", "Requests that did not fit into the access log")              \
    X(metrics_series_overflows, TOTAL, metrics_series_overflows, "",                                                   \
      "Requests counted without attributes because metrics_series_max was reached")                                    \
    X(forwarded_ignored, TOTAL, forwarded_ignored, "",                                                                 \
      "Requests with a forwarding field that could not be used completely")                                            \
    X(ws_publications, TOTAL, ws_publications, "",                                                                     \
      "WebSocket publications that a loop has delivered to its subscribers")                                           \
    X(ws_publications_refused, TOTAL, ws_publications_refused, "",                                                     \
      "WebSocket publications refused because too many waited for the loops")                                          \
    X(ws_publications_skipped, TOTAL, ws_publications_skipped, "",                                                     \
      "WebSocket publications left out for a subscriber whose queue was full")                                         \
    X(ws_subscribers_dropped, TOTAL, ws_subscribers_dropped, "",                                                       \
      "WebSocket connections reset because their queue was full at a publication")                                     \
    X(events_clients_dropped, TOTAL, events_clients_dropped, "",                                                       \
      "Event streams cut off because their client did not read")                                                       \
    X(static_hits, TOTAL, static_hits, "", "Static files that were served from the cache")                             \
    X(static_misses, TOTAL, static_misses, "", "Static files that had to be looked up")                                \
    X(static_revalidated, TOTAL, static_revalidated, "", "Cached static files that were looked at again")              \
    X(static_evictions, TOTAL, static_evictions, "", "Static files that left the cache for others")                    \
    X(static_cache_bytes, BYTES, static_cache_bytes, "", "Bytes of static files' content in the caches now")           \
    X(file_pieces_brought, TOTAL, file_pieces_brought, "",                                                             \
      "Pieces of files that a thread read because sendfile would have waited for the disk")                            \
    X(file_read_errors, TOTAL, file_read_errors, "",                                                                   \
      "Files that could not be read, or ended early, when they were looked up or sent")                                \
    X(tls_handshakes, TOTAL, tls_handshakes, "", "TLS handshakes done")                                                \
    X(tls_resumed, TOTAL, tls_resumed, "", "TLS handshakes that resumed a session")                                    \
    X(tls_version_1_2, TOTAL, tls_versions, "version=\"1.2\"", "TLS handshakes of TLS 1.2")                            \
    X(tls_version_1_3, TOTAL, tls_versions, "version=\"1.3\"", "TLS handshakes of TLS 1.3")                            \
    X(tls_resumption_refused, TOTAL, tls_resumption_refused, "",                                                       \
      "TLS sessions not resumed because their client certificate is not trusted any more")                             \
    X(tls_kernel, TOTAL, tls_kernel, "", "TLS connections whose sending the kernel encrypts")                          \
    X(tls_kernel_refused, TOTAL, tls_kernel_refused, "", "Times that the kernel refused to send for a TLS connection") \
    X(tls_kernel_ended, TOTAL, tls_kernel_ended, "",                                                                   \
      "TLS connections ended because their client asked the kernel for new keys")                                      \
    X(trace_spans, TOTAL, trace_spans, "",                                                                             \
      "Spans of sampled requests that wait for the exporter or have been given to it")                                 \
    X(trace_spans_dropped, TOTAL, trace_spans_dropped, "",                                                             \
      "Spans lost because trace_queue_size was reached, or for want of memory")                                        \
    X(trace_spans_exported, TOTAL, trace_spans_exported, "", "Spans that the collector has accepted")                  \
    X(trace_spans_failed, TOTAL, trace_spans_failed, "",                                                               \
      "Spans that the collector has refused, or that could not be delivered to it")                                    \
    X(trace_export_retries, TOTAL, trace_export_retries, "", "Requests to the collector that were repeated")           \
    X(work_jobs, TOTAL, work_jobs, "", "Jobs and handlers that a worker thread has started")                           \
    X(work_refused, TOTAL, work_refused, "", "Jobs and handlers refused because max_backlog of them waited")           \
    X(work_queue_timeouts, TOTAL, work_queue_timeouts, "",                                                             \
      "Handlers and writes refused because no worker thread was free for worker_queue_timeout_ms")                     \
    X(work_live_refused, TOTAL, work_live_refused, "",                                                                 \
      "Handlers refused because worker_live_max of those with live_body ran or waited")                                \
    X(bodies_spooled, TOTAL, bodies_spooled, "",                                                                       \
      "Request bodies that were too large for spool_memory and went to a temporary file")                              \
    X(spool_full, TOTAL, spool_full, "",                                                                               \
      "Request bodies refused because temporary files would have exceeded spool_size_max")                             \
    X(work_cancelled, TOTAL, work_cancelled, "", "Jobs cancelled before they ran")                                     \
    X(work_slow, TOTAL, work_slow, "", "Jobs and handlers that ran longer than worker_warn_ms")                        \
    X(work_threads_started, TOTAL, work_threads_started, "", "Worker threads started")                                 \
    X(work_threads_ended, TOTAL, work_threads_ended, "", "Worker threads that ended because they had nothing to do")   \
    X(work_threads, GAUGE, work_threads, "", "Worker threads now")                                                     \
    X(work_running, GAUGE, work_running, "", "Jobs and handlers that worker threads run now")                          \
    X(work_waiting, GAUGE, work_waiting, "",                                                                           \
      "Jobs and handlers that wait for a worker thread, their time or their tag now")                                  \
    X(handler_blocked, TOTAL, handler_blocked, "",                                                                     \
      "Times that a handler kept its loop from others for longer than handler_warn_ms")                                \
    X(coroutines, TOTAL, coroutines, "", "Coroutines started")                                                         \
    X(coroutines_waited, TOTAL, coroutines_waited, "", "Requests whose coroutine has waited")                          \
    X(coroutines_refused, TOTAL, coroutines_refused, "",                                                               \
      "Requests that got 503 because coroutines_max was reached or a stack could not be had")                          \
    X(coroutine_stacks, GAUGE, coroutine_stacks, "", "Stacks of coroutines that are mapped now")                       \
    X(coroutine_stacks_released, TOTAL, coroutine_stacks_released, "",                                                 \
      "Stacks of coroutines given back to the system")                                                                 \
    X(coroutine_stack_used_max, BYTES, coroutine_stack_used_max_bytes, "",                                             \
      "Bytes of stack that the deepest coroutine has touched, in whole pages")                                         \
    X(client_requests, TOTAL, client_requests, "", "Requests to other servers")                                        \
    X(client_failed, TOTAL, client_failed, "", "Requests to other servers that got no response; why is in the errors") \
    X(http2_connections, TOTAL, http2_connections, "", "Connections that spoke HTTP/2")                                \
    X(http2_streams_refused, TOTAL, http2_streams_refused, "",                                                         \
      "HTTP/2 requests refused: http2_concurrent_streams_max, or no memory")                                           \
    X(http2_windows_exceeded, TOTAL, http2_windows_exceeded, "",                                                       \
      "HTTP/2 clients that sent beyond http2_stream_window or http2_connection_window")                                \
    X(http2_header_blocks_too_large, TOTAL, http2_header_blocks_too_large, "",                                         \
      "HTTP/2 connections ended by the size of an encoded header block")                                               \
    X(http2_continuation_floods, TOTAL, http2_continuation_floods, "",                                                 \
      "HTTP/2 connections ended by too many CONTINUATION frames of one header block")                                  \
    X(http2_settings_too_large, TOTAL, http2_settings_too_large, "",                                                   \
      "HTTP/2 connections ended by the entries of a SETTINGS frame")                                                   \
    X(http2_priorities_too_large, TOTAL, http2_priorities_too_large, "",                                               \
      "HTTP/2 PRIORITY_UPDATE frames ignored for their size")                                                          \
    X(http2_priorities_too_early, TOTAL, http2_priorities_too_early, "",                                               \
      "HTTP/2 PRIORITY_UPDATE frames ignored: more than four for streams not yet open")                                \
    X(http2_iterations_cut, TOTAL, http2_iterations_cut, "",                                                           \
      "Times that an HTTP/2 connection used up its share of a loop iteration")                                         \
    X(http2_control_floods, TOTAL, http2_control_floods, "",                                                           \
      "HTTP/2 connections ended by too many frames that bring no request on")                                          \
    X(http2_reset_floods, TOTAL, http2_reset_floods, "", "HTTP/2 connections ended by http2_resets_max")               \
    X(http2_control_overflows, TOTAL, http2_control_overflows, "",                                                     \
      "HTTP/2 connections ended because their client did not read replies to its frames")                              \
    X(http2_memory_exceeded, TOTAL, http2_memory_exceeded, "", "Times that http2_connection_memory_max was reached")   \
    X(http2_resets_received, TOTAL, http2_resets, "direction=\"received\"", "HTTP/2 streams reset by clients")         \
    X(http2_resets_sent, TOTAL, http2_resets, "direction=\"sent\"",                                                    \
      "HTTP/2 streams reset by the server, refused ones included")                                                     \
    X(http2_connection_errors, TOTAL, http2_connection_errors, "", "HTTP/2 connections ended by GOAWAY with an error") \
    X(http2_length_mismatches, TOTAL, http2_length_mismatches, "",                                                     \
      "HTTP/2 requests whose body was not as long as their Content-Length")                                            \
    X(drain_cut_off, TOTAL, drain_cut_off, "", "Connections closed by the end of the drain time with work in progress")

/* F(family, help): those of several counters. */
#define UVHTTP__COUNTER_FAMILIES(F)                                                                                    \
    F(connections_refused, "Connections reset at once, by reason: connections_per_address_max")                        \
    F(responses, "Responses by class of status")                                                                       \
    F(connection_timeouts, "Connections closed because they took too long, by phase")                                  \
    F(slow_clients, "Connections closed because they sent or received below the minimum rate")                         \
    F(connection_resets, "Connections that clients reset, by phase")                                                   \
    F(tls_versions, "TLS handshakes by version of the protocol")                                                       \
    F(ws_messages, "WebSocket messages, by direction")                                                                 \
    F(http2_resets, "HTTP/2 streams reset, by direction: received from clients, or sent by the server")

/* UVHTTP__COUNTER_requests and so on: the index of a counter. */
enum {
#define UVHTTP__COUNTER_INDEX(name, type, family, labels, help) UVHTTP__COUNTER_##name,
    UVHTTP__COUNTER_MAP(UVHTTP__COUNTER_INDEX)
#undef UVHTTP__COUNTER_INDEX
        UVHTTP__COUNTER_COUNT
};

/* A shard. Aligned, so that no two loops share a cache line. Zeroed memory is a shard at zero. */
typedef struct uvhttp__counters {
    alignas(64) _Atomic uint64_t values[UVHTTP__COUNTER_COUNT];
    _Atomic uint64_t errors[UVHTTP__ERROR_COUNT]; /* requests refused or connections broken, by reason */
} uvhttp__counters_t;

static_assert(sizeof(uvhttp__counters_t) % 64 == 0, "an array of shards keeps them on lines of their own");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters must not take a lock");

/* Sums of shards; plain memory of the reader. */
typedef struct uvhttp__counter_sums {
    uint64_t values[UVHTTP__COUNTER_COUNT];
    uint64_t errors[UVHTTP__ERROR_COUNT];
} uvhttp__counter_sums_t;

/* One writer: load, add, store, without the locked instruction of an atomic addition. */
static inline void uvhttp__counter_bump(_Atomic uint64_t *counter, uint64_t n) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* Shard's thread only: uvhttp__counters_add(loop->counters, bytes_sent, size). */
#define uvhttp__counters_add(shard, name, n) uvhttp__counter_bump(&(shard)->values[UVHTTP__COUNTER_##name], (n))

/* Shard's thread only. Counts a UVHTTP_E_* code. */
static inline void uvhttp__counters_error(uvhttp__counters_t *shard, int code) {
    uvhttp__counter_bump(&shard->errors[uvhttp__error_index(code)], 1);
}

/* Shard's thread only. Counts a response by the class of its status, 100..599; others are not counted. */
static inline void uvhttp__counters_response(uvhttp__counters_t *shard, int status) {
    unsigned class = (unsigned)status / 100 - 1;
    if (LIKELY(status == 200))
        uvhttp__counters_add(shard, responses_2xx, 1);
    else if (class < 5)
        uvhttp__counter_bump(&shard->values[UVHTTP__COUNTER_responses_1xx + class], 1);
}

/* Any thread: adds a shard to the sums. Each value is one that the shard had; they may be of slightly different
 * moments. */
void uvhttp__counters_read(const uvhttp__counters_t *shard, uvhttp__counter_sums_t *sums);

/* The value of one counter: UVHTTP__COUNTER(&sums, requests). */
#define UVHTTP__COUNTER(sums, name) ((sums)->values[UVHTTP__COUNTER_##name])

/* Connections open now: accepted - closed, never below 0. */
uint64_t uvhttp__counters_connections(const uvhttp__counter_sums_t *sums);

typedef enum uvhttp__counter_type {
    UVHTTP__COUNTER_TYPE_TOTAL,
    UVHTTP__COUNTER_TYPE_GAUGE,
    UVHTTP__COUNTER_TYPE_BYTES_TOTAL,
    UVHTTP__COUNTER_TYPE_BYTES,
} uvhttp__counter_type_t;

/* A row of the table; static storage. */
typedef struct uvhttp__counter_row {
    const char *name, *family, *labels, *help;
    uvhttp__counter_type_t type;
} uvhttp__counter_row_t;

const uvhttp__counter_row_t *uvhttp__counter_row(unsigned index);
/* What a family counts. */
const char *uvhttp__counter_family_help(const uvhttp__counter_row_t *row);

#endif
