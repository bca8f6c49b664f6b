/* Owns: tests of WebSocket over a channel that is no TCP connection: all of it works over whatever carries it. The loop
 * does not run, unless a test says so: the test's thread is the loop's, and its clock continues when the test wants. */
/* Needs: websocket. */
#include "handler/websocket_channel.h"

/* --- messages --- */

static void test_a_message_is_echoed(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    give(fixture, TEXT, "hello");
    EXPECT_LOG(fixture, "text hello;");
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 7);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x81\x05hello");
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 0);
}

/* A message in three frames, a ping between them, cut everywhere; and it leaves byte by byte. */
static void test_fragments_are_collected_at_every_cut(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    char bytes[64];
    size_t size = put_frame(bytes, UVHTTP__WS_TEXT, "one ", 4);
    size += put_frame(bytes + size, PING, "pp", 2);
    size += put_frame(bytes + size, UVHTTP__WS_CONTINUATION, "two ", 4);
    size += put_frame(bytes + size, FIN | UVHTTP__WS_CONTINUATION, "three", 5);
    for (size_t cut = 1; cut < size; cut++) {
        window_receive(&fixture->wire, bytes, cut);
        window_receive(&fixture->wire, bytes + cut, size - cut);
        EXPECT_LOG(fixture, "text one two three;");
        while (uvhttp_ws_queued(fixture->ws) > 0) window_allow(&fixture->wire, 1);
        EXPECT_WIRE(fixture, "\x8a\x02pp\x81\x0done two three");
    }
    for (size_t i = 0; i < size; i++) window_receive(&fixture->wire, bytes + i, 1);
    EXPECT_LOG(fixture, "text one two three;");
}

static void test_a_large_message_asks_for_a_check_of_the_output(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    static const char data[5000];
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 100), UVHTTP_OK);
    assert_int_equal(fixture->wire.checks, 0);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, sizeof data), UVHTTP_OK);
    assert_int_equal(fixture->wire.checks, 1);
    const uvhttp__rate_limits_t *limits = fixture->wire.channel.events->output_limits(&fixture->wire.channel);
    assert_int_equal(limits->rate, 240);
    assert_int_equal(limits->timeout, 75);
}

/* What stands behind a message in the same receive waits for the resume, and so does what comes later. */
static void test_a_pause_leaves_the_rest_with_the_channel(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    fixture->pauses = true;
    char bytes[64];
    size_t size = put_frame(bytes, TEXT, "1", 1);
    size += put_frame(bytes + size, TEXT, "2", 1);
    window_receive(&fixture->wire, bytes, size);
    give(fixture, TEXT, "3");
    EXPECT_LOG(fixture, "text 1;");
    assert_true(fixture->wire.paused);
    uvhttp_ws_resume(fixture->ws);
    EXPECT_LOG(fixture, "");
    window_iterate(&fixture->wire);
    EXPECT_LOG(fixture, "text 2;");
    fixture->pauses = false;
    uvhttp_ws_resume(fixture->ws);
    window_iterate(&fixture->wire);
    EXPECT_LOG(fixture, "text 3;");
}

/* --- control frames --- */

static void test_a_ping_is_acknowledged_unless_the_peer_takes_nothing(void **state) {
    fixture_t *fixture = *state;
    const uvhttp_ws_options_t options = {.send_high_watermark = 10};
    open_plain(fixture, &options);
    give(fixture, PING, "one");
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 5);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "1234", 4), UVHTTP_E_AGAIN);
    give(fixture, PING, "two");
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x8a\x03one\x81\x04"
                         "1234");
    give(fixture, PING, "three");
    window_iterate(&fixture->wire);
    EXPECT_WIRE(fixture, "\x8a\x05three");
    EXPECT_LOG(fixture, "drain;");
}

static void test_a_silent_peer_is_pinged_and_then_given_up(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    window_allow(&fixture->wire, EVERYTHING);
    window_expire(&fixture->wire, 29999);
    window_iterate(&fixture->wire);
    assert_int_equal(fixture->wire.wire_size, 0);
    window_expire(&fixture->wire, 1);
    window_iterate(&fixture->wire);
    EXPECT_WIRE(fixture, "\x89\x00");
    window_expire(&fixture->wire, 30000);
    window_iterate(&fixture->wire);
    EXPECT_WIRE(fixture, "\x89\x00");
    EXPECT_LOG(fixture, "");
    window_expire(&fixture->wire, 15000);
    EXPECT_LOG(fixture, "close 1006 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
}

/* --- the closing handshake --- */

static void test_the_peer_closes(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    give(fixture, TEXT, "a");
    give(fixture, CLOSE, CLOSE_1000 "enough");
    EXPECT_LOG(fixture, "text a;close 1000 enough;");
    give(fixture, TEXT, "late");
    window_allow(&fixture->wire, 4); /* the channel ends when all is out, not before */
    assert_false(fixture->wire.gone);
    window_allow(&fixture->wire, 3);
    EXPECT_WIRE(fixture, "\x81\x01"
                         "a\x88\x02" CLOSE_1000);
    expect_end(fixture, UVHTTP_OK);
    EXPECT_LOG(fixture, "");
}

static void test_the_application_closes(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_close(fixture->ws, UVHTTP_WS_NORMAL, "done"), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "a", 1), UVHTTP_E_CLOSED);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x88\x06" CLOSE_1000 "done");
    give(fixture, TEXT, "crossing");
    EXPECT_LOG(fixture, "");
    give(fixture, CLOSE, CLOSE_1000);
    EXPECT_LOG(fixture, "close 1000 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
    assert_int_equal(fixture->wire.wire_size, 0);
}

/* A paused one reads again, for the response. */
static void test_a_close_frame_without_a_response_ends_in_time(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    window_allow(&fixture->wire, EVERYTHING);
    uvhttp_ws_pause(fixture->ws);
    assert_int_equal(uvhttp_ws_close(fixture->ws, UVHTTP_WS_NORMAL, ""), UVHTTP_OK);
    assert_false(fixture->wire.paused);
    window_expire(&fixture->wire, 4999);
    EXPECT_LOG(fixture, "");
    window_expire(&fixture->wire, 1);
    EXPECT_LOG(fixture, "close 1006 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
}

static void test_an_error_of_the_peer_ends_the_channel(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    give(fixture, 0xf1, "reserved bits");
    EXPECT_LOG(fixture, "close 1002 ;");
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x88\x02\x03\xea");
    expect_end(fixture, UVHTTP_OK);
}

static void test_a_peer_that_ends_without_a_close_frame(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    fixture->wire.channel.events->on_end(&fixture->wire.channel);
    EXPECT_LOG(fixture, "close 1006 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
}

static void test_a_peer_that_resets_the_channel(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    give(fixture, UVHTTP__WS_TEXT, "part of a message");
    give(fixture, UVHTTP__WS_CONTINUATION, "more of it");
    window_end(&fixture->wire, UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_TEXT, "a", 1), UVHTTP_E_CLOSED);
    window_iterate(&fixture->wire);
    EXPECT_LOG(fixture, "close 1006 ;");
    expect_end(fixture, UVHTTP_E_ABORTED);
}

/* --- a server that stops --- */

static void test_a_server_that_stops_says_goodbye(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    fixture->wire.channel.events->on_stop(&fixture->wire.channel);
    EXPECT_LOG(fixture, "stop;");
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x81\x03"
                         "bye\x88\x02\x03\xe9");
    give(fixture, CLOSE, "\x03\xe9");
    EXPECT_LOG(fixture, "close 1001 ;");
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
}

/* --- backpressure --- */

static void test_the_queue_has_its_limits_and_drains(void **state) {
    fixture_t *fixture = *state;
    const uvhttp_ws_options_t options = {.send_high_watermark = 20, .send_queue_max = 30};
    open_plain(fixture, &options);
    static const char data[8];
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 8), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 8), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 8), UVHTTP_E_AGAIN);
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 8), UVHTTP_E_LIMIT);
    assert_int_equal(uvhttp_ws_queued(fixture->ws), 30);
    window_allow(&fixture->wire, 29);
    EXPECT_LOG(fixture, "");
    window_allow(&fixture->wire, 1);
    EXPECT_LOG(fixture, "drain;");
    assert_int_equal(uvhttp_ws_send(fixture->ws, UVHTTP_WS_BINARY, data, 8), UVHTTP_OK);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_LOG(fixture, "");
    assert_int_equal(fixture->wire.wire_size, 40);
}

/* --- who it is, and other threads --- */

static void test_the_peer_is_the_channels(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    char text[64];
    assert_int_equal(uvhttp_ws_peer(fixture->ws, text, sizeof text), UVHTTP_OK);
    assert_string_equal(text, WINDOW_PEER);
}

typedef struct stop_post {
    uvhttp__post_t post;
    uvhttp__loop_t *loop;
} stop_post_t;

static void stop_loop(uvhttp__post_t *post) {
    uvhttp__loop_stop(UVHTTP__CONTAINER_OF(post, stop_post_t, post)->loop);
}

/* Runs what has been posted. Once in a test. */
static void run_loop(uvhttp__loop_t *loop) {
    stop_post_t stop = {.post.run = stop_loop, .loop = loop};
    uvhttp__loop_post(loop, &stop.post);
    uvhttp__loop_run(loop);
}

static void test_orders_of_other_threads_reach_what_is_there(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(fixture->ws);
    assert_ptr_equal(uvhttp_ws_ref(fixture->ws), ref);
    uvhttp_ws_ref_release(ref);
    assert_int_equal(uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "a", 1), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_ref_close(ref, UVHTTP_WS_NORMAL, "b"), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "c", 1), UVHTTP_OK);
    run_loop(fixture->loop);
    window_allow(&fixture->wire, EVERYTHING);
    EXPECT_WIRE(fixture, "\x81\x01"
                         "a\x88\x03" CLOSE_1000 "b");
    give(fixture, CLOSE, CLOSE_1000);
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_OK);
    assert_int_equal(uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "d", 1), UVHTTP_E_ABORTED);
    uvhttp_ws_ref_release(ref);
}

/* The result of uvhttp_ws_ref for a connection that is over. */
static void test_no_handle_is_refused(void **state) {
    (void)state;
    assert_int_equal(uvhttp_ws_ref_send(NULL, UVHTTP_WS_TEXT, "a", 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_ws_ref_close(NULL, UVHTTP_WS_NORMAL, ""), UVHTTP_E_INVALID);
    uvhttp_ws_ref_retain(NULL);
    uvhttp_ws_ref_release(NULL);
}

/* An order that was posted to one that is gone when it is run. */
static void test_an_order_may_come_too_late(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(fixture->ws);
    assert_int_equal(uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "a", 1), UVHTTP_OK);
    uvhttp_ws_ref_release(ref);
    window_end(&fixture->wire, UVHTTP_E_ABORTED);
    window_iterate(&fixture->wire);
    expect_end(fixture, UVHTTP_E_ABORTED);
    run_loop(fixture->loop);
}

/* The bytes of a publication leave by the window, and are released with the last of them. */
static void test_publications_are_referred_to(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_subscribe(fixture->ws, "news"), UVHTTP_OK);
    size_t live = test_allocator_live();
    assert_int_equal(uvhttp__ws_publish(fixture->registry, NULL, "news", UVHTTP_WS_TEXT, "hello", 5), UVHTTP_OK);
    run_loop(fixture->loop);
    assert_int_equal(test_allocator_live(), live + 2);
    window_allow(&fixture->wire, 6);
    assert_int_equal(test_allocator_live(), live + 2);
    window_allow(&fixture->wire, 1);
    assert_int_equal(test_allocator_live(), live);
    EXPECT_WIRE(fixture, "\x81\x05hello");
}

static void test_a_reset_releases_publications(void **state) {
    fixture_t *fixture = *state;
    open_plain(fixture, NULL);
    assert_int_equal(uvhttp_ws_subscribe(fixture->ws, "news"), UVHTTP_OK);
    size_t live = test_allocator_live();
    assert_int_equal(uvhttp__ws_publish(fixture->registry, NULL, "news", UVHTTP_WS_TEXT, "hello", 5), UVHTTP_OK);
    run_loop(fixture->loop);
    window_allow(&fixture->wire, 3);
    assert_int_equal(test_allocator_live(), live + 2);
    window_end(&fixture->wire, UVHTTP_E_ABORTED);
    assert_int_equal(test_allocator_live(), live);
}

static void test_a_slow_subscriber_is_reset(void **state) {
    fixture_t *fixture = *state;
    const uvhttp_ws_options_t options = {.send_queue_max = 10, .drop_slow_subscribers = true};
    open_plain(fixture, &options);
    assert_int_equal(uvhttp_ws_subscribe(fixture->ws, "news"), UVHTTP_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(uvhttp__ws_publish(fixture->registry, NULL, "news", UVHTTP_WS_TEXT, "hello", 5), UVHTTP_OK);
    run_loop(fixture->loop);
    assert_true(fixture->wire.ended);
    EXPECT_LOG(fixture, "");
    window_iterate(&fixture->wire);
    EXPECT_LOG(fixture, "close 1006 ;");
    expect_end(fixture, UVHTTP_OK);
}

/* --- threads: publications and orders while channels are reset --- */

enum { SUBSCRIBERS = 8, PUBLISHERS = 2, PUBLICATIONS = 3000, RESETS = 300 };

typedef struct subscriber {
    window_channel_t wire;
    uvhttp_ws_t *ws;
    struct crowd *crowd;
} subscriber_t;

/* The loop runs on a thread of its own; subscribers are that thread's. */
typedef struct crowd {
    fixture_t base;
    subscriber_t subscribers[SUBSCRIBERS];
    test_random_t random;
    pthread_mutex_t lock; /* over ref and steps */
    pthread_cond_t changed;
    uvhttp_ws_ref_t *ref; /* of one that was there lately */
    unsigned steps;       /* that have run */
    unsigned opens, closes, resets;
    bool wrong; /* bytes on a wire that are no frames, or not in order */
    bool ending;
    atomic_bool done;
    atomic_uint published;
} crowd_t;

static void share_ref(uvhttp_ws_t *ws, void *user) {
    crowd_t *crowd = user;
    crowd->opens++;
    (void)uvhttp_ws_subscribe(ws, "news");
    uvhttp_ws_ref_t *ref = uvhttp_ws_ref(ws);
    pthread_mutex_lock(&crowd->lock);
    uvhttp_ws_ref_t *before = crowd->ref;
    crowd->ref = ref;
    pthread_mutex_unlock(&crowd->lock);
    uvhttp_ws_ref_release(before);
}

static void count_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)code, (void)reason;
    ((crowd_t *)user)->closes++;
}

static void ignore_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static void subscriber_open(subscriber_t *it) {
    crowd_t *crowd = it->crowd;
    it->ws = uvhttp__ws_new(crowd->base.endpoint, (uvhttp__ws_deflate_t){0});
    if (!it->ws) abort();
    window_init(&it->wire, crowd->base.loop, &uvhttp__ws_events, it->ws);
}

/* Whole frames, but for the last one of a channel that was reset; what one thread publishes is in its order. */
static bool wire_is_right(const subscriber_t *it) {
    uint32_t last[PUBLISHERS] = {0};
    const char *wire = it->wire.wire;
    size_t size = it->wire.wire_size, at = 0;
    while (size - at >= 2) {
        size_t payload = (unsigned char)wire[at + 1];
        if (payload > 125) return false;
        if (size - at - 2 < payload) break;
        unsigned opcode = (unsigned char)wire[at];
        unsigned publisher;
        uint32_t number;
        if (opcode == (FIN | UVHTTP__WS_BINARY)) {
            char text[126] = {0};
            memcpy(text, wire + at + 2, payload);
            if (sscanf(text, "%u:%u.", &publisher, &number) != 2 || publisher >= PUBLISHERS) return false;
            if (number <= last[publisher]) return false;
            last[publisher] = number;
        } else if (opcode != TEXT && opcode != CLOSE) {
            return false;
        }
        at += 2 + payload;
    }
    return at == size || it->wire.cut;
}

static void subscriber_step(subscriber_t *it) {
    crowd_t *crowd = it->crowd;
    bool ends = crowd->ending || test_random_below(&crowd->random, 8) == 0;
    if (ends && !it->wire.ended) {
        crowd->resets++;
        window_end(&it->wire, UVHTTP_E_ABORTED);
    }
    window_allow(&it->wire, test_random_below(&crowd->random, 4000));
    if (!it->wire.gone) return;
    crowd->wrong |= !wire_is_right(it);
    window_deinit(&it->wire);
    if (!crowd->ending) subscriber_open(it);
}

typedef struct step {
    uvhttp__post_t post;
    crowd_t *crowd;
} step_t;

static void run_step(uvhttp__post_t *post) {
    crowd_t *crowd = UVHTTP__CONTAINER_OF(post, step_t, post)->crowd;
    bool first = crowd->steps == 0;
    for (int i = 0; i < SUBSCRIBERS; i++)
        if (first)
            subscriber_open(&crowd->subscribers[i]);
        else
            subscriber_step(&crowd->subscribers[i]);
    pthread_mutex_lock(&crowd->lock);
    crowd->steps++;
    pthread_cond_signal(&crowd->changed);
    pthread_mutex_unlock(&crowd->lock);
}

static void step(crowd_t *crowd) {
    step_t one = {.post.run = run_step, .crowd = crowd};
    pthread_mutex_lock(&crowd->lock);
    unsigned before = crowd->steps;
    uvhttp__loop_post(crowd->base.loop, &one.post);
    while (crowd->steps == before) pthread_cond_wait(&crowd->changed, &crowd->lock);
    pthread_mutex_unlock(&crowd->lock);
}

static void *run_crowd(void *arg) {
    uvhttp__loop_run(((crowd_t *)arg)->base.loop);
    return NULL;
}

static void *publish(void *arg) {
    crowd_t *crowd = arg;
    unsigned publisher = atomic_fetch_add(&crowd->published, 1);
    char text[64];
    for (unsigned i = 1; i <= PUBLICATIONS; i++) {
        int size = snprintf(text, sizeof text, "%u:%u.", publisher, i);
        int status = uvhttp__ws_publish(crowd->base.registry, NULL, "news", UVHTTP_WS_BINARY, text, (size_t)size);
        if (status != UVHTTP_OK) abort();
    }
    return NULL;
}

static void *give_orders(void *arg) {
    crowd_t *crowd = arg;
    for (unsigned i = 0; !atomic_load(&crowd->done); i++) {
        pthread_mutex_lock(&crowd->lock);
        uvhttp_ws_ref_t *ref = crowd->ref;
        if (ref) uvhttp_ws_ref_retain(ref);
        pthread_mutex_unlock(&crowd->lock);
        if (!ref) continue;
        int status = i % 64 == 0 ? uvhttp_ws_ref_close(ref, UVHTTP_WS_NORMAL, "order")
                                 : uvhttp_ws_ref_send(ref, UVHTTP_WS_TEXT, "order", 5);
        if (status != UVHTTP_OK && status != UVHTTP_E_ABORTED) abort();
        uvhttp_ws_ref_release(ref);
    }
    return NULL;
}

static void test_threads_publish_while_channels_are_reset(void **state) {
    (void)state;
    crowd_t *crowd = calloc(1, sizeof *crowd);
    assert_non_null(crowd);
    make_loop(&crowd->base);
    const uvhttp_ws_options_t options = {
        .send_high_watermark = 500, .send_queue_max = 20000, .drop_slow_subscribers = true};
    const uvhttp_ws_handlers_t handlers = {
        .on_open = share_ref, .on_message = ignore_message, .on_close = count_close, .options = &options};
    make_endpoint(&crowd->base, &handlers, crowd);
    crowd->random.state = 15;
    pthread_mutex_init(&crowd->lock, NULL);
    pthread_cond_init(&crowd->changed, NULL);
    for (int i = 0; i < SUBSCRIBERS; i++) crowd->subscribers[i].crowd = crowd;
    pthread_t loop, publishers[PUBLISHERS], orders;
    assert_int_equal(pthread_create(&loop, NULL, run_crowd, crowd), 0);
    step(crowd);
    for (int i = 0; i < PUBLISHERS; i++) assert_int_equal(pthread_create(&publishers[i], NULL, publish, crowd), 0);
    assert_int_equal(pthread_create(&orders, NULL, give_orders, crowd), 0);
    do step(crowd);
    while (crowd->resets < RESETS);
    for (int i = 0; i < PUBLISHERS; i++) pthread_join(publishers[i], NULL);
    atomic_store(&crowd->done, true);
    pthread_join(orders, NULL);
    step(crowd); /* behind everything that was posted */
    crowd->ending = true;
    step(crowd);
    stop_post_t stop = {.post.run = stop_loop, .loop = crowd->base.loop};
    uvhttp__loop_post(crowd->base.loop, &stop.post);
    pthread_join(loop, NULL);
    assert_false(crowd->wrong);
    assert_int_equal(crowd->closes, crowd->opens);
    assert_true(crowd->opens > SUBSCRIBERS);
    assert_int_equal(uvhttp_ws_ref_send(crowd->ref, UVHTTP_WS_TEXT, "late", 4), UVHTTP_E_ABORTED);
    uvhttp_ws_ref_release(crowd->ref);
    uvhttp__ws_registry_release(crowd->base.registry);
    uvhttp__ws_endpoint_free(crowd->base.endpoint);
    uvhttp__loop_free(crowd->base.loop, NULL, NULL);
    free(crowd->base.counters);
    pthread_mutex_destroy(&crowd->lock);
    pthread_cond_destroy(&crowd->changed);
    free(crowd);
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        TEST(test_a_message_is_echoed),
        TEST(test_fragments_are_collected_at_every_cut),
        TEST(test_a_large_message_asks_for_a_check_of_the_output),
        TEST(test_a_pause_leaves_the_rest_with_the_channel),
        TEST(test_a_ping_is_acknowledged_unless_the_peer_takes_nothing),
        TEST(test_a_silent_peer_is_pinged_and_then_given_up),
        TEST(test_the_peer_closes),
        TEST(test_the_application_closes),
        TEST(test_a_close_frame_without_a_response_ends_in_time),
        TEST(test_an_error_of_the_peer_ends_the_channel),
        TEST(test_a_peer_that_ends_without_a_close_frame),
        TEST(test_a_peer_that_resets_the_channel),
        TEST(test_a_server_that_stops_says_goodbye),
        TEST(test_the_queue_has_its_limits_and_drains),
        TEST(test_the_peer_is_the_channels),
        TEST(test_orders_of_other_threads_reach_what_is_there),
        TEST(test_no_handle_is_refused),
        TEST(test_an_order_may_come_too_late),
        TEST(test_publications_are_referred_to),
        TEST(test_a_reset_releases_publications),
        TEST(test_a_slow_subscriber_is_reset),
        cmocka_unit_test(test_threads_publish_while_channels_are_reset),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
