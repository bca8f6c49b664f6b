/* The floor for an epoll server: one thread, edge-triggered, one static buffer, a canned response per "\r\n\r\n" seen;
 * no parsing, no limits, no timeouts. Not a server: a yardstick. Build: cc -O2 -D_GNU_SOURCE epoll_limit.c -o
 * epoll_limit; run: ./epoll_limit PORT (0: any; it is printed) */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static char in[65536], out[2 << 20];
static int poller;

static void add_events(int fd, unsigned events) {
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = events, .data.fd = fd});
}

static void serve(int fd) {
    ssize_t got = read(fd, in, sizeof in);
    if (got <= 0) {
        close(fd);
        return;
    }
    size_t size = 0;
    const char *end = in + got;
    for (char *at = in; (at = memmem(at, (size_t)(end - at), "\r\n\r\n", 4)); at += 4) {
        memcpy(out + size, response, sizeof response - 1);
        size += sizeof response - 1;
    }
    if (size > 0 && write(fd, out, size) != (ssize_t)size) close(fd);
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)(argc > 1 ? atoi(argv[1]) : 9001)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* inherited by accepted sockets */
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        fprintf(stderr, "epoll_limit: cannot listen\n");
        return 1;
    }
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    poller = epoll_create1(EPOLL_CLOEXEC);
    add_events(listener, EPOLLIN);
    for (;;) {
        static struct epoll_event ready[512];
        int count = epoll_wait(poller, ready, 512, -1);
        for (int i = 0; i < count; ++i) {
            int fd = ready[i].data.fd;
            if (fd != listener) {
                serve(fd);
                continue;
            }
            for (int client; (client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;)
                add_events(client, EPOLLIN | EPOLLET);
        }
    }
}
