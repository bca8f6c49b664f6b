/* Owns: tests of WebSocket tunnels on streams of HTTP/2 whose clients open no window: what waits for it is checked
 * against min_send_rate, however it was sent; and on_close has no code that was not sent. What is queued for a tunnel
 * does not hold up other streams. */
/* Needs: websocket. */
#include "support/http2_client.h"

enum { PROTOCOL_ERROR = 1, CANCEL = 8, MESSAGE_SIZE = 65536, MESSAGES = 48, WINDOW = 16 << 20 };

static h2_out_t out;
static h2_frame_t frame;
static atomic_int closed;

static void send_small(uvhttp_ws_t *ws, void *user) {
    (void)user;
    assert_int_equal(uvhttp_ws_send(ws, UVHTTP_WS_TEXT, "small", 5), UVHTTP_OK);
}

/* Reading is paused until on_drain, so that it is not the silence of the client that ends it. */
static void send_part(uvhttp_ws_t *ws, void *user) {
    (void)user;
    assert_int_equal(uvhttp_ws_begin(ws, UVHTTP_WS_TEXT), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_write(ws, "a part", 6), UVHTTP_OK);
    uvhttp_ws_pause(ws);
}

static void publish(uvhttp_ws_t *ws, void *user) {
    (void)user;
    assert_int_equal(uvhttp_ws_subscribe(ws, "topic"), UVHTTP_OK);
    assert_int_equal(uvhttp_ws_publish(ws, "topic", UVHTTP_WS_TEXT, "published", 9), UVHTTP_OK);
}

/* The client breaks a rule behind this, for which no second close frame is sent. */
static void close_it(uvhttp_ws_t *ws, void *user) {
    (void)user;
    assert_int_equal(uvhttp_ws_close(ws, UVHTTP_WS_NORMAL, NULL), UVHTTP_OK);
}

static void on_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
}

static void on_close(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)reason, (void)user;
    if (code == UVHTTP_WS_ABNORMAL) atomic_fetch_add(&closed, 1);
}

static void put_connect(uint32_t stream, const char *path) {
    const char *const fields[][2] = {{":method", "CONNECT"}, {":protocol", "websocket"},
                                     {":scheme", "http"},    {":path", path},
                                     {":authority", "a"},    {"sec-websocket-version", "13"}};
    char block[256];
    size_t size = 0;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        size = h2_put_field(block, size, fields[i][0], fields[i][1]);
    h2_put_frame(&out, H2_HEADERS, H2_END_HEADERS, stream, block, size);
}

static void add(const serving_t *serving, const char *path, void (*on_open)(uvhttp_ws_t *ws, void *user)) {
    const uvhttp_ws_options_t options = {.rate_grace = 1, .publish_to_self = true};
    const uvhttp_ws_handlers_t handlers = {
        .on_open = on_open, .on_message = on_message, .on_close = on_close, .options = &options};
    assert_non_null(uvhttp_websocket(serving->server, path, &handlers, NULL));
}

/* A client whose tunnels have no window. */
static int open_tunnels(const serving_t *serving) {
    int fd = client_connect(serving->port);
    out.size = 0;
    h2_put_preface(&out);
    h2_put_setting(&out, 4, 0);
    put_connect(1, "/small");
    put_connect(3, "/part");
    put_connect(5, "/published");
    put_connect(7, "/closing");
    h2_put_frame(&out, H2_DATA, 0, 7, "\xf1reserved bits", 14);
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    return fd;
}

static void test_what_waits_for_a_window_is_checked(void **state) {
    serving_t *serving = *state;
    atomic_store(&closed, 0);
    serving_make(serving);
    add(serving, "/small", send_small);
    add(serving, "/part", send_part);
    add(serving, "/published", publish);
    add(serving, "/closing", close_it);
    serving_start(serving);
    int fd = open_tunnels(serving);
    unsigned streams = 0;
    for (int i = 0; i < 4; i++) {
        h2_expect(fd, H2_RST_STREAM, UINT32_MAX, &frame);
        assert_int_equal(h2_get32(frame.payload), CANCEL);
        streams |= 1u << frame.stream;
    }
    assert_int_equal(streams, 1u << 1 | 1u << 3 | 1u << 5 | 1u << 7);
    WAIT_UNTIL(atomic_load(&closed) == 4);
    serving_leave(serving, fd);
}

static char zeros[MESSAGE_SIZE];

static void send_much(uvhttp_ws_t *ws, void *user) {
    (void)user;
    for (int i = 0; i < MESSAGES; i++) (void)uvhttp_ws_send(ws, UVHTTP_WS_BINARY, zeros, sizeof zeros);
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_send_static(res, 200, "text/plain", zeros, sizeof zeros);
}

/* Its sockets hold little. */
static int open_wide_tunnel(const serving_t *serving) {
    int fd = client_socket(), small = 4096;
    struct sockaddr_in address = loopback(serving->port);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    out.size = 0;
    h2_put_preface(&out);
    h2_put_setting(&out, 4, WINDOW);
    h2_put_window(&out, 0, WINDOW - 65535);
    put_connect(1, "/much");
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    h2_expect(fd, H2_DATA, 1, &frame);
    return fd;
}

static void test_a_tunnel_does_not_hold_up_other_streams(void **state) {
    serving_t *serving = *state;
    serving->config.http2_connection_memory_max = WINDOW;
    serving_make(serving);
    add(serving, "/much", send_much);
    assert_non_null(uvhttp_get(serving->server, "/response", respond, NULL));
    serving_start(serving);
    int fd = open_wide_tunnel(serving);
    out.size = 0;
    h2_put_request(&out, 3, false, "/response", true);
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    size_t of_tunnel = 0; /* what comes with the response: how much was under way before is the system's affair */
    do {
        assert_true(h2_read(fd, &frame));
        if (frame.type == H2_HEADERS) of_tunnel = 0;
        if (frame.type == H2_DATA && frame.stream == 1) of_tunnel += frame.size;
    } while (frame.stream != 3 || frame.type != H2_DATA || !(frame.flags & H2_END_STREAM));
    assert_in_range(of_tunnel, 0, 3 * MESSAGE_SIZE);
    serving_leave(serving, fd);
}

static _Atomic(uvhttp_deferred_t *) waiting;

static uvhttp_flow_t wait_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&waiting, uvhttp_response_defer(res));
    return UVHTTP_STOP;
}

/* While a middleware decides, the stream is no tunnel yet, and takes DATA only (RFC 9113 section 8.5). */
static void test_trailers_reset_a_tunnel_that_is_not_open_yet(void **state) {
    serving_t *serving = *state;
    bool reset = false;
    atomic_store(&waiting, NULL);
    serving_make(serving);
    assert_int_equal(uvhttp_use(serving->server, (uvhttp_middleware_t){.run = wait_here}), UVHTTP_OK);
    add(serving, "/part", send_part);
    serving_start(serving);
    int fd = client_connect(serving->port);
    out.size = 0;
    h2_put_preface(&out);
    put_connect(1, "/part");
    char block[16];
    h2_put_frame(&out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, block, h2_put_field(block, 0, "x", "y"));
    h2_put_frame(&out, H2_PING, 0, 0, "trailers", 8);
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    do {
        assert_true(h2_read(fd, &frame));
        if (frame.type == H2_RST_STREAM && frame.stream == 1 && h2_get32(frame.payload) == PROTOCOL_ERROR) reset = true;
    } while (frame.type != H2_PING);
    uvhttp_deferred_t *deferred = atomic_load(&waiting);
    assert_non_null(deferred);
    assert_true(uvhttp_deferred_aborted(deferred));
    uvhttp_deferred_release(deferred);
    assert_true(reset);
    serving_leave(serving, fd);
}

enum { ONE = 7, PER_TUNNEL = 100, TUNNELS = 4 };
static atomic_int received, received_at_close;

static void count_message(uvhttp_ws_t *ws, uvhttp_ws_message_t message, void *user) {
    (void)ws, (void)message, (void)user;
    atomic_fetch_add(&received, 1);
}

static void note_count(uvhttp_ws_t *ws, int code, uvhttp_str_t reason, void *user) {
    (void)ws, (void)code, (void)reason, (void)user;
    atomic_store(&received_at_close, atomic_load(&received));
    atomic_fetch_add(&closed, 1);
}

/* Clients of tunnels that have so small a share that it takes many iterations to read what has come at once. */
static int open_counting(serving_t *serving) {
    atomic_store(&closed, 0);
    atomic_store(&received, 0);
    serving->config.iteration_requests_max = 1;
    serving_make(serving);
    const uvhttp_ws_handlers_t handlers = {.on_message = count_message, .on_close = note_count};
    assert_non_null(uvhttp_websocket(serving->server, "/count", &handlers, NULL));
    serving_start(serving);
    out.size = 0;
    h2_put_preface(&out);
    return client_connect(serving->port);
}

static void put_messages(uint32_t stream, uint8_t flags) {
    char messages[PER_TUNNEL * ONE];
    for (size_t i = 0; i < sizeof messages; i += ONE) memcpy(messages + i, "\x82\x81\0\0\0\0x", ONE);
    h2_put_frame(&out, H2_DATA, flags, stream, messages, sizeof messages);
}

static void expect_all_before(serving_t *serving, bool end_of_stream) {
    int fd = open_counting(serving);
    put_connect(1, "/count");
    put_messages(1, end_of_stream ? H2_END_STREAM : 0);
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    if (!end_of_stream) assert_int_equal(shutdown(fd, SHUT_WR), 0);
    WAIT_UNTIL(atomic_load(&closed) == 1);
    assert_int_equal(atomic_load(&received_at_close), PER_TUNNEL);
    serving_leave(serving, fd);
}

static void test_what_has_come_before_the_end_of_a_stream_is_given_before_it(void **state) {
    expect_all_before(*state, true);
}

static void test_what_has_come_before_fin_is_given_before_it(void **state) {
    expect_all_before(*state, false);
}

static void test_tunnels_of_a_connection_all_have_what_came_for_them(void **state) {
    serving_t *serving = *state;
    int fd = open_counting(serving);
    for (uint32_t i = 0; i < TUNNELS; i++) put_connect(2 * i + 1, "/count");
    for (uint32_t i = 0; i < TUNNELS; i++) put_messages(2 * i + 1, 0);
    h2_put_frame(&out, H2_PING, 0, 0, "the last", 8);
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    h2_expect(fd, H2_PING, 0, &frame);
    WAIT_UNTIL(atomic_load(&received) == TUNNELS * PER_TUNNEL);
    assert_int_equal(atomic_load(&closed), 0);
    serving_leave(serving, fd);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_what_waits_for_a_window_is_checked, test_a_tunnel_does_not_hold_up_other_streams,
                       test_trailers_reset_a_tunnel_that_is_not_open_yet,
                       test_what_has_come_before_the_end_of_a_stream_is_given_before_it,
                       test_what_has_come_before_fin_is_given_before_it,
                       test_tunnels_of_a_connection_all_have_what_came_for_them);
}
