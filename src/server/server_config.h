/* Owns: what a server takes of a configuration, and the text of its last error. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_SERVER_CONFIG_H
#define UVHTTP_SRC_SERVER_SERVER_CONFIG_H

#include <errno.h>
#include <uvhttp/server.h>

/* *config becomes what is given, checked and made whole (it may be of an older, shorter header; NULL: the defaults).
 * Returns 0 or UVHTTP_E_CONFIG, and says why. */
int uvhttp__server_copy_config(const uvhttp_server_config_t *given, uvhttp_server_config_t *config, char *message,
                               size_t size);
/* A reload has applied what it can of *config. Without memory the next one lists these changes once more. */
void uvhttp__server_keep_applied(uvhttp_server_t *server, const uvhttp_server_config_t *config);
/* What holds now: the configuration of the start, and the fields that reloads have applied. Any thread. */
void uvhttp__server_read_config(uvhttp_server_t *server, uvhttp_server_config_t *config);
/* Level and format of the log, which are the process's. */
void uvhttp__server_apply_log(const uvhttp_server_config_t *config);
/* The same at the start of a server: with the defaults it leaves what another server has set. */
void uvhttp__server_start_log(const uvhttp_server_config_t *config);
/* That spooled bodies can be written, as the current user. Remembers what is in the way. */
int uvhttp__server_try_spool(uvhttp_server_t *server);
/* The code of a file that cannot be made where the configuration names it, from errno. */
static inline int uvhttp__server_file_code(int error) {
    return error == EACCES || error == EPERM || error == EROFS ? UVHTTP_E_PERMISSION : UVHTTP_E_IO;
}
/* Keeps the text for uvhttp_server_error_text, logs it as an error, and returns `status`. */
UVHTTP_PRINTF(3, 4) int uvhttp__server_remember(uvhttp_server_t *server, int status, const char *format, ...);

#endif
