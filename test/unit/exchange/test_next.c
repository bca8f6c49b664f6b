/* Owns: tests of middleware that waits and then passes the request on: uvhttp_deferred_next. */
#include "support/failing_allocator.h"
#include "support/http_server.h"

static _Atomic(uvhttp_deferred_t *) slot;
static atomic_int dones_ok, dones_aborted, handled, went_on, went_on_gone;

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)user;
    if (uvhttp_request_path(uvhttp_response_request(res)).size == 0) abort();
    atomic_fetch_add(status == UVHTTP_OK ? &dones_ok : &dones_aborted, 1);
}

static void later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    atomic_store(&slot, uvhttp_response_defer(res));
}

static uvhttp_flow_t wait_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_response_on_done(res, on_done, NULL);
    later(req, res, user);
    return UVHTTP_STOP;
}

static uvhttp_deferred_t *take(void) {
    WAIT_UNTIL(atomic_load(&slot) != NULL);
    return atomic_exchange(&slot, NULL);
}

/* user: the text of the response; NULL: to pass the request on. */
static uvhttp_flow_t decide(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    if (!res) {
        atomic_fetch_add(&went_on_gone, 1);
        return UVHTTP_STOP;
    }
    atomic_fetch_add(&went_on, 1);
    if (uvhttp_response_request(res) != req) abort();
    uvhttp_response_header(res, "X-Waited", "yes");
    if (!user) return UVHTTP_NEXT;
    uvhttp_response_text(res, 429, user);
    return UVHTTP_STOP;
}

static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t id = uvhttp_request_param(req, "id");
    atomic_fetch_add(&handled, 1);
    uvhttp_response_send(res, 200, "text/plain", id.data, id.size);
}

static void begin(void **state, uvhttp_handler_cb handler) {
    serving_t *serving = *state;
    atomic_store(&slot, NULL);
    dones_ok = dones_aborted = handled = went_on = went_on_gone = 0;
    serving_make(serving);
    uvhttp_use(serving->server, (uvhttp_middleware_t){.run = wait_here});
    uvhttp_get(serving->server, "/things/:id", handler, NULL);
    serving_start(serving);
}

static void proceed(uvhttp_deferred_t *deferred, const char *decision) {
    assert_int_equal(uvhttp_deferred_next(deferred, decide, (void *)(uintptr_t)decision), UVHTTP_OK);
    assert_int_equal(uvhttp_deferred_next(deferred, decide, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_deferred_text(deferred, 200, "too late"), UVHTTP_E_STATE);
    uvhttp_deferred_release(deferred);
}

static void test_a_middleware_that_waited_passes_the_request_on(void **state) {
    serving_t *serving = *state;
    begin(state, handle);
    int fd = client_ask(serving, GET("/things/seven") GET("/nowhere"));
    proceed(take(), NULL);
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "seven");
    assert_non_null(strstr(response->text, "X-Waited: yes\r\n"));
    proceed(take(), NULL); /* the second one had to wait for the first */
    assert_int_equal(client_read(fd)->status, 404);
    client_send_text(fd, GET("/things/x"));
    proceed(take(), "no");
    response = client_read(fd);
    assert_int_equal(response->status, 429);
    assert_string_equal(response->body, "no");
    client_send_text(fd, "PUT /things/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    proceed(take(), NULL);
    response = client_read(fd);
    assert_int_equal(response->status, 405);
    assert_non_null(strstr(response->text, "Allow: GET, HEAD, OPTIONS\r\n"));
    serving_leave(serving, fd);
    assert_int_equal(handled, 1);
    assert_int_equal(went_on, 4);
    assert_int_equal(dones_ok, 4);
}

static void test_the_handler_behind_it_may_wait_too(void **state) {
    serving_t *serving = *state;
    begin(state, later);
    int fd = client_ask(serving, GET("/things/seven"));
    uvhttp_deferred_t *first = take();
    assert_int_equal(uvhttp_deferred_next(first, decide, NULL), UVHTTP_OK);
    uvhttp_deferred_t *second = take();
    assert_ptr_not_equal(first, second);
    assert_int_equal(uvhttp_deferred_text(first, 200, "of the past"), UVHTTP_E_STATE);
    uvhttp_deferred_release(first);
    assert_int_equal(uvhttp_deferred_text(second, 200, "both"), UVHTTP_OK);
    uvhttp_deferred_release(second);
    assert_string_equal(client_read(fd)->body, "both");
    /* A handle of a handler has no chain to continue with. */
    client_send_text(fd, GET("/things/seven"));
    proceed(take(), NULL);
    proceed(take(), NULL);
    client_read_last(fd, 500);
    serving_stop(serving);
    assert_int_equal(went_on, 2);
}

static void test_a_client_that_did_not_wait_is_not_passed_on(void **state) {
    serving_t *serving = *state;
    begin(state, handle);
    int fd = client_ask(serving, GET("/things/seven"));
    uvhttp_deferred_t *deferred = take();
    close(fd);
    WAIT_UNTIL(dones_aborted == 1);
    assert_int_equal(uvhttp_deferred_next(deferred, decide, NULL), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_deferred_next(NULL, decide, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_next(deferred, NULL, NULL), UVHTTP_E_INVALID);
    uvhttp_deferred_release(deferred);
    /* The client goes at about the same time. */
    for (int i = 0; i < 50; i++) {
        int before = dones_aborted + dones_ok;
        fd = client_ask(serving, GET("/things/seven"));
        deferred = take();
        close(fd);
        (void)uvhttp_deferred_next(deferred, decide, NULL);
        uvhttp_deferred_release(deferred);
        WAIT_UNTIL(dones_aborted + dones_ok == before + 1);
    }
    serving_stop(serving);
    assert_true(handled + went_on_gone <= 50);
}

static void never(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    abort();
}

static int use(uvhttp_deferred_t *deferred, int call) {
    switch (call) {
        case 0: return uvhttp_deferred_next(deferred, decide, "never");
        case 1: return uvhttp_deferred_run(deferred, never, NULL);
        case 2: return uvhttp_deferred_header(deferred, "X-Never", "x");
        default: return uvhttp_deferred_text(deferred, 200, "never");
    }
}

static void test_a_call_without_memory_says_so_and_changes_nothing(void **state) {
    serving_t *serving = *state;
    begin(state, handle);
    int fd = client_ask(serving, GET("/things/seven"));
    uvhttp_deferred_t *deferred = take();
    for (int call = 0; call < 4; call++) {
        test_allocator_fail_at(1);
        int status = use(deferred, call);
        test_allocator_fail_at(0);
        assert_int_equal(status, UVHTTP_E_NOMEM);
    }
    proceed(deferred, NULL);
    client_response_t *response = client_read(fd);
    assert_string_equal(response->body, "seven");
    assert_null(strstr(response->text, "X-Never"));
    serving_leave(serving, fd);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_middleware_that_waited_passes_the_request_on, test_the_handler_behind_it_may_wait_too,
                       test_a_client_that_did_not_wait_is_not_passed_on,
                       test_a_call_without_memory_says_so_and_changes_nothing);
}
