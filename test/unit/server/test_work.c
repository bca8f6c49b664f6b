/* Owns: tests of jobs of the application for the server's pool: where their ends come, and how they end with it. */
#include <uv.h>

#include "support/http_server.h"

static struct {
    atomic_uint ran, done, cancelled, done_on_loop, beats;
    atomic_int consumed; /* what uvhttp_work returned last */
    uvhttp_server_t *server;
    pthread_mutex_t gate;
} seen;

static void seen_reset(void) {
    memset(&seen, 0, sizeof seen);
    pthread_mutex_init(&seen.gate, NULL);
}

static void run(void *user) {
    (void)user;
    pthread_mutex_lock(&seen.gate);
    pthread_mutex_unlock(&seen.gate);
    atomic_fetch_add(&seen.ran, 1);
}

static void done(void *user, int status) {
    (void)user;
    if (uvhttp_loop_uv()) atomic_fetch_add(&seen.done_on_loop, 1);
    if (status == UVHTTP_E_WORK_CANCELLED) atomic_fetch_add(&seen.cancelled, 1);
    atomic_fetch_add(&seen.done, 1);
}

static void beat(void *user) {
    (void)user;
    atomic_fetch_add(&seen.beats, 1);
}

/* A handler whose response is made by a job, and sent on the loop. */
static void respond(void *user, int status) {
    uvhttp_deferred_t *deferred = user;
    done(NULL, status);
    uvhttp_deferred_text(deferred, status == UVHTTP_OK ? 200 : 503, "by a job");
    uvhttp_deferred_release(deferred);
}

static void give(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    atomic_store(&seen.consumed, uvhttp_work(seen.server, run, respond, deferred));
    if (atomic_load(&seen.consumed) != UVHTTP_OK) respond(deferred, atomic_load(&seen.consumed));
}

static void start(serving_t *serving) {
    seen_reset();
    serving_make(serving);
    seen.server = serving->server;
    uvhttp_get(serving->server, "/give", give, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/from-worker", give, NULL, UVHTTP_EXEC_WORKER);
}

static void test_the_end_comes_on_the_loop_that_gave_the_job(void **state) {
    serving_t *serving = *state;
    start(serving);
    serving_start(serving);
    int fd = client_ask(serving, GET("/give"));
    assert_string_equal(client_read(fd)->body, "by a job");
    assert_int_equal(atomic_load(&seen.done_on_loop), 1);
    client_send_text(fd, GET("/from-worker"));
    assert_string_equal(client_read(fd)->body, "by a job");
    assert_int_equal(atomic_load(&seen.done), 2);
    assert_int_equal(atomic_load(&seen.done_on_loop), 1);
    close(fd);
}

static void test_jobs_can_be_given_before_the_server_runs_and_by_any_thread(void **state) {
    serving_t *serving = *state;
    start(serving);
    assert_int_equal(uvhttp_work(serving->server, run, done, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_work(serving->server, run, NULL, NULL), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&seen.ran) == 2 && atomic_load(&seen.done) == 1);
    const uvhttp_work_options_t periodic = {.done = done, .period_ms = 1};
    assert_int_equal(uvhttp_work_with(serving->server, &periodic, beat, NULL, NULL), UVHTTP_OK);
    serving_start(serving);
    WAIT_UNTIL(atomic_load(&seen.beats) > 5);
    assert_int_equal(uvhttp_work(serving->server, run, done, NULL), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&seen.done) == 2);
    assert_int_equal(atomic_load(&seen.done_on_loop), 0);
    serving_stop(serving); /* ends the periodic one */
    assert_int_equal(atomic_load(&seen.cancelled), 1);
    assert_int_equal(atomic_load(&seen.done), 3);
    assert_int_equal(uvhttp_work_with(serving->server, &periodic, beat, NULL, NULL), UVHTTP_E_STATE);
}

static void test_a_handle_cancels_what_has_not_begun(void **state) {
    serving_t *serving = *state;
    start(serving);
    uvhttp_work_t *handle, *periodic;
    const uvhttp_work_options_t later = {.done = done, .delay_ms = 3600000}, again = {.done = done, .period_ms = 1};
    assert_int_equal(uvhttp_work_with(serving->server, &later, run, NULL, &handle), UVHTTP_OK);
    assert_int_equal(uvhttp_work_cancel(handle), UVHTTP_OK);
    assert_int_equal(atomic_load(&seen.cancelled), 1);
    assert_int_equal(uvhttp_work_cancel(handle), UVHTTP_E_STATE);
    uvhttp_work_release(handle);
    assert_int_equal(uvhttp_work_with(serving->server, &again, beat, NULL, &periodic), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&seen.beats) > 2);
    assert_int_equal(uvhttp_work_cancel(periodic), UVHTTP_OK);
    WAIT_UNTIL(atomic_load(&seen.cancelled) == 2);
    uvhttp_work_release(periodic);
    uvhttp_work_release(NULL);
    assert_int_equal(uvhttp_work_cancel(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_work(serving->server, NULL, done, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_work(NULL, run, done, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_counter(serving->server, "work_cancelled"), 2);
}

static void test_a_stop_runs_the_jobs_of_a_loop_and_notifies_the_delayed_ones(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    start(serving);
    serving_start(serving);
    pthread_mutex_lock(&seen.gate);
    int first = client_ask(serving, GET("/give")), second = client_ask(serving, GET("/give"));
    const uvhttp_work_options_t later = {.done = done, .delay_ms = 3600000};
    assert_int_equal(uvhttp_work_with(serving->server, &later, run, NULL, NULL), UVHTTP_OK);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "work_waiting") == 2);
    uvhttp_server_stop(serving->server);
    WAIT_UNTIL(atomic_load(&seen.cancelled) == 1);
    pthread_mutex_unlock(&seen.gate);
    assert_int_equal(client_read(first)->status, 200);
    assert_int_equal(client_read(second)->status, 200);
    close(first);
    close(second);
    serving_join(serving);
    assert_int_equal(atomic_load(&seen.done), 3);
    assert_int_equal(atomic_load(&seen.done_on_loop), 3); /* the delayed one's, too: its canceller is a loop */
}

static void test_jobs_beyond_the_backlog_are_refused(void **state) {
    serving_t *serving = *state;
    serving->config.worker_threads = 1;
    serving->config.max_backlog = 2;
    start(serving);
    pthread_mutex_lock(&seen.gate);
    assert_int_equal(uvhttp_work(serving->server, run, done, NULL), UVHTTP_OK);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "work_running") == 1);
    for (int i = 0; i < 2; ++i) assert_int_equal(uvhttp_work(serving->server, run, done, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_work(serving->server, run, done, NULL), UVHTTP_E_WORK_FULL);
    pthread_mutex_unlock(&seen.gate);
    WAIT_UNTIL(atomic_load(&seen.done) == 3);
    assert_int_equal(uvhttp_server_counter(serving->server, "work_refused"), 1);
}

/* --- inside a loop of the application --- */

static void on_worker(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_begin(res, 200, "text/plain", 2);
    uvhttp_response_write(res, uvhttp_loop_uv() ? "no" : "ok", 2);
}

/* user: how many jobs must be done by now. */
static void on_stopped(uvhttp_server_t *server, void *user) {
    assert_int_equal(atomic_load(&seen.done), (unsigned)(uintptr_t)user);
    uvhttp_server_free(server);
}

static void stop_attached(uv_timer_t *timer) {
    uvhttp_server_stop(seen.server);
    uv_close((uv_handle_t *)timer, NULL);
}

/* A server in a loop of the test's own. */
static void attach(uv_loop_t *loop, uv_timer_t *timer, uvhttp_server_cb when_stopped, uintptr_t jobs) {
    seen_reset();
    assert_int_equal(uv_loop_init(loop), 0);
    uv_timer_init(loop, timer);
    seen.server = uvhttp_server_new(NULL);
    assert_int_equal(uvhttp_server_attach(seen.server, loop), UVHTTP_OK);
    uvhttp_server_on_stopped(seen.server, when_stopped, (void *)jobs);
}

static void test_a_handler_of_an_attached_server_runs_on_a_worker_thread(void **state) {
    (void)state;
    uv_loop_t loop;
    uv_timer_t timer;
    serving_t serving = {0};
    attach(&loop, &timer, on_stopped, 0);
    uvhttp_route(seen.server, UVHTTP_GET, "/", on_worker, NULL, UVHTTP_EXEC_WORKER);
    assert_int_equal(uvhttp_server_listen(seen.server, "127.0.0.1:0", &serving.port), UVHTTP_OK);
    int fd = client_ask(&serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    char text[512] = ""; /* the whole response: what is missing of it comes from the loop, which is turned here */
    for (int tries = 0; !strstr(text, "\r\n\r\nok"); ++tries) {
        assert_true(tries < LIMIT_SECONDS * 1000);
        (void)!recv(fd, text, sizeof text - 1, MSG_PEEK | MSG_DONTWAIT);
        uv_run(&loop, UV_RUN_NOWAIT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_string_equal(client_read(fd)->body, "ok");
    close(fd);
    uv_timer_start(&timer, stop_attached, 0, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_an_attached_server_stops_when_its_jobs_are_done(void **state) {
    (void)state;
    uv_loop_t loop;
    uv_timer_t timer;
    attach(&loop, &timer, on_stopped, 3);
    assert_int_equal(uvhttp_server_listen(seen.server, "127.0.0.1:0", NULL), UVHTTP_OK);
    pthread_mutex_lock(&seen.gate);
    for (int i = 0; i < 3; ++i) assert_int_equal(uvhttp_work(seen.server, run, done, NULL), UVHTTP_OK);
    uv_timer_start(&timer, stop_attached, 0, 0);
    for (int i = 0; i < 20; ++i) {
        uv_run(&loop, UV_RUN_NOWAIT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(atomic_load(&seen.done), 0);
    pthread_mutex_unlock(&seen.gate);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(atomic_load(&seen.done), 3);
    assert_int_equal(atomic_load(&seen.done_on_loop), 3);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void *give_a_job(void *arg) {
    assert_int_equal(uvhttp_work(seen.server, run, done, NULL), UVHTTP_OK);
    return arg;
}

static void free_awaits_the_job(uvhttp_server_t *server, void *user) {
    (void)user;
    assert_int_equal(atomic_load(&seen.done), 0);
    pthread_mutex_unlock(&seen.gate);
    uvhttp_server_free(server);
    assert_int_equal(atomic_load(&seen.done), 1);
}

/* No loop knows of them. */
static void test_jobs_that_other_threads_give_to_an_attached_server_are_awaited_when_it_is_freed(void **state) {
    (void)state;
    uv_loop_t loop;
    uv_timer_t timer;
    pthread_t thread;
    attach(&loop, &timer, free_awaits_the_job, 0);
    assert_int_equal(uvhttp_server_listen(seen.server, "127.0.0.1:0", NULL), UVHTTP_OK);
    pthread_mutex_lock(&seen.gate);
    assert_int_equal(pthread_create(&thread, NULL, give_a_job, NULL), 0);
    pthread_join(thread, NULL);
    uv_timer_start(&timer, stop_attached, 0, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(atomic_load(&seen.done), 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_the_end_comes_on_the_loop_that_gave_the_job),
        ON_EACH(test_jobs_can_be_given_before_the_server_runs_and_by_any_thread),
        ON_EACH(test_a_handle_cancels_what_has_not_begun),
        ON_EACH(test_a_stop_runs_the_jobs_of_a_loop_and_notifies_the_delayed_ones),
        ON_EACH(test_jobs_beyond_the_backlog_are_refused),
        cmocka_unit_test(test_a_handler_of_an_attached_server_runs_on_a_worker_thread),
        cmocka_unit_test(test_an_attached_server_stops_when_its_jobs_are_done),
        cmocka_unit_test(test_jobs_that_other_threads_give_to_an_attached_server_are_awaited_when_it_is_freed),
    };
    return RUN_TABLE(tests);
}
