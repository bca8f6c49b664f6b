/* Owns: civetweb as a peer: the same answers as performance_test. It gives each connection a thread for as long as the
 * connection lasts, so that it gets as many threads as there are connections.
 *
 *   civetweb_server PORT FILES THREADS
 */
#include <civetweb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char large[100 * 1024];

static int answer(struct mg_connection *connection, const char *type, const char *body, size_t size) {
    mg_send_http_ok(connection, type, (long long)size);
    mg_write(connection, body, size);
    return 200;
}

static int hello(struct mg_connection *connection, void *user) {
    (void)user;
    if (strcmp(mg_get_request_info(connection)->local_uri, "/") != 0) return 0; /* a file */
    return answer(connection, "text/plain", "Hello, World!", 13);
}

static int body(struct mg_connection *connection, void *user) {
    (void)user;
    return answer(connection, "application/octet-stream", large, sizeof large);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: civetweb_server PORT FILES THREADS\n", stderr);
        return 2;
    }
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[1]);
    memset(large, 'a', sizeof large);
    const char *options[] = {"listening_ports",
                             address,
                             "document_root",
                             argv[2],
                             "num_threads",
                             argv[3],
                             "enable_keep_alive",
                             "yes",
                             "keep_alive_timeout_ms",
                             "60000",
                             "tcp_nodelay",
                             "1",
                             "allow_sendfile_call",
                             "yes",
                             "enable_directory_listing",
                             "no",
                             NULL};
    mg_init_library(0);
    struct mg_context *server = mg_start(NULL, NULL, options);
    if (!server) {
        fputs("civetweb_server: can not start\n", stderr);
        return 1;
    }
    mg_set_request_handler(server, "/", hello, NULL);
    mg_set_request_handler(server, "/large/100kb", body, NULL);
    pause(); /* until a signal ends it */
    return 0;
}
