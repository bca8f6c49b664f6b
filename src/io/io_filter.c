/* Owns: what a filter (TLS) needs of a stream's output queue. In the queue of a stream with a filter encoded bytes
 * stand in front, then what its owner has queued; only a share of that is encoded at a time, and only when nothing
 * encoded waits any more, so that a peer that does not read costs no more than a share. May include: base, obs.
 *
 * A filter that has given its keys to the kernel (kernel TLS) leaves the queue as it is from then on: io_out.c. */
#include <string.h>

#include "base/alloc.h"
#include "io/engine.h"

/* Bytes encoded for one hand-over: enough for the cost of a system call not to matter, little enough to be in the cache
 * when the kernel copies it. */
#define ENCODE_SHARE (8 * UVHTTP__FILTER_PIECE_MAX)

int uvhttp__stream_set_filter(uvhttp__stream_t *stream, uvhttp__filter_t *filter, const uvhttp__stream_ops_t *ops) {
    uvhttp__loop_t *loop = stream->loop;
    if (!loop->filter_memory)
        loop->filter_memory = uvhttp__malloc(UVHTTP__FILTER_INPUT_SIZE + UVHTTP__FILTER_PIECE_MAX);
    if (!loop->filter_memory) return UVHTTP_E_NOMEM;
    stream->filter = filter;
    stream->ops = ops;
    return UVHTTP_OK;
}

void uvhttp__filter_hold(uvhttp__stream_t *stream) {
    uvhttp__stream_pause_delivery(stream);
}

/* --- encoded bytes --- */

static bool may_put(const uvhttp__stream_t *stream) {
    return stream->write != UVHTTP__WRITE_SHUT;
}

int uvhttp__filter_put(uvhttp__stream_t *stream, const char *data, size_t size) {
    uvhttp__loop_t *loop = stream->loop;
    if (!may_put(stream)) return UVHTTP_E_CLOSED;
    uvhttp__segment_t *before = NULL;
    for (uvhttp__segment_t *s = stream->out_first; s && s->data; s = s->next) before = s;
    char *copy = uvhttp__loop_iteration_alloc(loop, size);
    if (!copy) return UVHTTP_E_NOMEM;
    memcpy(copy, data, size);
    if (before && before->iteration == loop->iteration_mark && before->data + before->size == copy) {
        before->size += size;
        uvhttp__out_size_add(stream, size);
        return UVHTTP_OK;
    }
    uvhttp__segment_t *segment = uvhttp__segment_of_iteration(loop, copy, size);
    if (!segment) return UVHTTP_E_NOMEM;
    uvhttp__segment_t *behind = before ? before->next : stream->out_first;
    if (!behind) {
        uvhttp__out_append(stream, segment);
        return UVHTTP_OK;
    }
    segment->next = behind;
    if (before)
        before->next = segment;
    else
        stream->out_first = segment;
    uvhttp__out_size_add(stream, size);
    uvhttp__out_mark_dirty(stream);
    return UVHTTP_OK;
}

/* --- encoding --- */

static size_t least(uint64_t a, size_t b) {
    return a < b ? (size_t)a : b;
}

/* The next piece: where it is if it is whole there, else collected in `memory`, up to one that is. */
static void gather(const uvhttp__segment_t *first, char *memory, const char **data, size_t *size) {
    if (first->size >= UVHTTP__FILTER_PIECE_MAX || !first->next || !first->next->plain) {
        *data = first->plain;
        *size = least(first->size, UVHTTP__FILTER_PIECE_MAX);
        return;
    }
    size_t used = 0;
    for (const uvhttp__segment_t *s = first; s && s->plain && used < UVHTTP__FILTER_PIECE_MAX; s = s->next) {
        if (s->size == UVHTTP__FILTER_PIECE_MAX) break;
        size_t take = least(s->size, UVHTTP__FILTER_PIECE_MAX - used);
        memcpy(memory + used, s->plain, take);
        used += take;
    }
    *data = memory;
    *size = used;
}

/* `size` bytes from the head of the list are encoded. */
static uvhttp__segment_t *consume(uvhttp__stream_t *stream, uvhttp__segment_t *first, size_t size) {
    if (stream->out_size != UINT32_MAX) uvhttp__out_size_remove(stream, size);
    while (size > 0 && size >= first->size) {
        uvhttp__segment_t *next = first->next;
        size -= (size_t)first->size;
        uvhttp__segment_release(stream->loop, first);
        first = next;
    }
    if (size == 0) return first;
    uvhttp__segment_cut(first, size);
    return first;
}

/* Encodes from the head of `first` and returns what is left of it. */
static uvhttp__segment_t *encode_share(uvhttp__stream_t *stream, uvhttp__segment_t *first, int *status) {
    char *memory = stream->loop->filter_memory + UVHTTP__FILTER_INPUT_SIZE;
    size_t share = ENCODE_SHARE;
    while (first && share > 0) {
        if (first->kind == UVHTTP__SEGMENT_CONTROL) {
            uvhttp__segment_t *next = first->next;
            stream->filter->ops->encode_end(stream);
            uvhttp__segment_release(stream->loop, first);
            first = next;
            continue;
        }
        const char *data;
        size_t size;
        gather(first, memory, &data, &size);
        *status = stream->filter->ops->encode(stream, data, size);
        if (*status != UVHTTP_OK) return first;
        share -= least(size, share);
        first = consume(stream, first, size);
    }
    return first;
}

int uvhttp__filter_encode(uvhttp__stream_t *stream) {
    uvhttp__segment_t *before = NULL, *first = stream->out_first, *last = stream->out_last;
    uint64_t encoded = 0;
    for (; first && first->data; first = first->next) {
        before = first;
        encoded += first->size;
    }
    if (!first) return UVHTTP_OK;
    if (encoded >= UVHTTP__FILTER_PIECE_MAX) {
        stream->loop->settle_due = true;
        return UVHTTP_OK;
    }
    if (before)
        before->next = NULL;
    else
        stream->out_first = NULL;
    stream->out_last = before;
    int status = UVHTTP_OK;
    first = encode_share(stream, first, &status);
    uvhttp__list_remove(&stream->dirty); /* filter_put has put it there; the hand-over is going on */
    if (first) {
        if (stream->out_last)
            stream->out_last->next = first;
        else
            stream->out_first = first;
        stream->out_last = last;
        stream->loop->settle_due = true; /* there is more: come back at once */
    }
    if (stream->out_size == UINT32_MAX) uvhttp__out_size_remove(stream, 0); /* counts anew */
    return status;
}
