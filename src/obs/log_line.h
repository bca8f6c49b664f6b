/* Owns: from a message to the bytes of a line. May include: base. */
#ifndef UVHTTP_SRC_OBS_LOG_LINE_H
#define UVHTTP_SRC_OBS_LOG_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvhttp/log.h>

/* A line with its time, level, area and newline. */
#define UVHTTP__LOG_LINE_MAX (UVHTTP_LOG_MESSAGE_MAX + 192)

/* A message as `format` shows it, escaped and terminated. Returns its size. It ends in "..." if it does not fit, or if
 * `cut` says that `text` is incomplete. */
size_t uvhttp__log_escape(uvhttp_log_format_t format, const char *text, size_t size, bool cut,
                          char out[UVHTTP_LOG_MESSAGE_MAX + 1]);

/* The line of a message that was escaped for `format`, with its newline. trace_id: that it belongs to, of at most 32
 * characters, or "". Returns its size. */
size_t uvhttp__log_line(uvhttp_log_format_t format, uvhttp_log_level_t level, const char *message, const char *trace_id,
                        uint64_t now_ns, char line[UVHTTP__LOG_LINE_MAX]);

#endif
