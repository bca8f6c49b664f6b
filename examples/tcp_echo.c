/* The TCP server without HTTP: sends back what it gets, and reads no faster than the client does.
 *
 *   build/dist/bin/tcp_echo --port 7000 --io-threads 2     # or an address: tcp_echo unix:/tmp/echo.sock
 *   printf 'hello\n' | nc -q1 127.0.0.1 7000
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

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

/* --- options --- */

typedef struct options {
    const char *address; /* NULL: 127.0.0.1 with the port */
    unsigned long port, io_threads;
    int engine; /* uvhttp_engine_t */
} options_t;

static void usage(void) {
    puts("Usage: tcp_echo [options] [ADDRESS]\n"
         "  --port N         on 127.0.0.1, 0..65535; 0: chosen by the kernel (default 7000)\n"
         "  --io-threads N   0..1024; 0: one per CPU (default 0)\n"
         "  --engine ENGINE  auto, uring or libuv (default auto)\n"
         "  --help\n"
         "ADDRESS instead of --port: host:port, [v6]:port, *:port, unix:/path, fd:N or systemd");
}

static void refuse(const char *name, const char *value, const char *range) {
    fprintf(stderr, "tcp_echo: %s '%s': %s\n", name, value, range);
    exit(2);
}

static unsigned long parse_number(const char *name, const char *value, unsigned long max, const char *range) {
    unsigned long number = 0;
    if (*value == '\0') refuse(name, value, range);
    for (const char *at = value; *at; ++at) {
        if (*at < '0' || *at > '9') refuse(name, value, range);
        number = number * 10 + (unsigned long)(*at - '0');
        if (number > max) refuse(name, value, range);
    }
    return number;
}

static int parse_engine(const char *value) {
    static const char *const names[] = {"auto", "uring", "libuv"};
    for (int i = 0; i < 3; ++i) {
        if (strcmp(value, names[i]) == 0) return i;
    }
    refuse("--engine", value, "allowed are auto, uring, libuv");
    return 0;
}

/* "--name value" or "--name=value": the value, or NULL if argument is another option. */
static const char *option_value(const char *name, char **argv, int *index) {
    const char *argument = argv[*index];
    size_t size = strlen(name);
    if (strncmp(argument, name, size) != 0) return NULL;
    if (argument[size] == '=') return argument + size + 1;
    if (argument[size] != '\0') return NULL;
    if (!argv[*index + 1]) refuse(name, "", "needs a value");
    return argv[++*index];
}

static void parse_options(options_t *options, int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const char *value;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage();
            exit(0);
        } else if ((value = option_value("--port", argv, &i))) {
            options->port = parse_number("--port", value, 65535, "allowed is 0..65535");
        } else if ((value = option_value("--io-threads", argv, &i))) {
            options->io_threads = parse_number("--io-threads", value, 1024, "allowed is 0..1024");
        } else if ((value = option_value("--engine", argv, &i))) {
            options->engine = parse_engine(value);
        } else if (argv[i][0] != '-' && !options->address) {
            options->address = argv[i];
        } else {
            refuse("option", argv[i], "unknown; --help lists the options");
        }
    }
}

int main(int argc, char **argv) {
    options_t options = {.port = 7000};
    parse_options(&options, argc, argv);

    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.io_threads = (uint32_t)options.io_threads;
    config.engine = options.engine;
    const uvhttp_tcp_handlers_t handlers = {.on_data = on_data, .on_drain = on_drain};
    uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(&config, &handlers, NULL);
    if (!server) return 1; /* what is wrong has been logged, here and below */

    char text[32];
    uint16_t port = 0;
    snprintf(text, sizeof text, "127.0.0.1:%lu", options.port);
    const char *address = options.address ? options.address : text;
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
