/* Owns: files on their way into a stream's output: by sendfile(2) while they are in the page cache, where threads of a
 * pool read in what is not, or copied by those threads. May include: io, base, obs. */
#include "exec/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "obs/log.h"

#define PIECE_SIZE (UVHTTP__FEED_SIZE_MAX / 2)
#define PIECES_MAX 2 /* one is sent while the next is read */
/* What is read for sendfile(2) at a time: little enough for a socket to take it soon, while it is in memory. */
#define SENDFILE_PIECE_SIZE (256u * 1024)
#define SCRATCH_SIZE (16u * 1024)

typedef struct piece piece_t;

typedef struct feed {
    uvhttp__source_t source;
    uvhttp__work_port_t *port;
    uvhttp__feed_file_t file; /* copied: offset and size are of what is still to be read */
    piece_t *reading;         /* what the job reads, NULL: it is not out */
    uint32_t pieces;          /* that are there: being read, or in the queue */
    bool failed;
    uvhttp__job_t job;
    uvhttp__post_t failure;
} feed_t;

struct piece {
    feed_t *feed;
    uint64_t offset;  /* in the file */
    size_t size, got; /* bytes; less than size: the end of the file, or an error */
    char data[];      /* of a file that is copied */
};

/* Nothing refers to it any more. */
static void free_if_done(feed_t *feed) {
    if (feed->source.stream || feed->pieces > 0) return;
    feed->file.release(feed->file.arg);
    uvhttp__free(feed);
}

static void drop_piece(piece_t *piece) {
    piece->feed->pieces--;
    uvhttp__free(piece);
}

/* --- on a thread of the pool --- */

/* Reads up to `size` bytes more. Returns whether there are any. */
static bool read_more(const feed_t *feed, piece_t *piece, char *data, size_t size) {
    ssize_t got;
    do {
        got = pread(feed->file.fd, data, size, (off_t)(piece->offset + piece->got));
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        piece->got += (size_t)got;
    else
        uvhttp__log_file_error(feed->file.fd, NULL, piece->offset + piece->got, got < 0 ? errno : 0);
    return got > 0;
}

static void copy_piece(uvhttp__job_t *job) {
    feed_t *feed = UVHTTP__CONTAINER_OF(job, feed_t, job);
    piece_t *piece = feed->reading;
    while (piece->got < piece->size && read_more(feed, piece, piece->data + piece->got, piece->size - piece->got)) {
    }
}

/* Reading is how to know that the disk has brought it. What comes next is on its way meanwhile. */
static void bring_piece(uvhttp__job_t *job) {
    feed_t *feed = UVHTTP__CONTAINER_OF(job, feed_t, job);
    piece_t *piece = feed->reading;
    char scratch[SCRATCH_SIZE];
    (void)posix_fadvise(feed->file.fd, (off_t)piece->offset, 2 * (off_t)piece->size, POSIX_FADV_WILLNEED);
    for (size_t left; (left = piece->size - piece->got) > 0;)
        if (!read_more(feed, piece, scratch, left < sizeof scratch ? left : sizeof scratch)) return;
}

/* --- on the loop --- */

static void on_failure(uvhttp__post_t *post) {
    feed_t *feed = UVHTTP__CONTAINER_OF(post, feed_t, failure);
    feed->pieces--;
    uvhttp__source_t *source = &feed->source;
    if (source->stream)
        uvhttp__source_fail(source); /* it may free the feed */
    else
        free_if_done(feed);
}

/* Breaking the connection off has to wait until nobody is in the queue. The message counts as a piece. What is given
 * back for want of memory asks for the next piece, for which there may be none either: there is one message only. */
static void fail_soon(feed_t *feed, int code) {
    if (feed->failed) return;
    uvhttp__loop_t *loop = feed->source.stream->loop;
    if (code == UVHTTP_E_WORK_FULL) uvhttp__counters_error(loop->counters, feed->file.busy_code);
    feed->failed = true;
    feed->pieces++;
    feed->failure.run = on_failure;
    uvhttp__loop_post(loop, &feed->failure);
}

static void piece_done(uvhttp__job_t *job, bool cancelled);

/* Has a thread read a piece, into `room` bytes behind it. */
static void submit(feed_t *feed, void (*run)(uvhttp__job_t *job), const piece_t *model, size_t room) {
    piece_t *piece = uvhttp__malloc(sizeof *piece + room);
    if (!piece) {
        fail_soon(feed, UVHTTP_E_NOMEM);
        return;
    }
    *piece = *model;
    feed->reading = piece;
    feed->pieces++;
    uvhttp__job_init(&feed->job, run, piece_done);
    feed->job.name = "file";
    int status = uvhttp__work_submit(feed->port->work, feed->port, &feed->job);
    if (status == UVHTTP_OK) return;
    feed->reading = NULL;
    drop_piece(piece);
    fail_soon(feed, status);
}

static size_t least(uint64_t a, size_t b) {
    return a < b ? (size_t)a : b;
}

static void copy_next(feed_t *feed) {
    if (feed->reading || feed->failed || feed->file.size == 0 || feed->pieces == PIECES_MAX) return;
    const piece_t piece = {.feed = feed, .offset = feed->file.offset, .size = least(feed->file.size, PIECE_SIZE)};
    submit(feed, copy_piece, &piece, piece.size);
}

static void bring_next(feed_t *feed) {
    const uvhttp__source_t *source = &feed->source;
    if (feed->reading || feed->failed) return;
    const piece_t piece = {.feed = feed, .offset = source->offset, .size = least(source->left, SENDFILE_PIECE_SIZE)};
    uvhttp__counters_add(source->stream->loop->counters, file_pieces_brought, 1);
    submit(feed, bring_piece, &piece, 0);
}

/* A piece was taken from the queue, or will not be. */
static void piece_released(void *arg) {
    piece_t *piece = arg;
    feed_t *feed = piece->feed;
    drop_piece(piece);
    if (uvhttp__source_is_wanted(&feed->source))
        copy_next(feed);
    else
        free_if_done(feed);
}

static void piece_done(uvhttp__job_t *job, bool cancelled) {
    feed_t *feed = UVHTTP__CONTAINER_OF(job, feed_t, job);
    piece_t *piece = feed->reading;
    feed->reading = NULL;
    if (!uvhttp__source_is_wanted(&feed->source)) {
        drop_piece(piece);
        free_if_done(feed);
        return;
    }
    if (cancelled || piece->got < piece->size) {
        if (!cancelled) uvhttp__counters_add(feed->source.stream->loop->counters, file_read_errors, 1);
        drop_piece(piece);
        fail_soon(feed, UVHTTP_E_ABORTED);
        return;
    }
    size_t size = piece->size;
    if (feed->source.fd >= 0) {
        drop_piece(piece);
        uvhttp__source_read(&feed->source, size);
        return;
    }
    int status = uvhttp__source_put(&feed->source, piece->data, size, piece_released, piece);
    if (status != UVHTTP_OK) {
        fail_soon(feed, status);
        return;
    }
    feed->file.offset += size; /* the piece in the queue keeps the feed */
    feed->file.size -= size;
    copy_next(feed);
}

static void want(uvhttp__source_t *source) {
    feed_t *feed = UVHTTP__CONTAINER_OF(source, feed_t, source);
    (feed->source.fd >= 0 ? bring_next : copy_next)(feed);
}

static void released(uvhttp__source_t *source) {
    free_if_done(UVHTTP__CONTAINER_OF(source, feed_t, source));
}

int uvhttp__feed_send(uvhttp__stream_t *stream, uvhttp__work_port_t *port, const uvhttp__feed_file_t *file) {
    feed_t *feed = uvhttp__malloc(sizeof *feed);
    if (!feed) {
        file->release(file->arg);
        return UVHTTP_E_NOMEM;
    }
    *feed =
        (feed_t){.source = {.want = want, .released = released, .found_ms = file->found_ms, .resident = file->resident},
                 .port = port,
                 .file = *file};
    return feed->file.copied ? uvhttp__stream_send_source(stream, &feed->source, file->size)
                             : uvhttp__stream_send_file(stream, &feed->source, file->fd, file->offset, file->size);
}
