/* Owns: tests of floods, of budgets per iteration, of memory and of the graceful end. */
#include "http2_feed.h"
#include "support/failing_allocator.h"

/* Feeds frames of one kind until the connection fails; returns how many it took. */
static unsigned flood(peer_t *peer, void (*put)(wire_t *wire, unsigned round), unsigned frames_max) {
    static wire_t wire;
    wire.size = 0;
    put_preface(&wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    feed_wire(peer, &wire);
    for (unsigned i = 0; i < frames_max; i++) {
        wire.size = 0;
        put(&wire, i);
        peer->events_size = peer->sent_size = 0;
        if (!feed(peer, wire.data, wire.size)) return i;
    }
    return frames_max;
}

static void put_ping(wire_t *wire, unsigned round) {
    (void)round;
    PUT(wire, PING, 0, 0, "12345678");
}
static void put_settings(wire_t *wire, unsigned round) {
    put_setting(wire, 4, round);
}
static void put_window(wire_t *wire, unsigned round) {
    (void)round;
    put_number(wire, WINDOW_UPDATE, 1, 1);
}
static void put_priority(wire_t *wire, unsigned round) {
    (void)round;
    PUT(wire, PRIORITY, 0, 9, "\0\0\0\0\1");
}
static void put_update(wire_t *wire, unsigned round) {
    char payload[4];
    uvhttp__http2_put32(payload, 3 + 2 * round);
    put_frame(wire, PRIORITY_UPDATE, 0, 0, payload, 4);
}
static void put_empty(wire_t *wire, unsigned round) {
    (void)round;
    PUT(wire, DATA, 0, 1, "");
}
static void put_padding(wire_t *wire, unsigned round) {
    (void)round;
    PUT(wire, DATA, PADDED, 1, "\2\0\0");
}
static void put_unknown(wire_t *wire, unsigned round) {
    (void)round;
    PUT(wire, 0x42, 0, 1, "x");
}
static void put_reset(wire_t *wire, unsigned round) {
    PUT(wire, HEADERS, WHOLE, 3 + 2 * round, "head");
    put_number(wire, RST_STREAM, 3 + 2 * round, UVHTTP__HTTP2_CANCEL);
}
/* CVE-2025-8671: we are made to reset it. */
static void put_provoked(wire_t *wire, unsigned round) {
    PUT(wire, HEADERS, WHOLE, 3 + 2 * round, "head");
    put_number(wire, WINDOW_UPDATE, 3 + 2 * round, 0);
}

static void own_release(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_RESET) uvhttp__http2_release(&peer->http2, event->stream);
}

static void test_floods_end_the_connection(void **state) {
    (void)state;
    void (*const kinds[])(wire_t *, unsigned) = {put_ping,   put_settings, put_window,  put_priority,
                                                 put_update, put_empty,    put_padding, put_unknown};
    static peer_t peer;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        peer_init(&peer);
        unsigned frames = flood(&peer, kinds[i], 3000);
        assert_in_range(frames, 990, 1010);
        assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOOD);
        assert_non_null(strstr(peer.sent, "goaway 1 ENHANCE_YOUR_CALM\n"));
        assert_int_equal(peer.counters.control_floods, 1);
        peer_deinit(&peer);
    }
}

/* A client that does not know of the reset yet uses up the window, in frames as small as it likes. */
static void test_data_that_was_under_way_when_its_stream_was_reset_is_no_flood(void **state) {
    (void)state;
    static peer_t peer;
    static wire_t wire;
    static const char large[16000];
    peer_init(&peer);
    assert_int_equal(flood(&peer, put_empty, 0), 0);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, 1);
    uint32_t left = (uint32_t)stream->receive_window;
    assert_int_equal(left, 65535);
    uvhttp__http2_reset(&peer.http2, stream, UVHTTP__HTTP2_NO_ERROR);
    for (bool small = true; left > 0; small = left % 16000 != 0) {
        uint32_t size = small ? 1 : 16000;
        wire.size = 0;
        put_frame(&wire, DATA, 0, 1, large, size);
        peer.events_size = peer.sent_size = 0;
        assert_true(feed(&peer, wire.data, wire.size));
        left -= size;
        if (left == 32000) uvhttp__http2_release(&peer.http2, stream);
    }
    assert_int_equal(peer.http2.control_frames, 0);
    for (unsigned i = 0; i <= 1000; i++) { /* these were not */
        wire.size = 0;
        put_frame(&wire, DATA, 0, 1, large, 1);
        peer.events_size = peer.sent_size = 0;
        assert_int_equal(feed(&peer, wire.data, wire.size), i < 1000);
    }
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOOD);
    peer_deinit(&peer);
}

/* Nor does one whose stream was refused, or came behind the last GOAWAY. */
static void test_data_of_a_stream_that_was_not_admitted_is_no_flood(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.streams_max = 1;
    for (unsigned closed = 0; closed < 2; closed++) {
        peer_init_with(&peer, &limits);
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "post");
        feed_wire(&peer, &wire);
        if (closed) uvhttp__http2_shutdown_now(&peer.http2);
        wire.size = 0;
        PUT(&wire, HEADERS, WHOLE, 3, "post");
        for (unsigned i = 0; i < 2000; i++) PUT(&wire, DATA, 0, 3, "in small frames");
        feed_wire(&peer, &wire);
        assert_int_equal(peer.code, UVHTTP_E_AGAIN);
        wire.size = 0;
        put_get(&wire, 5); /* it has no body */
        for (unsigned i = 0; i < 2000; i++) PUT(&wire, DATA, 0, 5, "");
        feed_wire(&peer, &wire);
        assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOOD);
        peer_deinit(&peer);
    }
}

static void test_rapid_resets_end_the_connection(void **state) {
    (void)state;
    void (*const kinds[])(wire_t *, unsigned) = {put_reset, put_provoked};
    static peer_t peer;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        peer_init(&peer);
        peer.own = own_release;
        assert_int_equal(flood(&peer, kinds[i], 3000), 500);
        assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOOD);
        assert_int_equal(peer.counters.reset_floods, 1);
        peer_deinit(&peer);
    }
}

/* There is no work that they could undo. */
static void test_resets_behind_the_response_are_no_flood(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    for (uint32_t id = 1; id < 2000; id += 2) {
        WIRE(wire);
        if (id > 1) wire.size = 0;
        PUT(&wire, HEADERS, WHOLE, id, "post");
        peer.events_size = peer.sent_size = 0;
        feed_wire(&peer, &wire);
        uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, id);
        char frame[64] = {0};
        (void)uvhttp__http2_write_headers(&peer.http2, stream, frame, 8, true);
        wire.size = 0;
        put_number(&wire, RST_STREAM, id, UVHTTP__HTTP2_CANCEL);
        feed_wire(&peer, &wire);
        assert_int_equal(peer.code, UVHTTP_E_AGAIN);
        uvhttp__http2_release(&peer.http2, stream);
    }
    assert_int_equal(peer.http2.resets, 0);
    assert_int_equal(peer.counters.resets_received, 1000);
    peer_deinit(&peer);
}

static void test_what_is_slow_is_no_flood(void **state) {
    (void)state;
    static peer_t peer;
    static wire_t wire;
    peer_init(&peer);
    peer.own = own_release;
    assert_int_equal(flood(&peer, put_reset, 400), 400);
    for (unsigned i = 400; i < 2000; i++) {
        wire.size = 0;
        put_reset(&wire, i);
        peer.now_ms += 20; /* 50 a second */
        peer.events_size = peer.sent_size = 0;
        assert_true(feed(&peer, wire.data, wire.size));
    }
    peer_deinit(&peer);
}

static void test_requests_pay_for_control_frames(void **state) {
    (void)state;
    static peer_t peer;
    static wire_t wire;
    peer_init(&peer);
    peer.own = own_respond;
    assert_int_equal(flood(&peer, put_ping, 900), 900);
    for (uint32_t id = 3; id < 8000; id += 2) {
        wire.size = 0;
        put_get(&wire, id);
        put_window(&wire, 0);
        put_ping(&wire, 0);
        peer.events_size = peer.sent_size = 0;
        assert_true(feed(&peer, wire.data, wire.size));
    }
    assert_int_equal(peer.http2.control_frames, 2);
    peer_deinit(&peer);
}

/* Small messages of a stream pay for the windows and pings that clients of gRPC send in return. */
static void test_small_messages_pay_unless_a_narrow_window_has_made_them(void **state) {
    (void)state;
    for (unsigned narrow = 0; narrow <= 1; narrow++) {
        static peer_t peer;
        peer_init(&peer);
        assert_int_equal(flood(&peer, put_ping, 100), 100); /* stream 1 is open */
        uint32_t size, before = peer.http2.control_frames;
        uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, 1);
        assert_non_null(stream);
        if (narrow) stream->send_window = 10;
        uvhttp__http2_want(&peer.http2, stream, true);
        assert_ptr_equal(uvhttp__http2_next(&peer.http2, &size), stream);
        char head[UVHTTP__HTTP2_FRAME_HEAD_SIZE];
        uvhttp__http2_write_data(&peer.http2, stream, head, 10, false);
        assert_int_equal(peer.http2.control_frames, narrow ? before : before - 2);
        peer_deinit(&peer);
    }
}

static void test_replies_that_nobody_reads(void **state) {
    (void)state;
    static uvhttp__http2_t http2;
    static wire_t wire;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_counters_t counters = {0};
    uvhttp__http2_limits_default(&limits);
    limits.control_size_max = 1000;
    assert_int_equal(uvhttp__http2_init(&http2, &limits, &counters, 0), 0);
    wire.size = 0;
    put_preface(&wire);
    for (unsigned i = 0; i < 100; i++) put_ping(&wire, i);
    size_t at = 0, consumed;
    uvhttp__http2_event_t event;
    int code;
    while ((code = uvhttp__http2_read(&http2, wire.data + at, wire.size - at, &consumed, &event)) == 0) at += consumed;
    assert_int_equal(code, UVHTTP_E_HTTP2_FLOOD);
    assert_int_equal(counters.control_overflows, 1);
    assert_in_range(uvhttp__http2_control(&http2).size, 900, 1017);
    uvhttp__http2_deinit(&http2);
}

/* Returns how many events came before the iteration was over. */
static unsigned events_of_iteration(uvhttp__http2_t *http2, const wire_t *wire, size_t *at) {
    uvhttp__http2_event_t event;
    size_t consumed;
    unsigned count = 0;
    int code;
    uvhttp__http2_begin_iteration(http2, 0);
    while ((code = uvhttp__http2_read(http2, wire->data + *at, wire->size - *at, &consumed, &event)) == 0) {
        *at += consumed;
        count++;
    }
    *at += consumed;
    assert_int_equal(code, *at < wire->size ? UVHTTP_E_LIMIT : UVHTTP_E_AGAIN);
    return count;
}

static void test_an_iteration_is_bounded(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        static peer_t peer;
        uvhttp__http2_limits_t limits;
        uvhttp__http2_limits_default(&limits);
        if (i == 0) limits.iteration_requests_max = 10;
        if (i == 1) limits.iteration_frames_max = 10;
        if (i == 2) limits.iteration_bytes_max = 120; /* a request is 12 bytes */
        peer_init_with(&peer, &limits);
        WIRE(wire);
        for (uint32_t id = 1; id < 60; id += 2) put_get(&wire, id);
        size_t at = UVHTTP__HTTP2_PREFACE_SIZE + UVHTTP__HTTP2_FRAME_HEAD_SIZE;
        assert_true(feed(&peer, wire.data, at));
        for (unsigned round = 0; round < 3; round++) assert_int_equal(events_of_iteration(&peer.http2, &wire, &at), 10);
        assert_int_equal(at, wire.size);
        assert_int_equal(peer.counters.iterations_cut, 2);
        peer_deinit(&peer);
    }
}

static void test_a_fifth_priority_of_a_stream_to_come_is_ignored(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    for (unsigned id = 1; id <= 9; id += 2) {
        const char payload[] = {0, 0, 0, (char)id, 'u', '=', '0'};
        put_frame(&wire, PRIORITY_UPDATE, 0, 0, payload, sizeof payload);
    }
    feed_wire(&peer, &wire);
    assert_int_equal(peer.http2.early_count, 4);
    assert_int_equal(peer.counters.priorities_too_early, 1);
    peer_deinit(&peer);
}

static void test_settings_and_priorities_that_are_too_large(void **state) {
    (void)state;
    static char zeros[198];
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_head(&wire, 4 + 257, PRIORITY_UPDATE, 0, 0);
    put_raw(&wire, "\0\0\0\1u=0,", 8);
    for (unsigned i = 0; i < 253; i++) put_raw(&wire, " ", 1);
    put_frame(&wire, SETTINGS, 0, 0, zeros, 192);
    put_frame(&wire, SETTINGS, 0, 0, zeros, 198);
    feed_wire(&peer, &wire);
    expect_texts(&peer, "settings 0 \nsettings 0 \n", "settings ack\nsettings ack\ngoaway 0 ENHANCE_YOUR_CALM\n",
                 UVHTTP_E_HTTP2_FLOOD);
    assert_int_equal(peer.counters.priorities_too_large, 1);
    assert_int_equal(peer.counters.settings_too_large, 1);
    peer_deinit(&peer);
}

static void test_memory_is_bounded(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.connection_memory_max = 1000;
    peer_init_with(&peer, &limits);
    WIRE(wire);
    for (uint32_t id = 1; id < 60; id += 2) put_get(&wire, id);
    feed_wire(&peer, &wire);
    assert_int_equal(peer.code, UVHTTP_E_AGAIN);
    assert_in_range(peer.http2.stream_count, 8, 14);
    assert_int_equal(peer.counters.streams_refused, 30 - peer.http2.stream_count);
    assert_int_equal(uvhttp__http2_charge(&peer.http2, 1001 - peer.http2.memory), UVHTTP_E_LIMIT);
    wire.size = 0;
    put_head(&wire, 2000, HEADERS, END, 101);
    for (unsigned i = 0; i < 1000; i++) put_raw(&wire, "x", 1);
    feed_wire(&peer, &wire);
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOOD);
    assert_true(peer.counters.memory_exceeded > 0);
    peer_deinit(&peer);
}

static void attempt(void *user) {
    static peer_t peer;
    (void)user;
    WIRE(wire);
    for (uint32_t id = 1; id < 60; id += 2) PUT(&wire, HEADERS, 0, id, "a"), PUT(&wire, CONTINUATION, WHOLE, id, "b");
    memset(&peer, 0, sizeof peer);
    uvhttp__http2_limits_default(&peer.limits);
    int status = uvhttp__http2_init(&peer.http2, &peer.limits, &peer.counters, 0);
    if (status != 0) {
        assert_int_equal(status, UVHTTP_E_NOMEM);
        return;
    }
    for (size_t at = 0; at < wire.size && feed(&peer, wire.data + at, 1);) at++;
    assert_true(peer.code == UVHTTP_E_AGAIN || peer.code == UVHTTP_E_NOMEM);
    peer_deinit(&peer);
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt, NULL) >= 6);
}

/* --- the graceful end --- */

static void test_shutdown_in_two_phases(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_get(&wire, 1);
    feed_wire(&peer, &wire);
    uvhttp__http2_shutdown(&peer.http2);
    wire.size = 0;
    put_get(&wire, 3); /* was under way */
    PUT(&wire, PING, ACK, 0, "uvh2stop");
    put_get(&wire, 5);
    PUT(&wire, DATA, 0, 5, "body");
    feed_wire(&peer, &wire);
    expect_texts(&peer, "settings 0 \nheaders 1 get.\nheaders 3 get.\ndiscard 0 get\n",
                 "settings ack\ngoaway 2147483647 NO_ERROR\nping uvh2stop\ngoaway 3 NO_ERROR\n", UVHTTP_E_AGAIN);
    assert_false(uvhttp__http2_done(&peer.http2));
    uvhttp__http2_shutdown(&peer.http2);
    respond(&peer, uvhttp__http2_find(&peer.http2, 1), 0);
    respond(&peer, uvhttp__http2_find(&peer.http2, 3), 0);
    assert_true(uvhttp__http2_done(&peer.http2));
    (void)uvhttp__http2_fail(&peer.http2, UVHTTP__HTTP2_SETTINGS_TIMEOUT);
    peer.sent_size = 0;
    take_control(&peer);
    assert_string_equal(peer.sent, "goaway 3 SETTINGS_TIMEOUT\n"); /* not more than was said before */
    peer_deinit(&peer);
}

static void test_shutdown_at_once(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_get(&wire, 1);
    feed_wire(&peer, &wire);
    respond(&peer, uvhttp__http2_find(&peer.http2, 1), 0);
    peer.sent_size = 0;
    uvhttp__http2_shutdown_now(&peer.http2);
    uvhttp__http2_shutdown_now(&peer.http2);
    take_control(&peer);
    assert_string_equal(peer.sent, "goaway 1 NO_ERROR\n");
    assert_true(uvhttp__http2_done(&peer.http2));
    peer_deinit(&peer);
}

static void test_the_last_ids_end_the_connection(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_get(&wire, 0x7fffffff);
    feed_wire(&peer, &wire);
    assert_string_equal(peer.sent, "settings ack\ngoaway 2147483647 NO_ERROR\nping uvh2stop\n");
    peer_deinit(&peer);
}

/* The last GOAWAY names each stream that is served. */
static void test_the_last_ids_may_be_skipped(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_get(&wire, 0x7fffff81);
    put_get(&wire, 0x7fffffa1);
    feed_wire(&peer, &wire);
    assert_string_equal(peer.sent, "settings ack\ngoaway 2147483647 NO_ERROR\nping uvh2stop\n");
    wire.size = 0;
    PUT(&wire, PING, ACK, 0, UVHTTP__HTTP2_SHUTDOWN_PING);
    put_get(&wire, 0x7fffffff);
    feed_wire(&peer, &wire);
    assert_string_equal(peer.sent, "settings ack\ngoaway 2147483647 NO_ERROR\nping uvh2stop\n"
                                   "goaway 2147483553 NO_ERROR\n");
    assert_string_equal(peer.events, "settings 0 \nheaders 2147483521 get.\nheaders 2147483553 get.\ndiscard 0 get\n");
    peer_deinit(&peer);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floods_end_the_connection),
        cmocka_unit_test(test_data_that_was_under_way_when_its_stream_was_reset_is_no_flood),
        cmocka_unit_test(test_data_of_a_stream_that_was_not_admitted_is_no_flood),
        cmocka_unit_test(test_rapid_resets_end_the_connection),
        cmocka_unit_test(test_resets_behind_the_response_are_no_flood),
        cmocka_unit_test(test_what_is_slow_is_no_flood),
        cmocka_unit_test(test_requests_pay_for_control_frames),
        cmocka_unit_test(test_small_messages_pay_unless_a_narrow_window_has_made_them),
        cmocka_unit_test(test_replies_that_nobody_reads),
        cmocka_unit_test(test_an_iteration_is_bounded),
        cmocka_unit_test(test_settings_and_priorities_that_are_too_large),
        cmocka_unit_test(test_a_fifth_priority_of_a_stream_to_come_is_ignored),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_each_allocation_may_fail),
        cmocka_unit_test(test_shutdown_in_two_phases),
        cmocka_unit_test(test_shutdown_at_once),
        cmocka_unit_test(test_the_last_ids_end_the_connection),
        cmocka_unit_test(test_the_last_ids_may_be_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
