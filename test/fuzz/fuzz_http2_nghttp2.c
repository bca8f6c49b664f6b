/* Owns: differential fuzzing of the HTTP/2 core against a server session of libnghttp2 (libFuzzer). Both get the same
 * frames, one at a time; then what they received, what they sent and their windows must agree, but for the differences
 * in http2_differences.h. Input: a byte that says what the application does, frames behind preface and SETTINGS. */
#include <nghttp2/nghttp2.h>
#include <sys/types.h>

#include "http2_differences.h"
#include "http2_mutate.h"
#include "http2_ours.h"

enum { SENT_MAX = 1 << 20 };

/* --- theirs --- */

typedef struct theirs {
    side_t side;
    nghttp2_session *session;
    uint8_t rules;
    bool failed;      /* an error without GOAWAY */
    bool underscored; /* the last block has a name that frames a message where '_' is '-' */
    uint64_t hash, method, path;
} theirs_t;

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    (void)session, (void)frame;
    theirs_t *theirs = user;
    theirs->hash = theirs->method = theirs->path = 0;
    theirs->underscored = false;
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t value_size, uint8_t flags, void *user) {
    (void)session, (void)frame, (void)flags;
    theirs_t *theirs = user;
    uvhttp_str_t text = {(const char *)name, name_size};
    if (!has_messaging(theirs->rules) || is_compared(text))
        theirs->hash = log_hash_field(theirs->hash, name, name_size, value, value_size);
    if (uvhttp__str_equal(text, UVHTTP__STR(":method"))) theirs->method = log_hash(0, value, value_size);
    if (uvhttp__str_equal(text, UVHTTP__STR(":path"))) theirs->path = log_hash(0, value, value_size);
    theirs->underscored |= uvhttp__str_equal(text, UVHTTP__STR("content_length")) ||
                           uvhttp__str_equal(text, UVHTTP__STR("transfer_encoding"));
    return 0;
}

/* A field that libnghttp2 would leave out: RFC 9113 section 8.2.1 calls the request malformed. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                             size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags, void *user) {
    (void)session, (void)frame, (void)name, (void)name_size, (void)value, (void)value_size, (void)flags, (void)user;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t size, void *user) {
    (void)flags;
    theirs_t *theirs = user;
    log_entry_t *body = size > 0 ? log_one(&theirs->side.log, LOG_BODY, (uint32_t)id) : NULL;
    if (body) body->value = log_hash(body->value, data, size);
    return nghttp2_session_consume(session, id, size);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    theirs_t *theirs = user;
    event_log_t *log = &theirs->side.log;
    uint32_t id = (uint32_t)frame->hd.stream_id;
    bool trailers = frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat != NGHTTP2_HCAT_REQUEST;
    if (frame->hd.type == NGHTTP2_HEADERS && !(trailers && has_messaging(theirs->rules)))
        log_add(log, LOG_FIELDS, id, theirs->hash);
    if (frame->hd.type == NGHTTP2_HEADERS && !trailers) {
        ids_add(&theirs->side.begun, id);
        if (has_messaging(theirs->rules)) log_add(log, LOG_METHOD, id, theirs->method);
        if (has_messaging(theirs->rules) && theirs->path) log_add(log, LOG_PATH, id, theirs->path);
    }
    if (frame->hd.type <= NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        log_add(log, LOG_END, id, 0);
        ids_add(&theirs->side.ended, id);
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM && nghttp2_session_get_stream_local_close(session, (int32_t)id) >= 0)
        log_add(log, LOG_PEER_RESET, id, frame->rst_stream.error_code);
    if (frame->hd.type == NGHTTP2_GOAWAY) log_add(log, LOG_PEER_GOAWAY, 0, frame->goaway.error_code);
    return 0;
}

/* What is left of a body is the user data of its stream. */
static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t capacity, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    (void)source, (void)user;
    size_t left = (size_t)(uintptr_t)nghttp2_session_get_stream_user_data(session, id),
           size = left < capacity ? left : capacity;
    memset(out, 0, size);
    nghttp2_session_set_stream_user_data(session, id, (void *)(uintptr_t)(left - size));
    if (left == size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)size;
}

static void theirs_flush(theirs_t *theirs) {
    static char sent[SENT_MAX];
    size_t size = 0;
    for (;;) {
        const uint8_t *data;
        ssize_t piece = nghttp2_session_mem_send(theirs->session, &data);
        if (piece < 0) theirs->failed = true;
        if (piece <= 0) break;
        if (size + (size_t)piece > sizeof sent) abort();
        memcpy(sent + size, data, (size_t)piece);
        size += (size_t)piece;
    }
    log_sent(&theirs->side.log, sent, size);
}

static bool theirs_respond(theirs_t *theirs, uint32_t id, bool body) {
    static uint8_t name[] = ":status", value[] = "200";
    nghttp2_nv field = {name, value, 7, 3, 0};
    nghttp2_data_provider provider = {.read_callback = read_body};
    if (nghttp2_session_get_stream_local_close(theirs->session, (int32_t)id) != 0) return false;
    nghttp2_session_set_stream_user_data(theirs->session, (int32_t)id, (void *)(uintptr_t)BODY_SIZE);
    return nghttp2_submit_response(theirs->session, (int32_t)id, &field, 1, body ? &provider : NULL) == 0;
}

static void theirs_act(theirs_t *theirs) {
    theirs_flush(theirs); /* what a stream error has closed gets no response */
    for (unsigned i = 0; i < theirs->side.begun.count; ++i) {
        uint32_t id = theirs->side.begun.ids[i];
        if (behaviour_of(theirs->rules, id) != RESPONDS_EARLY || !theirs_respond(theirs, id, false)) continue;
        theirs_flush(theirs);
        if (nghttp2_session_get_stream_remote_close(theirs->session, (int32_t)id) == 0)
            nghttp2_submit_rst_stream(theirs->session, 0, (int32_t)id, NGHTTP2_NO_ERROR);
    }
    for (unsigned i = 0; i < theirs->side.ended.count; ++i) {
        behaviour_t behaviour = behaviour_of(theirs->rules, theirs->side.ended.ids[i]);
        if (behaviour != NEVER_RESPONDS && behaviour != RESPONDS_EARLY)
            (void)theirs_respond(theirs, theirs->side.ended.ids[i], behaviour == RESPONDS_WITH_BODY);
    }
    theirs->side.begun.count = theirs->side.ended.count = 0;
    theirs_flush(theirs);
}

static void theirs_step(theirs_t *theirs, const char *data, size_t size) {
    ssize_t code = nghttp2_session_mem_recv(theirs->session, (const uint8_t *)data, size);
    if (code < 0) theirs->failed = true;
    theirs_act(theirs);
}

static void theirs_callbacks(nghttp2_session_callbacks *callbacks) {
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
}

static void theirs_settings(theirs_t *theirs, const uvhttp__http2_limits_t *limits) {
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, limits->header_list_size_max},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    nghttp2_submit_settings(theirs->session, 0, entries, sizeof entries / sizeof *entries);
    nghttp2_session_set_local_window_size(theirs->session, 0, 0, (int32_t)limits->connection_window);
    theirs_flush(theirs);
}

static void theirs_init(theirs_t *theirs, uint8_t rules, const uvhttp__http2_limits_t *limits) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    memset(&theirs->side, 0, sizeof theirs->side);
    theirs->rules = rules;
    theirs->failed = false;
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0) abort();
    theirs_callbacks(callbacks);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_http_messaging(option, !has_messaging(rules));
    nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    nghttp2_option_set_stream_reset_rate_limit(option, 1 << 30, 1 << 30);
    if (nghttp2_session_server_new2(&theirs->session, callbacks, theirs, option) != 0) abort();
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    theirs_settings(theirs, limits);
}

/* --- both --- */

typedef struct pair {
    ours_t ours;
    theirs_t theirs;
    bool self_dependent; /* the frames since the last comparison */
} pair_t;

static void die(pair_t *both, const char *frame, size_t size, const char *what) {
    fprintf(stderr, "fuzz_http2_nghttp2: %s; rules %x, head code %d, frame:", what, both->ours.rules,
            both->ours.head_code);
    for (size_t i = 0; i < size && i < 100; ++i) fprintf(stderr, " %02x", (uint8_t)frame[i]);
    fprintf(stderr, "\n");
    log_print("ours", &both->ours.side.log);
    log_print("theirs", &both->theirs.side.log);
    abort();
}

typedef struct window_check {
    pair_t *both;
    const char *wrong;
} window_check_t;

static void check_stream(uvhttp__http2_stream_t *stream, void *arg) {
    window_check_t *check = arg;
    nghttp2_session *session = check->both->theirs.session;
    int32_t id = (int32_t)stream->id;
    if (stream->flags & UVHTTP__HTTP2_RESET) return;
    if (nghttp2_session_get_stream_local_close(session, id) < 0)
        check->wrong = "a stream is only ours";
    else if (!(stream->flags & UVHTTP__HTTP2_REMOTE_ENDED) &&
             stream->receive_window != nghttp2_session_get_stream_local_window_size(session, id))
        check->wrong = "a stream's receive windows differ";
    else if (!(stream->flags & UVHTTP__HTTP2_LOCAL_ENDED) &&
             (stream->send_window > 0 ? stream->send_window : 0) !=
                 nghttp2_session_get_stream_remote_window_size(session, id))
        check->wrong = "a stream's send windows differ";
}

static const char *check_state(pair_t *both) {
    uvhttp__http2_t *http2 = &both->ours.http2;
    window_check_t check = {both, NULL};
    if (http2->send_window != nghttp2_session_get_remote_window_size(both->theirs.session))
        return "send windows differ";
    if (http2->receive_window != nghttp2_session_get_local_window_size(both->theirs.session))
        return "receive windows differ";
    if (both->ours.decoder.table.size != nghttp2_session_get_hd_inflate_dynamic_table_size(both->theirs.session))
        return "tables differ";
    uvhttp__http2_each_stream(http2, check_stream, &check);
    return check.wrong;
}

static bool is_self_dependent(const char *frame, size_t size) {
    size_t at = UVHTTP__HTTP2_FRAME_HEAD_SIZE;
    if (size < at + 5) return false;
    bool headers = frame[3] == UVHTTP__HTTP2_HEADERS && frame[4] & UVHTTP__HTTP2_FLAG_PRIORITY;
    if (headers && frame[4] & UVHTTP__HTTP2_FLAG_PADDED) at++;
    if (!headers && frame[3] != UVHTTP__HTTP2_PRIORITY_FRAME) return false;
    return size >= at + 4 && !((uvhttp__http2_get32(frame + at) ^ uvhttp__http2_get32(frame + 5)) << 1);
}

/* False: they differ from here on, or have ended. */
static bool compare(pair_t *both, const char *frame, size_t size) {
    event_log_t *ours = &both->ours.side.log, *theirs = &both->theirs.side.log;
    both->self_dependent |= is_self_dependent(frame, size);
    if (both->ours.http2.block_stream_id) return true; /* what a block means is known at its end */
    difference_t difference = {.ours = ours,
                               .theirs = theirs,
                               .block = both->ours.block,
                               .block_size = both->ours.block_size,
                               .head_code = both->ours.head_code,
                               .self_dependent = both->self_dependent,
                               .underscored = both->theirs.underscored,
                               .messaging = has_messaging(both->ours.rules)};
    read_frame(&difference, frame, size);
    verdict_t verdict = explain_difference(&difference);
    if (verdict == ENDS || both->ours.unlike) return false;
    const char *wrong = verdict == UNEXPLAINED ? "logs differ" : log_goaway(ours) < 0 ? check_state(both) : NULL;
    if (wrong) die(both, frame, size, wrong);
    /* Behind a GOAWAY of the client libnghttp2 may want nothing more while ours still has streams. */
    bool goes_on = log_goaway(ours) < 0 && !both->theirs.failed && !uvhttp__http2_done(&both->ours.http2) &&
                   nghttp2_session_want_read(both->theirs.session);
    ours->count = theirs->count = 0;
    both->ours.block_size = 0;
    both->self_dependent = false;
    both->ours.head_code = 0;
    return goes_on;
}

static bool feed(pair_t *both, const char *frame, size_t size, size_t frame_size) {
    ours_step(&both->ours, frame, size);
    theirs_step(&both->theirs, frame, size);
    return compare(both, frame, frame_size);
}

static bool feed_start(pair_t *both, bool acked) {
    static const char start[] = UVHTTP__HTTP2_PREFACE "\0\0\0\4\0\0\0\0";
    static const char ack[] = "\0\0\0\4\1\0\0\0";
    return feed(both, start, sizeof start, 0) && (!acked || feed(both, ack, sizeof ack, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    static pair_t both;
    if (input_size < 1) return 0;
    both.self_dependent = false;
    ours_init(&both.ours, input[0]);
    theirs_init(&both.theirs, input[0], &both.ours.limits);
    ours_flush(&both.ours);
    both.ours.side.log.count = both.theirs.side.log.count = 0;
    bool goes_on = feed_start(&both, has_small_windows(input[0]));
    for (size_t at = 1, size; goes_on && at < input_size; at += size) {
        size = mutate_frame_size(input + at, input_size - at);
        if (!mutate_is_whole(input + at, size) || mutate_is_last_number(input + at, size)) break;
        size_t frame_size = size;
        char *frame = mutate_copy_frame(input + at, &frame_size);
        goes_on = feed(&both, frame, frame_size, frame_size);
        free(frame);
    }
    ours_deinit(&both.ours);
    nghttp2_session_del(both.theirs.session);
    return 0;
}
