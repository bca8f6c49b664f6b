/* Owns: what of the log is not public: the clock for tests, and the last word at the end. May include: base. */
#ifndef UVHTTP_SRC_OBS_LOG_H
#define UVHTTP_SRC_OBS_LOG_H

#include <stdint.h>
#include <uvhttp/log.h>

/* Unix time in ns in place of the system's clock; NULL: back to that. Any thread. For tests. */
void uvhttp__log_set_clock(uint64_t (*unix_ns)(void));

/* Says how many messages were suppressed if nothing has said it yet. For the end of a server. Any thread. */
void uvhttp__log_flush(void);

/* A file that could not be read at `offset`: an ERROR line with its path and the reason, at most one in a second; the
 * next one says how many were left out. fd: of the file; path: NULL, or what to call it where there is no descriptor.
 * error: of errno.h; 0: the file ends before it. Keeps errno. Any thread. */
void uvhttp__log_file_error(int fd, const char *path, uint64_t offset, int error);

#endif
