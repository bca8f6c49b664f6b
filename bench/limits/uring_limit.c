/* The floor for an io_uring server: one ring, multishot accept and receive, one ring of buffers, a canned response for
 * each empty line, one system call per loop iteration. No parsing, no limits, no timeouts: the yardstick for the
 * io_uring engine. cc -O2 -D_GNU_SOURCE uring_limit.c -o uring_limit -luring; ./uring_limit PORT (0: any; it is
 * printed) */
#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_COUNT = 1024, BUFFER_SIZE = 4096, RESPONSES_MAX = BUFFER_SIZE / 4, FD_MAX = 65536 };
enum what { ACCEPT, RECEIVE, SEND };

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\nContent-Type: text/plain\r\n\r\nHello, World!";
static char
    responses[RESPONSES_MAX * (sizeof response - 1)]; /* as many as one buffer can ask for: every send is a prefix */
static char buffers[BUFFER_COUNT][BUFFER_SIZE];
static unsigned char matched[FD_MAX]; /* bytes of "\r\n\r\n" that a connection's last buffer ended with */
static struct io_uring ring;
static struct io_uring_buf_ring *free_buffers;

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (!sqe) {
        io_uring_submit(&ring);
        sqe = io_uring_get_sqe(&ring);
    }
    return sqe;
}

/* After preparing, which clears it. */
static void tag(struct io_uring_sqe *sqe, enum what what, int fd) {
    io_uring_sqe_set_data64(sqe, (unsigned long long)fd << 2 | what);
}

static void receive(int fd) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    tag(sqe, RECEIVE, fd);
}

static void accept_all(int listener) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
    tag(sqe, ACCEPT, listener);
}

static unsigned count_ends(int fd, const char *data, int size) {
    static const char end[4] = {'\r', '\n', '\r', '\n'};
    unsigned found = 0;
    if (matched[fd] == 0) { /* the common case: whole requests */
        const char *at = data, *stop = data + size, *hit;
        while ((hit = memmem(at, (size_t)(stop - at), end, 4)) != NULL) {
            found++;
            at = hit + 4;
        }
        data = at;
        size = (int)(stop - at);
        if (size > 3) {
            data += size - 3;
            size = 3;
        }
    }
    for (int i = 0; i < size; i++) {
        matched[fd] = data[i] == end[matched[fd]] ? (unsigned char)(matched[fd] + 1) : data[i] == '\r';
        if (matched[fd] < 4) continue;
        matched[fd] = 0;
        found++;
    }
    return found;
}

static void on_receive(int fd, int result, unsigned flags) {
    if (result > 0) {
        int id = (int)(flags >> IORING_CQE_BUFFER_SHIFT);
        unsigned count = count_ends(fd, buffers[id], result);
        io_uring_buf_ring_add(free_buffers, buffers[id], BUFFER_SIZE, (unsigned short)id,
                              io_uring_buf_ring_mask(BUFFER_COUNT), 0);
        io_uring_buf_ring_advance(free_buffers, 1);
        if (count > 0) {
            struct io_uring_sqe *sqe = entry();
            io_uring_prep_send(sqe, fd, responses, count * (sizeof response - 1), MSG_NOSIGNAL | MSG_WAITALL);
            sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
            tag(sqe, SEND, fd);
        }
        if (!(flags & IORING_CQE_F_MORE)) receive(fd);
    } else if (result == -ENOBUFS) {
        receive(fd);
    } else {
        close(fd);
    }
}

static void on_accept(int listener, int result, unsigned flags) {
    if (result >= FD_MAX) {
        close(result);
    } else if (result >= 0) {
        matched[result] = 0;
        receive(result);
    }
    if (!(flags & IORING_CQE_F_MORE)) accept_all(listener);
}

static int listen_on(int port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* inherited */
    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0)
        return -1;
    printf("port %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static int make_ring(void) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE, .cq_entries = 8192};
    if (io_uring_queue_init_params(1024, &ring, &params) != 0) return -1;
    io_uring_register_ring_fd(&ring);
    size_t size = BUFFER_COUNT * sizeof(struct io_uring_buf);
    free_buffers = aligned_alloc(4096, size);
    if (!free_buffers) return -1;
    struct io_uring_buf_reg reg = {.ring_addr = (unsigned long)free_buffers, .ring_entries = BUFFER_COUNT};
    if (io_uring_register_buf_ring(&ring, &reg, 0) != 0) return -1;
    io_uring_buf_ring_init(free_buffers);
    for (int i = 0; i < BUFFER_COUNT; i++)
        io_uring_buf_ring_add(free_buffers, buffers[i], BUFFER_SIZE, (unsigned short)i,
                              io_uring_buf_ring_mask(BUFFER_COUNT), i);
    io_uring_buf_ring_advance(free_buffers, BUFFER_COUNT);
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 0; i < RESPONSES_MAX; i++)
        memcpy(responses + (size_t)i * (sizeof response - 1), response, sizeof response - 1);
    int listener = listen_on(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 9002);
    if (listener < 0 || make_ring() != 0) {
        fprintf(stderr, "uring_limit: cannot listen, or no io_uring\n");
        return 1;
    }
    accept_all(listener);
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        unsigned head, seen = 0;
        struct io_uring_cqe *cqe;
        io_uring_for_each_cqe(&ring, head, cqe) {
            int fd = (int)(cqe->user_data >> 2);
            switch (cqe->user_data & 3) {
                case ACCEPT: on_accept(fd, cqe->res, cqe->flags); break;
                case RECEIVE: on_receive(fd, cqe->res, cqe->flags); break;
                default: shutdown(fd, SHUT_RDWR); break; /* a send that failed */
            }
            seen++;
        }
        io_uring_cq_advance(&ring, seen);
    }
}
