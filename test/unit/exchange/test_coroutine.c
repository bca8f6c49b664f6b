/* Coroutine routes: straight-line handlers that wait, on both engines, with real sockets. */
/* Needs: coroutines. */
#include "exchange/coroutine_routes.h"

#include "exec/coro_stack.h"

static void nothing_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char text[64];
    snprintf(text, sizeof text, "%d", uvhttp_coro_active());
    uvhttp_response_text(res, 200, text);
}

static void sleeper(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t path = uvhttp_request_path(req), key = uvhttp_request_header(req, "X-Key");
    uvhttp_str_t body = uvhttp_request_body(req);
    for (int i = 0; i < 3; i++)
        if (uvhttp_coro_sleep(2) != UVHTTP_OK) return;
    /* Views from before the waits. */
    char text[128];
    snprintf(text, sizeof text, "%.*s %.*s %.*s", (int)path.size, path.data, (int)key.size, key.data, (int)body.size,
             body.data ? body.data : "");
    uvhttp_response_text(res, 200, text);
}

/* A server with this handler; a client that has sent `text`. */
static int begin_and_ask(serving_t *serving, const char *text, const char *path, uvhttp_handler_cb handler) {
    begin(serving, path, handler);
    serving_start(serving);
    return client_ask(serving, text);
}

static void test_a_handler_that_does_not_wait_is_not_deferred(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/now"), "/now", nothing_here);
    assert_string_equal(client_read(fd)->body, "1");
    client_send_text(fd, GET("/now"));
    assert_string_equal(client_read(fd)->body, "1");
    serving_leave(serving, fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines"), 2);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_waited"), 0);
    assert_int_equal(uvhttp_server_counter(serving->server, "deferred"), 0);
}

static void test_views_of_the_request_stay_valid_across_waits(void **state) {
    serving_t *serving = *state;
    begin(serving, "/sleep", sleeper);
    serving_start(serving);
    int fd = client_ask(serving, "POST /sleep HTTP/1.1\r\nHost: a\r\nX-Key: value\r\nContent-Length: 4\r\n\r\nbody"
                                 "GET /sleep HTTP/1.1\r\nHost: a\r\nX-Key: next\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "/sleep value body");
    assert_string_equal(client_read(fd)->body, "/sleep next ");
    serving_leave(serving, fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_waited"), 2);
    assert_true(uvhttp_server_counter(serving->server, "coroutine_stack_used_max") > 0);
}

static void test_many_wait_at_once(void **state) {
    serving_t *serving = *state;
    enum { MANY = 200 };
    int fds[MANY];
    begin(serving, "/sleep", sleeper);
    serving_start(serving);
    for (int i = 0; i < MANY; i++) fds[i] = client_ask(serving, GET("/sleep"));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(client_read(fds[i])->status, 200);
        close(fds[i]);
    }
}

static void silent(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    uvhttp_coro_sleep(1);
}

static void test_no_response_is_a_500(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/silent"), "/silent", silent);
    assert_int_equal(client_read(fd)->status, 500);
    client_send_text(fd, GET("/silent"));
    client_read_last(fd, 500);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "handler_no_response"), 2);
}

static void responds_early(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_text(res, 200, "early");
    uvhttp_coro_sleep(2);
    /* Both still are this request's. */
    if (uvhttp_request_path(req).size != 6 || uvhttp_response_status(res) != 200) abort();
    uvhttp_response_text(res, 201, "late");
}

static void test_a_response_leaves_when_the_handler_has_returned(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/early"), "/early", responds_early);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 201);
    assert_string_equal(response->body, "late");
    close(fd);
}

/* --- pieces --- */

#define PIECES 64

static void pieces(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    static char piece[PIECE];
    memset(piece, 'x', sizeof piece);
    int status = uvhttp_response_begin(res, 200, "text/plain", (uint64_t)PIECES * PIECE);
    for (int i = 0; status == UVHTTP_OK && i < PIECES; i++) status = uvhttp_response_write(res, piece, sizeof piece);
    if (status == UVHTTP_OK) status = uvhttp_coro_sleep(1);
    waited_status = status;
    if (uvhttp_response_defer(res)) abort(); /* refused */
}

static void expect_waited(int fd, int http_status, int status) {
    assert_int_equal(client_read(fd)->status, http_status);
    WAIT_UNTIL(waited_status <= 0);
    assert_int_equal(waited_status, status);
    close(fd);
}

static void test_a_write_waits_for_a_slow_client(void **state) {
    serving_t *serving = *state;
    serving->config.write_queue_max = 2 * PIECE;
    int fd = begin_and_ask(serving, GET("/pieces"), "/pieces", pieces);
    static char buffer[65536];
    size_t sum = 0;
    while (sum < (size_t)PIECES * PIECE) {
        ssize_t got = client_receive_some(fd, buffer, sizeof buffer);
        assert_true(got > 0);
        sum += (size_t)got;
    }
    WAIT_UNTIL(waited_status <= 0);
    assert_int_equal(waited_status, UVHTTP_OK);
    close(fd);
}

/* --- bodies --- */

static void count_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_coro_sleep(1) != UVHTTP_OK) return; /* it is not lost meanwhile */
    size_t size = 0, count = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_coro_read_body(req, &piece, UVHTTP_NEVER)) == UVHTTP_OK) {
        size += piece.size;
        count++;
        for (size_t i = 0; i < piece.size; i++)
            if (piece.data[i] != 'b') abort();
        if (count % 4 == 0) uvhttp_coro_sleep(1);
    }
    char text[64];
    snprintf(text, sizeof text, "%zu %s", size, uvhttp_error_name(status));
    uvhttp_response_text(res, 200, text);
}

static void post_body(int fd, size_t size) {
    char head[128];
    static char data[8192];
    memset(data, 'b', sizeof data);
    snprintf(head, sizeof head, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", size);
    client_send_text(fd, head);
    for (size_t sent = 0; sent < size;) {
        size_t piece = size - sent < sizeof data ? size - sent : sizeof data;
        ssize_t got = send(fd, data, piece, MSG_NOSIGNAL);
        assert_true(got > 0);
        sent += (size_t)got;
    }
}

static void test_a_body_is_read_piece_by_piece(void **state) {
    serving_t *serving = *state;
    uvhttp_route_options(begin(serving, "/body", count_body), &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_connect(serving->port);
    post_body(fd, 1000000);
    assert_string_equal(client_read(fd)->body, "1000000 UVHTTP_E_EOF");
    post_body(fd, 10);
    assert_string_equal(client_read(fd)->body, "10 UVHTTP_E_EOF");
    client_send_text(fd, GET("/body"));
    assert_string_equal(client_read(fd)->body, "0 UVHTTP_E_EOF");
    client_send_text(
        fd, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbbb\r\n2\r\nbb\r\n0\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "5 UVHTTP_E_EOF");
    close(fd);
}

static void test_a_collected_body_is_one_piece(void **state) {
    serving_t *serving = *state;
    begin(serving, "/body", count_body);
    serving_start(serving);
    int fd = client_connect(serving->port);
    post_body(fd, 100000);
    assert_string_equal(client_read(fd)->body, "100000 UVHTTP_E_EOF");
    close(fd);
}

static void impatient(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    waited_status = uvhttp_coro_read_body(req, &piece, 5);
    uvhttp_response_text(res, 200, uvhttp_error_name(waited_status));
}

static void test_a_body_that_does_not_come_in_time(void **state) {
    serving_t *serving = *state;
    uvhttp_route_options(begin(serving, "/body", impatient), &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "UVHTTP_E_TIMEOUT");
    close(fd);
}

/* The client has no part in what the handler does between two reads. */
static void reads_again_late(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece = {"", 9};
    if (uvhttp_coro_read_body(req, &piece, 5) != UVHTTP_E_TIMEOUT || piece.data || piece.size > 0) abort();
    reached = 1;
    int status = uvhttp_coro_sleep(1500);
    if (status == UVHTTP_OK) status = uvhttp_coro_read_body(req, &piece, 900);
    uvhttp_response_text(res, 200, status == UVHTTP_OK ? "" : uvhttp_error_name(status));
    if (status == UVHTTP_OK) uvhttp_response_text_str(res, 200, piece);
}

static void test_a_body_that_did_not_come_in_time_is_paused(void **state) {
    serving_t *serving = *state;
    serving->config.body_timeout = 1;
    uvhttp_route_options(begin(serving, "/body", reads_again_late), &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 800000000}, NULL);
    client_send_text(fd, "body");
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "body");
    close(fd);
}

/* A read that does not wait asks for the next bytes, which come between two of them. */
static void polls(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    int status = UVHTTP_E_TIMEOUT;
    for (int i = 0; status == UVHTTP_E_TIMEOUT && i < LIMIT_SECONDS * 1000; i++) {
        status = uvhttp_coro_read_body(req, &piece, 0);
        reached = 1;
        if (status == UVHTTP_E_TIMEOUT) uvhttp_coro_sleep(1);
    }
    if (status == UVHTTP_OK)
        uvhttp_response_text_str(res, 200, piece);
    else
        uvhttp_response_text(res, 200, uvhttp_error_name(status));
}

static void test_a_body_can_be_polled(void **state) {
    serving_t *serving = *state;
    uvhttp_route_options(begin(serving, "/body", polls), &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    WAIT_UNTIL(reached == 1);
    client_send_text(fd, "body");
    assert_string_equal(client_read(fd)->body, "body");
    close(fd);
}

static void test_a_body_that_is_refused_is_reported(void **state) {
    serving_t *serving = *state;
    uvhttp_route_options(begin(serving, "/body", impatient), &(uvhttp_route_options_t){.stream_body = true});
    serving_start(serving);
    int fd = client_ask(serving, "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    expect_waited(fd, 400, UVHTTP_E_HTTP_CHUNK_SIZE);
}

/* --- work --- */

static void worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    pthread_t thread = pthread_self(), there = thread;
    int status = uvhttp_coro_work(block, &there);
    if (!pthread_equal(thread, pthread_self())) abort();
    uvhttp_response_text(res, status == UVHTTP_OK && !pthread_equal(thread, there) ? 200 : 500, "worked");
}

static void test_work_runs_on_another_thread(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/work"), "/work", worker);
    client_read_last(fd, 200);
}

/* --- other servers --- */

static void close_socket(void *arg) {
    close((int)(intptr_t)arg);
}

/* Asks this very server, which serves it meanwhile, on the same thread. */
static int fetch(const char *address, char *text, size_t max) {
    static const char request[] = "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    int fd;
    int status = uvhttp_coro_connect(address, UVHTTP_NEVER, &fd);
    if (status != UVHTTP_OK) return status;
    if (uvhttp_coro_defer(close_socket, (void *)(intptr_t)fd) != UVHTTP_OK) abort();
    status = uvhttp_coro_write(fd, request, sizeof request - 1, UVHTTP_NEVER);
    size_t sum = 0, size;
    while (status == UVHTTP_OK &&
           (status = uvhttp_coro_read(fd, text + sum, max - 1 - sum, &size, UVHTTP_NEVER)) == UVHTTP_OK)
        sum += size;
    text[sum] = '\0';
    return status == UVHTTP_E_EOF ? UVHTTP_OK : status;
}

static void proxy(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[1024] = "", address[128];
    uvhttp_str_t to = uvhttp_request_header(req, "X-To");
    snprintf(address, sizeof address, "%.*s", (int)to.size, to.data);
    int status = fetch(address, text, sizeof text);
    if (status != UVHTTP_OK)
        uvhttp_response_text(res, uvhttp_error_http_status(status), uvhttp_error_name(status));
    else
        uvhttp_response_text(res, 200, strstr(text, "\r\n\r\n") ? strstr(text, "\r\n\r\n") + 4 : "?");
}

static const char *ask_proxy(serving_t *serving, const char *host, bool with_port) {
    char request[256], port[16] = "";
    if (with_port) snprintf(port, sizeof port, ":%u", serving->port);
    snprintf(request, sizeof request, "GET /proxy HTTP/1.1\r\nHost: a\r\nX-To: %s%s\r\n\r\n", host, port);
    int fd = client_ask(serving, request);
    client_response_t *response = client_read(fd);
    close(fd);
    return response->body;
}

static void test_a_request_to_another_server(void **state) {
    serving_t *serving = *state;
    begin(serving, "/proxy", proxy);
    uvhttp_route(serving->server, UVHTTP_GET, "/now", nothing_here, NULL, UVHTTP_EXEC_COROUTINE);
    serving_start(serving);
    assert_string_equal(ask_proxy(serving, "127.0.0.1", true), "1");
    assert_string_equal(ask_proxy(serving, "127.1", true), "1"); /* a name, for getaddrinfo */
    assert_string_equal(ask_proxy(serving, "unix:/nowhere", false), "UVHTTP_E_PEER_UNREACHABLE");
    assert_string_equal(ask_proxy(serving, NO_NAME, true), "UVHTTP_E_PEER_NAME");
    static const char *const refused[] = {"", ":80", "name", "name:", "name:x", "a b:80", "fd:3", "*:80", "[::1:80"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        print_message("'%s'\n", refused[i]);
        assert_string_equal(ask_proxy(serving, refused[i], false), "UVHTTP_E_ADDRESS");
    }
}

/* --- requests to other servers --- */

typedef struct part {
    char url[64];
    int status;
    uvhttp_client_response_t *response;
} part_t;

static void free_response(void *arg) {
    uvhttp_client_response_free(arg);
}

static void ask_part(void *arg) {
    part_t *part = arg;
    part->status = uvhttp_coro_request(&(uvhttp_client_request_t){.url = part->url, .timeout_ms = LIMIT_SECONDS * 1000},
                                       &part->response);
}

/* Two at once, of this very server, which serves them meanwhile on the same thread. */
static void gateway(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    serving_t *serving = user;
    (void)req;
    part_t parts[2] = {{.status = 1}, {.status = 1}};
    uvhttp_coro_t *coros[2];
    snprintf(parts[0].url, sizeof parts[0].url, "http://127.0.0.1:%u/now", serving->port);
    snprintf(parts[1].url, sizeof parts[1].url, "http://127.0.0.1:%u/none", serving->port);
    for (int i = 0; i < 2; i++)
        if (uvhttp_coro_spawn(ask_part, &parts[i], &coros[i]) != UVHTTP_OK) abort();
    for (int i = 0; i < 2; i++) {
        if (uvhttp_coro_join(coros[i], UVHTTP_NEVER) != UVHTTP_OK) abort();
        if (uvhttp_coro_defer(free_response, parts[i].response) != UVHTTP_OK) abort();
    }
    if (parts[0].status != UVHTTP_OK || parts[1].status != UVHTTP_OK) return;
    char text[64];
    snprintf(text, sizeof text, "%d %s, %d", uvhttp_client_response_status(parts[0].response),
             uvhttp_client_response_body(parts[0].response).data, uvhttp_client_response_status(parts[1].response));
    uvhttp_response_text(res, 200, text);
}

static void test_two_requests_to_other_servers_at_once(void **state) {
    serving_t *serving = *state;
    reset();
    serving_make(serving);
    uvhttp_route(serving->server, UVHTTP_GET, "/both", gateway, serving, UVHTTP_EXEC_COROUTINE);
    uvhttp_route(serving->server, UVHTTP_GET, "/now", nothing_here, NULL, UVHTTP_EXEC_COROUTINE);
    serving_start(serving);
    int fd = client_ask(serving, GET("/both"));
    assert_string_equal(client_read(fd)->body, "200 1, 404");
    close(fd);
    assert_int_equal(uvhttp_server_counter(serving->server, "client_requests"), 2);
    assert_int_equal(uvhttp_server_counter(serving->server, "client_failed"), 0);
    uvhttp_client_response_t *response;
    assert_int_equal(uvhttp_coro_request(&(uvhttp_client_request_t){.url = "http://a"}, &response), UVHTTP_E_STATE);
}

static void descriptors(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    char bytes[8];
    size_t size;
    open_pair();
    bool right = uvhttp_coro_wait_fd(ends[0], UVHTTP_WRITABLE, 0) == UVHTTP_OK &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_READABLE, 0) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_READABLE, 2) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_wait_fd(ends[0], 4, 2) == UVHTTP_E_INVALID &&
                 uvhttp_coro_wait_fd(1000000, UVHTTP_READABLE, 2) == UVHTTP_E_INVALID &&
                 uvhttp_coro_read(ends[0], bytes, 8, &size, 2) == UVHTTP_E_TIMEOUT &&
                 uvhttp_coro_write(ends[1], "bytes", 5, 0) == UVHTTP_OK &&
                 uvhttp_coro_wait_fd(ends[0], UVHTTP_READABLE, UVHTTP_NEVER) == UVHTTP_OK &&
                 uvhttp_coro_read(ends[0], bytes, 8, &size, 0) == UVHTTP_OK && size == 5 &&
                 shutdown(ends[1], SHUT_WR) == 0 && uvhttp_coro_read(ends[0], bytes, 8, &size, 2) == UVHTTP_E_EOF &&
                 shutdown(ends[1], SHUT_RD) == 0 && uvhttp_coro_write(ends[0], "bytes", 5, 0) == UVHTTP_E_PEER_RESET;
    uvhttp_response_text(res, right ? 200 : 500, "");
}

static void test_descriptors_can_be_waited_for(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/fd"), "/fd", descriptors);
    client_read_last(fd, 200);
}

/* --- channels --- */

typedef struct pipeline {
    uvhttp_coro_channel_t *channel;
    int sum, status;
} pipeline_t;

static void consume(void *arg) {
    pipeline_t *pipeline = arg;
    int number;
    while ((pipeline->status = uvhttp_coro_channel_receive(pipeline->channel, &number, UVHTTP_NEVER)) == UVHTTP_OK)
        pipeline->sum += number;
}

static void produce(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    pipeline_t consumers[2] = {{.channel = open_channel()}};
    consumers[1].channel = consumers[0].channel;
    uvhttp_coro_channel_t *channel = consumers[0].channel;
    uvhttp_coro_t *coros[2];
    int number = 7;
    bool right = uvhttp_coro_channel_receive(channel, &number, 2) == UVHTTP_E_TIMEOUT;
    for (int i = 0; i < 2; i++)
        if (uvhttp_coro_spawn(consume, &consumers[i], &coros[i]) != UVHTTP_OK) abort();
    for (int i = 1; i <= 100; i++) right = right && uvhttp_coro_channel_send(channel, &i, UVHTTP_NEVER) == UVHTTP_OK;
    right = right && uvhttp_coro_channel_close(channel) == UVHTTP_OK &&
            uvhttp_coro_channel_send(channel, &number, UVHTTP_NEVER) == UVHTTP_E_CLOSED;
    for (int i = 0; i < 2; i++) right = right && uvhttp_coro_join(coros[i], UVHTTP_NEVER) == UVHTTP_OK;
    right = right && consumers[0].status == UVHTTP_E_EOF && consumers[1].status == UVHTTP_E_EOF &&
            consumers[0].sum + consumers[1].sum == 5050;
    uvhttp_response_text(res, right ? 200 : 500, "");
}

static void test_a_channel_between_coroutines(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/channel"), "/channel", produce);
    client_read_last(fd, 200);
}

typedef struct patience {
    uvhttp_coro_channel_t *channel;
    int status;
    bool over;
} patience_t;

static void receive_for_a_while(void *arg) {
    patience_t *patience = arg;
    int number;
    patience->status = uvhttp_coro_channel_receive(patience->channel, &number, 20);
    patience->over = true;
}

/* What is sent is received by another coroutine before the one that waits for it runs. */
static void receive_faster(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    patience_t patience = {.channel = open_channel()};
    uvhttp_coro_t *coro;
    int number = 1;
    if (uvhttp_coro_spawn(receive_for_a_while, &patience, &coro) != UVHTTP_OK) abort();
    bool right = true;
    for (int i = 0; i < 100 && !patience.over; i++)
        right = right && uvhttp_coro_sleep(5) == UVHTTP_OK &&
                uvhttp_coro_channel_send(patience.channel, &number, UVHTTP_NEVER) == UVHTTP_OK &&
                uvhttp_coro_channel_receive(patience.channel, &number, 0) == UVHTTP_OK;
    right = right && patience.over && patience.status == UVHTTP_E_TIMEOUT;
    (void)uvhttp_coro_cancel(coro);
    (void)uvhttp_coro_join(coro, UVHTTP_NEVER);
    uvhttp_response_text(res, right ? 200 : 500, "");
}

static void test_a_wait_for_an_item_has_one_timeout(void **state) {
    serving_t *serving = *state;
    int fd = begin_and_ask(serving, GET("/channel"), "/channel", receive_faster);
    client_read_last(fd, 200);
}

/* --- limits --- */

static void sleep_too_long(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waited_status = uvhttp_coro_sleep(3600000);
    uvhttp_response_text(res, 200, "nobody reads this");
}

static void test_a_response_that_is_late_cancels_its_coroutine(void **state) {
    serving_t *serving = *state;
    uvhttp_route_options(begin(serving, "/late", sleep_too_long), &(uvhttp_route_options_t){.response_timeout_ms = 10});
    serving_start(serving);
    int fd = client_ask(serving, GET("/late"));
    expect_waited(fd, 503, UVHTTP_E_ABORTED);
}

static void hold(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    reached++;
    while (gate)
        if (uvhttp_coro_sleep(1) != UVHTTP_OK) return;
    uvhttp_response_text(res, 200, "held");
}

static void test_too_many_get_a_503_and_it_recovers(void **state) {
    serving_t *serving = *state;
    serving->config.coroutines_max = 3;
    begin(serving, "/hold", hold);
    gate = true;
    serving_start(serving);
    int fds[3];
    for (int i = 0; i < 3; i++) fds[i] = client_ask(serving, GET("/hold"));
    WAIT_UNTIL(reached == 3);
    int fd = client_ask(serving, GET("/hold"));
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 503);
    assert_non_null(strstr(response->text, "Retry-After: 1\r\n"));
    gate = false;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(client_read(fds[i])->status, 200);
        close(fds[i]);
    }
    client_send_text(fd, GET("/hold"));
    client_read_last(fd, 200);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutines_refused"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "rejected_coroutine_limit"), 1);
    assert_int_equal(uvhttp_server_counter(serving->server, "coroutine_stacks"), 3);
}

static void test_a_stack_that_cannot_be_mapped_is_a_503(void **state) {
    serving_t *serving = *state;
    begin(serving, "/now", nothing_here);
    uvhttp__coro_stack_fail_at = 1;
    serving_start(serving);
    int fd = client_ask(serving, GET("/now"));
    assert_int_equal(client_read(fd)->status, 503);
    client_send_text(fd, GET("/now"));
    client_read_last(fd, 200);
}

/* --- outside --- */

static void test_outside_of_a_coroutine_nothing_happens(void **state) {
    (void)state;
    uvhttp_coro_t *coro;
    int arg = 0;
    assert_false(uvhttp_coro_active());
    assert_int_equal(uvhttp_coro_sleep(1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_yield(), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_defer(on_cleanup, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_work(on_cleanup, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_spawn(on_cleanup, &arg, &coro), UVHTTP_E_STATE);
    assert_null(coro);
}

static void loop_handler(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    bool refused = uvhttp_coro_sleep(1) == UVHTTP_E_STATE && uvhttp_coro_read_body(req, &piece, 1) == UVHTTP_E_STATE;
    uvhttp_response_text(res, refused ? 200 : 500, "");
}

static void test_a_handler_on_the_loop_is_refused(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_get(serving->server, "/loop", loop_handler, NULL);
    serving_start(serving);
    int fd = client_ask(serving, GET("/loop"));
    client_read_last(fd, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outside_of_a_coroutine_nothing_happens),
        ON_EACH(test_a_handler_that_does_not_wait_is_not_deferred),
        ON_EACH(test_views_of_the_request_stay_valid_across_waits),
        ON_EACH(test_many_wait_at_once),
        ON_EACH(test_no_response_is_a_500),
        ON_EACH(test_a_response_leaves_when_the_handler_has_returned),
        ON_EACH(test_a_write_waits_for_a_slow_client),
        ON_EACH(test_a_body_is_read_piece_by_piece),
        ON_EACH(test_a_collected_body_is_one_piece),
        ON_EACH(test_a_body_that_does_not_come_in_time),
        ON_EACH(test_a_body_that_did_not_come_in_time_is_paused),
        ON_EACH(test_a_body_can_be_polled),
        ON_EACH(test_a_body_that_is_refused_is_reported),
        ON_EACH(test_work_runs_on_another_thread),
        ON_EACH(test_a_request_to_another_server),
        ON_EACH(test_two_requests_to_other_servers_at_once),
        ON_EACH(test_descriptors_can_be_waited_for),
        ON_EACH(test_a_channel_between_coroutines),
        ON_EACH(test_a_wait_for_an_item_has_one_timeout),
        ON_EACH(test_a_response_that_is_late_cancels_its_coroutine),
        ON_EACH(test_too_many_get_a_503_and_it_recovers),
        ON_EACH(test_a_stack_that_cannot_be_mapped_is_a_503),
        ON_EACH(test_a_handler_on_the_loop_is_refused),
    };
    return RUN_TABLE(tests);
}
