/* Owns: tests of requests on the thread of a loop that is not theirs: another server's, one that has replaced
 * theirs, and one of several that a thread has attached. Such a thread is a loop's, and still no more than any other.
 * For ASan and TSan, too. */
#include "support/http_server.h"

#include <uv.h>

#include "server/server.h"

static atomic_int wrong;

static void expect(bool right, const char *what) {
    if (right) return;
    atomic_fetch_add(&wrong, 1);
    print_message("wrong: %s\n", what);
}
#define EXPECT(condition) expect((condition), #condition)

#define UPLOAD "POST /upload HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\n"

static _Atomic(uvhttp_deferred_t *) slot; /* what a handler has deferred */
static atomic_int looked, pieces;

static void on_data(uvhttp_request_t *req, uvhttp_response_t *res, uvhttp_str_t data, void *user) {
    (void)res, (void)data, (void)user;
    EXPECT(req->ops->counters(req) != NULL);
    EXPECT(uvhttp_request_pause_body(req) == UVHTTP_OK && uvhttp_request_resume_body(req) == UVHTTP_OK);
    atomic_fetch_add(&pieces, 1);
}

static void on_end(uvhttp_request_t *req, uvhttp_response_t *res, int status, void *user) {
    (void)req, (void)res, (void)status, (void)user;
}

/* Its body comes while another thread has the handle. */
static void upload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    EXPECT(req->ops->counters(req) != NULL);
    EXPECT(uvhttp_request_on_body(req, on_data, on_end, NULL) == UVHTTP_OK);
    atomic_store(&slot, uvhttp_response_defer(res));
}

static uvhttp_deferred_t *take_deferred(void) {
    WAIT_UNTIL(atomic_load(&slot) != NULL);
    return atomic_exchange(&slot, NULL);
}

/* What asks for the loop says that this is not it, and touches nothing of it. */
static void look(uvhttp_deferred_t *deferred) {
    uvhttp_request_t *req = uvhttp_deferred_request(deferred);
    EXPECT(uvhttp_request_pause_body(req) == UVHTTP_E_STATE);
    EXPECT(uvhttp_request_resume_body(req) == UVHTTP_E_STATE);
    EXPECT(uvhttp_request_on_body(req, on_data, on_end, NULL) == UVHTTP_E_STATE);
    EXPECT(req->ops->counters(req) == NULL);
    EXPECT(uvhttp_request_time_ns(req) > 0);
    EXPECT(uvhttp_request_peer(req).size > strlen("127.0.0.1:"));
    EXPECT(uvhttp_request_alloc(req, 8) != NULL);
}

static void route_upload(uvhttp_server_t *server) {
    assert_int_equal(uvhttp_route_options(uvhttp_post(server, "/upload", upload, NULL),
                                          &(uvhttp_route_options_t){.stream_body = true}),
                     UVHTTP_OK);
}

/* --- another server's --- */

/* A handler of the other server: while the client of the first one sends, and until it has gone. */
static void look_from_here(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_deferred_t *deferred = atomic_load((_Atomic(uvhttp_deferred_t *) *)user);
    EXPECT(req->ops->counters(req) != NULL); /* of its own request, this is the loop */
    for (int i = 0; i < 20000 && !uvhttp_deferred_aborted(deferred); i++) {
        look(deferred);
        atomic_fetch_add(&looked, 1);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    EXPECT(uvhttp_deferred_aborted(deferred));
    look(deferred);
    uvhttp_deferred_release(deferred);
    EXPECT(uvhttp_response_text(res, 200, "looked") == UVHTTP_OK);
}

static void test_a_deferred_request_is_used_on_another_servers_loop(void **state) {
    static char data[4096];
    static _Atomic(uvhttp_deferred_t *) deferred;
    serving_t *serving = *state;
    void *made = &serving->config.engine;
    wrong = 0;
    assert_int_equal(serving_setup(&made), 0);
    serving_t *other = made;
    serving_make(serving);
    serving_make(other);
    route_upload(serving->server);
    assert_non_null(uvhttp_get(other->server, "/look", look_from_here, &deferred));
    serving_start(serving);
    serving_start(other);
    for (int i = 0; i < 20; i++) {
        int fd = client_connect(serving->port), there = client_connect(other->port), before = looked, came = pieces;
        client_send_text(fd, UPLOAD);
        deferred = take_deferred();
        client_send_text(there, "GET /look HTTP/1.1\r\nHost: a.example\r\n\r\n");
        WAIT_UNTIL(looked > before);
        for (int piece = 0; piece < 20; piece++)
            assert_int_equal(send(fd, data, sizeof data, MSG_NOSIGNAL), sizeof data);
        WAIT_UNTIL(pieces > came);
        client_reset(fd);
        assert_string_equal(client_read(there)->body, "looked");
        close(there);
    }
    serving_teardown(&made);
    assert_int_equal(wrong, 0);
}

/* --- one that has replaced theirs; several of one thread --- */

typedef struct app {
    uv_loop_t loop;
    uvhttp_deferred_t *deferred; /* of a server that is gone */
    bool stopped;
} app_t;

static void attach(app_t *app, const serving_t *serving, uvhttp_server_t **server) {
    *server = uvhttp_server_new(&serving->config);
    assert_non_null(*server);
    assert_int_equal(uvhttp_server_attach(*server, &app->loop), UVHTTP_OK);
}

static uint16_t listen_on(uvhttp_server_t *server) {
    uint16_t port = 0;
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", &port), UVHTTP_OK);
    return port;
}

static void on_stopped(uvhttp_server_t *server, void *user) {
    app_t *app = user;
    uvhttp_server_free(server);
    app->stopped = true;
}

static void stop(app_t *app, uvhttp_server_t *server) {
    app->stopped = false;
    uvhttp_server_on_stopped(server, on_stopped, app);
    assert_int_equal(uvhttp_server_stop(server), UVHTTP_OK);
    while (!app->stopped) uv_run(&app->loop, UV_RUN_ONCE);
}

static void iteration_until(app_t *app, const atomic_int *count, int wanted) {
    for (int i = 0; i < LIMIT_SECONDS * 1000 && *count < wanted; i++) {
        uv_run(&app->loop, UV_RUN_NOWAIT);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_equal(*count, wanted);
}

static atomic_int calls;

static void look_at_what_is_left(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    app_t *app = user;
    EXPECT(req->ops->counters(req) != NULL);
    if (app->deferred) look(app->deferred);
    EXPECT(uvhttp_response_text(res, 200, "looked") == UVHTTP_OK);
    atomic_fetch_add(&calls, 1);
}

static void ask_and_iteration(app_t *app, uint16_t port) {
    int before = calls, fd = client_connect(port);
    client_send_text(fd, "GET /look HTTP/1.1\r\nHost: a.example\r\n\r\n");
    iteration_until(app, &calls, before + 1);
    uv_run(&app->loop, UV_RUN_NOWAIT);
    assert_string_equal(client_read(fd)->body, "looked");
    close(fd);
}

static atomic_int aborted;

static void count_abort(uvhttp_deferred_t *deferred, void *user) {
    (void)user;
    uvhttp_request_t *req = uvhttp_deferred_request(deferred);
    EXPECT(req->ops->counters(req) != NULL); /* it is the loop's until the hooks have run */
    EXPECT(uvhttp_request_pause_body(req) == UVHTTP_E_ABORTED);
    atomic_fetch_add(&aborted, 1);
}

static void defer_upload(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    upload(req, res, user);
    uvhttp_deferred_on_abort(atomic_load(&slot), count_abort, NULL);
}

/* The same thread, the same libuv loop, another server: its loop may even stand where the first one did. */
static void test_a_handle_is_used_on_the_loop_that_came_after(void **state) {
    serving_t *serving = *state;
    app_t app = {.deferred = NULL};
    uvhttp_server_t *first, *second;
    wrong = aborted = 0;
    assert_int_equal(uv_loop_init(&app.loop), 0);
    attach(&app, serving, &first);
    assert_int_equal(uvhttp_route_options(uvhttp_post(first, "/upload", defer_upload, NULL),
                                          &(uvhttp_route_options_t){.stream_body = true}),
                     UVHTTP_OK);
    int fd = client_connect(listen_on(first));
    client_send_text(fd, UPLOAD "a");
    while (!atomic_load(&slot)) uv_run(&app.loop, UV_RUN_ONCE);
    app.deferred = take_deferred();
    client_reset(fd);
    iteration_until(&app, &aborted, 1);
    look(app.deferred);
    stop(&app, first);
    look(app.deferred);
    uv_run(&app.loop, UV_RUN_DEFAULT); /* what was the server's is gone */
    look(app.deferred);
    attach(&app, serving, &second);
    assert_non_null(uvhttp_get(second, "/look", look_at_what_is_left, &app));
    ask_and_iteration(&app, listen_on(second));
    uvhttp_deferred_release(app.deferred);
    stop(&app, second);
    uv_run(&app.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&app.loop), 0);
    assert_int_equal(wrong, 0);
}

static void on_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    atomic_fetch_add((atomic_int *)user, 1);
}

/* One thread has attached two: each is the loop of its requests, and when one has been freed, the other one's serves
 * timers, however long it has been there. */
static void test_a_server_serves_on_when_another_one_of_its_thread_is_freed(void **state) {
    serving_t *serving = *state;
    app_t app = {.deferred = NULL};
    for (int later = 0; later < 2; later++) {
        uvhttp_server_t *servers[2];
        uint16_t ports[2];
        atomic_int fired = 0;
        uvhttp_timer_t timer = {.internal = {0}};
        wrong = 0;
        assert_int_equal(uv_loop_init(&app.loop), 0);
        for (int i = 0; i < 2; i++) {
            attach(&app, serving, &servers[i]);
            assert_non_null(uvhttp_get(servers[i], "/look", look_at_what_is_left, &app));
            ports[i] = listen_on(servers[i]);
        }
        ask_and_iteration(&app, ports[0]);
        ask_and_iteration(&app, ports[1]);
        stop(&app, servers[later]);
        ask_and_iteration(&app, ports[!later]);
        assert_ptr_equal(uvhttp_loop_uv(), &app.loop);
        assert_int_equal(uvhttp_timer_start(&timer, 1, on_timer, &fired), UVHTTP_OK);
        iteration_until(&app, &fired, 1);
        stop(&app, servers[!later]);
        assert_null(uvhttp_loop_uv());
        assert_int_equal(uvhttp_timer_start(&timer, 1, on_timer, &fired), UVHTTP_E_STATE);
        uv_run(&app.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&app.loop), 0);
        assert_int_equal(wrong, 0);
    }
}

/* --- timers and jobs of one of several --- */

typedef struct late {
    uvhttp_server_t *server;
    uvhttp_timer_t timer;
    uvhttp_deferred_t *deferred;
    atomic_int asked, done_on_loop;
} late_t;

static void respond_late(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    late_t *late = user;
    EXPECT(uvhttp_deferred_text(late->deferred, 200, "late") == UVHTTP_OK);
    uvhttp_deferred_release(late->deferred);
    atomic_fetch_add(&calls, 1);
}

static void no_job(void *user) {
    (void)user;
}

static void on_job_done(void *user, int status) {
    late_t *late = user;
    EXPECT(status == UVHTTP_OK);
    if (uvhttp_loop_uv()) late->done_on_loop++;
}

static void ask_late(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req;
    late_t *late = user;
    late->deferred = uvhttp_response_defer(res);
    EXPECT(uvhttp_work(late->server, no_job, on_job_done, late) == UVHTTP_OK);
    EXPECT(uvhttp_timer_start(&late->timer, 20, respond_late, late) == UVHTTP_OK);
    late->asked++;
}

/* What a handler starts is on the loop of its server, whichever was attached last, and whichever is freed. */
static void test_a_handler_starts_timers_and_jobs_on_the_loop_of_its_server(void **state) {
    serving_t *serving = *state;
    for (int later = 0; later < 2; later++) {
        app_t app = {.deferred = NULL};
        late_t late = {.asked = 0};
        uvhttp_server_t *servers[2];
        wrong = 0;
        assert_int_equal(uv_loop_init(&app.loop), 0);
        for (int i = 0; i < 2; i++) attach(&app, serving, &servers[i]);
        late.server = servers[later];
        assert_non_null(uvhttp_get(late.server, "/late", ask_late, &late));
        int before = calls, fd = client_connect(listen_on(late.server));
        (void)listen_on(servers[!later]);
        client_send_text(fd, "GET /late HTTP/1.1\r\nHost: a.example\r\n\r\n");
        iteration_until(&app, &late.asked, 1);
        stop(&app, servers[!later]);
        iteration_until(&app, &calls, before + 1);
        uv_run(&app.loop, UV_RUN_NOWAIT);
        assert_string_equal(client_read(fd)->body, "late");
        close(fd);
        iteration_until(&app, &late.done_on_loop, 1);
        stop(&app, late.server);
        uv_run(&app.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&app.loop), 0);
        assert_int_equal(wrong, 0);
    }
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_a_deferred_request_is_used_on_another_servers_loop,
                       test_a_handle_is_used_on_the_loop_that_came_after,
                       test_a_server_serves_on_when_another_one_of_its_thread_is_freed,
                       test_a_handler_starts_timers_and_jobs_on_the_loop_of_its_server);
}
