/* Owns: exhaustive checks of flow control (RFC 9113 section 5.2, 6.9): all sequences of five steps, against a model
 * that counts in 64 bits.
 *
 * What windows do depends on their sums only, and these are checked after each step. The alphabet has, for each window,
 * the smallest step, the one that just fits and the one that is a byte too large; five of them are enough for each pair
 * of causes (a setting that goes down and up, credit, an end of a stream) between a use and the next. The state of the
 * core is copied and put back, so that each step is executed once for each sequence that leads to it. */
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http2/http2_internal.h"
#include "support/run.h"

enum { DEPTH = 5, STREAMS = 2, HEAD = UVHTTP__HTTP2_FRAME_HEAD_SIZE, FRAME_MAX = UVHTTP__HTTP2_FRAME_SIZE_MAX };
#define WINDOW_MAX INT64_C(0x7fffffff)

typedef struct stream {
    bool there, reset, local_ended, remote_ended;
    int64_t send, receive; /* receive: what the peer knows that it may send */
    int64_t held;          /* of what came, not consumed */
} stream_t;

/* What the peer knows, and what has happened. */
typedef struct model {
    int64_t send, receive, initial;
    bool acked;
    stream_t streams[STREAMS];
} model_t;

/* All that a step changes: put back as it was for the next one. */
typedef struct live {
    uvhttp__http2_t http2;
    model_t model;
} live_t;

static live_t live;
static uvhttp__http2_limits_t limits;
static uvhttp__http2_counters_t counters;
static char wire[HEAD + FRAME_MAX];
static uint64_t steps_done, failures, resets;

/* --- the peer --- */

static uint32_t id_of(unsigned i) {
    return 2 * i + 1;
}

static uvhttp__http2_stream_t *core_stream(unsigned i) {
    return uvhttp__http2_find(&live.http2, id_of(i));
}

/* What the server has sent: credit, and the code of a RST_STREAM, or 0. */
static uint32_t hear(void) {
    uvhttp__http2_return_due_credit(&live.http2);
    uvhttp_str_t control = uvhttp__http2_control(&live.http2);
    uint32_t error = 0;
    for (size_t at = 0; at < control.size;) {
        const char *frame = control.data + at, *payload = frame + HEAD;
        uint32_t id = uvhttp__http2_get32(frame + 5);
        if (frame[3] == UVHTTP__HTTP2_RST_STREAM) error = uvhttp__http2_get32(payload);
        if (frame[3] == UVHTTP__HTTP2_WINDOW_UPDATE) {
            uint32_t more = uvhttp__http2_get32(payload);
            assert_in_range(more, 1, WINDOW_MAX);
            int64_t *window = id == 0 ? &live.model.receive : &live.model.streams[id / 2].receive;
            *window += more;
            assert_true(*window <= WINDOW_MAX);
        }
        at += HEAD + (uvhttp__http2_get32(frame) >> 8);
    }
    uvhttp__http2_control_consumed(&live.http2);
    return error;
}

/* Feeds one frame, whose payload stands in `wire`. Returns what read returned in the end. */
static int feed(uint8_t type, uint8_t flags, uint32_t id, uint32_t size) {
    uvhttp__http2_put_head(wire, size, type, flags, id);
    uvhttp__http2_begin_iteration(&live.http2, 0);
    for (size_t at = 0;;) {
        uvhttp__http2_event_t event;
        size_t consumed;
        int code = uvhttp__http2_read(&live.http2, wire + at, HEAD + size - at, &consumed, &event);
        at += consumed;
        if (code == UVHTTP_OK && event.type == UVHTTP__HTTP2_EVENT_DATA)
            live.model.streams[event.stream->id / 2].held += (int64_t)event.data.size;
        if (code != UVHTTP_OK) {
            if (code == UVHTTP_E_AGAIN) assert_int_equal(at, HEAD + size);
            return code;
        }
    }
}

static int feed_number(uint8_t type, uint32_t id, int64_t number) {
    uvhttp__http2_put32(wire + HEAD, (uint32_t)number);
    return feed(type, 0, id, 4);
}

static void open_connection(uint32_t stream_window, uint32_t connection_window) {
    uvhttp__http2_limits_default(&limits);
    limits.stream_window = stream_window;
    limits.connection_window = connection_window;
    size_t consumed;
    uvhttp__http2_event_t event;
    assert_int_equal(uvhttp__http2_init(&live.http2, &limits, &counters, 0), UVHTTP_OK);
    live.model = (model_t){.send = 65535, .receive = 65535, .initial = 65535};
    assert_int_equal(
        uvhttp__http2_read(&live.http2, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE, &consumed, &event),
        UVHTTP_E_AGAIN);
    assert_int_equal(feed(UVHTTP__HTTP2_SETTINGS, 0, 0, 0), UVHTTP_E_AGAIN);
    for (unsigned i = 0; i < STREAMS; i++) {
        assert_int_equal(feed(UVHTTP__HTTP2_HEADERS, UVHTTP__HTTP2_FLAG_END_HEADERS, id_of(i), 4), UVHTTP_E_AGAIN);
        live.model.streams[i] = (stream_t){.there = true, .send = 65535, .receive = 65535};
    }
    assert_int_equal(hear(), 0);
}

static void close_connection(void) {
    uvhttp__http2_deinit(&live.http2);
    assert_int_equal(live.http2.memory, 0);
}

/* Takes each step of the alphabet from here, and continues from there. `step` returns false if nothing can follow. */
static void go_through(unsigned depth, unsigned alphabet, bool (*step)(unsigned which), void (*check)(void)) {
    if (depth == 0) return;
    const live_t before = live;
    for (unsigned which = 0; which < alphabet; which++) {
        steps_done++;
        bool more = step(which);
        /* What is on the heap was made before the first step, and nothing else is. */
        assert_ptr_equal(live.http2.control.data, before.http2.control.data);
        assert_int_equal(live.http2.memory, before.http2.memory);
        if (more) {
            check();
            go_through(depth - 1, alphabet, step, check);
        }
        live = before;
    }
}

static void run_all(unsigned alphabet, bool (*step)(unsigned which), void (*check)(void)) {
    steps_done = failures = resets = 0;
    check();
    go_through(DEPTH, alphabet, step, check);
    assert_true(steps_done > 100000 && resets > 100);
    close_connection();
}

/* --- what we send --- */

static bool may_send(const stream_t *stream) {
    return stream->there && !stream->reset && !stream->local_ended;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void check_sending(void) {
    const model_t *model = &live.model;
    bool any = false;
    uint32_t size;
    assert_true(live.http2.send_window == model->send && live.http2.peer_window == model->initial);
    for (unsigned i = 0; i < STREAMS; i++) {
        const stream_t *stream = &model->streams[i];
        const uvhttp__http2_stream_t *core = core_stream(i);
        assert_int_equal(uvhttp__http2_writable(core), may_send(stream));
        if (!may_send(stream)) continue;
        int64_t capacity = least(least(stream->send, model->send), UVHTTP__HTTP2_SLICE_SIZE);
        assert_true(core->send_window == stream->send);
        assert_int_equal(uvhttp__http2_capacity(&live.http2, core), capacity > 0 ? capacity : 0);
        any |= capacity > 0;
    }
    uvhttp__http2_stream_t *next = uvhttp__http2_next(&live.http2, &size);
    assert_int_equal(next != NULL, any);
    if (next) assert_true(size > 0 && may_send(&model->streams[next->id / 2]));
    if (next) assert_int_equal(size, uvhttp__http2_capacity(&live.http2, next));
}

static bool expect_failure(int code) {
    assert_int_equal(code, UVHTTP_E_HTTP2_FLOW_CONTROL);
    assert_int_equal(live.http2.phase, UVHTTP__HTTP2_FAILED);
    failures++;
    return false;
}

static bool open_connection_window(int64_t more) {
    if (more < 1 || more > WINDOW_MAX) return false; /* no frame can say that */
    int code = feed_number(UVHTTP__HTTP2_WINDOW_UPDATE, 0, more);
    if (live.model.send + more > WINDOW_MAX) return expect_failure(code);
    assert_int_equal(code, UVHTTP_E_AGAIN);
    live.model.send += more;
    assert_int_equal(hear(), 0);
    return true;
}

static bool open_stream_window(unsigned i, int64_t more) {
    stream_t *stream = &live.model.streams[i];
    if (more < 1 || more > WINDOW_MAX) return false;
    assert_int_equal(feed_number(UVHTTP__HTTP2_WINDOW_UPDATE, id_of(i), more), UVHTTP_E_AGAIN);
    uint32_t error = hear();
    if (stream->reset || stream->local_ended) {
        assert_int_equal(error, 0); /* nobody sends by it any more */
    } else if (stream->send + more > WINDOW_MAX) {
        assert_int_equal(error, UVHTTP__HTTP2_FLOW_CONTROL_ERROR);
        stream->reset = true;
        resets++;
    } else {
        assert_int_equal(error, 0);
        stream->send += more;
    }
    return true;
}

static bool set_initial(int64_t window) {
    model_t *model = &live.model;
    bool overflow = false;
    if (window < 0 || window > WINDOW_MAX) return false;
    wire[HEAD] = 0;
    wire[HEAD + 1] = 4; /* SETTINGS_INITIAL_WINDOW_SIZE */
    uvhttp__http2_put32(wire + HEAD + 2, (uint32_t)window);
    int code = feed(UVHTTP__HTTP2_SETTINGS, 0, 0, 6);
    for (unsigned i = 0; i < STREAMS; i++) {
        model->streams[i].send += window - model->initial;
        overflow |= may_send(&model->streams[i]) && model->streams[i].send > WINDOW_MAX;
    }
    model->initial = window;
    if (overflow) return expect_failure(code);
    assert_int_equal(code, UVHTTP_E_AGAIN);
    assert_int_equal(hear(), 0);
    return true;
}

static bool send_body(unsigned i, int64_t size, unsigned frames, bool end) {
    stream_t *stream = &live.model.streams[i];
    if (!may_send(stream)) return false;
    for (unsigned frame = 0; frame < frames; frame++) {
        uvhttp__http2_stream_t *core = core_stream(i);
        uint32_t bytes = (uint32_t)least(uvhttp__http2_capacity(&live.http2, core), size);
        uvhttp__http2_write_data(&live.http2, core, wire, bytes, end);
        stream->send -= bytes;
        live.model.send -= bytes;
    }
    stream->local_ended = end;
    return true;
}

static bool peer_resets(unsigned i) {
    if (live.model.streams[i].reset) return false;
    assert_int_equal(feed_number(UVHTTP__HTTP2_RST_STREAM, id_of(i), UVHTTP__HTTP2_CANCEL), UVHTTP_E_AGAIN);
    live.model.streams[i].reset = true;
    return true;
}

static bool step_sending(unsigned which) {
    const model_t *model = &live.model;
    const stream_t *one = &model->streams[0], *two = &model->streams[1];
    int64_t highest = model->initial;
    for (unsigned i = 0; i < STREAMS; i++)
        if (may_send(&model->streams[i]) && model->streams[i].send > highest) highest = model->streams[i].send;
    switch (which) {
        case 0: return open_connection_window(1);
        case 1: return open_connection_window(WINDOW_MAX - model->send);
        case 2: return open_connection_window(WINDOW_MAX - model->send + 1);
        case 3: return open_stream_window(0, 1);
        case 4: return open_stream_window(0, WINDOW_MAX - one->send);
        case 5: return open_stream_window(0, WINDOW_MAX - one->send + 1);
        case 6: return open_stream_window(0, WINDOW_MAX);
        case 7: return open_stream_window(1, WINDOW_MAX - two->send);
        case 8: return set_initial(0);
        case 9: return set_initial(1);
        case 10: return set_initial(WINDOW_MAX);
        case 11: return set_initial(model->initial + WINDOW_MAX - highest); /* just fits */
        case 12: return set_initial(model->initial + WINDOW_MAX - highest + 1);
        case 13: return send_body(0, FRAME_MAX, 5, false); /* all of a default window */
        case 14: return send_body(0, 1, 1, false);
        case 15: return send_body(1, FRAME_MAX, 1, false);
        case 16: return send_body(0, 0, 1, true);
        default: return peer_resets(1);
    }
}

static void test_every_sequence_of_what_opens_and_uses_up_windows_of_the_peer(void **state) {
    (void)state;
    open_connection(1 << 18, 1 << 20);
    for (unsigned i = 0; i < STREAMS; i++) uvhttp__http2_want(&live.http2, core_stream(i), true);
    run_all(18, step_sending, check_sending);
    assert_true(failures > 100);
}

/* --- what we receive --- */

static void check_receiving(void) {
    const model_t *model = &live.model;
    int64_t held = 0, whole = model->acked ? limits.stream_window : 65535;
    for (unsigned i = 0; i < STREAMS; i++) {
        const stream_t *stream = &model->streams[i];
        const uvhttp__http2_stream_t *core = core_stream(i);
        assert_int_equal(core != NULL, stream->there);
        if (!stream->there) continue;
        assert_int_equal(core->held, stream->held);
        held += stream->held;
        if (stream->reset || stream->remote_ended) continue;
        assert_true(core->receive_window == stream->receive);
        /* Of each window all is in the peer's hands, held, or waits to be returned, which is less than a step. */
        assert_true(stream->receive + core->consumed + stream->held == whole);
        assert_true(core->consumed < limits.stream_window / limits.stream_credit_steps);
    }
    assert_true(live.http2.receive_window == model->receive);
    assert_true(model->receive + live.http2.consumed + held == limits.connection_window);
    assert_true(live.http2.consumed < limits.connection_window / 2);
}

/* size: of the frame's payload. padding: bytes of it with the one that says how many, 0: not padded. */
static bool receive_data(unsigned i, int64_t size, uint8_t padding, bool end) {
    stream_t *stream = &live.model.streams[i];
    if (size < padding || size > FRAME_MAX) return false;
    uint8_t flags = (uint8_t)((padding ? UVHTTP__HTTP2_FLAG_PADDED : 0) | (end ? UVHTTP__HTTP2_FLAG_END_STREAM : 0));
    bool for_connection = size <= live.model.receive, closed = !stream->there || stream->reset || stream->remote_ended;
    bool for_stream = size <= stream->receive || size == 0; /* which is always allowed (section 6.9.1) */
    int64_t held = stream->held;
    if (padding) wire[HEAD] = (char)(padding - 1);
    live.model.receive -= size;
    stream->receive -= size;
    int code = feed(UVHTTP__HTTP2_DATA, flags, id_of(i), (uint32_t)size);
    uint32_t error = hear();
    if (!for_connection) return expect_failure(code);
    if (!stream->there) return false; /* whether that is an error depends on how it ended: test_streams.c */
    assert_int_equal(code, UVHTTP_E_AGAIN);
    if (closed || !for_stream) {
        assert_int_equal(stream->held, held);
        if (!stream->reset)
            assert_int_equal(error, closed ? UVHTTP__HTTP2_STREAM_CLOSED : UVHTTP__HTTP2_FLOW_CONTROL_ERROR);
        resets += !stream->reset;
        stream->reset = true;
        return true;
    }
    assert_int_equal(error, 0);
    assert_int_equal(stream->held - held, size - padding);
    stream->remote_ended = end;
    return true;
}

static bool consume(unsigned i, int64_t size) {
    stream_t *stream = &live.model.streams[i];
    if (!stream->there || size < 1 || size > stream->held) return false;
    uvhttp__http2_consume(&live.http2, core_stream(i), (size_t)size);
    stream->held -= size;
    assert_int_equal(hear(), 0);
    return true;
}

static bool acknowledge(void) {
    if (live.model.acked) return false;
    assert_int_equal(feed(UVHTTP__HTTP2_SETTINGS, UVHTTP__HTTP2_FLAG_ACK, 0, 0), UVHTTP_E_AGAIN);
    live.model.acked = true;
    for (unsigned i = 0; i < STREAMS; i++) live.model.streams[i].receive += (int64_t)limits.stream_window - 65535;
    return true;
}

static bool release(unsigned i) {
    stream_t *stream = &live.model.streams[i];
    if (!stream->there) return false;
    uvhttp__http2_release(&live.http2, core_stream(i));
    stream->there = false;
    stream->held = 0;
    (void)hear();
    return true;
}

static bool step_receiving(unsigned which) {
    const model_t *model = &live.model;
    const stream_t *one = &model->streams[0], *two = &model->streams[1];
    int64_t fits = least(one->receive, model->receive);
    switch (which) {
        case 0: return receive_data(0, 1, 0, false);
        case 1: return fits > 0 && receive_data(0, least(fits, FRAME_MAX), 0, false);
        case 2: return receive_data(0, fits + 1 > 0 ? fits + 1 : 1, 0, false);
        case 3: return receive_data(0, 9, 5, false);
        case 4: return receive_data(0, 1, 1, true); /* padding alone */
        case 5: return receive_data(0, 0, 0, true);
        case 6: return receive_data(1, least(least(two->receive, model->receive), FRAME_MAX), 0, false);
        case 7: return receive_data(1, least(model->receive + 1, FRAME_MAX), 0, false);
        case 8: return consume(0, 1);
        case 9: return consume(0, one->held);
        case 10: return consume(1, two->held);
        case 11: return consume(1, two->held - 1);
        case 12: return acknowledge();
        case 13: return release(1);
        default: return peer_resets(1);
    }
}

/* A window of streams smaller than the default, which holds until it is acknowledged: it is below 0 then. */
static void test_every_sequence_of_bodies_with_small_windows(void **state) {
    (void)state;
    open_connection(30, 65536);
    receive_data(0, 100, 0, false);
    receive_data(1, FRAME_MAX, 0, false);
    run_all(15, step_receiving, check_receiving);
    assert_true(failures > 100);
}

/* Windows that one frame more or less fills, a stream's as well as the connection's, most of it held. A configuration
 * has less for a stream, so that one cannot hold up the others. */
static void test_every_sequence_of_bodies_at_the_end_of_the_connections_window(void **state) {
    (void)state;
    open_connection(65535 / 4, 65535);
    limits.stream_window = 65535;
    assert_true(acknowledge());
    for (int i = 0; i < 3; i++) receive_data(1, FRAME_MAX, 0, false);
    run_all(15, step_receiving, check_receiving);
    assert_true(failures > 100);
}

/* The largest windows there are, and a step of each that is not a whole number of bytes. */
static void test_every_sequence_of_bodies_with_large_windows(void **state) {
    (void)state;
    open_connection((1 << 18) - 1, (1 << 20) - 1);
    for (int i = 0; i < 3; i++) receive_data(0, FRAME_MAX, 0, false);
    run_all(15, step_receiving, check_receiving);
}

int main(void) {
    return RUN_TESTS(test_every_sequence_of_what_opens_and_uses_up_windows_of_the_peer,
                     test_every_sequence_of_bodies_with_small_windows,
                     test_every_sequence_of_bodies_at_the_end_of_the_connections_window,
                     test_every_sequence_of_bodies_with_large_windows);
}
