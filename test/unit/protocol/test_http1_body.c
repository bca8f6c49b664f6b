/* Owns: tests of a complete response of HTTP/1 whose body is pulled while its client takes it: what the client sends or
 * does meanwhile, when the response is over, and a body that cannot be had. */
#include <pthread.h>

#include "support/http_server.h"

enum { SIZE = 4 << 20, HELD = 1 << 20 }; /* looked for and queued in several steps; the first of them */

static int file; /* of SIZE bytes, of each test's own */
static atomic_int done_count;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* --- the server --- */

static void count_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    if (status == UVHTTP_OK) atomic_fetch_add(&done_count, 1);
}

static void send_file(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_send_fd(res, 200, "text/plain", dup(file), 0, UINT64_MAX) != UVHTTP_OK) abort();
}

/* The file is shorter than it was when its response was made. */
static void send_truncated(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    send_file(req, res, user);
    if (ftruncate(file, HELD) != 0) abort();
}

static void send_shared(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    if (uvhttp_response_on_done(res, count_done, NULL) != UVHTTP_OK) abort();
    uvhttp_response_send_shared_body(res, 200, "text/plain", user);
}

static void hello(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "hello");
}

static void send_back(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)user;
    uvhttp_response_write(res, data.data, data.size);
}

static void end_back(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)status, (void)user;
    uvhttp_response_end(res);
}

/* A response that has begun before its request's body is there. */
static void begin_back(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_request_on_body(req, send_back, end_back, NULL) != UVHTTP_OK) abort();
    uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
}

static void make_file(void) {
    char path[] = "/tmp/uvhttp-body-XXXXXX";
    file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(unlink(path), 0);
}

static void fill_file(void) {
    char *bytes = pattern_new(SIZE);
    for (size_t at = 0; at < SIZE;) {
        ssize_t written = write(file, bytes + at, SIZE - at);
        assert_true(written > 0);
        at += (size_t)written;
    }
    free(bytes);
}

static void start(serving_t *serving) {
    make_file();
    serving_make(serving);
    uvhttp_get(serving->server, "/file", send_file, NULL);
    uvhttp_get(serving->server, "/truncated", send_truncated, NULL);
    uvhttp_get(serving->server, "/hello", hello, NULL);
    const uvhttp_route_options_t streamed = {.stream_body = true};
    assert_int_equal(uvhttp_route_options(uvhttp_post(serving->server, "/file", send_file, NULL), &streamed),
                     UVHTTP_OK);
    uvhttp_route_options(uvhttp_post(serving->server, "/back", begin_back, NULL), &streamed);
    serving_start(serving);
}

/* --- the client --- */

static void take_head(int fd) {
    char head[1024] = "";
    for (size_t size = 0; !strstr(head, "\r\n\r\n"); size++) {
        assert_true(size + 1 < sizeof head);
        client_receive(fd, head + size, 1);
    }
    assert_memory_equal(head, "HTTP/1.1 200 OK\r\n", 17);
}

static void expect_body(int fd, size_t size) {
    char *bytes = pattern_new(SIZE);
    client_expect(fd, bytes, size);
    free(bytes);
}

static void expect_hello(int fd) {
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "hello");
}

/* --- what the client does meanwhile --- */

static int post(const serving_t *serving, size_t body_size) {
    char head[128];
    snprintf(head, sizeof head, "POST /file HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n", body_size);
    return client_ask(serving, head);
}

static void send_body(int fd, size_t size) {
    char *body = pattern_new(size);
    client_send(fd, body, size);
    free(body);
}

/* Nobody reads it: it comes when the response is on its way. */
static void test_the_rest_of_a_request_is_discarded(void **state) {
    serving_t *serving = *state;
    start(serving);
    fill_file();
    int fd = post(serving, 60000);
    take_head(fd);
    send_body(fd, 60000);
    client_send_text(fd, GET("/hello"));
    expect_body(fd, SIZE);
    expect_hello(fd);
    close(fd);
    fd = post(serving, 100000); /* too much for the sake of the connection */
    take_head(fd);
    send_body(fd, 100000);
    expect_body(fd, SIZE);
    client_expect_eof(fd);
    close(fd);
    serving_stop(serving); /* its threads have done with the file */
    close(file);
}

static void test_a_client_that_has_ended_gets_all_of_it(void **state) {
    serving_t *serving = *state;
    start(serving);
    fill_file();
    int fd = client_ask(serving, GET("/file"));
    take_head(fd);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_body(fd, SIZE);
    client_expect_eof(fd);
    close(fd);
    serving_stop(serving); /* its threads have done with the file */
    close(file);
}

static void test_a_pipelined_request_is_deferred_to_a_later_iteration(void **state) {
    serving_t *serving = *state;
    start(serving);
    fill_file();
    int fd = client_ask(serving, GET("/file") GET("/hello") GET("/file"));
    take_head(fd);
    expect_body(fd, SIZE);
    expect_hello(fd);
    take_head(fd);
    expect_body(fd, SIZE);
    close(fd);
    serving_stop(serving); /* its threads have done with the file */
    close(file);
}

/* --- the end --- */

static void test_a_response_is_over_when_all_of_it_is_queued(void **state) {
    serving_t *serving = *state;
    enum { CONTENT = 16 << 20 }; /* more than the sockets take */
    char *bytes = pattern_new(CONTENT);
    uvhttp_shared_body_t *content;
    assert_int_equal(uvhttp_shared_body_new(bytes, CONTENT, &content), UVHTTP_OK);
    atomic_store(&done_count, 0);
    serving_make(serving);
    uvhttp_get(serving->server, "/content", send_shared, content);
    serving_start(serving);
    int fd = client_ask(serving, GET("/content"));
    take_head(fd);
    WAIT_UNTIL(atomic_load(&done_count) == 1);
    client_expect(fd, bytes, CONTENT);
    serving_leave(serving, fd);
    uvhttp_shared_body_release(content);
    free(bytes);
}

/* --- a body that cannot be had --- */

static void test_what_is_on_the_wire_of_a_truncated_file_leaves(void **state) {
    serving_t *serving = *state;
    start(serving);
    fill_file();
    int fd = client_ask(serving, GET("/truncated") GET("/hello"));
    take_head(fd);
    expect_body(fd, HELD);
    client_expect_end(fd);
    close(fd);
    serving_stop(serving); /* its threads have done with the file */
    close(file);
}

static void wait_at_gate(void *user) {
    (void)user;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

/* The head leaves at once, and the file when there is a thread for it, however many jobs wait. */
static void test_a_file_behind_a_full_backlog_follows_its_head(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    serving->config.max_backlog = 1;
    start(serving);
    assert_int_equal(ftruncate(file, SIZE), 0); /* none of it is in memory */
    pthread_mutex_lock(&gate);
    assert_int_equal(uvhttp_work(serving->server, wait_at_gate, NULL, NULL), UVHTTP_OK);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "work_running") == 1);
    assert_int_equal(uvhttp_work(serving->server, wait_at_gate, NULL, NULL), UVHTTP_OK);
    int fd = client_ask(serving, GET("/file") GET("/hello"));
    take_head(fd);
    pthread_mutex_unlock(&gate);
    char *zeros = calloc(1, SIZE);
    assert_non_null(zeros);
    client_expect(fd, zeros, SIZE);
    free(zeros);
    expect_hello(fd);
    close(fd);
    serving_stop(serving);
    close(file);
}

/* The rest of a response that has begun cannot be had. The one before it is complete, and its client gets it. */
static void test_what_resets_the_connection_costs_no_response_before_it(void **state) {
    serving_t *serving = *state;
    start(serving);
    static const char requests[] = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
                                   "POST /back HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "2\r\nab\r\nno size";
    int fd = client_ask(serving, requests);
    assert_string_equal(client_read(fd)->body, "hello");
    take_head(fd);
    client_expect_reset(fd);
    serving_leave(serving, fd);
}

int main(void) {
    return RUN_ON_EACH(
        test_the_rest_of_a_request_is_discarded, test_a_client_that_has_ended_gets_all_of_it,
        test_a_pipelined_request_is_deferred_to_a_later_iteration, test_a_response_is_over_when_all_of_it_is_queued,
        test_what_is_on_the_wire_of_a_truncated_file_leaves, test_a_file_behind_a_full_backlog_follows_its_head,
        test_what_resets_the_connection_costs_no_response_before_it);
}
