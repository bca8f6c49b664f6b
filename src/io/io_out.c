/* Owns: the wire queue of a stream: segments of output in order, each with its kind, until the kernel has them. May
 * include: base, obs. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/hot_path.h"
#include "io/engine.h"

void uvhttp__segment_release(uvhttp__loop_t *loop, uvhttp__segment_t *segment) {
    if (segment->iteration) return; /* it goes with its iteration */
    if (!segment->release) {
        uvhttp__slab_free(&loop->segments, segment);
        return;
    }
    segment->next = NULL;
    if (loop->released)
        loop->released_last->next = segment;
    else
        loop->released = segment;
    loop->released_last = segment;
}

NOINLINE void uvhttp__released_call(uvhttp__loop_t *loop) {
    for (uvhttp__segment_t *segment; (segment = loop->released);) {
        uvhttp__release_cb release = segment->release;
        void *arg = segment->arg;
        loop->released = segment->next;
        uvhttp__slab_free(&loop->segments, segment);
        release(arg);
    }
}

void uvhttp__segment_cut(uvhttp__segment_t *segment, size_t size) {
    segment->size -= size;
    segment->offset += (int64_t)size;
    if (segment->data) segment->data += size;
    if (segment->plain) segment->plain += size;
}

UVHTTP__HOT void uvhttp__out_mark_dirty(uvhttp__stream_t *stream) {
    if (!uvhttp__list_linked(&stream->dirty)) uvhttp__list_push_back(&stream->loop->dirty, &stream->dirty);
}

void uvhttp__out_size_add(uvhttp__stream_t *stream, uint64_t size) {
    uint64_t sum = stream->out_size + size;
    stream->out_size = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

/* out_size saturates for huge files; once it has, it is recounted from the queue. */
void uvhttp__out_size_remove(uvhttp__stream_t *stream, uint64_t size) {
    if (stream->out_size != UINT32_MAX) {
        stream->out_size -= (uint32_t)size;
        return;
    }
    stream->out_size = 0;
    for (const uvhttp__segment_t *s = stream->out_first; s; s = s->next) uvhttp__out_size_add(stream, s->size);
}

static bool can_send(const uvhttp__stream_t *stream) {
    return stream->write == UVHTTP__WRITE_OPEN;
}

UVHTTP__HOT void uvhttp__out_append(uvhttp__stream_t *stream, uvhttp__segment_t *segment) {
    if (stream->out_last)
        stream->out_last->next = segment;
    else
        stream->out_first = segment;
    stream->out_last = segment;
    uvhttp__out_size_add(stream, segment->size);
    uvhttp__out_mark_dirty(stream);
}

UVHTTP__HOT static void append(uvhttp__stream_t *stream, uvhttp__segment_t *segment) {
    if (uvhttp__stream_encodes(stream)) {
        segment->plain = segment->data;
        segment->data = NULL;
    }
    uvhttp__out_append(stream, segment);
}

/* Queues what is not in iteration memory, a copy of `model`. */
static int enqueue(uvhttp__stream_t *stream, const uvhttp__segment_t *model) {
    int status = can_send(stream) ? UVHTTP_OK : UVHTTP_E_CLOSED;
    uvhttp__segment_t *segment = NULL;
    if (status == UVHTTP_OK && model->size > 0) {
        segment = uvhttp__slab_alloc(&stream->loop->segments);
        if (!segment) status = UVHTTP_E_NOMEM;
    }
    if (!segment) {
        if (model->release) model->release(model->arg);
        return status;
    }
    *segment = *model;
    append(stream, segment);
    return UVHTTP_OK;
}

UVHTTP__HOT int uvhttp__stream_send_iteration(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (!can_send(stream)) return UVHTTP_E_CLOSED;
    if (size == 0) return UVHTTP_OK;
    uvhttp__segment_t *last = stream->out_last;
    /* Responses of one batch are adjacent in the arena: one segment serves them all. Output flushed by the previous
     * iteration is in the other half, so what is extended here has not been flushed, unless a flush runs now. */
    if (last && last->iteration == stream->loop->iteration_mark && !uvhttp__stream_encodes(stream) &&
        last->data + last->size == data && !stream->loop->handing_over) {
        last->size += size;
        uvhttp__out_size_add(stream, size);
        return UVHTTP_OK;
    }
    uvhttp__segment_t *segment = uvhttp__segment_of_iteration(stream->loop, data, size);
    if (!segment) return UVHTTP_E_NOMEM;
    append(stream, segment);
    return UVHTTP_OK;
}

int uvhttp__stream_send_copy(uvhttp__stream_t *stream, const char *data, size_t size) {
    if (!can_send(stream)) return UVHTTP_E_CLOSED;
    char *copy = uvhttp__loop_iteration_alloc(stream->loop, size);
    if (!copy) return UVHTTP_E_NOMEM;
    memcpy(copy, data, size);
    return uvhttp__stream_send_iteration(stream, copy, size);
}

int uvhttp__stream_send_ref(uvhttp__stream_t *stream, const char *data, size_t size, uvhttp__release_cb release,
                            void *arg) {
    return enqueue(
        stream,
        &(uvhttp__segment_t){
            .kind = UVHTTP__SEGMENT_REFERENCE, .data = data, .size = size, .fd = -1, .release = release, .arg = arg});
}

int uvhttp__stream_send_file(uvhttp__stream_t *stream, int fd, uint64_t offset, uint64_t size,
                             uvhttp__release_cb release, void *arg) {
    assert(!uvhttp__stream_encodes(stream));
    return enqueue(stream, &(uvhttp__segment_t){.kind = UVHTTP__SEGMENT_FILE,
                                                .fd = fd,
                                                .offset = (int64_t)offset,
                                                .size = size,
                                                .release = release,
                                                .arg = arg});
}

int uvhttp__out_gather(const uvhttp__stream_t *stream, struct iovec *iov, int max, size_t *size) {
    int count = 0;
    size_t sum = 0;
    for (const uvhttp__segment_t *s = stream->out_first; s && s->data && count < max; s = s->next) {
        iov[count++] = (struct iovec){.iov_base = (char *)(uintptr_t)s->data, .iov_len = (size_t)s->size};
        sum += (size_t)s->size;
    }
    *size = sum;
    return count;
}

void uvhttp__out_advance(uvhttp__stream_t *stream, size_t size) {
    uvhttp__counters_add(stream->loop->counters, bytes_sent, size);
    stream->out_sent += (uint32_t)size;
    size_t left = size;
    while (left > 0) {
        uvhttp__segment_t *first = stream->out_first;
        assert(first); /* no more is sent than is there */
        if (left < first->size) {
            uvhttp__segment_cut(first, left);
            break;
        }
        left -= (size_t)first->size;
        stream->out_first = first->next;
        if (!first->next) stream->out_last = NULL;
        uvhttp__segment_release(stream->loop, first);
    }
    uvhttp__out_size_remove(stream, size);
}

/* The queue stays as it is: the close drops it, and releases what it refers to when no caller is on the stack. */
void uvhttp__stream_send_last(uvhttp__stream_t *stream) {
    const uint32_t under_way = UVHTTP__STREAM_SENDING | UVHTTP__STREAM_POLLING_OUT;
    if (uvhttp__stream_is_over(stream) || uvhttp__stream_encodes(stream)) return;
    if (stream->out_flying > 0 || (stream->flags & under_way) != 0) return;
    struct iovec iov[UVHTTP__OUT_IOV_MAX];
    size_t size;
    const struct msghdr message = {.msg_iov = iov,
                                   .msg_iovlen = (size_t)uvhttp__out_gather(stream, iov, UVHTTP__OUT_IOV_MAX, &size)};
    if (message.msg_iovlen == 0) return;
    ssize_t sent;
    do {
        sent = sendmsg(stream->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent > 0) uvhttp__counters_add(stream->loop->counters, bytes_sent, (size_t)sent);
}

int uvhttp__out_keep_half(uvhttp__stream_t *stream, uint8_t mark) {
    for (uvhttp__segment_t **at = &stream->out_first; *at; at = &(*at)->next) {
        const uvhttp__segment_t *s = *at;
        if (!s->iteration || (mark && s->iteration != mark)) continue;
        uvhttp__segment_t *kept = uvhttp__slab_alloc(&stream->loop->segments);
        char *copy = kept ? uvhttp__malloc((size_t)s->size) : NULL;
        if (!copy) {
            if (kept) uvhttp__slab_free(&stream->loop->segments, kept);
            return UVHTTP_E_NOMEM;
        }
        *kept = *s;
        *(s->data ? &kept->data : &kept->plain) = memcpy(copy, s->data ? s->data : s->plain, (size_t)s->size);
        kept->kind = UVHTTP__SEGMENT_MEMORY;
        kept->iteration = 0;
        kept->release = uvhttp__free;
        kept->arg = copy;
        if (stream->out_last == s) stream->out_last = kept;
        *at = kept;
    }
    return UVHTTP_OK;
}

int uvhttp__out_keep(uvhttp__stream_t *stream) {
    if (stream->ops->on_kept) stream->ops->on_kept(stream);
    return uvhttp__out_keep_half(stream, 0);
}

void uvhttp__out_drop(uvhttp__stream_t *stream) {
    uvhttp__segment_t *next, *s = stream->out_first;
    stream->out_first = stream->out_last = NULL;
    stream->out_size = 0;
    for (; s; s = next) {
        next = s->next;
        uvhttp__segment_release(stream->loop, s);
    }
}

/* The stream is broken or closing while the kernel still reads what it was given. That is not in the arena: what is
 * there ends with its iteration, and may not stay in the queue. */
static void drop_unkept(uvhttp__stream_t *stream) {
    stream->out_last = NULL;
    for (uvhttp__segment_t **at = &stream->out_first; *at;) {
        if ((*at)->iteration) {
            *at = (*at)->next;
        } else {
            stream->out_last = *at;
            at = &(*at)->next;
        }
    }
}

/* What the last iteration flushed is dropped when that is settled. */
void uvhttp__out_drop_unread(uvhttp__stream_t *stream) {
    if (stream->flags & UVHTTP__STREAM_FLUSHED) return;
    if (stream->flags & UVHTTP__STREAM_SENDING)
        drop_unkept(stream);
    else
        uvhttp__out_drop(stream);
}

void uvhttp__out_drop_flown(uvhttp__stream_t *stream) {
    uint64_t sent = 0;
    for (; stream->out_flying > 0; stream->out_flying--) {
        uvhttp__segment_t *first = stream->out_first;
        assert(first); /* what flies is first in the queue */
        sent += first->size;
        stream->out_first = first->next;
        if (!first->next) stream->out_last = NULL;
        uvhttp__segment_release(stream->loop, first);
    }
    if (sent == 0) return;
    uvhttp__counters_add(stream->loop->counters, bytes_sent, sent);
    stream->out_sent += (uint32_t)sent;
    uvhttp__out_size_remove(stream, sent);
}

/* --- the end of encoding --- */

bool uvhttp__stream_pass(uvhttp__stream_t *stream) {
    assert(!stream->out_first);
    if (!uvhttp__stream_may_pass(stream) || !stream->filter->ops->pass(stream)) return false;
    stream->flags |= UVHTTP__STREAM_PASSES;
    return true;
}
