/* Owns: libh2o as a peer: one thread, one handler that responds with "Hello, World!" from memory. The program h2o can
 * only respond with a file, which costs it an open and a read.
 *
 *   libh2o_server PORT [CERTIFICATE KEY]
 */
#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <h2o.h>
#include <h2o/http2.h>

static h2o_globalconf_t config;
static h2o_context_t context;
static h2o_accept_ctx_t accept_context;

static int hello(h2o_handler_t *handler, h2o_req_t *req) {
    static h2o_generator_t generator = {NULL, NULL};
    h2o_iovec_t body = {H2O_STRLIT("Hello, World!")};
    (void)handler;
    req->res.status = 200;
    req->res.reason = "OK";
    req->res.content_length = body.len;
    h2o_add_header(&req->pool, &req->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL, H2O_STRLIT("text/plain"));
    h2o_start_response(req, &generator);
    h2o_send(req, &body, 1, H2O_SEND_STATE_FINAL);
    return 0;
}

static void on_accept(h2o_socket_t *listener, const char *error) {
    if (error) return;
    for (h2o_socket_t *accepted; (accepted = h2o_evloop_socket_accept(listener));)
        h2o_accept(&accept_context, accepted);
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0)
        return -1;
    return fd;
}

/* Whether connections will be encrypted with this certificate. */
static int use_tls(const char *certificate, const char *key) {
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    if (!tls || SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1)
        return 0;
    h2o_ssl_register_alpn_protocols(tls, h2o_http2_alpn_protocols);
    accept_context.ssl_ctx = tls;
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) return 2;
    signal(SIGPIPE, SIG_IGN); /* libh2o writes to connections that their clients have closed */
    int fd = listen_on(atoi(argv[1]));
    if (fd < 0) {
        fprintf(stderr, "libh2o_server: port %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    h2o_config_init(&config);
    h2o_hostconf_t *host = h2o_config_register_host(&config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    h2o_handler_t *handler = h2o_create_handler(h2o_config_register_path(host, "/", 0), sizeof *handler);
    handler->on_req = hello;
    h2o_context_init(&context, h2o_evloop_create(), &config);
    accept_context.ctx = &context;
    accept_context.hosts = config.hosts;
    if (argc == 4 && !use_tls(argv[2], argv[3])) {
        fprintf(stderr, "libh2o_server: the certificate cannot be used\n");
        return 1;
    }
    h2o_socket_t *listener = h2o_evloop_socket_create(context.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(listener, on_accept);
    while (h2o_evloop_run(context.loop, INT32_MAX) == 0) {
    }
    return 1;
}
