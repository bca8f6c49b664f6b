/* Owns: see file_reader.h. Two ways: pieces of the file are copied into memory, the next one while the last is sent; or
 * they stay in the page cache, where a thread reads in what is not there. May include: io, base, obs. */
#include "exec/file_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "exec/page_cache.h"
#include "obs/log.h"

#define COPY_SIZE (UVHTTP__FILE_READER_MEMORY_MAX / 2)
#define COPIES_MAX 2
/* What is brought at a time: little enough for a socket to take it soon, while it is in memory. */
#define BRING_SIZE (256u * 1024)
/* What is looked for in the page cache at a time: what the wire queue sends in one iteration. */
#define LOOK_SIZE (1024u * 1024)
#define SCRATCH_SIZE (16u * 1024)
/* Frames that one system call reads: of HTTP/2 all of a copy. */
#define FRAMES_PER_CALL 4

/* Bytes that have been copied, or are being copied. */
typedef struct copy {
    uvhttp__file_reader_t *reader;
    uint32_t refs;  /* the reader's, while it is not consumed, and one for each keeper */
    uint32_t shown; /* bytes that were consumed */
    uint32_t size;  /* bytes of the file */
    char data[];    /* they stand here, each frame's behind the space for its head */
} copy_t;

struct uvhttp__file_reader {
    uvhttp__work_port_t *port;
    uvhttp__file_t file;      /* offset and size: of what was not consumed */
    void (*ready)(void *arg); /* NULL: it is closed */
    void *arg;
    uint32_t refs;   /* the owner's, and one for each copy, keeper, job and message */
    uint32_t copies; /* that are in memory */
    int status;      /* why the rest cannot be had; 0: it can */
    bool decided, by_sendfile;
    bool awaited;             /* `ready` has to be called */
    bool reading;             /* the job is out */
    bool posted;              /* the message is out */
    uint64_t read_to;         /* copies: in the file, where the next one begins */
    copy_t *next, *unread;    /* copies: to be consumed; and what the job reads */
    uint64_t held_to;         /* sendfile: in the file, the end of what was found or brought */
    uint64_t job_offset;      /* what the job reads */
    size_t job_size, job_got; /* bytes; less than job_size: the end of the file, or an error */
    uvhttp__job_t job;
    uvhttp__post_t post;
};

static uvhttp__counters_t *counters_of(const uvhttp__file_reader_t *reader) {
    return reader->port->loop->counters;
}

static size_t least(uint64_t a, size_t b) {
    return a < b ? (size_t)a : b;
}

static void release(void *arg) {
    uvhttp__file_reader_t *reader = arg;
    if (--reader->refs > 0) return;
    uvhttp__keeper_release(reader->file.keeper);
    uvhttp__free(reader);
}

static void read_on(uvhttp__file_reader_t *reader);

static void release_copy(void *arg) {
    copy_t *copy = arg;
    uvhttp__file_reader_t *reader = copy->reader;
    if (--copy->refs > 0) return;
    uvhttp__free(copy);
    reader->copies--;
    read_on(reader);
    release(reader);
}

/* --- frames of a copy --- */

static size_t frame_size(const uvhttp__file_reader_t *reader) {
    return (size_t)reader->file.framing.head_size + reader->file.framing.payload_max;
}

/* Bytes of the file that fit in a copy. */
static size_t copy_max(const uvhttp__file_reader_t *reader) {
    return COPY_SIZE / frame_size(reader) * reader->file.framing.payload_max;
}

static copy_t *copy_new(uvhttp__file_reader_t *reader, size_t size) {
    const uvhttp__framing_t *framing = &reader->file.framing;
    size_t frames = (size + framing->payload_max - 1) / framing->payload_max;
    copy_t *copy = uvhttp__malloc(sizeof *copy + size + frames * framing->head_size);
    if (copy) *copy = (copy_t){.reader = reader, .refs = 1, .size = (uint32_t)size};
    return copy;
}

/* Where byte `at` of the copy stands. *size: how many bytes stand together from there on. */
static char *place_of(copy_t *copy, size_t at, size_t *size) {
    const uvhttp__framing_t *framing = &copy->reader->file.framing;
    size_t frame = at / framing->payload_max, in_frame = at % framing->payload_max;
    *size = least(copy->size - at, framing->payload_max - in_frame);
    return copy->data + frame * frame_size(copy->reader) + framing->head_size + in_frame;
}

/* --- on a thread of the pool --- */

/* Reads up to as many bytes more as there is memory for. Returns whether there are any. */
static bool read_more(uvhttp__file_reader_t *reader, const struct iovec *memory, int count) {
    uint64_t offset = reader->job_offset + reader->job_got;
    ssize_t got;
    do {
        got = preadv(reader->file.fd, memory, count, (off_t)offset);
    } while (got < 0 && errno == EINTR);
    if (got > 0)
        reader->job_got += (size_t)got;
    else
        uvhttp__log_file_error(reader->file.fd, NULL, offset, got < 0 ? errno : 0);
    return got > 0;
}

static void copy_bytes(uvhttp__job_t *job) {
    uvhttp__file_reader_t *reader = UVHTTP__CONTAINER_OF(job, uvhttp__file_reader_t, job);
    bool more = true;
    while (more && reader->job_got < reader->job_size) {
        struct iovec memory[FRAMES_PER_CALL];
        int count = 0;
        for (size_t at = reader->job_got; at < reader->job_size && count < FRAMES_PER_CALL; count++) {
            memory[count].iov_base = place_of(reader->unread, at, &memory[count].iov_len);
            at += memory[count].iov_len;
        }
        more = read_more(reader, memory, count);
    }
}

/* Reading is how to know that the disk has brought it. What comes next is on its way meanwhile. */
static void bring_bytes(uvhttp__job_t *job) {
    uvhttp__file_reader_t *reader = UVHTTP__CONTAINER_OF(job, uvhttp__file_reader_t, job);
    char scratch[SCRATCH_SIZE];
    (void)posix_fadvise(reader->file.fd, (off_t)reader->job_offset, 2 * (off_t)reader->job_size, POSIX_FADV_WILLNEED);
    for (size_t left; (left = reader->job_size - reader->job_got) > 0;)
        if (!read_more(reader, &(struct iovec){scratch, least(left, sizeof scratch)}, 1)) return;
}

/* --- on the loop --- */

static void notify(uvhttp__file_reader_t *reader) {
    if (!reader->awaited || !reader->ready) return;
    reader->awaited = false;
    reader->ready(reader->arg);
}

static void on_post(uvhttp__post_t *post) {
    uvhttp__file_reader_t *reader = UVHTTP__CONTAINER_OF(post, uvhttp__file_reader_t, post);
    reader->posted = false;
    notify(reader);
    release(reader);
}

/* Permanently. The waiting keeper is notified by a message, because it may be released at any time. */
static void fail(uvhttp__file_reader_t *reader, int status) {
    reader->status = status;
    if (!reader->awaited || reader->posted) return;
    reader->posted = true;
    reader->refs++;
    reader->post.run = on_post;
    uvhttp__loop_post(reader->port->loop, &reader->post);
}

static void job_done(uvhttp__job_t *job, bool cancelled);

/* Returns 0 or what uvhttp__work_submit does. */
static int submit(uvhttp__file_reader_t *reader, void (*run)(uvhttp__job_t *job), uint64_t offset, size_t size) {
    reader->job_offset = offset;
    reader->job_size = size;
    reader->job_got = 0;
    uvhttp__job_init(&reader->job, run, job_done);
    reader->job.name = "file";
    reader->job.owed = true; /* the head has left */
    int status = uvhttp__work_submit(reader->port->work, reader->port, &reader->job);
    if (status != UVHTTP_OK) return status;
    reader->reading = true;
    reader->refs++;
    return UVHTTP_OK;
}

/* The next copy, if there is one to be made and space for it. */
static void read_on(uvhttp__file_reader_t *reader) {
    uint64_t end = reader->file.offset + reader->file.size;
    if (!reader->ready || reader->status != UVHTTP_OK || reader->by_sendfile || reader->reading || reader->next ||
        reader->copies == COPIES_MAX || reader->read_to == end)
        return;
    size_t size = least(end - reader->read_to, copy_max(reader));
    copy_t *copy = copy_new(reader, size);
    if (!copy) {
        fail(reader, UVHTTP_E_NOMEM);
        return;
    }
    reader->unread = copy;
    int status = submit(reader, copy_bytes, reader->read_to, size);
    if (status != UVHTTP_OK) {
        reader->unread = NULL;
        uvhttp__free(copy);
        fail(reader, status);
        return;
    }
    reader->copies++;
    reader->refs++; /* the copy's */
}

static void bring(uvhttp__file_reader_t *reader) {
    if (reader->reading) return;
    uvhttp__counters_add(counters_of(reader), file_pieces_brought, 1);
    int status = submit(reader, bring_bytes, reader->file.offset, least(reader->file.size, BRING_SIZE));
    if (status != UVHTTP_OK) fail(reader, status);
}

static void take_result(uvhttp__file_reader_t *reader, bool cancelled) {
    copy_t *copy = reader->unread;
    reader->unread = NULL;
    if (cancelled || reader->job_got < reader->job_size) {
        if (!cancelled) uvhttp__counters_add(counters_of(reader), file_read_errors, 1);
        reader->status = UVHTTP_E_ABORTED;
    } else if (copy) {
        reader->next = copy;
        reader->read_to += copy->size;
        return;
    } else {
        reader->held_to = reader->job_offset + reader->job_size;
    }
    if (copy) release_copy(copy);
}

static void job_done(uvhttp__job_t *job, bool cancelled) {
    uvhttp__file_reader_t *reader = UVHTTP__CONTAINER_OF(job, uvhttp__file_reader_t, job);
    reader->reading = false;
    if (reader->ready) {
        take_result(reader, cancelled);
        notify(reader);
    } else if (reader->unread) {
        release_copy(reader->unread);
    }
    release(reader);
}

/* --- for who pulls --- */

uvhttp__file_reader_t *uvhttp__file_reader_new(uvhttp__work_port_t *port, const uvhttp__file_t *file,
                                               void (*ready)(void *arg), void *arg) {
    uvhttp__file_reader_t *reader = uvhttp__malloc(sizeof *reader);
    if (!reader) {
        uvhttp__keeper_release(file->keeper);
        return NULL;
    }
    *reader = (uvhttp__file_reader_t){
        .port = port, .file = *file, .ready = ready, .arg = arg, .refs = 1, .read_to = file->offset};
    if (file->framing.head_size == 0) reader->file.framing.payload_max = COPY_SIZE; /* a copy is one frame */
    return reader;
}

bool uvhttp__file_reader_is_undecided(const uvhttp__file_reader_t *reader) {
    return !reader->decided && !reader->file.copied;
}

/* What a thread has brought is not looked for again. */
static int peek_held(uvhttp__file_reader_t *reader, uvhttp__piece_t *piece) {
    const uvhttp__file_t *file = &reader->file;
    if (file->offset >= reader->held_to) {
        uint64_t size = least(file->size, LOOK_SIZE);
        _Atomic(uint64_t) *found_ms = file->offset == 0 && size == file->size ? file->found_ms : NULL;
        if (reader->reading ||
            !uvhttp__page_cache_holds(file->fd, file->offset, size, found_ms, reader->port->loop->now_ms)) {
            bring(reader);
            return UVHTTP_E_AGAIN;
        }
        reader->held_to = file->offset + size;
    }
    *piece = (uvhttp__piece_t){
        .kind = UVHTTP__PIECE_FILE, .fd = file->fd, .offset = file->offset, .size = reader->held_to - file->offset};
    return UVHTTP_OK;
}

static int peek_copy(uvhttp__file_reader_t *reader, uvhttp__piece_t *piece) {
    copy_t *copy = reader->next;
    if (!copy) {
        read_on(reader);
        return UVHTTP_E_AGAIN;
    }
    const uvhttp__framing_t *framing = &reader->file.framing;
    bool framed = framing->head_size > 0 && copy->shown % framing->payload_max == 0;
    size_t size;
    const char *data = place_of(copy, copy->shown, &size);
    *piece = (uvhttp__piece_t){.kind = framed ? UVHTTP__PIECE_FRAMED : UVHTTP__PIECE_KEPT, .data = data, .size = size};
    return UVHTTP_OK;
}

int uvhttp__file_reader_peek(uvhttp__file_reader_t *reader, bool by_sendfile, uvhttp__piece_t *piece) {
    if (reader->status != UVHTTP_OK && !reader->next) return reader->status;
    if (!reader->decided) reader->by_sendfile = by_sendfile && !reader->file.copied;
    reader->decided = true;
    int status = reader->by_sendfile ? peek_held(reader, piece) : peek_copy(reader, piece);
    if (status == UVHTTP_E_AGAIN && reader->status != UVHTTP_OK) status = reader->status;
    reader->awaited = status == UVHTTP_E_AGAIN;
    return status;
}

uvhttp__keeper_t uvhttp__file_reader_consume(uvhttp__file_reader_t *reader, uint64_t size) {
    reader->file.offset += size;
    reader->file.size -= size;
    if (reader->by_sendfile) {
        reader->refs++;
        return (uvhttp__keeper_t){release, reader};
    }
    copy_t *copy = reader->next;
    copy->refs++;
    copy->shown += (uint32_t)size;
    if (copy->shown == copy->size) {
        reader->next = NULL;
        copy->refs--; /* the keeper has the last one */
        read_on(reader);
    }
    return (uvhttp__keeper_t){release_copy, copy};
}

void uvhttp__file_reader_close(uvhttp__file_reader_t *reader) {
    reader->ready = NULL;
    copy_t *copy = reader->next;
    reader->next = NULL;
    if (copy) release_copy(copy);
    release(reader);
}
