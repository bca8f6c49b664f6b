/* What programs with --address, --port and the tls_* fields listen on. */
#ifndef UVHTTP_SUPPORT_LISTEN_H
#define UVHTTP_SUPPORT_LISTEN_H

#include <uvhttp.h>

#define LISTEN_TEXT_SIZE 320

/* Whether the address takes a port: "unix:/path", "fd:N" and "systemd" have none. */
bool listen_has_port(const char *address);

/* The address with the port, written into `text` of LISTEN_TEXT_SIZE bytes, unless it has none. */
const char *listen_address(const char *address, unsigned long port, char *text);

/* With the tls_* fields of the configuration; without a certificate with one that is made for the run. port: as in
 * uvhttp_server_listen. Returns what that returns, or UVHTTP_E_TLS_CERTIFICATE; the reason has been logged. */
int listen_with_tls(uvhttp_server_t *server, const char *address, const uvhttp_server_config_t *config, uint16_t *port);

#endif
