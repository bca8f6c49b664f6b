/* A server of large bodies, in clear and by TLS, that counts what is copied meanwhile by memcpy and memmove of anybody
 * in the process. GET /files/NAME: a file of DIRECTORY; POST /streamed: takes a body as it comes and responds with its
 * size; GET /copied: the bytes copied so far.
 *
 *   gate_bulk uring|libuv PORT HTTPS_PORT DIRECTORY */
/* Needs: static tls. */
#include <stdio.h>
#include <uvhttp.h>

#include "support/bodies.h"
#include "support/server.h"

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    uvhttp_server_config_t config;
    server_settings(&config, argv[1]);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    uvhttp_static(server, "/files", argv[4], NULL);
    uvhttp_get(server, "/copied", tell_copied, NULL);
    uvhttp_post(server, "/streamed", streamed, NULL);
    uvhttp_route_options(server, &(uvhttp_route_options_t){.stream_body = true});
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[3]);
    int status = uvhttp_server_listen_tls(server, address, tls, NULL);
    if (status == 0) {
        status = server_run(server, argv[2], "bulk");
    } else {
        fprintf(stderr, "bulk: %s\n", uvhttp_error_message(status));
        uvhttp_server_free(server);
    }
    uvhttp_tls_free(tls);
    return status == 0 ? 0 : 1;
}
