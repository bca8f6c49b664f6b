/* Owns: a loop around picohttpparser as a peer: one thread, epoll, each request parsed, a constant response with the
 * date of the second. No limits, no timeouts, no request bodies: what a parser adds to bench/limits/epoll_limit.c.
 *
 *   pico_server PORT
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <picohttpparser.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEADERS_MAX 64

typedef struct connection {
    int fd;
    size_t size;
    char in[16384];
} connection_t;

static char hello[256], missing[256], out[1 << 20];
static size_t hello_size, missing_size;
static int poller;

static size_t compose(char *to, size_t space, const char *status, const char *date, const char *body) {
    return (size_t)snprintf(to, space,
                            "HTTP/1.1 %s\r\nContent-Length: %zu\r\nContent-Type: text/plain\r\nDate: %s\r\n\r\n%s",
                            status, strlen(body), date, body);
}

/* Rewrites the responses when the second has changed. */
static void update_date(void) {
    static time_t last;
    time_t now = time(NULL);
    if (now == last) return;
    last = now;
    char date[64];
    struct tm parts;
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    hello_size = compose(hello, sizeof hello, "200 OK", date, "Hello, World!");
    missing_size = compose(missing, sizeof missing, "404 Not Found", date, "");
}

static void drop(connection_t *connection) {
    close(connection->fd);
    free(connection);
}

/* Appends the response to each complete request to `out`. Returns the bytes of `in` that were consumed, -1 for a bad
 * request. */
static ssize_t respond(const char *in, size_t size, size_t *out_size) {
    size_t consumed = 0;
    while (consumed < size && sizeof out - *out_size >= sizeof hello) {
        const char *method, *path;
        size_t method_size, path_size, count = HEADERS_MAX;
        struct phr_header headers[HEADERS_MAX];
        int minor;
        int used = phr_parse_request(in + consumed, size - consumed, &method, &method_size, &path, &path_size, &minor,
                                     headers, &count, 0);
        if (used == -1) return -1;
        if (used < 0) break; /* incomplete */
        consumed += (size_t)used;
        bool found = path_size == 1 && path[0] == '/' && method_size == 3 && memcmp(method, "GET", 3) == 0;
        size_t length = found ? hello_size : missing_size;
        memcpy(out + *out_size, found ? hello : missing, length);
        *out_size += length;
    }
    return (ssize_t)consumed;
}

static void serve(connection_t *connection) {
    ssize_t got = read(connection->fd, connection->in + connection->size, sizeof connection->in - connection->size);
    if (got <= 0) {
        drop(connection);
        return;
    }
    connection->size += (size_t)got;
    size_t size = 0;
    ssize_t consumed = respond(connection->in, connection->size, &size);
    /* A full buffer without a complete request, and a client that does not read, end the connection. */
    if (consumed < 0 || (consumed == 0 && connection->size == sizeof connection->in) ||
        (size > 0 && write(connection->fd, out, size) != (ssize_t)size)) {
        drop(connection);
        return;
    }
    connection->size -= (size_t)consumed;
    if (connection->size > 0) memmove(connection->in, connection->in + consumed, connection->size);
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
        connection_t *connection = malloc(sizeof *connection);
        if (!connection) {
            close(fd);
            continue;
        }
        connection->fd = fd;
        connection->size = 0;
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = connection});
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: pico_server PORT\n", stderr);
        return 2;
    }
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* inherited by accepted sockets */
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0) {
        fputs("pico_server: cannot listen\n", stderr);
        return 1;
    }
    poller = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    for (;;) {
        static struct epoll_event ready[512];
        int count = epoll_wait(poller, ready, 512, -1);
        update_date();
        for (int i = 0; i < count; ++i) {
            if (ready[i].data.ptr)
                serve(ready[i].data.ptr);
            else
                accept_all(listener);
        }
    }
}
