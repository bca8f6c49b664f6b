/* Owns: tests of header blocks in several frames, in both directions. */
#include "http2_feed.h"

static void test_a_block_in_pieces_is_one(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, END | PADDED | WITH_PRIORITY, 1,
        "\x02\0\0\0\0\x10"
        "one\0\0");
    PUT(&wire, CONTINUATION, 0, 1, "");
    PUT(&wire, CONTINUATION, 0, 1, "two");
    PUT(&wire, CONTINUATION, WHOLE, 1, "three");
    PUT(&wire, HEADERS, END, 3, "");
    PUT(&wire, CONTINUATION, WHOLE, 3, "all");
    expect(&wire, "headers 1 onetwothree.\nheaders 3 all.\n", "", UVHTTP_E_AGAIN);
}

static void test_nothing_may_come_between(void **state) {
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        WIRE(wire);
        PUT(&wire, HEADERS, END, 1, "one");
        if (i == 0) PUT(&wire, PING, 0, 0, "12345678");
        if (i == 1) PUT(&wire, CONTINUATION, WHOLE, 3, "two");
        if (i == 2) PUT(&wire, 0x44, 0, 1, "two");
        if (i == 3) PUT(&wire, HEADERS, WHOLE, 3, "two");
        expect_error(&wire, "", "0 PROTOCOL_ERROR", UVHTTP_E_HTTP2_PROTOCOL);
    }
}

static void test_trailers_without_an_end(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, HEADERS, 0, 1, "trai");
    PUT(&wire, CONTINUATION, WHOLE, 1, "ler");
    expect(&wire, "headers 1 head\nreset 1 PROTOCOL_ERROR trailer\n", "rst 1 PROTOCOL_ERROR\n", UVHTTP_E_AGAIN);
}

static void test_floods_of_continuation(void **state) {
    (void)state;
    static char zeros[16384];
    static peer_t peer;
    WIRE(wire);
    PUT(&wire, HEADERS, END, 1, "one");
    for (unsigned i = 0; i < 9; i++) PUT(&wire, CONTINUATION, 0, 1, "");
    expect_error(&wire, "", "0 ENHANCE_YOUR_CALM", UVHTTP_E_HTTP2_FLOOD);
    wire.size = 0;
    put_preface(&wire);
    put_frame(&wire, HEADERS, END, 1, zeros, sizeof zeros);
    put_frame(&wire, CONTINUATION, 0, 1, zeros, sizeof zeros);
    put_frame(&wire, CONTINUATION, 0, 1, zeros, 1);
    peer_init(&peer);
    feed_wire(&peer, &wire);
    expect_texts(&peer, "settings 0 \n", "settings ack\ngoaway 0 ENHANCE_YOUR_CALM\n", UVHTTP_E_HTTP2_FLOOD);
    assert_int_equal(peer.counters.header_blocks_too_large, 1);
    assert_true(peer.http2.memory <= 65536 + 1024);
    peer_deinit(&peer);
}

static void test_the_frame_of_a_response(void **state) {
    (void)state;
    static peer_t peer;
    char frame[64] = "........."
                     "block";
    WIRE(wire);
    put_get(&wire, 1);
    peer_init(&peer);
    feed_wire(&peer, &wire);
    uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, 1);
    assert_int_equal(uvhttp__http2_headers_size(&peer.http2, 5), 14);
    assert_int_equal(uvhttp__http2_write_headers(&peer.http2, stream, frame, 5, false), 14);
    assert_memory_equal(frame, "\0\0\5\1\4\0\0\0\1block", 14);
    assert_true(uvhttp__http2_writable(stream));
    assert_int_equal(uvhttp__http2_write_headers(&peer.http2, stream, frame, 5, true), 14);
    assert_memory_equal(frame, "\0\0\5\1\5\0\0\0\1block", 14);
    assert_false(uvhttp__http2_writable(stream));
    peer_deinit(&peer);
}

/* What is written is what the core reads. */
static void test_a_large_block_is_spread(void **state) {
    (void)state;
    static peer_t peer;
    static char frame[70000], block[60000];
    for (size_t i = 0; i < sizeof block; i++) block[i] = (char)(i * 7 + i / 251);
    for (size_t size = 16383; size <= sizeof block; size += size < 16386 ? 1 : 8191) {
        WIRE(wire);
        put_get(&wire, 1);
        peer_init(&peer);
        feed_wire(&peer, &wire);
        memcpy(frame + 9, block, size);
        size_t written =
            uvhttp__http2_write_headers(&peer.http2, uvhttp__http2_find(&peer.http2, 1), frame, size, size & 1);
        assert_int_equal(written, uvhttp__http2_headers_size(&peer.http2, size));
        size_t at = 0, seen = 0;
        for (unsigned i = 0; at < written; i++) {
            size_t part = uvhttp__http2_get32(frame + at) >> 8;
            assert_int_equal(frame[at + 3], i == 0 ? HEADERS : CONTINUATION);
            assert_int_equal(frame[at + 4], (i == 0 && size & 1 ? END : 0) | (at + 9 + part == written ? WHOLE : 0));
            assert_true(part <= 16384);
            assert_memory_equal(frame + at + 9, block + seen, part);
            at += 9 + part;
            seen += part;
        }
        assert_int_equal(seen, size);
        peer_deinit(&peer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_in_pieces_is_one), cmocka_unit_test(test_nothing_may_come_between),
        cmocka_unit_test(test_trailers_without_an_end),  cmocka_unit_test(test_floods_of_continuation),
        cmocka_unit_test(test_the_frame_of_a_response),  cmocka_unit_test(test_a_large_block_is_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
