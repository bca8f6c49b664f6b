/* Owns: how lines of the log reach standard error. May include: base. */
#ifndef UVHTTP_SRC_OBS_LOG_WRITER_H
#define UVHTTP_SRC_OBS_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/log.h>

/* Bytes of lines that wait for standard error. */
#define UVHTTP__LOG_RING_SIZE (256u * 1024)
/* A line below WARN is dropped when more than this waits, so that a flood of DEBUG lines leaves space for errors. */
#define UVHTTP__LOG_RING_MINOR_MAX (UVHTTP__LOG_RING_SIZE / 4 * 3)
/* How long the thread continues behind the end of the last server when standard error accepts nothing. */
#define UVHTTP__LOG_LAST_MS 2000
/* How long the end of a server, or of the process, waits for the thread: it looks at the time every 100 ms. */
#define UVHTTP__LOG_CLOSE_MS 2500
/* The same for a server in a loop of the application, which has other things to do. */
#define UVHTTP__LOG_CLOSE_ATTACHED_MS 50

/* A server begins to run: until the matching close, lines are written by a thread, and whoever logs never waits for
 * standard error. The thread starts with the first line. Calls may nest. Any thread. */
void uvhttp__log_writer_open(void);
/* Whether standard error accepts a line at once. */
bool uvhttp__log_writer_accepts(void);
/* The server has ended. The last close ends the thread, and waits up to `wait_ms` until it has written everything. */
void uvhttp__log_writer_close(uint32_t wait_ms);
/* As uvhttp_log_flush and uvhttp_log_stats, but for what was suppressed, which is not a matter of writing. */
int uvhttp__log_writer_flush(uint32_t timeout_ms);
void uvhttp__log_writer_stats(uvhttp_log_stats_t *stats);

/* One line with its newline, of at most UVHTTP__LOG_LINE_MAX bytes. Without a server that runs it is written before
 * this returns. Preserves errno. Any thread, but not a signal handler. */
void uvhttp__log_write(uvhttp_log_level_t level, const char *line, size_t size);

#endif
