/* Owns: tests of streams that end in another way than by the handler's response: an application that is late, a client
 * that does not send, a drain, a response that is cut or cannot begin. Each in the states that only a protocol with
 * windows knows. On each engine. */
/* Needs: coroutines. */
#include <semaphore.h>
#include <uvhttp/coro.h>

#include "support/fake_script.h"

static atomic_int dones, done_status, ends;
static _Atomic(uvhttp_deferred_t *) handle;
static sem_t gate;

static void on_done(uvhttp_response_t *res, int status, void *user) {
    (void)res, (void)user;
    atomic_store(&done_status, status);
    atomic_fetch_add(&dones, 1);
}

static void make_server(fake_server_t *server, void **state) {
    atomic_store(&dones, 0);
    atomic_store(&ends, 0);
    atomic_store(&handle, NULL);
    sem_init(&gate, 0, 0);
    fake_server_make(server, state);
}

static void stop_server(fake_server_t *server) {
    fake_server_stop(server);
    sem_destroy(&gate);
}

static uvhttp_deferred_t *defer(uvhttp_response_t *res) {
    if (uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK) abort();
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    if (!deferred) abort();
    atomic_store(&handle, deferred);
    return deferred;
}

static void route(fake_server_t *server, const char *path, uvhttp_handler_cb handler, uvhttp_exec_t exec,
                  const uvhttp_route_options_t *options) {
    uvhttp_route_t *route = uvhttp_route(server->serving->server, UVHTTP_ANY, path, handler, NULL, exec);
    assert_int_equal(uvhttp_route_options(route, options), UVHTTP_OK);
}

/* --- an application that is late --- */

static void hold(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    (void)defer(res);
}

static void block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK) abort();
    while (sem_wait(&gate) != 0) continue;
    (void)uvhttp_response_text(res, 200, "late");
}

static void wait_for_end(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK) abort();
    while (uvhttp_coro_sleep(1000) == UVHTTP_OK) continue;
}

/* The response of the server takes the place of the application's, and may take its time as well. */
static void expect_503_in_its_place(fake_server_t *server, const char *path) {
    atomic_store(&dones, 0);
    fake_script_t *script = fake_script_for(server, UVHTTP_GET, path, NULL);
    script->send_window = 0;
    fake_script_start(script);
    WAIT_UNTIL(fake_script_look(script)->responded);
    assert_false(fake_script_is_over(script));
    sem_post(&gate); /* the thread continues, if there is one */
    WAIT_UNTIL(atomic_load(&dones) == 1);
    assert_int_equal(done_status, UVHTTP_E_ABORTED);
    if (atomic_load(&handle)) {
        assert_int_equal(uvhttp_deferred_text(handle, 200, "late"), UVHTTP_E_ABORTED);
        uvhttp_deferred_release(atomic_exchange(&handle, NULL));
    }
    assert_false(fake_script_is_over(script));
    fake_script_send(script, 1000);
    fake_script_expect_status(script, 503);
    assert_int_equal(dones, 1);
    fake_script_free(script);
    while (sem_trywait(&gate) == 0) continue;
}

static void test_an_application_that_is_late_is_replaced(void **state) {
    const uvhttp_route_options_t soon = {.response_timeout_ms = 20};
    fake_server_t server;
    make_server(&server, state);
    route(&server, "/hold", hold, UVHTTP_EXEC_LOOP, &soon);
    route(&server, "/block", block, UVHTTP_EXEC_WORKER, &soon);
    if (fake_mode_works(FAKE_COROUTINE)) route(&server, "/wait", wait_for_end, UVHTTP_EXEC_COROUTINE, &soon);
    fake_server_start(&server);
    expect_503_in_its_place(&server, "/hold");
    expect_503_in_its_place(&server, "/block");
    if (fake_mode_works(FAKE_COROUTINE)) expect_503_in_its_place(&server, "/wait");
    stop_server(&server);
}

/* Time that the client takes for a response is not the application's. */
static void test_a_response_without_a_window_is_not_late(void **state) {
    fake_server_t server;
    make_server(&server, state);
    const uvhttp_route_options_t soon = {.response_timeout_ms = 1};
    route(&server, "/hold", hold, UVHTTP_EXEC_LOOP, &soon);
    fake_server_start(&server);
    fake_script_t *late = fake_script_for(&server, UVHTTP_GET, "/hold", NULL);
    fake_script_t *script = fake_script_new(&server, FAKE_POOLED, 1, 0, 30000);
    script->send_window = 0;
    fake_script_start(script);
    WAIT_UNTIL(fake_script_look(script)->responded);
    fake_script_start(late); /* its time is over later than the other's would be */
    fake_script_expect_status(late, 503);
    assert_false(fake_script_is_over(script));
    fake_script_send(script, 30000);
    fake_script_expect_response(script);
    uvhttp_deferred_release(atomic_load(&handle));
    fake_script_free(late);
    fake_script_free(script);
    stop_server(&server);
}

/* --- a client that does not send --- */

static void test_a_body_that_does_not_come_is_refused_in_every_state(void **state) {
    fake_server_t server;
    serving_t *serving = *state;
    serving->config.body_timeout = 1;
    make_server(&server, state);
    fake_server_start(&server);
    fake_script_t *scripts[FAKE_MODE_COUNT];
    for (fake_mode_t mode = 0; mode < FAKE_MODE_COUNT; mode++) {
        if (!fake_mode_works(mode)) continue;
        scripts[mode] = fake_script_new(&server, mode, mode, 10000, 10);
        scripts[mode]->receive_window = 100;
        scripts[mode]->send_window = 0;
        fake_script_start(scripts[mode]);
    }
    for (fake_mode_t mode = 0; mode < FAKE_MODE_COUNT; mode++) {
        if (!fake_mode_works(mode)) continue;
        WAIT_UNTIL(fake_script_look(scripts[mode])->responded);
        assert_false(fake_script_is_over(scripts[mode]));
        fake_script_send(scripts[mode], 1000);
        fake_script_expect_status(scripts[mode], 408);
        assert_int_equal(scripts[mode]->seen.body_sent, 100);
        bool handled = mode == FAKE_STREAMED || mode == FAKE_PAUSED || mode == FAKE_LIVE || mode == FAKE_COROUTINE;
        WAIT_UNTIL(atomic_load(&fake_dones[mode]) == handled);
        fake_script_free(scripts[mode]);
    }
    stop_server(&server);
}

/* --- a drain --- */

static void on_stop(uvhttp_response_t *res, void *user) {
    (void)uvhttp_response_text(res, 200, "stopped");
    uvhttp_deferred_release(user);
}

static void until_stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = defer(res);
    if (uvhttp_deferred_on_stop(deferred, on_stop, deferred) != UVHTTP_OK) abort();
}

static void drain(void *arg) {
    fake_drain(arg);
}

static void nothing(void *arg) {
    (void)arg;
}

static void test_a_drain_notifies_every_stream(void **state) {
    fake_server_t server;
    make_server(&server, state);
    route(&server, "/until-stop", until_stop, UVHTTP_EXEC_LOOP, NULL);
    fake_server_start(&server);
    fake_script_t *scripts[3];
    for (int i = 0; i < 3; i++) scripts[i] = fake_script_for(&server, UVHTTP_GET, "/until-stop", NULL);
    fake_script_start(scripts[0]);
    fake_script_start(scripts[1]);
    fake_call(server.connection, nothing, NULL);
    assert_false(fake_script_is_over(scripts[0]));
    fake_call(server.connection, drain, server.connection);
    fake_script_start(scripts[2]); /* it is notified immediately */
    for (int i = 0; i < 3; i++) {
        fake_script_expect_status(scripts[i], 200);
        assert_int_equal(scripts[i]->seen.body_consumed, strlen("stopped"));
        fake_script_free(scripts[i]);
    }
    assert_int_equal(dones, 3);
    stop_server(&server);
}

/* --- a response that is cut --- */

static void begin_and_forget(uvhttp_response_t *res, void *user) {
    if (res && uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN) == UVHTTP_OK)
        (void)uvhttp_response_write(res, "half", 4);
    uvhttp_deferred_release(user);
}

static void half(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = defer(res);
    if (uvhttp_deferred_run(deferred, begin_and_forget, deferred) != UVHTTP_OK) abort();
}

static void test_a_response_that_nobody_ends_is_cut(void **state) {
    fake_server_t server;
    make_server(&server, state);
    route(&server, "/half", half, UVHTTP_EXEC_LOOP, NULL);
    fake_server_start(&server);
    fake_script_t *script = fake_script_for(&server, UVHTTP_GET, "/half", NULL);
    fake_script_start(script);
    fake_script_expect_abort(script);
    assert_int_equal(script->seen.resets, 1);
    assert_int_equal(script->seen.reset_code, UVHTTP_E_STATE);
    assert_int_equal(dones, 1);
    assert_int_equal(done_status, UVHTTP_E_ABORTED);
    fake_script_free(script);
    stop_server(&server);
}

static void at_once(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK) abort();
    if (uvhttp_response_begin(res, 200, NULL, UVHTTP_SIZE_UNKNOWN) != UVHTTP_E_NOMEM) abort();
    if (uvhttp_request_path(req).size == 0) abort();
}

/* What follows a head that was never written would have another meaning. */
static void test_a_response_that_cannot_begin_is_cut(void **state) {
    static const char *const paths[] = {"/loop", "/worker-begins", "/coroutine-begins"};
    static const uvhttp_exec_t execs[] = {UVHTTP_EXEC_LOOP, UVHTTP_EXEC_WORKER, UVHTTP_EXEC_COROUTINE};
    fake_server_t server;
    make_server(&server, state);
    int count = fake_mode_works(FAKE_COROUTINE) ? 3 : 2;
    for (int i = 0; i < count; i++) route(&server, paths[i], at_once, execs[i], NULL);
    fake_server_start(&server);
    for (int i = 0; i < count; i++) {
        atomic_store(&dones, 0);
        fake_script_t *script = fake_script_for(&server, UVHTTP_GET, paths[i], NULL);
        script->fail_begin = UVHTTP_E_NOMEM;
        fake_script_start(script);
        fake_script_expect_abort(script);
        assert_int_equal(script->seen.reset_code, UVHTTP_E_NOMEM);
        WAIT_UNTIL(atomic_load(&dones) == 1);
        assert_int_equal(done_status, UVHTTP_E_ABORTED);
        fake_script_free(script);
    }
    fake_script_t *pieces = fake_script_new(&server, FAKE_PIECES, 0, 0, 100);
    pieces->fail_begin = UVHTTP_E_NOMEM;
    fake_script_start(pieces);
    fake_script_expect_abort(pieces);
    WAIT_UNTIL(atomic_load(&fake_dones[0]) == 1);
    fake_script_free(pieces);
    stop_server(&server);
}

/* --- a response before the end of the body --- */

static void respond_early(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)req, (void)data, (void)user;
    (void)uvhttp_response_text(res, 200, "early");
}

static void count_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)status, (void)user;
    atomic_fetch_add(&ends, 1);
}

static void early(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    if (uvhttp_response_on_done(res, on_done, NULL) != UVHTTP_OK) abort();
    if (uvhttp_request_on_body(req, respond_early, count_end, NULL) != UVHTTP_OK) abort();
}

/* The end of the body is not reported any more, whatever happens to the response. */
static void test_nothing_of_the_body_follows_an_early_response(void **state) {
    fake_server_t server;
    make_server(&server, state);
    route(&server, "/early", early, UVHTTP_EXEC_LOOP, &(uvhttp_route_options_t){.stream_body = true});
    fake_server_start(&server);
    for (int i = 0; i < 6; i++) {
        bool aborted = i % 2, whole = i / 2 == 0, last = i / 2 == 1;
        atomic_store(&dones, 0);
        fake_script_t *script = fake_script_for(&server, UVHTTP_POST, "/early", "0123456789");
        script->receive_window = whole ? FAKE_NO_LIMIT : last ? 0 : 5;
        script->send_window = 0;
        fake_script_start(script);
        if (last) fake_script_receive(script, 10);
        WAIT_UNTIL(fake_script_look(script)->responded);
        fake_script_receive(script, 5);
        assert_int_equal(dones, 0);
        if (aborted)
            fake_script_abort(script);
        else
            fake_script_send(script, 1000);
        WAIT_UNTIL(fake_script_is_over(script));
        assert_int_equal(script->seen.aborted, aborted);
        assert_int_equal(dones, 1);
        assert_int_equal(done_status, aborted ? UVHTTP_E_ABORTED : UVHTTP_OK);
        assert_int_equal(ends, 0);
        fake_script_free(script);
    }
    stop_server(&server);
}

int main(void) {
    return RUN_ON_EACH(test_an_application_that_is_late_is_replaced, test_a_response_without_a_window_is_not_late,
                       test_a_body_that_does_not_come_is_refused_in_every_state, test_a_drain_notifies_every_stream,
                       test_a_response_that_nobody_ends_is_cut, test_a_response_that_cannot_begin_is_cut,
                       test_nothing_of_the_body_follows_an_early_response);
}
