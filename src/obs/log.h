/* Owns: what of the log is not public: the clock for tests, and the last word at the end. May include: base. */
#ifndef UVHTTP_SRC_OBS_LOG_H
#define UVHTTP_SRC_OBS_LOG_H

#include <uvhttp/log.h>

/* Unix time in ns in place of the system's clock; NULL: back to that. Any thread. For tests. */
void uvhttp__log_set_clock(uint64_t (*unix_ns)(void));

/* Says how many messages were suppressed if nothing has said it yet. For the end of a server. Any thread. */
void uvhttp__log_flush(void);

#endif
