/* Owns: tests of request bodies that the handler takes as they arrive. */
#include <uv.h>

#include "conn/conn.h"
#include "support/failing_allocator.h"
#include "support/streaming.h"

static const uvhttp_route_options_t plain = {0};

static void test_a_sized_body_comes_in_order_and_the_next_request_is_served(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_ask(serving, HEAD("Content-Length: 11\r\n") "hello world" GET("/hello"));
    expect_consumed(fd, "hello world", 11);
    expect_hello(fd);
    close(fd);
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.dones, 1);
    assert_int_equal(seen.done_status, UVHTTP_OK);
}

static void send_byte_by_byte(int fd, const char *text) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    for (; *text; ++text) client_send(fd, text, 1);
}

static void test_a_chunked_body_byte_by_byte_with_trailers(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_connect(serving->port);
    send_byte_by_byte(fd, CHUNKED_HEAD "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-Other: 1\r\nX-Check:  fine \r\n\r\n");
    expect_consumed(fd, "hello world", 11);
    assert_trailer("fine");
    client_send_text(fd, GET("/hello"));
    expect_hello(fd);
    close(fd);
}

static void test_a_whole_chunked_message_in_one_piece(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_ask(serving, CHUNKED_HEAD "1\r\na\r\n2\r\nbc\r\n0\r\nx-check: t\r\n\r\n" GET("/hello"));
    expect_consumed(fd, "abc", 3);
    expect_hello(fd);
    assert_trailer("t");
    assert_int_equal(seen.pieces, 2);
    close(fd);
}

static void test_no_body_is_an_end_without_data(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_ask(serving, HEAD("Content-Length: 0\r\n"));
    expect_consumed(fd, "", 0);
    client_send_text(fd, HEAD(""));
    expect_consumed(fd, "", 0);
    client_send_text(fd, CHUNKED_HEAD "0\r\n\r\n");
    expect_consumed(fd, "", 0);
    atomic_store(&seen.no_response, true);
    client_send_text(fd, HEAD(""));
    assert_int_equal(client_read(fd)->status, 500);
    client_send_text(fd, HEAD("Content-Length: 1\r\n") "x");
    assert_int_equal(client_read(fd)->status, 500);
    atomic_store(&seen.no_response, false);
    atomic_store(&seen.defer, true);
    client_send_text(fd, HEAD(""));
    assert_int_equal(client_read(fd)->status, 200);
    uvhttp_deferred_release(atomic_load(&seen.deferred));
    close(fd);
    assert_int_equal(counter(serving, "handler_no_response"), 2);
}

static void test_a_deferred_response_may_follow_the_end_of_no_body(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.defer, true);
    atomic_store(&seen.no_response, true);
    int fd = client_ask(serving, HEAD(""));
    WAIT_UNTIL(atomic_load(&seen.ends) == 1);
    uvhttp_deferred_t *deferred = atomic_load(&seen.deferred);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "later"), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
    assert_string_equal(client_read(fd)->body, "later");
    client_send_text(fd, GET("/hello"));
    expect_hello(fd);
    close(fd);
    assert_int_equal(counter(serving, "handler_no_response"), 0);
}

static void test_100_is_sent_when_the_handler_wants_the_body(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_ask(serving, HEAD("Content-Length: 4\r\nExpect: 100-continue\r\n"));
    client_expect_text(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send_text(fd, "body" GET("/hello"));
    expect_consumed(fd, "body", 4);
    expect_hello(fd);
    /* Once; and after it the body comes, whatever the response. */
    seen_reset();
    atomic_store(&seen.respond_at_first, true);
    client_send_text(fd, HEAD("Content-Length: 4\r\nExpect: 100-continue\r\n"));
    client_expect_text(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    client_send_text(fd, "b");
    assert_string_equal(client_read(fd)->body, "early");
    client_send_text(fd, "ody" GET("/hello"));
    expect_hello(fd);
    close(fd);
}

static void test_no_100_and_the_end_of_the_connection_for_an_early_response(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.respond_in_handler, true);
    int fd = client_ask(serving, HEAD("Content-Length: 4\r\nExpect: 100-continue\r\n"));
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, "at once");
    assert_non_null(strstr(response->text, "Connection: close\r\n"));
    client_expect_end(fd);
    close(fd);
    assert_int_equal(counter(serving, "responses_1xx"), 0);
    assert_int_equal(seen.ends, 0);
}

static void test_the_rest_of_a_small_body_that_was_responded_to_early_is_thrown_away(void **state) {
    serving_t *serving = *state;
    static char body[65536];
    memset(body, 'G', sizeof body);
    streaming_start(serving, plain);
    atomic_store(&seen.respond_in_handler, true);
    int fd = client_ask(serving, HEAD("Content-Length: 65536\r\n"));
    assert_string_equal(client_read(fd)->body, "at once");
    client_send(fd, body, sizeof body);
    client_send_text(fd, GET("/hello"));
    expect_hello(fd);
    atomic_store(&seen.respond_in_handler, false);
    atomic_store(&seen.respond_at_first, true);
    client_send_text(fd, HEAD("Content-Length: 65536\r\n") "x");
    assert_string_equal(client_read(fd)->body, "early");
    client_send(fd, body, sizeof body - 1);
    client_send_text(fd, GET("/hello"));
    expect_hello(fd);
    close(fd);
    assert_int_equal(seen.ends, 0);
    assert_int_equal(seen.dones, 2);
}

static void test_a_large_or_chunked_rest_ends_the_connection_after_the_response(void **state) {
    serving_t *serving = *state;
    static const char *const requests[] = {HEAD("Content-Length: 65538\r\n") "x", CHUNKED_HEAD "1\r\nx\r\n"};
    streaming_start(serving, plain);
    atomic_store(&seen.respond_at_first, true);
    for (size_t i = 0; i < 2; ++i) {
        atomic_store(&seen.pieces, 0);
        int fd = client_ask(serving, requests[i]);
        client_response_t *response = client_read(fd);
        assert_string_equal(response->body, "early");
        assert_non_null(strstr(response->text, "Connection: close\r\n"));
        client_send(fd, "more", 4); /* it lingers */
        client_expect_end(fd);
        close(fd);
    }
}

static void test_a_handler_that_neither_responds_nor_defers_gets_500(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.no_on_body, true);
    int fd = client_ask(serving, HEAD("Content-Length: 4\r\n") "body" GET("/hello"));
    assert_int_equal(client_read(fd)->status, 500);
    expect_hello(fd);
    close(fd);
}

static void test_a_deferred_response_without_on_body_leaves_the_body_unread(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.no_on_body, true);
    atomic_store(&seen.defer, true);
    int fd = client_ask(serving, HEAD("Content-Length: 4\r\n") "body" GET("/hello"));
    WAIT_UNTIL(atomic_load(&seen.deferred) != NULL);
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_OK); /* asked for nothing: no effect */
    assert_int_equal(uvhttp_deferred_text(seen.deferred, 200, "later"), UVHTTP_OK);
    uvhttp_deferred_release(seen.deferred);
    assert_string_equal(client_read(fd)->body, "later");
    expect_hello(fd);
    close(fd);
}

enum { LARGE_RESPONSE = 8 << 20 };

static void respond_static(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const uvhttp_str_t *body = user;
    (void)req;
    uvhttp_response_send_static(res, 200, "text/plain", body->data, body->size);
}

static int connect_narrow(const serving_t *serving) {
    int fd = client_connect_narrow(serving->port, 65536);
    struct timeval limit = {.tv_sec = LIMIT_SECONDS};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return fd;
}

/* Such a client would wait forever for a server that waits for it. */
static void test_a_client_that_reads_only_after_it_has_sent_gets_a_large_early_response(void **state) {
    serving_t *serving = *state;
    char *data = calloc(1, LARGE_RESPONSE);
    uvhttp_str_t body = {data, LARGE_RESPONSE};
    serving_make(serving);
    uvhttp_route_options(uvhttp_post(serving->server, "/take", respond_static, &body),
                         &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = connect_narrow(serving);
    client_send_text(fd, HEAD("Content-Length: 67108864\r\n"));
    for (int i = 0; i < 8; ++i) client_send(fd, data, LARGE_RESPONSE);
    static char in[65536]; /* the server's thread may still be reading `data` */
    size_t got = 0;
    for (ssize_t now; (now = client_receive_some(fd, in, sizeof in)) > 0;) got += (size_t)now;
    assert_true(got > LARGE_RESPONSE);
    serving_leave(serving, fd);
    free(data);
}

/* It reads nothing, either, but it has broken a rule: nobody waits for it. */
static void test_a_client_that_floods_behind_a_refusal_is_reset_although_it_reads_nothing(void **state) {
    serving_t *serving = *state;
    char *data = calloc(1, LARGE_RESPONSE);
    uvhttp_str_t body = {data, 512 << 10}; /* the kernel takes all of it at once */
    serving_make(serving);
    uvhttp_get(serving->server, "/static", respond_static, &body);
    serving_start(serving);
    int fd = connect_narrow(serving);
    client_send_text(fd, GET("/static") "nonsense\r\n\r\n");
    uint64_t start = uvhttp__clock_ns() / 1000000;
    while (send(fd, data, LARGE_RESPONSE, MSG_NOSIGNAL) > 0) continue;
    uint64_t ticks = (uvhttp__clock_ns() / 1000000 - start) / UVHTTP__CONN_DISCARD_MS + 2;
    bool slow = counter(serving, "bytes_received") <= (ticks + 1) * UVHTTP__CONN_DISCARD_MAX; /* the machine */
    assert_true(slow || counter(serving, "closing_floods") > 0);
    serving_leave(serving, fd);
    free(data);
}

/* --- backpressure --- */

enum { MIB = 1 << 20 };

/* Sends the pattern until `total` bytes are out or the socket has accepted nothing for a while; returns how many were
 * sent. */
static size_t pump(int fd, const char *data, size_t total, int patience_ms) {
    size_t sent = 0;
    struct pollfd writable = {.fd = fd, .events = POLLOUT};
    while (sent < total && poll(&writable, 1, patience_ms) > 0) {
        ssize_t now = send(fd, data + sent, total - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (now < 0 && errno != EAGAIN) break;
        if (now > 0) sent += (size_t)now;
    }
    return sent;
}

static void test_a_paused_handler_holds_back_a_client_of_64_mib(void **state) {
    serving_t *serving = *state;
    const size_t total = 64u * MIB;
    char *data = malloc(total);
    for (size_t i = 0; i < total; ++i) data[i] = (char)(i * 7 + (i >> 12));
    streaming_start(serving, plain);
    atomic_store(&seen.defer, true);
    atomic_store(&seen.pause_at_first, true);
    int fd = client_connect(serving->port);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){65536}, sizeof(int));
    client_send_text(fd, HEAD("Content-Length: 67108864\r\n"));
    WAIT_UNTIL(atomic_load(&seen.deferred) != NULL);
    size_t before = test_allocator_live_bytes();
    size_t sent = pump(fd, data, total, 300);
    assert_true(sent < total); /* the kernel's buffers are full: TCP holds the client back */
    WAIT_UNTIL(seen.pieces == 1);
    uint64_t received = counter(serving, "bytes_received");
    /* 64 KiB are kept, and what was in receive buffers when that was reached. */
    const uvhttp_server_config_t *config = &serving->config;
    uint64_t most = 2 * 65536 + (uint64_t)config->read_buffer_count * config->read_buffer_size;
    assert_true(received < most);
    assert_true(test_allocator_live_bytes() < before + most + 65536); /* and what holds them */
    print_message("stalled with %zu bytes sent, %llu received\n", sent, (unsigned long long)received);
    /* From this thread. */
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_OK);
    while (sent < total) sent += pump(fd, data + sent, total - sent, LIMIT_SECONDS * 1000);
    expect_consumed(fd, data, total);
    assert_true(atomic_load(&seen.largest) <= (int)serving->config.read_buffer_size);
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_E_STATE);
    uvhttp_deferred_release(seen.deferred);
    client_send_text(fd, GET("/hello"));
    expect_hello(fd);
    close(fd);
    free(data);
}

static void test_pausing_from_another_thread_and_in_the_handler(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.defer, true);
    atomic_store(&seen.pause_in_handler, true);
    int fd = client_ask(serving, CHUNKED_HEAD "1\r\na\r\n");
    WAIT_UNTIL(atomic_load(&seen.deferred) != NULL);
    int other = client_ask(serving, GET("/hello")); /* the loop has gone round */
    expect_hello(other);
    assert_int_equal(seen.pieces, 0);
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_OK);
    WAIT_UNTIL(seen.pieces == 1);
    assert_int_equal(uvhttp_deferred_pause_body(seen.deferred), UVHTTP_OK);
    client_send_text(other, GET("/hello"));
    expect_hello(other);
    client_send_text(fd, "1\r\nb\r\n0\r\n\r\n" GET("/hello"));
    for (int i = 0; i < 3; ++i) {
        client_send_text(other, GET("/hello"));
        expect_hello(other);
    }
    assert_int_equal(seen.pieces, 1);
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_OK);
    expect_consumed(fd, "ab", 2);
    expect_hello(fd);
    uvhttp_deferred_release(seen.deferred);
    close(other);
    close(fd);
}

/* --- ends that are none --- */

static void test_a_client_that_goes_at_any_byte_is_reported_once(void **state) {
    serving_t *serving = *state;
    static const char message[] = CHUNKED_HEAD "5\r\nhello\r\n3\r\n wo\r\n0\r\nx-check: t\r\n\r\n";
    const size_t head = strlen(CHUNKED_HEAD);
    streaming_start(serving, plain);
    for (size_t cut = head; cut < strlen(message); ++cut) {
        for (int reset = 0; reset < 2; ++reset) {
            int handlers = seen.handlers;
            int fd = client_connect(serving->port);
            client_send(fd, message, cut);
            WAIT_UNTIL(seen.handlers == handlers + 1);
            if (reset)
                client_reset(fd);
            else
                close(fd);
            WAIT_UNTIL(seen.dones == handlers + 1);
            assert_int_equal(seen.ends, handlers + 1);
            assert_int_equal(seen.done_status, UVHTTP_E_ABORTED);
            assert_int_equal(seen.end_status, reset ? UVHTTP_E_ABORTED : UVHTTP_E_HTTP_BODY_INCOMPLETE);
        }
    }
    assert_int_equal(counter(serving, "aborted"), seen.ends);
}

static void test_a_reset_reaches_a_paused_handler(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.defer, true);
    atomic_store(&seen.pause_at_first, true);
    int fd = client_ask(serving, HEAD("Content-Length: 1000\r\n") "x");
    WAIT_UNTIL(seen.pieces == 1);
    client_reset(fd);
    WAIT_UNTIL(seen.dones == 1);
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.end_status, UVHTTP_E_ABORTED);
    assert_int_equal(seen.aborts, 1);
    uvhttp_deferred_t *deferred = seen.deferred;
    assert_int_equal(uvhttp_deferred_resume_body(deferred), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "nobody"), UVHTTP_E_ABORTED);
    assert_true(uvhttp_request_path(uvhttp_deferred_request(deferred)).size > 0);
    uvhttp_deferred_release(deferred);
}

static void test_a_malformed_chunk_is_reported_and_refused(void **state) {
    serving_t *serving = *state;
    for (int defer = 0; defer < 2; ++defer) {
        if (defer == 0) streaming_start(serving, plain);
        seen_reset();
        atomic_store(&seen.defer, defer);
        int fd = client_ask(serving, CHUNKED_HEAD "1\r\na\r\nnonsense\r\n");
        assert_int_equal(client_read(fd)->status, 400);
        client_expect_end(fd);
        close(fd);
        WAIT_UNTIL(seen.dones == 1);
        assert_int_equal(seen.ends, 1);
        assert_int_equal(seen.end_status, UVHTTP_E_HTTP_CHUNK_SIZE);
        assert_int_equal(seen.done_status, defer ? UVHTTP_E_ABORTED : UVHTTP_OK);
        assert_int_equal(seen.aborts, defer);
        if (defer) uvhttp_deferred_release(seen.deferred);
    }
    assert_int_equal(counter(serving, "rejected_http_chunk_size"), 2);
    assert_int_equal(counter(serving, "aborted"), 0);
}

/* --- with the response --- */

static void echo_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_write(res, data.data, data.size) != UVHTTP_OK) abort();
}

static void echo_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)user;
    atomic_store(&seen.end_status, status); /* what was begun is ended */
    atomic_fetch_add(&seen.ends, 1);
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) abort();
    if (uvhttp_request_on_body(req, echo_data, echo_end, NULL) != UVHTTP_OK) abort();
}

static void skip_head(int fd) {
    char last[5] = "    ";
    while (strcmp(last, "\r\n\r\n") != 0) {
        memmove(last, last + 1, 3);
        client_receive(fd, last + 3, 1);
    }
}

static void test_what_comes_can_be_sent_back_at_once(void **state) {
    serving_t *serving = *state;
    seen_reset();
    serving_make(serving);
    uvhttp_route_options(uvhttp_post(serving->server, "/take", echo, NULL),
                         &(uvhttp_route_options_t){.stream_body = true});
    uvhttp_get(serving->server, "/hello", hello, NULL);
    serving_start(serving);
    int fd = client_ask(serving, CHUNKED_HEAD);
    skip_head(fd);
    client_send_text(fd, "1\r\na\r\n");
    client_expect_text(fd, "1\r\na\r\n");
    client_send_text(fd, "2\r\nbc\r\n");
    client_expect_text(fd, "2\r\nbc\r\n");
    client_send_text(fd, "0\r\n\r\n" GET("/hello"));
    client_expect_text(fd, "0\r\n\r\n");
    expect_hello(fd);
    close(fd);
    /* One that is malformed can only be cut off. */
    fd = client_ask(serving, CHUNKED_HEAD "1\r\na\r\n");
    skip_head(fd);
    client_expect_text(fd, "1\r\na\r\n");
    client_send_text(fd, "?");
    client_expect_end(fd);
    close(fd);
    WAIT_UNTIL(seen.ends == 2);
    assert_int_equal(seen.end_status, UVHTTP_E_HTTP_CHUNK_SIZE);
}

static void test_another_thread_responds_before_the_body_is_there(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    atomic_store(&seen.defer, true);
    int fd = client_ask(serving, HEAD("Content-Length: 10\r\n") "12345");
    WAIT_UNTIL(seen.pieces > 0);
    assert_int_equal(uvhttp_deferred_text(seen.deferred, 200, "enough"), UVHTTP_OK);
    uvhttp_deferred_release(seen.deferred);
    assert_string_equal(client_read(fd)->body, "enough");
    client_send_text(fd, "67890" GET("/hello"));
    expect_hello(fd);
    close(fd);
    assert_int_equal(seen.ends, 0);
    assert_int_equal(seen.dones, 1);
}

static _Atomic(uvhttp_deferred_t *) waiting;

static uvhttp_flow_t wait_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_request_on_body(req, take_data, NULL, NULL) != UVHTTP_E_INVALID) abort();
    atomic_store(&waiting, uvhttp_response_defer(res));
    return UVHTTP_STOP;
}

static uvhttp_flow_t pass_on(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void test_a_body_waits_for_a_middleware_that_waits(void **state) {
    serving_t *serving = *state;
    static const char *const requests[] = {HEAD("Content-Length: 4\r\n") "body",
                                           CHUNKED_HEAD "4\r\nbody\r\n0\r\nX-Check: t\r\n\r\n", HEAD("")};
    seen_reset();
    serving_make(serving);
    uvhttp_route_t *route = uvhttp_post(serving->server, "/take", take, NULL);
    uvhttp_route_use(route, (uvhttp_middleware_t){.run = wait_here});
    uvhttp_route_options(route,
                         &(uvhttp_route_options_t){.stream_body = true, .response_timeout_ms = LIMIT_SECONDS * 1000});
    serving_start(serving);
    int fd = client_connect(serving->port);
    for (int i = 0; i < 6; ++i) {
        seen_reset();
        atomic_store(&seen.defer, i >= 3);
        client_send_text(fd, requests[i % 3]);
        WAIT_UNTIL(atomic_load(&waiting) != NULL);
        uvhttp_deferred_t *deferred = atomic_exchange(&waiting, NULL);
        assert_int_equal(seen.handlers + seen.pieces, 0);
        assert_int_equal(uvhttp_deferred_next(deferred, pass_on, NULL), UVHTTP_OK);
        uvhttp_deferred_release(deferred);
        expect_consumed(fd, "body", i % 3 == 2 ? 0 : 4);
        uvhttp_deferred_release(atomic_load(&seen.deferred));
    }
    /* One that goes meanwhile. */
    seen_reset();
    client_send_text(fd, requests[0]);
    WAIT_UNTIL(atomic_load(&waiting) != NULL);
    client_reset(fd);
    uvhttp_deferred_t *deferred = atomic_exchange(&waiting, NULL);
    WAIT_UNTIL(uvhttp_deferred_aborted(deferred));
    uvhttp_deferred_release(deferred);
    assert_int_equal(seen.handlers, 0);
}

static bool takes_connections(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool consumed = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return consumed;
}

static void test_a_server_that_drains_lets_the_body_come(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, plain);
    int fd = client_ask(serving, HEAD("Content-Length: 10\r\n") "12345");
    WAIT_UNTIL(seen.pieces > 0);
    uvhttp_server_stop(serving->server);
    WAIT_UNTIL(!takes_connections(serving->port));
    client_send_text(fd, "67890");
    char text[64];
    snprintf(text, sizeof text, "10 %lu", sum_of("1234567890", 10, 0));
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, text);
    assert_non_null(strstr(response->text, "Connection: close\r\n"));
    client_expect_end(fd);
    close(fd);
    serving_join(serving);
    assert_int_equal(counter(serving, "drain_cut_off"), 0);
}

/* --- in an embedding loop --- */

static uvhttp_request_t *held;

static void hold(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res, (void)data, (void)user;
    if (!held) assert_int_equal(uvhttp_request_pause_body(req), UVHTTP_OK);
    held = req;
}

static void respond_at_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)user;
    if (status == UVHTTP_OK) (void)uvhttp_response_text(res, 200, "whole");
}

static void take_and_hold(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    assert_int_equal(uvhttp_request_on_body(req, hold, respond_at_end, NULL), UVHTTP_OK);
}

static void free_stopped(uvhttp_server_t *server, void *user) {
    (void)user;
    uvhttp_server_free(server);
}

/* The application resumes it before any iteration of the server, behind a long wait: that is not the client's time. */
static void test_a_pause_in_an_embedding_loop_is_not_the_clients_time(void **state) {
    serving_t *serving = *state;
    uv_loop_t loop;
    held = NULL;
    serving->config.min_receive_rate = 1000;
    serving->config.rate_grace = 1;
    assert_int_equal(uv_loop_init(&loop), 0);
    uvhttp_server_t *server = uvhttp_server_new(&serving->config);
    const uvhttp_route_options_t streamed = {.stream_body = true};
    assert_int_equal(uvhttp_route_options(uvhttp_post(server, "/", take_and_hold, NULL), &streamed), UVHTTP_OK);
    assert_int_equal(uvhttp_server_attach(server, &loop), UVHTTP_OK);
    uvhttp_server_on_stopped(server, free_stopped, NULL);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    int fd = client_ask(serving, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    while (!held) uv_run(&loop, UV_RUN_ONCE);
    uv_run(&loop, UV_RUN_NOWAIT);
    nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 500 * 1000000}, NULL);
    assert_int_equal(uvhttp_request_resume_body(held), UVHTTP_OK);
    for (int i = 0; i < 3; i++) uv_run(&loop, UV_RUN_NOWAIT);
    client_send(fd, "cd", 2);
    uvhttp_server_stop(server);
    uv_run(&loop, UV_RUN_DEFAULT);
    client_read_last(fd, 200);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    test_allocator_install();
    return RUN_ON_EACH(
        test_a_sized_body_comes_in_order_and_the_next_request_is_served, test_a_chunked_body_byte_by_byte_with_trailers,
        test_a_whole_chunked_message_in_one_piece, test_no_body_is_an_end_without_data,
        test_a_deferred_response_may_follow_the_end_of_no_body, test_100_is_sent_when_the_handler_wants_the_body,
        test_no_100_and_the_end_of_the_connection_for_an_early_response,
        test_the_rest_of_a_small_body_that_was_responded_to_early_is_thrown_away,
        test_a_large_or_chunked_rest_ends_the_connection_after_the_response,
        test_a_handler_that_neither_responds_nor_defers_gets_500,
        test_a_client_that_reads_only_after_it_has_sent_gets_a_large_early_response,
        test_a_client_that_floods_behind_a_refusal_is_reset_although_it_reads_nothing,
        test_a_deferred_response_without_on_body_leaves_the_body_unread,
        test_a_paused_handler_holds_back_a_client_of_64_mib, test_pausing_from_another_thread_and_in_the_handler,
        test_a_client_that_goes_at_any_byte_is_reported_once, test_a_reset_reaches_a_paused_handler,
        test_a_malformed_chunk_is_reported_and_refused, test_what_comes_can_be_sent_back_at_once,
        test_another_thread_responds_before_the_body_is_there, test_a_body_waits_for_a_middleware_that_waits,
        test_a_server_that_drains_lets_the_body_come, test_a_pause_in_an_embedding_loop_is_not_the_clients_time);
}
