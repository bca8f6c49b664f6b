/* Owns: see line_out.h. */
#include "obs/line_out.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sigpipe.h"

#define PIPE_PIECE 4096 /* bytes that a pipe accepts whole once poll says that it can */
#define ASK_MS 100      /* between two questions to `wait` */

uint64_t uvhttp__count_lines(const char *at, size_t size) {
    uint64_t lines = 0;
    for (const char *end = at + size; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
    return lines;
}

void uvhttp__line_out_look(uvhttp__line_out_t *out) {
    struct stat info = {0};
    bool known = fstat(out->fd, &info) == 0;
    out->plain_file = known && S_ISREG(info.st_mode);
    if (info.st_dev != out->device || info.st_ino != out->inode) out->head_done = 0;
    out->device = info.st_dev;
    out->inode = info.st_ino;
}

void uvhttp__line_out_use(uvhttp__line_out_t *out, int fd) {
    out->fd = fd;
    uvhttp__line_out_look(out);
    out->head_done = 0;
}

bool uvhttp__line_out_accepts(int fd) {
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    return poll(&wanted, 1, 0) != 0; /* a plain file is always ready; write(2) reports errors */
}

static uvhttp__line_outcome_t wait_for_reader(const uvhttp__line_out_t *out) {
    struct pollfd wanted = {.fd = out->fd, .events = POLLOUT};
    for (int ms = 0;; ms = ASK_MS) {
        int ready = poll(&wanted, 1, ms);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return UVHTTP__LINES_WRITTEN; /* write(2) says what is wrong */
        uvhttp__line_outcome_t outcome = out->wait ? out->wait(out->user) : UVHTTP__LINES_WRITTEN;
        if (outcome == UVHTTP__LINES_FAILED) errno = ETIMEDOUT;
        if (outcome != UVHTTP__LINES_WRITTEN) return outcome;
    }
}

/* How much of [at, at + left) to write at once. */
static size_t next_piece(const uvhttp__line_out_t *out, const char *at, size_t left) {
    if (out->plain_file || left <= PIPE_PIECE) return left;
    const char *end = memrchr(at, '\n', PIPE_PIECE);
    return end ? (size_t)(end - at) + 1 : PIPE_PIECE;
}

/* write(2), whose EPIPE does not end a program that has its own thread here. */
static ssize_t write_piece(const uvhttp__line_out_t *out, const char *at, size_t size) {
    if (out->plain_file) return write(out->fd, at, size);
    uvhttp__pipe_guard_t guard;
    uvhttp__pipe_block(&guard);
    ssize_t wrote = write(out->fd, at, size);
    int error = errno;
    uvhttp__pipe_restore(&guard);
    errno = error;
    return wrote;
}

/* Writes from *done on, which it moves. */
static uvhttp__line_outcome_t write_from(uvhttp__line_out_t *out, size_t *done) {
    while (*done < out->size) {
        uvhttp__line_outcome_t waited = out->plain_file ? UVHTTP__LINES_WRITTEN : wait_for_reader(out);
        if (waited != UVHTTP__LINES_WRITTEN) return waited;
        const char *at = out->data + *done;
        ssize_t wrote = write_piece(out, at, next_piece(out, at, out->size - *done));
        if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (wrote == 0) errno = EIO;
        if (wrote <= 0) return UVHTTP__LINES_FAILED;
        *done += (size_t)wrote;
    }
    return UVHTTP__LINES_WRITTEN;
}

/* Forgets the lines that are written whole: `done` bytes are. What is left begins with a line. */
static void forget_written(uvhttp__line_out_t *out, size_t done, uvhttp__line_counts_t *counts) {
    counts->bytes += done - out->head_done;
    const char *end = memrchr(out->data, '\n', done);
    size_t whole = end ? (size_t)(end - out->data) + 1 : 0;
    counts->lines += uvhttp__count_lines(out->data, whole);
    memmove(out->data, out->data + whole, out->size - whole);
    out->size -= whole;
    out->head_done = done - whole;
}

uint64_t uvhttp__line_out_lose(uvhttp__line_out_t *out) {
    const char *end = out->head_done > 0 ? memchr(out->data, '\n', out->size) : NULL;
    size_t kept = end ? (size_t)(end - out->data) + 1 : 0;
    uint64_t lost = uvhttp__count_lines(out->data + kept, out->size - kept);
    out->size = kept;
    return lost;
}

uvhttp__line_outcome_t uvhttp__line_out_flush(uvhttp__line_out_t *out, uvhttp__line_counts_t *counts) {
    if (out->size == 0) return UVHTTP__LINES_WRITTEN;
    size_t done = out->head_done;
    uvhttp__line_outcome_t outcome = write_from(out, &done);
    int error = errno;
    forget_written(out, done, counts);
    if (outcome == UVHTTP__LINES_FAILED) counts->failed += uvhttp__line_out_lose(out);
    errno = error;
    return outcome;
}
