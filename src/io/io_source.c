/* Owns: output that somebody else brings: a source has its place in a stream's queue, what stands behind waits for it,
 * and what it brings is put in front of it. And files: sendfile(2) waits for the disk where it does not find a page in
 * memory, so that is looked for first, and what is not there is somebody else's to read. May include: base, obs. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "io/engine.h"
#include "obs/log.h"

#ifdef SYS_cachestat
#define CACHESTAT_NUMBER SYS_cachestat
#else
#define CACHESTAT_NUMBER 451 /* where headers are older than Linux 6.5 */
#endif

static void place_released(void *arg) {
    uvhttp__source_t *source = arg;
    source->stream = NULL;
    source->released(source);
}

int uvhttp__stream_send_source(uvhttp__stream_t *stream, uvhttp__source_t *source, uint64_t size) {
    source->stream = stream;
    source->fd = source->spare_fd = -1;
    source->read_size = 0;
    return uvhttp__out_enqueue(
        stream,
        &(uvhttp__segment_t){.fd = UVHTTP__SEGMENT_SOURCE, .size = size, .release = place_released, .arg = source});
}

bool uvhttp__source_is_wanted(const uvhttp__source_t *source) {
    return source->stream && !(source->stream->flags & (UVHTTP__STREAM_BROKEN | UVHTTP__STREAM_CLOSING));
}

/* Where the source's own segment is linked. */
static uvhttp__segment_t **find_place(const uvhttp__source_t *source) {
    uvhttp__segment_t **at = &source->stream->out_first;
    while (!uvhttp__segment_is_source(*at) || (*at)->arg != source) at = &(*at)->next;
    return at;
}

int uvhttp__source_put(uvhttp__source_t *source, const char *data, size_t size, uvhttp__release_cb release, void *arg) {
    uvhttp__stream_t *stream = source->stream;
    bool wanted = uvhttp__source_is_wanted(source);
    uvhttp__segment_t *piece = wanted ? uvhttp__slab_alloc(&stream->loop->segments) : NULL;
    if (!piece) {
        release(arg);
        return wanted ? UVHTTP_E_NOMEM : UVHTTP_E_CLOSED;
    }
    *piece = (uvhttp__segment_t){.size = size, .fd = -1, .release = release, .arg = arg};
    *(uvhttp__stream_encodes(stream) ? &piece->plain : &piece->data) = data;
    uvhttp__segment_t **at = find_place(source), *place = *at;
    *at = piece;
    place->size -= size;
    piece->next = place->size > 0 ? place : place->next;
    if (place->size == 0) {
        if (stream->out_last == place) stream->out_last = piece;
        uvhttp__segment_release(stream->loop, place);
    }
    uvhttp__out_mark_dirty(stream);
    return UVHTTP_OK;
}

void uvhttp__source_fail(uvhttp__source_t *source) {
    if (uvhttp__source_is_wanted(source)) uvhttp__stream_ended(source->stream, UVHTTP_E_ABORTED);
}

/* --- files --- */

int uvhttp__stream_send_file(uvhttp__stream_t *stream, uvhttp__source_t *source, int fd, uint64_t offset,
                             uint64_t size) {
    bool encodes = uvhttp__stream_encodes(stream);
    source->stream = stream;
    source->fd = encodes ? -1 : fd;
    source->spare_fd = encodes ? fd : -1;
    source->asked = false;
    source->read_size = 0;
    return uvhttp__out_enqueue(stream, &(uvhttp__segment_t){.fd = UVHTTP__SEGMENT_SOURCE,
                                                            .offset = (int64_t)offset,
                                                            .size = size,
                                                            .release = place_released,
                                                            .arg = source});
}

void uvhttp__source_read(uvhttp__source_t *source, uint64_t size) {
    source->asked = false;
    source->read_size = size;
    uvhttp__out_mark_dirty(source->stream);
}

/* cachestat(2), which C libraries do not know yet: the pages of a part of a file that are in memory, or are being read.
 * Not before Linux 6.5, where it is asked for once, and on later kernels only for who owns the file or may write it.
 * Returns false if it can not be had. */
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

/* 1, 0, or -1: this file system can not say. Whoever asks for what is not there has it read. */
static int byte_in_memory(int fd, uint64_t offset) {
    char byte;
    const struct iovec room = {.iov_base = &byte, .iov_len = 1};
    ssize_t got = preadv2(fd, &room, 1, (off_t)offset, RWF_NOWAIT);
    if (got > 0) return 1;
    return got < 0 && errno == EOPNOTSUPP ? -1 : 0;
}

/* Whether sendfile(2) will find in memory what it is to move in this turn: every page is there, and the last is not
 * being read any more, which is the last to come. Where the pages can not be counted, or were a moment ago, the ends
 * have to do: what goes from memory goes oldest first, which is the begin. When in doubt it is not. */
static bool in_memory(const uvhttp__source_t *source) {
    if (source->resident) return true;
    uint64_t size = source->left < UVHTTP__FILE_TURN_MAX ? source->left : UVHTTP__FILE_TURN_MAX, count;
    uint64_t last = source->offset + size - 1, page_size = (uint64_t)getpagesize();
    uint64_t now_ms = source->stream->loop->now_ms;
    _Atomic(uint64_t) *found_ms = source->offset == 0 && size == source->left ? source->found_ms : NULL;
    bool counted =
        (!found_ms || now_ms >= atomic_load_explicit(found_ms, memory_order_relaxed) + UVHTTP__FILE_FOUND_MS) &&
        count_pages(source->fd, source->offset, size, &count);
    if (counted ? count <= last / page_size - source->offset / page_size
                : byte_in_memory(source->fd, source->offset) != 1)
        return false;
    int last_in_memory = byte_in_memory(source->fd, last);
    if (last_in_memory != 1 && !(last_in_memory < 0 && counted)) return false;
    if (last_in_memory == 1 && counted && found_ms) atomic_store_explicit(found_ms, now_ms, memory_order_relaxed);
    return true;
}

/* Whether a file that could be put goes by sendfile(2) all the same. If that is news, so does all that is behind it. */
static bool file_passes(uvhttp__stream_t *stream) {
    if (!uvhttp__stream_encodes(stream)) return true;
    if (!uvhttp__segment_may_pass(stream, stream->out_first) || !stream->filter->ops->pass(stream)) return false;
    stream->flags |= UVHTTP__STREAM_PASSES;
    for (uvhttp__segment_t *s = stream->out_first; s; s = s->next) {
        if (!s->plain) continue;
        s->data = s->plain;
        s->plain = NULL;
    }
    return true;
}

bool uvhttp__out_waits(uvhttp__stream_t *stream) {
    const uvhttp__segment_t *first = stream->out_first;
    if (!first || !uvhttp__segment_is_source(first)) return false;
    uvhttp__source_t *source = first->arg;
    if (source->spare_fd >= 0 && file_passes(stream)) {
        source->fd = source->spare_fd;
        source->spare_fd = -1;
    }
    if (source->fd >= 0) {
        source->offset = (uint64_t)first->offset;
        source->left = first->size;
        if (source->read_size > 0 || (!source->asked && in_memory(source))) return false;
        source->asked = true;
    }
    uvhttp__segment_want(first);
    return source->read_size == 0;
}

/* sendfile(2) fails for the socket's reasons and for the file's. */
static bool is_of_peer(int error) {
    switch (error) {
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ENOTCONN:
        case ESHUTDOWN:
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case EHOSTDOWN:
        case ENETUNREACH:
        case ENETDOWN:
        case ENETRESET:
        case ENOBUFS: return true;
        default: return false;
    }
}

int uvhttp__file_failed(const uvhttp__source_t *source, uint64_t offset, int error) {
    if (is_of_peer(error)) return UVHTTP_E_ABORTED;
    uvhttp__counters_add(source->stream->loop->counters, file_read_errors, 1);
    uvhttp__log_file_error(source->fd, NULL, offset, error);
    return UVHTTP_E_ABORTED;
}
