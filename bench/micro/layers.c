/* Owns: one program that stops at the layer given by its argument, for `uvhttp-bench attribute`. Each layer responds
 * with "Hello, World!", so that the difference between two of them is the cost of the layer between them.
 *
 *   layers LAYER PORT TLS_PORT FILES CERTIFICATE KEY ENGINE     # or: layers --version
 *
 *   tcp         the TCP server: a canned response for each empty line
 *   parse       reads the request head first, and throws it away
 *   server      the HTTP server: message, limits, timeouts, one route, response head
 *   route       213 routes, and a path with two parameters
 *   middleware  on top of "server": request id, security headers, CORS
 *   tls         "server" over TLS
 *   static      "server", from a file
 */
/* Needs: tls static middleware. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>

#include "http1/http1.h"

#define LOOPS 1

static const char hello[] = "Hello, World!";
static const char canned[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static const uvhttp__head_limits_t limits = {8192, 65536, 100};

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    const char *end = data + size;
    while ((data = memmem(data, (size_t)(end - data), "\r\n\r\n", 4))) {
        data += 4;
        uvhttp_tcp_send_ref(tcp, canned, sizeof canned - 1, NULL, NULL);
    }
}

/* wrk's requests arrive complete; one that does not gets no response, which the benchmark would see. */
static void on_data_parsed(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)user;
    static uvhttp__field_t fields[100];
    while (size > 0) {
        uvhttp__http1_scan_t scan = {0};
        uvhttp__head_t head;
        head.headers = fields;
        if (uvhttp__http1_read_request(&scan, data, size, &limits, &head) != 0) return;
        data += head.size;
        size -= head.size;
        uvhttp_tcp_send_ref(tcp, canned, sizeof canned - 1, NULL, NULL);
    }
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_send_static(res, 200, "text/plain", hello, sizeof hello - 1);
}

static int run_tcp(const char *layer, const char *address, int engine) {
    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    config.io_threads = LOOPS;
    config.engine = engine;
    const uvhttp_tcp_handlers_t handlers = {.on_data = strcmp(layer, "parse") == 0 ? on_data_parsed : on_data};
    uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(&config, &handlers, NULL);
    if (!server) return 1;
    int status = uvhttp_tcp_server_run(server, address);
    uvhttp_tcp_server_free(server);
    return status != 0;
}

/* As docs/internals/decisions.md measures: many other routes. */
static void add_many_routes(uvhttp_server_t *server) {
    char pattern[64];
    for (int i = 0; i < 212; ++i) {
        snprintf(pattern, sizeof pattern, "/api/v%d/resource%d/:id", i % 4, i);
        uvhttp_get(server, pattern, respond, NULL);
    }
    uvhttp_get(server, "/users/:user/posts/:post", respond, NULL);
}

static int run_http(const char *layer, const char *address, char **argv, int engine) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = LOOPS;
    config.engine = (uvhttp_engine_t)engine;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    if (!server) return 1;
    if (strcmp(layer, "middleware") == 0) {
        uvhttp_use(server, uvhttp_request_id(NULL));
        uvhttp_use(server, uvhttp_security_headers(NULL));
        uvhttp_use(server, uvhttp_cors(NULL));
    }
    if (strcmp(layer, "route") == 0) add_many_routes(server);
    uvhttp_get(server, "/", respond, NULL);
    int status = 0;
    if (strcmp(layer, "static") == 0) status = uvhttp_static(server, "/static", argv[4], NULL);
    if (status == 0 && strcmp(layer, "tls") == 0) {
        const uvhttp_tls_certificate_t certificate = {.certificate_file = argv[5], .key_file = argv[6]};
        uvhttp_tls_t *tls =
            uvhttp_tls_new(&(uvhttp_tls_options_t){.certificates = &certificate, .certificate_count = 1});
        char text[64];
        snprintf(text, sizeof text, "127.0.0.1:%s", argv[3]);
        status = uvhttp_server_listen_tls(server, text, tls, NULL);
        uvhttp_tls_release(tls);
    }
    if (status == 0) status = uvhttp_server_run(server, address);
    uvhttp_server_free(server);
    return status != 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("uvhttp %s\n%s", uvhttp_version(), uvhttp_build_info());
        return 0;
    }
    if (argc != 8) {
        fputs("usage: layers LAYER PORT TLS_PORT FILES CERTIFICATE KEY auto|uring|epoll\n", stderr);
        return 2;
    }
    int engine = strcmp(argv[7], "uring") == 0 ? 1 : strcmp(argv[7], "epoll") == 0 ? 2 : 0;
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[2]);
    if (strcmp(argv[1], "tcp") == 0 || strcmp(argv[1], "parse") == 0) return run_tcp(argv[1], address, engine);
    return run_http(argv[1], address, argv, engine);
}
