/* A server whose requests wait: GET /wait is deferred, and its handle is kept until the server has stopped. What the
 * program itself keeps of each is 8 bytes.
 *
 *   gate_memory uring|libuv PORT */
#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

enum { WAITING_MAX = 200000, CONNECTIONS_MAX = 10000 };

static uvhttp_deferred_t *waiting[WAITING_MAX];
static size_t waiting_count;

static void wait_for_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (waiting_count < WAITING_MAX) waiting[waiting_count++] = uvhttp_response_defer(res);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.engine = strcmp(argv[1], "uring") == 0 ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_LIBUV;
    config.io_threads = 1;
    config.quiet = true;
    config.max_connections = CONNECTIONS_MAX;
    config.handler_warn_ms = config.worker_warn_ms = 0;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_get(server, "/wait", wait_for_it, NULL);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[2]);
    int status = uvhttp_server_run(server, address);
    if (status != 0) fprintf(stderr, "memory: %s\n", uvhttp_error_message(status));
    uvhttp_server_free(server);
    for (size_t i = 0; i < waiting_count; i++) uvhttp_deferred_release(waiting[i]);
    return status == 0 ? 0 : 1;
}
