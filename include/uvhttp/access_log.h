/* Owns: the access log: one line per request, written by its own thread. docs/guide/access_log.md. */
#ifndef UVHTTP_ACCESS_LOG_H
#define UVHTTP_ACCESS_LOG_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

typedef enum uvhttp_access_log_format {
    UVHTTP_ACCESS_LOG_COMBINED, /**< common, with Referer and User-Agent (default) */
    UVHTTP_ACCESS_LOG_COMMON,   /**< client - user [time] "request line" status bytes */
    UVHTTP_ACCESS_LOG_JSON      /**< one object per line, with duration_us, host, request_id and trace_id */
} uvhttp_access_log_format_t;

/** Options. Zero is the default everywhere. Strings are copied. Lines go to `write` if it is set, else to `path` if it
 * is set, else to `fd`. */
typedef struct uvhttp_access_log_options {
    uvhttp_access_log_format_t format;
    const char *path; /**< file to append to; created with mode 0640 if missing. While nobody reads a FIFO, lines are
                         dropped and counted */
    int fd;           /**< descriptor, owned by the caller, which must stay open; default 1: standard output */
    /** Receives complete lines, many at a time, on the log's thread. It may block: requests that arrive meanwhile are
     * queued, and dropped when the ring is full. */
    void (*write)(const char *lines, size_t size, void *user);
    void *user;         /**< argument of `write`; must live as long as the server */
    uint32_t ring_size; /**< bytes of queued requests per loop, a power of two, 65536..1 GiB; default 1 MiB */
    uint32_t flush_ms;  /**< ms for which a line may wait for others, 1..60000; default 200 */
} uvhttp_access_log_options_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_middleware_t uvhttp_access_log_sized(const uvhttp_access_log_options_t *options,
                                                                            size_t options_size);
/** Creates a middleware that logs every request when its response is sent or aborted. The status is 499 if the client
 * has disconnected before the response. Register it first. The loop only copies the fields; the thread formats and
 * writes them. The thread starts with the first request. When it cannot keep up, requests are dropped and counted, and
 * a line reports the number. Queued lines are written when the server is freed.
 *
 * `options` NULL means defaults. On failure (an option out of range, a file that cannot be opened, no memory) the log
 * has the reason, and `run` is NULL: registration then returns UVHTTP_E_INVALID. Any thread, before the server runs. */
static inline uvhttp_middleware_t uvhttp_access_log(const uvhttp_access_log_options_t *options) {
    return uvhttp_access_log_sized(options, sizeof *options);
}

/** Opens `path` again, asynchronously, so that a renamed file can be rotated. On failure the log has the
 * reason, and the old file is used until a retry succeeds. Returns 0, or UVHTTP_E_INVALID if `middleware` is not an
 * access log with a path. Any thread and signal handlers, as long as the server of the middleware exists. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_access_log_reopen(uvhttp_middleware_t middleware);

typedef struct uvhttp_access_log_stats_s {
    uint64_t lines;   /**< lines written completely */
    uint64_t bytes;   /**< bytes written, including incomplete lines */
    uint64_t dropped; /**< requests for which there was no space or no thread */
    uint64_t failed;  /**< lines that could not be written */
    uint64_t reopened;
} uvhttp_access_log_stats_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_access_log_stats_sized(uvhttp_middleware_t middleware,
                                                                  uvhttp_access_log_stats_t *stats, size_t stats_size);
/** Returns the counters of the log. Returns 0 or UVHTTP_E_INVALID. As uvhttp_access_log_reopen, but not in a signal
 * handler. */
static inline int uvhttp_access_log_stats(uvhttp_middleware_t middleware, uvhttp_access_log_stats_t *stats) {
    return uvhttp_access_log_stats_sized(middleware, stats, sizeof *stats);
}

UVHTTP_END_DECLS

#endif
