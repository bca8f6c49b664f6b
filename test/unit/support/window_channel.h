/* Owns: a channel in memory, the second implementation of src/conn/channel.h: what is sent waits until the peer opens a
 * window, as on a stream of HTTP/2. A test is the peer: it gives bytes with window_receive and finds what it was sent
 * in `wire`. Events come from window_receive, window_iterate and window_expire only, never from within an operation. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_WINDOW_CHANNEL_H
#define UVHTTP_TEST_UNIT_SUPPORT_WINDOW_CHANNEL_H

#include "conn/channel.h"

#define WINDOW_PEER "192.0.2.7:4711"

typedef struct window_channel {
    uvhttp__channel_t channel;
    uint64_t window; /* bytes that may leave */
    struct window_segment *first, **last;
    size_t queued;
    char *wire; /* what has left */
    size_t wire_size;
    char *kept; /* what has come and was not consumed */
    size_t kept_size;
    uint64_t deadline_ms;
    int close_status;
    uint32_t share, spent; /* requests of an iteration */
    unsigned checks;       /* calls of check_output */
    unsigned scarce_at;    /* the n-th send from now on finds no memory; 0: none does */
    bool paused;
    bool pressed;   /* on_drain is owed */
    bool finishing; /* ends when the queue is empty */
    bool cut;       /* it was reset, by either side */
    bool ended;     /* on_close is owed */
    bool gone;      /* on_close has been called */
} window_channel_t;

/* Tells on_open at once. */
void window_init(window_channel_t *it, uvhttp__loop_t *loop, const uvhttp__channel_events_t *events, void *user);
/* After on_close. */
void window_deinit(window_channel_t *it);
/* The channel breaks; on_close comes with the next iteration. */
void window_end(window_channel_t *it, int status);
void window_receive(window_channel_t *it, const void *data, size_t size);
/* What a loop does at the end of an iteration. The channel may be gone afterwards. */
void window_iterate(window_channel_t *it);
/* More of what is queued may leave. */
void window_allow(window_channel_t *it, uint64_t size);
/* The loop's clock continues; the loop must not run. */
void window_expire(window_channel_t *it, uint64_t ms);

#endif
