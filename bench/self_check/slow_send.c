/* Owns: a server slowed by a known amount. Preloaded (LD_PRELOAD), it burns UVHTTP_SLOW_NS nanoseconds of CPU time each
 * time that the epoll engine hands an answer to the kernel, which it does once for a request that is not pipelined.
 * With 0 it passes everything on, so that both sides of a comparison are the same program, laid out alike. Used by
 * `uvhttp-bench self-check`. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static ssize_t (*next_send)(int, const void *, size_t, int);
static ssize_t (*next_sendmsg)(int, const struct msghdr *, int);
static long slow_ns;
static long clock_ns; /* that reading the clock takes */

static void *next_of(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "slow_send: no %s to pass on to\n", name);
        exit(1);
    }
    return found;
}

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static long measure_clock_ns(void) {
    long least = LONG_MAX;
    for (int batch = 0; batch < 50; batch++) {
        long start = now_ns();
        for (int i = 0; i < 99; i++) {
            now_ns();
        }
        long passed = now_ns() - start;
        least = passed < least ? passed : least;
    }
    return least / 100;
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("UVHTTP_SLOW_NS");
    slow_ns = text ? strtol(text, NULL, 10) : 0;
    clock_ns = measure_clock_ns();
    *(void **)&next_send = next_of("send");
    *(void **)&next_sendmsg = next_of("sendmsg");
}

static void burn(void) {
    if (slow_ns <= 0) {
        return;
    }
    /* The first reading, and half of the last one on average, come on top. */
    for (long end = now_ns() + slow_ns - clock_ns * 3 / 2; now_ns() < end;) {
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
