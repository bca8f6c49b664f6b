/* Owns: the log: levels, destinations, and the macros that write messages. May include: base. */
#ifndef UVHTTP_LOG_H
#define UVHTTP_LOG_H

#include <uvhttp/error.h>

UVHTTP_BEGIN_DECLS

typedef enum uvhttp_log_level {
    UVHTTP_LOG_LEVEL_DEBUG,
    UVHTTP_LOG_LEVEL_INFO,
    UVHTTP_LOG_LEVEL_WARN,
    UVHTTP_LOG_LEVEL_ERROR,
    UVHTTP_LOG_LEVEL_NONE /**< as a threshold only: nothing is logged */
} uvhttp_log_level_t;

/** The format of a line on standard error. */
typedef enum uvhttp_log_format {
    UVHTTP_LOG_FORMAT_TEXT, /**< 2026-01-09T22:30:00.123Z WARN  io: message */
    UVHTTP_LOG_FORMAT_JSON  /**< {"time":"...","level":"WARN","area":"io","message":"..."}, one object per line */
} uvhttp_log_format_t;

/** The maximum number of lines per second of each level, over all threads. Lines above it are suppressed. The next line
 * of that level is preceded by a line with their number. */
#ifndef UVHTTP_MAX_LOGS_PER_SECOND
#define UVHTTP_MAX_LOGS_PER_SECOND 100
#endif

/** The maximum size of a message in bytes, after formatting and escaping, without the terminating NUL. A longer message
 * ends in "...". */
#define UVHTTP_LOG_MESSAGE_MAX 1024

/** Sets the threshold: messages of `level` and above are logged. Before the first call, the environment variable
 * UVHTTP_LOG_LEVEL sets it: debug, info, warn, error or none, in any case. Without that variable it is WARN in a
 * library built with NDEBUG, and INFO otherwise. Returns 0 or UVHTTP_E_INVALID. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_set_level(uvhttp_log_level_t level);

/** Returns the current threshold. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_log_level_t uvhttp_log_get_level(void);

/** Parses debug, info, warn, error or none, in any case. Returns 0 or UVHTTP_E_INVALID; on failure *level is unchanged.
 * Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_level_parse(const char *text, uvhttp_log_level_t *level);

/** Returns "DEBUG", "INFO", "WARN", "ERROR" or "NONE". Static storage. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD const char *uvhttp_log_level_name(uvhttp_log_level_t level);

/** Sets the format of lines. Before the first call, the environment variable UVHTTP_LOG_FORMAT sets it: text or json,
 * in any case; without it: text. The callback of uvhttp_log_set_callback gets the same messages in both. Returns 0 or
 * UVHTTP_E_INVALID. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_set_format(uvhttp_log_format_t format);

/** Returns the current format. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD uvhttp_log_format_t uvhttp_log_get_format(void);

/** Parses text or json, in any case. Returns 0 or UVHTTP_E_INVALID; on failure *format is unchanged. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_format_parse(const char *text, uvhttp_log_format_t *format);

/** Receives a message: one terminated line without time, level and newline, with control characters escaped. The
 * message is valid during the call. Runs on the logging thread, which may be a loop: it must not block. One call at a
 * time. Messages that the callback itself logs are dropped. */
typedef void (*uvhttp_log_cb)(uvhttp_log_level_t level, const char *message, size_t size, void *user);

/** Sends messages to `cb` instead of stderr; NULL restores stderr. When the call returns, the previous callback is not
 * running and is not called again. Returns 0, or UVHTTP_E_STATE when called inside the callback. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_set_callback(uvhttp_log_cb cb, void *user);

/** Sets the maximum number of lines per second of each level, 1..1000000; 0 removes the maximum. Default
 * UVHTTP_MAX_LOGS_PER_SECOND. Returns 0 or UVHTTP_E_INVALID. Any thread. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_set_rate_limit(uint32_t per_second);

/** Writes one line if `level` is at or above the threshold and the rate permits it. Never fails, and preserves errno.
 * Prefer the macros: they cost one load when the level is filtered out. Any thread, but not a signal handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD void uvhttp_log(uvhttp_log_level_t level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Waits until the lines that were logged before the call are written, at most `timeout_ms` milliseconds. While a
 * server runs, a thread writes the lines, so that no loop waits for standard error. A stopping server and exit() do
 * this themselves. Call it before the process ends in another way: _exit, abort, exec. Returns 0, or UVHTTP_E_TIMEOUT
 * if standard error does not accept the lines. Preserves errno. Any thread, but not a signal handler. */
UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_flush(uint32_t timeout_ms);

/** Counters of log lines since the process started. Lines passed to a callback are not counted. */
typedef struct uvhttp_log_stats_s {
    uint64_t lines;      /**< written completely to standard error */
    uint64_t bytes;      /**< written, including incomplete lines */
    uint64_t suppressed; /**< above the maximum per second */
    uint64_t dropped;    /**< not written, because 256 KiB of lines were already queued for standard error */
    uint64_t failed;     /**< write(2) failed: disk full, pipe closed */
} uvhttp_log_stats_t;

UVHTTP_EXPORT UVHTTP_ANY_THREAD int uvhttp_log_stats_sized(uvhttp_log_stats_t *stats, size_t stats_size);
/** Fills *stats. Returns 0 or UVHTTP_E_INVALID. Any thread. */
static inline int uvhttp_log_stats(uvhttp_log_stats_t *stats) {
    return uvhttp_log_stats_sized(stats, sizeof *stats);
}

/** The threshold as a number, or -1 before the environment is read. For the macros only; use uvhttp_log_get_level()
 * elsewhere. */
extern UVHTTP_EXPORT int uvhttp_log_threshold;

#define UVHTTP__LOG(level, ...)                                                                                        \
    do {                                                                                                               \
        if ((int)(level) >= __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED))                                  \
            uvhttp_log((level), __VA_ARGS__);                                                                          \
    } while (0)
/* Compiles the arguments, so that they stay correct, and generates no code. */
#define UVHTTP__LOG_NOTHING(level, ...)                                                                                \
    do {                                                                                                               \
        if (0) uvhttp_log((level), __VA_ARGS__);                                                                       \
    } while (0)

/* A message starts with the name of its folder: UVHTTP_LOG_WARN("io: accept paused: %s", reason). With
 * UVHTTP_PERFORMANCE_MODE defined, DEBUG and INFO statements generate no code. */
#ifdef UVHTTP_PERFORMANCE_MODE
#define UVHTTP_LOG_DEBUG(...) UVHTTP__LOG_NOTHING(UVHTTP_LOG_LEVEL_DEBUG, __VA_ARGS__)
#define UVHTTP_LOG_INFO(...) UVHTTP__LOG_NOTHING(UVHTTP_LOG_LEVEL_INFO, __VA_ARGS__)
#else
#define UVHTTP_LOG_DEBUG(...) UVHTTP__LOG(UVHTTP_LOG_LEVEL_DEBUG, __VA_ARGS__)
#define UVHTTP_LOG_INFO(...) UVHTTP__LOG(UVHTTP_LOG_LEVEL_INFO, __VA_ARGS__)
#endif
#define UVHTTP_LOG_WARN(...) UVHTTP__LOG(UVHTTP_LOG_LEVEL_WARN, __VA_ARGS__)
#define UVHTTP_LOG_ERROR(...) UVHTTP__LOG(UVHTTP_LOG_LEVEL_ERROR, __VA_ARGS__)

UVHTTP_END_DECLS

#endif
