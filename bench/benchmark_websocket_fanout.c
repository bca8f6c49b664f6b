/* One publisher, many subscribers: deliveries per second, the server's CPU per delivery, and what an idle WebSocket
 * costs.
 *
 *   build/dist/bin/benchmark_websocket_fanout --subscribers 10000 --messages 200 --engine uring
 *
 * The server is a child process with one loop (--threads for more); its CPU time is read from the kernel's clock of
 * that process. The client is this process: connections on loopback and one epoll. A message is published when all have
 * got the one that is --window messages before it.
 */
/* Needs: websocket. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp.h>

enum { FIRST = 200, SIZE_MAX_MESSAGE = 65535 };

static struct options {
    int subscribers, messages, size, window, threads, engine;
    bool compression;
} options = {.subscribers = 10000, .messages = 200, .size = 64, .window = 4, .threads = 1};

static void die(const char *what) {
    fprintf(stderr, "benchmark_websocket_fanout: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- the server --- */

static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    if (uvhttp_ws_subscribe(ws, "news") != 0) abort();
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    if (uvhttp_ws_publish(ws, "news", message.type, message.data, message.size) != 0) abort();
}

static void no_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static int serve(int port_pipe) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = (uint32_t)options.threads;
    config.engine = (uvhttp_engine_t)options.engine;
    config.max_connections = (uint32_t)options.subscribers + 100;
    config.drain_timeout = 1;
    config.quiet = true;
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE); /* that connections are cut off at the end is meant */
    uvhttp_server_t *server = uvhttp_server_new(&config);
    const uvhttp_ws_options_t ws_options = {.compression = options.compression, .compression_size_min = 1};
    uvhttp_ws_handlers_t handlers = {.on_open = on_open, .on_message = no_message, .options = &ws_options};
    uvhttp_websocket(server, "/sub", &handlers, NULL);
    handlers.on_open = NULL;
    handlers.on_message = on_message;
    uvhttp_websocket(server, "/pub", &handlers, NULL);
    uint16_t port;
    if (uvhttp_server_listen(server, "127.0.0.1:0", &port) != 0) return 1;
    if (write(port_pipe, &port, sizeof port) != sizeof port) return 1;
    int status = uvhttp_server_run(server, NULL);
    uvhttp_server_free(server);
    return status != 0;
}

/* --- the client --- */

static int connect_to(uint16_t port, const char *target) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) die("connect");
    char text[512], response[1024] = "";
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n",
                        target, options.compression ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "");
    if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size) die("send");
    size_t got = 0;
    while (!strstr(response, "\r\n\r\n")) {
        ssize_t more = recv(fd, response + got, sizeof response - 1 - got, 0);
        if (more <= 0) die("handshake");
        got += (size_t)more;
        response[got] = '\0';
    }
    if (strncmp(response, "HTTP/1.1 101", 12) != 0) die(response);
    return fd;
}

static double now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) die("clock_gettime");
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Resident bytes that are the process's own: what sockets cost the kernel is not in it. */
static long resident(pid_t pid) {
    char path[64], line[256];
    long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes * 1024;
}

/* Fills in a masked frame, whose mask is zero; returns its size. */
static size_t make_frame(char *out, int number) {
    size_t size = (size_t)options.size, head = size < 126 ? 6 : 8;
    memset(out, 0, head);
    out[0] = (char)0x82;
    out[1] = (char)(0x80 | (size < 126 ? size : 126));
    if (size >= 126) {
        out[2] = (char)(size >> 8);
        out[3] = (char)(size & 0xff);
    }
    memset(out + head, 'a' + number % 26, size);
    return head + size;
}

/* The size of what one publication is on the wire is known from the first, when nothing else can be on its way. */
static uint64_t receive_all(int epoll, uint64_t wanted) {
    static char buffer[1 << 18];
    struct epoll_event events[512];
    uint64_t got = 0;
    while (got < wanted) {
        int count = epoll_wait(epoll, events, 512, 20000);
        if (count <= 0) die("epoll_wait: nothing has come for 20 s");
        for (int i = 0; i < count; i++) {
            ssize_t size = recv(events[i].data.fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (size == 0 || (size < 0 && errno != EAGAIN)) die("recv");
            if (size > 0) got += (uint64_t)size;
        }
    }
    return got;
}

static uint64_t frame_size(int fd) {
    unsigned char head[4];
    if (recv(fd, head, 2, MSG_PEEK | MSG_WAITALL) != 2) die("recv");
    if (head[1] < 126) return 2u + head[1];
    if (recv(fd, head, 4, MSG_PEEK | MSG_WAITALL) != 4) die("recv");
    return 4u + ((unsigned)head[2] << 8 | head[3]);
}

static void publish(int fd, int number) {
    static char frame[SIZE_MAX_MESSAGE + 16];
    size_t size = make_frame(frame, number);
    if (send(fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size) die("send");
}

static void measure(pid_t server, uint16_t port) {
    clockid_t cpu;
    if (clock_getcpuclockid(server, &cpu) != 0) die("clock_getcpuclockid");
    int epoll = epoll_create1(EPOLL_CLOEXEC), publisher = connect_to(port, "/pub"), last = -1;
    long before = 0;
    for (int i = 0; i < options.subscribers; i++) {
        last = connect_to(port, "/sub");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = last};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, last, &event) != 0) die("epoll_ctl");
        if (i + 1 == FIRST) before = resident(server);
    }
    printf("memory: %ld bytes per idle WebSocket with a subscription (resident, from %d to %d)\n",
           (resident(server) - before) / (options.subscribers - FIRST), (int)FIRST, options.subscribers);
    publish(publisher, 0);
    uint64_t each = frame_size(last), all = each * (uint64_t)options.subscribers, ahead = 0;
    if (receive_all(epoll, all) != all) die("more came than was sent");
    double wall = now(CLOCK_MONOTONIC), used = now(cpu);
    for (int sent = 0, done = 0; done < options.messages; done++) {
        for (; sent < options.messages && sent - done < options.window; sent++) publish(publisher, 0);
        if (ahead < all) ahead += receive_all(epoll, all - ahead);
        ahead -= all;
    }
    wall = now(CLOCK_MONOTONIC) - wall;
    used = now(cpu) - used;
    double deliveries = (double)options.messages * options.subscribers;
    printf("%d messages of %d bytes (%" PRIu64 " on the wire) to %d subscribers: %.0f deliveries/s, server CPU %.3f us "
           "per delivery\n",
           options.messages, options.size, each, options.subscribers, deliveries / wall, used / deliveries * 1e6);
}

/* --- options --- */

static void usage(void) {
    puts(
        "usage: benchmark_websocket_fanout [--subscribers N] [--messages N] [--size BYTES] [--window N] [--threads N]\n"
        "                                  [--engine auto|uring|epoll] [--compression 0|1]");
    exit(2);
}

static void parse(int argc, char **argv) {
    static const char *const engines[] = {"auto", "uring", "epoll"};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) usage();
        int value = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--engine") == 0) {
            options.engine = -1;
            for (int e = 0; e < 3; e++)
                if (strcmp(argv[i + 1], engines[e]) == 0) options.engine = e;
        } else if (strcmp(argv[i], "--compression") == 0) {
            options.compression = value != 0;
        } else {
            int *field = strcmp(argv[i], "--subscribers") == 0 ? &options.subscribers
                         : strcmp(argv[i], "--messages") == 0  ? &options.messages
                         : strcmp(argv[i], "--size") == 0      ? &options.size
                         : strcmp(argv[i], "--window") == 0    ? &options.window
                         : strcmp(argv[i], "--threads") == 0   ? &options.threads
                                                               : NULL;
            if (!field || value < 1) usage();
            *field = value;
        }
    }
    if (options.engine < 0 || options.size > SIZE_MAX_MESSAGE || options.subscribers <= FIRST) usage();
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)options.subscribers + 100) die("RLIMIT_NOFILE is too low for the subscribers");
    int ports[2];
    if (pipe(ports) != 0) die("pipe");
    fflush(stdout);
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve(ports[1]));
    }
    uint16_t port;
    if (read(ports[0], &port, sizeof port) != sizeof port) die("the server has not started");
    measure(server, port);
    kill(server, SIGTERM);
    int status;
    if (waitpid(server, &status, 0) != server || status != 0) die("the server has failed");
    return 0;
}
