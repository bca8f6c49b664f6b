/* Lets system calls fail, without the cost of strace: preloaded (LD_PRELOAD) into a server.
 *
 *   FAIL_CALLS=CALL:ERRNO[+ERRNO...]:EVERY[:AFTER][,...]   every EVERYth call after the first AFTER (default 40) is not
 *   made and fails with the next of the errors.
 *
 * CALL is io_uring_enter (by liburing's functions that make it), epoll_wait, epoll_ctl, recv, send, sendmsg, sendfile
 * or accept4. The error PARTIAL of io_uring_enter: the kernel is given half of the entries only. FAIL_CALLS_REPORT: a
 * file that says at the end how many calls there were, and how many of them failed. */
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#define ERRORS_MAX 8
#define PARTIAL (-1)

enum { ENTER, EPOLL_WAIT, EPOLL_CTL, RECV, SEND, SENDMSG, SENDFILE, ACCEPT4, CALL_COUNT };
static const char *const names[CALL_COUNT] = {"io_uring_enter", "epoll_wait", "epoll_ctl", "recv",
                                              "send",           "sendmsg",    "sendfile",  "accept4"};
static struct rule {
    int errors[ERRORS_MAX];
    unsigned error_count;
    unsigned long every, after;
    atomic_ulong calls, failed;
} rules[CALL_COUNT];

static int error_of(const char *name, size_t size) {
    static const struct {
        const char *name;
        int number;
    } known[] = {{"EAGAIN", EAGAIN}, {"EBUSY", EBUSY},     {"ENOMEM", ENOMEM},   {"EINTR", EINTR},
                 {"EPERM", EPERM},   {"ENOBUFS", ENOBUFS}, {"EINVAL", EINVAL},   {"EPROTO", EPROTO},
                 {"EMFILE", EMFILE}, {"ENOSPC", ENOSPC},   {"PARTIAL", PARTIAL}, {"ECONNABORTED", ECONNABORTED}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == size && memcmp(known[i].name, name, size) == 0) return known[i].number;
    fprintf(stderr, "FAIL_CALLS: unknown error %.*s\n", (int)size, name);
    exit(2);
}

static void read_rule(char *text) {
    char *save = NULL, *name = strtok_r(text, ":", &save), *errors = strtok_r(NULL, ":", &save);
    char *every = strtok_r(NULL, ":", &save), *after = strtok_r(NULL, ":", &save);
    int call = 0;
    while (call < CALL_COUNT && (!name || strcmp(names[call], name) != 0)) call++;
    if (call == CALL_COUNT || !errors || !every) {
        fprintf(stderr, "FAIL_CALLS: expected CALL:ERRNO:EVERY\n");
        exit(2);
    }
    struct rule *rule = &rules[call];
    while (*errors && rule->error_count < ERRORS_MAX) {
        size_t size = strcspn(errors, "+");
        rule->errors[rule->error_count++] = error_of(errors, size);
        errors += size + (errors[size] == '+');
    }
    rule->after = after ? strtoul(after, NULL, 10) : 40;
    rule->every = strtoul(every, NULL, 10);
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("FAIL_CALLS");
    if (!text) return;
    char *copy = strdup(text), *save = NULL;
    for (char *rule = strtok_r(copy, ",", &save); rule; rule = strtok_r(NULL, ",", &save)) read_rule(rule);
    free(copy);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAIL_CALLS_REPORT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    for (int i = 0; i < CALL_COUNT; i++)
        if (rules[i].every) fprintf(file, "%s %lu %lu\n", names[i], rules[i].calls, rules[i].failed);
    fclose(file);
}

/* 0, an errno or PARTIAL. */
static int next(int call) {
    struct rule *rule = &rules[call];
    if (rule->every == 0) return 0;
    unsigned long number = atomic_fetch_add(&rule->calls, 1) + 1;
    if (number <= rule->after || (number - rule->after) % rule->every != 0) return 0;
    return rule->errors[atomic_fetch_add(&rule->failed, 1) % rule->error_count];
}

#define REAL(name)                                                                                                     \
    static __typeof__(&(name)) real;                                                                                   \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, #name)

static int submit_half(struct io_uring *ring) {
    static int (*submit)(struct io_uring * ring);
    if (!submit) *(void **)&submit = dlsym(RTLD_NEXT, "io_uring_submit");
    unsigned tail = ring->sq.sqe_tail, count = tail - ring->sq.sqe_head;
    ring->sq.sqe_tail = ring->sq.sqe_head + count / 2;
    int status = submit(ring);
    ring->sq.sqe_tail = tail;
    return status;
}

int io_uring_submit(struct io_uring *ring) {
    REAL(io_uring_submit);
    int error = next(ENTER);
    return error == 0 ? real(ring) : error == PARTIAL ? submit_half(ring) : -error;
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr) {
    REAL(io_uring_submit_and_wait);
    int error = next(ENTER);
    return error == 0 ? real(ring, wait_nr) : error == PARTIAL ? submit_half(ring) : -error;
}

int io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned wait_nr,
                                     struct __kernel_timespec *ts, sigset_t *mask) {
    REAL(io_uring_submit_and_wait_timeout);
    int error = next(ENTER);
    return error == 0 ? real(ring, cqe, wait_nr, ts, mask) : error == PARTIAL ? submit_half(ring) : -error;
}

int io_uring_submit_and_get_events(struct io_uring *ring) {
    REAL(io_uring_submit_and_get_events);
    int error = next(ENTER);
    return error == 0 ? real(ring) : error == PARTIAL ? submit_half(ring) : -error;
}

int io_uring_get_events(struct io_uring *ring) {
    REAL(io_uring_get_events);
    int error = next(ENTER);
    return error == 0 || error == PARTIAL ? real(ring) : -error;
}

#define FAIL(call)                                                                                                     \
    int error = next(call);                                                                                            \
    if (error) {                                                                                                       \
        errno = error;                                                                                                 \
        return -1;                                                                                                     \
    }

/* libuv ends the process when a call for its own set fails (uv__io_poll): those calls are made. */
static bool is_of_libuv(const void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libuv.so");
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout) {
    REAL(epoll_wait);
    if (is_of_libuv(__builtin_return_address(0))) return real(epfd, events, max, timeout);
    FAIL(EPOLL_WAIT)
    return real(epfd, events, max, timeout);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    if (is_of_libuv(__builtin_return_address(0))) return real(epfd, op, fd, event);
    FAIL(EPOLL_CTL)
    return real(epfd, op, fd, event);
}

ssize_t recv(int fd, void *data, size_t size, int flags) {
    REAL(recv);
    FAIL(RECV)
    return real(fd, data, size, flags);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    REAL(send);
    FAIL(SEND)
    return real(fd, data, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    FAIL(SENDMSG)
    return real(fd, message, flags);
}

ssize_t sendfile64(int out, int in, off64_t *offset, size_t size) {
    REAL(sendfile64);
    FAIL(SENDFILE)
    return real(out, in, offset, size);
}

int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict size, int flags) {
    REAL(accept4);
    FAIL(ACCEPT4)
    return real(fd, address, size, flags);
}
