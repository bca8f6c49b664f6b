/* A server whose requests wait: GET /wait is deferred, and its handle is kept until the server has stopped. What the
 * program itself keeps of each is 8 bytes.
 *
 *   gate_memory uring|epoll PORT */
#include <uvhttp.h>

#include "support/server.h"

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
    server_settings(&config, argv[1]);
    config.max_connections = CONNECTIONS_MAX;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    uvhttp_get(server, "/wait", wait_for_it, NULL);
    int code = server_run(server, argv[2], "memory");
    for (size_t i = 0; i < waiting_count; i++) uvhttp_deferred_release(waiting[i]);
    return code;
}
