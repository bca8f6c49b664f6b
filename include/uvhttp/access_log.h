/* Owns: the access log: a line per request, written by a thread of its own. docs/access_log.md. */
#ifndef UVHTTP_ACCESS_LOG_H
#define UVHTTP_ACCESS_LOG_H

#include <uvhttp/route.h>

UVHTTP_BEGIN_DECLS

typedef enum uvhttp_access_log_format {
    UVHTTP_ACCESS_LOG_COMBINED, /**< as common, and Referer and User-Agent (default) */
    UVHTTP_ACCESS_LOG_COMMON,   /**< client - user [time] "request line" status bytes */
    UVHTTP_ACCESS_LOG_JSON      /**< one object per line, with duration_us, host and request_id */
} uvhttp_access_log_format_t;

/** Zero is the default everywhere. Strings are copied. Lines go to `write` if it is set, else to `path` if it is set,
 * else to `fd`. */
typedef struct uvhttp_access_log_options {
    uvhttp_access_log_format_t format;
    const char *path; /**< a file that is appended to; made with mode 0640 if there is none. A FIFO is not waited for:
                         while nobody reads it, lines are lost and counted */
    int fd;           /**< a descriptor, which stays the caller's and must stay open; default 1: standard output */
    /** Gets whole lines, many at once, on the log's thread; may block: what comes meanwhile waits, and is dropped when
     * there is no more room. */
    void (*write)(const char *lines, size_t size, void *user);
    void *user;         /**< for `write`; must live as long as the server */
    uint32_t ring_size; /**< bytes of waiting requests per loop, a power of two, 65536..1 GiB; default 1 MiB */
    uint32_t flush_ms;  /**< how long a line may wait for others, 1..60000; default 200 */
} uvhttp_access_log_options_t;

/** A middleware that notes every request that it sees when its answer is out, or given up: status 499 when the client
 * has gone before there was an answer. Register it first. Costs the loop a copy of the fields; formatting and writing
 * are the thread's, which begins with the first request. When the thread cannot keep up, requests are dropped,
 * counted, and a line says how many. The rest is written when the server is freed.
 *
 * On failure (an option out of range, a file that cannot be opened, no memory) the log says what, and `run` is NULL:
 * registering it then returns UVHTTP_E_INVALID. options NULL: defaults. Any thread, before the server runs. */
UVHTTP_EXPORT uvhttp_middleware_t uvhttp_access_log(const uvhttp_access_log_options_t *options);

/** Opens `path` anew, soon, so that a file that was renamed can be rotated; if that fails, the old one is kept and the
 * log says why. Any thread, and a signal handler, as long as the server that it is registered on exists. Returns 0, or
 * UVHTTP_E_INVALID when `middleware` is no access log with a path. */
UVHTTP_EXPORT int uvhttp_access_log_reopen(uvhttp_middleware_t middleware);

typedef struct uvhttp_access_log_stats_s {
    uint64_t lines;   /**< written whole */
    uint64_t bytes;   /**< written, also of a line that is not whole yet */
    uint64_t dropped; /**< requests for which there was no room or no thread */
    uint64_t failed;  /**< lines that could not be written */
    uint64_t reopened;
} uvhttp_access_log_stats_t;

/** What the log has done so far. As uvhttp_access_log_reopen, but no signal handler. Returns 0 or UVHTTP_E_INVALID. */
UVHTTP_EXPORT int uvhttp_access_log_stats(uvhttp_middleware_t middleware, uvhttp_access_log_stats_t *stats);

UVHTTP_END_DECLS

#endif
