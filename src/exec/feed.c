/* Owns: files that threads of a pool read into a stream's output. May include: io, base, obs. */
#include "exec/feed.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"

#define PIECE_SIZE (UVHTTP__FEED_SIZE_MAX / 2)
#define PIECES_MAX 2 /* one is sent while the next is read */

typedef struct piece piece_t;

typedef struct feed {
    uvhttp__source_t source;
    uvhttp__work_port_t *port;
    uvhttp__feed_file_t file; /* offset and size of what is still to be read */
    piece_t *reading;         /* what the job reads, NULL: it is not out */
    uint32_t pieces;          /* that are there: being read, or in the queue */
    bool failed;
    uvhttp__job_t job;
    uvhttp__post_t failure;
} feed_t;

struct piece {
    feed_t *feed;
    size_t size, got; /* bytes; less than size: the end of the file, or an error */
    char data[];
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

static void read_piece(uvhttp__job_t *job) {
    feed_t *feed = UVHTTP__CONTAINER_OF(job, feed_t, job);
    piece_t *piece = feed->reading;
    while (piece->got < piece->size) {
        off_t offset = (off_t)(feed->file.offset + piece->got);
        ssize_t got = pread(feed->file.fd, piece->data + piece->got, piece->size - piece->got, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        piece->got += (size_t)got;
    }
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

/* Breaking the connection off has to wait until nobody is in the queue. The message counts as a piece. */
static void fail_soon(feed_t *feed, int code) {
    uvhttp__loop_t *loop = feed->source.stream->loop;
    if (code == UVHTTP_E_WORK_FULL) uvhttp__counters_error(loop->counters, feed->file.busy_code);
    feed->failed = true;
    feed->pieces++;
    feed->failure.run = on_failure;
    uvhttp__loop_post(loop, &feed->failure);
}

static void piece_done(uvhttp__job_t *job, bool cancelled);

static void read_next(feed_t *feed) {
    if (feed->reading || feed->failed || feed->file.size == 0 || feed->pieces == PIECES_MAX) return;
    size_t size = feed->file.size < PIECE_SIZE ? (size_t)feed->file.size : PIECE_SIZE;
    piece_t *piece = uvhttp__malloc(sizeof *piece + size);
    if (!piece) {
        fail_soon(feed, UVHTTP_E_NOMEM);
        return;
    }
    *piece = (piece_t){.feed = feed, .size = size};
    feed->reading = piece;
    feed->pieces++;
    uvhttp__job_init(&feed->job, read_piece, piece_done);
    feed->job.name = "file";
    int status = uvhttp__work_submit(feed->port->work, feed->port, &feed->job);
    if (status == UVHTTP_OK) return;
    feed->reading = NULL;
    drop_piece(piece);
    fail_soon(feed, status);
}

/* A piece was taken from the queue, or will not be. */
static void piece_released(void *arg) {
    piece_t *piece = arg;
    feed_t *feed = piece->feed;
    drop_piece(piece);
    if (uvhttp__source_is_wanted(&feed->source))
        read_next(feed);
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
        drop_piece(piece);
        fail_soon(feed, UVHTTP_E_ABORTED);
        return;
    }
    size_t size = piece->size;
    int status = uvhttp__source_put(&feed->source, piece->data, size, piece_released, piece);
    if (status != UVHTTP_OK) {
        fail_soon(feed, status);
        return;
    }
    feed->file.offset += size; /* the piece in the queue keeps the feed */
    feed->file.size -= size;
    read_next(feed);
}

static void want(uvhttp__source_t *source) {
    read_next(UVHTTP__CONTAINER_OF(source, feed_t, source));
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
    *feed = (feed_t){.source = {.want = want, .released = released}, .port = port, .file = *file};
    return uvhttp__stream_send_source(stream, &feed->source, file->size);
}
