/* Owns: the core of HTTP/2 (RFC 9113, RFC 9218) for a server: frames, settings, stream states, flow control, scheduling
 * and the limits that hold off floods. Sans-I/O: bytes in, events out; no clock. May include: base.
 *
 * Header blocks leave and enter this core encoded: hpack.h and head.h make fields of them.
 *
 * How a connection uses it, in each loop iteration:
 *   uvhttp__http2_begin_iteration
 *   uvhttp__http2_read again and again, one event at a time; exchanges respond meanwhile or later
 *   uvhttp__http2_next again and again: which stream may send how many bytes of its body
 *   uvhttp__http2_return_due_credit
 *   one gathered send
 * Rule of the wire: frames are appended in the order of the calls that wrote them. So whoever writes a frame first
 * appends uvhttp__http2_control, if there is any, then calls write_headers or write_data, then appends that frame. The
 * control bytes are appended once more at the end of the iteration. */
#ifndef UVHTTP_SRC_HTTP2_HTTP2_H
#define UVHTTP_SRC_HTTP2_HTTP2_H

#include <assert.h>
#include <uvhttp/error.h>
#include <uvhttp/types.h>

#include "base/hot_path.h"
#include "http2/frame.h"

#define UVHTTP__HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" /* section 3.4 */
#define UVHTTP__HTTP2_PREFACE_SIZE 24
#define UVHTTP__HTTP2_FRAME_SIZE_MAX 16384  /* what we accept: the default of SETTINGS_MAX_FRAME_SIZE */
#define UVHTTP__HTTP2_WINDOW_DEFAULT 65535  /* section 6.9.2 */
#define UVHTTP__HTTP2_WINDOW_MAX 0x7fffffff /* section 6.9.1 */
#define UVHTTP__HTTP2_STREAM_ID_MAX 0x7fffffffu
#define UVHTTP__HTTP2_SLICE_SIZE 16384 /* what a stream sends before another one of its urgency may */

typedef enum uvhttp__http2_error { /* section 7 */
                                   UVHTTP__HTTP2_NO_ERROR = 0x0,
                                   UVHTTP__HTTP2_PROTOCOL_ERROR = 0x1,
                                   UVHTTP__HTTP2_INTERNAL_ERROR = 0x2,
                                   UVHTTP__HTTP2_FLOW_CONTROL_ERROR = 0x3,
                                   UVHTTP__HTTP2_SETTINGS_TIMEOUT = 0x4,
                                   UVHTTP__HTTP2_STREAM_CLOSED = 0x5,
                                   UVHTTP__HTTP2_FRAME_SIZE_ERROR = 0x6,
                                   UVHTTP__HTTP2_REFUSED_STREAM = 0x7,
                                   UVHTTP__HTTP2_CANCEL = 0x8,
                                   UVHTTP__HTTP2_COMPRESSION_ERROR = 0x9,
                                   UVHTTP__HTTP2_CONNECT_ERROR = 0xa,
                                   UVHTTP__HTTP2_ENHANCE_YOUR_CALM = 0xb,
                                   UVHTTP__HTTP2_INADEQUATE_SECURITY = 0xc,
                                   UVHTTP__HTTP2_HTTP_1_1_REQUIRED = 0xd,
} uvhttp__http2_error_t;

/* "PROTOCOL_ERROR", ...; "UNKNOWN" for a code that is not in section 7. */
const char *uvhttp__http2_error_name(uint32_t error);

/* --- limits and counters: one of each per server and per loop, shared by its connections --- */

/* Every limit that the core holds a peer to. What happens at a limit stands with the counter of the same name. */
typedef struct uvhttp__http2_limits {
    uint32_t streams_max;           /* streams whose owners have work: SETTINGS_MAX_CONCURRENT_STREAMS; <= 32768 */
    uint32_t connection_window;     /* bytes of all bodies that are received and not consumed; 65535..1 MiB */
    uint32_t stream_window;         /* the same of one stream: SETTINGS_INITIAL_WINDOW_SIZE; at most a quarter of it */
    uint32_t stream_credit_steps;   /* WINDOW_UPDATE frames in which a stream's window is returned */
    uint32_t connection_credit_min; /* bytes consumed from which on the connection's credit goes along with a stream's;
                                       alone it goes from half its window on */
    uint32_t header_table_size;     /* SETTINGS_HEADER_TABLE_SIZE: what the decoder's table may grow to, bytes */
    uint32_t header_list_size_max;  /* SETTINGS_MAX_HEADER_LIST_SIZE; what reads a head enforces it */
    uint32_t header_block_size_max; /* encoded bytes of one header block */
    uint32_t continuation_frames_max;   /* CONTINUATION frames of one header block; at most 255 */
    uint32_t settings_entries_max;      /* of one SETTINGS frame */
    uint32_t priority_size_max;         /* bytes of the field value in a PRIORITY_UPDATE frame */
    uint32_t iteration_requests_max;    /* requests that are read in one loop iteration */
    uint32_t iteration_frames_max;      /* frames of any kind */
    uint32_t iteration_bytes_max;       /* bytes; a frame that was begun is read to its end, or the end of the input */
    uint32_t control_frames_max;        /* frames that bring no request or body on: PING, SETTINGS, PRIORITY, ... */
    uint32_t control_frames_per_second; /* so many of them are forgotten in a second; four for each request, two for
                                           each DATA frame that is sent and has 1 KiB, or leaves as much window */
    uint32_t resets_max;                /* streams that either side reset after they were admitted */
    uint32_t resets_per_second;         /* so many of them are forgotten in a second */
    uint32_t control_size_max;          /* bytes of control frames that wait to be sent */
    uint32_t connection_memory_max; /* http2_connection_memory_max: bytes of heads, bodies, tables, control frames */
    bool connect_protocol;          /* SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441) */
} uvhttp__http2_limits_t;

/* 100 streams, windows of 1 MiB and 256 KiB, and what else is safe for a server on the Internet. */
void uvhttp__http2_limits_default(uvhttp__http2_limits_t *limits);

/* How often what happened, over all connections that share the struct. The first part follows the limits. */
typedef struct uvhttp__http2_counters {
    uint64_t streams_refused;         /* streams_max, or no memory: RST_STREAM(REFUSED_STREAM) */
    uint64_t windows_exceeded;        /* connection_window, stream_window: FLOW_CONTROL_ERROR of either */
    uint64_t header_blocks_too_large; /* header_block_size_max: connection error ENHANCE_YOUR_CALM */
    uint64_t continuation_floods;     /* continuation_frames_max: the same */
    uint64_t settings_too_large;      /* settings_entries_max: the same */
    uint64_t priorities_too_large;    /* priority_size_max: the frame is ignored */
    uint64_t priorities_too_early;    /* UVHTTP__HTTP2_EARLY_PRIORITIES: the same */
    uint64_t iterations_cut;          /* iteration_*_max: the rest is read in the next iteration */
    uint64_t control_floods;          /* control_frames_max: connection error ENHANCE_YOUR_CALM */
    uint64_t reset_floods;            /* resets_max: the same */
    uint64_t control_overflows;       /* control_size_max: the same */
    uint64_t memory_exceeded;         /* connection_memory_max: the same, or UVHTTP_E_LIMIT to whoever charges */
    uint64_t resets_received;         /* RST_STREAM frames of the peer for streams that were there */
    uint64_t resets_sent;             /* RST_STREAM frames of ours, refused streams included */
    uint64_t connection_errors;       /* GOAWAY frames of ours with an error */
    uint64_t length_mismatches;       /* bodies that were not as long as their content-length */
} uvhttp__http2_counters_t;

/* --- streams --- */

enum uvhttp__http2_stream_flags {
    UVHTTP__HTTP2_REMOTE_ENDED = 1 << 0, /* half-closed (remote): the request is complete */
    UVHTTP__HTTP2_LOCAL_ENDED = 1 << 1,  /* half-closed (local): END_STREAM was written */
    UVHTTP__HTTP2_RESET = 1 << 2,        /* RST_STREAM was sent or received: no frame can be written for it any more */
    UVHTTP__HTTP2_HEAD_WRITTEN = 1 << 3, /* a HEADERS frame of ours was written, interim ones included */
    UVHTTP__HTTP2_WANTS = 1 << 4,        /* its owner has body to send */
    UVHTTP__HTTP2_QUEUED = 1 << 5,       /* in a ready queue: WANTS, not RESET, send_window > 0 */
    UVHTTP__HTTP2_PRIORITY_SET = 1 << 6, /* by PRIORITY_UPDATE, which wins over the field of the request */
    UVHTTP__HTTP2_HAS_LENGTH = 1 << 7,   /* content_left holds */
    UVHTTP__HTTP2_PEER_RESET = 1 << 8,   /* RESET, and it was the peer */
    UVHTTP__HTTP2_IN_USE = 1 << 9,       /* not set: the slot is free */
    UVHTTP__HTTP2_TUNNEL = 1 << 10,      /* the owner's: `user` is a tunnel (RFC 8441), not a request */
    UVHTTP__HTTP2_LINGERED = 1 << 11,    /* the owner's: the end of the request has been awaited for a while */
};

typedef struct uvhttp__http2_stream uvhttp__http2_stream_t;

/* A slot. It exists from HEADERS on, and counts against streams_max, until its owner calls uvhttp__http2_release,
 * whatever frames came or went meanwhile. Its address does not change. Owners write `user`,
 * UVHTTP__HTTP2_TUNNEL and UVHTTP__HTTP2_LINGERED only. */
struct uvhttp__http2_stream {
    uint32_t id;
    uint16_t flags;
    uint8_t priority; /* UVHTTP__HTTP2_PRIORITY */
    uint8_t unused;
    int32_t send_window;                 /* below 0 after a smaller SETTINGS_INITIAL_WINDOW_SIZE (section 6.9.2) */
    int32_t receive_window;              /* what the peer may send */
    uint32_t consumed;                   /* credit that was not returned to the peer yet: less than a step */
    uint32_t held;                       /* bytes of events that its owner has not consumed */
    uint64_t content_left;               /* of content-length */
    uvhttp__http2_stream_t *bucket;      /* next of the same bucket, or of the free list */
    uvhttp__http2_stream_t *next, *prev; /* ready queue: a ring */
    void *user;                          /* the owner's; NULL at first */
};
static_assert(sizeof(void *) != 8 || sizeof(struct uvhttp__http2_stream) == 64, "a connection has 100 of them");

/* RFC 9218 section 4: urgency 0 (first) to 7, and whether the response may be interleaved. */
#define UVHTTP__HTTP2_PRIORITY(urgency, incremental) ((uint8_t)((urgency) << 1 | (incremental)))
#define UVHTTP__HTTP2_PRIORITY_DEFAULT UVHTTP__HTTP2_PRIORITY(3, 0)

/* Of the value of a `priority` field; parameters that are missing or wrong have their defaults. */
uint8_t uvhttp__http2_parse_priority(uvhttp_str_t value);

/* --- the connection --- */

enum {
    UVHTTP__HTTP2_BUCKETS = 4,          /* at first */
    UVHTTP__HTTP2_OWN_STREAMS = 2,      /* slots inside the connection */
    UVHTTP__HTTP2_CHUNK_STREAMS = 8,    /* further ones come in chunks */
    UVHTTP__HTTP2_HISTORY = 128,        /* streams of which is known how they ended */
    UVHTTP__HTTP2_EARLY_PRIORITIES = 4, /* PRIORITY_UPDATE frames for streams that are not open yet */
};

typedef enum uvhttp__http2_phase {
    UVHTTP__HTTP2_OPEN,
    UVHTTP__HTTP2_CLOSING, /* the first GOAWAY was sent: streams are still admitted */
    UVHTTP__HTTP2_CLOSED,  /* the last one was: later streams are ignored */
    UVHTTP__HTTP2_FAILED,  /* connection error: nothing is read or written any more but the control bytes */
} uvhttp__http2_phase_t;

/* Bytes on the heap, charged to the memory of the connection. */
typedef struct uvhttp__http2_buffer {
    char *data;
    uint32_t size, capacity;
} uvhttp__http2_buffer_t;

/* All fields but `user` and `orphan_count` are the core's. Upper layers may read phase, stream_count, last_stream_id,
 * memory, settings_acked, goaway_received, peer_header_table_size, peer_header_table_lowest and the windows. */
typedef struct uvhttp__http2 {
    const uvhttp__http2_limits_t *limits;
    uvhttp__http2_counters_t *counters;
    void *user; /* of the caller */

    /* streams.c */
    uvhttp__http2_stream_t **buckets;
    uvhttp__http2_stream_t *free;
    uvhttp__http2_stream_t **chunks; /* chunk_count of them, of UVHTTP__HTTP2_CHUNK_STREAMS slots */
    uint32_t chunk_count;
    uint32_t bucket_mask;
    uint32_t stream_count;   /* slots in use */
    uint32_t orphan_count;   /* the caller's: work of released streams that has not ended; counts as they did */
    uint32_t last_stream_id; /* the highest that the peer has opened */
    uint32_t goaway_id;      /* of the GOAWAY that was sent last; later ones may only name less (section 6.8) */
    uint32_t memory;         /* charged, bytes */
    uint64_t history[UVHTTP__HTTP2_HISTORY * 2 / 64]; /* how the last streams ended, two bits each */

    /* read.c */
    uint32_t frame_left;      /* payload of the frame in hand, without its padding, that was not read */
    uint32_t frame_size;      /* payload of a frame that is collected */
    uint32_t frame_stream_id; /* of the frame in hand */
    uint32_t block_stream_id; /* of the header block that is being collected; 0: none */
    uint8_t frame_type, frame_flags;
    uint8_t block_flags;  /* of its HEADERS frame */
    uint8_t block_frames; /* CONTINUATION frames of it */
    uint8_t read_state;
    uint8_t head_size; /* bytes of a frame head, or of the preface, that came without the rest */
    uint8_t padding_left;
    uint8_t phase;                            /* uvhttp__http2_phase_t */
    char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE]; /* of a frame that was cut */
    bool block_self_dependent;                /* its priority names itself */
    bool settings_acked;          /* the peer has acknowledged our SETTINGS: the limits hold instead of the defaults */
    bool settings_received;       /* the preface of the peer is complete */
    bool goaway_received;         /* the peer opens no more streams */
    int16_t failure;              /* of phase FAILED: what read returns */
    uvhttp__http2_buffer_t block; /* a payload that was cut, and header blocks of several frames */
    uvhttp__http2_stream_t *data_stream; /* of the DATA frame in hand; NULL: it is thrown away */

    /* flow.c, settings.c */
    int32_t send_window, receive_window;
    uint32_t consumed;         /* credit that was not returned to the peer yet */
    uint32_t credit_stream_id; /* the stream whose credit goes back when the iteration ends; 0: none */
    uint32_t peer_window;      /* SETTINGS_INITIAL_WINDOW_SIZE of the peer, and so on: */
    uint32_t peer_frame_size;
    uint32_t peer_header_table_size, peer_header_table_lowest; /* the latter: in the last SETTINGS frame */

    /* schedule.c */
    uvhttp__http2_stream_t *ready[16]; /* last of each ring, by priority */
    uint16_t ready_mask;
    uint8_t iterations; /* of an urgency: whether the incremental ones are next */
    uint8_t early_count;
    uint8_t early_priorities[UVHTTP__HTTP2_EARLY_PRIORITIES];
    uint32_t early_ids[UVHTTP__HTTP2_EARLY_PRIORITIES];

    /* control.c */
    uvhttp__http2_buffer_t control;

    /* budget.c */
    uint32_t requests_left, frames_left, bytes_left; /* in this iteration */
    uint32_t control_frames, resets;                 /* that count against their limits */
    uint32_t under_way; /* bytes that the peer may still send on streams reset or not admitted here: uncounted */
    uint64_t refilled_ms;

    uvhttp__http2_stream_t *own_buckets[UVHTTP__HTTP2_BUCKETS];
    uvhttp__http2_stream_t own_streams[UVHTTP__HTTP2_OWN_STREAMS];
} uvhttp__http2_t;

/* Starts a connection: our SETTINGS and the connection window wait in uvhttp__http2_control. Both structs are shared
 * and outlive it. Returns 0 or UVHTTP_E_NOMEM, then there is nothing to deinit. */
int uvhttp__http2_init(uvhttp__http2_t *http2, const uvhttp__http2_limits_t *limits, uvhttp__http2_counters_t *counters,
                       uint64_t now_ms);
/* Releases all memory; owners of streams that are left must not use them any more. */
void uvhttp__http2_deinit(uvhttp__http2_t *http2);
/* Releases what an idle connection does not need. Does nothing while there are streams. */
void uvhttp__http2_trim(uvhttp__http2_t *http2);

/* Whether data[0..size) begins like a connection preface: 0, UVHTTP_E_AGAIN (so far it does, more is needed) or
 * UVHTTP_E_HTTP2_PREFACE. For connections that may speak HTTP/1 as well. */
int uvhttp__http2_is_preface(const char *data, size_t size);

/* --- reading --- */

typedef enum uvhttp__http2_event_type {
    /* A request. data: its header block, whole. The owner sets event.stream->user, or resets and releases the stream.
     * end: there is no body. */
    UVHTTP__HTTP2_EVENT_HEADERS,
    /* The fields after a body. data: their block. The request is complete. */
    UVHTTP__HTTP2_EVENT_TRAILERS,
    /* Bytes of a body, possibly none if `end`. The owner owes uvhttp__http2_consume for them. */
    UVHTTP__HTTP2_EVENT_DATA,
    /* The stream was reset: by the peer (by_peer), or by the core because of what the peer sent. error: why. The owner
     * aborts its work and releases the stream, now or later. data: as of DISCARD, if size > 0. */
    UVHTTP__HTTP2_EVENT_RESET,
    /* data: a header block of a stream that was refused or reset. The decoder has to see it; nothing else comes of it.
     * stream: NULL. */
    UVHTTP__HTTP2_EVENT_DISCARD,
    /* SETTINGS of the peer hold: the encoder has http2->peer_header_table_lowest as its limit for a moment, then
     * peer_header_table_size (RFC 7541 section 4.2). */
    UVHTTP__HTTP2_EVENT_SETTINGS,
    /* The peer has acknowledged ours: the decoder's limit is limits->header_table_size, not 4096 any more. */
    UVHTTP__HTTP2_EVENT_SETTINGS_ACKED,
    /* GOAWAY of the peer: it opens no more streams. error: why. */
    UVHTTP__HTTP2_EVENT_GOAWAY,
} uvhttp__http2_event_type_t;

typedef struct uvhttp__http2_event {
    uint8_t type;                   /* uvhttp__http2_event_type_t */
    bool end;                       /* END_STREAM */
    bool by_peer;                   /* of RESET */
    uint32_t error;                 /* of RESET and GOAWAY */
    uvhttp__http2_stream_t *stream; /* NULL unless HEADERS, TRAILERS, DATA or RESET */
    uvhttp_str_t data;              /* in the input or in memory of the core, until the next call of read */
} uvhttp__http2_event_t;

/* Requests that were made inside DATA count, too; *requests becomes what the share was too small for. False: nothing
 * more is read in this iteration. */
bool uvhttp__http2_spend(uvhttp__http2_t *http2, uint32_t *requests);
static inline bool uvhttp__http2_has_share(const uvhttp__http2_t *http2) {
    return http2->requests_left > 0;
}
/* A new loop iteration: all budgets are full again, and floods of before are forgotten at their rates. */
void uvhttp__http2_begin_iteration(uvhttp__http2_t *http2, uint64_t now_ms);

/* Reads from data[0..size), up to one event. *consumed says how far. What comes of the bytes does not depend on how
 * they are cut. Between two calls the caller may use all other functions but deinit. Returns
 * - 0: *event is set; call again.
 * - UVHTTP_E_AGAIN: all is consumed, there is no event; more bytes are needed.
 * - UVHTTP_E_LIMIT: a budget of this iteration is used up; call again with the rest in the next one.
 * - UVHTTP_E_HTTP2_*: connection error (section 5.4.1). GOAWAY is in the control bytes, to be sent before the
 * connection is closed. Every later call returns the same.
 * - UVHTTP_E_NOMEM: the same, with INTERNAL_ERROR. */
UVHTTP_MUST_USE int uvhttp__http2_read(uvhttp__http2_t *http2, const char *data, size_t size, size_t *consumed,
                                       uvhttp__http2_event_t *event);

/* Whether a frame or a header block was started and is incomplete: the peer has to continue. For timers. */
bool uvhttp__http2_in_frame(const uvhttp__http2_t *http2);

/* Of a stream whose HEADERS has just come, without or with a body: what the content-length field says. Returns 0, or
 * UVHTTP_E_HTTP_CONTENT_LENGTH if the request ended with HEADERS and the length is not 0 (section 8.1.1): the caller
 * resets it with PROTOCOL_ERROR. Later mismatches come as RESET, always before `end`. */
UVHTTP_MUST_USE int uvhttp__http2_set_content_length(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream,
                                                     uint64_t length);

/* `size` bytes of DATA events were consumed: the peer may send as many again. A stream that was reset returns credit of
 * the connection only. What is not consumed at release is consumed then. */
void uvhttp__http2_consume(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size);

/* The same, but the peer is not to send more on the stream: it gets no credit. */
void uvhttp__http2_discard(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size);

/* The iteration ends: credit that is due goes to the control bytes. */
void uvhttp__http2_return_stream_credit(uvhttp__http2_t *http2);
static inline void uvhttp__http2_return_due_credit(uvhttp__http2_t *http2) {
    if (UNLIKELY(http2->credit_stream_id != 0)) uvhttp__http2_return_stream_credit(http2);
}

/* The stream `id`, NULL if there is none. */
uvhttp__http2_stream_t *uvhttp__http2_find(const uvhttp__http2_t *http2, uint32_t id);

/* Calls visit(stream, arg) for each stream, in no order. It may release any, and visit all again; it opens none. */
void uvhttp__http2_each_stream(uvhttp__http2_t *http2, void (*visit)(uvhttp__http2_stream_t *stream, void *arg),
                               void *arg);

/* --- writing --- */

/* Whether frames may be written for the stream. Nothing below may be called for one where this is false, but reset and
 * release. */
static inline bool uvhttp__http2_writable(const uvhttp__http2_stream_t *stream) {
    return !(stream->flags & (UVHTTP__HTTP2_RESET | UVHTTP__HTTP2_LOCAL_ENDED));
}

/* Frames of the core itself that have to be sent: empty most of the time. Valid until the next call of another
 * function; uvhttp__http2_control_consumed reports that they were appended. They stay here if the connection's queue is
 * full: then they accumulate up to control_size_max, which ends the connection. */
static inline uvhttp_str_t uvhttp__http2_control(const uvhttp__http2_t *http2) {
    return (uvhttp_str_t){http2->control.data, http2->control.size};
}
static inline void uvhttp__http2_control_consumed(uvhttp__http2_t *http2) {
    http2->control.size = 0;
}

/* Bytes that a header block of block_size bytes and its frame heads need: one head for most. */
size_t uvhttp__http2_continuation_heads(const uvhttp__http2_t *http2, size_t block_size);
static inline size_t uvhttp__http2_headers_size(const uvhttp__http2_t *http2, size_t block_size) {
    size_t size = UVHTTP__HTTP2_FRAME_HEAD_SIZE + block_size;
    if (LIKELY(block_size <= UVHTTP__HTTP2_FRAME_SIZE_MAX)) return size;
    return size + uvhttp__http2_continuation_heads(http2, block_size);
}
/* Makes a HEADERS frame, with CONTINUATION if necessary, of the block at frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE, in
 * place; `frame` has uvhttp__http2_headers_size bytes. Returns that size. end: END_STREAM, for responses without a body
 * and for trailers. Also for interim responses. */
size_t uvhttp__http2_write_all_headers(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, char *frame,
                                       size_t block_size, bool end);
static inline size_t uvhttp__http2_write_headers(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, char *frame,
                                                 size_t block_size, bool end) {
    if (UNLIKELY(end || block_size > UVHTTP__HTTP2_FRAME_SIZE_MAX))
        return uvhttp__http2_write_all_headers(http2, stream, frame, block_size, end);
    assert(uvhttp__http2_writable(stream));
    uvhttp__http2_put_head(frame, block_size, UVHTTP__HTTP2_HEADERS, UVHTTP__HTTP2_FLAG_END_HEADERS, stream->id);
    stream->flags |= UVHTTP__HTTP2_HEAD_WRITTEN;
    return UVHTTP__HTTP2_FRAME_HEAD_SIZE + block_size;
}

/* How many bytes of body the stream may send in one DATA frame now, regardless of other streams: for a small complete
 * response, instead of want and next. 0: none. */
static inline uint32_t uvhttp__http2_capacity(const uvhttp__http2_t *http2, const uvhttp__http2_stream_t *stream) {
    int32_t capacity = stream->send_window < http2->send_window ? stream->send_window : http2->send_window;
    return capacity <= 0 ? 0 : capacity < UVHTTP__HTTP2_SLICE_SIZE ? (uint32_t)capacity : UVHTTP__HTTP2_SLICE_SIZE;
}

/* Writes the head of a DATA frame of `size` bytes, at most what uvhttp__http2_capacity or next returned; the caller
 * appends the bytes. Windows are debited. end: END_STREAM; then the stream wants nothing any more. A frame with end and
 * no bytes needs no window and does not wait for next. */
void uvhttp__http2_data_written(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t size);
static inline void uvhttp__http2_write_data(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream,
                                            char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE], uint32_t size, bool end) {
    assert(uvhttp__http2_writable(stream) && size <= (size ? uvhttp__http2_capacity(http2, stream) : 0));
    uvhttp__http2_put_head(head, size, UVHTTP__HTTP2_DATA, end ? UVHTTP__HTTP2_FLAG_END_STREAM : 0, stream->id);
    stream->send_window -= (int32_t)size;
    http2->send_window -= (int32_t)size;
    if (end) stream->flags |= UVHTTP__HTTP2_LOCAL_ENDED;
    if (UNLIKELY(size >= 1024 || (stream->flags & UVHTTP__HTTP2_QUEUED)))
        uvhttp__http2_data_written(http2, stream, size);
}

/* Says whether the owner has bytes of body ready to be sent. Idempotent. */
void uvhttp__http2_want(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, bool wants);

/* Returns the next stream to send (RFC 9218 section 10), among those that want and whose windows are open; *size: how
 * many bytes at most, 1..UVHTTP__HTTP2_SLICE_SIZE. NULL: none. The caller follows with write_data (fewer bytes if it
 * has fewer) or want(false), then asks again. The stream of lowest urgency number is first. Incremental streams of one
 * urgency alternate. The others are served one after the other, and together alternate like one incremental stream. */
uvhttp__http2_stream_t *uvhttp__http2_next(uvhttp__http2_t *http2, uint32_t *size);

/* By the `priority` field of a request (or of a response): ignored if PRIORITY_UPDATE has set another. */
void uvhttp__http2_set_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint8_t priority);

/* Sends RST_STREAM. Idempotent; does nothing if the peer has reset it. The stream stays until it is released. */
void uvhttp__http2_reset(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error);

/* The owner's work has ended: handler, job, coroutine, queued body. The slot is free again. If the response is not
 * whole the stream is reset with INTERNAL_ERROR; if only the request is not, with NO_ERROR (section 8.1): the response
 * must have been appended before this call. */
static inline void uvhttp__http2_release(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream);

/* --- the end --- */

/* Graceful shutdown, phase one (section 6.8): GOAWAY that admits everything, and PING. After the peer's PING ACK, or at
 * the second call, the last GOAWAY names the last stream. Idempotent after that. */
void uvhttp__http2_shutdown(uvhttp__http2_t *http2);
/* Without the first phase: only the last GOAWAY, and no PING, whose ACK would meet a closed connection. For a
 * connection that is idle, or whose peer has ended its half. Idempotent. */
void uvhttp__http2_shutdown_now(uvhttp__http2_t *http2);
/* A connection error that the caller has found: COMPRESSION_ERROR, SETTINGS_TIMEOUT, ENHANCE_YOUR_CALM, INTERNAL_ERROR.
 * GOAWAY is in the control bytes. Returns the code that read returns from now on. */
int uvhttp__http2_fail(uvhttp__http2_t *http2, uvhttp__http2_error_t error);
/* Whether the connection is to be closed once its output is sent: it failed, or nothing is left to do and either side
 * has said that no stream follows. */
bool uvhttp__http2_done(const uvhttp__http2_t *http2);

/* --- memory of the connection --- */

/* Charges what upper layers hold for the connection: heads, bodies, tables. Returns 0 or UVHTTP_E_LIMIT, charging
 * nothing. */
UVHTTP_MUST_USE static inline int uvhttp__http2_charge(uvhttp__http2_t *http2, size_t size) {
    if (size > http2->limits->connection_memory_max - http2->memory) {
        http2->counters->memory_exceeded++;
        return UVHTTP_E_LIMIT;
    }
    http2->memory += (uint32_t)size;
    return UVHTTP_OK;
}
static inline void uvhttp__http2_discharge(uvhttp__http2_t *http2, size_t size) {
    assert(size <= http2->memory);
    http2->memory -= (uint32_t)size;
}

/* --- what release does --- */

static inline void uvhttp__http2_free_slot(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    uvhttp__http2_stream_t **at = &http2->buckets[stream->id >> 1 & http2->bucket_mask];
    assert(!(stream->flags & UVHTTP__HTTP2_QUEUED));
    while (*at != stream) at = &(*at)->bucket;
    *at = stream->bucket;
    stream->flags = 0;
    stream->bucket = http2->free;
    http2->free = stream;
    http2->stream_count--;
}

/* For a stream that has not ended whole. */
void uvhttp__http2_end_stream(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream);

static inline void uvhttp__http2_release(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    const uint32_t whole = UVHTTP__HTTP2_REMOTE_ENDED | UVHTTP__HTTP2_LOCAL_ENDED;
    assert(stream->flags & UVHTTP__HTTP2_IN_USE);
    bool ended = (stream->flags & (whole | UVHTTP__HTTP2_RESET)) == whole && !stream->held;
    if (LIKELY(ended && http2->data_stream != stream))
        uvhttp__http2_free_slot(http2, stream);
    else
        uvhttp__http2_end_stream(http2, stream);
}

#endif
