/* Owns: tests of stream states (RFC 9113 section 5.1): which frame does what in which state, and how slots end. */
#include "http2_feed.h"

static void own_reset(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS)
        uvhttp__http2_reset(&peer->http2, event->stream, UVHTTP__HTTP2_CANCEL);
}
static void own_reset_release(peer_t *peer, const uvhttp__http2_event_t *event) {
    own_reset(peer, event);
    if (event->stream) uvhttp__http2_release(&peer->http2, event->stream);
}
static void own_early(peer_t *peer, const uvhttp__http2_event_t *event) {
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS) respond(peer, event->stream, 13);
}
/* Responds and keeps working. */
static void own_linger(peer_t *peer, const uvhttp__http2_event_t *event) {
    char frame[64];
    if (event->type == UVHTTP__HTTP2_EVENT_HEADERS)
        (void)uvhttp__http2_write_headers(&peer->http2, event->stream, frame, 8, true);
}

static void test_half_closed_remote_takes_no_more(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        WIRE(wire);
        put_get(&wire, 1);
        if (i == 0) PUT(&wire, DATA, 0, 1, "more");
        if (i == 1) PUT(&wire, HEADERS, WHOLE | END, 1, "more");
        put_get(&wire, 3);
        expect(&wire,
               i == 0 ? "headers 1 get.\nreset 1 STREAM_CLOSED \nheaders 3 get.\n"
                      : "headers 1 get.\nreset 1 STREAM_CLOSED more\nheaders 3 get.\n",
               "rst 1 STREAM_CLOSED\n", UVHTTP_E_AGAIN);
    }
}

static void test_half_closed_remote_may_get_frames(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    put_number(&wire, WINDOW_UPDATE, 1, 5);
    PUT(&wire, PRIORITY, 0, 1, "\0\0\0\0\x10");
    put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
    expect(&wire, "headers 1 get.\nreset 1 by peer CANCEL \n", "", UVHTTP_E_AGAIN);
}

static void test_a_stream_that_has_finished_gets_nothing(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        WIRE(wire);
        put_get(&wire, 1);
        put_number(&wire, WINDOW_UPDATE, 1, 5);
        PUT(&wire, PRIORITY, 0, 1, "\0\0\0\0\x10");
        put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
        if (i == 0) PUT(&wire, DATA, 0, 1, "more");
        if (i == 1) PUT(&wire, HEADERS, WHOLE | END, 1, "more");
        if (i == 2) PUT(&wire, DATA, END, 1, "");
        expect_own(&wire, own_respond, "headers 1 get.\n", "goaway 1 STREAM_CLOSED\n", UVHTTP_E_HTTP2_STREAM_CLOSED);
    }
}

static void test_frames_may_be_under_way_when_we_reset(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        PUT(&wire, DATA, 0, 1, "body");
        put_number(&wire, WINDOW_UPDATE, 1, 0);
        PUT(&wire, HEADERS, WHOLE | END, 1, "trailer");
        put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
        put_get(&wire, 3);
        expect_own(&wire, i == 0 ? own_reset : own_reset_release, "headers 1 head\ndiscard 0 trailer\nheaders 3 get.\n",
                   "rst 1 CANCEL\nrst 3 CANCEL\n", UVHTTP_E_AGAIN);
    }
}

static void test_frames_after_a_reset_of_the_peer_are_errors_of_the_stream(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        put_number(&wire, RST_STREAM, 1, UVHTTP__HTTP2_CANCEL);
        if (i == 0) PUT(&wire, DATA, 0, 1, "body");
        if (i == 1) PUT(&wire, HEADERS, WHOLE | END, 1, "trailer");
        for (unsigned released = 0; released < 2; released++)
            expect_own(&wire, released ? own_respond : NULL,
                       i == 0 ? "headers 1 head\nreset 1 by peer CANCEL \n"
                              : "headers 1 head\nreset 1 by peer CANCEL \ndiscard 0 trailer\n",
                       "rst 1 STREAM_CLOSED\n", UVHTTP_E_AGAIN);
    }
}

static void test_ids_only_rise(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 5);
    put_get(&wire, 3);
    expect_own(&wire, own_respond, "headers 5 get.\n", "goaway 5 PROTOCOL_ERROR\n", UVHTTP_E_HTTP2_PROTOCOL);
}

static void test_ids_are_odd(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 2);
    expect_own(&wire, own_respond, "", "goaway 0 PROTOCOL_ERROR\n", UVHTTP_E_HTTP2_PROTOCOL);
}

static void test_an_early_response_ends_the_request(void **state) {
    (void)state;
    WIRE(wire);
    PUT(&wire, HEADERS, WHOLE, 1, "head");
    PUT(&wire, DATA, END, 1, "body");
    expect_own(&wire, own_early, "headers 1 head\n", "rst 1 NO_ERROR\n", UVHTTP_E_AGAIN);
}

static void test_work_that_ends_without_a_response(void **state) {
    (void)state;
    static peer_t peer;
    WIRE(wire);
    put_get(&wire, 1);
    peer_init(&peer);
    feed_wire(&peer, &wire);
    uvhttp__http2_release(&peer.http2, uvhttp__http2_find(&peer.http2, 1));
    take_control(&peer);
    assert_string_equal(peer.sent, "settings ack\nrst 1 INTERNAL_ERROR\n");
    assert_null(uvhttp__http2_find(&peer.http2, 1));
    peer_deinit(&peer);
}

static void test_a_reset_stream_counts_until_its_work_has_ended(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_limits_t limits;
    uvhttp__http2_limits_default(&limits);
    limits.streams_max = 2;
    WIRE(wire);
    for (uint32_t id = 1; id <= 5; id += 2) {
        put_get(&wire, id);
        put_number(&wire, RST_STREAM, id, UVHTTP__HTTP2_CANCEL);
    }
    peer_init_with(&peer, &limits);
    feed_wire(&peer, &wire);
    expect_texts(&peer,
                 "settings 0 \nheaders 1 get.\nreset 1 by peer CANCEL \nheaders 3 get.\nreset 3 by peer CANCEL \n"
                 "discard 0 get\n",
                 "settings ack\nrst 5 REFUSED_STREAM\n", UVHTTP_E_AGAIN);
    assert_int_equal(peer.counters.streams_refused, 1);
    uvhttp__http2_release(&peer.http2, uvhttp__http2_find(&peer.http2, 1));
    wire.size = 0;
    put_get(&wire, 7);
    feed_wire(&peer, &wire);
    assert_non_null(uvhttp__http2_find(&peer.http2, 7));
    peer_deinit(&peer);
}

static void test_a_response_that_lingers_counts(void **state) {
    (void)state;
    WIRE(wire);
    put_get(&wire, 1);
    PUT(&wire, DATA, 0, 1, "more");
    expect_own(&wire, own_linger, "headers 1 get.\n", "goaway 1 STREAM_CLOSED\n", UVHTTP_E_HTTP2_STREAM_CLOSED);
}

static void test_content_length_is_held_to(void **state) {
    (void)state;
    const struct {
        uint64_t length;
        const char *events, *sent;
    } cases[] = {
        {8, "headers 1 head\ndata 1 12345678.\n", ""},
        {9, "headers 1 head\ndata 1 1234\nreset 1 PROTOCOL_ERROR \n", "rst 1 PROTOCOL_ERROR\n"},
        {7, "headers 1 head\ndata 1 1234\nreset 1 PROTOCOL_ERROR \n", "rst 1 PROTOCOL_ERROR\n"},
        {3, "headers 1 head\nreset 1 PROTOCOL_ERROR \n", "rst 1 PROTOCOL_ERROR\n"},
    };
    static peer_t peer;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[256];
        WIRE(wire);
        PUT(&wire, HEADERS, WHOLE, 1, "head");
        size_t head = wire.size;
        PUT(&wire, DATA, 0, 1, "1234");
        PUT(&wire, DATA, END, 1, "5678");
        peer_init(&peer);
        assert_true(feed(&peer, wire.data, head));
        uvhttp__http2_stream_t *stream = uvhttp__http2_find(&peer.http2, 1);
        assert_int_equal(uvhttp__http2_set_content_length(&peer.http2, stream, cases[i].length), 0);
        for (; head < wire.size; head++) assert_true(feed(&peer, wire.data + head, 1));
        snprintf(expected, sizeof expected, "settings 0 \n%s", cases[i].events);
        assert_string_equal(peer.events, expected);
        assert_string_equal(peer.sent + strlen("settings ack\n"), cases[i].sent);
        assert_int_equal(peer.counters.length_mismatches, i > 0);
        peer_deinit(&peer);
    }
}

static void test_content_length_is_held_to_at_the_other_ends(void **state) {
    (void)state;
    static peer_t peer;
    WIRE(wire);
    put_get(&wire, 1);
    PUT(&wire, HEADERS, WHOLE, 3, "head");
    peer_init(&peer);
    feed_wire(&peer, &wire);
    uvhttp__http2_stream_t *get = uvhttp__http2_find(&peer.http2, 1), *post = uvhttp__http2_find(&peer.http2, 3);
    assert_int_equal(uvhttp__http2_set_content_length(&peer.http2, get, 0), 0);
    assert_int_equal(uvhttp__http2_set_content_length(&peer.http2, get, 1), UVHTTP_E_HTTP_CONTENT_LENGTH);
    assert_int_equal(uvhttp__http2_set_content_length(&peer.http2, post, 1), 0);
    wire.size = 0;
    PUT(&wire, HEADERS, WHOLE | END, 3, "trailer");
    feed_wire(&peer, &wire);
    assert_string_equal(peer.sent, "settings ack\nrst 3 PROTOCOL_ERROR\n");
    assert_non_null(strstr(peer.events, "reset 3 PROTOCOL_ERROR trailer\n"));
    peer_deinit(&peer);
}

/* Streams come and go in any order; each is found, and its slot does not move. */
static void test_many_streams(void **state) {
    (void)state;
    static peer_t peer;
    uvhttp__http2_stream_t *open[100] = {0};
    uint32_t ids[100] = {0}, id = 1, random = 1;
    peer_init(&peer);
    WIRE(wire);
    for (unsigned round = 0; round < 5000; round++) {
        random = random * 1664525 + 1013904223;
        unsigned at = (random >> 8) % 100;
        if (open[at]) {
            assert_ptr_equal(uvhttp__http2_find(&peer.http2, ids[at]), open[at]);
            respond(&peer, open[at], 0);
            assert_null(uvhttp__http2_find(&peer.http2, ids[at]));
            open[at] = NULL;
            continue;
        }
        put_get(&wire, id);
        feed_wire(&peer, &wire);
        peer.events_size = peer.sent_size = wire.size = 0;
        open[at] = uvhttp__http2_find(&peer.http2, ids[at] = id);
        assert_non_null(open[at]);
        id += 2 + (random >> 20) % 3 * 2;
    }
    for (unsigned i = 0; i < 100; i++)
        if (open[i]) respond(&peer, open[i], 0);
    assert_int_equal(peer.http2.stream_count, 0);
    take_control(&peer);
    assert_true(peer.http2.memory > 0);
    uvhttp__http2_trim(&peer.http2);
    assert_int_equal(peer.http2.memory, 0);
    put_get(&wire, id);
    feed_wire(&peer, &wire);
    assert_non_null(uvhttp__http2_find(&peer.http2, id));
    peer_deinit(&peer);
}

typedef struct visits {
    peer_t *peer;
    bool keeps; /* the stream that is visited */
    unsigned count;
} visits_t;

static void visit(uvhttp__http2_stream_t *stream, void *arg) {
    visits_t *visits = arg;
    assert_true(stream->flags & UVHTTP__HTTP2_IN_USE);
    visits->count++;
    for (uint32_t id = 1; id <= 19; id += 2) {
        uvhttp__http2_stream_t *open = uvhttp__http2_find(&visits->peer->http2, id);
        if (open && !(visits->keeps && open == stream)) respond(visits->peer, open, 0);
    }
}

/* Those with the ids 1, 9 and 17 are in one bucket. */
static void test_a_visit_may_end_any_stream(void **state) {
    (void)state;
    static peer_t peer;
    for (unsigned kept = 0; kept < 2; kept++) {
        peer_init(&peer);
        WIRE(wire);
        for (uint32_t id = 1; id <= 19; id += 2) {
            put_get(&wire, id);
            feed_wire(&peer, &wire);
            wire.size = 0;
            if (id % 8 != 1) respond(&peer, uvhttp__http2_find(&peer.http2, id), 0);
        }
        assert_int_equal(peer.http2.stream_count, 3);
        assert_int_equal(peer.http2.bucket_mask, 3);
        visits_t visits = {&peer, kept, 0};
        uvhttp__http2_each_stream(&peer.http2, visit, &visits);
        assert_int_equal(visits.count, 1);
        assert_int_equal(peer.http2.stream_count, kept);
        visits.keeps = false;
        uvhttp__http2_each_stream(&peer.http2, visit, &visits);
        assert_int_equal(visits.count, 1 + kept);
        assert_int_equal(peer.http2.stream_count, 0);
        peer_deinit(&peer);
    }
}

/* What is known of closed streams, against all that ever were. */
static void test_history(void **state) {
    (void)state;
    static peer_t peer;
    static uint8_t ended[4096];
    uint32_t id = 1, random = 7;
    peer_init(&peer);
    for (unsigned round = 0; round < 1000; round++) {
        random = random * 1664525 + 1013904223;
        uvhttp__http2_stream_t *stream = uvhttp__http2_open_stream(&peer.http2, id, false);
        assert_non_null(stream);
        unsigned how = random >> 16 & 1;
        stream->flags |= UVHTTP__HTTP2_REMOTE_ENDED | UVHTTP__HTTP2_LOCAL_ENDED;
        if (how == 1) uvhttp__http2_reset(&peer.http2, stream, UVHTTP__HTTP2_CANCEL);
        uvhttp__http2_release(&peer.http2, stream);
        take_control(&peer);
        peer.sent_size = 0;
        ended[id / 2] = how ? UVHTTP__HTTP2_WAS_RESET : UVHTTP__HTTP2_FINISHED;
        for (uint32_t old = id; old > 0 && id - old<2 * 96; old -= old> 1 ? 2 : 1)
            assert_int_equal(uvhttp__http2_history(&peer.http2, old), ended[old / 2]);
        uint32_t next = id + 2 + (random >> 20 & 3) * 2;
        for (uint32_t skipped = id + 2; skipped < next; skipped += 2) ended[skipped / 2] = UVHTTP__HTTP2_SKIPPED;
        id = next > 8000 ? id + 2 : next;
    }
    if (id > 400) assert_int_equal(uvhttp__http2_history(&peer.http2, 1), UVHTTP__HTTP2_WAS_RESET);
    peer_deinit(&peer);
}

/* The bits of a stream that ended long after it was opened are those of a later one already. */
static void test_a_late_end_says_nothing_of_a_later_stream(void **state) {
    (void)state;
    static peer_t peer;
    enum { LATE = 20, LAST = 140, LATER = LATE + UVHTTP__HTTP2_HISTORY };
    uvhttp__http2_stream_t *late = NULL;
    peer_init(&peer);
    for (uint32_t number = 0; number <= LATER; number++) {
        uvhttp__http2_stream_t *stream = uvhttp__http2_open_stream(&peer.http2, 2 * number + 1, true);
        assert_non_null(stream);
        if (number == LATE)
            late = stream;
        else
            respond(&peer, stream, 0);
        if (number != LAST) continue;
        uvhttp__http2_reset(&peer.http2, late, UVHTTP__HTTP2_CANCEL);
        uvhttp__http2_release(&peer.http2, late);
    }
    assert_int_equal(uvhttp__http2_history(&peer.http2, 2 * LATER + 1), UVHTTP__HTTP2_FINISHED);
    assert_int_equal(uvhttp__http2_history(&peer.http2, 2 * LATE + 1), UVHTTP__HTTP2_WAS_RESET);
    peer_deinit(&peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half_closed_remote_takes_no_more),
        cmocka_unit_test(test_half_closed_remote_may_get_frames),
        cmocka_unit_test(test_a_stream_that_has_finished_gets_nothing),
        cmocka_unit_test(test_frames_may_be_under_way_when_we_reset),
        cmocka_unit_test(test_frames_after_a_reset_of_the_peer_are_errors_of_the_stream),
        cmocka_unit_test(test_ids_only_rise),
        cmocka_unit_test(test_ids_are_odd),
        cmocka_unit_test(test_an_early_response_ends_the_request),
        cmocka_unit_test(test_work_that_ends_without_a_response),
        cmocka_unit_test(test_a_reset_stream_counts_until_its_work_has_ended),
        cmocka_unit_test(test_a_response_that_lingers_counts),
        cmocka_unit_test(test_content_length_is_held_to),
        cmocka_unit_test(test_content_length_is_held_to_at_the_other_ends),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_a_visit_may_end_any_stream),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_a_late_end_says_nothing_of_a_later_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
