/* Owns: how streams open, and how those that are closed have ended. May include: base. */
#include "http2/http2_internal.h"

/* --- history --- */

enum { PER_WORD = UVHTTP__HTTP2_HISTORY_PER_WORD };

static void set_history(uvhttp__http2_t *http2, uint32_t id, uvhttp__http2_history_t how) {
    unsigned at = (id >> 1) % UVHTTP__HTTP2_HISTORY * 2;
    uint64_t *word = &http2->history[at / 64];
    *word = (*word & ~((uint64_t)3 << at % 64)) | (uint64_t)how << at % 64;
}

/* Of a word the streams are forgotten before the first of the new ones that it is used for: its bits are theirs. */
static bool is_forgotten(const uvhttp__http2_t *http2, uint32_t id) {
    return (http2->last_stream_id - id) / 2 >= UVHTTP__HTTP2_HISTORY - PER_WORD;
}

uvhttp__http2_history_t uvhttp__http2_history(const uvhttp__http2_t *http2, uint32_t id) {
    unsigned at = (id >> 1) % UVHTTP__HTTP2_HISTORY * 2;
    if (is_forgotten(http2, id)) return UVHTTP__HTTP2_WAS_RESET;
    return (uvhttp__http2_history_t)(http2->history[at / 64] >> at % 64 & 3);
}

void uvhttp__http2_advance_far(uvhttp__http2_t *http2, uint32_t id) {
    uint32_t from = http2->last_stream_id ? (http2->last_stream_id >> 1) + 1 : 0, to = id >> 1;
    if (to - from > UVHTTP__HTTP2_HISTORY) from = (to - UVHTTP__HTTP2_HISTORY) / PER_WORD * PER_WORD;
    for (uint32_t at = from; at <= to; at++) {
        if (at % PER_WORD == 0) http2->history[at % UVHTTP__HTTP2_HISTORY / PER_WORD] = 0;
        if (at < to) set_history(http2, at << 1, UVHTTP__HTTP2_SKIPPED);
    }
    bool few_are_left = id >= UVHTTP__HTTP2_STREAM_ID_MAX - 2 * UVHTTP__HTTP2_HISTORY;
    if (UNLIKELY(few_are_left && http2->phase == UVHTTP__HTTP2_OPEN)) uvhttp__http2_shutdown(http2);
}

/* --- streams --- */

uvhttp__http2_stream_t *uvhttp__http2_open_stream(uvhttp__http2_t *http2, uint32_t id, bool end) {
    if (UNLIKELY(!uvhttp__http2_has_slot(http2)) && !uvhttp__http2_make_slot(http2)) {
        uvhttp__http2_pass_stream(http2, id, end);
        return NULL;
    }
    uvhttp__http2_advance(http2, id);
    uvhttp__http2_stream_t *stream = uvhttp__http2_take_slot(http2, id, end);
    if (UNLIKELY(http2->early_count)) uvhttp__http2_recall_priority(http2, stream);
    return stream;
}

/* What the peer may send of a body before it sees that nobody wants it. Of all streams no more than the connection's
 * window can be under way. */
static void expect_late_data(uvhttp__http2_t *http2, uint32_t window) {
    uint32_t max = http2->limits->connection_window;
    http2->under_way = window < max - http2->under_way ? http2->under_way + window : max;
}

/* Its window may be ours already, whether or not we know. */
void uvhttp__http2_pass_stream(uvhttp__http2_t *http2, uint32_t id, bool end) {
    uint32_t window = http2->limits->stream_window;
    if (!end) expect_late_data(http2, window < UVHTTP__HTTP2_WINDOW_DEFAULT ? UVHTTP__HTTP2_WINDOW_DEFAULT : window);
    uvhttp__http2_advance(http2, id);
    set_history(http2, id, UVHTTP__HTTP2_WAS_RESET);
}

/* --- how they end --- */

/* Whether a code says that the peer has done something wrong: those count as resets that it has provoked
 * (CVE-2025-8671). */
static bool blames_peer(uvhttp__http2_error_t error) {
    return error == UVHTTP__HTTP2_PROTOCOL_ERROR || error == UVHTTP__HTTP2_FLOW_CONTROL_ERROR ||
           error == UVHTTP__HTTP2_STREAM_CLOSED || error == UVHTTP__HTTP2_FRAME_SIZE_ERROR ||
           error == UVHTTP__HTTP2_ENHANCE_YOUR_CALM;
}

void uvhttp__http2_reset(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream, uvhttp__http2_error_t error) {
    if (stream->flags & UVHTTP__HTTP2_RESET) return;
    bool ended = stream->flags & UVHTTP__HTTP2_REMOTE_ENDED;
    if (!ended && stream->receive_window > 0) expect_late_data(http2, (uint32_t)stream->receive_window);
    stream->flags |= UVHTTP__HTTP2_RESET;
    uvhttp__http2_requeue(http2, stream);
    if (http2->phase == UVHTTP__HTTP2_FAILED) return; /* GOAWAY was the last frame */
    http2->counters->resets_sent++;
    uvhttp__http2_control_number(http2, UVHTTP__HTTP2_RST_STREAM, stream->id, error);
    if (blames_peer(error)) (void)uvhttp__http2_count_reset(http2);
}

static uvhttp__http2_history_t ended_how(const uvhttp__http2_stream_t *stream) {
    if (stream->flags & UVHTTP__HTTP2_PEER_RESET) return UVHTTP__HTTP2_WAS_PEER_RESET;
    return stream->flags & UVHTTP__HTTP2_RESET ? UVHTTP__HTTP2_WAS_RESET : UVHTTP__HTTP2_FINISHED;
}

/* What is left of it is ended first. */
void uvhttp__http2_end_stream(uvhttp__http2_t *http2, uvhttp__http2_stream_t *stream) {
    if (stream->held) uvhttp__http2_consume(http2, stream, stream->held);
    if (!(stream->flags & UVHTTP__HTTP2_LOCAL_ENDED))
        uvhttp__http2_reset(http2, stream, UVHTTP__HTTP2_INTERNAL_ERROR);
    else if (!(stream->flags & UVHTTP__HTTP2_REMOTE_ENDED))
        uvhttp__http2_reset(http2, stream, UVHTTP__HTTP2_NO_ERROR);
    if (!is_forgotten(http2, stream->id)) set_history(http2, stream->id, ended_how(stream));
    if (http2->data_stream == stream) { /* its frame is incomplete */
        uvhttp__http2_consume_connection(http2, http2->frame_left);
        http2->data_stream = NULL;
    }
    uvhttp__http2_free_slot(http2, stream);
}
