/* Owns: the states of a stream: which transitions are legal, and the functions that make them, which are the only
 * writers of the state fields. docs/internals/io.md draws the state machines. May include: io. */
#ifndef UVHTTP_SRC_IO_IO_STATE_H
#define UVHTTP_SRC_IO_IO_STATE_H

#include <assert.h>

#include "io/io.h"

/* Whether the state may go from `from` to `to` in one step. */
static inline bool uvhttp__read_may(unsigned from, unsigned to) {
    static const uint8_t successors[] = {
        [UVHTTP__READ_OPEN] = 1u << UVHTTP__READ_PAUSED | 1u << UVHTTP__READ_ENDED,
        [UVHTTP__READ_PAUSED] = 1u << UVHTTP__READ_OPEN | 1u << UVHTTP__READ_ENDED,
        [UVHTTP__READ_ENDED] = 0,
    };
    return from < sizeof successors && to < sizeof successors && (successors[from] >> to & 1u);
}

static inline bool uvhttp__write_may(unsigned from, unsigned to) {
    static const uint8_t successors[] = {
        [UVHTTP__WRITE_OPEN] = 1u << UVHTTP__WRITE_DRAINING | 1u << UVHTTP__WRITE_SHUT,
        [UVHTTP__WRITE_DRAINING] = 1u << UVHTTP__WRITE_SHUT,
        [UVHTTP__WRITE_SHUT] = 0,
    };
    return from < sizeof successors && to < sizeof successors && (successors[from] >> to & 1u);
}

static inline bool uvhttp__close_may(unsigned from, unsigned to) {
    static const uint8_t successors[] = {
        [UVHTTP__CLOSE_NO] = 1u << UVHTTP__CLOSE_BROKEN | 1u << UVHTTP__CLOSE_WANTED,
        [UVHTTP__CLOSE_BROKEN] = 1u << UVHTTP__CLOSE_WANTED,
        [UVHTTP__CLOSE_WANTED] = 1u << UVHTTP__CLOSE_WAITING | 1u << UVHTTP__CLOSE_DONE,
        [UVHTTP__CLOSE_WAITING] = 1u << UVHTTP__CLOSE_DONE,
        [UVHTTP__CLOSE_DONE] = 0,
    };
    return from < sizeof successors && to < sizeof successors && (successors[from] >> to & 1u);
}

static inline void uvhttp__read_to(uvhttp__stream_t *stream, uvhttp__read_state_t to) {
    assert(uvhttp__read_may(stream->read, to));
    stream->read = (uint8_t)to;
}

static inline void uvhttp__write_to(uvhttp__stream_t *stream, uvhttp__write_state_t to) {
    assert(uvhttp__write_may(stream->write, to));
    stream->write = (uint8_t)to;
}

/* A stream that is broken or closing neither receives nor sends any more. */
static inline void uvhttp__close_to(uvhttp__stream_t *stream, uvhttp__close_state_t to) {
    assert(uvhttp__close_may(stream->close, to));
    if (stream->read != UVHTTP__READ_ENDED) uvhttp__read_to(stream, UVHTTP__READ_ENDED);
    if (stream->write != UVHTTP__WRITE_SHUT) uvhttp__write_to(stream, UVHTTP__WRITE_SHUT);
    stream->close = (uint8_t)to;
}

#endif
