/* Owns: see page_cache.h. May include: base. */
#include "exec/page_cache.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/libc.h"

#ifdef SYS_cachestat
#define CACHESTAT_NUMBER SYS_cachestat
#else
#define CACHESTAT_NUMBER 451 /* where headers are older than Linux 6.5 */
#endif

/* cachestat(2), which C libraries do not know yet: the pages of a part of a file that are in memory, or are being read.
 * Not before Linux 6.5, where it is asked for once, and on later kernels only for who owns the file or may write it.
 * Returns false if it cannot be had. */
static bool count_pages(int fd, uint64_t offset, uint64_t size, uint64_t *count) {
    static atomic_bool missing;
    if (atomic_load_explicit(&missing, memory_order_relaxed)) return false;
    const struct { uint64_t offset, size; } range = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages;
    if (syscall(CACHESTAT_NUMBER, fd, &range, &pages, 0) != 0) {
        if (errno == ENOSYS) atomic_store_explicit(&missing, true, memory_order_relaxed);
        return false;
    }
    *count = pages.cached;
    return true;
}

/* 1, 0, or -1: this file system cannot say. */
static int holds_byte(int fd, uint64_t offset) {
    char byte;
    const struct iovec buffer = {.iov_base = &byte, .iov_len = 1};
    ssize_t got = preadv2(fd, &buffer, 1, (off_t)offset, RWF_NOWAIT);
    if (got > 0) return 1;
    return got < 0 && errno == EOPNOTSUPP ? -1 : 0;
}

/* Every page is there, and the last is not being read any more, which is the last to come. Where the pages cannot be
 * counted, or were a moment ago, the ends have to do: the kernel drops the oldest pages first, which are the first. */
bool uvhttp__page_cache_holds(int fd, uint64_t offset, uint64_t size, _Atomic(uint64_t) *found_ms, uint64_t now_ms) {
    uint64_t last = offset + size - 1, page_size = (uint64_t)getpagesize(), count;
    bool is_counted =
        (!found_ms || now_ms >= atomic_load_explicit(found_ms, memory_order_relaxed) + UVHTTP__PAGE_CACHE_FOUND_MS) &&
        count_pages(fd, offset, size, &count);
    if (is_counted ? count <= last / page_size - offset / page_size : holds_byte(fd, offset) != 1) return false;
    int last_byte = holds_byte(fd, last);
    if (last_byte != 1 && !(last_byte < 0 && is_counted)) return false;
    if (last_byte == 1 && is_counted && found_ms) atomic_store_explicit(found_ms, now_ms, memory_order_relaxed);
    return true;
}
