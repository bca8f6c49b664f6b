/* Owns: the streams whose receive found no buffer, in the order in which they receive again (io_uring.c). May include:
 * base, obs, io. */
#include <string.h>

#include "base/alloc.h"
#include "io/io_uring.h"

#define STARVED_MIN 64u

/* The entries of streams that wait no more are NULL. */
static bool make_space(uvhttp__uring_t *uring) {
    uint32_t count = uring->starved_end - uring->starved_begin;
    if (uring->starved_end < uring->starved_capacity) return true;
    if (uring->starved_begin < uring->starved_capacity / 2 || uring->starved_capacity == 0) {
        uint32_t capacity = uring->starved_capacity ? uring->starved_capacity * 2 : STARVED_MIN;
        uvhttp__stream_t **more = uvhttp__realloc(uring->starved, capacity * sizeof *more);
        if (!more) return false;
        uring->starved = more;
        uring->starved_capacity = capacity;
    }
    memmove(uring->starved, uring->starved + uring->starved_begin, count * sizeof *uring->starved);
    uring->starved_begin = 0;
    uring->starved_end = count;
    return true;
}

int uvhttp__uring_starve(uvhttp__stream_t *stream) {
    uvhttp__uring_t *uring = uvhttp__uring_of(stream->loop);
    if (!make_space(uring)) return UVHTTP_E_NOMEM;
    uring->starved[uring->starved_end++] = stream;
    stream->flags |= UVHTTP__STREAM_STARVED;
    return UVHTTP_OK;
}

void uvhttp__uring_starved_remove(uvhttp__stream_t *stream) {
    uvhttp__uring_t *uring = uvhttp__uring_of(stream->loop);
    if (!(stream->flags & UVHTTP__STREAM_STARVED)) return;
    stream->flags &= ~(uint32_t)UVHTTP__STREAM_STARVED;
    uint32_t at = uring->starved_begin;
    while (uring->starved[at] != stream) at++;
    uring->starved[at] = NULL;
    /* All close at once when the server ends, in about this order: those that are gone are not looked at again. */
    while (uring->starved_begin < uring->starved_end && !uring->starved[uring->starved_begin]) uring->starved_begin++;
}

uvhttp__stream_t *uvhttp__uring_starved_pop(uvhttp__uring_t *uring) {
    while (uring->starved_begin < uring->starved_end) {
        uvhttp__stream_t *stream = uring->starved[uring->starved_begin++];
        if (!stream) continue;
        stream->flags &= ~(uint32_t)UVHTTP__STREAM_STARVED;
        return stream;
    }
    uring->starved_begin = uring->starved_end = 0;
    return NULL;
}
