/* Owns: what the linker puts in place of the library's system calls (CMake passes --wrap for each of them). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fail_calls.h"

/* glibc gives those whose offsets have 64 bits a name of their own. */
#ifdef __GLIBC__
#define LARGE(name) name##64
#else
#define LARGE(name) name
#endif

/* A call that is not made, returns `bad` and sets errno. */
#define WRAP(...) WRAP_SYMBOL(__VA_ARGS__)
#define WRAP_SYMBOL(call, result, bad, symbol, parameters, arguments)                                                  \
    result __real_##symbol parameters;                                                                                 \
    result __wrap_##symbol parameters;                                                                                 \
    result __wrap_##symbol parameters {                                                                                \
        int error = fail_next(FAIL_##call);                                                                            \
        if (error == 0 || error == FAIL_SHORT) return __real_##symbol arguments;                                       \
        errno = error;                                                                                                 \
        return bad;                                                                                                    \
    }

/* One whose parameter `size` is what it takes or gives at most. */
#define WRAP_BYTES_UNLESS(exempt, call, symbol, parameters, arguments)                                                 \
    ssize_t __real_##symbol parameters;                                                                                \
    ssize_t __wrap_##symbol parameters;                                                                                \
    ssize_t __wrap_##symbol parameters {                                                                               \
        int error = (exempt) ? 0 : fail_next(FAIL_##call);                                                             \
        if (error == FAIL_SHORT) size -= size / 2;                                                                     \
        if (error == 0 || error == FAIL_SHORT) return __real_##symbol arguments;                                       \
        errno = error;                                                                                                 \
        return -1;                                                                                                     \
    }
#define WRAP_BYTES(call, symbol, parameters, arguments) WRAP_BYTES_UNLESS(false, call, symbol, parameters, arguments)

/* --- sockets --- */

WRAP(epoll_create1, int, -1, epoll_create1, (int flags), (flags))
WRAP(epoll_wait, int, -1, epoll_wait, (int fd, struct epoll_event *events, int max, int timeout),
     (fd, events, max, timeout))
WRAP(epoll_ctl, int, -1, epoll_ctl, (int fd, int op, int of, struct epoll_event *event), (fd, op, of, event))
WRAP(accept4, int, -1, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags),
     (fd, address, size, flags))
WRAP_BYTES(recv, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
WRAP_BYTES(send, send, (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
WRAP(sendmsg, ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
WRAP_BYTES(sendfile, LARGE(sendfile), (int out, int in, off_t *offset, size_t size), (out, in, offset, size))
WRAP(sendto, ssize_t, -1, sendto,
     (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t to_size),
     (fd, data, size, flags, to, to_size))
WRAP(recvmsg, ssize_t, -1, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(shutdown, int, -1, shutdown, (int fd, int how), (fd, how))
WRAP(socket, int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(socketpair, int, -1, socketpair, (int domain, int type, int protocol, int *fds), (domain, type, protocol, fds))
WRAP(bind, int, -1, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(listen, int, -1, listen, (int fd, int backlog), (fd, backlog))
WRAP(connect, int, -1, connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size))
WRAP(setsockopt, int, -1, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size))
WRAP(getsockopt, int, -1, getsockopt, (int fd, int level, int name, void *value, socklen_t *size),
     (fd, level, name, value, size))
WRAP(getsockname, int, -1, getsockname, (int fd, struct sockaddr *address, socklen_t *size), (fd, address, size))
WRAP(getpeername, int, -1, getpeername, (int fd, struct sockaddr *address, socklen_t *size), (fd, address, size))
WRAP(poll, int, -1, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
WRAP(timerfd_create, int, -1, timerfd_create, (int clock, int flags), (clock, flags))
WRAP(timerfd_settime, int, -1, timerfd_settime,
     (int fd, int flags, const struct itimerspec *time, struct itimerspec *old), (fd, flags, time, old))

/* --- descriptors that wake a thread: write(2) to one fails when its counter is full only, and then its reader is
 * awake; it is never short --- */

#define EVENTS_MAX 4096

static atomic_bool wakes[EVENTS_MAX];

static void note_event(int fd, bool is_event) {
    if (fd >= 0 && fd < EVENTS_MAX) atomic_store(&wakes[fd], is_event);
}

static bool is_event(int fd) {
    return fd >= 0 && fd < EVENTS_MAX && atomic_load(&wakes[fd]);
}

int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags) {
    int error = fail_next(FAIL_eventfd);
    if (error) {
        errno = error;
        return -1;
    }
    int fd = __real_eventfd(value, flags);
    note_event(fd, true);
    return fd;
}

/* --- files --- */

WRAP_BYTES_UNLESS(is_event(fd), read, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP_BYTES_UNLESS(is_event(fd), write, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP_BYTES(pread, LARGE(pread), (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
WRAP_BYTES(pwrite, LARGE(pwrite), (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(preadv, ssize_t, -1, LARGE(preadv), (int fd, const struct iovec *iov, int count, off_t at), (fd, iov, count, at))
#ifdef __GLIBC__ /* else it is a syscall(2), and so is pidfd_open */
WRAP(preadv2, ssize_t, -1, preadv64v2, (int fd, const struct iovec *iov, int count, off_t at, int flags),
     (fd, iov, count, at, flags))
WRAP(pidfd_open, int, -1, pidfd_open, (pid_t pid, unsigned flags), (pid, flags))
#endif
WRAP(fstat, int, -1, LARGE(fstat), (int fd, struct stat *about), (fd, about))
WRAP(fstatat, int, -1, LARGE(fstatat), (int fd, const char *path, struct stat *about, int flags),
     (fd, path, about, flags))
WRAP(stat, int, -1, LARGE(stat), (const char *path, struct stat *about), (path, about))
WRAP(lstat, int, -1, LARGE(lstat), (const char *path, struct stat *about), (path, about))
WRAP(mkostemp, int, -1, LARGE(mkostemp), (char *path, int flags), (path, flags))
WRAP(unlink, int, -1, unlink, (const char *path), (path))
WRAP(unlinkat, int, -1, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(fdopendir, DIR *, NULL, fdopendir, (int fd), (fd))
WRAP(readlink, ssize_t, -1, readlink, (const char *path, char *data, size_t size), (path, data, size))
WRAP(memfd_create, int, -1, memfd_create, (const char *name, unsigned flags), (name, flags))

/* --- a service and its successor --- */

WRAP(flock, int, -1, flock, (int fd, int operation), (fd, operation))
WRAP(ftruncate, int, -1, LARGE(ftruncate), (int fd, off_t size), (fd, size))
WRAP(getcwd, char *, NULL, getcwd, (char *path, size_t size), (path, size))
WRAP(waitpid, pid_t, -1, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
WRAP(setresuid, int, -1, setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))
WRAP(setresgid, int, -1, setresgid, (gid_t real, gid_t effective, gid_t saved), (real, effective, saved))
WRAP(getresuid, int, -1, getresuid, (uid_t * real, uid_t *effective, uid_t *saved), (real, effective, saved))
WRAP(getresgid, int, -1, getresgid, (gid_t * real, gid_t *effective, gid_t *saved), (real, effective, saved))
WRAP(initgroups, int, -1, initgroups, (const char *user, gid_t group), (user, group))

/* --- memory, limits, signals --- */

WRAP(mmap, void *, MAP_FAILED, LARGE(mmap), (void *address, size_t size, int access, int flags, int fd, off_t at),
     (address, size, access, flags, fd, at))
WRAP(mprotect, int, -1, mprotect, (void *address, size_t size, int access), (address, size, access))
WRAP(madvise, int, -1, madvise, (void *address, size_t size, int advice), (address, size, advice))
WRAP(getrandom, ssize_t, -1, getrandom, (void *data, size_t size, unsigned flags), (data, size, flags))
WRAP(getrlimit, int, -1, LARGE(getrlimit), (int what, struct rlimit *limit), (what, limit))
WRAP(setrlimit, int, -1, LARGE(setrlimit), (int what, const struct rlimit *limit), (what, limit))
WRAP(sigtimedwait, int, -1, sigtimedwait, (const sigset_t *set, siginfo_t *about, const struct timespec *time),
     (set, about, time))

/* --- those that are not like the others --- */

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) { /* Linux releases the descriptor whatever it returns */
    int error = fail_next(FAIL_close);
    note_event(fd, false);
    int status = __real_close(fd);
    if (error == 0) return status;
    errno = error;
    return -1;
}

#define WRAP_STATUS(...) WRAP_STATUS_SYMBOL(__VA_ARGS__)
#define WRAP_STATUS_SYMBOL(call, symbol, parameters, arguments)                                                        \
    int __real_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters {                                                                                   \
        int error = fail_next(FAIL_##call);                                                                            \
        return error ? error : __real_##symbol arguments;                                                              \
    }
/* They return their error. */
WRAP_STATUS(pthread_create, pthread_create,
            (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg),
            (thread, attributes, run, arg))
WRAP_STATUS(posix_fadvise, LARGE(posix_fadvise), (int fd, off_t at, off_t size, int advice), (fd, at, size, advice))
WRAP_STATUS(posix_spawn, posix_spawn,
            (pid_t * pid, const char *path, const posix_spawn_file_actions_t *actions,
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]),
            (pid, path, actions, attributes, arguments, environment))
WRAP_STATUS(getaddrinfo, getaddrinfo,
            (const char *name, const char *port, const struct addrinfo *hints, struct addrinfo **found),
            (name, port, hints, found))

/* They take one argument more or none, which is passed on either way. */
#define WRAP_MORE(...) WRAP_MORE_SYMBOL(__VA_ARGS__)
#define WRAP_MORE_SYMBOL(call, symbol, parameters, last, arguments)                                                    \
    int __real_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters;                                                                                    \
    int __wrap_##symbol parameters {                                                                                   \
        va_list list;                                                                                                  \
        va_start(list, last);                                                                                          \
        long more = va_arg(list, long);                                                                                \
        va_end(list);                                                                                                  \
        int error = fail_next(FAIL_##call);                                                                            \
        if (error == 0) return __real_##symbol arguments;                                                              \
        errno = error;                                                                                                 \
        return -1;                                                                                                     \
    }
WRAP_MORE(open, LARGE(open), (const char *path, int flags, ...), flags, (path, flags, more))
WRAP_MORE(openat, LARGE(openat), (int fd, const char *path, int flags, ...), flags, (fd, path, flags, more))
WRAP_MORE(fcntl, LARGE(fcntl), (int fd, int command, ...), command, (fd, command, more))
WRAP_MORE(ioctl, ioctl, (int fd, unsigned long request, ...), request, (fd, request, more))

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#define SYS_CACHESTAT 451

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    long values[6] = {0};
    int count = number == SYS_preadv2 ? 6 : 4; /* as many as the library gives */
    va_list list;
    va_start(list, number);
    for (int i = 0; i < count; i++) values[i] = va_arg(list, long);
    va_end(list);
    int error = number == SYS_openat2             ? fail_next(FAIL_openat2)
                : number == SYS_CACHESTAT         ? fail_next(FAIL_cachestat)
                : number == SYS_preadv2           ? fail_next(FAIL_preadv2)
                : number == SYS_pidfd_open        ? fail_next(FAIL_pidfd_open)
                : number == SYS_io_uring_register ? fail_next(FAIL_io_uring_register)
                                                  : 0;
    if (error == 0) return __real_syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
    errno = error;
    return -1;
}

/* Never fails, but for wrong arguments; the test may put the wall clock back. */
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    int status = __real_clock_gettime(clock, time);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) time->tv_sec += fail_clock_offset();
    return status;
}
