/* Owns: what tests of WebSocket over a channel that is no TCP connection share: one WebSocket, its channel, and the
 * frames of its peer. */
#ifndef TEST_UNIT_HANDLER_WEBSOCKET_CHANNEL_H
#define TEST_UNIT_HANDLER_WEBSOCKET_CHANNEL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "handler/websocket.h"
#include "support/failing_allocator.h"
#include "support/process.h"
#include "support/random.h"
#include "support/window_channel.h"

#define EVERYTHING (1u << 30)
enum { LOOP_COUNT = 3, LOOP_INDEX = 1 };

/* --- one WebSocket --- */

typedef struct fixture {
    uvhttp__counters_t *counters;
    uvhttp__loop_t *loop;
    uvhttp__ws_registry_t *registry;
    uvhttp__ws_endpoint_t *endpoint;
    uvhttp_ws_t *ws;
    window_channel_t wire;
    bool pauses; /* on_message pauses */
    char log[512];
} fixture_t;

static MAYBE_UNUSED void note(fixture_t *fixture, const char *text) {
    size_t size = strlen(fixture->log);
    snprintf(fixture->log + size, sizeof fixture->log - size, "%s;", text);
}

#define EXPECT_LOG(fixture, text)                                                                                      \
    do {                                                                                                               \
        assert_string_equal((fixture)->log, text);                                                                     \
        (fixture)->log[0] = '\0';                                                                                      \
    } while (0)

static MAYBE_UNUSED void note_open(uvhttp_ws_t *ws, void *user) {
    (void)ws;
    note(user, "open");
}

static MAYBE_UNUSED void echo(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    fixture_t *fixture = user;
    char text[64];
    snprintf(text, sizeof text, "%s %.*s", message.type == UVHTTP_WS_TEXT ? "text" : "binary", (int)message.size,
             message.data);
    note(fixture, text);
    (void)uvhttp_ws_send(ws, message.type, message.data, message.size);
    if (fixture->pauses) uvhttp_ws_pause(ws);
}

static MAYBE_UNUSED void note_drain(uvhttp_ws_t *ws, void *user) {
    (void)ws;
    note(user, "drain");
}

static MAYBE_UNUSED void note_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws;
    char text[64];
    snprintf(text, sizeof text, "close %d %.*s", code, (int)reason.size, reason.data);
    note(user, text);
}

static MAYBE_UNUSED void say_goodbye(uvhttp_ws_t *ws, void *user) {
    note(user, "stop");
    (void)uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "bye", 3);
}

static MAYBE_UNUSED void make_loop(fixture_t *fixture) {
    fixture->counters = aligned_alloc(64, (sizeof *fixture->counters + 63) / 64 * 64);
    assert_non_null(fixture->counters);
    memset(fixture->counters, 0, sizeof *fixture->counters);
    const uvhttp__loop_options_t options = {.engine = UVHTTP__ENGINE_EPOLL,
                                            .receive_buffer_size = 16384,
                                            .receive_buffer_count = 8,
                                            .counters = fixture->counters,
                                            .index = LOOP_INDEX};
    assert_int_equal(uvhttp__loop_new(&options, &fixture->loop), UVHTTP_OK);
}

static MAYBE_UNUSED void make_endpoint(fixture_t *fixture, const uvhttp_ws_handlers_t *handlers, void *user) {
    assert_int_equal(uvhttp__ws_endpoint_new(handlers, user, "/", &fixture->endpoint), UVHTTP_OK);
    fixture->registry = uvhttp__ws_registry_new(LOOP_COUNT);
    assert_non_null(fixture->registry);
    uvhttp__ws_registry_settle(fixture->registry, &fixture->endpoint->options);
    fixture->endpoint->registry = fixture->registry;
}

static MAYBE_UNUSED void open_with(fixture_t *fixture, const uvhttp_ws_options_t *options,
                                   uvhttp__ws_deflate_t deflate) {
    const uvhttp_ws_handlers_t handlers = {.on_open = note_open,
                                           .on_message = echo,
                                           .on_drain = note_drain,
                                           .on_close = note_close,
                                           .on_stop = say_goodbye,
                                           .options = options};
    make_endpoint(fixture, &handlers, fixture);
    fixture->ws = uvhttp__ws_new(fixture->endpoint, deflate);
    assert_non_null(fixture->ws);
    window_init(&fixture->wire, fixture->loop, &uvhttp__ws_events, fixture->ws);
    EXPECT_LOG(fixture, "open;");
}

static MAYBE_UNUSED void open_plain(fixture_t *fixture, const uvhttp_ws_options_t *options) {
    open_with(fixture, options, (uvhttp__ws_deflate_t){0});
}

static MAYBE_UNUSED int set_up(void **state) {
    fixture_t *fixture = calloc(1, sizeof *fixture);
    if (!fixture) return 1;
    make_loop(fixture);
    *state = fixture;
    return 0;
}

static MAYBE_UNUSED int tear_down(void **state) {
    fixture_t *fixture = *state;
    if (fixture->endpoint) {
        if (!fixture->wire.gone) {
            window_end(&fixture->wire, UVHTTP_OK);
            window_iterate(&fixture->wire);
        }
        window_deinit(&fixture->wire);
        uvhttp__ws_registry_release(fixture->registry);
        uvhttp__ws_endpoint_free(fixture->endpoint);
    }
    uvhttp__loop_free(fixture->loop, NULL, NULL);
    free(fixture->counters);
    free(fixture);
    return 0;
}

/* --- frames of the peer --- */

static MAYBE_UNUSED const char mask[4] = {0x11, 0x22, 0x33, 0x44};

/* At most 125 bytes. Returns the frame's size. */
static MAYBE_UNUSED size_t put_frame(char *out, unsigned first_byte, const char *payload, size_t size) {
    out[0] = (char)first_byte;
    out[1] = (char)(0x80 | size);
    memcpy(out + 2, mask, 4);
    for (size_t i = 0; i < size; i++) out[6 + i] = (char)(payload[i] ^ mask[i % 4]);
    return 6 + size;
}

static MAYBE_UNUSED void give(fixture_t *fixture, unsigned first_byte, const char *payload) {
    char frame[256];
    window_receive(&fixture->wire, frame, put_frame(frame, first_byte, payload, strlen(payload)));
}

#define FIN 0x80
#define TEXT (FIN | UVHTTP__WS_TEXT)
#define CLOSE (FIN | UVHTTP__WS_CLOSE)
#define PING (FIN | UVHTTP__WS_PING)
#define CLOSE_1000 "\x03\xe8"

#define EXPECT_WIRE(fixture, bytes)                                                                                    \
    do {                                                                                                               \
        assert_int_equal((fixture)->wire.wire_size, sizeof(bytes) - 1);                                                \
        assert_memory_equal((fixture)->wire.wire, bytes, sizeof(bytes) - 1);                                           \
        (fixture)->wire.wire_size = 0;                                                                                 \
    } while (0)

static MAYBE_UNUSED void expect_end(fixture_t *fixture, int status) {
    assert_true(fixture->wire.gone);
    assert_int_equal(fixture->wire.close_status, status);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static MAYBE_UNUSED void test_nothing_is_left(void **state) {
    (void)state;
    assert_int_equal(test_allocator_live(), 0);
}

#endif
