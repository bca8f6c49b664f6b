/* Owns: see standard_fds.h. */
#include "base/standard_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>
#include <uvhttp/error.h>

static bool is_closed(int fd) {
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

int uvhttp__standard_fds_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (!is_closed(fd)) continue;
        /* open(2) returns the lowest free number. Without O_CLOEXEC, as standard descriptors are. */
        int made = open("/dev/null", O_RDWR);
        if (made < 0) return errno == EMFILE || errno == ENFILE ? UVHTTP_E_NO_DESCRIPTORS : UVHTTP_E_IO;
        if (made > STDERR_FILENO) (void)close(made); /* another thread has opened that number first */
    }
    return UVHTTP_OK;
}
