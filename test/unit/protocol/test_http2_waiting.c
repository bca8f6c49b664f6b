/* Owns: tests of streams that wait, as thousands may: what each of them takes, and what its request still shows. */
#include "support/failing_allocator.h"
#include "support/http2_client.h"

enum { STREAMS = 100, STREAM_MEMORY_MAX = 1023, WINDOW = 16 << 20 /* more than sockets hold */ };

static struct {
    atomic_uint begun, nested;
    bool inside; /* the loop's: a handler is in a call of the library */
    uvhttp_deferred_t *kept[STREAMS];
} work;

static void wait_for_it(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    unsigned count = atomic_load(&work.begun);
    work.kept[count] = uvhttp_response_defer(res);
    atomic_store(&work.begun, count + 1);
}

static void text(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)uvhttp_response_text(res, 200, "here");
}

/* More than the windows that its client opens. */
static void large(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char body[2 * WINDOW];
    (void)uvhttp_response_send_static(res, 200, "text/plain", body, sizeof body);
}

static void say_goodbye(uvhttp_response_t *res, void *user) {
    (void)user;
    if (work.inside) atomic_fetch_add(&work.nested, 1);
    (void)uvhttp_response_close(res);
    (void)uvhttp_response_text(res, 200, "bye");
}

static void wait_for_stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    wait_for_it(req, res, user);
    (void)uvhttp_deferred_on_stop(work.kept[atomic_load(&work.begun) - 1], say_goodbye, NULL);
}

static void begin_last(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_close(res);
    work.inside = true;
    (void)uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    (void)uvhttp_response_write(res, "end", 3);
    (void)uvhttp_response_end(res);
    work.inside = false;
}

static void release_all(void) {
    for (unsigned i = 0; i < atomic_load(&work.begun); i++) uvhttp_deferred_release(work.kept[i]);
    atomic_store(&work.begun, 0);
}

static serving_t *serve_at(void **state, uint32_t min_send_rate) {
    serving_t *serving = *state;
    memset(&work, 0, sizeof work);
    serving->config.min_send_rate = min_send_rate;
    serving->config.rate_grace = 1;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/wait", wait_for_it, NULL));
    assert_non_null(uvhttp_get(serving->server, "/stop", wait_for_stop, NULL));
    assert_non_null(uvhttp_get(serving->server, "/last", begin_last, NULL));
    assert_non_null(uvhttp_get(serving->server, "/text", text, NULL));
    assert_non_null(uvhttp_get(serving->server, "/large", large, NULL));
    serving_start(serving);
    return serving;
}

static serving_t *serve(void **state) {
    return serve_at(state, UVHTTP_NEVER);
}

static h2_out_t out;
static h2_frame_t frame;

static void send_all(int fd) {
    assert_int_equal(send(fd, out.data, out.size, MSG_NOSIGNAL), out.size);
    out.size = 0;
}

static int open_connection(const serving_t *serving) {
    int fd = client_connect(serving->port);
    out.size = 0;
    h2_put_preface(&out);
    return fd;
}

static int open_without_windows(const serving_t *serving) {
    int fd = open_connection(serving);
    h2_put_setting(&out, 4, 0);
    return fd;
}

/* All requests before it have been served as far as they can. */
static void round_trip(int fd) {
    h2_put_frame(&out, H2_PING, 0, 0, "waiting.", 8);
    send_all(fd);
    do h2_expect(fd, H2_PING, 0, &frame);
    while (!(frame.flags & H2_ACK));
}

/* Bytes that each stream but the first takes. */
static size_t memory_of_a_stream(int fd, const char *path) {
    h2_put_request(&out, 1, false, path, true);
    round_trip(fd);
    size_t before = test_allocator_live_bytes();
    for (uint32_t i = 1; i < STREAMS; i++) h2_put_request(&out, 2 * i + 1, false, path, true);
    round_trip(fd);
    return (test_allocator_live_bytes() - before) / (STREAMS - 1);
}

static void test_a_deferred_stream_takes_less_than_a_kilobyte(void **state) {
    serving_t *serving = serve(state);
    int fd = open_without_windows(serving);
    size_t size = memory_of_a_stream(fd, "/wait");
    assert_int_equal(atomic_load(&work.begun), STREAMS);
    assert_in_range(size, 64, STREAM_MEMORY_MAX);
    release_all();
    serving_leave(serving, fd);
}

static void test_a_stream_without_a_window_takes_less_than_a_kilobyte(void **state) {
    serving_t *serving = serve(state);
    int fd = open_without_windows(serving);
    assert_in_range(memory_of_a_stream(fd, "/text"), 64, STREAM_MEMORY_MAX);
    serving_leave(serving, fd);
}

static bool all_are_aborted(void) {
    for (unsigned i = 0; i < STREAMS; i++)
        if (!uvhttp_deferred_aborted(work.kept[i])) return false;
    return true;
}

static void test_deferred_requests_show_their_client_when_it_has_gone(void **state) {
    serving_t *serving = serve(state);
    int fd = open_without_windows(serving);
    (void)memory_of_a_stream(fd, "/wait");
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    char peer[32];
    snprintf(peer, sizeof peer, "127.0.0.1:%u", (unsigned)ntohs(own.sin_port));
    close(fd);
    WAIT_UNTIL(all_are_aborted());
    for (unsigned i = 0; i < STREAMS; i++) {
        uvhttp_request_t *req = uvhttp_deferred_request(work.kept[i]);
        assert_string_equal(uvhttp_request_peer(req).data, peer);
        assert_string_equal(uvhttp_request_client(req).data, "127.0.0.1");
        assert_string_equal(uvhttp_request_client_scheme(req).data, "http");
        assert_memory_equal(uvhttp_request_path(req).data, "/wait", 5);
        assert_memory_equal(uvhttp_request_header(req, "host").data, uvhttp_request_host(req).data,
                            uvhttp_request_host(req).size);
        uvhttp_deferred_release(work.kept[i]); /* the last of them is the last that knows the client */
    }
    serving_stop(serving);
}

/* Most of what is sent to it waits in the server's socket. */
static int open_narrow_connection(const serving_t *serving) {
    int fd = client_socket(), small = 4096;
    struct sockaddr_in address = loopback(serving->port);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    out.size = 0;
    h2_put_preface(&out);
    return fd;
}

/* Returns when so many bytes of DATA have come; us: for each of them but the last. */
static void read_slowly(int fd, uint32_t size, unsigned us) {
    for (uint32_t received = 0; received < size;) {
        assert_true(h2_read(fd, &frame));
        assert_int_not_equal(frame.type, H2_RST_STREAM);
        if (frame.type != H2_DATA) continue;
        received += frame.size;
        if (received < size) usleep(frame.size * us);
    }
}

/* Its window is closed from the start, and it can open it only when it has received what is on its way. */
static void test_a_window_may_stay_closed_while_what_was_sent_is_on_its_way(void **state) {
    serving_t *serving = serve_at(state, 240);
    int fd = open_narrow_connection(serving);
    h2_put_request(&out, 1, false, "/large", true);
    send_all(fd);
    read_slowly(fd, 65535, 60); /* 16 KB/s: four seconds */
    h2_put_window(&out, 0, 1000);
    h2_put_window(&out, 1, 1000);
    send_all(fd);
    read_slowly(fd, 1000, 0);
    serving_leave(serving, fd);
}

/* The window is open when FIN comes, and the sockets are full. Later it closes, and nobody can open it again. */
static void test_a_client_that_has_ended_opens_no_window(void **state) {
    serving_t *serving = serve(state);
    int fd = open_narrow_connection(serving);
    h2_put_setting(&out, 4, WINDOW);
    h2_put_window(&out, 0, WINDOW - 65535);
    h2_put_request(&out, 1, false, "/large", true);
    send_all(fd);
    shutdown(fd, SHUT_WR);
    int other = client_ask(serving, "GET /text HTTP/1.1\r\nHost: a\r\n\r\n"); /* its response says that FIN was seen */
    assert_string_equal(client_read(other)->body, "here");
    close(other);
    size_t received = 0;
    while (h2_read(fd, &frame)) received += frame.type == H2_DATA ? frame.size : 0;
    assert_int_equal(received, WINDOW);
    client_expect_end(fd);
    serving_leave(serving, fd);
}

/* So many responses with a body of three bytes. */
static void expect_bodies(int fd, unsigned count) {
    while (count > 0) {
        assert_true(h2_read(fd, &frame));
        count -= frame.type == H2_DATA && frame.size == 3 && (frame.flags & H2_END_STREAM);
    }
}

/* The response that ends with its connection ends the others, too, while the server is still about to tell each of
 * them. The ids 1 and 9 are in one bucket. */
static void test_streams_that_a_stop_ends_may_end_the_connection(void **state) {
    serving_t *serving = serve(state);
    int fd = open_connection(serving);
    for (uint32_t id = 1; id <= 9; id += 2) h2_put_request(&out, id, false, id == 7 ? "/text" : "/stop", true);
    round_trip(fd);
    round_trip(fd); /* on_stop is set by a message */
    uvhttp_server_stop(serving->server);
    expect_bodies(fd, 4);
    while (h2_read(fd, &frame)) assert_int_equal(frame.type, H2_GOAWAY);
    release_all();
    serving_leave(serving, fd);
}

/* The end of the connection is begun in a call of the handler, and others hear of it behind that. */
static void test_on_stop_is_not_called_in_a_call_of_the_library(void **state) {
    serving_t *serving = serve(state);
    int fd = open_connection(serving);
    h2_put_request(&out, 1, false, "/stop", true);
    round_trip(fd);
    round_trip(fd);
    h2_put_request(&out, 3, false, "/last", true);
    send_all(fd);
    expect_bodies(fd, 2);
    assert_int_equal(atomic_load(&work.nested), 0);
    release_all();
    serving_leave(serving, fd);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(
        test_a_deferred_stream_takes_less_than_a_kilobyte, test_a_stream_without_a_window_takes_less_than_a_kilobyte,
        test_deferred_requests_show_their_client_when_it_has_gone,
        test_a_window_may_stay_closed_while_what_was_sent_is_on_its_way, test_a_client_that_has_ended_opens_no_window,
        test_streams_that_a_stop_ends_may_end_the_connection, test_on_stop_is_not_called_in_a_call_of_the_library);
}
