/* Owns: the access log's thread: takes entries from the loops' rings, makes lines, writes them in batches. It is the
 * only one that waits for a disk or a pipe. May include: base, obs.
 *
 * It sleeps until a first entry comes, then gathers for flush_ms: a busy loop wakes it when a ring is half full, and
 * otherwise never. It reads the clock itself, for it has no loop whose time it could be given. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uvhttp/log.h>

#include "base/alloc.h"
#include "base/libc.h"
#include "base/thread.h"
#include "middleware/access_log.h"
#include "obs/line_out.h"

#define ROUND_SIZE 65536 /* bytes of lines that one ring may fill before the next ring, or a reopening */
#define BATCH_SIZE (2 * UVHTTP__ACCESS_LINE_MAX + ROUND_SIZE) /* bytes: a line that is kept, a round, and one line */
#define LAST_MS 2000            /* how long the end waits for somebody who does not read */
#define DROPPED_LINE_S 1        /* a line in the access log at most every so many seconds and ring */
#define DROPPED_WARNING_S 10    /* a warning at most every so many seconds */
#define NS UINT64_C(1000000000) /* in a second */

typedef struct writer {
    uvhttp__access_log_t *log;
    uvhttp__line_out_t out; /* of the batch */
    int64_t real_offset_ns;
    bool broken;        /* the last write failed, and the failure was logged */
    bool reopen_failed; /* which was logged: it is tried again with each round */
    bool last;          /* the end: nobody puts entries any more */
    uint64_t give_up_ns;
    uint64_t dropped_warned, warned_ns; /* the last warning: of how many, when */
    char batch[BATCH_SIZE];
} writer_t;

static uint64_t clock_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS + (uint64_t)now.tv_nsec;
}

static void count(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* --- files --- */

int uvhttp__access_log_open(const uvhttp__access_log_t *log) {
    /* O_NONBLOCK is for a FIFO: without it, open would wait for its reader. */
    return open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
}

bool uvhttp__access_log_unread(const uvhttp__access_log_t *log, int error) {
    struct stat info;
    return error == ENXIO && stat(log->path, &info) == 0 && S_ISFIFO(info.st_mode);
}

static void use_file(writer_t *writer, int fd) {
    if (writer->log->fd >= 0) close(writer->log->fd);
    writer->log->fd = fd;
    uvhttp__line_out_use(&writer->out, fd);
}

static void reopen(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    int fd = uvhttp__access_log_open(log);
    if (fd < 0) {
        int error = errno;
        if (!writer->reopen_failed)
            UVHTTP_LOG_ERROR("access_log: cannot open \"%s\" anew, the old file is kept until it can be: %s", log->path,
                             uvhttp__access_log_unread(log, error) ? "this FIFO has no reader"
                                                                   : strerrordesc_np(error));
        writer->reopen_failed = true;
        return;
    }
    writer->reopen_failed = false;
    use_file(writer, fd);
    count(&log->reopened, 1);
    UVHTTP_LOG_INFO("access_log: opened \"%s\" anew", log->path);
}

/* A FIFO that had no reader when it was to be opened. False: it still has none; errno. */
static bool have_file(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    if (log->fd >= 0) return true;
    int fd = uvhttp__access_log_open(log);
    if (fd >= 0) use_file(writer, fd);
    return fd >= 0;
}

/* --- writing --- */

/* Nobody reads. INTERRUPTED: the file is to be opened anew. FAILED: the end does not wait any longer. */
static uvhttp__line_outcome_t may_wait(void *user) {
    writer_t *writer = user;
    if (!atomic_load(&writer->log->stopping))
        return atomic_load(&writer->log->reopen_wanted) ? UVHTTP__LINES_INTERRUPTED : UVHTTP__LINES_WRITTEN;
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (writer->give_up_ns == 0) writer->give_up_ns = now_ns + LAST_MS * UINT64_C(1000000);
    return now_ns <= writer->give_up_ns ? UVHTTP__LINES_WRITTEN : UVHTTP__LINES_FAILED;
}

/* Gives the batch to the application's function. */
static void call_write(writer_t *writer, uvhttp__line_counts_t *counts) {
    writer->log->write(writer->batch, writer->out.size, writer->log->user);
    counts->lines = uvhttp__count_lines(writer->batch, writer->out.size);
    counts->bytes = writer->out.size;
    writer->out.size = 0;
}

static void report_broken(const writer_t *writer, int error) {
    const uvhttp__access_log_t *log = writer->log;
    bool unread = log->fd < 0 && uvhttp__access_log_unread(log, error);
    UVHTTP_LOG_ERROR("access_log: cannot write to %s: %s; lines are lost until it works again",
                     log->path ? log->path : "its descriptor",
                     unread ? "this FIFO has no reader" : strerrordesc_np(error));
}

static void flush(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    if (writer->out.size == 0) return;
    uvhttp__line_counts_t counts = {.lines = 0};
    uvhttp__line_outcome_t outcome = UVHTTP__LINES_WRITTEN;
    if (log->write) {
        call_write(writer, &counts);
    } else if (have_file(writer)) {
        outcome = uvhttp__line_out_flush(&writer->out, &counts);
    } else {
        counts.failed = uvhttp__line_out_lose(&writer->out);
        outcome = UVHTTP__LINES_FAILED;
    }
    if (outcome == UVHTTP__LINES_FAILED && !writer->broken) report_broken(writer, errno); /* not at every batch */
    count(&log->lines, counts.lines);
    count(&log->bytes, counts.bytes);
    count(&log->failed, counts.failed);
    if (outcome != UVHTTP__LINES_INTERRUPTED) writer->broken = outcome == UVHTTP__LINES_FAILED;
}

/* --- entries --- */

/* In the access log, where they are missing, and so often that a full ring does not fill the disk with such lines. */
static void report_dropped(writer_t *writer, uvhttp__entry_ring_t *ring) {
    uint64_t dropped = uvhttp__entry_ring_dropped(ring);
    if (dropped == ring->dropped_reported) return;
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (!writer->last && ring->reported_ns != 0 && now_ns - ring->reported_ns < DROPPED_LINE_S * NS) return;
    int64_t real_ns = (int64_t)clock_ns(CLOCK_REALTIME);
    writer->out.size += uvhttp__access_dropped_line(writer->log->format, dropped - ring->dropped_reported, real_ns,
                                                    writer->batch + writer->out.size);
    ring->dropped_reported = dropped;
    ring->reported_ns = now_ns;
}

/* In the server's log. */
static void warn_dropped(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    uint64_t dropped = 0, now_ns = clock_ns(CLOCK_MONOTONIC);
    for (uvhttp__entry_ring_t *ring = atomic_load_explicit(&log->rings, memory_order_acquire); ring; ring = ring->next)
        dropped += uvhttp__entry_ring_dropped(ring);
    if (dropped == writer->dropped_warned) return;
    if (!writer->last && writer->warned_ns != 0 && now_ns - writer->warned_ns < DROPPED_WARNING_S * NS) return;
    UVHTTP_LOG_WARN("access_log: %" PRIu64
                    " requests were not logged, because lines come faster than %s accepts them; a "
                    "larger ring_size carries over longer bursts",
                    dropped - writer->dropped_warned, log->path ? log->path : "the writer");
    writer->dropped_warned = dropped;
    writer->warned_ns = now_ns;
}

static bool has_capacity(const writer_t *writer) {
    return writer->out.size + UVHTTP__ACCESS_LINE_MAX <= BATCH_SIZE;
}

/* What a round has found. */
typedef enum found { NOTHING, ALL, MORE } found_t;

/* A round's share of a ring, at most. */
static found_t take_ring(writer_t *writer, uvhttp__entry_ring_t *ring) {
    const uvhttp__entry_t *entry = uvhttp__entry_ring_peek(ring);
    found_t found = entry ? ALL : NOTHING;
    for (size_t consumed = 0; entry; entry = uvhttp__entry_ring_peek(ring)) {
        if (consumed >= ROUND_SIZE || !has_capacity(writer)) {
            found = MORE;
            break;
        }
        size_t size =
            uvhttp__access_line(writer->log->format, entry, writer->real_offset_ns, writer->batch + writer->out.size);
        writer->out.size += size;
        consumed += size;
        uvhttp__entry_ring_release(ring, entry);
    }
    if (has_capacity(writer)) report_dropped(writer, ring);
    return found;
}

/* One round: every ring gets its share. MORE: another round has to follow at once; else entries are left to gather, so
 * that they are written in batches. */
static found_t take_round(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    found_t found = NOTHING;
    writer->real_offset_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
    for (uvhttp__entry_ring_t *ring = atomic_load_explicit(&log->rings, memory_order_acquire); ring;
         ring = ring->next) {
        if (!has_capacity(writer)) flush(writer);
        found_t in_ring = take_ring(writer, ring);
        if (in_ring > found) found = in_ring;
    }
    flush(writer);
    warn_dropped(writer);
    return found;
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
 * one of the two sees the other. The fence, as on the other side (access_log.c): what is looked at are acquire loads,
 * which a processor may do before a sequentially consistent store (LDAPR before STLR on ARM). */
static void sleep_until_woken(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    atomic_store(&log->asleep, true);
    atomic_thread_fence(memory_order_seq_cst);
    if (take_round(writer) == NOTHING && !atomic_load(&log->stopping) && !atomic_load(&log->reopen_wanted))
        while (sem_wait(&log->wake) != 0 && errno == EINTR) {
        }
    atomic_store(&log->asleep, false);
}

/* What waits when the file is to be opened anew goes to the old one, but not more than a round: writing may be slower
 * than traffic. */
static void reopen_if_wanted(writer_t *writer) {
    uvhttp__access_log_t *log = writer->log;
    if (atomic_load(&log->reopen_wanted)) {
        (void)take_round(writer);
        atomic_store(&log->reopen_wanted, false); /* before it is done: the next wish is for another time */
        writer->reopen_failed = false;            /* and is logged by itself */
    } else if (!writer->reopen_failed) {
        return;
    }
    reopen(writer);
}

static void write_last(writer_t *writer) {
    writer->last = true;
    while (take_round(writer) == MORE) {
    }
    count(&writer->log->failed,
          uvhttp__count_lines(writer->batch, writer->out.size)); /* a line that was begun, if any */
}

static void *run(void *arg) {
    writer_t *writer = arg;
    uvhttp__access_log_t *log = writer->log;
    if (atomic_exchange(&log->reopen_wanted, false)) reopen(writer); /* before there was any entry */
    while (!atomic_load(&log->stopping)) {
        wait_ms(log, log->flush_ms);
        reopen_if_wanted(writer);
        found_t found;
        while ((found = take_round(writer)) == MORE && !atomic_load(&log->stopping)) reopen_if_wanted(writer);
        if (found == NOTHING) sleep_until_woken(writer);
    }
    write_last(writer);
    uvhttp__free(writer);
    return NULL;
}

int uvhttp__access_log_start(uvhttp__access_log_t *log) {
    writer_t *writer = uvhttp__malloc(sizeof *writer);
    if (!writer) return UVHTTP_E_NOMEM;
    memset(writer, 0, offsetof(writer_t, batch));
    writer->log = log;
    writer->out = (uvhttp__line_out_t){.data = writer->batch, .wait = may_wait, .user = writer};
    uvhttp__line_out_use(&writer->out, log->fd);
    if (uvhttp__thread_start(&log->thread, run, writer)) return UVHTTP_OK;
    uvhttp__free(writer);
    return UVHTTP_E_LIMIT;
}

void uvhttp__access_log_stop(uvhttp__access_log_t *log) {
    atomic_store(&log->stopping, true);
    sem_post(&log->wake);
    pthread_join(log->thread, NULL);
}
