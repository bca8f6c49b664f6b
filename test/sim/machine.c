/* Owns: the machine as the server sees it: its clocks, its random numbers, its processors and limits. */
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"

static sim_random_t entropy; /* of getrandom(2) */
static uint64_t runs;
static uint64_t wall_start_ns;

void sim_machine_reset(uint64_t seed) {
    entropy = sim_random_of(seed, 0x4c);
    runs++;
    wall_start_ns = UINT64_C(1700000000000000000);
}

long __real_sysconf(int name);

/* Somebody sets the clock, forward or back, by up to a year; monotonic time does not notice. */
uint64_t sim_wall_ns(void) {
    static const uint64_t year_s = 365 * 86400;
    if (sim_wall_jumps && sim_one_in(&sim_kernel_random, 16)) {
        wall_start_ns = (UINT64_C(1700000000) - year_s + sim_random(&sim_kernel_random) % (2 * year_s)) * 1000000000u;
        sim_trace("the clock is set", wall_start_ns, 0);
    }
    return wall_start_ns + sim_now_ns;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    sim_interrupt();
    sim_now_ns += 100; /* time passes for who works, too */
    uint64_t ns = clock == CLOCK_REALTIME ? sim_wall_ns() : sim_now_ns;
    if (clock == CLOCK_PROCESS_CPUTIME_ID) ns = sim_now_ns / 4;
    *now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

/* The seeds of hash tables are drawn once per process, in its first run: always the same, or runs would depend on those
 * before. */
ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags) {
    (void)flags;
    memset(data, 0x5b, size);
    for (size_t i = 0; runs > 1 && i < size; i++) ((unsigned char *)data)[i] = (unsigned char)sim_random(&entropy);
    return (ssize_t)size;
}

/* Of descriptors, the same on each machine. */
int __wrap_getrlimit64(int what, struct rlimit *limit) {
    (void)what;
    *limit = (struct rlimit){.rlim_cur = FD_MAX, .rlim_max = FD_MAX};
    return 0;
}

int __wrap_getrusage(int who, struct rusage *usage) {
    (void)who;
    const uint64_t us = sim_now_ns / 4000;
    *usage = (struct rusage){.ru_utime = {.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)}};
    return 0;
}

long __wrap_sysconf(int name) {
    return name == _SC_NPROCESSORS_ONLN ? 2 : __real_sysconf(name);
}

int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    (void)pid;
    memset(set, 0, size);
    CPU_SET(0, set);
    CPU_SET(1, set);
    return 0;
}
