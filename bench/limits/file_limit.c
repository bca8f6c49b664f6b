/* The floor for a server of files: one thread, level-triggered epoll, a canned head and one sendfile(2) of one file per
 * "\r\n\r\n" seen; what the socket does not take goes when it has space. No parsing, no limits, no timeouts. Not a
 * server: a yardstick. Build: cc -O2 -D_GNU_SOURCE file_limit.c -o file_limit; run: ./file_limit PORT FILE (PORT 0:
 * any; it is printed). */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 65536 };

static char head[128], in[65536];
static int poller, file;
static size_t head_size;
static off_t file_size;
static struct {
    off_t at;
    unsigned events;
} connections[CONNECTIONS_MAX];

static void add_events(int fd, unsigned events) {
    int operation = connections[fd].events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (connections[fd].events == events) return;
    connections[fd].events = events;
    epoll_ctl(poller, operation, fd, &(struct epoll_event){.events = events, .data.fd = fd});
}

static void end(int fd) {
    connections[fd].events = 0;
    close(fd);
}

static void send_file(int fd) {
    off_t *at = &connections[fd].at;
    while (*at < file_size) {
        ssize_t sent = sendfile(fd, file, at, (size_t)(file_size - *at));
        if (sent < 0 && errno == EAGAIN) {
            add_events(fd, EPOLLOUT);
            return;
        }
        if (sent <= 0) {
            end(fd);
            return;
        }
    }
    add_events(fd, EPOLLIN);
}

static void serve(int fd) {
    ssize_t got = recv(fd, in, sizeof in, 0);
    if (got <= 0) {
        end(fd);
    } else if (memmem(in, (size_t)got, "\r\n\r\n", 4)) {
        connections[fd].at = 0;
        if (send(fd, head, head_size, MSG_NOSIGNAL) == (ssize_t)head_size)
            send_file(fd);
        else
            end(fd);
    }
}

int main(int argc, char **argv) {
    struct stat status;
    if (argc < 3 || (file = open(argv[2], O_RDONLY | O_CLOEXEC)) < 0 || fstat(file, &status) != 0) {
        fprintf(stderr, "file_limit: cannot open the file\n");
        return 1;
    }
    file_size = status.st_size;
    head_size =
        (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n\r\n", (long long)file_size);
    signal(SIGPIPE, SIG_IGN); /* sendfile(2) has no MSG_NOSIGNAL */
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* inherited by accepted sockets */
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        fprintf(stderr, "file_limit: cannot listen\n");
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
            if (fd == listener) {
                for (int made; (made = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
                    if (made < CONNECTIONS_MAX)
                        add_events(made, EPOLLIN);
                    else
                        close(made);
                }
            } else if (connections[fd].events == EPOLLOUT) {
                send_file(fd);
            } else {
                serve(fd);
            }
        }
    }
}
