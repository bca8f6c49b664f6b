/* Owns: writing a complete buffer to a blocking descriptor. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_WRITE_H
#define UVHTTP_SRC_BASE_WRITE_H

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* Returns 0 or an errno; EIO if write(2) returns 0. Bytes written before a failure remain. */
static inline int uvhttp__write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return written < 0 ? errno : EIO;
        data += written;
        size -= (size_t)written;
    }
    return 0;
}

#endif
