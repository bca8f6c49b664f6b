/* Owns: files that are neither in memory nor sent by sendfile: read in pieces by helper threads, one piece ahead of
 * what the client takes. May include: message exec base obs. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "handler/static.h"

#define PIECE_SIZE 131072u /* bytes */
#define SLICE_SIZE 4096u   /* bytes: what the smallest write_queue_max takes */

typedef struct stream {
    uvhttp__job_t job;
    uvhttp__static_cache_t *cache;
    uvhttp__static_file_t *file;
    uvhttp_deferred_t *deferred;       /* NULL: given back */
    const uvhttp__body_parts_t *parts; /* in the request's memory */
    const char *type;                  /* the same, or the file's */
    uint64_t size;                     /* of the body */
    int status;
    uint32_t part;   /* the one in hand */
    uint64_t at;     /* bytes of it that were read */
    uint64_t offset; /* where the job reads in the file */
    size_t want;     /* bytes that the job reads */
    size_t written;  /* of them */
    ssize_t got;     /* what it got: less means that the file became shorter */
    bool reading;    /* the job is out */
    bool posted;     /* a message is on its way to the response */
    bool filled;     /* there is a piece to write */
    bool ready;      /* the client has taken what was written */
    bool ended;      /* the response is over */
    char piece[];
} stream_t;

static void stream_free(stream_t *stream) {
    if (stream->deferred) uvhttp_deferred_release(stream->deferred);
    uvhttp__static_file_release(stream->file);
    uvhttp__free(stream);
}

static void end(stream_t *stream) {
    stream->ended = true;
    if (!stream->reading && !stream->posted) stream_free(stream);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)status;
    end(user);
}

/* --- reading --- */

static void read_piece(uvhttp__job_t *job) {
    stream_t *stream = UVHTTP__CONTAINER_OF(job, stream_t, job);
    size_t have = 0;
    while (have < stream->want) {
        ssize_t got =
            pread(stream->file->fd, stream->piece + have, stream->want - have, (off_t)(stream->offset + have));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        have += (size_t)got;
    }
    stream->got = (ssize_t)have;
}

static void go_on(uvhttp_response_t *res, void *user);

/* The response is to be found through its handle: only so is it known whether there still is one. */
static void piece_read(uvhttp__job_t *job, bool cancelled) {
    stream_t *stream = UVHTTP__CONTAINER_OF(job, stream_t, job);
    stream->reading = false;
    if (cancelled) stream->got = 0;
    stream->filled = true;
    if (stream->ended) {
        stream_free(stream);
        return;
    }
    if (uvhttp_deferred_run(stream->deferred, go_on, stream) == UVHTTP_OK) {
        stream->posted = true;
        return;
    }
    /* What was begun is cut off, and on_done frees the rest. */
    uvhttp_deferred_t *deferred = stream->deferred;
    stream->deferred = NULL;
    uvhttp_deferred_release(deferred);
}

/* Starts to read the next piece, if there is one. False: it can not be had. */
static bool read_next(stream_t *stream) {
    const uvhttp__body_part_t *part = &stream->parts->parts[stream->part];
    uint64_t left = part->size - stream->at;
    stream->offset = part->offset + stream->at;
    stream->want = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
    stream->written = 0;
    uvhttp__job_init(&stream->job, read_piece, piece_read);
    stream->reading = uvhttp__work_submit(stream->cache->site->work, &stream->cache->port, &stream->job) == UVHTTP_OK;
    if (!stream->reading) uvhttp__counters_error(stream->cache->counters, UVHTTP_E_STATIC_BUSY);
    return stream->reading;
}

/* --- writing --- */

/* Texts between the ranges are small: all that stand here are written. Returns whether the body goes on. */
static bool write_texts(stream_t *stream, uvhttp_response_t *res) {
    for (; stream->part < stream->parts->count; stream->part++) {
        const uvhttp__body_part_t *part = &stream->parts->parts[stream->part];
        if (part->held) return true;
        if (uvhttp_response_write(res, part->data, (size_t)part->size) != UVHTTP_OK) return false;
    }
    return false;
}

/* Writes the piece that is there. An end before the announced size cuts the connection: never wrong framing. */
static void write_piece(stream_t *stream, uvhttp_response_t *res) {
    stream->ready = false;
    if ((size_t)stream->got < stream->want) {
        (void)uvhttp_response_end(res);
        return;
    }
    int status = UVHTTP_OK;
    while (status == UVHTTP_OK && stream->written < stream->want) {
        size_t left = stream->want - stream->written, slice = left < SLICE_SIZE ? left : SLICE_SIZE;
        status = uvhttp_response_write(res, stream->piece + stream->written, slice);
        if (status == UVHTTP_OK) stream->written += slice;
    }
    if (status == UVHTTP_E_LIMIT) return; /* on_drain comes */
    stream->filled = false;
    stream->at += stream->want;
    bool more = status == UVHTTP_OK;
    if (more && stream->at == stream->parts->parts[stream->part].size) {
        stream->part++;
        stream->at = 0;
        more = write_texts(stream, res);
    }
    /* What is so little that no on_drain follows has room for the next piece. */
    if (stream->want <= SLICE_SIZE) stream->ready = true;
    if (!more || !read_next(stream)) (void)uvhttp_response_end(res);
}

static void go_on(uvhttp_response_t *res, void *user) {
    stream_t *stream = user;
    stream->posted = false;
    if (!res) {
        if (stream->ended) stream_free(stream);
        return;
    }
    if (stream->ready && stream->filled) write_piece(stream, res);
}

static void on_drain(uvhttp_response_t *res, void *user) {
    stream_t *stream = user;
    stream->ready = true;
    if (stream->filled && !stream->posted) write_piece(stream, res);
}

static void start(uvhttp_response_t *res, void *user) {
    stream_t *stream = user;
    if (!res) {
        stream_free(stream);
        return;
    }
    stream->ready = true;
    uvhttp_deferred_on_drain(stream->deferred, on_drain, stream);
    if (uvhttp_response_on_done(res, on_done, stream) != UVHTTP_OK) {
        uvhttp__response_fail(res, 503, "Service Unavailable\n");
        stream_free(stream);
        return;
    }
    int status = uvhttp_response_begin(res, stream->status, stream->type, stream->size);
    if (status == UVHTTP_OK && (!write_texts(stream, res) || !read_next(stream))) (void)uvhttp_response_end(res);
}

void uvhttp__static_stream(uvhttp__static_cache_t *cache, uvhttp__static_file_t *file, int status, const char *type,
                           const uvhttp__body_parts_t *parts, uint64_t size, uvhttp_response_t *res,
                           uvhttp_deferred_t *deferred) {
    size_t type_size = strlen(type) + 1;
    stream_t *stream = uvhttp__malloc(sizeof *stream + PIECE_SIZE);
    char *type_copy = uvhttp_request_alloc(uvhttp_response_request(res), type_size);
    bool answering_later = deferred != NULL;
    if (answering_later)
        uvhttp_deferred_retain(deferred);
    else if (stream && type_copy)
        deferred = uvhttp_response_defer(res);
    if (!stream || !type_copy || !deferred) {
        if (answering_later) uvhttp_deferred_release(deferred);
        uvhttp__free(stream);
        uvhttp__response_fail(res, 503, "Service Unavailable\n");
        return;
    }
    memcpy(type_copy, type, type_size);
    *stream = (stream_t){.cache = cache,
                         .file = file,
                         .deferred = deferred,
                         .parts = parts,
                         .type = type_copy,
                         .size = size,
                         .status = status};
    uvhttp__ref_acquire(&file->ref);
    if (answering_later) {
        start(res, stream);
    } else if (uvhttp_deferred_run(deferred, start, stream) != UVHTTP_OK) {
        stream_free(stream); /* the handle's end gives the client a 500 */
    }
}
