/* Owns: reading and writing of sockets that are no streams. May include: base. */
#include <errno.h>
#include <sys/socket.h>
#include <uvhttp/socket.h>

static int problem(void) {
    switch (errno) {
        case EAGAIN: return UVHTTP_E_AGAIN;
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ETIMEDOUT: return UVHTTP_E_PEER_RESET;
        case EBADF:
        case ENOTSOCK: return UVHTTP_E_INVALID;
        default: return UVHTTP_E_IO;
    }
}

int uvhttp_socket_read(int fd, void *data, size_t max, size_t *size) {
    if (!data || max == 0 || !size) return UVHTTP_E_INVALID;
    ssize_t got;
    do {
        got = recv(fd, data, max, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    *size = got > 0 ? (size_t)got : 0;
    if (got == 0) return UVHTTP_E_EOF;
    return got > 0 ? UVHTTP_OK : problem();
}

int uvhttp_socket_write(int fd, const void *data, size_t size, size_t *sent) {
    if ((!data && size > 0) || !sent) return UVHTTP_E_INVALID;
    ssize_t got;
    do {
        got = send(fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (got < 0 && errno == EINTR);
    *sent = got > 0 ? (size_t)got : 0;
    return got >= 0 ? UVHTTP_OK : problem();
}
