/* Owns: tests of interim responses from each kind of handler, on a protocol of many streams. */
/* Needs: coroutines. */
#include <cmocka.h>
#include <uvhttp/coro.h>

#include "support/fake_script.h"

static const uvhttp_response_field_t hint = {"Link", "</a.css>; rel=preload"};
static atomic_int late; /* what an interim response behind the final one has returned */

static void expect(int status, int expected) {
    if (status != expected) abort();
}

static void send_both(uvhttp_response_t *res) {
    expect(uvhttp_response_interim(res, 102, NULL, 0), UVHTTP_OK);
    expect(uvhttp_response_interim(res, 103, &hint, 1), UVHTTP_OK);
}

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    send_both(res);
    expect(uvhttp_response_text(res, 200, "final"), UVHTTP_OK);
}

static void stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    send_both(res);
    expect(uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN), UVHTTP_OK);
    expect(uvhttp_response_write(res, "final", 5), UVHTTP_OK);
    late = uvhttp_response_interim(res, 103, &hint, 1);
}

static void send_run(uvhttp_response_t *res, void *user) {
    (void)user;
    expect(uvhttp_response_interim(res, 103, &hint, 1), UVHTTP_OK);
    expect(uvhttp_response_text(res, 200, "final"), UVHTTP_OK);
}

static void defer(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    expect(uvhttp_response_interim(res, 103, &hint, 1), UVHTTP_E_STATE);
    expect(uvhttp_deferred_interim(deferred, 100, NULL, 0), UVHTTP_E_INVALID);
    expect(uvhttp_deferred_interim(NULL, 103, NULL, 0), UVHTTP_E_INVALID);
    expect(uvhttp_deferred_interim(deferred, 102, NULL, 0), UVHTTP_OK);
    expect(uvhttp_deferred_run(deferred, send_run, NULL), UVHTTP_OK);
    uvhttp_deferred_release(deferred);
}

static const struct {
    const char *path;
    uvhttp_handler_cb handler;
    uvhttp_exec_t exec;
} routes[] = {
    {"/loop", respond, UVHTTP_EXEC_LOOP},           {"/stream", stream, UVHTTP_EXEC_LOOP},
    {"/worker", respond, UVHTTP_EXEC_WORKER},       {"/worker-stream", stream, UVHTTP_EXEC_WORKER},
    {"/deferred", defer, UVHTTP_EXEC_LOOP},         {"/worker-deferred", defer, UVHTTP_EXEC_WORKER},
    {"/coroutine", respond, UVHTTP_EXEC_COROUTINE}, {"/coroutine-stream", stream, UVHTTP_EXEC_COROUTINE},
};

static void test_each_kind_of_handler_sends_them_before_its_response(void **state) {
    fake_server_t server;
    fake_server_make(&server, state);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        assert_non_null(
            uvhttp_route(server.serving->server, UVHTTP_GET, routes[i].path, routes[i].handler, NULL, routes[i].exec));
    fake_server_start(&server);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        late = UVHTTP_E_STATE;
        fake_script_t *script = fake_script_for(&server, UVHTTP_GET, routes[i].path, NULL);
        fake_script_start(script);
        fake_script_expect_status(script, 200);
        assert_non_null(script->seen.interim);
        assert_string_equal(script->seen.interim, "102 103 Link: </a.css>; rel=preload\r\n");
        assert_int_equal(script->seen.body_consumed, 5);
        assert_int_equal(late, UVHTTP_E_STATE);
        fake_script_free(script);
    }
    fake_server_stop(&server);
}

/* --- the client goes --- */

static atomic_int reached, status_seen;
static atomic_bool may_continue;

static void wait_and_send(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    reached = 1;
    while (!may_continue) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    status_seen = uvhttp_response_interim(res, 103, &hint, 1);
}

static void test_a_worker_thread_learns_that_its_client_has_gone(void **state) {
    fake_server_t server;
    fake_server_make(&server, state);
    reached = 0;
    status_seen = 1;
    may_continue = false;
    assert_non_null(uvhttp_route(server.serving->server, UVHTTP_GET, "/wait", wait_and_send, NULL, UVHTTP_EXEC_WORKER));
    fake_server_start(&server);
    fake_script_t *script = fake_script_for(&server, UVHTTP_GET, "/wait", NULL);
    fake_script_start(script);
    WAIT_UNTIL(reached == 1);
    fake_script_abort(script);
    may_continue = true;
    WAIT_UNTIL(status_seen != 1);
    assert_int_equal(status_seen, UVHTTP_E_ABORTED);
    fake_script_expect_abort(script);
    assert_null(script->seen.interim);
    fake_script_free(script);
    fake_server_stop(&server);
}

int main(void) {
    return RUN_ON_EACH(test_each_kind_of_handler_sends_them_before_its_response,
                       test_a_worker_thread_learns_that_its_client_has_gone);
}
