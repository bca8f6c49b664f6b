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

/* A callback, which is there before the first connection is, as a handler is not. */
static int begin(struct mg_connection *connection) {
    const char *path = mg_get_request_info(connection)->local_uri;
    if (strcmp(path, "/") == 0) return answer(connection, "text/plain", "Hello, World!", 13);
    if (strcmp(path, "/large/100kb") != 0) return 0; /* a file */
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
    const struct mg_callbacks callbacks = {.begin_request = begin};
    if (!mg_start(&callbacks, NULL, options)) {
        fputs("civetweb_server: can not start\n", stderr);
        return 1;
    }
    pause(); /* until a signal ends it */
    return 0;
}
