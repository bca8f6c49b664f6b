/* Owns: civetweb as a peer: the same responses as performance_test. It gives each connection a thread for as long as
 * the connection lasts, so that it gets as many threads as there are connections.
 *
 *   civetweb_server PORT FILES THREADS
 */
#include <civetweb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char large[100 * 1024];

/* Each call of mg_write is a write of its own, so that a short body goes with the head. */
static int respond(struct mg_connection *connection, const char *type, const char *body, size_t size) {
    char out[512], date[64];
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    size_t head = (size_t)snprintf(out, sizeof out,
                                   "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\nDate: %s\r\n\r\n",
                                   type, size, date);
    bool together = size <= sizeof out - head;
    if (together) memcpy(out + head, body, size);
    mg_write(connection, out, head + (together ? size : 0));
    if (!together) mg_write(connection, body, size);
    return 200;
}

/* A callback, which is there before the first connection is, as a handler is not. */
static int begin(struct mg_connection *connection) {
    const char *path = mg_get_request_info(connection)->local_uri;
    if (strcmp(path, "/") == 0) return respond(connection, "text/plain", "Hello, World!", 13);
    if (strcmp(path, "/large/100kb") != 0) return 0; /* a file */
    return respond(connection, "application/octet-stream", large, sizeof large);
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
        fputs("civetweb_server: cannot start\n", stderr);
        return 1;
    }
    pause(); /* until a signal ends it */
    return 0;
}
