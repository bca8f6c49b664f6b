/* Owns: functions that glibc has and that musl, or an older release of it, has not, by their names in glibc. Include it
 * after the headers of the system. May include: nothing. */
#ifndef UVHTTP_SRC_BASE_LIBC_H
#define UVHTTP_SRC_BASE_LIBC_H

#ifdef __GLIBC__
#include <sys/pidfd.h>
#else
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* strerror of glibc writes into memory that all threads share; that of musl returns constants. */
#define strerrordesc_np strerror

#define pidfd_open uvhttp__libc_pidfd_open
static inline int uvhttp__libc_pidfd_open(pid_t pid, unsigned flags) {
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

/* The kernel composes the offset of two registers, the second of which has nothing where a register has 64 bits. */
#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif
#define preadv2 uvhttp__libc_preadv2
static inline ssize_t uvhttp__libc_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags) {
    uint64_t at = (uint64_t)offset;
    return syscall(SYS_preadv2, fd, iov, count, (long)at, sizeof(long) == 8 ? 0L : (long)(at >> 32), flags);
}

/* The same time on the clock of the functions without a clock: it moves when that one is set. */
static inline struct timespec uvhttp__libc_realtime(clockid_t clock, const struct timespec *deadline) {
    struct timespec now, until;
    clock_gettime(clock, &now);
    clock_gettime(CLOCK_REALTIME, &until);
    int64_t until_ns =
        until.tv_nsec + (int64_t)(deadline->tv_sec - now.tv_sec) * 1000000000 + deadline->tv_nsec - now.tv_nsec;
    int64_t seconds = until_ns / 1000000000 - (until_ns % 1000000000 < 0);
    return (struct timespec){.tv_sec = until.tv_sec + (time_t)seconds,
                             .tv_nsec = (long)(until_ns - seconds * 1000000000)};
}

#define pthread_cond_clockwait uvhttp__libc_cond_clockwait
static inline int uvhttp__libc_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                              const struct timespec *deadline) {
    struct timespec until = uvhttp__libc_realtime(clock, deadline);
    return pthread_cond_timedwait(cond, mutex, &until);
}

#define sem_clockwait uvhttp__libc_sem_clockwait
static inline int uvhttp__libc_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline) {
    struct timespec until = uvhttp__libc_realtime(clock, deadline);
    return sem_timedwait(semaphore, &until);
}
#endif

#endif
