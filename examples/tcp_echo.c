/* The TCP server without HTTP: sends back what it gets, and reads no faster than the client does.
 *
 *   build/dist/bin/tcp_echo --port 7000 --io-threads 2     # or an address: tcp_echo unix:/tmp/echo.sock
 *   printf 'hello\n' | nc -q1 127.0.0.1 7000
 */
#include <stdio.h>
#include <uvhttp.h>

#include "support/options.h"

/* --- the server --- */

/* What is sent waits in a queue until the client takes it. When the queue is long, reading pauses until it is empty, so
 * that a client that sends and never reads costs a bounded amount of memory. */
static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    int status = uvhttp_tcp_send(tcp, data, size, NULL);
    if (status == UVHTTP_E_AGAIN)
        uvhttp_tcp_pause(tcp);
    else if (status != 0)
        uvhttp_tcp_reset(tcp); /* out of memory: better no end than an echo with a hole */
}

static void on_drain(uvhttp_tcp_t *tcp, void *user) {
    (void)user;
    uvhttp_tcp_resume(tcp);
}

int main(int argc, char **argv) {
    (void)argc;
    const char *address = NULL;
    unsigned long port_given = 7000, io_threads = 0;
    int engine = 0; /* uvhttp_engine_t */
    const option_t table[] = {
        {"--port", OPTION_NUMBER, &port_given, 0, 65535,
         .help = "on 127.0.0.1, 0..65535; 0: chosen by the kernel (default 7000)"},
        {"--io-threads", OPTION_NUMBER, &io_threads, 0, 1024, .help = "0..1024; 0: one per CPU (default 0)"},
        {"--engine", OPTION_CHOICE, &engine, .choices = "auto, uring, epoll",
         .help = "auto, uring or epoll (default auto)"},
    };
    options_parse(
        &(options_t){.program = "tcp_echo",
                     .table = table,
                     .count = sizeof table / sizeof table[0],
                     .positional = &address,
                     .notes = "ADDRESS instead of --port: host:port, [v6]:port, *:port, unix:/path, fd:N or systemd"},
        argv);

    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.io_threads = (uint32_t)io_threads;
    config.engine = engine;
    const uvhttp_tcp_handlers_t handlers = {.on_data = on_data, .on_drain = on_drain};
    uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(&config, &handlers, NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */

    char text[32];
    uint16_t port = 0;
    snprintf(text, sizeof text, "127.0.0.1:%lu", port_given);
    if (!address) address = text;
    int status = uvhttp_tcp_server_listen(server, address, &port);
    if (status == 0) {
        if (port)
            fprintf(stderr, "tcp_echo: listening on %s, port %u\n", address, (unsigned)port);
        else
            fprintf(stderr, "tcp_echo: listening on %s\n", address);
        status = uvhttp_tcp_server_run(server, NULL); /* until SIGINT or SIGTERM, drained */
    }
    uvhttp_tcp_server_free(server);
    return status != 0;
}
