/* Owns: tests of WebSocket routes from the inside: registration and its errors, options, memory that runs out, what an
 * idle connection costs. What goes over the wire is tested by test/integration/test_websocket.py. */
/* Needs: websocket. */
#include <uv.h>

#include "support/http_server.h"

#include "handler/websocket.h"
#include "support/failing_allocator.h"

static atomic_int opens, messages, closes, last_code, forgotten;

/* The 101 is queued before there is a WebSocket. */
static void on_open(uvhttp_ws_t *ws, void *user) {
    (void)user;
    if (uvhttp_ws_queued(ws) == 0) atomic_fetch_add(&forgotten, 1);
    atomic_fetch_add(&opens, 1);
}
static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)user;
    (void)uvhttp_ws_send(ws, message.type, message.data, message.size);
    atomic_fetch_add(&messages, 1);
}
static void on_fragment(uvhttp_ws_t *ws, uvhttp_ws_fragment_t fragment, void *user) {
    (void)ws, (void)fragment, (void)user;
}
static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)reason, (void)user;
    atomic_store(&last_code, code);
    atomic_fetch_add(&closes, 1);
}

static const uvhttp_ws_handlers_t handlers = {.on_open = on_open, .on_message = on_message, .on_close = on_close};

static uvhttp_ws_handlers_t with_options(const uvhttp_ws_options_t *options) {
    uvhttp_ws_handlers_t result = handlers;
    result.options = options;
    return result;
}

/* --- registration --- */

static void test_defaults_are_filled_in_and_lists_are_copied(void **state) {
    (void)state;
    char protocol[] = "chat.v1", origin[] = "https://example.com";
    const char *protocols[] = {protocol, "b", NULL}, *origins[] = {origin, NULL};
    uvhttp_ws_options_t options = {.ping_interval = UVHTTP_NEVER, .subprotocols = protocols, .origins = origins};
    uvhttp_ws_handlers_t given = with_options(&options);
    uvhttp__ws_endpoint_t *endpoint;
    assert_int_equal(uvhttp__ws_endpoint_new(&given, &given, "/", &endpoint), UVHTTP_OK);
    memset(protocol, 'x', sizeof protocol - 1);
    memset(origin, 'x', sizeof origin - 1);
    protocols[0] = origins[0] = NULL;
    const uvhttp_ws_options_t *copied = &endpoint->options;
    assert_int_equal(copied->message_size_max, 1 << 20);
    assert_int_equal(copied->fragments_max, 131072);
    assert_int_equal(copied->message_timeout, 300);
    assert_int_equal(copied->ping_interval, UVHTTP_NEVER);
    assert_int_equal(copied->idle_timeout, 75);
    assert_int_equal(copied->close_timeout, 5);
    assert_int_equal(copied->send_high_watermark, 65536);
    assert_int_equal(copied->send_queue_max, 4 << 20);
    assert_int_equal(copied->min_send_rate, 240);
    assert_int_equal(copied->rate_grace, 5);
    assert_false(copied->compression);
    assert_int_equal(copied->compression_level, 4);
    assert_int_equal(copied->compression_memory_level, 8);
    assert_int_equal(copied->compression_size_min, 256);
    assert_int_equal(copied->server_window_bits, 15);
    assert_int_equal(copied->client_window_bits, 15);
    assert_int_equal(copied->topics_max, 64);
    assert_int_equal(copied->topic_size_max, 128);
    assert_int_equal(copied->subscriptions_max, 1000000);
    assert_string_equal(copied->subprotocols[0], "chat.v1");
    assert_string_equal(copied->subprotocols[1], "b");
    assert_null(copied->subprotocols[2]);
    assert_string_equal(copied->origins[0], "https://example.com");
    assert_null(copied->origins[1]);
    assert_ptr_equal(endpoint->user, &given);
    uvhttp__ws_endpoint_free(endpoint);
}

static void test_a_message_in_pieces_may_be_larger(void **state) {
    (void)state;
    const uvhttp_ws_options_t options = {.message_size_max = UINT64_C(1) << 40};
    const uvhttp_ws_handlers_t pieces = {.on_fragment = on_fragment};
    uvhttp_ws_handlers_t given = pieces;
    uvhttp__ws_endpoint_t *endpoint;
    assert_int_equal(uvhttp__ws_endpoint_new(&given, NULL, "/", &endpoint), UVHTTP_OK);
    assert_int_equal(endpoint->options.message_size_max, 1 << 30);
    uvhttp__ws_endpoint_free(endpoint);
    given.options = &options;
    assert_int_equal(uvhttp__ws_endpoint_new(&given, NULL, "/", &endpoint), UVHTTP_OK);
    assert_int_equal(endpoint->options.message_size_max, UINT64_C(1) << 40);
    uvhttp__ws_endpoint_free(endpoint);
}

static void test_wrong_options_are_kept_for_listen(void **state) {
    (void)state;
    static const char *const bad_token[] = {"a b", NULL}, *const empty[] = {"", NULL},
                             *const slash[] = {"https://example.com/", NULL}, *const bare[] = {"example.com", NULL};
    const uvhttp_ws_options_t wrong[] = {{.message_size_max = UINT64_C(1) << 32},
                                         {.idle_timeout = 1000001},
                                         {.ping_interval = UINT32_MAX - 1},
                                         {.message_timeout = 1000001},
                                         {.close_timeout = 1000001},
                                         {.min_send_rate = (1 << 30) + 1},
                                         {.rate_grace = 1000001},
                                         {.compression_level = 10},
                                         {.compression_memory_level = 10},
                                         {.server_window_bits = 8},
                                         {.server_window_bits = 16},
                                         {.client_window_bits = 8},
                                         {.client_window_bits = 16},
                                         {.topic_size_max = 65536},
                                         {.subprotocols = bad_token},
                                         {.subprotocols = empty},
                                         {.origins = slash},
                                         {.origins = bare},
                                         {.origins = empty}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uvhttp_server_t *server = uvhttp_server_new(NULL);
        uvhttp_ws_handlers_t given = with_options(&wrong[i]);
        assert_null(uvhttp_websocket(server, "/chat", &given, NULL));
        assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_CONFIG);
        assert_non_null(strstr(uvhttp_server_error_text(server), "/chat"));
        uvhttp_server_free(server);
    }
}

static void test_wrong_routes_are_refused(void **state) {
    (void)state;
    const uvhttp_ws_handlers_t empty = {.on_open = on_open};
    const uvhttp_ws_handlers_t both = {.on_message = on_message, .on_fragment = on_fragment};
    const struct {
        const char *pattern;
        const uvhttp_ws_handlers_t *handlers;
        int status;
    } wrong[] = {{"/a", NULL, UVHTTP_E_INVALID},           {"/a", &empty, UVHTTP_E_INVALID},
                 {"/a", &both, UVHTTP_E_INVALID},          {NULL, &handlers, UVHTTP_E_INVALID},
                 {"a", &handlers, UVHTTP_E_ROUTE_PATTERN}, {"/b", &handlers, UVHTTP_E_ROUTE_CONFLICT}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uvhttp_server_t *server = uvhttp_server_new(NULL);
        assert_int_equal(uvhttp_websocket_publish(server, "a", UVHTTP_WS_TEXT, "a", 1), UVHTTP_E_STATE);
        assert_non_null(uvhttp_websocket(server, "/b", &handlers, NULL));
        assert_null(uvhttp_websocket(server, wrong[i].pattern, wrong[i].handlers, NULL));
        assert_int_equal(uvhttp_server_error(server), wrong[i].status);
        uvhttp_server_free(server);
    }
    assert_null(uvhttp_group_websocket(NULL, "/a", &handlers, NULL));
}

static void register_one(void *user) {
    (void)user;
    static const char *const protocols[] = {"a", NULL};
    static const uvhttp_ws_options_t options = {.subprotocols = protocols};
    uvhttp_ws_handlers_t given = with_options(&options);
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    if (!server) return;
    uvhttp_route_t *route = uvhttp_websocket(server, "/a", &given, NULL);
    assert_int_equal(uvhttp_server_error(server), route ? UVHTTP_OK : UVHTTP_E_NOMEM);
    uvhttp_server_free(server);
}

static void test_registration_bears_any_failed_allocation(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(register_one, NULL) > 3);
}

/* --- connections --- */

#define HANDSHAKE                                                                                                      \
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"        \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static int handshake(const serving_t *serving) {
    int fd = client_ask(serving, HANDSHAKE);
    assert_int_equal(client_read(fd)->status, 101);
    return fd;
}

static void make(serving_t *serving) {
    opens = messages = closes = last_code = 0;
    serving_make(serving);
    assert_non_null(uvhttp_websocket(serving->server, "/ws", &handlers, NULL));
    serving_start(serving);
}

/* A message in two receives: handshake, connection, assembly. Whatever fails, the client sees an end or a response, and
 * each on_open has its on_close. */
static void test_a_connection_bears_any_failed_allocation(void **state) {
    serving_t *serving = *state;
    make(serving);
    int first = handshake(serving); /* the loop runs, and has what all connections share */
    close(first);
    WAIT_UNTIL(closes == 1);
    for (size_t n = 1;; n++) {
        assert_true(n < 100);
        int opened = opens, closed = closes;
        assert_int_equal(opened, closed);
        test_allocator_fail_at(n);
        int fd = client_ask(serving, HANDSHAKE);
        if (client_read(fd)->status == 101) {
            static const char halves[] = "\x01\x83\1\1\1\1idm\x80\x82\1\1\1\1mn";
            (void)send(fd, halves, 9, MSG_NOSIGNAL);
            (void)send(fd, halves + 9, sizeof halves - 10, MSG_NOSIGNAL); /* refused if it has been closed by now */
            char byte;
            while (client_receive_some(fd, &byte, 1) == 1 && byte != 'o') continue;
        }
        bool failed = test_allocator_failed();
        test_allocator_fail_at(0);
        close(fd);
        WAIT_UNTIL(closes == opens);
        if (!failed) {
            assert_int_equal(last_code, UVHTTP_WS_ABNORMAL); /* the whole attempt went well, and the client has left */
            break;
        }
    }
    assert_true(messages == 1);
    serving_stop(serving);
}

static void test_memory_for_a_message_is_there_only_while_it_is_incomplete(void **state) {
    serving_t *serving = *state;
    make(serving);
    int fd = handshake(serving);
    WAIT_UNTIL(opens == 1);
    assert_int_equal(forgotten, 0);
    size_t idle = test_allocator_live();
    client_send_text(fd, "\x01\x81\1\1\1\1a");
    WAIT_UNTIL(test_allocator_live() == idle + 1);
    client_send_text(fd, "\x80\x81\1\1\1\1b");
    WAIT_UNTIL(messages == 1);
    WAIT_UNTIL(test_allocator_live() == idle);
    client_send_text(fd, "\x81\x81\1\1\1\1c");
    WAIT_UNTIL(messages == 2);
    assert_int_equal(test_allocator_live(), idle);
    close(fd);
    WAIT_UNTIL(closes == 1);
    serving_stop(serving);
}

enum { IDLE_COUNT = 64, IDLE_SIZE_MAX = 1024 };

static void test_an_idle_connection_costs_less_than_a_kilobyte(void **state) {
    serving_t *serving = *state;
    make(serving);
    int fds[IDLE_COUNT];
    for (int i = 0; i < IDLE_COUNT; i++) fds[i] = handshake(serving); /* pools have grown to what is needed */
    WAIT_UNTIL(opens == IDLE_COUNT);
    size_t blocks = test_allocator_live();
    for (int i = 0; i < IDLE_COUNT; i++) close(fds[i]);
    WAIT_UNTIL(closes == IDLE_COUNT);
    WAIT_UNTIL(test_allocator_live() <= blocks - IDLE_COUNT); /* they are asked to close before they are freed */
    size_t before = test_allocator_live_bytes();
    for (int i = 0; i < IDLE_COUNT; i++) fds[i] = handshake(serving);
    WAIT_UNTIL(opens == 2 * IDLE_COUNT);
    size_t each = (test_allocator_live_bytes() - before) / IDLE_COUNT;
    assert_in_range(each, 1, IDLE_SIZE_MAX - 256); /* a connection of HTTP, from a slab: 256 */
    for (int i = 0; i < IDLE_COUNT; i++) close(fds[i]);
    WAIT_UNTIL(closes == 2 * IDLE_COUNT);
    serving_stop(serving);
}

static void change_status(uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_set_status(res, 503);
}
static uvhttp_flow_t forbid(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_on_finish(res, change_status, NULL);
    return UVHTTP_NEXT;
}

static void test_a_hook_that_changes_the_response_leaves_no_connection_behind(void **state) {
    serving_t *serving = *state;
    opens = 0;
    serving_make(serving);
    uvhttp_use(serving->server, (uvhttp_middleware_t){.run = forbid});
    assert_non_null(uvhttp_websocket(serving->server, "/ws", &handlers, NULL));
    serving_start(serving);
    int fd = client_ask(serving, HANDSHAKE);
    client_read_last(fd, 503);
    serving_stop(serving);
    assert_int_equal(opens, 0); /* that nothing leaks is the sanitizer's to say */
}

static atomic_int stops;

static void on_stop(uvhttp_ws_t *ws, void *user) {
    (void)user;
    if (uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "bye", 3) != UVHTTP_OK) abort();
    stops++;
}

static void test_a_stop_lets_a_last_message_out(void **state) {
    serving_t *serving = *state;
    stops = 0;
    serving_make(serving);
    uvhttp_ws_handlers_t reported = handlers;
    reported.on_stop = on_stop;
    assert_non_null(uvhttp_websocket(serving->server, "/ws", &reported, NULL));
    serving_start(serving);
    int fd = handshake(serving);
    uvhttp_server_stop(serving->server);
    char got[9];
    assert_int_equal(recv(fd, got, sizeof got, MSG_WAITALL), sizeof got);
    assert_memory_equal(got,
                        "\x81\x03"
                        "bye\x88\x02\x03\xe9",
                        sizeof got); /* then the close frame: 1001 */
    close(fd);
    serving_join(serving);
    assert_int_equal(stops, 1);
}

/* --- calls in each state --- */

enum { CALLS_MAX = 32 };
static struct {
    const char *call;
    int expected, status;
} calls[CALLS_MAX];
static atomic_int call_count;

static void note(const char *call, int expected, int status) {
    calls[call_count].call = call;
    calls[call_count].expected = expected;
    calls[call_count].status = status;
    atomic_fetch_add(&call_count, 1);
}

#define NOTE(expected, call) note(#call, expected, call)

static void make_calls(uvhttp_ws_t *ws, void *user) {
    (void)user;
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_send(ws, (uvhttp_ws_type_t)7, "a", 1));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "\xff", 1));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_send(ws, UVHTTP_WS_BINARY, NULL, 1));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_begin(ws, (uvhttp_ws_type_t)7));
    NOTE(UVHTTP_E_STATE, uvhttp_ws_write(ws, "a", 1));
    NOTE(UVHTTP_E_STATE, uvhttp_ws_end(ws));
    NOTE(UVHTTP_OK, uvhttp_ws_begin(ws, UVHTTP_WS_TEXT));
    NOTE(UVHTTP_E_STATE, uvhttp_ws_begin(ws, UVHTTP_WS_TEXT));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_write(ws, NULL, 1));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_write(ws, "\xff", 1));
    NOTE(UVHTTP_OK, uvhttp_ws_write(ws, "\xc3", 1));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_end(ws)); /* inside a character */
    NOTE(UVHTTP_OK, uvhttp_ws_send(ws, UVHTTP_WS_BINARY, "b", 1));
    NOTE(UVHTTP_OK, uvhttp_ws_send(ws, UVHTTP_WS_BINARY, NULL, 0));
    NOTE(UVHTTP_OK, uvhttp_ws_write(ws, "\xa9", 1));
    NOTE(UVHTTP_OK, uvhttp_ws_end(ws));
    NOTE(UVHTTP_OK, uvhttp_ws_send(ws, UVHTTP_WS_TEXT, NULL, 0));
    NOTE(false, uvhttp_ws_is_compressed(ws));
    NOTE(UVHTTP_E_INVALID, uvhttp_ws_close(ws, 999, NULL));
    NOTE(UVHTTP_OK, uvhttp_ws_close(ws, 1000, NULL));
    NOTE(UVHTTP_E_CLOSED, uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "a", 1));
    NOTE(UVHTTP_E_CLOSED, uvhttp_ws_begin(ws, UVHTTP_WS_TEXT));
    NOTE(UVHTTP_E_CLOSED, uvhttp_ws_write(ws, "a", 1));
    NOTE(UVHTTP_E_CLOSED, uvhttp_ws_end(ws));
    NOTE(UVHTTP_E_CLOSED, uvhttp_ws_close(ws, 1000, NULL));
}

static void test_calls_in_a_state_that_does_not_allow_them_send_nothing(void **state) {
    static const char expected[] = "\x01\x01\xc3"
                                   "\0\x01\xa9"
                                   "\x80\0"
                                   "\x82\x01"
                                   "b\x82\0"
                                   "\x81\0"
                                   "\x88\x02\x03\xe8";
    serving_t *serving = *state;
    const uvhttp_ws_handlers_t calling = {.on_open = make_calls, .on_message = on_message};
    atomic_store(&call_count, 0);
    serving_make(serving);
    assert_non_null(uvhttp_websocket(serving->server, "/ws", &calling, NULL));
    serving_start(serving);
    int fd = handshake(serving);
    char got[sizeof expected - 1];
    assert_int_equal(recv(fd, got, sizeof got, MSG_WAITALL), sizeof got);
    for (int i = 0; i < atomic_load(&call_count); i++)
        if (calls[i].status != calls[i].expected) fail_msg("%s: %d", calls[i].call, calls[i].status);
    assert_int_equal(atomic_load(&call_count), 25);
    assert_memory_equal(got, expected, sizeof got);
    serving_leave(serving, fd);
}

static uvhttp_ws_t *kept;

static void keep(uvhttp_ws_t *ws, void *user) {
    (void)user;
    kept = ws;
}

static void free_stopped(uvhttp_server_t *server, void *user) {
    (void)user;
    uvhttp_server_free(server);
}

/* The loop has waited for long when the application calls, before any iteration of the server. */
static void test_a_close_by_the_application_of_an_embedding_loop_has_its_time(void **state) {
    serving_t *serving = *state;
    const uvhttp_ws_options_t options = {.close_timeout = 1};
    const uvhttp_ws_handlers_t keeping = {
        .on_open = keep, .on_message = on_message, .on_close = on_close, .options = &options};
    uv_loop_t loop;
    kept = NULL;
    assert_int_equal(uv_loop_init(&loop), 0);
    uvhttp_server_t *server = uvhttp_server_new(&serving->config);
    assert_non_null(uvhttp_websocket(server, "/ws", &keeping, NULL));
    assert_int_equal(uvhttp_server_attach(server, &loop), UVHTTP_OK);
    uvhttp_server_on_stopped(server, free_stopped, NULL);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    int fd = client_ask(serving, HANDSHAKE);
    while (!kept) uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(client_read(fd)->status, 101);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 300 * 1000000}, NULL);
    assert_int_equal(uvhttp_ws_close(kept, 1001, ""), UVHTTP_OK);
    for (int i = 0; i < 3; i++) uv_run(&loop, UV_RUN_NOWAIT);
    client_expect(fd, "\x88\x02\x03\xe9", 4);
    client_send(fd, "\x88\x82\0\0\0\0\x03\xe9", 8);
    uvhttp_server_stop(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(atomic_load(&last_code), 1001);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_filled_in_and_lists_are_copied),
        cmocka_unit_test(test_a_message_in_pieces_may_be_larger),
        cmocka_unit_test(test_wrong_options_are_kept_for_listen),
        cmocka_unit_test(test_wrong_routes_are_refused),
        cmocka_unit_test(test_registration_bears_any_failed_allocation),
        ON_EACH(test_a_connection_bears_any_failed_allocation),
        ON_EACH(test_memory_for_a_message_is_there_only_while_it_is_incomplete),
        ON_EACH(test_an_idle_connection_costs_less_than_a_kilobyte),
        ON_EACH(test_a_stop_lets_a_last_message_out),
        ON_EACH(test_a_hook_that_changes_the_response_leaves_no_connection_behind),
        ON_EACH(test_a_close_by_the_application_of_an_embedding_loop_has_its_time),
        ON_EACH(test_calls_in_a_state_that_does_not_allow_them_send_nothing),
    };
    return RUN_TABLE(tests);
}
