/* Owns: what servers of the gates have in common: settings that keep all that is not counted still, and running until
 * SIGTERM. For one source file of a program. */
#ifndef UVHTTP_TEST_GATES_SERVER_H
#define UVHTTP_TEST_GATES_SERVER_H

#include <stdio.h>
#include <string.h>
#include <uvhttp.h>

static void server_settings(uvhttp_server_config_t *config, const char *engine) {
    uvhttp_server_config_default(config);
    config->engine = strcmp(engine, "uring") == 0 ? UVHTTP_ENGINE_URING : UVHTTP_ENGINE_EPOLL;
    config->io_threads = 1;
    config->quiet = true;
    config->handler_warn_ms = config->worker_warn_ms = UVHTTP_NEVER;
    config->worker_idle_timeout = UVHTTP_NEVER;
}

/* Runs it, and frees it. Returns what main returns. */
static int server_run(uvhttp_server_t *server, const char *port, const char *program) {
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    int status = uvhttp_server_run(server, address);
    if (status != 0) fprintf(stderr, "%s: %s\n", program, uvhttp_error_message(status));
    uvhttp_server_free(server);
    return status == 0 ? 0 : 1;
}

#endif
