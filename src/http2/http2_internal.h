/* Owns: what the files of the HTTP/2 core share. Files call downwards in the order of the sections below, the last
 * section being the highest. May include: base. */
#ifndef UVHTTP_SRC_HTTP2_HTTP2_INTERNAL_H
#define UVHTTP_SRC_HTTP2_HTTP2_INTERNAL_H

#include "base/hot_path.h"
#include "http2/http2.h"

/* Functions of the core that read return 0 with an event, UVHTTP_E_*, or this: there is none, continue. */
enum { UVHTTP__HTTP2_CONTINUE = 1 };

/* --- control.c --- */

/* Reserves `size` bytes after the buffer's. Returns 0, UVHTTP_E_NOMEM or UVHTTP_E_LIMIT (connection_memory_max). */
UVHTTP_MUST_USE int uvhttp__http2_reserve(uvhttp__http2_t *http2, uvhttp__http2_buffer_t *buffer, size_t size);
void uvhttp__http2_drop_buffer(uvhttp__http2_t *http2, uvhttp__http2_buffer_t *buffer);
#define UVHTTP__HTTP2_SHUTDOWN_PING "uvh2stop" /* what PING of a graceful shutdown carries */
/* Appends the head of a frame to the control bytes. Returns where its payload goes; NULL: the connection has failed,
 * now or before. */
char *uvhttp__http2_control_frame(uvhttp__http2_t *http2, uint8_t type, uint8_t flags, uint32_t stream_id,
                                  size_t payload_size);
/* Appends a frame whose payload is one number. */
void uvhttp__http2_control_number(uvhttp__http2_t *http2, uint8_t type, uint32_t stream_id, uint32_t number);
/* A connection error whose name is another than that of its number: for codes that say more. */
int uvhttp__http2_fail_with(uvhttp__http2_t *http2, uvhttp__http2_error_t error, int status);

/* --- budget.c --- */

/* A frame that brings nothing on. Returns false if it was one too many: the connection has failed. */
bool uvhttp__http2_count_control_frame(uvhttp__http2_t *http2);
/* A stream was reset after it was admitted; the same. */
bool uvhttp__http2_count_reset(uvhttp__http2_t *http2);
/* So many frames of that kind are paid for. */
static inline void uvhttp__http2_pay_control_frames(uvhttp__http2_t *http2, uint32_t count) {
    if (LIKELY(http2->control_frames == 0)) return;
    http2->control_frames -= http2->control_frames < count ? http2->control_frames : count;
}

/* --- schedule.c --- */

void uvhttp__http2_enqueue(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream);
void uvhttp__http2_dequeue(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream);
/* Puts the stream into its ready queue or takes it out, after a change of its flags or window. */
static inline void uvhttp__http2_requeue(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    uint32_t flags = stream->flags & (UVHTTP__HTTP2_WANTS | UVHTTP__HTTP2_RESET | UVHTTP__HTTP2_LOCAL_ENDED);
    bool ready = flags == UVHTTP__HTTP2_WANTS && stream->send_window > 0;
    if (ready == !!(stream->flags & UVHTTP__HTTP2_QUEUED)) return;
    if (ready)
        uvhttp__http2_enqueue(http2, stream);
    else
        uvhttp__http2_dequeue(http2, stream);
}
/* PRIORITY_UPDATE for a stream that is not open yet (RFC 9218 section 7.1), and what came of it when it opens. */
void uvhttp__http2_remember_priority(uvhttp__http2_t *http2, uint32_t stream_id, uint8_t priority);
void uvhttp__http2_recall_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream);
void uvhttp__http2_change_priority(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint8_t priority);

/* --- flow.c --- */

/* Credit of the connection, of `size` bytes that nobody waits for any more. */
void uvhttp__http2_consume_connection(uvhttp__http2_t *http2, size_t size);
/* The same for padding of a DATA frame, also of its stream; NULL: none. */
void uvhttp__http2_consume_padding(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, size_t size);
/* A WINDOW_UPDATE frame for a stream; false: the window overflows (section 6.9.1). */
bool uvhttp__http2_open_window(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uint32_t increment);

/* --- streams.c --- */

/* How a stream that is gone has ended. */
typedef enum uvhttp__http2_history {
    UVHTTP__HTTP2_FINISHED,
    UVHTTP__HTTP2_SKIPPED,   /* it was closed by a later one being opened (section 5.1.1) */
    UVHTTP__HTTP2_WAS_RESET, /* by us, or refused, or it is too long ago: frames may still come and are ignored */
    UVHTTP__HTTP2_WAS_PEER_RESET,
} uvhttp__http2_history_t;

void uvhttp__http2_streams_init(uvhttp__http2_t *http2);
void uvhttp__http2_streams_deinit(uvhttp__http2_t *http2);
/* Of an id that is odd and not above last_stream_id. */
uvhttp__http2_history_t uvhttp__http2_history(const uvhttp__http2_t *http2, uint32_t id);
/* The streams between the last one and `id` cannot be opened any more. For a stream that is not the next, or that
 * starts a word of the history. */
void uvhttp__http2_advance_far(uvhttp__http2_t *http2, uint32_t id);
/* Allocates what the next stream needs: a slot and buckets. Returns false if there is no memory or no capacity for it.
 */
bool uvhttp__http2_make_slot(uvhttp__http2_t *http2);
enum { UVHTTP__HTTP2_HISTORY_PER_WORD = 32 };
static inline void uvhttp__http2_advance(uvhttp__http2_t *http2, uint32_t id) {
    if (UNLIKELY(id != http2->last_stream_id + 2 || (id >> 1) % UVHTTP__HTTP2_HISTORY_PER_WORD == 0))
        uvhttp__http2_advance_far(http2, id);
    http2->last_stream_id = id;
}
/* Whether there is a slot, and a bucket, for a stream more. */
static inline bool uvhttp__http2_has_slot(const uvhttp__http2_t *http2) {
    return http2->stream_count + http2->orphan_count < http2->limits->streams_max && http2->free &&
           http2->stream_count <= http2->bucket_mask;
}
/* The slot of the stream `id`, which has become last_stream_id. end: its HEADERS has END_STREAM. */
static ALWAYS_INLINE uvhttp__http2_stream_t *uvhttp__http2_take_slot(uvhttp__http2_t *http2, uint32_t id, bool end) {
    uvhttp__http2_stream_t *stream = http2->free, **bucket = &http2->buckets[id >> 1 & http2->bucket_mask];
    http2->free = stream->bucket;
    http2->stream_count++;
    *stream = (uvhttp__http2_stream_t){
        .id = id,
        .flags = end ? UVHTTP__HTTP2_IN_USE | UVHTTP__HTTP2_REMOTE_ENDED : UVHTTP__HTTP2_IN_USE,
        .priority = UVHTTP__HTTP2_PRIORITY_DEFAULT,
        .send_window = (int32_t)http2->peer_window,
        .receive_window = http2->settings_acked ? (int32_t)http2->limits->stream_window : UVHTTP__HTTP2_WINDOW_DEFAULT,
        .bucket = *bucket,
    };
    *bucket = stream;
    return stream;
}
/* The peer opens the stream `id`, which is above last_stream_id. NULL if there is no memory or no capacity for it: it
 * counts as reset then. */
uvhttp__http2_stream_t *uvhttp__http2_open_stream(uvhttp__http2_t *http2, uint32_t id, bool end);
/* The same for one that is not admitted. */
void uvhttp__http2_pass_stream(uvhttp__http2_t *http2, uint32_t id, bool end);

/* --- settings.c --- */

/* Appends our SETTINGS and the window of the connection to the control bytes. */
void uvhttp__http2_send_settings(uvhttp__http2_t *http2);
/* Payload of a SETTINGS frame. Returns 0 or a connection error. */
int uvhttp__http2_apply_settings(uvhttp__http2_t *http2, const char *payload, uint32_t size);
/* The peer has applied ours. */
void uvhttp__http2_settings_acked(uvhttp__http2_t *http2);

/* --- frames.c, headers.c, data.c --- */

/* A stream error (section 5.4.2) of a stream that is there: RST_STREAM, and *event says so. Returns 0 or a connection
 * error. */
int uvhttp__http2_stream_error(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error,
                               uvhttp__http2_event_t *event);
/* A frame for a stream that is closed, and that is not there any more or was reset. Returns UVHTTP__HTTP2_CONTINUE (the
 * frame is ignored) or a connection error. */
int uvhttp__http2_closed_stream(uvhttp__http2_t *http2, const uvhttp__http2_stream_t *stream, uint32_t id,
                                uint32_t data_size);

/* The whole payload of a frame that is neither DATA nor part of a header block. */
int uvhttp__http2_control_payload(uvhttp__http2_t *http2, const char *payload, uint32_t size,
                                  uvhttp__http2_event_t *event);
/* Refuses a stream for lack of capacity. Returns 0 or a connection error. */
int uvhttp__http2_refuse_full(uvhttp__http2_t *http2, uint32_t id);
/* A request was opened. */
static inline void uvhttp__http2_count_request(uvhttp__http2_t *http2) {
    http2->requests_left--;
    uvhttp__http2_pay_control_frames(http2, 4);
}
/* The whole payload of HEADERS or CONTINUATION; it may be the last bytes of http2->block. */
int uvhttp__http2_headers_payload(uvhttp__http2_t *http2, const char *payload, uint32_t size,
                                  uvhttp__http2_event_t *event);
/* The head of a DATA frame has come, with the length of its padding; frame_left counts its body alone. */
int uvhttp__http2_data_head(uvhttp__http2_t *http2, uint32_t frame_size, uvhttp__http2_event_t *event);
/* Some of its body. */
int uvhttp__http2_data_piece(uvhttp__http2_t *http2, const char *data, uint32_t size, uvhttp__http2_event_t *event);

#endif
