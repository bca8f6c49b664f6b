/* Owns: tests of frames that are read: every input at every split point, and what each fault ends in. */
#include "http2_feed.h"

static void test_a_request_and_its_body(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, DATA, 0, 1, "hello ");
    PUT(&wire, DATA, END, 1, "world");
    put_get(&wire, 3);
    expect(&wire, "headers 1 head\ndata 1 hello world.\nheaders 3 get.\n", "", UVHTTP_E_AGAIN);
}

static void test_padding_and_priority_are_not_shown(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE | PADDED | WITH_PRIORITY, 1, "\x03\0\0\0\0\x10head\0\0\0");
    PUT(&wire, DATA, PADDED, 1, "\x02hello\0\0");
    PUT(&wire, DATA, PADDED, 1, "\x01\0");
    PUT(&wire, DATA, PADDED | END, 1, "\0");
    expect(&wire, "headers 1 head\ndata 1 hello.\n", "", UVHTTP_E_AGAIN);
}

static void test_trailers_end_a_request(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, DATA, 0, 1, "body");
    PUT(&wire, HEADERS, END | WHOLE, 1, "trailer");
    expect(&wire, "headers 1 head\ndata 1 body\ntrailers 1 trailer.\n", "", UVHTTP_E_AGAIN);
}

static void test_the_reserved_bit_is_ignored(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, END | WHOLE, 1 | 0x80000000u, "head");
    expect(&wire, "headers 1 head.\n", "", UVHTTP_E_AGAIN);
}

static void test_unknown_frames_and_flags_are_ignored(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, 0x0b, 0xff, 0, "anything");
    PUT(&wire, 0xff, 0, 77, "");
    PUT(&wire, HEADERS, END | WHOLE | 0xd2, 1, "head");
    expect(&wire, "headers 1 head.\n", "", UVHTTP_E_AGAIN);
}

static void test_ping_is_acknowledged(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, PING, 0, 0, "12345678");
    PUT(&wire, PING, ACK, 0, "87654321");
    expect(&wire, "", "ping ack 12345678\n", UVHTTP_E_AGAIN);
}

static void test_goaway_of_the_peer(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, GOAWAY, 0, 0,
        "\0\0\0\0\0\0\0\x0b"
        "debug data");
    put_get(&wire, 1);
    expect(&wire, "goaway 0 ENHANCE_YOUR_CALM \nheaders 1 get.\n", "", UVHTTP_E_AGAIN);
}

static void test_a_preface_that_is_none(void **state) {
    (void)state;
    static wire_t wire;
    for (size_t at = 0; at < UVHTTP__HTTP2_PREFACE_SIZE; at++) {
        wire.size = 0;
        put_raw(&wire, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE);
        wire.data[at] ^= 1;
        for (size_t first = 0; first <= wire.size; first++)
            expect_cut(&wire, NULL, "", "goaway 0 PROTOCOL_ERROR\n", UVHTTP_E_HTTP2_PREFACE, first, wire.size);
        assert_int_equal(uvhttp__http2_is_preface(wire.data, wire.size), UVHTTP_E_HTTP2_PREFACE);
        assert_int_equal(uvhttp__http2_is_preface(wire.data, at), UVHTTP_E_AGAIN);
    }
    assert_int_equal(uvhttp__http2_is_preface(UVHTTP__HTTP2_PREFACE "x", 25), UVHTTP_OK);
}

static void test_settings_come_first(void **state) {
    (void)state;
    static wire_t wire;
    for (unsigned i = 0; i < 2; i++) {
        wire.size = 0;
        put_raw(&wire, UVHTTP__HTTP2_PREFACE, UVHTTP__HTTP2_PREFACE_SIZE);
        if (i == 0) PUT(&wire, PING, 0, 0, "12345678");
        if (i == 1) PUT(&wire, SETTINGS, ACK, 0, "");
        for (size_t first = 0; first <= wire.size; first++)
            expect_cut(&wire, NULL, "", "goaway 0 PROTOCOL_ERROR\n", UVHTTP_E_HTTP2_PREFACE, first, wire.size);
    }
}

typedef struct fault {
    const char *name;
    uint8_t type, flags;
    uint32_t id;
    uint32_t size; /* as the head says; the payload is zeros */
    int code;
} fault_t;

/* Faults that are connection errors wherever they come. Stream 1 is open, its request not whole; 3 is idle. */
static const fault_t faults[] = {
    {"DATA on stream 0 (6.1)", DATA, 0, 0, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"DATA on an idle stream (5.1)", DATA, 0, 3, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"DATA on a stream of ours (5.1.1)", DATA, 0, 2, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"padding of all of DATA (6.1)", DATA, PADDED, 1, 0, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"frame above 16384 (4.2)", DATA, 0, 1, 16385, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"unknown frame above 16384 (4.2)", 0x77, 0, 1, 16385, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"HEADERS on stream 0 (6.2)", HEADERS, WHOLE, 0, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"HEADERS on an even stream (5.1.1)", HEADERS, WHOLE, 4, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"HEADERS without the length of its padding", HEADERS, WHOLE | PADDED, 3, 0, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"HEADERS too small for its priority", HEADERS, WHOLE | WITH_PRIORITY, 3, 4, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"PRIORITY on stream 0 (6.3)", PRIORITY, 0, 0, 5, UVHTTP_E_HTTP2_PROTOCOL},
    {"RST_STREAM on stream 0 (6.4)", RST_STREAM, 0, 0, 4, UVHTTP_E_HTTP2_PROTOCOL},
    {"RST_STREAM on an idle stream (6.4)", RST_STREAM, 0, 3, 4, UVHTTP_E_HTTP2_PROTOCOL},
    {"RST_STREAM of 3 bytes (6.4)", RST_STREAM, 0, 1, 3, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"SETTINGS on a stream (6.5)", SETTINGS, 0, 1, 0, UVHTTP_E_HTTP2_PROTOCOL},
    {"SETTINGS of 5 bytes (6.5)", SETTINGS, 0, 0, 5, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"SETTINGS ACK that is not empty (6.5)", SETTINGS, ACK, 0, 6, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"PUSH_PROMISE of a client (8.4)", PUSH_PROMISE, WHOLE, 1, 8, UVHTTP_E_HTTP2_PROTOCOL},
    {"PUSH_PROMISE on stream 0 (6.6)", PUSH_PROMISE, WHOLE, 0, 8, UVHTTP_E_HTTP2_PROTOCOL},
    {"PING on a stream (6.7)", PING, 0, 1, 8, UVHTTP_E_HTTP2_PROTOCOL},
    {"PING of 7 bytes (6.7)", PING, 0, 0, 7, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"GOAWAY on a stream (6.8)", GOAWAY, 0, 1, 8, UVHTTP_E_HTTP2_PROTOCOL},
    {"GOAWAY of 7 bytes (6.8)", GOAWAY, 0, 0, 7, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"WINDOW_UPDATE of 5 bytes (6.9)", WINDOW_UPDATE, 0, 1, 5, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"WINDOW_UPDATE of 0 of the connection (6.9)", WINDOW_UPDATE, 0, 0, 4, UVHTTP_E_HTTP2_PROTOCOL},
    {"WINDOW_UPDATE of an idle stream (5.1)", WINDOW_UPDATE, 0, 3, 4, UVHTTP_E_HTTP2_PROTOCOL},
    {"CONTINUATION of nothing (6.10)", CONTINUATION, WHOLE, 1, 1, UVHTTP_E_HTTP2_PROTOCOL},
    {"PRIORITY_UPDATE on a stream (RFC 9218 7.1)", PRIORITY_UPDATE, 0, 1, 4, UVHTTP_E_HTTP2_PROTOCOL},
    {"PRIORITY_UPDATE of 3 bytes", PRIORITY_UPDATE, 0, 0, 3, UVHTTP_E_HTTP2_FRAME_SIZE},
    {"PRIORITY_UPDATE of stream 0 (RFC 9218 7.1)", PRIORITY_UPDATE, 0, 0, 4, UVHTTP_E_HTTP2_PROTOCOL},
};

static void test_connection_errors(void **state) {
    (void)state;
    static char zeros[1 << 14];
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault_t *fault = &faults[i];
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        put_head(&wire, fault->size, fault->type, fault->flags, fault->id);
        put_raw(&wire, zeros, fault->size <= sizeof zeros ? fault->size : 0);
        expect_error(&wire, "headers 1 head\n",
                     fault->code == UVHTTP_E_HTTP2_FRAME_SIZE ? "1 FRAME_SIZE_ERROR" : "1 PROTOCOL_ERROR", fault->code);
    }
}

static void test_padding_longer_than_the_frame(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        if (i == 0)
            PUT(&wire, DATA, PADDED, 1,
                "\x04"
                "123");
        if (i == 1)
            PUT(&wire, HEADERS, END | WHOLE | PADDED, 1,
                "\x04"
                "123");
        expect_error(&wire, "headers 1 head\n", "1 PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL);
    }
}

static void test_an_error_stays(void **state) {
    (void)state;
    static peer_t peer;
    WIRE(wire);
    PUT(&wire, PING, 0, 1, "12345678");
    peer_init(&peer);
    assert_false(feed(&peer, wire.data, wire.size));
    size_t consumed = peer.consumed;
    assert_false(feed(&peer, wire.data, wire.size));
    assert_int_equal(peer.consumed, consumed);
    assert_string_equal(peer.sent, "settings ack\ngoaway 0 PROTOCOL_ERROR\n");
    assert_int_equal(peer.code, UVHTTP_E_HTTP2_PROTOCOL);
    assert_true(uvhttp__http2_done(&peer.http2));
    assert_int_equal(peer.counters.connection_errors, 1);
    peer_deinit(&peer);
}

static void test_whether_a_frame_is_under_way(void **state) {
    (void)state;
    static peer_t peer;
    WIRE(wire);
    size_t preface = wire.size;
    put_get(&wire, 1);
    peer_init(&peer);
    assert_true(uvhttp__http2_in_frame(&peer.http2));
    assert_true(feed(&peer, wire.data, preface));
    assert_false(uvhttp__http2_in_frame(&peer.http2));
    for (size_t at = preface; at < wire.size; at++) {
        assert_true(feed(&peer, wire.data + at, 1));
        assert_int_equal(uvhttp__http2_in_frame(&peer.http2), at + 1 < wire.size);
    }
    peer_deinit(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_and_its_body),
        cmocka_unit_test(test_padding_and_priority_are_not_shown),
        cmocka_unit_test(test_trailers_end_a_request),
        cmocka_unit_test(test_the_reserved_bit_is_ignored),
        cmocka_unit_test(test_unknown_frames_and_flags_are_ignored),
        cmocka_unit_test(test_ping_is_acknowledged),
        cmocka_unit_test(test_goaway_of_the_peer),
        cmocka_unit_test(test_a_preface_that_is_none),
        cmocka_unit_test(test_settings_come_first),
        cmocka_unit_test(test_connection_errors),
        cmocka_unit_test(test_padding_longer_than_the_frame),
        cmocka_unit_test(test_an_error_stays),
        cmocka_unit_test(test_whether_a_frame_is_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
