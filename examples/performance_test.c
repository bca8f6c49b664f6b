/* The server that the performance standard measures. It prints nothing on the request path.
 *
 *   build/dist/bin/performance_test        # HTTP on 127.0.0.1:8080, HTTPS on 8443; --help lists the options
 *   curl http://127.0.0.1:8080/            # Hello, World!
 *   curl http://127.0.0.1:8080/api
 *   curl -d '{"test":"data"}' http://127.0.0.1:8080/api
 *   curl -o /dev/null http://127.0.0.1:8080/large/1mb
 *   curl http://127.0.0.1:8080/count       # visits
 *   curl -o /dev/null http://127.0.0.1:8080/static/10kb.bin
 *   curl -k https://127.0.0.1:8443/        # with a certificate that it makes for itself
 *   python3 -m websockets ws://127.0.0.1:8080/ws
 *   wrk -t2 -c10 -d10s http://127.0.0.1:8080/
 */
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvhttp.h>

static const char hello_text[] = "Hello, World!";
static const char api_json[] = "{\"message\":\"Hello, World!\",\"status\":\"ok\"}";
static const char deleted_json[] = "{\"deleted\":true}";

#define LARGE_MAX (1024 * 1024)
static char large[LARGE_MAX];

typedef struct size_route {
    const char *pattern;
    const char *file; /* of the same size, below /static/ */
    size_t size;      /* bytes */
} size_route_t;

static const size_route_t size_routes[] = {
    {"/large/1kb", "1kb.bin", 1024},
    {"/large/10kb", "10kb.bin", 10 * 1024},
    {"/large/100kb", "100kb.bin", 100 * 1024},
    {"/large/1mb", "1mb.bin", LARGE_MAX},
};
#define SIZE_ROUTES (sizeof size_routes / sizeof size_routes[0])

/* --- handlers --- */

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/plain", hello_text, sizeof hello_text - 1);
}

static void get_api(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "application/json", api_json, sizeof api_json - 1);
}

static void echo_api(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "application/json", body.data, body.size);
}

static void delete_api(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "application/json", deleted_json, sizeof deleted_json - 1);
}

static void get_large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const size_route_t *route = user;
    uvhttp_response_send_static(res, 200, "application/octet-stream", large, route->size);
}

static void count_visit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    atomic_ulong *visits = user;
    char text[32];
    int size = snprintf(text, sizeof text, "%lu", atomic_fetch_add_explicit(visits, 1, memory_order_relaxed) + 1);
    uvhttp_response_send(res, 200, "text/plain", text, (size_t)size);
}

#if UVHTTP_WITH_WEBSOCKET
static void echo_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, message.type, message.data, message.size) == UVHTTP_E_AGAIN) uvhttp_ws_pause(ws);
}

static void go_on_reading(uvhttp_ws_t *ws, void *user) {
    (void)user;
    uvhttp_ws_resume(ws);
}
#endif

/* --- files for /static --- */

#if UVHTTP_WITH_STATIC
static char made_directory[] = "/tmp/uvhttp-performance-XXXXXX";

static void remove_files(void) {
    char path[128];
    for (size_t i = 0; i < SIZE_ROUTES; ++i) {
        snprintf(path, sizeof path, "%s/%s", made_directory, size_routes[i].file);
        unlink(path);
    }
    rmdir(made_directory);
}

/* A directory with a file of each size, which goes when the program ends; NULL if it can not be made. */
static const char *make_files(void) {
    if (!mkdtemp(made_directory)) return NULL;
    for (size_t i = 0; i < SIZE_ROUTES; ++i) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", made_directory, size_routes[i].file);
        FILE *file = fopen(path, "wb");
        bool written = file && fwrite(large, 1, size_routes[i].size, file) == size_routes[i].size;
        if (!file || fclose(file) != 0 || !written) {
            remove_files();
            return NULL;
        }
    }
    return made_directory;
}
#else
static void remove_files(void) {}
#endif

/* --- options --- */

#define NONE ULONG_MAX
#define HTTPS_PORT (UVHTTP_WITH_TLS ? 8443 : NONE) /* a build without TLS serves HTTP alone */

typedef struct options {
    const char *address, *files, *certificate, *key;
    unsigned long port, https_port, io_threads;
    bool sendfile;
    uvhttp_engine_t engine;
} options_t;

static void usage(void) {
    puts("Usage: performance_test [options]\n"
         "  --address ADDRESS    IP address, or unix:/path, fd:N, systemd (default 127.0.0.1)\n"
         "  --port N             0..65535; 0: chosen by the kernel (default 8080)\n"
         "  --https-port N       the same for HTTPS, or off (default 8443; off when --port is given)\n"
         "  --certificate FILE   PEM, with --key FILE; default: a certificate that it makes for itself\n"
         "  --static DIR         what is below /static/ (default: a file of each size, made for the run)\n"
         "  --sendfile WHEN      auto (large files) or off (default auto)\n"
         "  --io-threads N       0..1024; 0: one per CPU (default 0)\n"
         "  --engine ENGINE      auto, uring or libuv (default auto)\n"
         "  --version            version, and what this program was built with\n"
         "  --help");
}

static void refuse(const char *name, const char *value, const char *range) {
    fprintf(stderr, "performance_test: %s '%s': %s\n", name, value, range);
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

static uvhttp_engine_t parse_engine(const char *value) {
    static const char *const names[] = {"auto", "uring", "libuv"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; ++i) {
        if (strcmp(value, names[i]) == 0) return (uvhttp_engine_t)i;
    }
    refuse("--engine", value, "allowed are auto, uring, libuv");
    return UVHTTP_ENGINE_AUTO;
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
    bool https_given = false;
    for (int i = 1; i < argc; ++i) {
        const char *value;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            usage();
            exit(0);
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("uvhttp %s\n%s", uvhttp_version(), uvhttp_build_info());
            exit(0);
        } else if ((value = option_value("--address", argv, &i))) {
            options->address = value;
        } else if ((value = option_value("--port", argv, &i))) {
            options->port = parse_number("--port", value, 65535, "allowed is 0..65535");
            if (!https_given) options->https_port = NONE;
        } else if ((value = option_value("--https-port", argv, &i))) {
            bool off = strcmp(value, "off") == 0;
            options->https_port = off ? NONE : parse_number("--https-port", value, 65535, "allowed is 0..65535, off");
            https_given = true;
        } else if ((value = option_value("--certificate", argv, &i))) {
            options->certificate = value;
        } else if ((value = option_value("--key", argv, &i))) {
            options->key = value;
        } else if ((value = option_value("--static", argv, &i))) {
            options->files = value;
        } else if ((value = option_value("--sendfile", argv, &i))) {
            options->sendfile = strcmp(value, "auto") == 0;
            if (!options->sendfile && strcmp(value, "off") != 0) refuse("--sendfile", value, "allowed are auto, off");
        } else if ((value = option_value("--io-threads", argv, &i))) {
            options->io_threads = parse_number("--io-threads", value, 1024, "allowed is 0..1024");
        } else if ((value = option_value("--engine", argv, &i))) {
            options->engine = parse_engine(value);
        } else {
            refuse("option", argv[i], "unknown; --help lists the options");
        }
    }
}

static bool has_port(const char *address) {
    return strncmp(address, "unix:", 5) != 0 && strncmp(address, "fd:", 3) != 0 && strcmp(address, "systemd") != 0;
}

/* The address to listen on: with the port, unless it names something that has none. */
static const char *listen_address(const char *address, unsigned long port, char *text, size_t size) {
    if (!has_port(address)) return address;
    bool bare_ipv6 = strchr(address, ':') && address[0] != '[';
    snprintf(text, size, bare_ipv6 ? "[%s]:%lu" : "%s:%lu", address, port);
    return text;
}

static void add_routes(uvhttp_server_t *server, const options_t *options) {
    static atomic_ulong visits;
    uvhttp_get(server, "/", home, NULL);
    uvhttp_get(server, "/api", get_api, NULL);
    uvhttp_post(server, "/api", echo_api, NULL);
    uvhttp_put(server, "/api", echo_api, NULL);
    uvhttp_delete(server, "/api", delete_api, NULL);
    uvhttp_get(server, "/count", count_visit, &visits);
    for (size_t i = 0; i < SIZE_ROUTES; ++i) {
        uvhttp_get(server, size_routes[i].pattern, get_large, (void *)&size_routes[i]);
    }
#if UVHTTP_WITH_STATIC
    const char *files = options->files ? options->files : make_files();
    if (files)
        uvhttp_static(server, "/static", files, &(uvhttp_static_options_t){.no_sendfile = !options->sendfile});
    else
        perror("performance_test: nothing below /static/: files in /tmp");
#else
    (void)options;
#endif
#if UVHTTP_WITH_WEBSOCKET
    uvhttp_websocket(server, "/ws", &(uvhttp_ws_handlers_t){.on_message = echo_message, .on_drain = go_on_reading},
                     NULL);
#endif
}

/* Returns false when HTTPS was asked for and is not to be had. */
static bool listen_https(uvhttp_server_t *server, const options_t *options) {
    if (options->https_port == NONE || !has_port(options->address)) return true;
    uvhttp_tls_t *tls;
    if (options->certificate || options->key) {
        const uvhttp_tls_certificate_t certificate = {.certificate_file = options->certificate,
                                                      .key_file = options->key};
        tls = uvhttp_tls_new(&(uvhttp_tls_options_t){.certificates = &certificate, .certificate_count = 1});
    } else {
        tls = uvhttp_tls_development(NULL);
    }
    char text[128];
    int status = uvhttp_server_listen_tls(
        server, listen_address(options->address, options->https_port, text, sizeof text), tls, NULL);
    uvhttp_tls_free(tls); /* the server keeps it */
    return status == UVHTTP_OK;
}

int main(int argc, char **argv) {
    options_t options = {.address = "127.0.0.1", .port = 8080, .https_port = HTTPS_PORT, .sendfile = true};
    parse_options(&options, argc, argv);

    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = (uint32_t)options.io_threads;
    config.engine = options.engine;
    config.max_connections = 10000;
    config.read_buffer_size = 16384;
    config.write_buffer_size = 16384;
    config.keepalive_timeout = 60;  /* seconds */
    config.connection_timeout = 30; /* seconds */
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return 2; /* the environment asks for something impossible, which has been logged */

    for (size_t i = 0; i < sizeof large; ++i) large[i] = (char)('a' + i % 26);
    add_routes(server, &options);
    char text[128];
    bool failed = !listen_https(server, &options) ||
                  uvhttp_server_run(server, listen_address(options.address, options.port, text, sizeof text)) != 0;
    uvhttp_server_free(server);
    if (!options.files) remove_files();
    return failed; /* the reason has been logged */
}
