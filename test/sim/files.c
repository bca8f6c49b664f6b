/* Owns: the files that are served, real ones in a directory of the process, and what the server asks the system about
 * them that would differ between two processes: inodes, times, what is in memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "disk.h"
#include "kernel.h"

enum { CACHESTAT = 451 };

const uint32_t sim_file_sizes[SIM_FILES] = {0, 1, 777, 6000, 40000, 70000, 150000, 400000};

static char directory[64];
static pid_t owner; /* a child, which shrinks a run, leaves them where they are */
static sim_random_t memory_random;

const char *sim_files_root(void) {
    return directory;
}

static void file_name(char *path, size_t size, uint32_t file) {
    snprintf(path, size, "%s/f%u", directory, file);
}

void sim_files_end(void) {
    char path[96];
    if (getpid() != owner) return;
    sim_editor_end();
    for (uint32_t i = 0; i < SIM_FILES; i++) {
        file_name(path, sizeof path, i);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

static void write_file(uint32_t file) {
    char path[96];
    uint32_t size = sim_file_sizes[file];
    char *content = malloc(size + 1);
    file_name(path, sizeof path, file);
    FILE *out = fopen(path, "wbe");
    if (!content || !out) sim_fail("no file %s", path);
    sim_fill(content, SIM_FILE_TAG(file), 0, size);
    bool written = fwrite(content, 1, size, out) == size;
    if (fclose(out) != 0 || !written) sim_fail("no file %s", path);
    free(content);
}

void sim_files_init(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%.40s/uvhttp-sim-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(directory)) sim_fail("no directory %s", directory);
    owner = getpid();
    for (uint32_t i = 0; i < SIM_FILES; i++) write_file(i);
}

void sim_files_reset(uint64_t seed) {
    memory_random = sim_random_of(seed, 0xf1);
}

/* --- what the server calls --- */

int __real_open64(const char *path, int flags, ...);
int __real_stat64(const char *path, struct stat *info);
int __real_fstat64(int fd, struct stat *info);
int __real_fstatat64(int fd, const char *path, struct stat *info, int flags);
ssize_t __real_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

static void level(struct stat *info) {
    if (sim_edited_level(info)) return;
    info->st_dev = 1;
    info->st_ino = (ino_t)info->st_size + 1;
    info->st_mtim = info->st_ctim = (struct timespec){.tv_sec = 1600000000};
}

/* What the process uses is different in each run: the files that show it are not there. */
int __wrap_open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (strcmp(path, SIM_ACCESS_LOG) == 0) return sim_access_log_open();
    if (strcmp(path, SIM_SPOOL) == 0) return sim_disk_open_unnamed();
    if (strcmp(path, "/proc/self/stat") != 0) return __real_open64(path, flags, mode);
    errno = ENOENT;
    return -1;
}

int __wrap_stat64(const char *path, struct stat *info) {
    if (strcmp(path, "/proc/self/fd") != 0) return __real_stat64(path, info);
    errno = ENOENT;
    return -1;
}

int __wrap_fstat64(int fd, struct stat *info) {
    if (sim_output_is(fd)) return sim_output_stat(fd, info);
    if (sim_edits) sim_interrupt();
    int status = __real_fstat64(fd, info);
    if (status == 0) level(info);
    return status;
}

int __wrap_fstatat64(int fd, const char *path, struct stat *info, int flags) {
    int status = __real_fstatat64(fd, path, info, flags);
    if (status == 0) level(info);
    return status;
}

ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags) {
    if (sim_edits) sim_interrupt();
    if (sim_one_in(&memory_random, 3)) {
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv64v2(fd, iov, count, offset,
                             flags & ~RWF_NOWAIT); /* a busy machine may have dropped its pages */
}

/* Of the pages that it is asked for: all, or none. */
static long cachestat_call(const uint64_t *range, uint64_t *pages) {
    if (sim_one_in(&memory_random, 8)) {
        errno = EPERM;
        return -1;
    }
    uint64_t last = range[0] + range[1] - 1, page = 4096;
    memset(pages, 0, 5 * sizeof *pages);
    pages[0] = sim_one_in(&memory_random, 3) ? 0 : last / page - range[0] / page + 1;
    return 0;
}

/* It writes at most one line in some time, also across runs. */
void __wrap_uvhttp__log_file_error(int fd, const char *path, uint64_t offset, int error) {
    (void)fd, (void)path;
    sim_trace("a file cannot be read", offset, (uint64_t)error);
}

long __real_syscall(long number, ...);

/* What C libraries have no function for: enabling a ring, which liburing 2.3 does not export; cachestat(2); openat2(2),
 * which has four arguments. */
long __wrap_syscall(long number, ...) {
    va_list arguments;
    long values[4];
    if (number == SYS_io_uring_register) return 0;
    va_start(arguments, number);
    for (int i = 0; i < 4; i++) values[i] = va_arg(arguments, long);
    va_end(arguments);
    if (sim_edits && number == SYS_openat2) sim_interrupt();
    if (number == CACHESTAT) return cachestat_call((const uint64_t *)values[1], (uint64_t *)values[2]);
    return __real_syscall(number, values[0], values[1], values[2], values[3]);
}

ssize_t __wrap_sendfile64(int to, int from, off_t *offset, size_t size) {
    char data[16384];
    sim_conn_t *conn = sim_stream_of(to, "sendfile");
    ssize_t got = pread(from, data, size < sizeof data ? size : sizeof data, *offset);
    if (got <= 0) return got;
    struct iovec one = {.iov_base = data, .iov_len = (size_t)got};
    ssize_t sent = sim_stream_send(conn, &one, 1);
    if (sent < 0) {
        errno = (int)-sent;
        return -1;
    }
    *offset += sent;
    return sent;
}
