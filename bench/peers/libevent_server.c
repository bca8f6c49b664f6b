/* Owns: libevent's evhttp as a peer: one thread, the same responses as performance_test.
 *
 *   libevent_server PORT FILES [CERTIFICATE KEY]
 */
#include <event2/buffer.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_MAX (1 << 20) /* of one call; libevent's default of 16 KB makes 64 calls of 1 MB */

static char large[100 * 1024];
static const char *files;
static bool tls;

static void respond(struct evhttp_request *req, const char *type, struct evbuffer *body) {
    evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", type);
    evhttp_send_reply(req, 200, "OK", body);
    evbuffer_free(body);
}

static void hello(struct evhttp_request *req, void *user) {
    (void)user;
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_reference(body, "Hello, World!", 13, NULL, NULL);
    respond(req, "text/plain", body);
}

static void send_large(struct evhttp_request *req, void *user) {
    (void)user;
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_reference(body, large, sizeof large, NULL, NULL);
    respond(req, "application/octet-stream", body);
}

static void send_file(struct evhttp_request *req, void *user) {
    (void)user;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    char name[512];
    struct stat facts;
    snprintf(name, sizeof name, "%s/%s", files, strncmp(path, "/static/", 8) == 0 ? path + 8 : "none");
    int fd = strstr(path, "..") ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &facts) != 0) {
        evhttp_send_error(req, 404, NULL);
        return;
    }
    struct evbuffer *body = evbuffer_new();
    if (!tls) evbuffer_set_flags(body, EVBUFFER_FLAG_DRAINS_TO_FD); /* sendfile instead of a mapping */
    evbuffer_add_file(body, fd, 0, facts.st_size);                  /* closes fd */
    respond(req, "application/octet-stream", body);
}

static struct bufferevent *plain(struct event_base *base, void *user) {
    (void)user;
    struct bufferevent *connection = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_set_max_single_write(connection, WRITE_MAX);
    return connection;
}

static struct bufferevent *secured(struct event_base *base, void *context) {
    return bufferevent_openssl_socket_new(base, -1, SSL_new(context), BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

/* Whether connections will be encrypted with this certificate. */
static bool use_tls(struct evhttp *http, const char *certificate, const char *key) {
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context || SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
        return false;
    evhttp_set_bevcb(http, secured, context); /* it lives as long as the process */
    tls = true;
    return true;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 5) {
        fputs("usage: libevent_server PORT FILES [CERTIFICATE KEY]\n", stderr);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to clients that have gone */
    files = argv[2];
    memset(large, 'a', sizeof large);
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_EPOLL_USE_CHANGELIST); /* changes that cancel out are not made */
    struct event_base *base = event_base_new_with_config(config);
    struct evhttp *http = base ? evhttp_new(base) : NULL;
    struct evhttp_bound_socket *listener =
        http ? evhttp_bind_socket_with_handle(http, "127.0.0.1", (unsigned short)atoi(argv[1])) : NULL;
    if (!listener) {
        fputs("libevent_server: cannot listen\n", stderr);
        return 1;
    }
    /* Inherited by accepted sockets. Over TLS, head and body are two writes, and Nagle would hold back the second. */
    setsockopt(evhttp_bound_socket_get_fd(listener), IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    evhttp_set_bevcb(http, plain, NULL);
    if (argc == 5 && !use_tls(http, argv[3], argv[4])) {
        fputs("libevent_server: cannot use the certificate\n", stderr);
        return 1;
    }
    evhttp_set_timeout(http, 60);
    evhttp_set_cb(http, "/", hello, NULL);
    evhttp_set_cb(http, "/large/100kb", send_large, NULL);
    evhttp_set_gencb(http, send_file, NULL);
    return event_base_dispatch(base);
}
