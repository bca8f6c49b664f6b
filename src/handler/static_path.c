/* Owns: paths below the root of static files: which may be asked for, and opening them without leaving it. May include:
 * base. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handler/static.h"

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
/* A directory that is not read. */
#define SEARCH_FLAGS (O_PATH | O_CLOEXEC | O_DIRECTORY)
/* A rename that happens meanwhile can make the kernel unsure whether it stayed below the root: it is asked again. */
#define OPEN_TRIES 8

static bool name_valid(const char *name, size_t size, bool dot_files) {
    if (size == 0 || size > UVHTTP__STATIC_NAME_MAX) return false;
    if (name[0] != '.') return true;
    if (size == 1 || (size == 2 && name[1] == '.')) return false;
    return dot_files;
}

bool uvhttp__static_path_valid(uvhttp_str_t path, bool dot_files) {
    if (path.size >= UVHTTP__STATIC_PATH_MAX) return false;
    const char *at = path.data, *end = at + path.size;
    while (at < end) {
        const char *start = at;
        for (; at < end && *at != '/'; at++)
            if (*at == '\0' || *at == '\\') return false;
        if (!name_valid(start, (size_t)(at - start), dot_files)) return false;
        if (at < end) at++; /* the '/' */
    }
    return true;
}

static int open2(int root, const char *path, int flags, uint64_t resolve) {
    struct open_how how = {.flags = (unsigned)flags, .resolve = resolve};
    long fd = -1;
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        fd = syscall(SYS_openat2, root, path, &how, sizeof how);
        if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
    }
    return fd >= 0 ? (int)fd : -errno;
}

bool uvhttp__static_has_openat2(int root) {
    int fd = open2(root, ".", OPEN_FLAGS, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Name by name, following nothing. */
static int open_walk(int root, const char *path, int flags) {
    int at = root;
    for (;;) {
        size_t size = strcspn(path, "/");
        char name[UVHTTP__STATIC_NAME_MAX + 1];
        if (size > UVHTTP__STATIC_NAME_MAX) {
            if (at != root) close(at);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, size);
        name[size] = '\0';
        path += size;
        bool inner = *path == '/';
        path += strspn(path, "/");
        bool last = *path == '\0';
        int these = last ? flags | (inner ? O_DIRECTORY : 0) : SEARCH_FLAGS;
        int fd = openat(at, name, these | O_NOFOLLOW);
        int error = errno;
        if (at != root) close(at);
        if (fd < 0) return -error;
        if (last) return fd;
        at = fd;
    }
}

static int open_below(int root, const char *path, int flags, bool no_symlinks, bool walk) {
    if (*path == '\0') path = ".";
    if (walk) return open_walk(root, path, flags);
    uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    if (no_symlinks) resolve |= RESOLVE_NO_SYMLINKS;
    return open2(root, path, flags, resolve);
}

int uvhttp__static_open(int root, const char *path, bool no_symlinks, bool walk) {
    int fd = open_below(root, path, OPEN_FLAGS, no_symlinks, walk);
    if (fd != -EACCES) return fd;
    int directory = open_below(root, path, SEARCH_FLAGS, no_symlinks, walk);
    return directory == -ENOTDIR ? fd : directory;
}
