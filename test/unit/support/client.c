#include "support/client.h"

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void set_limits(int fd) {
    struct timeval limit = {.tv_sec = TIMEOUT_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int client_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    set_limits(fd);
    return fd;
}

/* A connect that is interrupted continues: what the kernel cleans up after an io_uring of this thread interrupts it. */
static int connect_error(int fd, int port) {
    struct sockaddr_in address = loopback(port);
    int error = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
    if (error == EINTR && wait_fd(fd, POLLOUT, TIMEOUT_MS))
        assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error}), 0);
    return error;
}

void client_connect_fd(int fd, int port) {
    int error = connect_error(fd, port);
    if (error != 0) fail_msg("client: connect: %s", strerror(error));
}

int client_connect_narrow(int port, int receive_buffer) {
    int fd = client_socket();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    client_connect_fd(fd, port);
    return fd;
}

void client_connect_expect_reset(int fd, int port) {
    int error = connect_error(fd, port);
    if (error == 0)
        client_expect_reset(fd);
    else
        assert_int_equal(error, ECONNRESET);
}

int loopback_listener(int backlog, struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    *address = loopback(0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, size), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

int client_connect(int port) {
    int fd = client_socket();
    client_connect_fd(fd, port);
    return fd;
}

void client_send(int fd, const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) fail_msg("client: send: %s", strerror(errno));
        at += sent;
        size -= (size_t)sent;
    }
}

void client_send_text(int fd, const char *text) {
    client_send(fd, text, strlen(text));
}

/* A receive with a time limit is interrupted when the kernel ends a ring that this thread has made. */
ssize_t client_receive_some(int fd, void *data, size_t size) {
    ssize_t got;
    do {
        got = recv(fd, data, size, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

void client_receive(int fd, void *data, size_t size) {
    char *at = data;
    while (size > 0) {
        ssize_t got = client_receive_some(fd, at, size);
        if (got == 0) fail_msg("client: end of stream, %zu bytes missing", size);
        if (got < 0) fail_msg("client: recv: %s, %zu bytes missing", strerror(errno), size);
        at += got;
        size -= (size_t)got;
    }
}

void client_expect(int fd, const void *data, size_t size) {
    char *got = malloc(size);
    client_receive(fd, got, size);
    if (memcmp(got, data, size) != 0) { /* megabytes: not byte by byte under ThreadSanitizer */
        size_t i = 0;
        while (got[i] == ((const char *)data)[i]) i++;
        free(got);
        fail_msg("client: byte %zu of %zu differs", i, size);
    }
    free(got);
}

void client_expect_text(int fd, const char *text) {
    client_expect(fd, text, strlen(text));
}

void client_expect_eof(int fd) {
    char byte;
    ssize_t got = client_receive_some(fd, &byte, 1);
    if (got != 0) fail_msg("client: expected FIN, got %zd (%s)", got, got < 0 ? strerror(errno) : "a byte");
}

void client_expect_reset(int fd) {
    char buffer[4096];
    ssize_t got;
    do {
        got = client_receive_some(fd, buffer, sizeof buffer);
    } while (got > 0);
    if (got == 0) fail_msg("client: expected a reset, got FIN");
    assert_int_equal(errno, ECONNRESET);
}

void client_expect_end(int fd) {
    char byte;
    ssize_t got = client_receive_some(fd, &byte, 1);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
}

void client_reset(int fd) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
}

bool wait_fd(int fd, short events, int timeout_ms) {
    struct pollfd wait = {.fd = fd, .events = events};
    int ready;
    do {
        ready = poll(&wait, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready == 1;
}

char pattern_at(uint64_t i) {
    return (char)(i * 31 + i / 251 + i / 65537);
}

char *pattern_new(size_t size) {
    char *data = malloc(size);
    char piece[4096]; /* ThreadSanitizer looks at each byte that is written elsewhere */
    for (size_t at = 0, now; at < size; at += now) {
        now = size - at < sizeof piece ? size - at : sizeof piece;
        for (size_t i = 0; i < now; i++) piece[i] = pattern_at(at + i);
        memcpy(data + at, piece, now);
    }
    return data;
}
