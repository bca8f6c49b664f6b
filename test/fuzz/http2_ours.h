/* Owns: our HTTP/2 core with a small application, which writes a log of what it has made of each frame, so that another
 * server can be compared with it. Header only: fuzzing and the program frame_sequences use it. */
#ifndef UVHTTP_TEST_FUZZ_HTTP2_OURS_H
#define UVHTTP_TEST_FUZZ_HTTP2_OURS_H

#include "base/str.h"
#include "http2/head.h"
#include "http2_log.h"

enum { LIST_MAX = 1 << 17, BODY_SIZE = 1000, IDS_MAX = 64, HEADERS_MAX = 1024 };

/* What the application does with a stream. */
typedef enum behaviour { RESPONDS_WITH_HEAD, NEVER_RESPONDS, RESPONDS_EARLY, RESPONDS_WITH_BODY } behaviour_t;

static behaviour_t behaviour_of(uint8_t rules, uint32_t id) {
    return (behaviour_t)(rules >> (id >> 1) % 3 * 2 & 3);
}
/* Windows are so small that credit has to go back, and the client knows them from the start. */
static bool has_small_windows(uint8_t rules) {
    return rules & 0x40;
}
/* Requests have to be well-formed (RFC 9113 section 8), or header lists only. */
static bool has_messaging(uint8_t rules) {
    return rules & 0x80;
}

/* Streams whose request has begun or ended with this frame. */
typedef struct ids {
    unsigned count;
    uint32_t ids[IDS_MAX];
} ids_t;

static void ids_add(ids_t *ids, uint32_t id) {
    if (ids->count == IDS_MAX) abort();
    ids->ids[ids->count++] = id;
}

typedef struct side {
    event_log_t log;
    ids_t begun, ended;
} side_t;

/* What of a list can be compared: both keep order and bytes of these. */
static bool is_compared(uvhttp_str_t name) {
    return !(name.size > 0 && name.data[0] == ':') && !uvhttp__str_equal(name, UVHTTP__STR("cookie")) &&
           !uvhttp__str_equal(name, UVHTTP__STR("host"));
}

typedef struct ours {
    side_t side;
    uvhttp__http2_t http2;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_counters_t counters;
    uvhttp__hpack_decoder_t decoder;
    uint8_t rules;
    int head_code; /* why the last head was refused; 0: it was not */
    size_t block_size;
    char block[1 << 16]; /* the last header block */
    bool unlike;         /* a limit of ours was reached that the other has not */
} ours_t;

static char scratch[2 * (LIST_MAX + UVHTTP__HPACK_TABLE_SIZE_MAX + UVHTTP__HPACK_SLACK)];
static const uvhttp__http2_head_limits_t head_limits = {LIST_MAX, LIST_MAX, HEADERS_MAX, false};

static int ours_raw_fields(ours_t *ours, uvhttp_str_t block, uint32_t id) {
    uvhttp__hpack_reader_t reader;
    uvhttp__hpack_field_t field;
    uint64_t hash = 0;
    int code = uvhttp__hpack_read(&reader, &ours->decoder, block.data, block.size, scratch, LIST_MAX);
    while (code == 0 && (code = uvhttp__hpack_read_next(&reader, &field)) == 0)
        hash = log_hash_field(hash, field.text, field.name_size, field.text + field.name_size, field.value_size);
    if (code != UVHTTP_E_EOF) return code;
    log_add(&ours->side.log, LOG_FIELDS, id, hash);
    return 0;
}

static void ours_log_head(ours_t *ours, const uvhttp__head_t *head, uint32_t id) {
    uint64_t hash = 0;
    uvhttp_str_t method = uvhttp__span_str(scratch, head->method_text), path = uvhttp__span_str(scratch, head->target);
    for (uint32_t i = 0; i < head->header_count; ++i) {
        uvhttp_str_t name = uvhttp__span_str(scratch, head->headers[i].name),
                     value = uvhttp__span_str(scratch, head->headers[i].value);
        if (is_compared(name)) hash = log_hash_field(hash, name.data, name.size, value.data, value.size);
    }
    log_add(&ours->side.log, LOG_FIELDS, id, hash);
    log_add(&ours->side.log, LOG_METHOD, id, log_hash(0, method.data, method.size));
    if (!uvhttp__str_equal(method, UVHTTP__STR("CONNECT")))
        log_add(&ours->side.log, LOG_PATH, id, log_hash(0, path.data, path.size));
}

static int ours_request(ours_t *ours, const uvhttp__http2_event_t *event) {
    static uvhttp__field_t fields[HEADERS_MAX];
    uvhttp__head_t head = {.headers = fields};
    uvhttp__http2_request_t request;
    if (!has_messaging(ours->rules)) return ours_raw_fields(ours, event->data, event->stream->id);
    int code = uvhttp__http2_read_request(&ours->decoder, event->data.data, event->data.size, &head_limits, scratch,
                                          &head, &request);
    if (code == 0 && head.has_content_length)
        code = uvhttp__http2_set_content_length(&ours->http2, event->stream, head.content_length) == 0
                   ? 0
                   : UVHTTP_E_HTTP2_CONTENT_LENGTH;
    if (code == 0) ours_log_head(ours, &head, event->stream->id);
    return code;
}

static int ours_trailers(ours_t *ours, const uvhttp__http2_event_t *event) {
    uvhttp_str_t text;
    if (!has_messaging(ours->rules)) return ours_raw_fields(ours, event->data, event->stream->id);
    int code =
        uvhttp__http2_read_trailer(&ours->decoder, event->data.data, event->data.size, &head_limits, scratch, &text);
    return code;
}

/* As the protocol's layer does. False: the connection has failed. */
static bool ours_block(ours_t *ours, const uvhttp__http2_event_t *event) {
    ours->block_size = event->data.size;
    memcpy(ours->block, event->data.data, event->data.size);
    int code = event->type == UVHTTP__HTTP2_EVENT_HEADERS ? ours_request(ours, event)
               : event->type == UVHTTP__HTTP2_EVENT_TRAILERS
                   ? ours_trailers(ours, event)
                   : uvhttp__http2_skip_block(&ours->decoder, event->data.data, event->data.size, scratch);
    if (code == 0) return true;
    ours->head_code = code;
    if (uvhttp__http2_scope(code) == UVHTTP__HTTP2_SCOPE_CONNECTION) {
        (void)uvhttp__http2_fail(&ours->http2, UVHTTP__HTTP2_COMPRESSION_ERROR);
        return false;
    }
    if (uvhttp__http2_scope(code) == UVHTTP__HTTP2_SCOPE_RESPONSE) ours->unlike = true;
    uvhttp__http2_reset(&ours->http2, event->stream, UVHTTP__HTTP2_PROTOCOL_ERROR);
    uvhttp__http2_release(&ours->http2, event->stream);
    return true;
}

static void ours_end(ours_t *ours, uint32_t id) {
    log_add(&ours->side.log, LOG_END, id, 0);
    ids_add(&ours->side.ended, id);
}

static void ours_event(ours_t *ours, const uvhttp__http2_event_t *event) {
    uvhttp__http2_stream_t *stream = event->stream;
    uint32_t id = stream ? stream->id : 0;
    event_log_t *log = &ours->side.log;
    bool block = event->type != UVHTTP__HTTP2_EVENT_DATA && event->data.data != NULL;
    if (block && !ours_block(ours, event)) return;
    if (event->type == UVHTTP__HTTP2_EVENT_DATA) {
        log_entry_t *body = event->data.size > 0 ? log_one(log, LOG_BODY, id) : NULL;
        if (body) body->value = log_hash(body->value, event->data.data, event->data.size);
        uvhttp__http2_consume(&ours->http2, stream, event->data.size);
    } else if (event->type == UVHTTP__HTTP2_EVENT_RESET) {
        if (event->by_peer) log_add(log, LOG_PEER_RESET, id, event->error);
        uvhttp__http2_release(&ours->http2, stream);
        return;
    } else if (event->type == UVHTTP__HTTP2_EVENT_GOAWAY) {
        log_add(log, LOG_PEER_GOAWAY, 0, event->error);
    }
    if (!stream || !uvhttp__http2_find(&ours->http2, id)) return;
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS) ids_add(&ours->side.begun, id);
    if (event->end) ours_end(ours, id);
}

static void ours_flush(ours_t *ours) {
    uvhttp__http2_return_due_credit(&ours->http2);
    uvhttp_str_t control = uvhttp__http2_control(&ours->http2);
    log_sent(&ours->side.log, control.data, control.size);
    uvhttp__http2_control_consumed(&ours->http2);
}

static void ours_respond(ours_t *ours, uint32_t id, bool body) {
    char frame[32];
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(&ours->http2, id);
    if (!stream || !uvhttp__http2_writable(stream)) return;
    size_t size = uvhttp__http2_write_headers(&ours->http2, stream, frame, 1, !body);
    log_sent(&ours->side.log, frame, size);
    stream->user = (void *)(uintptr_t)BODY_SIZE;
    if (body)
        uvhttp__http2_want(&ours->http2, stream, true);
    else
        uvhttp__http2_release(&ours->http2, stream);
}

static void ours_send_bodies(ours_t *ours) {
    uvhttp__http2_stream_t *stream;
    for (uint32_t size; (stream = uvhttp__http2_next(&ours->http2, &size));) {
        char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE + BODY_SIZE];
        uint32_t left = (uint32_t)(uintptr_t)stream->user;
        if (size > left) size = left;
        left -= size;
        uvhttp__http2_write_data(&ours->http2, stream, head, size, left == 0);
        log_sent_frame(&ours->side.log, head, size);
        stream->user = (void *)(uintptr_t)left;
        if (left == 0) uvhttp__http2_release(&ours->http2, stream);
    }
}

static void ours_act(ours_t *ours) {
    for (unsigned i = 0; i < ours->side.begun.count; ++i)
        if (behaviour_of(ours->rules, ours->side.begun.ids[i]) == RESPONDS_EARLY)
            ours_respond(ours, ours->side.begun.ids[i], false);
    for (unsigned i = 0; i < ours->side.ended.count; ++i) {
        behaviour_t behaviour = behaviour_of(ours->rules, ours->side.ended.ids[i]);
        if (behaviour != NEVER_RESPONDS) ours_respond(ours, ours->side.ended.ids[i], behaviour == RESPONDS_WITH_BODY);
    }
    ours->side.begun.count = ours->side.ended.count = 0;
    ours_send_bodies(ours);
}

static void ours_step(ours_t *ours, const char *data, size_t size) {
    for (;;) {
        uvhttp__http2_event_t event;
        size_t consumed;
        uvhttp__http2_begin_iteration(&ours->http2, 0);
        int code = uvhttp__http2_read(&ours->http2, data, size, &consumed, &event);
        if (code != UVHTTP_OK) break;
        data += consumed;
        size -= consumed;
        ours_event(ours, &event);
    }
    if (ours->http2.phase != UVHTTP__HTTP2_FAILED) ours_act(ours);
    ours_flush(ours);
}

static void ours_init(ours_t *ours, uint8_t rules) {
    ours->side = (side_t){0};
    ours->rules = rules;
    ours->head_code = 0;
    ours->unlike = false;
    ours->block_size = 0;
    ours->counters = (uvhttp__http2_counters_t){0};
    uvhttp__http2_limits_default(&ours->limits);
    ours->limits.control_frames_max = ours->limits.resets_max = UINT32_MAX;
    ours->limits.control_size_max = 1 << 18;
    if (has_small_windows(rules)) {
        ours->limits.connection_window = UVHTTP__HTTP2_WINDOW_DEFAULT;
        ours->limits.stream_window = 16000;
    }
    ours->limits.stream_credit_steps = 2; /* the others return all credit by halves */
    ours->limits.connection_credit_min = UINT32_MAX;
    ours->limits.header_list_size_max = LIST_MAX;
    uvhttp__hpack_decoder_init(&ours->decoder);
    if (uvhttp__http2_init(&ours->http2, &ours->limits, &ours->counters, 0) != UVHTTP_OK) abort();
}

static void ours_release(uvhttp__http2_stream_t *stream, void *http2) {
    uvhttp__http2_release(http2, stream);
}

static void ours_deinit(ours_t *ours) {
    uvhttp__http2_each_stream(&ours->http2, ours_release, &ours->http2);
    uvhttp__http2_deinit(&ours->http2);
    uvhttp__hpack_decoder_deinit(&ours->decoder);
}

#endif
