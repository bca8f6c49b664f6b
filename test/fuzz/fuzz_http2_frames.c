/* Owns: fuzzing of the HTTP/2 core (libFuzzer). Every input is fed whole and byte by byte; events, control frames and
 * the end must agree, and the connection must get its whole window back. Input: a byte that says what owners of streams
 * do, then what follows an empty SETTINGS frame. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http2/http2_internal.h"

typedef struct outcome {
    uint64_t hash; /* of the events, but for the cuts of DATA, and of the bytes in them */
    size_t control_size;
    int code;
    size_t consumed;
} outcome_t;

static void die(const char *what) {
    fprintf(stderr, "fuzz_http2_frames: %s\n", what);
    abort();
}

static void mix(outcome_t *out, const char *data, size_t size) {
    for (size_t i = 0; i < size; i++) out->hash = (out->hash ^ (uint8_t)data[i]) * 0x100000001b3u;
}
static void mix_number(outcome_t *out, uint64_t number) {
    mix(out, (const char *)&number, sizeof number);
}

static void take_control(uvhttp__http2_t *http2, outcome_t *out) {
    uvhttp__http2_return_due_credit(http2);
    out->control_size += uvhttp__http2_control(http2).size;
    uvhttp__http2_control_consumed(http2);
}

/* Bits of `rules` and of the stream's number decide, so that the cuts do not. */
static void own(uvhttp__http2_t *http2, const uvhttp__http2_event_t *event, uint8_t rules) {
    uvhttp__http2_stream_t *stream = event->stream;
    unsigned kind = rules >> (stream->id >> 1 & 3) * 2 & 3;
    char frame[32];
    if (event->type == UVHTTP__HTTP2_EVENT_DATA && kind != 3) uvhttp__http2_consume(http2, stream, event->data.size);
    if (event->type == UVHTTP__HTTP2_EVENT_RESET) {
        uvhttp__http2_release(http2, stream);
    } else if (event->end || (kind == 2 && event->type == UVHTTP__HTTP2_EVENT_HEADERS)) {
        (void)uvhttp__http2_write_headers(http2, stream, frame, 4, kind == 1);
        if (kind != 1) uvhttp__http2_want(http2, stream, true);
        if (kind == 1) uvhttp__http2_release(http2, stream);
    }
}

static void send_bodies(uvhttp__http2_t *http2, outcome_t *out) {
    uvhttp__http2_stream_t *stream;
    char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE];
    for (uint32_t size; (stream = uvhttp__http2_next(http2, &size));) {
        if (size == 0 || !uvhttp__http2_writable(stream)) die("a stream that cannot send is next");
        bool end = size > 5;
        uvhttp__http2_write_data(http2, stream, head, end ? 5 : size, end);
        mix(out, head, sizeof head);
        if (end) uvhttp__http2_release(http2, stream);
    }
}

static void read_piece(uvhttp__http2_t *http2, const char *data, size_t size, uint8_t rules, outcome_t *out) {
    size_t consumed;
    for (size_t at = 0;; at += consumed) {
        uvhttp__http2_event_t event;
        uvhttp__http2_begin_iteration(http2, 0);
        out->code = uvhttp__http2_read(http2, data + at, size - at, &consumed, &event);
        out->consumed += consumed;
        if (consumed > size - at) die("more consumed than there is");
        if (out->code == UVHTTP_E_AGAIN && at + consumed != size) die("more wanted, and not all consumed");
        if (out->code != UVHTTP_OK) break;
        bool is_cut = event.type == UVHTTP__HTTP2_EVENT_DATA && !event.end;
        if (event.data.size > 0) mix(out, event.data.data, event.data.size);
        bool has_error = event.type == UVHTTP__HTTP2_EVENT_RESET || event.type == UVHTTP__HTTP2_EVENT_GOAWAY;
        if (!is_cut) mix_number(out, (has_error ? (uint64_t)event.error << 8 : 0) | event.type);
        if (event.stream) own(http2, &event, rules);
        take_control(http2, out);
        if (!is_cut) send_bodies(http2, out);
    }
    take_control(http2, out);
}

static void release(uvhttp__http2_stream_t *stream, void *http2) {
    uvhttp__http2_release(http2, stream);
}

static void run(const char *data, size_t size, size_t step, uint8_t rules, outcome_t *out) {
    static const char start[] = UVHTTP__HTTP2_PREFACE "\0\0\0\4\0\0\0\0";
    uvhttp__http2_t http2;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_counters_t counters = {0};
    uvhttp__http2_limits_default(&limits);
    *out = (outcome_t){.hash = 0xcbf29ce484222325u, .code = UVHTTP_E_AGAIN};
    if (uvhttp__http2_init(&http2, &limits, &counters, 0) != UVHTTP_OK) return;
    read_piece(&http2, start, sizeof start, rules, out);
    for (size_t at = 0; at < size && out->code == UVHTTP_E_AGAIN; at += step) {
        size_t piece = size - at < step ? size - at : step;
        char *copy = malloc(piece);
        if (!copy) abort();
        memcpy(copy, data + at, piece);
        read_piece(&http2, copy, piece, rules, out);
        free(copy);
    }
    uvhttp__http2_each_stream(&http2, release, &http2);
    if (http2.stream_count > 0) die("streams are left");
    if (http2.phase != UVHTTP__HTTP2_FAILED && http2.read_state == 1 &&
        http2.receive_window + (int64_t)http2.consumed != limits.connection_window)
        die("credit of the connection is lost");
    uvhttp__http2_deinit(&http2);
    if (http2.memory != 0) die("memory is not balanced");
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_size) {
    if (input_size < 1) return 0;
    const char *data = (const char *)input + 1;
    outcome_t whole, bytes;
    run(data, input_size - 1, input_size, input[0], &whole);
    run(data, input_size - 1, 1, input[0], &bytes);
    if (whole.code != bytes.code) die("codes differ");
    if (whole.consumed != bytes.consumed && whole.code == UVHTTP_E_AGAIN) die("consumed sizes differ");
    if (whole.hash != bytes.hash) die("events differ");
    if (whole.control_size != bytes.control_size) die("control frames differ");
    return 0;
}
