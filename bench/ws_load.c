/* Owns: a WebSocket load generator for the benchmarks: a closed loop on each of N connections, one thread, epoll. Every
 * echo is compared with what was sent; any difference, error or early end voids the run.
 *
 *   ws_load PORT PATH CONNECTIONS SECONDS SIZE      # prints the number of echoes
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SIZE_MAX_BYTES 60000

static char frame[SIZE_MAX_BYTES + 8], expected[SIZE_MAX_BYTES + 4];
static size_t frame_size, expected_size;

typedef struct client {
    int fd;
    size_t have; /* bytes of the echo so far */
} client_t;

static void fail(const char *what) {
    fprintf(stderr, "ws_load: %s: %s\n", what, errno ? strerror(errno) : "not what was expected");
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* A text message in one frame: masked as a client must, and as a server sends it back. */
static void make_frames(size_t size) {
    static const unsigned char mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    size_t lengths = size < 126 ? 0 : 2;
    frame[0] = expected[0] = (char)0x81;
    frame[1] = (char)(0x80 | (lengths ? 126 : size));
    expected[1] = (char)(lengths ? 126 : size);
    if (lengths) {
        frame[2] = expected[2] = (char)(size >> 8);
        frame[3] = expected[3] = (char)size;
    }
    memcpy(frame + 2 + lengths, mask, 4);
    for (size_t i = 0; i < size; ++i) {
        expected[2 + lengths + i] = (char)('a' + i % 26);
        frame[6 + lengths + i] = (char)(expected[2 + lengths + i] ^ mask[i % 4]);
    }
    frame_size = size + lengths + 6;
    expected_size = size + lengths + 2;
}

/* Connects and shakes hands; blocking. */
static int dial(uint16_t port, const char *path) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    char text[1024];
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                        path, port);
    if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size) fail("handshake");
    size_t have = 0;
    while (have < 4 || memcmp(text + have - 4, "\r\n\r\n", 4) != 0) { /* byte by byte: nothing behind it is taken */
        if (have == sizeof text || recv(fd, text + have, 1, 0) != 1) fail("handshake");
        have++;
    }
    errno = 0;
    if (memcmp(text, "HTTP/1.1 101", 12) != 0) fail("handshake");
    return fd;
}

static void send_frame(const client_t *client) {
    if (send(client->fd, frame, frame_size, MSG_NOSIGNAL) != (ssize_t)frame_size) fail("send");
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fputs("usage: ws_load PORT PATH CONNECTIONS SECONDS SIZE\n", stderr);
        return 2;
    }
    int count = atoi(argv[3]);
    size_t size = (size_t)atoi(argv[5]);
    if (count < 1 || size < 1 || size > SIZE_MAX_BYTES) fail("arguments");
    make_frames(size);
    client_t *clients = calloc((size_t)count, sizeof *clients);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!clients || epoll < 0) fail("epoll");
    for (int i = 0; i < count; ++i) {
        clients[i].fd = dial((uint16_t)atoi(argv[1]), argv[2]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &event) != 0) fail("epoll_ctl");
    }
    for (int i = 0; i < count; ++i) send_frame(&clients[i]);
    double end = now() + atof(argv[4]);
    uint64_t echoes = 0;
    static char data[SIZE_MAX_BYTES + 4];
    while (now() < end) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, 1000);
        if (ready <= 0) fail("no echo for a second");
        for (int i = 0; i < ready; ++i) {
            client_t *client = events[i].data.ptr;
            ssize_t got = recv(client->fd, data, expected_size - client->have, 0);
            if (got <= 0) fail("recv");
            errno = 0;
            if (memcmp(data, expected + client->have, (size_t)got) != 0) fail("echo");
            client->have += (size_t)got;
            if (client->have < expected_size) continue;
            client->have = 0;
            echoes++;
            send_frame(client);
        }
    }
    printf("%llu\n", (unsigned long long)echoes);
    return 0;
}
