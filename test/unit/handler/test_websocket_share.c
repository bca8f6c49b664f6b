/* Owns: tests of the share that a WebSocket has of an iteration: what it has read counts in requests, and what is
 * behind it waits for the next iteration. */
/* Needs: websocket. */
#include "handler/websocket_channel.h"

enum { ZEROS = 4096 };

static const uvhttp__ws_deflate_t agreed = {.server_bits = 15, .client_bits = 15};

static unsigned received(const fixture_t *fixture) {
    return (unsigned)atomic_load(&fixture->counters->values[UVHTTP__COUNTER_ws_messages_received]);
}

/* So many frames, in one receive. */
static void give_frames(fixture_t *fixture, unsigned first_byte, const char *payload, size_t size, unsigned count) {
    char *bytes = malloc(count * (size + 6));
    assert_non_null(bytes);
    size_t at = 0;
    for (unsigned i = 0; i < count; i++) at += put_frame(bytes + at, first_byte, payload, size);
    fixture->log[0] = '\0';
    window_receive(&fixture->wire, bytes, at);
    free(bytes);
}

static void next(fixture_t *fixture) {
    fixture->log[0] = '\0';
    window_iterate(&fixture->wire);
}

static void test_eight_messages_count_as_a_request(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    window_allow(&fixture->wire, EVERYTHING);
    fixture->wire.share = 2;
    give_frames(fixture, TEXT, "a", 1, 40);
    assert_int_equal(received(fixture), 16);
    next(fixture);
    assert_int_equal(received(fixture), 32);
    next(fixture);
    assert_int_equal(received(fixture), 40);
    assert_int_equal(fixture->wire.kept_size, 0);
}

static void test_frames_of_control_count_too(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    fixture->wire.share = 1;
    window_allow(&fixture->wire, EVERYTHING);
    give_frames(fixture, PING, "", 0, 20);
    for (size_t pongs = 8; pongs <= 20; pongs += pongs == 16 ? 4 : 8) {
        next(fixture);
        assert_int_equal(fixture->wire.wire_size, 2 * pongs);
    }
    assert_int_equal(fixture->wire.kept_size, 0);
}

/* Behind our close frame, where frames are thrown away. */
static void test_frames_that_mean_nothing_count_too(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    window_allow(&fixture->wire, EVERYTHING);
    assert_int_equal(uvhttp_ws_close(fixture->ws, UVHTTP_WS_NORMAL, NULL), UVHTTP_OK);
    fixture->wire.share = 1;
    give_frames(fixture, TEXT, "a", 1, 20);
    assert_int_equal(fixture->wire.kept_size, 12 * 7);
    give(fixture, CLOSE, CLOSE_1000);
    next(fixture);
    next(fixture);
    EXPECT_LOG(fixture, "close 1000 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
}

/* However small it was on the wire. A message is given whole, and no other before the shares of as many iterations as
 * it costs. */
static void test_inflated_bytes_count(void **state) {
    if (!uvhttp__ws_deflate_available) skip();
    fixture_t *fixture = *state;
    const uvhttp_ws_options_t options = {.compression = true};
    open_with(fixture, &options, agreed);
    window_allow(&fixture->wire, EVERYTHING);
    static const char zeros[ZEROS];
    char packed[UVHTTP__WS_DEFLATE_CAPACITY(ZEROS)];
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_new((uvhttp__ws_deflate_settings_t){9, 8, 15});
    assert_non_null(deflater);
    size_t size = uvhttp__ws_deflate(deflater, zeros, sizeof zeros, packed);
    uvhttp__ws_deflater_free(deflater);
    assert_in_range(size, 1, 125);
    fixture->wire.share = ZEROS / 256 * 2;
    give_frames(fixture, FIN | 0x40 | UVHTTP__WS_BINARY, packed, size, 5);
    assert_int_equal(received(fixture), 2);
    fixture->wire.share = ZEROS / 256 / 4;
    for (unsigned i = 0; i < 12; i++) {
        next(fixture);
        assert_int_equal(received(fixture), 3 + i / 4);
    }
    assert_int_equal(fixture->wire.kept_size, 0);
}

/* The pause has the last word, and what is behind both is not lost. */
static void test_a_pause_where_the_share_ends(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    window_allow(&fixture->wire, EVERYTHING);
    fixture->wire.share = 1;
    give_frames(fixture, TEXT, "a", 1, 7);
    fixture->pauses = true;
    give_frames(fixture, TEXT, "a", 1, 3);
    assert_int_equal(received(fixture), 8);
    next(fixture);
    assert_int_equal(received(fixture), 8);
    fixture->pauses = false;
    uvhttp_ws_resume(fixture->ws);
    next(fixture);
    assert_int_equal(received(fixture), 10);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        TEST(test_eight_messages_count_as_a_request),  TEST(test_frames_of_control_count_too),
        TEST(test_frames_that_mean_nothing_count_too), TEST(test_inflated_bytes_count),
        TEST(test_a_pause_where_the_share_ends),       cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
