/* Owns: where our HTTP/2 core and libnghttp2 (1.52) differ on purpose, each with its reason. What is not here is a
 * defect of either. Header only: fuzzing uses it. */
#ifndef UVHTTP_TEST_FUZZ_HTTP2_DIFFERENCES_H
#define UVHTTP_TEST_FUZZ_HTTP2_DIFFERENCES_H

#include "http2_log.h"

typedef enum verdict {
    AGREES,      /* or differs in something that leaves both in the same state */
    ENDS,        /* differs on purpose: from here on both are in other states */
    UNEXPLAINED, /* a defect */
} verdict_t;

/* A frame and what both have made of it. */
typedef struct difference {
    uint8_t type, flags;
    uint32_t id, size;
    const char *payload;
    size_t left;       /* of the payload, as far as it came */
    const char *block; /* the header block that it ended, whole */
    size_t block_size; /* 0: none */
    event_log_t *ours, *theirs;
    int64_t our_goaway, their_goaway, our_reset, their_reset; /* codes; -1: none */
    int head_code;                                            /* why we have refused the block */
    bool messaging;                                           /* well-formed requests were asked for */
    bool self_dependent;
    bool over;        /* libnghttp2 wants nothing more: its session has ended */
    bool underscored; /* the block has a name that frames a message where '_' is '-' */
} difference_t;

static int64_t log_code(event_log_t *log, log_kind_t kind) {
    for (unsigned i = 0; i < log->count; ++i)
        if (log->entries[i].kind == kind) return (int64_t)log->entries[i].value;
    return -1;
}

/* RFC 7540 section 5.3.1, which RFC 9113 leaves out: an error of the stream. libnghttp2 makes it one of the connection,
 * or ignores it once it has said SETTINGS_NO_RFC7540_PRIORITIES. */
static bool is_self_dependency(const difference_t *is) {
    return is->self_dependent &&
           (is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR || is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR);
}

/* Section 6.3: PRIORITY of a wrong size is an error of the stream, which idle streams cannot have. */
static bool is_priority_of_wrong_size(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_PRIORITY_FRAME && is->size != 5 &&
           (is->our_reset == UVHTTP__HTTP2_FRAME_SIZE_ERROR || is->our_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR ||
            (is->our_goaway < 0 && is->their_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR));
}

static bool is_of_stream(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_DATA || is->type == UVHTTP__HTTP2_HEADERS ||
           is->type == UVHTTP__HTTP2_CONTINUATION;
}

/* Section 5.1, half-closed (remote): an error of the stream. libnghttp2 makes it one of the connection, as section
 * 5.4.1 allows; behind END_STREAM in both directions it is one. */
static bool is_stricter_half_closed(const difference_t *is) {
    return is_of_stream(is) && is->our_reset == UVHTTP__HTTP2_STREAM_CLOSED &&
           (is->their_goaway == UVHTTP__HTTP2_STREAM_CLOSED || is->their_goaway == UVHTTP__HTTP2_COMPRESSION_ERROR);
}

/* Section 5.1, closed, and 5.1.1: streams that have ended, and those that were skipped. libnghttp2 forgets them, and
 * decodes the block, which may be malformed. */
static bool is_forgotten_stream(const difference_t *is) {
    bool right = is->our_goaway == UVHTTP__HTTP2_STREAM_CLOSED || is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR;
    return is_of_stream(is) && is->id & 1 && right &&
           (is->their_goaway == -1 || is->their_goaway == UVHTTP__HTTP2_COMPRESSION_ERROR) && is->theirs->count <= 1;
}

/* Sections 4.2, 6.1, 6.2: a frame that is too small for the length of its padding, or its priority. libnghttp2 calls it
 * PROTOCOL_ERROR; ours is an even stream first. Of streams that it has forgotten libnghttp2 reads no padding. */
static bool is_too_small(const difference_t *is) {
    uint32_t fixed = (is->flags & UVHTTP__HTTP2_FLAG_PADDED ? 1 : 0) +
                     (is->type == UVHTTP__HTTP2_HEADERS && is->flags & UVHTTP__HTTP2_FLAG_PRIORITY ? 5 : 0);
    bool codes =
        (is->our_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR && is->their_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR) ||
        (is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR && is->their_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR);
    bool forgotten = is->their_goaway == -1 || is->their_goaway == UVHTTP__HTTP2_STREAM_CLOSED;
    return is->type <= UVHTTP__HTTP2_HEADERS && is->size < fixed &&
           (codes || (is->our_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR && forgotten));
}

/* Of a frame that is on a wrong stream and has a wrong size either may be said (section 5.4.1). */
static bool is_wrong_twice(const difference_t *is) {
    bool stream = is->type <= UVHTTP__HTTP2_RST_STREAM || is->type == UVHTTP__HTTP2_CONTINUATION;
    bool misplaced = is->type == UVHTTP__HTTP2_PUSH_PROMISE || stream == (is->id == 0);
    bool flood = is->type == UVHTTP__HTTP2_SETTINGS && is->their_goaway == UVHTTP__HTTP2_ENHANCE_YOUR_CALM;
    return misplaced && is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR &&
           (is->their_goaway == UVHTTP__HTTP2_FRAME_SIZE_ERROR || flood);
}

/* DATA behind the end of a request whose padding is too long has two faults, too (section 6.1, 5.1). */
static bool is_late_and_padded(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_DATA && is->flags & UVHTTP__HTTP2_FLAG_PADDED && is->left > 0 &&
           (uint8_t)is->payload[0] >= is->size && is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR &&
           (is->their_goaway == UVHTTP__HTTP2_STREAM_CLOSED || is->their_goaway == -1);
}

/* Section 6.3: PRIORITY on stream 0. libnghttp2 looks at no PRIORITY since SETTINGS_NO_RFC7540_PRIORITIES. */
static bool is_priority_of_connection(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_PRIORITY_FRAME && is->id == 0 && is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR &&
           is->their_goaway == -1;
}

/* RFC 9218 section 7.1: PRIORITY_UPDATE of stream 0, or of one that only a server opens. libnghttp2 ignores the first,
 * and looks at none that is longer than its buffer. */
static bool is_ignored_priority_update(const difference_t *is) {
    bool ignored = is->type == UVHTTP__HTTP2_PRIORITY_UPDATE && is->left >= 4 &&
                   (is->size > 20 || !(uvhttp__http2_get32(is->payload) << 1));
    return ignored && is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR && is->their_goaway == -1;
}

/* Section 6.9: an increment of 0 is an error of the stream; libnghttp2 makes it one of the connection. */
static bool is_zero_increment(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_WINDOW_UPDATE && is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR &&
           is->their_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR;
}

static unsigned setting_at(const difference_t *is, size_t at) {
    return (unsigned)(uint8_t)is->payload[at] << 8 | (uint8_t)is->payload[at + 1];
}

static bool has_setting(const difference_t *is, unsigned setting, unsigned times) {
    for (size_t at = 0; at + 6 <= is->left; at += 6) times -= times > 0 && setting_at(is, at) == setting;
    return times == 0;
}

static bool repeats_setting(const difference_t *is) {
    for (size_t at = 0; at + 6 <= is->left; at += 6)
        if (has_setting(is, setting_at(is, at), 2)) return true;
    return false;
}

/* What libnghttp2 does with SETTINGS: it looks at the last entry of each setting only, where section 6.5.3 wants them
 * in order, each checked; it ends the connection for an ACK that it has not waited for, and for a change of
 * NO_RFC7540_PRIORITIES (RFC 9218 section 2.1: may); and a window that overflows (section 6.9.2: an error of the
 * connection) ends the stream only. */
static bool is_other_settings(const difference_t *is) {
    bool ours = is->our_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR || is->our_goaway == UVHTTP__HTTP2_FLOW_CONTROL_ERROR;
    if (is->type != UVHTTP__HTTP2_SETTINGS || is->id != 0) return false;
    if (is->flags & UVHTTP__HTTP2_FLAG_ACK) return is->their_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR;
    if (ours && repeats_setting(is)) return true;
    if (has_setting(is, 9, 1) && is->our_goaway < 0 && is->their_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR) return true;
    if (ours && is->their_goaway > 0 && is->left > 6) return true; /* several faults: either may be said */
    return is->our_goaway == UVHTTP__HTTP2_FLOW_CONTROL_ERROR && is->their_reset == UVHTTP__HTTP2_FLOW_CONTROL_ERROR;
}

/* Values that libnghttp2 leaves to its caller: a host that differs from :authority (section 8.3.1), a :path with bytes
 * that RFC 3986 does not allow. */
static bool is_stricter_request(const difference_t *is) {
    return (is->head_code == UVHTTP_E_HTTP2_AUTHORITY || is->head_code == UVHTTP_E_HTTP2_PATH) && is->messaging &&
           is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR && log_find(is->theirs, LOG_FIELDS, is->id);
}

/* Behind CGI "content_length" is a second length: we refuse the name, as over HTTP/1. */
static bool is_framing_by_another_name(const difference_t *is) {
    return is->underscored && is->messaging && is->head_code == UVHTTP_E_HTTP2_FIELD_NAME &&
           is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR;
}

/* Sections 6.9.1, 8.1.1: DATA beyond the window of its stream or beyond its content-length. We find that before the
 * bytes are shown, libnghttp2 afterwards. */
static bool is_shown_too_early(difference_t *is) {
    log_entry_t *body = log_find(is->theirs, LOG_BODY, is->id);
    bool right = is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR || is->our_reset == UVHTTP__HTTP2_FLOW_CONTROL_ERROR;
    if (is->type != UVHTTP__HTTP2_DATA || !right || !body) return false;
    *body = is->theirs->entries[--is->theirs->count];
    return log_equal(is->ours, is->theirs);
}

/* Section 6.8: the last stream of a GOAWAY of a client is one that we have opened, and there is none: nothing comes of
 * it. libnghttp2 refuses numbers that are not even, and those that rise. */
static bool is_goaway_of_client(const difference_t *is) {
    return is->type == UVHTTP__HTTP2_GOAWAY && is->our_goaway < 0 && is->their_goaway == UVHTTP__HTTP2_PROTOCOL_ERROR &&
           log_find(is->ours, LOG_PEER_GOAWAY, 0);
}

/* RFC 7541 section 4.2 knows two size updates at the start of a block; libnghttp2 takes any number of them. */
static bool is_third_update(const difference_t *is) {
    const uint8_t *block = (const uint8_t *)is->block;
    unsigned updates = 0;
    for (size_t at = 0; at < is->block_size && (block[at] & 0xe0) == 0x20; ++updates) {
        bool more = (block[at++] & 0x1f) == 0x1f;
        while (more && at < is->block_size && block[at] & 0x80) ++at;
        at += more;
    }
    return is->head_code == UVHTTP_E_HPACK_TABLE_SIZE && updates > 2;
}

/* Section 8.1: a second block ends the request. Without messaging libnghttp2 does not look. */
static bool is_block_in_between(const difference_t *is) {
    return !is->messaging && is->our_reset == UVHTTP__HTTP2_PROTOCOL_ERROR && is_of_stream(is) &&
           log_find(is->theirs, LOG_FIELDS, is->id);
}

/* RST_STREAM(STREAM_CLOSED) for each frame behind a RST_STREAM of the peer (section 5.1): libnghttp2 ignores them. It
 * leaves nothing behind. */
static bool is_late_frame(difference_t *is) {
    log_entry_t *reset = log_find(is->ours, LOG_SENT_RESET, is->id);
    if (!is_of_stream(is) || !reset || reset->value != UVHTTP__HTTP2_STREAM_CLOSED) return false;
    *reset = is->ours->entries[--is->ours->count];
    return log_equal(is->ours, is->theirs);
}

/* Section 6.9: libnghttp2 opens the window of a stream whose request has just ended. */
static bool is_useless_credit(difference_t *is) {
    log_entry_t *credit = log_find(is->theirs, LOG_SENT_WINDOW, is->id);
    if (is->type != UVHTTP__HTTP2_DATA || is->id == 0 || !credit || !log_find(is->theirs, LOG_END, is->id))
        return false;
    *credit = is->theirs->entries[--is->theirs->count];
    return log_equal(is->ours, is->theirs);
}

/* Section 6.9 leaves open when credit is returned. Of a padded frame libnghttp2 counts the padding first: if that is
 * enough for an update, the data has to wait for the next one. */
static bool is_credit_for_padding(difference_t *is) {
    if (is->type != UVHTTP__HTTP2_DATA || !(is->flags & UVHTTP__HTTP2_FLAG_PADDED)) return false;
    const uint32_t ids[] = {0, is->id};
    for (size_t i = 0; i < 2; i++) {
        const log_entry_t *ours = log_find(is->ours, LOG_SENT_WINDOW, ids[i]);
        log_entry_t *theirs = log_find(is->theirs, LOG_SENT_WINDOW, ids[i]);
        if (ours && theirs && ours->value > theirs->value && ours->value - theirs->value < is->size)
            theirs->value = ours->value;
    }
    return log_equal(is->ours, is->theirs);
}

/* Section 6.8: behind a GOAWAY of the client, with its last stream, libnghttp2 has ended and sends no more. We may
 * still return credit for that stream, refuse it or respond to it. */
static bool is_sent_at_the_end(difference_t *is) {
    if (!is->over || is->our_goaway >= 0) return false;
    for (unsigned i = is->ours->count; i-- > 0;) {
        log_entry_t *ours = &is->ours->entries[i];
        if (ours->kind >= LOG_SENT_RESET && !log_find(is->theirs, ours->kind, ours->stream))
            *ours = is->ours->entries[--is->ours->count];
    }
    return log_equal(is->ours, is->theirs) || is_shown_too_early(is);
}

static void read_frame(difference_t *is, const char *frame, size_t size) {
    if (size < UVHTTP__HTTP2_FRAME_HEAD_SIZE) return;
    is->size = uvhttp__http2_get32(frame) >> 8;
    is->type = (uint8_t)frame[3];
    is->flags = (uint8_t)frame[4];
    is->id = uvhttp__http2_get32(frame + 5) & UVHTTP__HTTP2_STREAM_ID_MAX;
    is->payload = frame + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    is->left = size - UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    is->our_goaway = log_goaway(is->ours);
    is->their_goaway = log_goaway(is->theirs);
    is->our_reset = log_code(is->ours, LOG_SENT_RESET);
    is->their_reset = log_code(is->theirs, LOG_SENT_RESET);
}

static verdict_t explain_difference(difference_t *is) {
    if (log_equal(is->ours, is->theirs)) return AGREES;
    if (is_sent_at_the_end(is)) return ENDS;
    /* What was shown before the error does not matter: libnghttp2 shows fields one by one. */
    if (is->our_goaway > 0 && is->our_goaway == is->their_goaway) return ENDS;
    if (is_self_dependency(is) || is_priority_of_wrong_size(is) || is_stricter_half_closed(is) ||
        is_forgotten_stream(is) || is_too_small(is) || is_wrong_twice(is) || is_goaway_of_client(is) ||
        is_late_and_padded(is) || is_priority_of_connection(is) || is_ignored_priority_update(is) ||
        is_zero_increment(is) || is_other_settings(is) || is_stricter_request(is) || is_third_update(is) ||
        is_block_in_between(is) || is_credit_for_padding(is) || is_framing_by_another_name(is))
        return ENDS;
    return is_late_frame(is) || is_useless_credit(is) || is_shown_too_early(is) ? AGREES : UNEXPLAINED;
}

#endif
