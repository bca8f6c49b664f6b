/* Owns: tests of the time limits of a WebSocket whose application pauses, over a channel in memory. The loop does not
 * run: its clock continues when the test wants. */
/* Needs: websocket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "handler/websocket.h"
#include "support/run.h"
#include "support/window_channel.h"

static struct {
    uvhttp__counters_t *counters;
    uvhttp__loop_t *loop;
    uvhttp__ws_registry_t *registry;
    uvhttp__ws_endpoint_t *endpoint;
    uvhttp_ws_t *ws;
    window_channel_t wire;
    int closed; /* the code of on_close; 0: it is open */
} it;

static void swallow(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static void note_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)reason, (void)user;
    it.closed = code;
}

static void open_with(const uvhttp_ws_options_t *options) {
    memset(&it, 0, sizeof it);
    it.counters = aligned_alloc(64, (sizeof *it.counters + 63) / 64 * 64);
    assert_non_null(it.counters);
    memset(it.counters, 0, sizeof *it.counters);
    const uvhttp__loop_options_t loop = {.engine = UVHTTP__ENGINE_EPOLL,
                                         .receive_buffer_size = 16384,
                                         .receive_buffer_count = 8,
                                         .counters = it.counters};
    assert_int_equal(uvhttp__loop_new(&loop, &it.loop), UVHTTP_OK);
    const uvhttp_ws_handlers_t handlers = {.on_message = swallow, .on_close = note_close, .options = options};
    assert_int_equal(uvhttp__ws_endpoint_new(&handlers, NULL, "/", &it.endpoint), UVHTTP_OK);
    it.endpoint->registry = it.registry = uvhttp__ws_registry_new(1);
    assert_non_null(it.registry);
    it.ws = uvhttp__ws_new(it.endpoint, (uvhttp__ws_deflate_t){0});
    assert_non_null(it.ws);
    window_init(&it.wire, it.loop, &uvhttp__ws_events, it.ws);
    window_allow(&it.wire, 1u << 30);
}

static void close_all(void) {
    window_end(&it.wire, UVHTTP_OK);
    window_iterate(&it.wire);
    window_deinit(&it.wire);
    uvhttp__ws_registry_release(it.registry);
    uvhttp__ws_endpoint_free(it.endpoint);
    uvhttp__loop_free(it.loop, NULL, NULL);
    free(it.counters);
}

/* A frame of the byte "a", masked with zeros. */
static void give(unsigned first_byte) {
    const char frame[] = {(char)first_byte, (char)0x81, 0, 0, 0, 0, 'a'};
    window_receive(&it.wire, frame, sizeof frame);
}

static void pause_for(uint64_t ms) {
    uvhttp_ws_pause(it.ws);
    window_expire(&it.wire, ms);
    uvhttp_ws_resume(it.ws);
    window_iterate(&it.wire);
}

static void test_pauses_do_not_hide_that_a_client_is_silent(void **state) {
    (void)state;
    open_with(&(uvhttp_ws_options_t){.idle_timeout = 75});
    for (int i = 0; i < 74; i++) {
        window_expire(&it.wire, 1000);
        pause_for(1000);
    }
    assert_int_equal(it.closed, 0);
    assert_true(it.wire.wire_size > 0); /* pings */
    window_expire(&it.wire, 1000);
    assert_int_equal(it.closed, UVHTTP_WS_ABNORMAL);
    close_all();
}

static void test_pauses_do_not_prolong_a_message_that_does_not_end(void **state) {
    (void)state;
    open_with(&(uvhttp_ws_options_t){.message_timeout = 10});
    give(UVHTTP__WS_TEXT);
    for (int i = 0; i < 9; i++) {
        window_expire(&it.wire, 1000);
        give(UVHTTP__WS_CONTINUATION);
        pause_for(5000);
    }
    window_expire(&it.wire, 999);
    assert_int_equal(it.closed, 0);
    window_expire(&it.wire, 1);
    assert_int_equal(it.closed, UVHTTP_WS_POLICY);
    close_all();
}

int main(void) {
    return RUN_TESTS(test_pauses_do_not_hide_that_a_client_is_silent,
                     test_pauses_do_not_prolong_a_message_that_does_not_end);
}
