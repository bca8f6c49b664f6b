/* Owns: what of the log is not public: the clock, the lines that have no level, what is suppressed. May include: base.
 */
#ifndef UVHTTP_SRC_OBS_LOG_H
#define UVHTTP_SRC_OBS_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <uvhttp/log.h>

/* Whether a message of `level` would be logged, the rate aside: for messages whose making costs something. */
static inline bool uvhttp__log_enabled(uvhttp_log_level_t level) {
#ifdef UVHTTP_PERFORMANCE_MODE
    if (level < UVHTTP_LOG_LEVEL_WARN) return false;
#endif
    return (int)level >= __atomic_load_n(&uvhttp_log_threshold, __ATOMIC_RELAXED);
}

/* Unix time in ns in place of the system's clock; NULL: back to that. Any thread. For tests. */
void uvhttp__log_set_clock(uint64_t (*unix_ns)(void));

/* Unix time in ns, of that clock. */
uint64_t uvhttp__log_now_ns(void);

/* Logs how many messages were suppressed, if that was not logged yet. Any thread. */
void uvhttp__log_report_suppressed(void);
/* That, then uvhttp__log_writer_close. */
void uvhttp__log_server_ended(uint32_t wait_ms);

/* A line for whoever started the program, whatever the threshold: `text` alone, or in JSON a line of INFO. It goes to
 * standard error in order with the log's lines, and never to a callback. Any thread. */
void uvhttp__log_notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A file that could not be read at `offset`: an ERROR line with its path and the reason, at most one in a second; the
 * next one says how many were left out. fd: of the file; path: NULL, or what to call it where there is no descriptor.
 * error: of errno.h; 0: the file ends before it. Keeps errno. Any thread. */
void uvhttp__log_file_error(int fd, const char *path, uint64_t offset, int error);

#endif
