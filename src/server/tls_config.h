/* Owns: TLS from the fields of a configuration. May include: as server.h. */
#ifndef UVHTTP_SRC_SERVER_TLS_CONFIG_H
#define UVHTTP_SRC_SERVER_TLS_CONFIG_H

#include <uvhttp/server.h>

/* Reads the files again, all or none. config NULL: the files alone. *count: listeners whose files were read. Returns as
 * uvhttp_server_reload. */
int uvhttp__server_reload_tls(uvhttp_server_t *server, const uvhttp_server_config_t *config, unsigned *count,
                              char *message, size_t size);

#endif
