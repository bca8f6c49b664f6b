/* Owns: memory, CPU time and descriptors of the process, as the system shows them. Any thread. */
#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/metrics_snapshot.h"

#define NS UINT64_C(1000000000)

/* Counting them one by one takes a millisecond for a thousand of them. */
#define LISTED_MAX 10000

static bool read_file(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static uint64_t list_descriptors(void) {
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) return UINT64_MAX;
    uint64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(directory));) count += entry->d_name[0] != '.';
    closedir(directory);
    return count > 0 ? count - 1 : 0; /* without that of the directory */
}

/* Linux 6.2 shows their number as the size of the directory, earlier ones show 0. */
static uint64_t count_descriptors(uint64_t connections) {
    struct stat status;
    if (stat("/proc/self/fd", &status) != 0) return UINT64_MAX;
    if (status.st_size > 0) return (uint64_t)status.st_size;
    return connections > LISTED_MAX ? UINT64_MAX : list_descriptors();
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    return clock_gettime(clock, &time) == 0 ? (uint64_t)time.tv_sec * NS + (uint64_t)time.tv_nsec : 0;
}

static uint64_t timeval_ns(struct timeval time) {
    return (uint64_t)time.tv_sec * NS + (uint64_t)time.tv_usec * 1000;
}

/* Field `number` of /proc/self/stat, which are numbered from 1; the second, a name, may contain spaces. */
static uint64_t stat_field(const char *text, int number) {
    const char *at = strrchr(text, ')');
    for (int i = 2; at && i < number; i++) at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* The boot in Unix time. It is the same in every reading, although the two clocks cannot be read at one moment, until
 * the system's time is set: readers take another start of the process for a restart. */
static uint64_t boot_unix_ns(void) {
    static _Atomic uint64_t known;
    uint64_t boot_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME);
    uint64_t before_ns = atomic_load_explicit(&known, memory_order_relaxed);
    uint64_t distance_ns = boot_ns > before_ns ? boot_ns - before_ns : before_ns - boot_ns;
    if (distance_ns < NS) return before_ns;
    atomic_store_explicit(&known, boot_ns, memory_order_relaxed);
    return boot_ns;
}

static void read_stat(uvhttp_metrics_process_t *process) {
    char text[1024];
    if (!read_file("/proc/self/stat", text, sizeof text)) return;
    process->threads = stat_field(text, 20);
    process->virtual_bytes = stat_field(text, 23);
    process->resident_bytes = stat_field(text, 24) * (uint64_t)sysconf(_SC_PAGESIZE);
    process->start_unix_ns = boot_unix_ns() + stat_field(text, 22) * (NS / (uint64_t)sysconf(_SC_CLK_TCK));
}

void uvhttp__metrics_read_process(uvhttp_metrics_process_t *process, uint64_t connections) {
    struct rusage usage;
    struct rlimit limit;
    *process = (uvhttp_metrics_process_t){.max_descriptors = UINT64_MAX};
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        process->cpu_user_ns = timeval_ns(usage.ru_utime);
        process->cpu_system_ns = timeval_ns(usage.ru_stime);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        process->max_descriptors = limit.rlim_cur;
    process->open_descriptors = count_descriptors(connections);
    read_stat(process);
}
