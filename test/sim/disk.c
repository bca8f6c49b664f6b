/* Owns: the disk that uploads are saved to and bodies are spooled to: files in memory, of one directory. In half of the
 * seeds nothing fails. In the others it is full for a while or for good, slow, has errors, and descriptors are missing;
 * writes and reads are short or interrupted. Each failure belongs to a request, which may be refused for it, and only
 * for it. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"
#include "kernel.h"

enum { NAME_MAX_SIZE = 256, STATUSES = 600 };

typedef struct sim_file {
    struct sim_file *next;
    char name[NAME_MAX_SIZE]; /* "": it has none */
    char *data;
    uint64_t size, capacity;
    uint32_t owner; /* tag of the request for which it was made; 0: it is temporary */
    uint32_t descriptors;
} sim_file_t;

static struct {
    sim_random_t random;
    bool good, has_unnamed;    /* has_unnamed: O_TMPFILE */
    uint32_t fails_in, slow;   /* one in so many calls; 0: none */
    uint64_t used, capacity;   /* bytes */
    uint64_t full_ns, free_ns; /* between them it is full */
    sim_file_t *files;
    uint32_t count;
    uint32_t refusals[STATUSES]; /* requests that may still have this status: a thread of no request's has failed */
} disk;

/* Statuses that handlers have chosen for a failure of the disk. */
typedef struct refusal {
    struct refusal *next;
    uint32_t tag;
    int status;
} refusal_t;

static refusal_t *refusals;

static _Thread_local uint32_t request; /* whose calls this thread makes; 0: nobody's */
static _Thread_local int first_error;

void sim_disk_reset(uint64_t seed) {
    memset(&disk, 0, sizeof disk);
    disk.random = sim_random_of(seed, 0xd1);
    disk.good = sim_one_in(&disk.random, 2);
    disk.has_unnamed = !sim_one_in(&disk.random, 3);
    disk.capacity = UINT64_MAX;
    disk.full_ns = disk.free_ns = SIM_NEVER;
    if (sim_one_in(&disk.random, 4)) disk.slow = 1 + sim_below(&disk.random, 8);
    if (disk.good) return;
    uint32_t kind = sim_below(&disk.random, 4);
    if (kind == 0) disk.capacity = 2000 + sim_log_uniform(&disk.random, 400000);
    if (kind == 1) {
        disk.full_ns = sim_now_ns + sim_below(&disk.random, 3000) * SIM_MS;
        disk.free_ns = disk.full_ns + sim_log_uniform(&disk.random, 5000) * SIM_MS;
    }
    if (kind > 1 || sim_one_in(&disk.random, 2)) disk.fails_in = 1 + sim_log_uniform(&disk.random, 100);
}

/* --- failures --- */

static int status_of(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG: return 507;
        case EMFILE:
        case ENFILE: return 503;
        default: return 500;
    }
}

static int refuse(int error) {
    sim_trace("disk fails", (uint64_t)error, request);
    if (request == 0)
        disk.refusals[status_of(error)]++;
    else if (first_error == 0)
        first_error = error;
    errno = error;
    return -1;
}

static bool interrupts(void) {
    if (disk.good || !sim_one_in(&disk.random, 24)) return false;
    errno = EINTR;
    return true;
}

static bool fails(void) {
    return disk.fails_in > 0 && sim_one_in(&disk.random, disk.fails_in);
}

static int one_of(const int *errors, uint32_t count) {
    return errors[sim_below(&disk.random, count)];
}

/* Somebody else may go first, or the disk takes its time. */
static void pass_time(void) {
    if (disk.slow > 0 && sim_one_in(&disk.random, disk.slow))
        sim_wait_time(sim_now_ns + sim_log_uniform(&disk.random, 30000) * 1000);
    else if (sim_one_in(&disk.random, 4))
        sim_yield();
}

void sim_disk_begin(uint32_t tag) {
    request = tag;
    first_error = 0;
}

int sim_disk_end(void) {
    request = 0;
    return first_error;
}

void sim_disk_refuse(uint32_t tag, int status) {
    refusal_t *made = malloc(sizeof *made);
    if (!made) abort();
    *made = (refusal_t){.next = refusals, .tag = tag, .status = status};
    refusals = made;
}

bool sim_disk_refuses(uint32_t tag, int status) {
    for (const refusal_t *it = refusals; it; it = it->next)
        if (it->tag == tag && it->status == status) return true;
    if (status >= STATUSES || disk.refusals[status] == 0) return false;
    disk.refusals[status]--;
    return true;
}

/* --- files --- */

static sim_file_t *find(const char *name) {
    sim_file_t *file = disk.files;
    while (file && strcmp(file->name, name) != 0) file = file->next;
    return file;
}

static void drop(sim_file_t *file) {
    sim_file_t **at = &disk.files;
    if (file->descriptors > 0 || file->name[0]) return;
    while (*at != file) at = &(*at)->next;
    *at = file->next;
    disk.used -= file->size;
    free(file->data);
    free(file);
}

static int make(const char *name) {
    int fd = sim_descriptor_new(DISK);
    if (fd < 0) return -1;
    sim_file_t *file = calloc(1, sizeof *file);
    if (!file) abort();
    snprintf(file->name, sizeof file->name, "%s", name);
    file->owner = request;
    file->descriptors = 1;
    file->next = disk.files;
    disk.files = file;
    sim_find(fd, "open")->file = file;
    sim_trace("disk file", (uint64_t)fd, *name != '\0');
    return fd;
}

static sim_file_t *file_of(int fd) {
    return sim_is_simulated(fd) ? sim_find(fd, "use")->file : NULL;
}

bool sim_disk_is(int fd) {
    return file_of(fd) != NULL;
}

/* Some failures are reported only now. The descriptor is closed all the same. */
int sim_disk_closed(struct sim_file *file) {
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EINTR};
    file->descriptors--;
    drop(file);
    return request != 0 && fails() ? refuse(one_of(errors, 4)) : 0;
}

static void put(sim_file_t *file, const char *data, size_t size, uint64_t at) {
    if (at > file->size) sim_fail("a file has a hole before byte %llu", (unsigned long long)at);
    if (at + size > file->capacity) {
        file->capacity = 2 * (at + size);
        file->data = realloc(file->data, file->capacity);
        if (!file->data) abort();
    }
    memcpy(file->data + at, data, size);
    if (at + size > file->size) {
        disk.used += at + size - file->size;
        file->size = at + size;
    }
}

static ssize_t write_at(int fd, const char *data, size_t size, uint64_t at) {
    static const int errors[] = {EIO, ENOSPC, EDQUOT, EFBIG};
    pass_time();
    sim_file_t *file = file_of(fd);
    if (interrupts()) return -1;
    if (fails()) return refuse(one_of(errors, 4));
    bool full = sim_now_ns >= disk.full_ns && sim_now_ns < disk.free_ns;
    if (full || disk.used >= disk.capacity) return refuse(ENOSPC);
    if (size > disk.capacity - disk.used) size = disk.capacity - disk.used;
    if (!disk.good) size = sim_share(&disk.random, size);
    put(file, data, size, at);
    return (ssize_t)size;
}

ssize_t sim_disk_write(int fd, const char *data, size_t size) {
    ssize_t written = write_at(fd, data, size, sim_find(fd, "write")->number);
    if (written > 0) sim_find(fd, "write")->number += (uint64_t)written;
    return written;
}

/* --- what the server calls --- */

ssize_t __real_pwrite64(int fd, const void *data, size_t size, off_t at);
ssize_t __real_pread64(int fd, void *data, size_t size, off_t at);
int __real_openat64(int directory, const char *name, int flags, ...);
int __real_unlinkat(int directory, const char *name, int flags);
int __real_unlink(const char *path);
int __real_mkostemp64(char *path, int flags);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t size, off_t at) {
    return sim_disk_is(fd) ? write_at(fd, data, size, (uint64_t)at) : __real_pwrite64(fd, data, size, at);
}

ssize_t __wrap_pread64(int fd, void *data, size_t size, off_t at) {
    if (!sim_disk_is(fd) && sim_edits) sim_interrupt();
    if (!sim_disk_is(fd)) return __real_pread64(fd, data, size, at);
    pass_time();
    const sim_file_t *file = file_of(fd);
    if (interrupts()) return -1;
    if (fails()) return refuse(EIO);
    uint64_t left = (uint64_t)at < file->size ? file->size - (uint64_t)at : 0;
    if (size > left) size = (size_t)left;
    if (!disk.good) size = sim_share(&disk.random, size);
    if (size > 0) memcpy(data, file->data + at, size);
    return (ssize_t)size;
}

static int open_fails(void) {
    static const int errors[] = {EMFILE, ENFILE, ENOSPC, EIO, EDQUOT, EACCES, EROFS};
    pass_time();
    return fails() ? refuse(one_of(errors, request ? 7 : 5)) : 0;
}

int sim_disk_open_unnamed(void) {
    static const int errors[] = {EOPNOTSUPP, EISDIR, EINVAL};
    if (open_fails()) return -1;
    if (disk.has_unnamed) return make("");
    errno = one_of(errors, 3);
    return -1;
}

int __wrap_mkostemp64(char *path, int flags) {
    if (strncmp(path, SIM_SPOOL "/", sizeof SIM_SPOOL) != 0) return __real_mkostemp64(path, flags);
    if (open_fails()) return -1;
    snprintf(path + strlen(path) - 6, 7, "%06u", ++disk.count);
    return make(path);
}

int __wrap_unlink(const char *path) {
    sim_file_t *file = *path ? find(path) : NULL;
    if (!file) return __real_unlink(path);
    file->name[0] = '\0';
    drop(file);
    return 0;
}

int __wrap_openat64(int directory, const char *name, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (!sim_is_simulated(directory)) return __real_openat64(directory, name, flags, mode);
    if (sim_find(directory, "openat")->kind != DIRECTORY || !(flags & O_EXCL) || !(flags & O_NOFOLLOW) || mode != 0600)
        sim_fail("a file is not made as it should be: %s", name);
    if (strchr(name, '/') || !*name || strlen(name) >= NAME_MAX_SIZE) sim_fail("a file is named %s", name);
    if (open_fails()) return -1;
    if (interrupts()) return -1;
    if (!find(name)) return make(name);
    errno = EEXIST;
    return -1;
}

int __wrap_unlinkat(int directory, const char *name, int flags) {
    if (!sim_is_simulated(directory)) return __real_unlinkat(directory, name, flags);
    pass_time();
    sim_file_t *file = *name ? find(name) : NULL;
    if (!file) sim_fail("%s is removed, and is not there", name);
    if (file->owner != request) sim_fail("%s of %x is removed by %x", name, file->owner, request);
    file->name[0] = '\0';
    drop(file);
    return 0;
}

/* --- what handlers do with it --- */

int sim_disk_directory(void) {
    return sim_descriptor_new(DIRECTORY);
}

int sim_disk_create(const char *name) {
    return make(name);
}

void sim_disk_close(int fd) {
    uint32_t tag = request;
    request = 0;
    (void)close(fd);
    request = tag;
}

static sim_file_t *saved_file(uint32_t tag, const char *name) {
    sim_file_t *file = *name ? find(name) : NULL;
    if (!file || file->owner != tag) sim_fail("%s of %x is not there", name, tag);
    return file;
}

uint64_t sim_disk_check(uint32_t tag, const char *name, uint32_t content) {
    const sim_file_t *file = saved_file(tag, name);
    size_t wrong = sim_mismatch(file->data, content, 0, (size_t)file->size);
    if (wrong < file->size) sim_fail("byte %zu of %s of %x is wrong", wrong, name, tag);
    return file->size;
}

void sim_disk_remove(uint32_t tag, const char *name) {
    sim_file_t *file = saved_file(tag, name);
    if (file->descriptors > 0) sim_fail("%s of %x is still open", name, tag);
    file->name[0] = '\0';
    drop(file);
}

void sim_disk_check_none(uint32_t tag) {
    for (const sim_file_t *file = disk.files; file; file = file->next)
        if (file->owner == tag && (file->name[0] || file->descriptors))
            sim_fail("%s of %x is left behind%s", file->name, tag, file->descriptors ? ", open" : "");
}

void sim_disk_check_end(void) {
    for (const sim_file_t *file = disk.files; file; file = file->next)
        sim_fail("%s, a file of %x, is left behind", file->name[0] ? file->name : "one without a name", file->owner);
    if (disk.used) sim_fail("%llu bytes of the disk are used at the end", (unsigned long long)disk.used);
    for (refusal_t *next; refusals; refusals = next) {
        next = refusals->next;
        free(refusals);
    }
}
