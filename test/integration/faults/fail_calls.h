/* Owns: which calls can be failed, and how the wrappers ask whether one shall be. Linked (--wrap) into pattern_server,
 * so that the calls of the library fail, and none of libuv, OpenSSL or the C library. */
#ifndef UVHTTP_TEST_FAIL_CALLS_H
#define UVHTTP_TEST_FAIL_CALLS_H

/* The names are those of the manual pages; sqe_*: an entry of the submission queue, whose completion has the error. */
#define FAIL_CALLS(CALL)                                                                                               \
    CALL(io_uring_enter), CALL(io_uring_setup), CALL(io_uring_register), CALL(sqe_recv), CALL(sqe_send),               \
        CALL(sqe_sendmsg), CALL(sqe_poll), CALL(sqe_connect), CALL(sqe_read), CALL(sqe_timeout), CALL(epoll_create1),  \
        CALL(epoll_wait), CALL(epoll_ctl), CALL(accept4), CALL(recv), CALL(send), CALL(sendmsg), CALL(sendfile),       \
        CALL(close), CALL(shutdown), CALL(socket), CALL(socketpair), CALL(bind), CALL(listen), CALL(connect),          \
        CALL(setsockopt), CALL(getsockopt), CALL(getsockname), CALL(getpeername), CALL(fcntl), CALL(ioctl),            \
        CALL(poll), CALL(eventfd), CALL(timerfd_create), CALL(timerfd_settime), CALL(open), CALL(openat),              \
        CALL(openat2), CALL(cachestat), CALL(read), CALL(write), CALL(pread), CALL(preadv), CALL(preadv2),             \
        CALL(pwrite), CALL(fstat), CALL(fstatat), CALL(stat), CALL(lstat), CALL(mkostemp), CALL(unlink),               \
        CALL(unlinkat), CALL(fdopendir), CALL(posix_fadvise), CALL(readlink), CALL(memfd_create), CALL(mmap),          \
        CALL(mprotect), CALL(madvise), CALL(getrandom), CALL(getrlimit), CALL(setrlimit), CALL(sigtimedwait),          \
        CALL(pthread_create), CALL(getaddrinfo), CALL(sendto), CALL(recvmsg), CALL(flock), CALL(ftruncate),            \
        CALL(getcwd), CALL(pidfd_open), CALL(waitpid), CALL(setresuid), CALL(setresgid), CALL(getresuid),              \
        CALL(getresgid), CALL(initgroups), CALL(posix_spawn)

#define FAIL_NUMBER(name) FAIL_##name
enum { FAIL_CALLS(FAIL_NUMBER), FAIL_CALL_COUNT };

/* In place of an error: a call that takes or gives half of its bytes, and an io_uring_enter(2) that is given half of
 * the entries. */
#define FAIL_SHORT 10001
#define FAIL_PARTIAL 10002

/* Counts a call. 0: make it; else its error, one of the above, or (getaddrinfo) a code of its own. */
int fail_next(int call);
/* Seconds that CLOCK_REALTIME is put forward (back, if negative). */
long fail_clock_offset(void);

#endif
