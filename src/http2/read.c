/* Owns: bytes become frames (RFC 9113 section 4): checks at the head of a frame, and split frames. May include: base.
 *
 * A complete frame is read in place. Every part of DATA is delivered. Any other split payload is collected in
 * http2->block, after the header block that it may continue. */
#include <string.h>

#include "http2/http2_internal.h"

enum read_state { PREFACE, HEAD, PADDING_LENGTH, PAYLOAD, BODY, SKIP };

typedef struct input {
    const char *at, *end;
} input_t;

static uint32_t left_of(const input_t *in, uint32_t size) {
    size_t come = (size_t)(in->end - in->at);
    return come < size ? (uint32_t)come : size;
}

/* --- preface --- */

int uvhttp__http2_is_preface(const char *data, size_t size) {
    size_t compared = size < UVHTTP__HTTP2_PREFACE_SIZE ? size : UVHTTP__HTTP2_PREFACE_SIZE;
    if (compared > 0 && memcmp(data, UVHTTP__HTTP2_PREFACE, compared) != 0) return UVHTTP_E_HTTP2_PREFACE;
    return compared == UVHTTP__HTTP2_PREFACE_SIZE ? UVHTTP_OK : UVHTTP_E_AGAIN;
}

static int read_preface(uvhttp__http2_t *http2, input_t *in) {
    uint32_t seen = http2->head_size, come = left_of(in, UVHTTP__HTTP2_PREFACE_SIZE - seen);
    if (come > 0 && memcmp(in->at, &UVHTTP__HTTP2_PREFACE[seen], come) != 0)
        return uvhttp__http2_fail_with(http2, UVHTTP__HTTP2_PROTOCOL_ERROR, UVHTTP_E_HTTP2_PREFACE);
    in->at += come;
    http2->head_size = (uint8_t)(seen + come);
    if (http2->head_size < UVHTTP__HTTP2_PREFACE_SIZE) return UVHTTP_E_AGAIN;
    http2->head_size = 0;
    http2->read_state = HEAD;
    return UVHTTP__HTTP2_CONTINUE;
}

/* --- what the head of a frame shows --- */

/* Section 6: on which streams a frame may be, and how long its payload is. */
typedef struct rule {
    enum { ANY_STREAM, A_STREAM, THE_CONNECTION, NOWHERE } where;
    uint8_t size_min, size_exact; /* bytes; 0: any */
} rule_t;

static const rule_t rules[] = {
    [UVHTTP__HTTP2_DATA] = {A_STREAM, 0, 0},
    [UVHTTP__HTTP2_HEADERS] = {A_STREAM, 0, 0},
    [UVHTTP__HTTP2_PRIORITY_FRAME] = {A_STREAM, 0, 0}, /* a wrong size is an error of the stream */
    [UVHTTP__HTTP2_RST_STREAM] = {A_STREAM, 0, 4},
    [UVHTTP__HTTP2_SETTINGS] = {THE_CONNECTION, 0, 0},
    [UVHTTP__HTTP2_PUSH_PROMISE] = {NOWHERE, 0, 0}, /* section 8.4: a client cannot push */
    [UVHTTP__HTTP2_PING] = {THE_CONNECTION, 0, 8},
    [UVHTTP__HTTP2_GOAWAY] = {THE_CONNECTION, 8, 0},
    [UVHTTP__HTTP2_WINDOW_UPDATE] = {ANY_STREAM, 0, 4},
    [UVHTTP__HTTP2_CONTINUATION] = {A_STREAM, 0, 0},
    [UVHTTP__HTTP2_PRIORITY_UPDATE] = {THE_CONNECTION, 4, 0},
};

static bool is_known(uint8_t type) {
    return type <= UVHTTP__HTTP2_CONTINUATION || type == UVHTTP__HTTP2_PRIORITY_UPDATE;
}

/* Section 3.4, 4.2, 6: NO_ERROR, or a connection error. */
static uvhttp__http2_error_t check_head(const uvhttp__http2_t *http2, uint32_t size) {
    bool of_block = http2->frame_type == UVHTTP__HTTP2_CONTINUATION;
    const rule_t *rule = &rules[is_known(http2->frame_type) ? http2->frame_type : UVHTTP__HTTP2_DATA];
    if (size > UVHTTP__HTTP2_FRAME_SIZE_MAX) return UVHTTP__HTTP2_FRAME_SIZE_ERROR;
    if (of_block != (http2->block_stream_id != 0)) return UVHTTP__HTTP2_PROTOCOL_ERROR;
    if (of_block && http2->block_stream_id != http2->frame_stream_id) return UVHTTP__HTTP2_PROTOCOL_ERROR;
    if (!is_known(http2->frame_type)) return UVHTTP__HTTP2_NO_ERROR;
    if (rule->where != ANY_STREAM && (rule->where == A_STREAM) != (http2->frame_stream_id != 0))
        return UVHTTP__HTTP2_PROTOCOL_ERROR;
    if (rule->where == NOWHERE) return UVHTTP__HTTP2_PROTOCOL_ERROR;
    if (size < rule->size_min || (rule->size_exact && size != rule->size_exact)) return UVHTTP__HTTP2_FRAME_SIZE_ERROR;
    return UVHTTP__HTTP2_NO_ERROR;
}

static int fail_at_limit(uvhttp__http2_t *http2, uint64_t *counter) {
    ++*counter;
    return uvhttp__http2_fail(http2, UVHTTP__HTTP2_ENHANCE_YOUR_CALM);
}

static int check_settings(uvhttp__http2_t *http2, uint32_t size) {
    bool ack = http2->frame_flags & UVHTTP__HTTP2_FLAG_ACK;
    if (ack ? size != 0 : size % 6 != 0) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_FRAME_SIZE_ERROR);
    if (size / 6 > http2->limits->settings_entries_max)
        return fail_at_limit(http2, &http2->counters->settings_too_large);
    return UVHTTP_OK;
}

static int check_headers(uvhttp__http2_t *http2, uint32_t size) {
    const uvhttp__http2_limits_t *limits = http2->limits;
    bool starts_block = http2->frame_type == UVHTTP__HTTP2_HEADERS;
    if (starts_block && !(http2->frame_stream_id & 1)) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR);
    if (size + (starts_block ? 0 : http2->block.size) > limits->header_block_size_max)
        return fail_at_limit(http2, &http2->counters->header_blocks_too_large);
    if (!starts_block && http2->block_frames++ >= limits->continuation_frames_max)
        return fail_at_limit(http2, &http2->counters->continuation_floods);
    return UVHTTP_OK;
}

/* --- payloads --- */

static int read_payload(uvhttp__http2_t *http2, const char *payload, uint32_t size, uvhttp__http2_event_t *event) {
    bool headers = http2->frame_type == UVHTTP__HTTP2_HEADERS || http2->frame_type == UVHTTP__HTTP2_CONTINUATION;
    http2->read_state = HEAD;
    return headers ? uvhttp__http2_headers_payload(http2, payload, size, event)
                   : uvhttp__http2_control_payload(http2, payload, size, event);
}

static int begin_payload(uvhttp__http2_t *http2, input_t *in, uint32_t size, uvhttp__http2_event_t *event) {
    if (!http2->block_stream_id) http2->block.size = 0;
    if (LIKELY((size_t)(in->end - in->at) >= size)) {
        const char *payload = in->at;
        in->at += size;
        return read_payload(http2, payload, size, event);
    }
    http2->frame_size = http2->frame_left = size;
    http2->read_state = PAYLOAD;
    return UVHTTP__HTTP2_CONTINUE;
}

static int continue_payload(uvhttp__http2_t *http2, input_t *in, uvhttp__http2_event_t *event) {
    uint32_t come = left_of(in, http2->frame_left);
    uvhttp__http2_buffer_t *block = &http2->block;
    int status = uvhttp__http2_reserve(http2, block, come);
    if (status != UVHTTP_OK)
        return uvhttp__http2_fail(http2, status == UVHTTP_E_LIMIT ? UVHTTP__HTTP2_ENHANCE_YOUR_CALM
                                                                  : UVHTTP__HTTP2_INTERNAL_ERROR);
    if (come > 0) memcpy(block->data + block->size, in->at, come);
    in->at += come;
    block->size += come;
    http2->frame_left -= come;
    if (http2->frame_left > 0) return UVHTTP_E_AGAIN;
    return read_payload(http2, block->data + block->size - http2->frame_size, http2->frame_size, event);
}

/* --- DATA, and what nobody reads --- */

static int skip(uvhttp__http2_t *http2, input_t *in) {
    uint32_t come = left_of(in, http2->frame_left);
    in->at += come;
    http2->frame_left -= come;
    if (http2->frame_left > 0) return UVHTTP_E_AGAIN;
    http2->read_state = HEAD;
    return UVHTTP__HTTP2_CONTINUE;
}

static int begin_skip(uvhttp__http2_t *http2, uint32_t size) {
    http2->frame_left = size;
    http2->read_state = SKIP;
    return uvhttp__http2_count_control_frame(http2) ? UVHTTP__HTTP2_CONTINUE : http2->failure;
}

/* The body is read: its padding is left. */
static void end_body(uvhttp__http2_t *http2) {
    http2->data_stream = NULL;
    http2->frame_left = http2->padding_left;
    http2->read_state = http2->padding_left ? SKIP : HEAD;
}

static int begin_body(uvhttp__http2_t *http2, uint32_t frame_size, uint32_t padding, uvhttp__http2_event_t *event) {
    http2->padding_left = (uint8_t)padding;
    http2->read_state = BODY;
    int status = uvhttp__http2_data_head(http2, frame_size, event);
    if (http2->frame_left == 0) end_body(http2);
    return status;
}

static int read_body(uvhttp__http2_t *http2, input_t *in, uvhttp__http2_event_t *event) {
    uint32_t come = left_of(in, http2->frame_left);
    const char *data = in->at;
    if (come == 0) return UVHTTP_E_AGAIN;
    in->at += come;
    int status = uvhttp__http2_data_piece(http2, data, come, event);
    if (http2->frame_left == 0) end_body(http2);
    return status;
}

static int read_padding_length(uvhttp__http2_t *http2, input_t *in, uvhttp__http2_event_t *event) {
    if (in->at == in->end) return UVHTTP_E_AGAIN;
    uint32_t frame_size = http2->frame_left, padding = (uint8_t)*in->at++;
    if (padding >= frame_size) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_PROTOCOL_ERROR); /* section 6.1 */
    http2->frame_left = frame_size - 1 - padding;
    return begin_body(http2, frame_size, padding, event);
}

static int begin_data(uvhttp__http2_t *http2, uint32_t size, uvhttp__http2_event_t *event) {
    http2->frame_left = size;
    if (LIKELY(!(http2->frame_flags & UVHTTP__HTTP2_FLAG_PADDED))) return begin_body(http2, size, 0, event);
    if (size == 0) return uvhttp__http2_fail(http2, UVHTTP__HTTP2_FRAME_SIZE_ERROR);
    http2->read_state = PADDING_LENGTH;
    return UVHTTP__HTTP2_CONTINUE;
}

/* --- frames --- */

static NOINLINE int begin_frame(uvhttp__http2_t *http2, input_t *in, uint32_t size, uvhttp__http2_event_t *event) {
    int status = UVHTTP_OK;
    uvhttp__http2_error_t error = check_head(http2, size);
    if (UNLIKELY(error != UVHTTP__HTTP2_NO_ERROR)) return uvhttp__http2_fail(http2, error);
    if (UNLIKELY(!http2->settings_received) &&
        (http2->frame_type != UVHTTP__HTTP2_SETTINGS || http2->frame_flags & UVHTTP__HTTP2_FLAG_ACK))
        return uvhttp__http2_fail_with(http2, UVHTTP__HTTP2_PROTOCOL_ERROR, UVHTTP_E_HTTP2_PREFACE);
    switch (http2->frame_type) {
        case UVHTTP__HTTP2_DATA: return begin_data(http2, size, event);
        case UVHTTP__HTTP2_HEADERS:
        case UVHTTP__HTTP2_CONTINUATION: status = check_headers(http2, size); break;
        case UVHTTP__HTTP2_SETTINGS: status = check_settings(http2, size); break;
        case UVHTTP__HTTP2_PRIORITY_UPDATE:
            if (size - 4 <= http2->limits->priority_size_max) break;
            http2->counters->priorities_too_large++;
            return begin_skip(http2, size);
        default:
            if (!is_known(http2->frame_type)) return begin_skip(http2, size); /* section 5.5 */
    }
    return status == UVHTTP_OK ? begin_payload(http2, in, size, event) : status;
}

/* The head of a frame, where it stands or collected. NULL: it is not whole. */
static const char *take_head(uvhttp__http2_t *http2, input_t *in) {
    const char *head = in->at;
    if (LIKELY(http2->head_size == 0 && in->end - in->at >= UVHTTP__HTTP2_FRAME_HEAD_SIZE)) {
        in->at += UVHTTP__HTTP2_FRAME_HEAD_SIZE;
        return head;
    }
    uint32_t come = left_of(in, UVHTTP__HTTP2_FRAME_HEAD_SIZE - http2->head_size);
    memcpy(http2->head + http2->head_size, in->at, come); /* at least one has come */
    in->at += come;
    http2->head_size = (uint8_t)(http2->head_size + come);
    if (http2->head_size < UVHTTP__HTTP2_FRAME_HEAD_SIZE) return NULL;
    http2->head_size = 0;
    return http2->head;
}

static int read_head(uvhttp__http2_t *http2, input_t *in, uvhttp__http2_event_t *event) {
    if (in->at == in->end) return UVHTTP_E_AGAIN;
    if (UNLIKELY(!http2->requests_left || !http2->frames_left || !http2->bytes_left)) {
        http2->counters->iterations_cut++;
        return UVHTTP_E_LIMIT;
    }
    const char *head = take_head(http2, in);
    if (!head) return UVHTTP_E_AGAIN;
    uint32_t word = uvhttp__http2_get32(head), size = word >> 8, cost = size + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    http2->frame_type = (uint8_t)word;
    http2->frame_flags = (uint8_t)head[4];
    http2->frame_stream_id = uvhttp__http2_get32(head + 5) & UVHTTP__HTTP2_STREAM_ID_MAX;
    http2->frames_left--;
    http2->bytes_left -= http2->bytes_left < cost ? http2->bytes_left : cost;
    return begin_frame(http2, in, size, event);
}

static int step(uvhttp__http2_t *http2, input_t *in, uvhttp__http2_event_t *event) {
    switch (http2->read_state) {
        case HEAD: return read_head(http2, in, event);
        case PREFACE: return read_preface(http2, in);
        case PADDING_LENGTH: return read_padding_length(http2, in, event);
        case PAYLOAD: return continue_payload(http2, in, event);
        case BODY: return read_body(http2, in, event);
        default: return skip(http2, in);
    }
}

static NOINLINE int read_any(uvhttp__http2_t *http2, const char *data, size_t size, size_t *consumed,
                             uvhttp__http2_event_t *event) {
    input_t in = {data, data + size};
    int status = UVHTTP__HTTP2_CONTINUE;
    *consumed = 0;
    while (status == UVHTTP__HTTP2_CONTINUE)
        status = LIKELY(http2->phase != UVHTTP__HTTP2_FAILED) ? step(http2, &in, event) : http2->failure;
    *consumed = (size_t)(in.at - data);
    return status;
}

/* Whether a frame head may come next, and open the stream behind the last one. */
static inline bool expects_request(const uvhttp__http2_t *http2) {
    return http2->read_state == HEAD && http2->head_size == 0 && http2->settings_received &&
           http2->phase < UVHTTP__HTTP2_CLOSED && http2->block_stream_id == 0 && http2->requests_left > 0 &&
           http2->frames_left > 0 && http2->early_count == 0 && uvhttp__http2_has_slot(http2);
}

/* By itself, so that the checks before it need no registers of the caller. */
static UVHTTP__HOT NOINLINE int open_next(uvhttp__http2_t *http2, uint32_t id, bool end, uvhttp__http2_event_t *event) {
    http2->last_stream_id = id;
    event->type = UVHTTP__HTTP2_EVENT_HEADERS;
    event->end = end;
    event->stream = uvhttp__http2_take_slot(http2, id, end);
    uvhttp__http2_count_request(http2);
    return UVHTTP_OK;
}

/* A complete HEADERS frame that opens the next stream, where only its block can be wrong, is read immediately. */
UVHTTP__HOT int uvhttp__http2_read(uvhttp__http2_t *http2, const char *data, size_t size, size_t *consumed,
                                   uvhttp__http2_event_t *event) {
    const unsigned shape = UVHTTP__HTTP2_FLAG_END_HEADERS | UVHTTP__HTTP2_FLAG_PADDED | UVHTTP__HTTP2_FLAG_PRIORITY;
    if (UNLIKELY(size < UVHTTP__HTTP2_FRAME_HEAD_SIZE || !expects_request(http2))) goto any;
    uint32_t word = uvhttp__http2_get32(data), block_size = word >> 8,
             cost = block_size + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    uint32_t id = uvhttp__http2_get32(data + 5) & UVHTTP__HTTP2_STREAM_ID_MAX;
    uint8_t flags = (uint8_t)data[4];
    if (UNLIKELY((uint8_t)word != UVHTTP__HTTP2_HEADERS || (flags & shape) != UVHTTP__HTTP2_FLAG_END_HEADERS)) goto any;
    if (UNLIKELY(id != http2->last_stream_id + 2 || (id & 1) == 0 || (id >> 1) % UVHTTP__HTTP2_HISTORY_PER_WORD == 0))
        goto any;
    if (UNLIKELY(cost > size || cost >= http2->bytes_left)) goto any;
    if (UNLIKELY(block_size > UVHTTP__HTTP2_FRAME_SIZE_MAX || block_size > http2->limits->header_block_size_max))
        goto any;
    http2->frames_left--;
    http2->bytes_left -= cost;
    *consumed = cost;
    event->data = (uvhttp_str_t){data + UVHTTP__HTTP2_FRAME_HEAD_SIZE, block_size};
    return open_next(http2, id, flags & UVHTTP__HTTP2_FLAG_END_STREAM, event);
any:
    return read_any(http2, data, size, consumed, event);
}

bool uvhttp__http2_in_frame(const uvhttp__http2_t *http2) {
    return http2->read_state != HEAD || http2->head_size > 0 || http2->block_stream_id != 0;
}
