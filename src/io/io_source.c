/* Owns: output that somebody else brings: a source has its place in a stream's queue, what stands behind waits for it,
 * and what it brings is put in front of it. May include: base, obs. */
#include "io/engine.h"

static void place_released(void *arg) {
    uvhttp__source_t *source = arg;
    source->stream = NULL;
    source->released(source);
}

int uvhttp__stream_send_source(uvhttp__stream_t *stream, uvhttp__source_t *source, uint64_t size) {
    source->stream = stream;
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
    *(stream->filter ? &piece->plain : &piece->data) = data;
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

bool uvhttp__out_waits(const uvhttp__stream_t *stream) {
    if (!stream->out_first || !uvhttp__segment_is_source(stream->out_first)) return false;
    uvhttp__segment_want(stream->out_first);
    return true;
}
