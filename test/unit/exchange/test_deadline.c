/* Owns: tests of the time of an exchange: the client's for its body, and the application's for its response. On each
 * engine. */
#include "io/io.h"
#include "support/streaming.h"

/* --- the client's, for its body --- */

static void test_a_body_that_does_not_come_in_the_time_of_its_route_is_408(void **state) {
    serving_t *serving = *state;
    serving->config.min_receive_rate = UVHTTP_NEVER;
    streaming_start(serving, (uvhttp_route_options_t){.body_timeout = 1});
    int fd = client_ask(serving, HEAD("Content-Length: 6\r\n") "x");
    assert_int_equal(client_read(fd)->status, 408);
    client_expect_end(fd);
    close(fd);
    assert_int_equal(seen.end_status, UVHTTP_E_HTTP_TIMEOUT);
    assert_int_equal(counter(serving, "timeouts_body"), 1);
}

static void test_a_slow_body_is_408_and_that_of_a_route_without_limit_is_not(void **state) {
    serving_t *serving = *state;
    serving->config.body_timeout = 1;
    serving->config.min_receive_rate = 1000;
    serving->config.rate_grace = 2;
    streaming_start(serving, (uvhttp_route_options_t){.body_timeout = UVHTTP_NEVER});
    int fd = client_ask(serving, HEAD("Content-Length: 6\r\n") "x");
    client_read_last(fd, 408);
    assert_int_equal(counter(serving, "timeouts_body"), 0);
    assert_int_equal(counter(serving, "slow_read"), 1);
}

/* What the application takes is not the client's: as long as the whole body may take, and then some time of its own. */
static void test_the_time_of_a_pause_does_not_count(void **state) {
    serving_t *serving = *state;
    serving->config.body_timeout = 2;
    serving->config.rate_grace = 2;
    serving->config.min_receive_rate = 1000;
    streaming_start(serving, (uvhttp_route_options_t){0});
    atomic_store(&seen.defer, true);
    atomic_store(&seen.pause_in_handler, true);
    int fd = client_ask(serving, HEAD("Content-Length: 6\r\n") "12345");
    nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 100000000}, NULL);
    assert_int_equal(seen.ends, 0);
    uint64_t resumed_ns = uvhttp__clock_ns();
    assert_int_equal(uvhttp_deferred_resume_body(seen.deferred), UVHTTP_OK);
    WAIT_UNTIL(seen.bytes == 5);
    struct pollfd refused = {.fd = fd, .events = POLLIN};
    if (poll(&refused, 1, 1300) == 0) (void)send(fd, "6", 1, MSG_NOSIGNAL); /* the clock is looked at once a second */
    client_response_t *response = client_read(fd);
    uint64_t took_ns = uvhttp__clock_ns() - resumed_ns;
    if (response->status == 408) /* a machine that stood still for what is left of the time, from the resume on */
        assert_true(took_ns >= UINT64_C(1900000000));
    else
        assert_consumed(response, "123456", 6);
    uvhttp_deferred_release(seen.deferred);
    close(fd);
}

/* --- the application's, for its response --- */

static void test_a_pause_without_end_is_503_if_the_route_says_so(void **state) {
    serving_t *serving = *state;
    streaming_start(serving, (uvhttp_route_options_t){.response_timeout_ms = 200});
    for (int defer = 0; defer < 2; ++defer) {
        seen_reset();
        atomic_store(&seen.defer, defer);
        atomic_store(&seen.pause_at_first, true);
        int fd = client_ask(serving, HEAD("Content-Length: 6\r\n") "1");
        client_response_t *response = client_read(fd);
        assert_int_equal(response->status, 503);
        assert_string_equal(response->body, "the response was not ready in time\n");
        client_expect_end(fd);
        close(fd);
        assert_int_equal(seen.ends, 1);
        assert_int_equal(seen.end_status, UVHTTP_E_RESPONSE_TIMEOUT);
        assert_int_equal(seen.dones, 1);
        if (defer) assert_int_equal(uvhttp_deferred_text(seen.deferred, 200, "late"), UVHTTP_E_ABORTED);
        if (defer) uvhttp_deferred_release(seen.deferred);
    }
    assert_int_equal(counter(serving, "rejected_response_timeout"), 2);
}

static _Atomic(uvhttp_deferred_t *) late;

static void begin_now(uvhttp_response_t *res, void *user) {
    (void)user;
    if (res) uvhttp_response_begin(res, 200, "text/plain", 4);
}

/* user: NULL, or a response is begun before the time can be over: the loop runs it before it looks at its timers. */
static void never(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    uvhttp_response_on_done(res, take_done, NULL);
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    uvhttp_deferred_on_abort(deferred, take_abort, NULL);
    if (user && uvhttp_deferred_run(deferred, begin_now, NULL) != UVHTTP_OK) abort();
    atomic_store(&late, deferred);
}

static void end_now(uvhttp_response_t *res, void *user) {
    (void)user;
    if (!res) return;
    uvhttp_response_write(res, "done", 4);
    uvhttp_response_end(res);
}

static void start_late(serving_t *serving) {
    seen_reset();
    atomic_store(&late, NULL);
    serving_make(serving);
    uvhttp_route_options(uvhttp_any(serving->server, "/late", never, NULL),
                         &(uvhttp_route_options_t){.response_timeout_ms = 100});
    uvhttp_route_options(uvhttp_get(serving->server, "/begun", never, "begun"),
                         &(uvhttp_route_options_t){.response_timeout_ms = 100});
    serving_start(serving);
}

static void test_a_deferred_response_that_is_late_is_503(void **state) {
    serving_t *serving = *state;
    start_late(serving);
    static const char *const requests[] = {
        GET("/late"), "POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody",
        "POST /late HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"};
    for (int i = 0; i < 3; ++i) {
        int fd = client_ask(serving, requests[i]);
        const client_response_t *response = client_read(fd);
        assert_int_equal(response->status, 503);
        assert_non_null(strstr(response->text, "\r\nRetry-After: 1\r\n"));
        client_expect_end(fd);
        close(fd);
        assert_int_equal(seen.aborts, i + 1);
        assert_int_equal(seen.dones, i + 1);
        assert_int_equal(seen.done_status, UVHTTP_E_ABORTED);
        uvhttp_deferred_t *deferred = atomic_load(&late);
        /* The request of the handle stays readable, although the response has left. */
        assert_int_equal(uvhttp_request_path(uvhttp_deferred_request(deferred)).size, strlen("/late"));
        assert_true(uvhttp_deferred_aborted(deferred));
        assert_int_equal(uvhttp_deferred_text(deferred, 200, "late"), UVHTTP_E_ABORTED);
        uvhttp_deferred_release(deferred);
    }
    assert_int_equal(counter(serving, "rejected_response_timeout"), 3);
    assert_int_equal(counter(serving, "aborted"), 0);
}

static void test_a_response_that_is_begun_in_time_may_take_longer(void **state) {
    serving_t *serving = *state;
    start_late(serving);
    int fd = client_ask(serving, GET("/begun"));
    WAIT_UNTIL(atomic_load(&late) != NULL);
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    assert_int_equal(uvhttp_deferred_run(late, end_now, NULL), UVHTTP_OK);
    uvhttp_deferred_release(late);
    assert_string_equal(client_read(fd)->body, "done");
    close(fd);
    assert_int_equal(counter(serving, "rejected_response_timeout"), 0);
}

int main(void) {
    return RUN_ON_EACH(test_a_body_that_does_not_come_in_the_time_of_its_route_is_408,
                       test_a_slow_body_is_408_and_that_of_a_route_without_limit_is_not,
                       test_the_time_of_a_pause_does_not_count, test_a_pause_without_end_is_503_if_the_route_says_so,
                       test_a_deferred_response_that_is_late_is_503,
                       test_a_response_that_is_begun_in_time_may_take_longer);
}
