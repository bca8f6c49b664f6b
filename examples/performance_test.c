/* The server that the performance standard measures. It prints nothing on the request path.
 *
 *   build/dist/bin/performance_test        # HTTP on 127.0.0.1:8080, HTTPS on 8443; --help lists the options
 *   build/dist/bin/performance_test --config examples/uvhttp.yaml --keepalive-timeout 5
 *   curl http://127.0.0.1:8080/            # Hello, World!; /welcome: a page with links to all of this
 *   curl http://127.0.0.1:8080/api
 *   curl -d '{"test":"data"}' http://127.0.0.1:8080/api
 *   curl -o /dev/null http://127.0.0.1:8080/large/1mb
 *   curl http://127.0.0.1:8080/count       # visits; /count/worker, /count/coroutine: the other ways to run a handler
 *   curl http://127.0.0.1:8080/counters    # the server's counters, as JSON
 *   curl http://127.0.0.1:8080/sleep200    # after 200 ms; /sleep200/worker, /sleep200/coroutine
 *   curl -o /dev/null http://127.0.0.1:8080/static/10kb.bin
 *   curl http://127.0.0.1:8080/config      # how it was built, I/O backend, every setting in force
 *   curl -k https://127.0.0.1:8443/        # with a certificate that it makes for itself
 *   python3 -m websockets ws://127.0.0.1:8080/ws
 *   wrk -t2 -c10 -d10s http://127.0.0.1:8080/
 */
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

#include "support/effective.h"
#include "support/listen.h"
#include "support/options.h"
#include "support/welcome.h"

static const char hello_text[] = "Hello, World!";
static const char api_json[] = "{\"message\":\"Hello, World!\",\"status\":\"ok\"}";
static const char deleted_json[] = "{\"deleted\":true}";

#define LARGE_MAX (1024 * 1024)
static char large[LARGE_MAX];

typedef struct size_route {
    const char *pattern;
    const char *file;              /* of the same size, below /static/ */
    size_t size;                   /* bytes */
    uvhttp_shared_body_t *content; /* the same bytes; NULL: sendfile is off */
} size_route_t;

static size_route_t size_routes[] = {
    {"/large/1kb", "1kb.bin", 1024, NULL},
    {"/large/10kb", "10kb.bin", 10 * 1024, NULL},
    {"/large/100kb", "100kb.bin", 100 * 1024, NULL},
    {"/large/1mb", "1mb.bin", LARGE_MAX, NULL},
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
    if (route->content)
        uvhttp_response_send_shared_body(res, 200, "application/octet-stream", route->content);
    else
        uvhttp_response_send_static(res, 200, "application/octet-stream", large, route->size);
}

static void count_visit(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    atomic_ulong *visits = user;
    char text[32];
    int size = snprintf(text, sizeof text, "%lu", atomic_fetch_add_explicit(visits, 1, memory_order_relaxed) + 1);
    uvhttp_response_send(res, 200, "text/plain", text, (size_t)size);
}

static void write_counter(const char *name, const char *help, uint64_t value, void *user) {
    (void)help;
    FILE *out = user;
    fprintf(out, "%s\"%s\":%" PRIu64, ftell(out) == 0 ? "{" : ",", name, value);
}

static void get_counters(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    if (out) uvhttp_server_counters(user, write_counter, out);
    bool written = out && fputs("}", out) >= 0;
    if (!out || fclose(out) != 0 || !written)
        uvhttp_response_text(res, 503, "out of memory\n");
    else
        uvhttp_response_send(res, 200, "application/json", json, size);
    free(json);
}

/* What the server was given, for get_config. */
typedef struct in_force {
    const uvhttp_server_t *server;
    const uvhttp_server_config_t *config;
} in_force_t;

static void get_config(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    const in_force_t *in_force = user;
    char *json = effective_json(in_force->server, in_force->config);
    if (json)
        uvhttp_response_send(res, 200, "application/json", json, strlen(json));
    else
        uvhttp_response_text(res, 503, "out of memory\n");
    free(json);
}

/* --- the wait of 200 ms, in each way to run a handler --- */

#define WAIT_MS 200

static const char slept_text[] = "slept\n";

/* What waits on the loop: a timer in place of a thread or a stack. */
typedef struct waiting {
    uvhttp_timer_t timer;
    uvhttp_deferred_t *later;
} waiting_t;

static void end_waiting(waiting_t *waiting) {
    uvhttp_deferred_release(waiting->later);
    free(waiting);
}

static void respond_to_waiting(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    waiting_t *waiting = user;
    uvhttp_deferred_text(waiting->later, 200, slept_text);
    end_waiting(waiting);
}

static void stop_waiting(uvhttp_deferred_t *deferred, void *user) {
    (void)deferred;
    waiting_t *waiting = user;
    uvhttp_timer_stop(&waiting->timer);
    end_waiting(waiting);
}

static void wait_on_loop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waiting_t *waiting = calloc(1, sizeof *waiting);
    if (waiting) waiting->later = uvhttp_response_defer(res);
    if (!waiting || !waiting->later) {
        free(waiting);
        uvhttp_response_text(res, 503, "out of memory\n");
        return;
    }
    uvhttp_deferred_on_abort(waiting->later, stop_waiting, waiting);
    uvhttp_timer_start(&waiting->timer, WAIT_MS, respond_to_waiting, waiting);
}

static void wait_on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    nanosleep(&(struct timespec){.tv_nsec = WAIT_MS * 1000000L}, NULL);
    uvhttp_response_text(res, 200, slept_text);
}

#if UVHTTP_WITH_COROUTINES
static void wait_in_coroutine(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_coro_sleep(WAIT_MS);
    uvhttp_response_text(res, 200, slept_text);
}
#endif

#if UVHTTP_WITH_WEBSOCKET
static void echo_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, message.type, message.data, message.size) == UVHTTP_E_AGAIN) uvhttp_ws_pause(ws);
}

static void continue_reading(uvhttp_ws_t *ws, void *user) {
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

/* A directory with a file of each size, which goes when the program ends; NULL if it cannot be made. */
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
#define NOT_GIVEN (ULONG_MAX - 1)
#define HTTPS_PORT (UVHTTP_WITH_TLS ? 8443 : NONE) /* a build without TLS serves HTTP alone */

typedef struct settings {
    const char *address, *files, *docs;
    unsigned long port, https_port;
    int sendfile; /* 0: auto, 1: off */
    uvhttp_server_config_t config;
} settings_t;

static void parse_options(settings_t *settings, char **argv) {
    const char *https_port = NULL;
    const option_t table[] = {
        {"--address", OPTION_TEXT, &settings->address,
         .help = "IP address, or unix:/path, fd:N, systemd (default 127.0.0.1)"},
        {"--port", OPTION_NUMBER, &settings->port, 0, 65535,
         .help = "0..65535; 0: chosen by the kernel (default 8080)"},
        {"--https-port", OPTION_TEXT, &https_port,
         .help = "the same for HTTPS, or off (default 8443; off when --port is given)"},
        {"--certificate", OPTION_FIELD, .field = "tls_certificate",
         .help = "PEM file, with --key FILE; default: a certificate that it makes for itself"},
        {"--key", OPTION_FIELD, .field = "tls_key", .help = "PEM file"},
        {"--kernel-tls", OPTION_SWITCH, .field = "tls_kernel",
         .help = "HTTPS: the kernel encrypts large files where it can"},
        {"--static", OPTION_TEXT, &settings->files,
         .help = "directory of what is below /static/ (default: a file of each size, made for the run)"},
        {"--docs", OPTION_TEXT, &settings->docs, .value = "DIR",
         .help = "directory of documents that /welcome links, served below /docs/ (default: none)"},
        {"--sendfile", OPTION_CHOICE, &settings->sendfile, .choices = "auto, off",
         .help = "auto (large files and bodies) or off (default auto)"},
    };
    const options_t options = {.program = "performance_test",
                               .table = table,
                               .count = sizeof table / sizeof table[0],
                               .config = &settings->config};
    options_parse(&options, argv);
    if (!https_port)
        settings->https_port = settings->port == NOT_GIVEN ? HTTPS_PORT : NONE;
    else
        settings->https_port =
            strcmp(https_port, "off") == 0 ? NONE : options_number(&options, "--https-port", https_port, 0, 65535);
    if (settings->port == NOT_GIVEN) settings->port = 8080;
}

/* Bodies that are sent again and again. Returns false, and says so, if one cannot be made. */
static bool make_bodies(const settings_t *settings) {
    for (size_t i = 0; i < sizeof large; ++i) large[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < SIZE_ROUTES && settings->sendfile == 0; ++i) {
        int code = uvhttp_shared_body_new(large, size_routes[i].size, &size_routes[i].content);
        if (code == 0) continue;
        fprintf(stderr, "performance_test: %s: %s\n", size_routes[i].pattern, uvhttp_error_message(code));
        return false;
    }
    return true;
}

static void free_bodies(void) {
    for (size_t i = 0; i < SIZE_ROUTES; ++i) uvhttp_shared_body_release(size_routes[i].content);
}

static void add_routes(uvhttp_server_t *server, const settings_t *settings) {
    static atomic_ulong visits;
    static in_force_t in_force;
    in_force = (in_force_t){server, &settings->config};
    uvhttp_get(server, "/", home, NULL);
    welcome_add(server, settings->docs, settings->config.admin);
    uvhttp_get(server, "/api", get_api, NULL);
    uvhttp_post(server, "/api", echo_api, NULL);
    uvhttp_put(server, "/api", echo_api, NULL);
    uvhttp_delete(server, "/api", delete_api, NULL);
    uvhttp_get(server, "/count", count_visit, &visits);
    uvhttp_get(server, "/counters", get_counters, server);
    uvhttp_metrics_route(server, "/metrics");
    uvhttp_route(server, UVHTTP_GET, "/count/worker", count_visit, &visits, UVHTTP_EXEC_WORKER);
    uvhttp_get(server, "/config", get_config, &in_force);
    uvhttp_get(server, "/sleep200", wait_on_loop, NULL);
    uvhttp_route(server, UVHTTP_GET, "/sleep200/worker", wait_on_worker, NULL, UVHTTP_EXEC_WORKER);
#if UVHTTP_WITH_COROUTINES
    uvhttp_route(server, UVHTTP_GET, "/count/coroutine", count_visit, &visits, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(server, UVHTTP_GET, "/sleep200/coroutine", wait_in_coroutine, NULL, UVHTTP_EXEC_COROUTINE);
#endif
    for (size_t i = 0; i < SIZE_ROUTES; ++i) {
        uvhttp_get(server, size_routes[i].pattern, get_large, &size_routes[i]);
    }
#if UVHTTP_WITH_STATIC
    const char *files = settings->files ? settings->files : make_files();
    if (files)
        uvhttp_static(server, "/static", files, &(uvhttp_static_options_t){.no_sendfile = settings->sendfile != 0});
    else
        perror("performance_test: nothing below /static/: files in /tmp");
#else
    (void)settings;
#endif
#if UVHTTP_WITH_WEBSOCKET
    uvhttp_websocket(server, "/ws", &(uvhttp_ws_handlers_t){.on_message = echo_message, .on_drain = continue_reading},
                     NULL);
#endif
}

/* Returns false when HTTPS was asked for and is not to be had. */
static bool listen_https(uvhttp_server_t *server, const settings_t *settings) {
    if (settings->https_port == NONE || !listen_has_port(settings->address)) return true;
    char text[LISTEN_TEXT_SIZE];
    const char *address = listen_address(settings->address, settings->https_port, text);
    return listen_with_tls(server, address, &settings->config, NULL) == UVHTTP_OK;
}

int main(int argc, char **argv) {
    (void)argc;
    settings_t settings = {.address = "127.0.0.1", .port = NOT_GIVEN};
    uvhttp_server_config_default(&settings.config);
    parse_options(&settings, argv);
    uvhttp_server_t *server = uvhttp_server_new(&settings.config);
    if (!server) return 2; /* the environment asks for something impossible, which has been logged */

    uvhttp_server_on_reload(server, options_reload, NULL);
    bool ready = uvhttp_service_init(server) == 0 && make_bodies(&settings);
    add_routes(server, &settings);
    char text[LISTEN_TEXT_SIZE];
    bool failed = !ready || !listen_https(server, &settings) ||
                  uvhttp_server_run(server, listen_address(settings.address, settings.port, text)) != 0;
    uvhttp_server_free(server);
    free_bodies();
    if (!settings.files) remove_files();
    return failed; /* the reason has been logged */
}
