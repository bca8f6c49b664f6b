/* Owns: tests of a TCP server inside a libuv loop of the application. The application runs in a thread of its own. */
#include "support/tcp_server.h"

#include <string.h>
#include <sys/resource.h>
#include <uvhttp/log.h>
#include <uvhttp/timer.h>

typedef struct app {
    fixture_t *fixture;
    uv_loop_t loop;
    uv_async_t wake; /* keeps the loop alive until the server has stopped, and brings work to it */
    uv_timer_t timer;
    uvhttp_tcp_t *ticking;
    void (*begin)(struct app *app); /* on the loop's thread, before it runs */
    void (*work)(struct app *app);
    int close_status;
    pthread_t thread;
} app_t;

static void on_stopped(void *user) {
    app_t *app = user;
    fixture_t *fixture = app->fixture;
    if (uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", NULL) != UVHTTP_E_STATE)
        fixture_saw(fixture, SEEN_WRONG, 1);
    uvhttp_tcp_server_free(fixture->server);
    uv_close((uv_handle_t *)&app->wake, NULL);
    if (!uv_is_closing((uv_handle_t *)&app->timer)) uv_close((uv_handle_t *)&app->timer, NULL);
    fixture_saw(fixture, SEEN_STEP, 1);
}

static void on_wake(uv_async_t *wake) {
    app_t *app = wake->data;
    if (app->work) app->work(app);
    app->work = NULL;
}

static void *app_run(void *arg) {
    app_t *app = arg;
    app->begin(app);
    fixture_saw(app->fixture, SEEN_STEP, 1);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    app->close_status = uv_loop_close(&app->loop);
    return NULL;
}

static app_t *app_new(fixture_t *fixture) {
    app_t *app = calloc(1, sizeof *app);
    app->fixture = fixture;
    fixture_make(fixture);
    assert_int_equal(uv_loop_init(&app->loop), 0);
    app->wake.data = app;
    app->timer.data = app;
    assert_int_equal(uv_async_init(&app->loop, &app->wake, on_wake), 0);
    assert_int_equal(uv_timer_init(&app->loop, &app->timer), 0);
    uvhttp_tcp_server_on_stopped(fixture->server, on_stopped, app);
    return app;
}

static void expect(fixture_t *fixture, int status, int wanted) {
    if (status != wanted) fixture_saw(fixture, SEEN_WRONG, 1);
}

static void attach_and_listen(app_t *app) {
    fixture_t *fixture = app->fixture;
    expect(fixture, uvhttp_tcp_server_attach(fixture->server, &app->loop), UVHTTP_OK);
    expect(fixture, uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
}

static void app_start(app_t *app, void (*begin)(app_t *app)) {
    app->begin = begin;
    assert_int_equal(pthread_create(&app->thread, NULL, app_run, app), 0);
    wait_seen(app->fixture, SEEN_STEP, 1);
}

/* The server has been freed in on_stopped, and the loop has no handle left. */
static void app_join(app_t *app) {
    pthread_join(app->thread, NULL);
    app->fixture->server = NULL;
    assert_int_equal(app->close_status, 0);
    assert_int_equal(fixture_seen(app->fixture, SEEN_STEP), 2);
    free(app);
}

/* A client that has an echo. */
static int app_dial(app_t *app, void (*attach)(app_t *app)) {
    app_start(app, attach);
    int fd = dial(app->fixture);
    ping(fd);
    return fd;
}

static void attach_and_stop(fixture_t *fixture, void (*attach)(app_t *app)) {
    app_t *app = app_new(fixture);
    app_start(app, attach);
    uvhttp_tcp_server_stop(fixture->server);
    app_join(app);
}

static void test_an_attached_server_serves_stops_and_is_freed(void **state) {
    fixture_t *fixture = *state;
    app_t *app = app_new(fixture);
    app_start(app, attach_and_listen);
    int fds[3];
    dial_many(fixture, fds, 3);
    uvhttp_tcp_server_stop(fixture->server);
    expect_ends(fds, 3);
    app_join(app);
}

/* The limit is the program's. A server of its own would raise it for so many connections. */
static void test_an_attached_server_leaves_the_limit_of_descriptors_alone(void **state) {
    fixture_t *fixture = *state;
    struct rlimit before, low, after;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    if (low.rlim_cur > 256) low.rlim_cur = 256;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    fixture->config.max_connections = 10000;
    app_t *app = app_new(fixture);
    int fd = app_dial(app, attach_and_listen);
    int status = getrlimit(RLIMIT_NOFILE, &after);
    uvhttp_tcp_server_stop(fixture->server);
    client_expect_eof(fd);
    close(fd);
    app_join(app);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, 0);
    assert_int_equal(after.rlim_cur, low.rlim_cur);
    assert_int_equal(after.rlim_max, low.rlim_max);
}

static void test_stop_before_attach_is_not_lost(void **state) {
    fixture_t *fixture = *state;
    app_t *app = app_new(fixture);
    uvhttp_tcp_server_stop(fixture->server);
    app_start(app, attach_and_listen);
    app_join(app);
}

static void attach_only(app_t *app) {
    expect(app->fixture, uvhttp_tcp_server_attach(app->fixture->server, &app->loop), UVHTTP_OK);
}

static void test_a_server_without_addresses_stops(void **state) {
    attach_and_stop(*state, attach_only);
}

static void attach_and_run(app_t *app) {
    uvhttp_tcp_server_t *server = app->fixture->server;
    attach_only(app);
    expect(app->fixture, uvhttp_tcp_server_run(server, "127.0.0.1:0"), UVHTTP_E_STATE);
    expect(app->fixture, strstr(uvhttp_tcp_server_error_text(server), "attached") != NULL, true);
}

static void test_an_attached_server_is_not_run(void **state) {
    attach_and_stop(*state, attach_and_run);
}

static void attach_twice(app_t *app) {
    uvhttp_tcp_server_t *server = app->fixture->server;
    expect(app->fixture, uvhttp_tcp_server_attach(server, NULL), UVHTTP_E_INVALID);
    attach_and_listen(app);
    expect(app->fixture, uvhttp_tcp_server_attach(server, &app->loop), UVHTTP_E_STATE);
    expect(app->fixture, uvhttp_tcp_server_run(server, NULL), UVHTTP_E_STATE);
}

static void test_attach_is_for_a_fresh_server_only(void **state) {
    attach_and_stop(*state, attach_twice);
}

static void listen_on_too_many(app_t *app) {
    fixture_t *fixture = app->fixture;
    attach_and_listen(app);
    for (int i = 1; i < 64; i++)
        expect(fixture, uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
    int fds = count_fds();
    expect(fixture, uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", NULL), UVHTTP_E_LIMIT);
    expect(fixture, count_fds(), fds);
}

static void test_addresses_have_a_bound(void **state) {
    fixture_t *fixture = *state;
    app_t *app = app_new(fixture);
    int fd = app_dial(app, listen_on_too_many);
    close(fd);
    uvhttp_tcp_server_stop(fixture->server);
    app_join(app);
}

static void listen_on_another(app_t *app) {
    fixture_t *fixture = app->fixture;
    expect(fixture, uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
    fixture_saw(fixture, SEEN_AGAIN, 1);
}

static atomic_int waits;

static void count_waits(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)size, (void)user;
    if (strstr(message, "others wait in the backlog")) atomic_fetch_add(&waits, 1);
}

/* Nobody waits for it with a poll that reports it again and again. */
static void test_a_listener_that_is_opened_at_the_limit_waits_as_the_others_do(void **state) {
    fixture_t *fixture = *state;
    const uvhttp_log_level_t level = uvhttp_log_get_level();
    atomic_store(&waits, 0);
    assert_int_equal(uvhttp_log_set_callback(count_waits, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_rate_limit(0), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG), UVHTTP_OK);
    fixture->config.max_connections = 1;
    app_t *app = app_new(fixture);
    int first = app_dial(app, attach_and_listen), second = dial(fixture);
    for (int i = 0; i < 1000 && atomic_load(&waits) == 0; i++) ping(first);
    app->work = listen_on_another;
    uv_async_send(&app->wake);
    wait_seen(fixture, SEEN_AGAIN, 1);
    int third = dial(fixture);
    client_send(third, "ping", 4);
    assert_false(wait_fd(third, POLLIN, 200));
    ping(first);
    assert_in_range(atomic_load(&waits), 1, 2);
    assert_int_equal(uvhttp_log_set_level(level), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_callback(NULL, NULL), UVHTTP_OK);
    close(first);
    close(second);
    client_expect(third, "ping", 4);
    close(third);
    uvhttp_tcp_server_stop(fixture->server);
    app_join(app);
}

/* The application's own handles may use a connection: what they send outside an iteration goes out, too. */
static void tick(uv_timer_t *timer) {
    app_t *app = timer->data;
    if (uvhttp_tcp_send(app->ticking, "tick", 4, NULL) != UVHTTP_OK) fixture_saw(app->fixture, SEEN_WRONG, 1);
    if (++app->fixture->number < 20) return;
    uvhttp_tcp_close(app->ticking);
    uv_close((uv_handle_t *)timer, NULL);
}

static void start_ticking(app_t *app) {
    app->ticking = app->fixture->tcp;
    uv_timer_start(&app->timer, tick, 1, 5);
}

static void test_the_applications_timer_sends(void **state) {
    fixture_t *fixture = *state;
    app_t *app = app_new(fixture);
    int fd = app_dial(app, attach_and_listen);
    app->work = start_ticking;
    uv_async_send(&app->wake);
    for (int i = 0; i < 20; i++) client_expect(fd, "tick", 4);
    client_expect_eof(fd);
    close(fd);
    uvhttp_tcp_server_stop(fixture->server);
    app_join(app);
}

#define DELAY_MS 300

static uint64_t set_ms;
static uvhttp_timer_t own_timer;

static void check_delay(fixture_t *fixture) {
    if (clock_ms() - set_ms + 1 < DELAY_MS) fixture_saw(fixture, SEEN_WRONG, 1);
    fixture_saw(fixture, SEEN_AGAIN, 1);
}

static void on_tcp_timer(uvhttp_tcp_t *tcp, void *user) {
    (void)tcp;
    check_delay(user);
}

static void on_own_timer(uvhttp_timer_t *timer, void *user) {
    (void)timer;
    check_delay(user);
}

static void set_timers(app_t *app) {
    set_ms = clock_ms();
    expect(app->fixture, uvhttp_tcp_set_timer(app->fixture->tcp, DELAY_MS), UVHTTP_OK);
    expect(app->fixture, uvhttp_timer_start(&own_timer, DELAY_MS, on_own_timer, app->fixture), UVHTTP_OK);
}

/* The loop has waited for long when the application's callback comes, before any of the server's. */
static void test_a_timer_that_the_application_sets_is_not_early(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_timer = on_tcp_timer;
    app_t *app = app_new(fixture);
    int fd = app_dial(app, attach_and_listen);
    nanosleep(&(struct timespec){.tv_nsec = 500 * 1000000}, NULL);
    app->work = set_timers;
    uv_async_send(&app->wake);
    wait_seen(fixture, SEEN_AGAIN, 2);
    close(fd);
    uvhttp_tcp_server_stop(fixture->server);
    app_join(app);
}

static void *send_until_aborted(void *arg) {
    fixture_t *fixture = arg;
    int status;
    while ((status = uvhttp_tcp_ref_send(fixture->ref, "x", 1)) == UVHTTP_OK) fixture_saw(fixture, SEEN_AGAIN, 1);
    if (status != UVHTTP_E_ABORTED) fixture_saw(fixture, SEEN_WRONG, 1);
    return NULL;
}

/* Messages of other threads that are under way when the server goes must not leak. */
static void test_other_threads_send_while_it_stops(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = open_with_ref;
    app_t *app = app_new(fixture);
    app_start(app, attach_and_listen);
    int fd = dial(fixture);
    wait_seen(fixture, SEEN_OPEN, 1);
    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_until_aborted, fixture), 0);
    wait_seen(fixture, SEEN_AGAIN, 1000);
    uvhttp_tcp_server_stop(fixture->server);
    for (char buffer[4096]; recv(fd, buffer, sizeof buffer, 0) > 0;) {
    }
    close(fd);
    app_join(app);
    pthread_join(sender, NULL);
}

int main(void) {
    return RUN_ON_ENGINES(
        test_an_attached_server_serves_stops_and_is_freed,
        test_an_attached_server_leaves_the_limit_of_descriptors_alone, test_stop_before_attach_is_not_lost,
        test_a_server_without_addresses_stops, test_an_attached_server_is_not_run,
        test_attach_is_for_a_fresh_server_only, test_addresses_have_a_bound,
        test_a_listener_that_is_opened_at_the_limit_waits_as_the_others_do, test_the_applications_timer_sends,
        test_a_timer_that_the_application_sets_is_not_early, test_other_threads_send_while_it_stops);
}
