/* Owns: the ring of lines for standard error, and the thread that writes them while a server runs. It alone waits for a
 * disk, a pipe or a terminal. May include: base.
 *
 * Everything is static: logging allocates nothing, and works when there is no memory. The lock is held to copy lines in
 * and out of the ring, never while something is written. */
#include "obs/log_writer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/thread.h"
#include "obs/line_out.h"
#include "obs/log.h"
#include "obs/log_line.h"

#define BATCH_SIZE 16384 /* bytes of lines that are copied from the ring at a time */
/* A line whose start is written, two reports, a batch. */
#define BATCH_CAPACITY (BATCH_SIZE + 3 * UVHTTP__LOG_LINE_MAX)
#define MS UINT64_C(1000000) /* ns */

static_assert(BATCH_SIZE >= UVHTTP__LOG_LINE_MAX, "a line fits into a batch");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;     /* the thread has something to do */
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER; /* lines were written or lost, or the thread ends */

/* --- under the lock --- */

static char ring[UVHTTP__LOG_RING_SIZE];
static uint64_t put, consumed; /* bytes that ever came into the ring and left it; reduced modulo its size */
static uint64_t settled;       /* bytes that were written or lost: behind `consumed` while a batch is written */
static unsigned users;         /* servers that run */
static bool writing;           /* the thread exists, or a thread that logs writes by itself */
static bool stopping;          /* the thread ends when the ring is empty */
static uint64_t give_up_ns;    /* on the monotonic clock: standard error is no longer waited for; 0: never */
static bool joinable;          /* `thread` has not been joined */
static pthread_t thread;
static uint64_t dropped_new, dropped_at; /* lines dropped and not reported, and `put` at the first of them */
static uint64_t failed_new;              /* lines that could not be written and are not reported */
static int failed_error;

/* --- of the thread that writes --- */

static char batch[BATCH_CAPACITY];
static uvhttp__line_outcome_t may_wait(void *user);
static uvhttp__line_out_t out = {.fd = STDERR_FILENO, .data = batch, .wait = may_wait};

/* --- any thread --- */

static _Atomic uint64_t lines_total, bytes_total, dropped_total, failed_total;

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uvhttp__line_outcome_t may_wait(void *user) {
    (void)user;
    pthread_mutex_lock(&lock);
    bool enough = give_up_ns != 0 && monotonic_ns() >= give_up_ns;
    pthread_mutex_unlock(&lock);
    return enough ? UVHTTP__LINES_FAILED : UVHTTP__LINES_WRITTEN;
}

/* --- the ring; under the lock --- */

static void copy_in(const char *line, size_t size) {
    size_t at = put % UVHTTP__LOG_RING_SIZE, to_end = UVHTTP__LOG_RING_SIZE - at, first = size < to_end ? size : to_end;
    memcpy(ring + at, line, first);
    memcpy(ring, line + first, size - first);
    put += size;
}

/* Appends up to BATCH_SIZE bytes of whole lines to the batch. */
static void copy_out(void) {
    size_t at = consumed % UVHTTP__LOG_RING_SIZE, to_end = UVHTTP__LOG_RING_SIZE - at;
    size_t size = put - consumed < BATCH_SIZE ? (size_t)(put - consumed) : BATCH_SIZE;
    size_t first = size < to_end ? size : to_end;
    char *to = batch + out.size;
    memcpy(to, ring + at, first);
    memcpy(to + first, ring, size - first);
    const char *end = size > 0 ? memrchr(to, '\n', size) : NULL;
    size_t whole = end ? (size_t)(end - to) + 1 : 0;
    out.size += whole;
    consumed += whole;
}

/* --- reports of what is missing; under the lock --- */

static void append_report(const char *message) {
    uvhttp_log_format_t format = uvhttp_log_get_format();
    char text[UVHTTP_LOG_MESSAGE_MAX + 1];
    (void)uvhttp__log_escape(format, message, strlen(message), false, text);
    out.size += uvhttp__log_line(format, UVHTTP_LOG_LEVEL_WARN, text, "", uvhttp__log_now_ns(), batch + out.size);
}

static const char *lines_were(uint64_t count) {
    return count == 1 ? "line was" : "lines were";
}

/* Before the lines that follow a failure. */
static void report_failed(void) {
    if (failed_new == 0) return;
    char text[256];
    snprintf(text, sizeof text, "log: %llu %s lost here: writing to standard error failed: %s",
             (unsigned long long)failed_new, lines_were(failed_new), strerrordesc_np(failed_error));
    append_report(text);
}

/* Behind the lines that were in the ring when it was full. */
static void report_dropped(void) {
    if (dropped_new == 0 || consumed < dropped_at) return;
    char text[160];
    snprintf(text, sizeof text, "log: %llu %s dropped here: standard error accepts them too slowly",
             (unsigned long long)dropped_new, lines_were(dropped_new));
    append_report(text);
    dropped_new = 0;
}

/* --- writing --- */

static void add_counts(const uvhttp__line_counts_t *counts) {
    atomic_fetch_add_explicit(&lines_total, counts->lines, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes_total, counts->bytes, memory_order_relaxed);
}

/* A report that is lost does not count as a line: what it reports is still to be reported. */
static void note_failure(uint64_t failed, uint64_t reports, int error) {
    uint64_t lost = failed > reports ? failed - reports : 0;
    failed_new += lost;
    failed_error = error;
    atomic_fetch_add_explicit(&failed_total, lost, memory_order_relaxed);
}

/* Writes one batch. Called with the lock, which is not held meanwhile. A failure loses the lines at the end of the
 * batch. A line of which a part was written counts as written: the next batch starts with its rest. */
static void write_batch(void) {
    uvhttp__line_counts_t counts = {.lines = 0};
    uint64_t begun = out.head_done > 0, failed = failed_new, dropped = dropped_new;
    report_failed();
    copy_out();
    report_dropped();
    dropped -= dropped_new; /* so many are reported in this batch */
    pthread_mutex_unlock(&lock);
    uvhttp__line_out_look(&out); /* the application may have redirected it */
    uvhttp__line_outcome_t outcome = uvhttp__line_out_flush(&out, &counts);
    int error = errno;
    pthread_mutex_lock(&lock);
    add_counts(&counts);
    bool failed_is_reported = failed > 0 && counts.lines + (out.size > 0) > begun;
    bool dropped_is_lost = dropped > 0 && counts.failed > 0;
    if (failed_is_reported) failed_new = 0;
    if (outcome == UVHTTP__LINES_FAILED)
        note_failure(counts.failed, (failed > 0 && !failed_is_reported) + (unsigned)dropped_is_lost, error);
    if (dropped_is_lost) {
        dropped_new += dropped;
        dropped_at = consumed;
    }
    settled = consumed;
    pthread_cond_broadcast(&progress);
}

static void write_all(void) {
    while (consumed != put) write_batch();
}

static void *run(void *arg) {
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        write_all();
        if (stopping) break;
        pthread_cond_wait(&wake, &lock);
    }
    writing = false;
    give_up_ns = 0;
    pthread_cond_broadcast(&progress);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Under the lock. A thread that has left `writing` false only has to return. */
static void join_ended(void) {
    if (joinable && !writing) {
        pthread_join(thread, NULL);
        joinable = false;
    }
}

/* Under the lock. If the system refuses a thread the lines wait, and the next line tries again. */
static void start_thread(void) {
    join_ended();
    stopping = false;
    give_up_ns = 0;
    joinable = writing = uvhttp__thread_start(&thread, run, NULL);
}

/* Under the lock: no server runs, or there is no thread at its end. */
static void write_here(void) {
    writing = true;
    write_all();
    writing = false;
    give_up_ns = 0;
    pthread_cond_broadcast(&progress);
}

static void write_new(void) {
    if (writing)
        pthread_cond_signal(&wake);
    else if (users > 0)
        start_thread();
    else
        write_here();
}

void uvhttp__log_write(uvhttp_log_level_t level, const char *line, size_t size) {
    int saved_errno = errno;
    assert(size > 0 && size <= UVHTTP__LOG_LINE_MAX && line[size - 1] == '\n');
    pthread_mutex_lock(&lock);
    size_t max = level < UVHTTP_LOG_LEVEL_WARN ? UVHTTP__LOG_RING_MINOR_MAX : UVHTTP__LOG_RING_SIZE;
    if (put - consumed + size <= max) {
        copy_in(line, size);
    } else {
        if (dropped_new++ == 0) dropped_at = put;
        atomic_fetch_add_explicit(&dropped_total, 1, memory_order_relaxed);
    }
    write_new();
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}

/* --- waiting --- */

/* Under the lock. Waits for `progress`. False: it is too late. */
static bool wait_until(uint64_t deadline_ns) {
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_clockwait(&progress, &lock, CLOCK_MONOTONIC, &until) != ETIMEDOUT;
}

int uvhttp__log_writer_flush(uint32_t timeout_ms) {
    int saved_errno = errno;
    uint64_t deadline_ns = monotonic_ns() + timeout_ms * MS;
    pthread_mutex_lock(&lock);
    uint64_t target = put;
    if (settled != target) write_new();
    while (settled < target && wait_until(deadline_ns)) {
    }
    bool done = settled >= target;
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
    return done ? UVHTTP_OK : UVHTTP_E_TIMEOUT;
}

/* --- servers, processes --- */

/* Under the lock. Lets the thread write what there is, then end. */
static void end_thread(uint32_t wait_ms) {
    uint64_t now_ns = monotonic_ns();
    give_up_ns = now_ns + UVHTTP__LOG_LAST_MS * MS;
    if (!writing && consumed != put) write_here(); /* there was never a thread */
    stopping = true;
    pthread_cond_signal(&wake);
    while (joinable && writing && stopping && wait_until(now_ns + wait_ms * MS)) {
    }
    join_ended();
    if (!writing) give_up_ns = 0;
}

void uvhttp__log_writer_close(uint32_t wait_ms) {
    pthread_mutex_lock(&lock);
    assert(users > 0);
    if (--users == 0) end_thread(wait_ms);
    pthread_mutex_unlock(&lock);
}

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

/* The thread is the parent's, and so are its lines. */
static void after_fork_in_child(void) {
    put = consumed = settled = 0;
    dropped_new = failed_new = 0;
    out.size = out.head_done = 0;
    users = 0;
    writing = stopping = joinable = false;
    give_up_ns = 0;
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&progress, NULL);
    pthread_mutex_unlock(&lock);
}

static void prepare_for_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void uvhttp__log_writer_open(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare_for_forks);
    pthread_mutex_lock(&lock);
    users++;
    stopping = false; /* a thread that was to end continues */
    give_up_ns = 0;
    pthread_mutex_unlock(&lock);
}

bool uvhttp__log_writer_accepts(void) {
    return uvhttp__line_out_accepts(STDERR_FILENO);
}

/* The process ends, or the library is unloaded, while a server runs: its last lines are not lost. What is logged after
 * this is written by whoever logs it. */
__attribute__((destructor)) static void on_exit_or_unload(void) {
    pthread_mutex_lock(&lock);
    users = 0;
    end_thread(UVHTTP__LOG_CLOSE_MS);
    pthread_mutex_unlock(&lock);
}

void uvhttp__log_writer_stats(uvhttp_log_stats_t *stats) {
    stats->lines = atomic_load(&lines_total);
    stats->bytes = atomic_load(&bytes_total);
    stats->dropped = atomic_load(&dropped_total);
    stats->failed = atomic_load(&failed_total);
}
