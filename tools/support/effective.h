/* The configuration that a running server is using, as JSON. */
#ifndef UVHTTP_SUPPORT_EFFECTIVE_H
#define UVHTTP_SUPPORT_EFFECTIVE_H

#include <uvhttp.h>

/* {"build_info": "...", "engine": "io_uring", "log_level": "warn", "settings": {"io_threads": {"default": false,
 * "value": "2"}, ...}}: the I/O backend and the log level in force, and every field of the configuration. Valid until
 * free(); NULL when out of memory. */
char *effective_json(const uvhttp_server_t *server, const uvhttp_server_config_t *config);

#endif
