/* Owns: tests of the order of what a WebSocket sends: messages that wait for the end of a streamed one, the close
 * frame, and compressed messages that may refer to those before them. */
/* Needs: websocket. */
#include "handler/websocket_channel.h"

/* --- streamed messages --- */

static uint64_t errors_of(const fixture_t *fixture, int code) {
    return fixture->counters->errors[uvhttp__error_index(code)];
}

static void test_a_message_in_pieces_holds_others_back(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_begin(fixture->ws, UVHTTP_WS_TEXT), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_write(fixture->ws, "a", 1), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "other", 5), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_write(fixture->ws, "b", 1), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 3 + 3 + 7);
    assert_int_equal(uvhttp_ws_end(fixture->ws), UVHTTP_OK);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x01\x01"
                         "a"
                         "\x00\x01"
                         "b"
                         "\x80\x00\x81\x05other");
}

/* RFC 6455 section 5.4: no other message may stand in a fragmented one, and section 5.5.1: none behind a close frame.
 */
static void test_a_close_drops_what_waits_for_the_end_of_a_message_and_counts_it(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "first", 5), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_begin(fixture->ws, UVHTTP_WS_TEXT), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_write(fixture->ws, "a", 1), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "other", 5), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "more", 4), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_close(fixture->ws, UVHTTP_WS_NORMAL, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 7 + 3 + 4);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x81\x05"
                         "first"
                         "\x01\x01"
                         "a"
                         "\x88\x02" CLOSE_1000);
    assert_int_equal(fixture->counters->values[UVHTTP__COUNTER_ws_messages_sent], 1);
    assert_int_equal(errors_of(fixture, UVHTTP_E_CLOSED), 2);
}

static void test_messages_that_wait_are_counted_when_they_are_sent(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_begin(fixture->ws, UVHTTP_WS_TEXT), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "other", 5), UVHTTP_OK);
    assert_int_equal(fixture->counters->values[UVHTTP__COUNTER_ws_messages_sent], 0);
    assert_int_equal(uvhttp_ws_end(fixture->ws), UVHTTP_OK);
    assert_int_equal(fixture->counters->values[UVHTTP__COUNTER_ws_messages_sent], 2);
    assert_int_equal(errors_of(fixture, UVHTTP_E_CLOSED), 0);
}

/* It was accepted, so that others behind it would leave a gap that nobody sees. */
static void test_a_message_that_waited_and_finds_no_memory_resets_the_connection(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_begin(fixture->ws, UVHTTP_WS_TEXT), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "lost", 4), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "other", 5), UVHTTP_OK);
    fixture->wire.scarce_at = 2; /* behind the end of the streamed one */
    assert_int_equal(uvhttp_ws_end(fixture->ws), UVHTTP_OK);
    assert_int_equal(errors_of(fixture, UVHTTP_E_NOMEM), 1);
    assert_int_equal(errors_of(fixture, UVHTTP_E_CLOSED), 1);
    assert_int_equal(fixture->counters->values[UVHTTP__COUNTER_ws_messages_sent], 1);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "late", 4), UVHTTP_E_CLOSED);
    assert_true(fixture->wire.cut);
    window_iterate(&fixture->wire);
    EXPECT_LOG(fixture, "close 1006 ;");
}

/* --- compression --- */

/* Inflated, of a frame with RSV1 at `frame`. Returns the frame's size. */
static size_t unpack_behind(uvhttp__ws_inflater_t *inflater, const char *frame, char *text, size_t capacity,
                            size_t *written) {
    assert_int_equal((unsigned char)frame[0], FIN | UVHTTP__WS_COMPRESSED | UVHTTP__WS_TEXT);
    size_t size = (unsigned char)frame[1], left = size;
    assert_true(size < 126);
    const char *data = frame + 2;
    assert_int_equal(uvhttp__ws_inflate(inflater, &data, &left, true, text, capacity, written), UVHTTP_OK);
    return 2 + size;
}

static size_t unpack(const char *frame, char *text, size_t capacity, size_t *written) {
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    assert_non_null(inflater);
    size_t size = unpack_behind(inflater, frame, text, capacity, written);
    uvhttp__ws_inflater_give(NULL, inflater);
    return size;
}

static const uvhttp_ws_options_t compressing = {.compression = true, .compression_size_min = 1};
static const uvhttp__ws_deflate_t agreed = {.server_bits = 15, .client_bits = 15};

static void test_compressed_messages_are_echoed_compressed(void **state) {
    if (!uvhttp__ws_deflate_available) skip();
    fixture_t *fixture = *state;
    open_with(fixture, &compressing, agreed);
    static const char hello[] = "\xf2\x48\xcd\xc9\xc9\x07"; /* RFC 7692 section 7.2.3.1, without its zero */
    char frame[32], text[256];
    size_t size = put_frame(frame, TEXT | UVHTTP__WS_COMPRESSED, hello, sizeof hello); /* which is the terminator */
    window_receive(&fixture->wire, frame, size);
    EXPECT_LOG(fixture, "text Hello;");
    char repeated[200];
    memset(repeated, 'x', sizeof repeated);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, repeated, sizeof repeated), UVHTTP_OK);
    window_allow(&fixture->wire, EVERYTHING);
    size_t at = 2 + (size_t)(unsigned char)fixture->wire.wire[1], written;
    at += unpack(fixture->wire.wire + at, text, sizeof text, &written);
    assert_int_equal(at, fixture->wire.wire_size);
    assert_int_equal(written, sizeof repeated);
    assert_memory_equal(text, repeated, written);
}

/* With context takeover the client has what it was sent, and not what send_queue_max has refused. */
static void test_no_message_refers_to_one_that_was_refused(void **state) {
    if (!uvhttp__ws_deflate_available) skip();
    fixture_t *fixture = *state;
    const uvhttp_ws_options_t options = {.compression = true, .compression_size_min = 1, .send_queue_max = 100};
    open_with(fixture, &options, (uvhttp__ws_deflate_t){.server_bits = 15, .client_bits = 15, .server_takeover = true});
    uvhttp__ws_inflater_t *client = uvhttp__ws_inflater_take(NULL);
    assert_non_null(client);
    char first[80], refused[160], text[256];
    memset(first, 'x', sizeof first);
    test_random_t random = {1};
    for (size_t i = 0; i < sizeof refused; i++) refused[i] = "0123456789abcdef"[test_random_below(&random, 16)];
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, first, sizeof first), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, refused, sizeof refused), UVHTTP_E_LIMIT);
    window_allow(&fixture->wire, EVERYTHING);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, refused, 100), UVHTTP_OK);
    window_iterate(&fixture->wire);
    size_t written, at = unpack_behind(client, fixture->wire.wire, text, sizeof text, &written);
    assert_int_equal(written, sizeof first);
    assert_memory_equal(text, first, written);
    at += unpack_behind(client, fixture->wire.wire + at, text, sizeof text, &written);
    assert_int_equal(at, fixture->wire.wire_size);
    assert_int_equal(written, 100);
    assert_memory_equal(text, refused, written);
    uvhttp__ws_inflater_give(NULL, client);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        TEST(test_a_message_in_pieces_holds_others_back),
        TEST(test_a_close_drops_what_waits_for_the_end_of_a_message_and_counts_it),
        TEST(test_messages_that_wait_are_counted_when_they_are_sent),
        TEST(test_a_message_that_waited_and_finds_no_memory_resets_the_connection),
        TEST(test_compressed_messages_are_echoed_compressed),
        TEST(test_no_message_refers_to_one_that_was_refused),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
