/* Owns: the access log's thread: takes entries from the loops' rings, makes lines, writes them in batches. It is the
 * only one that waits for a disk or a pipe. May include: base, obs.
 *
 * It sleeps until a first entry comes, then gathers for flush_ms: a busy loop wakes it when a ring is half full, and
 * otherwise never. It reads the clock itself, for it has no loop whose time it could be given. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "middleware/access_log.h"

#define BATCH_SIZE (UVHTTP__ACCESS_LINE_MAX + 65536) /* bytes: one line more always fits into what is under 64 KiB */
#define PIPE_PIECE 4096                              /* bytes that a pipe takes whole once poll says that it can */
#define LAST_MS 2000                                 /* how long the end waits for somebody who does not read */

typedef struct writer {
    uvhttp__access_log_t *log;
    size_t size; /* bytes in the batch */
    uint64_t lines;
    int64_t real_offset_ns;
    bool plain_file; /* which never makes us wait for a reader */
    bool broken;     /* the last write failed, and the log has been told */
    uint64_t give_up_ns;
    char batch[BATCH_SIZE];
} writer_t;

static uint64_t clock_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* --- files --- */

int uvhttp__access_log_open(const uvhttp__access_log_t *log) {
    return open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void look_at_file(writer_t *writer) {
    struct stat info;
    writer->plain_file = fstat(writer->log->fd, &info) == 0 && S_ISREG(info.st_mode);
}

static void reopen(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    int fd = uvhttp__access_log_open(log);
    if (fd < 0) {
        UVHTTP_LOG_ERROR("access_log: can not open \"%s\" anew, the old file is kept: %s", log->path,
                         strerrordesc_np(errno));
        return;
    }
    close(log->fd);
    log->fd = fd;
    look_at_file(writer);
    count(&log->reopened, 1);
}

/* Whether a reader takes more; false when the end does not wait for it any longer. */
static bool wait_for_reader(writer_t *writer) {
    struct pollfd wanted = {.fd = writer->log->fd, .events = POLLOUT};
    while (poll(&wanted, 1, 100) == 0) {
        if (!atomic_load(&writer->log->stopping)) continue;
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        if (writer->give_up_ns == 0) writer->give_up_ns = now_ns + LAST_MS * UINT64_C(1000000);
        if (now_ns > writer->give_up_ns) return false;
    }
    return true;
}

/* False if it could not be written; errno. */
static bool write_all(writer_t *writer) {
    const char *at = writer->batch;
    size_t left = writer->size;
    while (left > 0) {
        size_t piece = writer->plain_file || left < PIPE_PIECE ? left : PIPE_PIECE;
        if (!writer->plain_file && !wait_for_reader(writer)) {
            errno = ETIMEDOUT;
            return false;
        }
        ssize_t wrote = write(writer->log->fd, at, piece);
        if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (wrote <= 0) return false;
        at += wrote;
        left -= (size_t)wrote;
    }
    return true;
}

static void flush(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    if (writer->size == 0) return;
    bool written = true;
    if (log->write)
        log->write(writer->batch, writer->size, log->user);
    else
        written = write_all(writer);
    count(written ? &log->lines : &log->failed, writer->lines);
    if (written) count(&log->bytes, writer->size);
    /* Once, not at every batch. */
    if (!written && !writer->broken)
        UVHTTP_LOG_ERROR("access_log: can not write to %s: %s; lines are lost until it works again",
                         log->path ? log->path : "its descriptor", strerrordesc_np(errno));
    writer->broken = !written;
    writer->size = 0;
    writer->lines = 0;
}

/* --- entries --- */

static void tell_dropped(writer_t *writer, uvhttp__entry_ring_t *ring) {
    uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    if (dropped == ring->dropped_told) return;
    int64_t real_ns = (int64_t)clock_ns(CLOCK_REALTIME);
    writer->size += uvhttp__access_dropped_line(writer->log->format, dropped - ring->dropped_told, real_ns,
                                                writer->batch + writer->size);
    writer->lines++;
    ring->dropped_told = dropped;
}

/* Returns whether there was anything. */
static bool take_ring(writer_t *writer, uvhttp__entry_ring_t *ring) {
    const uvhttp__entry_t *entry = uvhttp__entry_ring_peek(ring);
    bool any = entry != NULL;
    for (; entry; entry = uvhttp__entry_ring_peek(ring)) {
        writer->size +=
            uvhttp__access_line(writer->log->format, entry, writer->real_offset_ns, writer->batch + writer->size);
        writer->lines++;
        uvhttp__entry_ring_release(ring, entry);
        if (writer->size + UVHTTP__ACCESS_LINE_MAX > BATCH_SIZE) flush(writer);
    }
    tell_dropped(writer, ring);
    if (writer->size + UVHTTP__ACCESS_LINE_MAX > BATCH_SIZE) flush(writer);
    return any;
}

static bool take_all(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    bool any = false;
    writer->real_offset_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
    for (uvhttp__entry_ring_t *ring = atomic_load_explicit(&log->rings, memory_order_acquire); ring; ring = ring->next)
        any |= take_ring(writer, ring);
    flush(writer);
    return any;
}

/* --- the thread --- */

static void wait_ms(uvhttp__access_log_t *log, uint32_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (sem_clockwait(&log->wake, CLOCK_MONOTONIC, &until) != 0 && errno == EINTR) {
    }
}

/* Until somebody has an entry. Who puts one looks at `asleep` afterwards, and we look for entries after we have set it:
 * one of the two sees the other. */
static void sleep_until_woken(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    atomic_store(&log->asleep, true);
    if (!take_all(writer) && !atomic_load(&log->stopping) && !atomic_load(&log->reopen_wanted))
        while (sem_wait(&log->wake) != 0 && errno == EINTR) {
        }
    atomic_store(&log->asleep, false);
}

static void *run(void *arg) {
    writer_t *writer = arg;
    uvhttp__access_log_t *log = writer->log;
    look_at_file(writer);
    while (!atomic_load(&log->stopping)) {
        wait_ms(log, log->flush_ms);
        if (atomic_exchange(&log->reopen_wanted, false)) {
            (void)take_all(writer);
            reopen(writer);
        }
        if (!take_all(writer)) sleep_until_woken(writer);
    }
    (void)take_all(writer);
    uvhttp__free(writer);
    return NULL;
}

int uvhttp__access_log_start(uvhttp__access_log_t *log) {
    writer_t *writer = uvhttp__malloc(sizeof *writer);
    if (!writer) return UVHTTP_E_NOMEM;
    memset(writer, 0, offsetof(writer_t, batch));
    writer->log = log;
    if (uvhttp__thread_start(&log->thread, run, writer)) return UVHTTP_OK;
    uvhttp__free(writer);
    return UVHTTP_E_LIMIT;
}

void uvhttp__access_log_stop(uvhttp__access_log_t *log) {
    atomic_store(&log->stopping, true);
    sem_post(&log->wake);
    pthread_join(log->thread, NULL);
}
