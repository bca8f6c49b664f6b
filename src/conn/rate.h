/* Owns: the minimum rate of a peer, and the time in which no byte moves: the one place for it, for output (output.c)
 * and for request bodies (exchange/deadline.c). Pure: bytes and time are passed in.
 *
 * A peer has credit, in time: it begins with `grace` seconds, each byte that moves earns what it may take at the
 * minimum rate, and time uses it up. More than `grace` is never kept. So a peer is as slow as `rate` on average, and
 * what it moved in a burst pays for `grace` seconds of silence and no more. May include: base. */
#ifndef UVHTTP_SRC_CONN_RATE_H
#define UVHTTP_SRC_CONN_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* How often a rate is looked at. */
#define UVHTTP__RATE_INTERVAL_MS 1000

typedef struct uvhttp__rate_limits {
    uint32_t rate;    /* bytes per second; 0: none is asked for */
    uint32_t grace;   /* seconds */
    uint32_t timeout; /* seconds in which no byte moves; 0: none */
} uvhttp__rate_limits_t;

/* Times are the low 32 bits of a loop's milliseconds, bytes those of a counter. */
typedef struct uvhttp__rate {
    uint32_t bytes;     /* when it was looked at last */
    uint32_t looked_ms; /* when that was */
    uint32_t moved_ms;  /* when bytes were last seen to have moved */
    uint32_t credit_ms;
} uvhttp__rate_t;

typedef enum uvhttp__rate_verdict { UVHTTP__RATE_FINE, UVHTTP__RATE_SLOW, UVHTTP__RATE_STALLED } uvhttp__rate_verdict_t;

/* The peer has all of its credit. */
void uvhttp__rate_start(uvhttp__rate_t *rate, const uvhttp__rate_limits_t *limits, uint32_t bytes, uint64_t now_ms);
/* The time since a moment was not the peer's. */
void uvhttp__rate_excuse(uvhttp__rate_t *rate, uint64_t ms);
/* bytes: the counter now. One that goes back a little has not moved. */
uvhttp__rate_verdict_t uvhttp__rate_look(uvhttp__rate_t *rate, const uvhttp__rate_limits_t *limits, uint32_t bytes,
                                         uint64_t now_ms);

/* What the peer had been given at the last look; zero before the first. */
typedef struct uvhttp__given {
    uint32_t bytes; /* as the counter */
    bool known;
} uvhttp__given_t;

/* The same for output. bytes: what the peer has acknowledged, held: what it has yet to acknowledge. A peer that has
 * acknowledged all that there was at the last look has all of its credit: slow is who brings the rest. */
uvhttp__rate_verdict_t uvhttp__rate_look_at_output(uvhttp__rate_t *rate, uvhttp__given_t *given,
                                                   const uvhttp__rate_limits_t *limits, uint32_t bytes, uint32_t held,
                                                   uint64_t now_ms);

#endif
