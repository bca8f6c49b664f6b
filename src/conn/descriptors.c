/* Owns: how many of the process' descriptors connections may take: raising RLIMIT_NOFILE, the reserve, the warning. May
 * include: io, base, obs. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <uvhttp/log.h>

#include "conn/tcp_server_internal.h"

/* Of a soft limit that is too low for all, the reserve gets at most this part. */
#define RESERVE_PART 4

/* Connections of all servers of the process that run: their descriptors are needed together. */
static pthread_mutex_t promised_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t promised;

typedef struct need {
    uint64_t in_use, reserved, all; /* descriptors */
    rlim_t soft, hard;
} need_t;

/* Where there is no /proc: what a loop and its listeners have. */
static uint64_t count_in_use(const uvhttp__tcp_server_t *tcp_server) {
    uint64_t guess = 8 + (uint64_t)tcp_server->loop_count * (6 + tcp_server->endpoint_count), count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return guess;
    while (readdir(directory)) count++;
    closedir(directory);
    return count > 3 ? count - 3 : guess; /* but for ".", ".." and the directory's own */
}

static void promise(uvhttp__tcp_server_t *tcp_server, uint32_t connections, need_t *need) {
    pthread_mutex_lock(&promised_lock);
    promised = promised - tcp_server->descriptors_promised + connections;
    tcp_server->descriptors_promised = connections;
    need->all = need->in_use + need->reserved + promised;
    pthread_mutex_unlock(&promised_lock);
}

void uvhttp__tcp_server_forget_descriptors(uvhttp__tcp_server_t *tcp_server) {
    need_t unused = {0};
    promise(tcp_server, 0, &unused);
}

/* The hard limit is the administrator's: it stays as it is. */
static void raise_soft_limit(need_t *need) {
    struct rlimit limit = {.rlim_cur = need->all < need->hard ? (rlim_t)need->all : need->hard, .rlim_max = need->hard};
    if (limit.rlim_cur > need->soft && setrlimit(RLIMIT_NOFILE, &limit) == 0) need->soft = limit.rlim_cur;
}

static const char *limit_text(rlim_t limit, char text[24]) {
    if (limit == RLIM_INFINITY) return "unlimited";
    snprintf(text, 24, "%" PRIu64, (uint64_t)limit);
    return text;
}

static void warn(const uvhttp__tcp_server_t *tcp_server, const need_t *need, bool raise) {
    char soft[24], hard[24], advice[160];
    if (need->all <= need->hard)
        snprintf(advice, sizeof advice, "%s: raise the soft limit (ulimit -n %" PRIu64 ") or lower max_connections",
                 raise                                        ? "the kernel refused more"
                 : tcp_server->uv                             ? "an attached server leaves the limit to its program"
                 : tcp_server->options.descriptor_limit_given ? "descriptor_limit is set"
                                                              : "raise_descriptor_limit is off",
                 need->all);
    else
        snprintf(advice, sizeof advice,
                 "raise the hard limit (LimitNOFILE=%" PRIu64
                 " of a systemd unit, limits.conf) or lower max_connections",
                 need->all);
    UVHTTP_LOG_WARN("%s: at most %" PRIu32 " connections, not max_connections = %" PRIu32
                    ", because of RLIMIT_NOFILE: %" PRIu64 " descriptors are needed (%" PRIu64 " in use, %" PRIu64
                    " reserved for files and upstreams), soft limit %s, hard limit %s; %s",
                    tcp_server->options.name, tcp_server->connections_limit, tcp_server->options.max_connections,
                    need->all, need->in_use, need->reserved, limit_text(need->soft, soft), limit_text(need->hard, hard),
                    advice);
}

void uvhttp__tcp_server_fit_descriptors(uvhttp__tcp_server_t *tcp_server) {
    const uvhttp__tcp_server_options_t *options = &tcp_server->options;
    bool raise = options->raise_descriptor_limit && !options->descriptor_limit_given && !tcp_server->uv;
    uint32_t wanted = options->max_connections;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    need_t need = {.in_use = count_in_use(tcp_server),
                   .reserved = options->descriptors_reserved,
                   .soft = limit.rlim_cur,
                   .hard = limit.rlim_max};
    promise(tcp_server, wanted, &need);
    if (raise && need.soft < need.all) raise_soft_limit(&need);
    if (need.soft >= need.all) return;
    uint64_t reserve_max = (uint64_t)need.soft / RESERVE_PART;
    uint64_t in_use_max = need.in_use + (need.reserved < reserve_max ? need.reserved : reserve_max);
    uint64_t capacity = need.soft > in_use_max ? (uint64_t)need.soft - in_use_max : 1;
    if (capacity >= wanted) return;
    tcp_server->connections_limit = (uint32_t)capacity;
    warn(tcp_server, &need, raise);
}
