/* Owns: tests of windows, of SETTINGS and of which stream sends next. */
#include "http2_feed.h"

static uvhttp__http2_stream_t *open_streams(peer_t *peer, uint32_t last) {
    WIRE(wire);
    for (uint32_t id = 1; id <= last; id += 2) PUT(&wire, HEADERS, WHOLE, id, "head");
    feed_wire(peer, &wire);
    peer->events_size = peer->sent_size = 0;
    return uvhttp__http2_find(&peer->http2, last);
}

/* One more, of a connection that has some. */
static uvhttp__http2_stream_t *open_stream(peer_t *peer, uint32_t id) {
    static wire_t wire;
    wire.size = 0;
    PUT(&wire, HEADERS, WHOLE, id, "head");
    feed_wire(peer, &wire);
    peer->events_size = peer->sent_size = 0;
    return uvhttp__http2_find(&peer->http2, id);
}

static void feed_data(peer_t *peer, uint32_t id, size_t size) {
    static wire_t wire;
    static char body[16384];
    wire.size = 0;
    put_frame(&wire, DATA, 0, id, body, size);
    feed_wire(peer, &wire);
}

static void feed_setting(peer_t *peer, uint16_t id, uint32_t value) {
    static wire_t wire;
    wire.size = 0;
    put_setting(&wire, id, value);
    feed_wire(peer, &wire);
}

static void feed_window(peer_t *peer, uint32_t id, uint32_t increment) {
    static wire_t wire;
    wire.size = 0;
    put_number(&wire, WINDOW_UPDATE, id, increment);
    feed_wire(peer, &wire);
}

static void feed_ack(peer_t *peer) {
    static wire_t wire;
    wire.size = 0;
    PUT(&wire, SETTINGS, ACK, 0, "");
    feed_wire(peer, &wire);
}

static void own_nothing(peer_t *peer, const uvhttp__http2_event_t *event) {
    (void)peer, (void)event;
}

/* --- what the peer may send --- */

static void test_defaults_hold_until_settings_are_acknowledged(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    peer.own = own_nothing;
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    assert_int_equal(stream->receive_window, 65535);
    for (unsigned i = 0; i < 3; i++) feed_data(&peer, 1, 16384);
    feed_ack(&peer);
    assert_int_equal(stream->receive_window, (1 << 18) - 3 * 16384);
    feed_ack(&peer); /* once is enough */
    assert_int_equal(stream->receive_window, (1 << 18) - 3 * 16384);
    peer_deinit(&peer);
}

static void test_a_window_that_is_exceeded(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    peer.own = own_nothing;
    (void)open_streams(&peer, 1);
    for (unsigned i = 0; i < 3; i++) feed_data(&peer, 1, 16384);
    feed_data(&peer, 1, 16383);
    assert_int_equal(peer.sent_size, 0);
    feed_data(&peer, 1, 1);
    assert_string_equal(peer.sent, "rst 1 FLOW_CONTROL_ERROR\n");
    assert_int_equal(peer.counters.windows_exceeded, 1);
    peer_deinit(&peer);
}

static void test_the_window_of_the_connection_holds_all_streams(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    peer.own = own_nothing;
    (void)open_streams(&peer, 9);
    feed_ack(&peer);
    for (unsigned i = 0; i < 64; i++) feed_data(&peer, 1 + i / 16 * 2, 16384);
    assert_int_equal(peer.sent_size, 0);
    feed_data(&peer, 9, 1);
    assert_string_equal(peer.sent, "goaway 9 FLOW_CONTROL_ERROR\n");
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOW_CONTROL);
    peer_deinit(&peer);
}

static void test_credit_of_a_stream_is_returned_in_quarters(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 3);
    feed_ack(&peer);
    for (unsigned i = 0; i < 3; i++) feed_data(&peer, 1, 16384);
    assert_int_equal(peer.sent_size, 0);
    feed_data(&peer, 1, 16384);
    assert_string_equal(peer.sent, "window 1 +65536\nwindow 0 +65536\n");
    for (unsigned i = 0; i < 8; i++) feed_data(&peer, 3, 16384);
    assert_string_equal(peer.sent, "window 1 +65536\nwindow 0 +65536\nwindow 3 +65536\nwindow 0 +65536\n"
                                   "window 3 +65536\nwindow 0 +65536\n");
    peer_deinit(&peer);
}

/* The streams of an iteration: one waits for the end, with all that is consumed until then. */
static void test_credit_of_an_iteration_is_one_frame(void **state) {
    (void)state;
    static peer_t peer;
    enum { PART = 16384 };
    peer_init(&peer);
    uvhttp__http2_stream_t *second = open_streams(&peer, 3), *first = uvhttp__http2_find(&peer.http2, 1);
    feed_ack(&peer);
    peer.own = own_nothing;
    for (unsigned i = 0; i < 11; i++) feed_data(&peer, 1, PART);
    for (unsigned i = 0; i < 5; i++) feed_data(&peer, 3, PART);
    for (unsigned i = 0; i < 7; i++) uvhttp__http2_consume(&peer.http2, first, PART);
    assert_int_equal(uvhttp__http2_control(&peer.http2).size, 0);
    take_control(&peer);
    assert_string_equal(peer.sent, "window 1 +114688\nwindow 0 +114688\n");
    take_control(&peer);
    assert_string_equal(peer.sent, "window 1 +114688\nwindow 0 +114688\n");
    peer.sent_size = 0;
    for (unsigned i = 0; i < 4; i++) uvhttp__http2_consume(&peer.http2, second, PART);
    for (unsigned i = 0; i < 4; i++) uvhttp__http2_consume(&peer.http2, first, PART);
    take_control(&peer);
    assert_string_equal(peer.sent, "window 3 +65536\nwindow 0 +131072\nwindow 1 +65536\n");
    peer_deinit(&peer);
}

/* Who has sent the whole body needs no credit any more: it does not go to whoever is found in its place. */
static void test_credit_that_is_due_when_the_body_ends(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    feed_ack(&peer);
    peer.own = own_nothing;
    for (unsigned i = 0; i < 4; i++) feed_data(&peer, 1, 16384);
    uvhttp__http2_consume(&peer.http2, stream, 65536);
    assert_int_equal(peer.http2.credit_stream_id, 1);
    uvhttp__http2_reset(&peer.http2, stream, UVHTTP__HTTP2_CANCEL);
    take_control(&peer);
    assert_string_equal(peer.sent, "rst 1 CANCEL\n");
    assert_int_equal(peer.http2.credit_stream_id, 0);
    assert_int_equal(peer.http2.consumed, 65536);
    uvhttp__http2_release(&peer.http2, stream);
    stream = open_stream(&peer, 3);
    for (unsigned i = 0; i < 4; i++) feed_data(&peer, 3, 16384);
    uvhttp__http2_consume(&peer.http2, stream, 65536);
    uvhttp__http2_reset(&peer.http2, stream, UVHTTP__HTTP2_CANCEL);
    uvhttp__http2_release(&peer.http2, stream);
    take_control(&peer); /* the stream is gone */
    assert_string_equal(peer.sent, "rst 3 CANCEL\n");
    peer_deinit(&peer);
}

/* A client that has sent all it may gets its whole window again, whatever the sizes of its frames. */
static void test_all_but_a_step_of_a_window_is_returned(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    feed_ack(&peer);
    for (unsigned round = 0; round < 20; round++) {
        for (int32_t left = stream->receive_window; left > 0; left -= 15000)
            feed_data(&peer, 1, left < 15000 ? (size_t)left : 15000);
        assert_true(stream->receive_window > (1 << 18) - (1 << 16));
        assert_int_equal(stream->receive_window + (int32_t)stream->consumed, 1 << 18);
    }
    peer_deinit(&peer);
}

/* No stream comes to a step of its own. */
static void test_credit_of_small_bodies_is_returned_in_halves(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 63);
    feed_ack(&peer);
    for (unsigned i = 0; i < 63; i++) feed_data(&peer, 1 + i / 2 * 2, 8192);
    assert_int_equal(peer.sent_size, 0);
    feed_data(&peer, 63, 8192);
    assert_string_equal(peer.sent, "window 0 +524288\n");
    peer_deinit(&peer);
}

/* As libnghttp2 does: the smaller half. */
static void test_half_of_an_odd_window_is_the_smaller_half(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.connection_window = 65535;
    limits.stream_window = 16383;
    limits.stream_credit_steps = 1;
    limits.connection_credit_min = UINT32_MAX;
    peer_init_with(&peer, &limits);
    (void)open_streams(&peer, 5);
    feed_ack(&peer);
    feed_data(&peer, 1, 16382);
    feed_data(&peer, 3, 16382);
    feed_data(&peer, 5, 2);
    assert_int_equal(peer.sent_size, 0);
    feed_data(&peer, 5, 1);
    assert_string_equal(peer.sent, "window 0 +32767\n");
    peer_deinit(&peer);
}

static void test_little_credit_of_the_connection_waits(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.stream_window = 65535;
    peer_init_with(&peer, &limits);
    (void)open_streams(&peer, 1);
    feed_ack(&peer);
    for (unsigned i = 0; i < 4; i++) feed_data(&peer, 1, 16384);
    assert_string_equal(peer.sent, "window 1 +16384\nwindow 1 +16384\nwindow 1 +16384\n"
                                   "window 1 +16384\nwindow 0 +65536\n");
    peer_deinit(&peer);
}

/* However a stream ends, the connection gets back all that came for it. */
static void test_credit_of_the_connection_is_never_lost(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    peer.own = own_nothing;
    uint32_t id = 1;
    for (unsigned round = 0; round < 600; round++, id += 2) {
        static wire_t wire;
        static char body[300];
        wire.size = 0;
        if (round == 0) put_preface(&wire);
        PUT(&wire, HEADERS, WHOLE, id, "head");
        put_frame(&wire, DATA, 0, id, body, 200);
        put_head(&wire, 300, DATA, PADDED, id);
        put_raw(&wire, "\x63", 1);
        put_raw(&wire, body, 120);
        feed_wire(&peer, &wire); /* the second frame is cut */
        uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, id);
        if (round % 4 == 0) uvhttp__http2_consume(&peer.http2, stream, 100);
        if (round % 4 != 1) uvhttp__http2_reset(&peer.http2, stream, UVHTTP__HTTP2_CANCEL);
        if (round % 4 != 2) uvhttp__http2_release(&peer.http2, stream);
        wire.size = 0;
        put_raw(&wire, body, 300 - 121);
        put_frame(&wire, DATA, 0, id, body, 77);
        feed_wire(&peer, &wire);
        if (round % 4 == 2) uvhttp__http2_release(&peer.http2, stream);
        assert_int_equal(peer.code, UVHTTP_E_AGAIN);
        assert_int_equal(peer.http2.receive_window + (int32_t)peer.http2.consumed, 1 << 20);
        take_control(&peer);
        peer.sent_size = peer.events_size = 0;
    }
    peer_deinit(&peer);
}

/* --- what we may send --- */

static void test_windows_of_the_peer(void **state) {
    (void)state;
    static peer_t peer;
    char head[9];
    peer_init(&peer);
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    assert_int_equal(uvhttp__http2_capacity(&peer.http2, stream), 16384);
    for (unsigned i = 0; i < 3; i++) uvhttp__http2_write_data(&peer.http2, stream, head, 16384, false);
    assert_int_equal(uvhttp__http2_capacity(&peer.http2, stream), 16383);
    feed_setting(&peer, 4, 16384); /* 65535 - 16384 less: below 0 */
    assert_int_equal(stream->send_window, 16384 - 3 * 16384);
    assert_int_equal(uvhttp__http2_capacity(&peer.http2, stream), 0);
    feed_window(&peer, 1, 2 * 16384);
    assert_int_equal(uvhttp__http2_capacity(&peer.http2, stream), 0);
    feed_window(&peer, 1, 5);
    assert_int_equal(uvhttp__http2_capacity(&peer.http2, stream), 5);
    feed_window(&peer, 0, 100);
    assert_int_equal(peer.http2.send_window, 16383 + 100);
    peer_deinit(&peer);
}

static void test_windows_of_the_peer_that_overflow(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 5);
    feed_window(&peer, 1, 0x7fffffff - 65535);
    assert_int_equal(peer.sent_size, 0);
    feed_window(&peer, 1, 1);
    feed_window(&peer, 3, 0);
    assert_string_equal(peer.sent, "rst 1 FLOW_CONTROL_ERROR\nrst 3 PROTOCOL_ERROR\n");
    feed_window(&peer, 0, 0x7fffffff - 65535);
    assert_int_equal(peer.code, UVHTTP_E_AGAIN);
    feed_window(&peer, 0, 1);
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOW_CONTROL);
    peer_deinit(&peer);
}

static void test_a_setting_that_overflows_a_window(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 1);
    feed_window(&peer, 1, 1);
    feed_setting(&peer, 4, 0x7fffffff);
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOW_CONTROL);
    peer_deinit(&peer);
}

/* They were reset by the peer, or have ended, and their owners are not done yet. */
static void test_windows_of_streams_that_send_nothing_more_cannot_overflow(void **state) {
    (void)state;
    static peer_t peer;
    char head[9];
    peer_init(&peer);
    peer.own = own_nothing;
    (void)open_streams(&peer, 3);
    for (uint32_t id = 1; id <= 3; id += 2) feed_window(&peer, id, 0x7fffffff - 65535);
    static wire_t wire;
    wire.size = 0;
    put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
    feed_wire(&peer, &wire);
    uvhttp__http2_write_data(&peer.http2, uvhttp__http2_find(&peer.http2, 3), head, 0, true);
    peer.sent_size = 0;
    feed_setting(&peer, 4, 65536);
    feed_window(&peer, 3, 1);
    assert_int_equal(peer.code, UVHTTP_E_AGAIN);
    assert_string_equal(peer.sent, "settings ack\n");
    peer_deinit(&peer);
}

/* Section 6.9.1: it may be sent even if a setting has put the window below 0. */
static void test_an_empty_frame_needs_no_window(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.stream_window = 1000;
    peer_init_with(&peer, &limits);
    peer.own = own_nothing;
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    feed_data(&peer, 1, 16384);
    feed_ack(&peer);
    assert_int_equal(stream->receive_window, 1000 - 16384);
    static wire_t wire;
    wire.size = 0;
    PUT(&wire, DATA, END, 1, "");
    feed_wire(&peer, &wire);
    assert_int_equal(peer.sent_size, 0);
    assert_true(stream->flags & UVHTTP__HTTP2_REMOTE_ENDED);
    peer_deinit(&peer);
}

static void test_settings_that_are_refused(void **state) {
    (void)state;
    const struct {
        uint16_t id;
        uint32_t value;
        const char *error; /* NULL: none */
        int code;
    } cases[] = {
        {2, 2, "PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL},
        {2, 1, NULL, UVHTTP_E_AGAIN},
        {4, 0x80000000, "FLOW_CONTROL_ERROR", UVHTTP_E_HTTP2_FLOW_CONTROL},
        {4, 0x7fffffff, NULL, UVHTTP_E_AGAIN},
        {5, 16383, "PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL},
        {5, 1 << 24, "PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL},
        {5, (1 << 24) - 1, NULL, UVHTTP_E_AGAIN},
        {8, 2, "PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL},
        {9, 2, "PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL},
        {0x4242, 0xffffffff, NULL, UVHTTP_E_AGAIN},
        {1, 0xffffffff, NULL, UVHTTP_E_AGAIN},
        {3, 0, NULL, UVHTTP_E_AGAIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sent[64];
        WIRE(wire);
        put_setting(&wire, cases[i].id, cases[i].value);
        snprintf(sent, sizeof sent, cases[i].error ? "goaway 0 %s\n" : "settings ack\n", cases[i].error);
        expect(&wire, cases[i].error ? "" : "settings 0 \n", sent, cases[i].code);
    }
}

static void test_every_entry_is_checked_and_the_last_applied(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    WIRE(wire);
    wire.size = 0;
    PUT(&wire, SETTINGS, 0, 0, "\0\4\0\0\0\1\0\1\0\0\0\0\0\4\0\0\0\x63\0\5\0\0\x80\0");
    feed_wire(&peer, &wire);
    assert_int_equal(stream->send_window, 99);
    assert_int_equal(peer.http2.peer_header_table_size, 0);
    assert_int_equal(peer.http2.peer_frame_size, 32768);
    wire.size = 0;
    PUT(&wire, SETTINGS, 0, 0, "\0\4\xff\0\0\0\0\4\0\0\0\x10");
    feed_wire(&peer, &wire);
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_FLOW_CONTROL);
    assert_int_equal(stream->send_window, 99);
    peer_deinit(&peer);
}

/* --- who sends next --- */

/* Lets everybody who wants send all it may, and tells who it was. */
static const char *order(peer_t *peer, unsigned frames) {
    static char text[256];
    size_t size = 0;
    text[0] = '\0';
    for (uint32_t capacity; frames > 0; frames--) {
        char head[9];
        uvhttp__http2_stream_t *stream = uvhttp__http2_next(&peer->http2, &capacity);
        if (!stream) break;
        note(text, sizeof text, &size, "%u:%u ", stream->id, capacity);
        uvhttp__http2_write_data(&peer->http2, stream, head, capacity, false);
    }
    return text;
}

static void want(peer_t *peer, uint32_t id, uint8_t priority) {
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer->http2, id);
    uvhttp__http2_set_priority(&peer->http2, stream, priority);
    uvhttp__http2_want(&peer->http2, stream, true);
}

static void test_urgency_decides_then_the_order(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 7);
    feed_window(&peer, 0, 1 << 20);
    want(&peer, 1, UVHTTP__HTTP2_PRIORITY(5, 0));
    want(&peer, 3, UVHTTP__HTTP2_PRIORITY(3, 0));
    want(&peer, 5, UVHTTP__HTTP2_PRIORITY(3, 0));
    want(&peer, 7, UVHTTP__HTTP2_PRIORITY(0, 0));
    assert_string_equal(order(&peer, 99), "7:16384 7:16384 7:16384 7:16383 3:16384 3:16384 3:16384 3:16383 "
                                          "5:16384 5:16384 5:16384 5:16383 1:16384 1:16384 1:16384 1:16383 ");
    feed_window(&peer, 5, 10);
    feed_window(&peer, 3, 20);
    assert_string_equal(order(&peer, 99), "5:10 3:20 ");
    peer_deinit(&peer);
}

static void test_incremental_streams_alternate(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 9);
    feed_window(&peer, 0, 1 << 20);
    want(&peer, 1, UVHTTP__HTTP2_PRIORITY(3, 1));
    want(&peer, 3, UVHTTP__HTTP2_PRIORITY(3, 0));
    want(&peer, 5, UVHTTP__HTTP2_PRIORITY(3, 1));
    want(&peer, 7, UVHTTP__HTTP2_PRIORITY(3, 0));
    assert_string_equal(order(&peer, 9), "3:16384 1:16384 3:16384 5:16384 3:16384 1:16384 3:16383 5:16384 7:16384 ");
    uvhttp__http2_want(&peer.http2, uvhttp__http2_find(&peer.http2, 1), false);
    uvhttp__http2_reset(&peer.http2, uvhttp__http2_find(&peer.http2, 7), UVHTTP__HTTP2_CANCEL);
    assert_string_equal(order(&peer, 2), "5:16384 5:16383 ");
    assert_string_equal(order(&peer, 2), "");
    peer_deinit(&peer);
}

static void test_the_window_of_the_connection_stops_all(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 3);
    want(&peer, 1, UVHTTP__HTTP2_PRIORITY(3, 1));
    want(&peer, 3, UVHTTP__HTTP2_PRIORITY(3, 1));
    assert_string_equal(order(&peer, 99), "1:16384 3:16384 1:16384 3:16383 ");
    feed_window(&peer, 0, 7);
    assert_string_equal(order(&peer, 99), "1:7 ");
    peer_deinit(&peer);
}

static void test_the_end_of_a_body_leaves_the_queue(void **state) {
    (void)state;
    static peer_t peer;
    char head[9];
    uint32_t capacity;
    peer_init(&peer);
    uvhttp__http2_stream_t *stream = open_streams(&peer, 1);
    want(&peer, 1, UVHTTP__HTTP2_PRIORITY_DEFAULT);
    assert_ptr_equal(uvhttp__http2_next(&peer.http2, &capacity), stream);
    uvhttp__http2_write_data(&peer.http2, stream, head, 3, true);
    assert_memory_equal(head, "\0\0\3\0\1\0\0\0\1", 9);
    assert_null(uvhttp__http2_next(&peer.http2, &capacity));
    assert_false(uvhttp__http2_writable(stream));
    peer_deinit(&peer);
}

static void test_priority_update(void **state) {
    (void)state;
    static peer_t peer;
    peer_init(&peer);
    (void)open_streams(&peer, 3);
    static wire_t wire;
    wire.size = 0;
    PUT(&wire, PRIORITY_UPDATE, 0, 0, "\0\0\0\3u=1, i");
    PUT(&wire, PRIORITY_UPDATE, 0, 0, "\0\0\0\5u=0");
    PUT(&wire, PRIORITY_UPDATE, 0, 0, "\0\0\0\x63u=0");
    PUT(&wire, PRIORITY_UPDATE, 0, 0, "\0\0\0\5u=7");
    PUT(&wire, HEADERS, WHOLE, 5, "head");
    feed_wire(&peer, &wire);
    want(&peer, 1, UVHTTP__HTTP2_PRIORITY(2, 0));
    want(&peer, 3, UVHTTP__HTTP2_PRIORITY(6, 0));
    want(&peer, 5, UVHTTP__HTTP2_PRIORITY(0, 0));
    assert_int_equal(uvhttp__http2_find(&peer.http2, 3)->priority, UVHTTP__HTTP2_PRIORITY(1, 1));
    assert_int_equal(uvhttp__http2_find(&peer.http2, 5)->priority, UVHTTP__HTTP2_PRIORITY(7, 0));
    assert_string_equal(order(&peer, 1), "3:16384 ");
    assert_int_equal(peer.http2.early_count, 1);
    peer_deinit(&peer);
}

static void test_priority_field(void **state) {
    (void)state;
    const struct {
        const char *value;
        unsigned urgency, incremental;
    } cases[] = {
        {"", 3, 0},           {"u=0", 0, 0},        {"u=7, i", 7, 1}, {"i", 3, 1},       {"i=?0", 3, 0},
        {"i=?1;x=1", 3, 1},   {"u=8", 3, 0},        {"u=-1", 3, 0},   {"u=1,u=2", 2, 0}, {"u=1.0", 3, 0},
        {" u=5 ,\ti ", 5, 1}, {"a=b, u=4;q", 4, 0}, {"u", 3, 0},      {",,,", 3, 0},     {"u=05", 3, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uvhttp_str_t value = {cases[i].value, strlen(cases[i].value)};
        assert_int_equal(uvhttp__http2_parse_priority(value),
                         UVHTTP__HTTP2_PRIORITY(cases[i].urgency, cases[i].incremental));
    }
}

static void test_priority_that_names_itself(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\1\0");
    PUT(&wire, HEADERS, WHOLE | WITH_PRIORITY, 3, "\x80\0\0\3\0head");
    PUT(&wire, HEADERS, WHOLE, 5, "head");
    PUT(&wire, PRIORITY, 0, 5, "\0\0\0\1");
    PUT(&wire, PRIORITY, 0, 7, "\0\0\0\7\0");
    expect(&wire,
           "headers 1 head\nreset 1 PROTOCOL_ERROR \ndiscard 0 head\nheaders 5 head\nreset 5 FRAME_SIZE_ERROR \n",
           "rst 1 PROTOCOL_ERROR\nrst 3 PROTOCOL_ERROR\nrst 5 FRAME_SIZE_ERROR\ngoaway 5 PROTOCOL_ERROR\n",
           UVHTTP_E_HTTP2_PROTOCOL);
}

static void own_discard(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_DATA) uvhttp__http2_discard(&peer->http2, event->stream, event->data.size);
}

/* Only the connection's window opens again. */
static void test_what_is_discarded_brings_no_credit_to_its_stream(void **state) {
    (void)state;
    static peer_t peer;
    static const char large[16000];
    peer_init(&peer);
    peer.own = own_discard;
    WIRE(wire);
    PUT(&wire, SETTINGS, ACK, 0, "");
    PUT(&wire, HEADERS, WHOLE, 1, "post");
    PUT(&wire, HEADERS, WHOLE, 3, "post");
    PUT(&wire, HEADERS, WHOLE, 5, "post");
    feed_wire(&peer, &wire);
    for (unsigned i = 0; i < 36; i++) {
        wire.size = 0;
        put_frame(&wire, DATA, 0, 1 + i % 3 * 2, large, sizeof large);
        feed_wire(&peer, &wire);
    }
    assert_string_equal(peer.sent, "settings ack\nwindow 0 +528000\n");
    assert_int_equal(uvhttp__http2_find(&peer.http2, 1)->held, 0);
    peer_deinit(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_hold_until_settings_are_acknowledged),
        cmocka_unit_test(test_a_window_that_is_exceeded),
        cmocka_unit_test(test_the_window_of_the_connection_holds_all_streams),
        cmocka_unit_test(test_credit_of_a_stream_is_returned_in_quarters),
        cmocka_unit_test(test_credit_of_an_iteration_is_one_frame),
        cmocka_unit_test(test_credit_that_is_due_when_the_body_ends),
        cmocka_unit_test(test_all_but_a_step_of_a_window_is_returned),
        cmocka_unit_test(test_credit_of_small_bodies_is_returned_in_halves),
        cmocka_unit_test(test_half_of_an_odd_window_is_the_smaller_half),
        cmocka_unit_test(test_little_credit_of_the_connection_waits),
        cmocka_unit_test(test_credit_of_the_connection_is_never_lost),
        cmocka_unit_test(test_windows_of_the_peer),
        cmocka_unit_test(test_windows_of_the_peer_that_overflow),
        cmocka_unit_test(test_a_setting_that_overflows_a_window),
        cmocka_unit_test(test_windows_of_streams_that_send_nothing_more_cannot_overflow),
        cmocka_unit_test(test_an_empty_frame_needs_no_window),
        cmocka_unit_test(test_settings_that_are_refused),
        cmocka_unit_test(test_every_entry_is_checked_and_the_last_applied),
        cmocka_unit_test(test_urgency_decides_then_the_order),
        cmocka_unit_test(test_incremental_streams_alternate),
        cmocka_unit_test(test_the_window_of_the_connection_stops_all),
        cmocka_unit_test(test_the_end_of_a_body_leaves_the_queue),
        cmocka_unit_test(test_priority_update),
        cmocka_unit_test(test_priority_field),
        cmocka_unit_test(test_priority_that_names_itself),
        cmocka_unit_test(test_what_is_discarded_brings_no_credit_to_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
