/* Owns: a server slowed by a known amount. Preloaded (LD_PRELOAD), it burns UVHTTP_SLOW_NS nanoseconds of CPU time each
 * time that the libuv engine hands an answer to the kernel, which it does once for a request that is not pipelined.
 * With 0 it passes everything on, so that both sides of a comparison are the same program, laid out alike. Used by
 * `uvhttp-bench self-check`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static ssize_t (*next_send)(int, const void *, size_t, int);
static ssize_t (*next_sendmsg)(int, const struct msghdr *, int);
static long slow_ns;

static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "slow_send: no %s to pass on to\n", name);
        exit(1);
    }
    return found;
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("UVHTTP_SLOW_NS");
    slow_ns = text ? strtol(text, NULL, 10) : 0;
    *(void **)&next_send = next_of("send");
    *(void **)&next_sendmsg = next_of("sendmsg");
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void burn(void) {
    if (slow_ns <= 0) {
        return;
    }
    for (long end = now_ns() + slow_ns; now_ns() < end;) {
    }
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    burn();
    return next_send(fd, data, size, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    burn();
    return next_sendmsg(fd, message, flags);
}
