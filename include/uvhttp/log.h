/* Owns: the log: levels, where lines go, and the macros that write them. May include: base. */
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

/** Lines a second, all threads together, all levels alike; the rest is dropped, and the next line that comes through is
 * preceded by one that says how many were. */
#ifndef UVHTTP_MAX_LOGS_PER_SECOND
#define UVHTTP_MAX_LOGS_PER_SECOND 100
#endif

/** Bytes of a message after formatting and escaping, without the terminating NUL; a longer one ends in "...". */
#define UVHTTP_LOG_MESSAGE_MAX 1024

/** Logs messages of `level` and above. Until it is called the level is what the environment variable UVHTTP_LOG_LEVEL
 * says (debug, info, warn, error or none, any case), else WARN in a library built with NDEBUG and INFO in others. Any
 * thread. Returns 0 or UVHTTP_E_INVALID. */
UVHTTP_EXPORT int uvhttp_log_set_level(uvhttp_log_level_t level);

/** The present threshold. Any thread. */
UVHTTP_EXPORT uvhttp_log_level_t uvhttp_log_get_level(void);

/** Parses debug, info, warn, error, none in any case. Returns 0 or UVHTTP_E_INVALID (*level is left alone). Any thread.
 */
UVHTTP_EXPORT int uvhttp_log_level_parse(const char *text, uvhttp_log_level_t *level);

/** "DEBUG", "INFO", "WARN", "ERROR", "NONE". Static storage; any thread. */
UVHTTP_EXPORT const char *uvhttp_log_level_name(uvhttp_log_level_t level);

/** Takes a message: one line, without time, level and newline, control characters escaped, terminated; valid in the
 * call. Runs on the thread that logs, one call at a time. What it logs itself is dropped. */
typedef void (*uvhttp_log_cb)(uvhttp_log_level_t level, const char *message, size_t size, void *user);

/** Lets messages go to `cb` in place of stderr; NULL: back to stderr. When it returns, the former callback is not
 * running and will not be called again. Any thread, but not inside the callback: that returns UVHTTP_E_STATE. Returns 0
 * otherwise. */
UVHTTP_EXPORT int uvhttp_log_set_callback(uvhttp_log_cb cb, void *user);

/** Sets the limit of lines a second, 1..1000000; 0: no limit. Default UVHTTP_MAX_LOGS_PER_SECOND. Any thread.
 * Returns 0 or UVHTTP_E_INVALID. */
UVHTTP_EXPORT int uvhttp_log_set_rate_limit(uint32_t per_second);

/** Writes one line if `level` is at or above the threshold and the rate allows it. Never fails and keeps errno; use the
 * macros, which cost one load when the level is filtered out. Any thread; not in a signal handler. */
UVHTTP_EXPORT void uvhttp_log(uvhttp_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The threshold as a number, or -1 before the environment was read. For the macros: others call
 * uvhttp_log_get_level().
 */
extern UVHTTP_EXPORT int uvhttp_log_threshold;

#define UVHTTP__LOG(level, ...)                                                                                        \
    do {                                                                                                               \
        if ((int)(level) >= __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED))                                  \
            uvhttp_log((level), __VA_ARGS__);                                                                          \
    } while (0)
/* Compiles the arguments, so that they do not rot, and leaves no code. */
#define UVHTTP__LOG_NOTHING(level, ...)                                                                                \
    do {                                                                                                               \
        if (0) uvhttp_log((level), __VA_ARGS__);                                                                       \
    } while (0)

/* The message starts with the folder that speaks: UVHTTP_LOG_WARN("io: accept paused: %s", why). With
 * UVHTTP_PERFORMANCE_MODE defined the statements of DEBUG and INFO are not in the program. */
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
