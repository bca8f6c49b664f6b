/* Owns: tests of topics, compression and messages in parts from the inside: what an idle connection costs with them,
 * and memory that runs out. What goes over the wire is tested by test/integration/test_websocket_*.py. */
/* Needs: websocket. */
#include "support/http_server.h"

#include "handler/websocket.h"
#include "handler/websocket_topics.h"
#include "support/failing_allocator.h"

static atomic_int opens, messages, closes;

#define OFFER "Sec-WebSocket-Extensions: permessage-deflate\r\n"
#define HANDSHAKE(extra)                                                                                               \
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" extra  \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static void subscribe(uvhttp_ws_t *ws, void *user) {
    (void)user;
    (void)uvhttp_ws_subscribe(ws, "news");
    atomic_fetch_add(&opens, 1);
}

/* Everything that can run out of memory; the response is the last message. */
static void do_all(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    char text[300];
    memset(text, 'x', sizeof text);
    (void)uvhttp_ws_subscribe(ws, "other");
    (void)uvhttp_ws_publish(ws, "news", UVHTTP_WS_TEXT, text, sizeof text);
    if (uvhttp_ws_begin(ws, UVHTTP_WS_TEXT) == UVHTTP_OK) {
        (void)uvhttp_ws_write(ws, text, 10);
        (void)uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, sizeof text); /* waits */
        (void)uvhttp_ws_end(ws);
    }
    (void)uvhttp_ws_send(ws, UVHTTP_WS_TEXT, text, sizeof text);
    (void)uvhttp_ws_unsubscribe(ws, "other");
    (void)uvhttp_ws_send(ws, message.type, "!", 1);
    (void)uvhttp_ws_close(ws, UVHTTP_WS_NORMAL, "done");
    atomic_fetch_add(&messages, 1);
}

static void count_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
    atomic_fetch_add(&messages, 1);
}

static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)code, (void)reason, (void)user;
    atomic_fetch_add(&closes, 1);
}

static int handshake(const serving_t *serving, const char *request) {
    int fd = client_ask(serving, request);
    assert_int_equal(client_read(fd)->status, 101);
    return fd;
}

static void make(serving_t *serving, const uvhttp_ws_handlers_t *handlers) {
    opens = messages = closes = 0;
    serving_make(serving);
    assert_non_null(uvhttp_websocket(serving->server, "/ws", handlers, NULL));
    serving_start(serving);
}

/* --- what an idle connection costs --- */

enum { IDLE_COUNT = 64 };

/* "Hello", compressed, in two frames. */
static const char hello[] = "\x41\x83\0\0\0\0\xf2\x48\xcd\x80\x84\0\0\0\0\xc9\xc9\x07\0";

/* Bytes per connection, each after a message; the connection of HTTP, 256 from a slab, is not in it. */
static size_t idle_size(serving_t *serving, const uvhttp_ws_options_t *options, const char *request) {
    uvhttp_ws_handlers_t handlers = {
        .on_open = subscribe, .on_message = count_message, .on_close = on_close, .options = options};
    make(serving, &handlers);
    int fds[IDLE_COUNT];
    size_t before = 0, blocks;
    for (int iteration = 0; iteration < 2; iteration++) { /* pools have grown to what is needed after the first */
        before = test_allocator_live_bytes();
        for (int i = 0; i < IDLE_COUNT; i++) {
            fds[i] = handshake(serving, request);
            if (strstr(request, "deflate"))
                assert_int_equal(send(fds[i], hello, sizeof hello - 1, MSG_NOSIGNAL), sizeof hello - 1);
        }
        WAIT_UNTIL(opens == IDLE_COUNT * (iteration + 1));
        if (strstr(request, "deflate")) WAIT_UNTIL(messages == opens);
        if (iteration == 1) break;
        blocks = test_allocator_live();
        for (int i = 0; i < IDLE_COUNT; i++) close(fds[i]);
        WAIT_UNTIL(closes == IDLE_COUNT);
        WAIT_UNTIL(test_allocator_live() <= blocks - IDLE_COUNT); /* asked to close before they are freed */
    }
    size_t each = (test_allocator_live_bytes() - before) / IDLE_COUNT;
    for (int i = 0; i < IDLE_COUNT; i++) close(fds[i]);
    WAIT_UNTIL(closes == 2 * IDLE_COUNT);
    serving_stop(serving);
    return each;
}

enum { IDLE_SIZE_MAX = 1024 - 256 };

static void test_an_idle_subscriber_costs_less_than_a_kilobyte(void **state) {
    assert_in_range(idle_size(*state, NULL, HANDSHAKE("")), 1, IDLE_SIZE_MAX);
}

static void test_compression_costs_an_idle_connection_nothing(void **state) {
    static const uvhttp_ws_options_t options = {.compression = true};
    if (!uvhttp__ws_deflate_available) skip();
    assert_in_range(idle_size(*state, &options, HANDSHAKE(OFFER)), 1, IDLE_SIZE_MAX);
}

/* What docs/guide/websocket.md says: 40 KB for what comes in. Nothing was sent; that costs another 270 KB. */
static void test_context_takeover_costs_what_it_is_said_to(void **state) {
    static const uvhttp_ws_options_t options = {.compression = true, .context_takeover = true};
    if (!uvhttp__ws_deflate_available) skip();
    assert_in_range(idle_size(*state, &options, HANDSHAKE(OFFER)), 7000, 44000);
}

/* --- memory that runs out --- */

static void test_everything_bears_any_failed_allocation(void **state) {
    if (!uvhttp__ws_deflate_available) skip();
    serving_t *serving = *state;
    if (!uvhttp__ws_deflate_available) skip();
    static const uvhttp_ws_options_t options = {
        .compression = true, .context_takeover = true, .compression_size_min = 1, .publish_to_self = true};
    static const uvhttp_ws_handlers_t handlers = {
        .on_open = subscribe, .on_message = do_all, .on_close = on_close, .options = &options};
    make(serving, &handlers);
    int first = handshake(serving, HANDSHAKE("")); /* the loop runs, and has what all connections share */
    close(first);
    WAIT_UNTIL(closes == 1);
    for (size_t n = 1;; n++) {
        assert_true(n < 200);
        test_allocator_fail_at(n);
        int fd = client_ask(serving, HANDSHAKE(OFFER));
        if (client_read(fd)->status == 101) {
            (void)send(fd, hello, 9, MSG_NOSIGNAL);
            (void)send(fd, hello + 9, sizeof hello - 10, MSG_NOSIGNAL); /* refused if it has been closed by now */
            (void)shutdown(fd, SHUT_WR);
            char byte;
            while (client_receive_some(fd, &byte, 1) == 1) continue;
        }
        bool failed = test_allocator_failed();
        test_allocator_fail_at(0);
        close(fd);
        WAIT_UNTIL(closes == opens);
        if (!failed) break;
    }
    assert_true(messages > 10);
    serving_stop(serving);
}

enum { MANY = 40, FULL = 16 }; /* FULL: of the first table */

static atomic_uint bucket_count;

/* The table cannot grow when it is full. */
static void subscribe_to_many(uvhttp_ws_t *ws, void *user) {
    (void)user;
    const uvhttp__ws_loop_t *loop = &ws->endpoint->registry->loops[ws->channel->loop->index];
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "topic%d", i);
        if (loop->topic_count == FULL) test_allocator_fail_at(1);
        assert_int_equal(uvhttp_ws_subscribe(ws, name), UVHTTP_OK);
    }
    bucket_count = loop->bucket_count;
    atomic_fetch_add(&opens, 1);
}

static void test_a_table_of_topics_that_could_not_grow_grows_later(void **state) {
    static const uvhttp_ws_handlers_t handlers = {
        .on_open = subscribe_to_many, .on_message = count_message, .on_close = on_close};
    make(*state, &handlers);
    int fd = handshake(*state, HANDSHAKE(""));
    WAIT_UNTIL(opens == 1);
    assert_true(test_allocator_failed());
    assert_true(bucket_count >= MANY);
    test_allocator_fail_at(0);
    close(fd);
    WAIT_UNTIL(closes == 1);
    serving_stop(*state);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_an_idle_subscriber_costs_less_than_a_kilobyte,
                       test_compression_costs_an_idle_connection_nothing,
                       test_context_takeover_costs_what_it_is_said_to, test_everything_bears_any_failed_allocation,
                       test_a_table_of_topics_that_could_not_grow_grows_later);
}
