/* Owns: the counters: one shard per loop thread, written by that thread alone, read by any. May include: base. */
#ifndef UVHTTP_SRC_OBS_COUNTERS_H
#define UVHTTP_SRC_OBS_COUNTERS_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <uvhttp/types.h>

#include "base/error_index.h"
#include "base/hot_path.h"

/* X(name, help). The metrics page shows them in this order; put a new one with its kin. */
#define UVHTTP__COUNTER_MAP(X)                                                                                         \
    X(connections_accepted, "Connections accepted")                                                                    \
    X(connections_closed, "Connections closed")                                                                        \
    X(connections_limit, "Connections at once at most: max_connections, or what the descriptors allow, now")           \
    X(connections_refused_limit, "Connections closed at once because a limit of connections was reached")              \
    X(connections_refused_address, "Connections reset at once because their address had connections_per_address_max")  \
    X(connections_evicted, "Idle connections closed for new ones, because max_connections was reached")                \
    X(accept_paused, "Times that accepting paused because descriptors or memory ran out")                              \
    X(accept_errors, "Errors of accepting connections")                                                                \
    X(requests, "Requests whose head was received completely")                                                         \
    X(requests_pipelined, "Requests that were received before the response to the one before was made")                \
    X(responses_1xx, "Responses with status 100-199")                                                                  \
    X(responses_2xx, "Responses with status 200-299")                                                                  \
    X(responses_3xx, "Responses with status 300-399")                                                                  \
    X(responses_4xx, "Responses with status 400-499")                                                                  \
    X(responses_5xx, "Responses with status 500-599")                                                                  \
    X(bytes_received, "Bytes received from sockets")                                                                   \
    X(bytes_sent, "Bytes accepted by sockets")                                                                         \
    X(timeouts_header, "Connections closed because a request head was not complete in time")                           \
    X(timeouts_body, "Connections closed because a request body was not complete in time")                             \
    X(timeouts_keepalive, "Idle connections closed")                                                                   \
    X(timeouts_write, "Connections closed because a response was not received in time")                                \
    X(timeouts_handshake, "Connections closed because the TLS handshake was not done in time")                         \
    X(slow_read, "Connections closed because they sent below the minimum rate")                                        \
    X(slow_write, "Connections closed because they received below the minimum rate")                                   \
    X(resets_idle, "Connections that clients reset between requests")                                                  \
    X(resets_reading, "Connections that clients reset while a request, a handshake or a PROXY header was received")    \
    X(resets_writing, "Connections that clients reset while a response was made or sent")                              \
    X(resets_closing, "Connections that clients reset after the server had begun to close them")                       \
    X(closing_floods, "Times that too many bytes came behind the ends of connections, and one was closed or paused")   \
    X(aborted, "Requests whose client was gone before the response was sent")                                          \
    X(deferred, "Responses that were deferred")                                                                        \
    X(handler_no_response, "Requests whose handler neither sent nor deferred a response")                              \
    X(engine_enobufs, "Times that receiving waited for buffers")                                                       \
    X(engine_refusals, "Times that the kernel refused what was submitted to io_uring, or completions")                 \
    X(engine_wakeups, "Wake-ups by other threads")                                                                     \
    X(engine_iterations, "Loop iterations")                                                                            \
    X(connections_waited, "Times that accepting waited because max_connections was reached")                           \
    X(write_queue_full, "Times that a connection was not read because its output waited for the client")               \
    X(budget_exhausted, "Times that a connection used up its share of a loop iteration")                               \
    X(upgrades, "Connections upgraded to another protocol")                                                            \
    X(ws_messages_received, "WebSocket messages received")                                                             \
    X(ws_messages_sent, "WebSocket messages sent")                                                                     \
    X(refused_auth, "Requests that got 401 by basic_auth or bearer_auth")                                              \
    X(refused_cors, "Preflights of an origin that is not allowed")                                                     \
    X(rate_limited, "Requests refused because their bucket was empty")                                                 \
    X(rate_limit_undecided, "Requests that the store of a rate limiter could not decide on")                           \
    X(middleware_no_memory, "Requests that got 503 because a middleware had no memory for them")                       \
    X(access_log_dropped, "Requests that did not fit into the access log")                                             \
    X(trace_spans, "Spans of sampled requests that wait for the exporter or have been given to it")                    \
    X(trace_spans_dropped, "Spans lost because trace_queue_size was reached, or for want of memory")                   \
    X(trace_spans_exported, "Spans that the collector has accepted")                                                   \
    X(trace_spans_failed, "Spans that the collector has refused, or that could not be delivered to it")                \
    X(trace_export_retries, "Requests to the collector that were repeated")                                            \
    X(forwarded_ignored, "Requests with a forwarding field that could not be used completely")                         \
    X(ws_publications, "WebSocket publications that a loop has delivered to its subscribers")                          \
    X(ws_publications_refused, "WebSocket publications refused because too many waited for the loops")                 \
    X(ws_publications_skipped, "WebSocket publications left out for a subscriber whose queue was full")                \
    X(ws_subscribers_dropped, "WebSocket connections reset because their queue was full at a publication")             \
    X(events_clients_dropped, "Event streams cut off because their client did not read")                               \
    X(static_hits, "Static files that were served from the cache")                                                     \
    X(static_misses, "Static files that had to be looked up")                                                          \
    X(static_revalidated, "Cached static files that were looked at again")                                             \
    X(static_evictions, "Static files that left the cache for others")                                                 \
    X(static_cache_bytes, "Bytes of static files' content in the caches now")                                          \
    X(file_pieces_brought, "Pieces of files that a thread read because sendfile would have waited for the disk")       \
    X(file_read_errors, "Files that could not be read, or ended early, when they were looked up or sent")              \
    X(tls_handshakes, "TLS handshakes done")                                                                           \
    X(tls_resumed, "TLS handshakes that resumed a session")                                                            \
    X(tls_resumption_refused, "TLS sessions not resumed because their client certificate is not trusted any more")     \
    X(tls_kernel, "TLS connections whose sending the kernel encrypts")                                                 \
    X(tls_kernel_refused, "Times that the kernel refused to send for a TLS connection")                                \
    X(tls_kernel_ended, "TLS connections ended because their client asked the kernel for new keys")                    \
    X(work_jobs, "Jobs and handlers that a worker thread has started")                                                 \
    X(work_refused, "Jobs and handlers refused because max_backlog of them waited")                                    \
    X(work_queue_timeouts,                                                                                             \
      "Handlers and writes refused because no worker thread was free for worker_queue_timeout_ms")                     \
    X(work_live_refused, "Handlers refused because worker_live_max of those with live_body ran or waited")             \
    X(bodies_spooled, "Request bodies that were too large for spool_memory and went to a temporary file")              \
    X(spool_full, "Request bodies refused because temporary files would have exceeded spool_size_max")                 \
    X(work_cancelled, "Jobs cancelled before they ran")                                                                \
    X(work_slow, "Jobs and handlers that ran longer than worker_warn_ms")                                              \
    X(work_threads_started, "Worker threads started")                                                                  \
    X(work_threads_ended, "Worker threads that ended because they had nothing to do")                                  \
    X(work_threads, "Worker threads now")                                                                              \
    X(work_running, "Jobs and handlers that worker threads run now")                                                   \
    X(work_waiting, "Jobs and handlers that wait for a worker thread, their time or their tag now")                    \
    X(handler_blocked, "Times that a handler kept its loop from others for longer than handler_warn_ms")               \
    X(coroutines, "Coroutines started")                                                                                \
    X(coroutines_waited, "Requests whose coroutine has waited")                                                        \
    X(coroutines_refused, "Requests that got 503 because coroutines_max was reached or a stack could not be had")      \
    X(coroutine_stacks, "Stacks of coroutines that are mapped now")                                                    \
    X(coroutine_stacks_released, "Stacks of coroutines given back to the system")                                      \
    X(coroutine_stack_used_max, "Bytes of stack that the deepest coroutine has touched, in whole pages")               \
    X(client_requests, "Requests to other servers")                                                                    \
    X(client_failed, "Requests to other servers that got no response; why is in the errors")                           \
    X(http2_connections, "Connections that spoke HTTP/2")                                                              \
    X(http2_streams_refused, "HTTP/2 requests refused: http2_concurrent_streams_max, or no memory")                    \
    X(http2_windows_exceeded, "HTTP/2 clients that sent beyond http2_stream_window or http2_connection_window")        \
    X(http2_header_blocks_too_large, "HTTP/2 connections ended by the size of an encoded header block")                \
    X(http2_continuation_floods, "HTTP/2 connections ended by too many CONTINUATION frames of one header block")       \
    X(http2_settings_too_large, "HTTP/2 connections ended by the entries of a SETTINGS frame")                         \
    X(http2_priorities_too_large, "HTTP/2 PRIORITY_UPDATE frames ignored for their size")                              \
    X(http2_priorities_too_early, "HTTP/2 PRIORITY_UPDATE frames ignored: more than four for streams not yet open")    \
    X(http2_iterations_cut, "Times that an HTTP/2 connection used up its share of a loop iteration")                   \
    X(http2_control_floods, "HTTP/2 connections ended by too many frames that bring no request on")                    \
    X(http2_reset_floods, "HTTP/2 connections ended by http2_resets_max")                                              \
    X(http2_control_overflows, "HTTP/2 connections ended because their client did not read replies to its frames")     \
    X(http2_memory_exceeded, "Times that http2_connection_memory_max was reached")                                     \
    X(http2_resets_received, "HTTP/2 streams reset by clients")                                                        \
    X(http2_resets_sent, "HTTP/2 streams reset by the server, refused ones included")                                  \
    X(http2_connection_errors, "HTTP/2 connections ended by GOAWAY with an error")                                     \
    X(http2_length_mismatches, "HTTP/2 requests whose body was not as long as their Content-Length")                   \
    X(drain_cut_off, "Connections closed by the end of the drain time with work in progress")

/* UVHTTP__COUNTER_requests and so on: the index of a counter. */
enum {
#define UVHTTP__COUNTER_INDEX(name, help) UVHTTP__COUNTER_##name,
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

/* Name and help of the counter with this index; static storage. */
const char *uvhttp__counter_name(unsigned index);
const char *uvhttp__counter_help(unsigned index);

#endif
