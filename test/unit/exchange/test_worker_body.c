/* Owns: tests of bodies that a handler on a worker thread reads part by part: on each engine, what arrives how, who
 * is held back, and every way in which a wait ends. */
#include <fcntl.h>
#include <semaphore.h>

#include "support/http_server.h"

#define POST(path, more) "POST " path " HTTP/1.1\r\nHost: a\r\n" more "\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

/* What the handler and its middleware have seen, and what it waits for. */
static struct {
    sem_t inside, proceed;
    atomic_int status, again, consumed, dones, aborted, pieces, largest;
    atomic_ullong bytes;
    bool waits; /* before its first piece */
    atomic_uint timeout_ms;
} seen;

static void seen_reset(void) {
    memset(&seen, 0, sizeof seen);
    sem_init(&seen.inside, 0, 0);
    sem_init(&seen.proceed, 0, 0);
    atomic_store(&seen.status, 99);
    atomic_store(&seen.timeout_ms, UVHTTP_NEVER);
}

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_fetch_add(status == UVHTTP_OK ? &seen.dones : &seen.aborted, 1);
}

/* Reads all, and responds with the number of bytes, their sum, and a trailer. */
static void read_all(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    sem_post(&seen.inside);
    if (seen.waits) sem_wait(&seen.proceed);
    unsigned long long bytes = 0, sum = 0;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, seen.timeout_ms)) == UVHTTP_OK) {
        for (size_t i = 0; i < piece.size; i++) sum += (unsigned char)piece.data[i] * (++bytes % 251);
        atomic_store(&seen.bytes, bytes);
        atomic_fetch_add(&seen.pieces, 1);
        if ((int)piece.size > atomic_load(&seen.largest)) atomic_store(&seen.largest, (int)piece.size);
    }
    atomic_store(&seen.again, uvhttp_request_read_body(req, &piece, 1));
    atomic_store(&seen.status, status);
    uvhttp_str_t trailer = uvhttp_request_trailer(req, "x-check");
    char text[96];
    snprintf(text, sizeof text, "%llu %llu %.*s", bytes, sum, (int)trailer.size, trailer.data ? trailer.data : "");
    uvhttp_response_text(res, 200, text);
}

/* Reads one piece at most. */
static void read_once(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t piece;
    atomic_store(&seen.status, uvhttp_request_read_body(req, &piece, seen.timeout_ms));
    uvhttp_response_text(res, 200, "enough");
}

/* The response has begun when the body turns out to be wrong. */
static void begin_and_read(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    if (uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN) != UVHTTP_OK) abort();
    if (uvhttp_response_write(res, "part", 4) != UVHTTP_OK) abort();
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, seen.timeout_ms)) == UVHTTP_OK) continue;
    atomic_store(&seen.status, status);
    atomic_store(&seen.again, uvhttp_response_write(res, "more", 4));
}

static void nothing_of_it(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)res, (void)data, (void)user;
}

static void its_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)status, (void)user;
}

static uvhttp_flow_t take_body(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    atomic_store(&seen.consumed, uvhttp_request_on_body(req, nothing_of_it, its_end, NULL));
    return UVHTTP_NEXT;
}

static void route(uvhttp_server_t *server, const char *path, uvhttp_handler_cb handler, bool streamed) {
    assert_int_equal(uvhttp_route_options(uvhttp_route(server, UVHTTP_ANY, path, handler, NULL, UVHTTP_EXEC_WORKER),
                                          &(uvhttp_route_options_t){.stream_body = streamed, .live_body = streamed}),
                     UVHTTP_OK);
}

static serving_t *start(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    route(serving->server, "/all", read_all, true);
    route(serving->server, "/once", read_once, true);
    route(serving->server, "/whole", read_all, false);
    uvhttp_post(serving->server, "/loop", read_once, NULL);
    serving_start(serving);
    return serving;
}

static void assert_response(int fd, const char *text) {
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, text);
}

static void test_pieces_come_in_order_and_the_trailer_behind_them(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/all", "Content-Length: 6\r\n") "ab");
    wait_semaphore(&seen.inside);
    WAIT_UNTIL(atomic_load(&seen.bytes) == 2);
    client_send_text(fd, "cdef");
    assert_response(fd, "6 2107 ");
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_EOF);
    assert_int_equal(atomic_load(&seen.again), UVHTTP_E_EOF);
    client_send_text(fd, POST("/all", CHUNKED) "3\r\nabc\r\n3\r\ndef\r\n0\r\nX-Check: yes\r\n\r\n" POST("/all", ""));
    assert_response(fd, "6 2107 yes");
    assert_response(fd, "0 0 ");
    WAIT_UNTIL(atomic_load(&seen.dones) == 3);
    close(fd);
}

static void test_a_body_that_is_not_streamed_is_one_piece(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/whole", CHUNKED) "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n");
    assert_response(fd, "6 2107 ");
    assert_int_equal(atomic_load(&seen.pieces), 1);
    assert_int_equal(atomic_load(&seen.again), UVHTTP_E_EOF);
    close(fd);
}

static void test_only_a_handler_on_a_worker_may_ask(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    uvhttp_str_t piece;
    assert_int_equal(uvhttp_request_read_body(NULL, &piece, 1), UVHTTP_E_INVALID);
    int fd = client_ask(serving, POST("/loop", "Content-Length: 1\r\n") "a");
    assert_response(fd, "enough");
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_STATE);
    close(fd);
}

static void ask_in_a_job(void *user) {
    uvhttp_deferred_t *deferred = user;
    uvhttp_str_t piece;
    atomic_store(&seen.status, uvhttp_request_read_body(uvhttp_deferred_request(deferred), &piece, 1));
    uvhttp_deferred_text(deferred, 200, "asked");
    uvhttp_deferred_release(deferred);
}

static void defer_to_a_job(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    if (uvhttp_work(((serving_t *)user)->server, ask_in_a_job, NULL, uvhttp_response_defer(res)) != UVHTTP_OK) abort();
}

static void test_nobody_may_ask_when_the_handler_has_returned(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving->config.worker_threads = 1; /* the job runs on the thread that the handler had */
    serving_make(serving);
    uvhttp_route(serving->server, UVHTTP_POST, "/job", defer_to_a_job, serving, UVHTTP_EXEC_WORKER);
    serving_start(serving);
    int fd = client_ask(serving, POST("/job", "Content-Length: 1\r\n") "a");
    assert_response(fd, "asked");
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_STATE);
    close(fd);
}

/* It would be called on the loop, with the request and the response that are the thread's. */
static void test_a_middleware_does_not_get_what_the_handler_reads(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_use(serving->server, (uvhttp_middleware_t){.run = take_body});
    route(serving->server, "/all", read_all, true);
    serving_start(serving);
    int fd = client_ask(serving, POST("/all", "Content-Length: 6\r\n"));
    wait_semaphore(&seen.inside);
    client_send_text(fd, "abcdef");
    assert_response(fd, "6 2107 ");
    assert_int_equal(atomic_load(&seen.consumed), UVHTTP_E_STATE);
    close(fd);
}

static void test_a_client_that_expects_100_is_asked_when_the_handler_asks(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/all", "Content-Length: 6\r\nExpect: 100-continue\r\n"));
    char line[] = "HTTP/1.1 100 Continue\r\n\r\n", got[sizeof line] = "";
    for (size_t i = 0; i + 1 < sizeof line; i++) client_receive(fd, got + i, 1);
    assert_string_equal(got, line);
    client_send_text(fd, "abcdef");
    assert_response(fd, "6 2107 ");
    close(fd);
}

/* Sends until the socket takes no more for a while. Returns the bytes. */
static size_t send_until_held(int fd, size_t most) {
    static char block[65536];
    size_t sent = 0;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    for (int idle = 0; idle < 50 && sent < most;) {
        ssize_t n = send(fd, block, sizeof block < most - sent ? sizeof block : most - sent, MSG_NOSIGNAL);
        if (n > 0) {
            sent += (size_t)n;
            idle = 0;
        } else {
            idle++;
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return sent;
}

static void test_a_client_is_held_back_until_the_handler_reads(void **state) {
    enum { SIZE = 64 << 20 };
    seen_reset();
    seen.waits = true;
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/all", "Content-Length: 67108864\r\n"));
    wait_semaphore(&seen.inside);
    size_t sent = send_until_held(fd, SIZE);
    assert_true(sent < SIZE / 2);
    assert_int_equal(atomic_load(&seen.bytes), 0);
    sem_post(&seen.proceed);
    while (sent < SIZE) sent += send_until_held(fd, SIZE - sent);
    assert_response(fd, "67108864 0 ");
    assert_true(atomic_load(&seen.largest) <= (int)serving->config.read_buffer_size);
    close(fd);
}

static void test_a_wait_ends_in_time_and_continues(void **state) {
    seen_reset();
    atomic_store(&seen.timeout_ms, 5);
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/once", "Content-Length: 3\r\n"));
    assert_response(fd, "enough");
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_TIMEOUT);
    atomic_store(&seen.timeout_ms, UVHTTP_NEVER);                             /* the loop may bring it late */
    client_send_text(fd, "abc" POST("/once", "Content-Length: 3\r\n") "abc"); /* what nobody wanted is thrown away */
    assert_response(fd, "enough");
    assert_int_equal(atomic_load(&seen.status), UVHTTP_OK);
    close(fd);
}

/* Each time nothing comes for 5 ms; then the client goes, whether the thread is waiting or not. */
static void wait_again_and_again(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_response_on_done(res, on_done, NULL);
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_request_read_body(req, &piece, 0)) == UVHTTP_E_TIMEOUT || status == UVHTTP_OK)
        if (atomic_fetch_add(&seen.pieces, 1) == 3) sem_post(&seen.inside);
    atomic_store(&seen.status, status);
}

static void test_a_client_that_goes_between_waits(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving_make(serving);
    route(serving->server, "/again", wait_again_and_again, true);
    serving_start(serving);
    for (int i = 1; i <= 20; i++) {
        atomic_store(&seen.pieces, 0);
        int fd = client_ask(serving, POST("/again", "Content-Length: 10\r\n") "abc");
        wait_semaphore(&seen.inside);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
        WAIT_UNTIL(atomic_load(&seen.aborted) == i);
        assert_int_equal(atomic_load(&seen.status), UVHTTP_E_ABORTED);
    }
}

static void test_a_client_that_goes_while_the_thread_waits(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    for (int reset_it = 0; reset_it < 2; reset_it++) {
        atomic_store(&seen.status, 99);
        int fd = client_ask(serving, POST("/all", "Content-Length: 10\r\n") "abc");
        wait_semaphore(&seen.inside);
        WAIT_UNTIL(atomic_load(&seen.bytes) == 3);
        if (reset_it) setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger));
        close(fd);
        WAIT_UNTIL(atomic_load(&seen.aborted) == 1 + reset_it);
        assert_int_equal(atomic_load(&seen.status), reset_it ? UVHTTP_E_ABORTED : UVHTTP_E_HTTP_BODY_INCOMPLETE);
        assert_int_equal(atomic_load(&seen.again), atomic_load(&seen.status));
    }
}

static void test_a_body_that_is_wrong_is_the_server_s_to_respond(void **state) {
    seen_reset();
    serving_t *serving = start(state);
    int fd = client_ask(serving, POST("/all", CHUNKED) "3\r\nabc\r\n");
    wait_semaphore(&seen.inside);
    WAIT_UNTIL(atomic_load(&seen.bytes) == 3);
    client_send_text(fd, "nonsense\r\n");
    assert_int_equal(client_read(fd)->status, 400);
    WAIT_UNTIL(atomic_load(&seen.aborted) == 1);
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_HTTP_CHUNK_SIZE);
    close(fd);
}

static void test_a_response_that_has_begun_is_cut_off_when_the_body_is_wrong(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving_make(serving);
    route(serving->server, "/begun", begin_and_read, true);
    serving_start(serving);
    int fd = client_ask(serving, POST("/begun", CHUNKED) "3\r\nabc\r\n");
    char text[4096] = "";
    size_t size = 0;
    while (!strstr(text, "part")) {
        ssize_t got = client_receive_some(fd, text + size, sizeof text - 1 - size);
        assert_true(got > 0);
        text[size += (size_t)got] = '\0';
    }
    assert_memory_equal(text, "HTTP/1.1 200 ", 13);
    client_send_text(fd, "nonsense\r\n");
    ssize_t got;
    while ((got = client_receive_some(fd, text, sizeof text)) > 0)
        assert_null(memmem(text, (size_t)got, "HTTP/1.1", 8));
    assert_true(got < 0 && errno == ECONNRESET); /* not an end that could look like that of the body */
    WAIT_UNTIL(atomic_load(&seen.aborted) == 1);
    assert_int_equal(atomic_load(&seen.status), UVHTTP_E_HTTP_CHUNK_SIZE);
    assert_int_equal(atomic_load(&seen.again), UVHTTP_E_ABORTED);
    close(fd);
}

static void test_a_stop_cuts_off_who_waits_for_a_body(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving->config.drain_timeout = 0;
    start(state);
    int fd = client_ask(serving, POST("/all", "Content-Length: 10\r\n") "abc");
    wait_semaphore(&seen.inside);
    WAIT_UNTIL(atomic_load(&seen.bytes) == 3);
    serving_stop(serving);
    assert_true(atomic_load(&seen.status) < 0 && atomic_load(&seen.status) != UVHTTP_E_EOF);
    assert_int_equal(atomic_load(&seen.aborted), 1);
    close(fd);
}

static void wait_for_proceed(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    sem_wait(&seen.proceed);
    uvhttp_response_text(res, 200, "done");
}

/* Whoever is looked at later has run for longer: the live handler would be counted first. */
static void test_a_thread_that_waits_for_a_slow_client_is_not_a_slow_job(void **state) {
    seen_reset();
    serving_t *serving = *state;
    serving->config.worker_warn_ms = 20;
    serving_make(serving);
    route(serving->server, "/all", read_all, true);
    route(serving->server, "/blocks", wait_for_proceed, false);
    serving_start(serving);
    int live = client_ask(serving, POST("/all", "Content-Length: 6\r\n") "ab");
    WAIT_UNTIL(atomic_load(&seen.bytes) == 2);
    int blocks = client_ask(serving, POST("/blocks", ""));
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "work_slow") > 0);
    assert_int_equal(uvhttp_server_counter(serving->server, "work_slow"), 1);
    sem_post(&seen.proceed);
    assert_response(blocks, "done");
    client_send_text(live, "cdef");
    assert_response(live, "6 2107 ");
    close(live), close(blocks);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    return RUN_ON_EACH(
        test_pieces_come_in_order_and_the_trailer_behind_them, test_a_body_that_is_not_streamed_is_one_piece,
        test_only_a_handler_on_a_worker_may_ask, test_nobody_may_ask_when_the_handler_has_returned,
        test_a_middleware_does_not_get_what_the_handler_reads,
        test_a_client_that_expects_100_is_asked_when_the_handler_asks,
        test_a_client_is_held_back_until_the_handler_reads, test_a_wait_ends_in_time_and_continues,
        test_a_client_that_goes_between_waits, test_a_client_that_goes_while_the_thread_waits,
        test_a_body_that_is_wrong_is_the_server_s_to_respond,
        test_a_response_that_has_begun_is_cut_off_when_the_body_is_wrong, test_a_stop_cuts_off_who_waits_for_a_body,
        test_a_thread_that_waits_for_a_slow_client_is_not_a_slow_job);
}
