/* Owns: the channel: what an upgraded protocol (WebSocket, or one of the application's) writes to, whatever carries it:
 * a TCP connection after a response of 101, or a stream of HTTP/2 (RFC 8441). The carrier embeds a channel and fills it
 * in; the protocol above sees nothing else of it. Everything runs on the loop's thread; other threads reach a protocol
 * by a uvhttp__loop_ref_t. May include: io, base, obs. */
#ifndef UVHTTP_SRC_CONN_CHANNEL_H
#define UVHTTP_SRC_CONN_CHANNEL_H

#include "conn/rate.h"
#include "io/io.h"

typedef struct uvhttp__channel uvhttp__channel_t;

/* A head and what is behind it, to be sent as one. */
typedef struct uvhttp__channel_parts {
    const char *head;
    size_t head_size;
    const void *data;
    size_t size;
} uvhttp__channel_parts_t;

/* What a queue may hold: bytes from which a send reports backpressure, and with which it refuses. */
typedef struct uvhttp__channel_capacity {
    uint64_t high_watermark, queue_max;
} uvhttp__channel_capacity_t;

/* The operations of the carrier. Functions that send return 0; UVHTTP_E_AGAIN: queued, but the queue is above
 * capacity.high_watermark, and on_drain follows; UVHTTP_E_LIMIT: not queued, capacity.queue_max; UVHTTP_E_CLOSED or
 * UVHTTP_E_NOMEM: not queued. No event is called from within any of these functions. */
typedef struct uvhttp__channel_ops {
    /* Both parts, which are copied, or none. */
    int (*send)(uvhttp__channel_t *channel, const uvhttp__channel_parts_t *parts, uvhttp__channel_capacity_t capacity);
    /* Bytes in the iteration arena of channel->loop (uvhttp__loop_iteration_alloc), which stay there. */
    int (*send_iteration)(uvhttp__channel_t *channel, const char *data, size_t size,
                          uvhttp__channel_capacity_t capacity);
    /* Bytes that stay untouched until release(arg), which is called exactly once, also when they are not queued. */
    int (*send_reference)(uvhttp__channel_t *channel, uvhttp_str_t data, void (*release)(void *arg), void *arg,
                          uvhttp__channel_capacity_t capacity);
    /* Bytes that are queued and wait for the peer. */
    size_t (*queued)(const uvhttp__channel_t *channel);
    /* Whether the peer takes what was sent is looked at under events->output_limits, also if nothing is queued: the
     * kernel holds megabytes for a peer that reads nothing. */
    void (*check_output)(uvhttp__channel_t *channel);
    /* Counts requests against the share of the loop's iteration that the connection below has. *requests becomes those
     * that the share was too small for, to be counted before anything else is read. False: the share is used up.
     * on_data returns then, and what it has left comes in the next iteration. */
    bool (*spend)(uvhttp__channel_t *channel, uint32_t *requests);
    /* No on_data until resume. */
    void (*pause)(uvhttp__channel_t *channel);
    void (*resume)(uvhttp__channel_t *channel);
    /* on_timer follows at this loop time, ms, or up to 64 ms later; UINT64_MAX: never. Replaces the deadline before. */
    void (*set_deadline)(uvhttp__channel_t *channel, uint64_t at_ms);
    /* What is queued is sent, then the channel ends. Nothing but on_close follows. Idempotent. */
    void (*finish)(uvhttp__channel_t *channel);
    /* The channel ends now, and the queue is dropped. Nothing but on_close follows. Idempotent. */
    void (*reset)(uvhttp__channel_t *channel);
    /* As uvhttp_tcp_peer. */
    int (*peer)(uvhttp__channel_t *channel, char *text, size_t size);
} uvhttp__channel_ops_t;

/* What the protocol above is called with. */
typedef struct uvhttp__channel_events {
    void (*on_open)(uvhttp__channel_t *channel); /* first */
    /* Bytes of the peer, which may be overwritten in the call. Returns how many were consumed: all of them, or fewer if
     * the channel was paused or ended in the call, or if the share is used up. The rest comes again after resume
     * or in the next iteration. */
    size_t (*on_data)(uvhttp__channel_t *channel, char *data, size_t size);
    void (*on_drain)(uvhttp__channel_t *channel); /* a send has reported backpressure, and the queue is empty again */
    void (*on_end)(uvhttp__channel_t *channel);   /* the peer sends nothing more; sending is still possible */
    void (*on_timer)(uvhttp__channel_t *channel); /* the deadline */
    void (*on_stop)(uvhttp__channel_t *channel);  /* the server stops: to be ended when what is running is done */
    /* Last: 0 after a regular end, or a UVHTTP_E_* code. The channel is gone after the call. */
    void (*on_close)(uvhttp__channel_t *channel, int status);
    /* What the peer has to take of the output. */
    const uvhttp__rate_limits_t *(*output_limits)(const uvhttp__channel_t *channel);
} uvhttp__channel_events_t;

struct uvhttp__channel {
    union {
        const uvhttp__channel_ops_t *ops;
        const struct uvhttp_tcp_handlers *handlers; /* instead: of an application, which has its connection */
    };
    const uvhttp__channel_events_t *events;
    void *user; /* of events */
    uvhttp__loop_t *loop;
};

static inline uint64_t uvhttp__channel_now_ms(const uvhttp__channel_t *channel) {
    return channel->loop->now_ms;
}

#endif
