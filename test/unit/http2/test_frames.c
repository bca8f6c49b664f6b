/* Owns: tests of frames at places where few peers send them, and of replies and memory that run out there. */
#include "http2_feed.h"
#include "support/failing_allocator.h"

/* --- streams that are not open --- */

/* Responds and keeps working. */
static void own_linger(peer_t *peer, const uvhttp__http2_event_t *event) {
    char frame[64];
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS)
        (void)uvhttp__http2_write_headers(&peer->http2, event->stream, frame, 8, true);
}

static void own_reset(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS)
        uvhttp__http2_reset(&peer->http2, event->stream, UVHTTP__HTTP2_CANCEL);
}

static void test_priorities_of_streams_that_have_finished(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\1\0"); /* of itself: too late to matter */
    PUT(&wire, PRIORITY_UPDATE, 0, 0, "\0\0\0\1u=0");
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\0");
    put_get(&wire, 3);
    expect_own(&wire, own_respond, "headers 1 get.\nheaders 3 get.\n", "rst 1 FRAME_SIZE_ERROR\n", UVHTTP_E_AGAIN);
}

static void test_priorities_of_streams_that_were_reset(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\1\0");
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\0");
    put_get(&wire, 3);
    expect_own(&wire, own_reset, "headers 1 get.\nheaders 3 get.\n", "rst 1 CANCEL\nrst 3 CANCEL\n", UVHTTP_E_AGAIN);
}

/* We open none, so nothing is known of them. */
static void test_frames_on_even_streams(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        WIRE(wire);
        put_get(&wire, 3);
        if (i == 0) PUT(&wire, PRIORITY, 0, 2, "\0\0\0\0");
        if (i == 1) put_number(&wire, RST_STREAM, 2, UVHTTP__HTTP2_CANCEL);
        if (i == 2) put_number(&wire, WINDOW_UPDATE, 2, 1);
        expect_error(&wire, "headers 3 get.\n", i == 0 ? "3 FRAME_SIZE_ERROR" : "3 PROTOCOL_ERROR",
                     i == 0 ? UVHTTP_E_HTTP2_FRAME_SIZE : UVHTTP_E_HTTP2_PROTOCOL);
    }
}

static void test_a_response_that_lingers_cannot_be_reset(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
    put_get(&wire, 3);
    expect_own(&wire, own_linger, "headers 1 get.\nheaders 3 get.\n", "", UVHTTP_E_AGAIN);
}

static void test_a_second_head_of_a_response_that_lingers(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    PUT(&wire, HEADERS, WHOLE | END, 1, "more");
    expect_own(&wire, own_linger, "headers 1 get.\n", "goaway 1 STREAM_CLOSED\n", UVHTTP_E_HTTP2_STREAM_CLOSED);
}

/* --- header blocks --- */

static void test_trailers_with_a_priority(void **state) {
    (void)state;
    for (unsigned self = 0; self < 2; self++) {
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        if (self)
            PUT(&wire, HEADERS, WHOLE | END | WITH_PRIORITY, 1, "\0\0\0\1\0tail");
        else
            PUT(&wire, HEADERS, WHOLE | END | WITH_PRIORITY, 1, "\0\0\0\3\0tail");
        expect(&wire, self ? "headers 1 head\nreset 1 PROTOCOL_ERROR tail\n" : "headers 1 head\ntrailers 1 tail.\n",
               self ? "rst 1 PROTOCOL_ERROR\n" : "", UVHTTP_E_AGAIN);
    }
}

static void test_a_block_of_padding_alone(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, END | PADDED, 1, "\2\0\0");
    PUT(&wire, CONTINUATION, WHOLE, 1, "");
    PUT(&wire, HEADERS, END | WHOLE | PADDED, 3, "\1get\0");
    expect(&wire, "headers 1 .\nheaders 3 get.\n", "", UVHTTP_E_AGAIN);
}

static void own_length(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS)
        assert_int_equal(uvhttp__http2_set_content_length(&peer->http2, event->stream, 4), 0);
    if (event->type == UVHTTP__HTTP2_EVENT_DATA) uvhttp__http2_consume(&peer->http2, event->stream, event->data.size);
}

static void test_trailers_behind_a_body_of_the_right_length(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, DATA, 0, 1, "body");
    PUT(&wire, HEADERS, WHOLE | END, 1, "tail");
    expect_own(&wire, own_length, "headers 1 head\ndata 1 body\ntrailers 1 tail.\n", "", UVHTTP_E_AGAIN);
}

/* A block is collected in memory of the connection, which may lie before the input or behind it. */
static void test_parts_of_a_block_come_from_any_memory(void **state) {
    (void)state;
    static peer_t peer;
    char automatic[256];
    static char fixed[sizeof automatic];
    char *const places[] = {automatic, fixed};
    for (size_t i = 0; i < 2; i++) {
        WIRE(wire);
        PUT(&wire, HEADERS, END, 1, "one");
        PUT(&wire, CONTINUATION, 0, 1, "two");
        PUT(&wire, CONTINUATION, WHOLE, 1, "three");
        assert_true(wire.size <= sizeof automatic);
        memcpy(places[i], wire.data, wire.size);
        peer_init(&peer);
        size_t at = 0, consumed;
        for (int events = 0; events < 2; events++, at += consumed) {
            uvhttp__http2_event_t event;
            uvhttp__http2_begin_iteration(&peer.http2, 0);
            assert_int_equal(uvhttp__http2_read(&peer.http2, places[i] + at, wire.size - at, &consumed, &event), 0);
            note_event(&peer, &event);
        }
        assert_int_equal(at, wire.size);
        assert_string_equal(peer.events, "settings 0 \nheaders 1 onetwothree.\n");
        peer_deinit(&peer);
    }
}

static void test_a_block_is_under_way_between_its_frames(void **state) {
    (void)state;
    static peer_t peer;
    WIRE(wire);
    PUT(&wire, HEADERS, END, 1, "one");
    peer_init(&peer);
    feed_wire(&peer, &wire);
    assert_true(uvhttp__http2_in_frame(&peer.http2));
    wire.size = 0;
    PUT(&wire, CONTINUATION, WHOLE, 1, "two");
    feed_wire(&peer, &wire);
    assert_false(uvhttp__http2_in_frame(&peer.http2));
    peer_deinit(&peer);
}

/* --- sizes --- */

static char large[20000];

static void test_a_head_in_one_frame_has_a_limit(void **state) {
    (void)state;
    static const uint32_t sizes[] = {100, 101, 16384, 16385};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        static peer_t peer;
        uvhttp__http2_limits_t limits;
        uvhttp__http2_limits_default(&limits);
        if (i < 2) limits.header_block_size_max = 100;
        peer_init_with(&peer, &limits);
        WIRE(wire);
        put_get(&wire, 1);
        put_frame(&wire, HEADERS, END | WHOLE, 3, large, sizes[i]);
        feed_wire(&peer, &wire);
        bool good = i == 0 || i == 2;
        expect_texts(&peer, NULL,
                     good     ? "settings ack\n"
                     : i == 1 ? "settings ack\ngoaway 1 ENHANCE_YOUR_CALM\n"
                              : "settings ack\ngoaway 1 FRAME_SIZE_ERROR\n",
                     good     ? UVHTTP_E_AGAIN
                     : i == 1 ? UVHTTP_E_HTTP2_FLOOD
                              : UVHTTP_E_HTTP2_FRAME_SIZE);
        assert_int_equal(peer.counters.header_blocks_too_large, i == 1);
        peer_deinit(&peer);
    }
}

/* The first part or a later one, of the limit of memory (ENHANCE_YOUR_CALM) or of the allocator (INTERNAL_ERROR). */
static void test_a_block_without_memory_ends_the_connection(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        static peer_t peer;
        uvhttp__http2_limits_t limits;
        bool later = i & 1, bounded = i & 2;
        uvhttp__http2_limits_default(&limits);
        if (bounded) limits.connection_memory_max = 1500;
        peer_init_with(&peer, &limits);
        WIRE(wire);
        if (later) PUT(&wire, HEADERS, END, 1, "one");
        feed_wire(&peer, &wire);
        wire.size = 0;
        put_frame(&wire, later ? CONTINUATION : HEADERS, later ? 0 : END, 1, large, 2000);
        if (!bounded) test_allocator_fail_at(1);
        feed_wire(&peer, &wire);
        test_allocator_fail_at(0);
        expect_texts(&peer, "settings 0 \n",
                     bounded ? "settings ack\ngoaway 0 ENHANCE_YOUR_CALM\n" : "settings ack\ngoaway 0 INTERNAL_ERROR\n",
                     bounded ? UVHTTP_E_HTTP2_FLOOD : UVHTTP_E_NOMEM);
        peer_deinit(&peer);
    }
}

/* --- what we say --- */

static void test_settings_of_ours(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        static peer_t peer;
        uvhttp__http2_limits_t limits;
        uvhttp__http2_limits_default(&limits);
        if (i & 1) limits.header_table_size = 100;
        limits.connect_protocol = i & 2;
        memset(&peer, 0, sizeof peer);
        assert_int_equal(uvhttp__http2_init(&peer.http2, &limits, &peer.counters, 0), 0);
        uvhttp_str_t control = uvhttp__http2_control(&peer.http2);
        bool table = memmem(control.data, control.size, "\0\1\0\0\0\x64", 6) != NULL;
        bool connect = memmem(control.data, control.size, "\0\x8\0\0\0\1", 6) != NULL;
        assert_int_equal(table, i & 1);
        assert_int_equal(connect, i >> 1);
        peer_deinit(&peer);
    }
}

static void test_a_reply_to_a_ping_of_somebody_else_ends_nothing(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    WIRE(wire);
    put_get(&wire, 1);
    feed_wire(&peer, &wire);
    uvhttp__http2_shutdown(&peer.http2);
    wire.size = 0;
    PUT(&wire, PING, ACK, 0, "uvh2stoP");
    put_get(&wire, 3);
    feed_wire(&peer, &wire);
    expect_texts(&peer, "settings 0 \nheaders 1 get.\nheaders 3 get.\n",
                 "settings ack\ngoaway 2147483647 NO_ERROR\nping uvh2stop\n", UVHTTP_E_AGAIN);
    peer_deinit(&peer);
}

/* --- replies that nobody reads --- */

static void put_settings(wire_t *wire, unsigned round) {
    put_setting(wire, 4, round);
}
/* A new stream that depends on itself. */
static void put_self(wire_t *wire, unsigned round) {
    char payload[] = {0, 0, 0, 0, 0, 'x'};
    uvhttp__http2_put32(payload, 3 + 2 * round);
    put_frame(wire, HEADERS, END | WHOLE | WITH_PRIORITY, 3 + 2 * round, payload, sizeof payload);
}
static void put_provoked(wire_t *wire, unsigned round) {
    PUT(wire, HEADERS, WHOLE, 3 + 2 * round, "head");
    put_number(wire, WINDOW_UPDATE, 3 + 2 * round, 0);
}
static void put_late(wire_t *wire, unsigned round) {
    if (round == 0) put_number(wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
    PUT(wire, HEADERS, WHOLE | END, 1, "late");
}
static void put_short_priority(wire_t *wire, unsigned round) {
    PUT(wire, HEADERS, WHOLE, 3 + 2 * round, "head");
    PUT(wire, PRIORITY, 0, 3 + 2 * round, "\0\0\0\0");
}

typedef void put_t(wire_t *wire, unsigned round);
static put_t *const replied_to[] = {put_settings, put_self, put_provoked, put_late, put_short_priority};

/* Feeds frames of one kind and sends nothing; released: work ends at a reset. Returns how many rounds it took. */
static unsigned flood(uvhttp__http2_t *http2, put_t *put, int *code) {
    static wire_t wire;
    unsigned round = 0;
    for (*code = UVHTTP_E_AGAIN; *code == UVHTTP_E_AGAIN && round < 3000; round++) {
        wire.size = 0;
        if (round == 0) put_preface(&wire);
        if (round == 0) PUT(&wire, HEADERS, WHOLE, 1, "head");
        put(&wire, round);
        uvhttp__http2_begin_iteration(http2, 0);
        uvhttp__http2_event_t event;
        size_t at = 0, consumed;
        while ((*code = uvhttp__http2_read(http2, wire.data + at, wire.size - at, &consumed, &event)) == 0) {
            if (event.type == UVHTTP__HTTP2_EVENT_RESET && !event.by_peer) uvhttp__http2_release(http2, event.stream);
            at += consumed;
        }
    }
    return round;
}

static void test_replies_have_a_limit(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof replied_to / sizeof *replied_to; i++) {
        static uvhttp__http2_t http2;
        uvhttp__http2_limits_t limits;
        uvhttp__http2_counters_t counters = {0};
        int code;
        uvhttp__http2_limits_default(&limits);
        limits.control_size_max = 500;
        assert_int_equal(uvhttp__http2_init(&http2, &limits, &counters, 0), 0);
        assert_in_range(flood(&http2, replied_to[i], &code), 30, 60);
        assert_int_equal(code, UVHTTP_E_HTTP2_FLOOD);
        assert_int_equal(counters.control_overflows, 1);
        assert_in_range(uvhttp__http2_control(&http2).size, 480, 517);
        size_t consumed;
        uvhttp__http2_event_t event;
        assert_int_equal(uvhttp__http2_read(&http2, "", 0, &consumed, &event), UVHTTP_E_HTTP2_FLOOD); /* it stays */
        uvhttp__http2_deinit(&http2);
    }
}

/* Those that are not counted as requests cost as control frames do. */
static void test_heads_that_open_no_stream_are_counted(void **state) {
    (void)state;
    static put_t *const kinds[] = {put_self, put_late};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        static uvhttp__http2_t http2;
        uvhttp__http2_limits_t limits;
        uvhttp__http2_counters_t counters = {0};
        int code;
        uvhttp__http2_limits_default(&limits);
        limits.control_size_max = 1 << 20;
        assert_int_equal(uvhttp__http2_init(&http2, &limits, &counters, 0), 0);
        assert_in_range(flood(&http2, kinds[i], &code), 990, 1010);
        assert_int_equal(code, UVHTTP_E_HTTP2_FLOOD);
        assert_int_equal(counters.control_floods, 1);
        uvhttp__http2_deinit(&http2);
    }
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_priorities_of_streams_that_have_finished),
        cmocka_unit_test(test_priorities_of_streams_that_were_reset),
        cmocka_unit_test(test_frames_on_even_streams),
        cmocka_unit_test(test_a_response_that_lingers_cannot_be_reset),
        cmocka_unit_test(test_a_second_head_of_a_response_that_lingers),
        cmocka_unit_test(test_trailers_with_a_priority),
        cmocka_unit_test(test_a_block_of_padding_alone),
        cmocka_unit_test(test_trailers_behind_a_body_of_the_right_length),
        cmocka_unit_test(test_parts_of_a_block_come_from_any_memory),
        cmocka_unit_test(test_a_block_is_under_way_between_its_frames),
        cmocka_unit_test(test_a_head_in_one_frame_has_a_limit),
        cmocka_unit_test(test_a_block_without_memory_ends_the_connection),
        cmocka_unit_test(test_settings_of_ours),
        cmocka_unit_test(test_a_reply_to_a_ping_of_somebody_else_ends_nothing),
        cmocka_unit_test(test_replies_have_a_limit),
        cmocka_unit_test(test_heads_that_open_no_stream_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
