/* Owns: the PID file. A lock on it, not its content, tells whether its process runs, so that a file of a process that
 * crashed is no obstacle. The lock belongs to the open file: an upgrade passes the descriptor on, and there is no
 * moment without it. May include: everything. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/new_file.h"
#include "server/process.h"
#include "server/server_config.h"

enum { TRIES_MAX = 100 }; /* a file that others remove again and again */

/* Returns 0 if the path still names the file, ENOENT if not (whoever had it before may have removed it between open and
 * lock), or another errno. */
static int look(int fd, const char *path) {
    struct stat opened, named;
    if (fstat(fd, &opened) != 0 || stat(path, &named) != 0) return errno;
    return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino ? 0 : ENOENT;
}

static int fail(const char *path, int error, char *message, size_t size) {
    snprintf(message, size, "pid_file \"%s\": %s", path, strerrordesc_np(error));
    return uvhttp__server_file_code(error);
}

static int refuse(int fd, const char *path, char *message, size_t size) {
    char pid[24] = "";
    ssize_t length = pread(fd, pid, sizeof pid - 1, 0);
    if (length > 0) pid[strspn(pid, "0123456789")] = '\0';
    snprintf(message, size, "pid_file \"%s\" is locked by a process that runs%s%s", path, *pid ? ": " : "", pid);
    return UVHTTP_E_ADDRESS_IN_USE;
}

/* As open(2) with the flags below. */
static int opening_error(const char *path) {
    struct stat named;
    if (lstat(path, &named) != 0) return errno == ENOENT ? uvhttp__new_file_error(path) : errno;
    return S_ISLNK(named.st_mode) ? ELOOP : S_ISDIR(named.st_mode) ? EISDIR : S_ISSOCK(named.st_mode) ? ENXIO : 0;
}

int uvhttp__pid_file_open(const char *path, int *fd, char *message, size_t size) {
    int error = fd ? ENOENT : opening_error(path);
    if (!fd) return error == 0 || error == EACCES ? UVHTTP_OK : fail(path, error, message, size);
    for (int tries = 0; tries < TRIES_MAX && (error == ENOENT || error == EINTR); tries++) {
        int opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (opened < 0) return fail(path, errno, message, size);
        error = flock(opened, LOCK_EX | LOCK_NB) == 0 ? look(opened, path) : errno;
        if (error == 0) {
            *fd = opened;
            return UVHTTP_OK;
        }
        int status = error == EWOULDBLOCK ? refuse(opened, path, message, size) : UVHTTP_OK;
        close(opened);
        if (status != UVHTTP_OK) return status;
    }
    return fail(path, error, message, size);
}

bool uvhttp__pid_file_write(int fd) {
    char text[24];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    return pwrite(fd, text, (size_t)size, 0) == size && ftruncate(fd, size) == 0;
}

/* While it is locked: another process that wants it finds it locked, or gone. What cannot be removed is emptied. */
void uvhttp__pid_file_remove(int fd, const char *path) {
    if (look(fd, path) != 0 || unlink(path) != 0) (void)!ftruncate(fd, 0);
    close(fd);
}
