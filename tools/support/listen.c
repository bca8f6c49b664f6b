#include "support/listen.h"

#include <stdio.h>
#include <string.h>

bool listen_has_port(const char *address) {
    return strncmp(address, "unix:", 5) != 0 && strncmp(address, "fd:", 3) != 0 && strncmp(address, "systemd", 7) != 0;
}

const char *listen_address(const char *address, unsigned long port, char *text) {
    if (!listen_has_port(address)) return address;
    bool bare_ipv6 = strchr(address, ':') && address[0] != '[';
    snprintf(text, LISTEN_TEXT_SIZE, bare_ipv6 ? "[%s]:%lu" : "%s:%lu", address, port);
    return text;
}

int listen_with_tls(uvhttp_server_t *server, const char *address, const uvhttp_server_config_t *config,
                    uint16_t *port) {
    uvhttp_tls_t *made = uvhttp_tls_from_config(config);
    if (!made) return UVHTTP_E_TLS_CERTIFICATE;
    int status = uvhttp_server_listen_tls(server, address, made, port);
    uvhttp_tls_release(made); /* the server keeps it */
    return status;
}
