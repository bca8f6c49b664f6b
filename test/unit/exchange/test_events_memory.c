/* Owns: tests of event streams for which memory runs out after uvhttp_events_open has returned: the client learns of it
 * at once, and so does the application. */
#include "exchange/exchange.h"
#include "support/failing_allocator.h"
#include "support/http_server.h"

static uvhttp__exchange_t *limited;
static size_t limit;
static atomic_size_t fail_at;
static atomic_int open_status, closes, close_status;

static void on_close(uvhttp_events_t *events, int status, void *user) {
    (void)user;
    if (limited) limited->arena.size_max = limit;
    limited = NULL;
    test_allocator_fail_at(0);
    atomic_store(&close_status, status);
    atomic_fetch_add(&closes, 1);
    uvhttp_events_release(events);
}

static int open_it(uvhttp_response_t *res) {
    uvhttp_events_t *events;
    int status = uvhttp_events_open(res, &(uvhttp_events_options_t){.on_close = on_close}, &events);
    atomic_store(&open_status, status);
    if (status != UVHTTP_OK) uvhttp_response_text(res, 500, uvhttp_error_name(status));
    return status;
}

/* The request has used up its memory when the head is made, which is behind the handler. */
static void use_up(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_header(res, "Content-Type", "text/event-stream"); /* that of the stream is a copy now */
    if (open_it(res) != UVHTTP_OK) return;
    limited = uvhttp__exchange_of(res);
    limit = limited->arena.size_max;
    limited->arena.size_max = limited->arena.used;
}

static void fail_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (open_it(res) == UVHTTP_OK) test_allocator_fail_at(atomic_load(&fail_at));
}

static serving_t *start(void **state, uvhttp_handler_cb handler) {
    serving_t *serving = *state;
    atomic_store(&closes, 0);
    serving_make(serving);
    uvhttp_get(serving->server, "/events", handler, NULL);
    serving_start(serving);
    return serving;
}

static void test_a_stream_that_cannot_start_is_503(void **state) {
    serving_t *serving = start(state, use_up);
    int fd = client_ask(serving, GET("/events"));
    const client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 503);
    assert_non_null(strstr(response->text, "\r\nRetry-After: 1\r\n"));
    assert_null(strstr(response->text, "event-stream"));
    WAIT_UNTIL(atomic_load(&closes) == 1);
    assert_int_equal(atomic_load(&close_status), UVHTTP_E_NOMEM);
    client_send_text(fd, GET("/nowhere")); /* the connection continues */
    client_read_last(fd, 404);
    serving_stop(serving);
    assert_int_equal(atomic_load(&closes), 1);
}

/* The first byte of a response, or the end of the connection, comes at once. Returns whether an allocation failed. */
static bool ask_failing(serving_t *serving, size_t n) {
    atomic_store(&fail_at, n);
    atomic_store(&closes, 0);
    int fd = client_ask(serving, GET("/events"));
    char byte;
    assert_true(wait_fd(fd, POLLIN, TIMEOUT_MS / 2));
    ssize_t received = client_receive_some(fd, &byte, 1);
    bool failed = test_allocator_failed();
    close(fd);
    assert_true(received == 1 || failed);
    WAIT_UNTIL(atomic_load(&closes) == 1);
    int status = atomic_load(&close_status);
    assert_true(status == UVHTTP_E_ABORTED || (failed && status == UVHTTP_E_NOMEM));
    return failed;
}

static void test_any_allocation_of_the_start_may_fail(void **state) {
    serving_t *serving = start(state, fail_later);
    assert_false(ask_failing(serving, 1000000)); /* what is made once and stays */
    for (size_t n = 1; ask_failing(serving, n); n++) assert_true(n < 100);
    serving_stop(serving);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_stream_that_cannot_start_is_503, test_any_allocation_of_the_start_may_fail);
}
