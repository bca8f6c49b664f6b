/* Lines of requests for a person at a terminal. */
#ifndef UVHTTP_CLI_ACCESS_H
#define UVHTTP_CLI_ACCESS_H

#include <stdbool.h>
#include <stddef.h>

/* For uvhttp_access_log_options_t.write, with UVHTTP_ACCESS_LOG_JSON: writes to standard output. user: access_t. */
typedef struct access {
    bool color;
} access_t;
void access_write(const char *lines, size_t size, void *user);

#endif
