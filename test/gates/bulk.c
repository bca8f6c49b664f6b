/* A server of large bodies, in clear and by TLS, that counts what is copied meanwhile by memcpy and memmove of anybody
 * in the process. GET /files/NAME: a file of DIRECTORY; POST /streamed: takes a body as it arrives and responds with
 * its size; GET /counts: so far the bytes copied, the pieces of such bodies, and the loop iterations.
 *
 *   gate_bulk uring|epoll PORT HTTPS_PORT DIRECTORY */
/* Needs: static tls. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

#include "support/bodies.h"
#include "support/server.h"

static void see_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help;
    if (strcmp(name, "engine_iterations") == 0) *(uint64_t *)user = value;
}

static void report_counts(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uint64_t iterations = 0;
    uvhttp_server_counters(user, see_counter, &iterations);
    char text[80];
    snprintf(text, sizeof text, "%llu %llu %" PRIu64, atomic_load(&copied), piece_count, iterations);
    uvhttp_response_text(res, 200, text);
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    uvhttp_server_config_t config;
    server_settings(&config, argv[1]);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_tls_t *tls = uvhttp_tls_development(NULL);
    uvhttp_static(server, "/files", argv[4], NULL);
    uvhttp_get(server, "/counts", report_counts, server);
    uvhttp_route_options(uvhttp_post(server, "/streamed", streamed, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[3]);
    int status = uvhttp_server_listen_tls(server, address, tls, NULL);
    if (status == 0) {
        status = server_run(server, argv[2], "bulk");
    } else {
        fprintf(stderr, "bulk: %s\n", uvhttp_error_message(status));
        uvhttp_server_free(server);
    }
    uvhttp_tls_release(tls);
    return status == 0 ? 0 : 1;
}
