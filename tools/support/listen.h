/* What programs with --address, --port, --certificate and --key listen on. */
#ifndef UVHTTP_SUPPORT_LISTEN_H
#define UVHTTP_SUPPORT_LISTEN_H

#include <uvhttp.h>

#define LISTEN_TEXT_SIZE 320

/* Whether the address takes a port: "unix:/path", "fd:N" and "systemd" have none. */
bool listen_has_port(const char *address);

/* The address with the port, written into `text` of LISTEN_TEXT_SIZE bytes, unless it has none. */
const char *listen_address(const char *address, unsigned long port, char *text);

/* What the command line says of TLS. */
typedef struct listen_tls {
    const char *certificate, *key; /* PEM files; both NULL: a certificate that is made for the run */
    bool kernel;                   /* kernel_tls of the options */
} listen_tls_t;

/* port: as in uvhttp_server_listen. Returns what that returns, or UVHTTP_E_TLS_CERTIFICATE; the reason has been logged.
 */
int listen_with_tls(uvhttp_server_t *server, const char *address, const listen_tls_t *tls, uint16_t *port);

#endif
