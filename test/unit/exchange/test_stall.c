/* Owns: tests of the stall detector: a handler that blocks its loop is counted and named. A busy machine may delay any
 * handler for as long, which is counted as well: the name is exact, the count is "at least". */
#include "io/io.h"
#include "support/http_server.h"

#include <uv.h>

static struct {
    pthread_mutex_t lock;
    unsigned lines;
    char all[4096]; /* one behind the other */
} said;

static void keep_line(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level != UVHTTP_LOG_LEVEL_WARN || !(strstr(message, "blocked") || strstr(message, "no response"))) return;
    pthread_mutex_lock(&said.lock);
    said.lines++;
    size_t used = strlen(said.all);
    snprintf(said.all + used, sizeof said.all - used, "%s\n", message);
    pthread_mutex_unlock(&said.lock);
}

static unsigned lines_said(void) {
    pthread_mutex_lock(&said.lock);
    unsigned lines = said.lines;
    pthread_mutex_unlock(&said.lock);
    return lines;
}

static bool was_said(const char *text) {
    pthread_mutex_lock(&said.lock);
    bool found = strstr(said.all, text);
    pthread_mutex_unlock(&said.lock);
    return found;
}

static void fast(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "fast");
}

static void slow(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    nanosleep(&(struct timespec){.tv_nsec = 90000000}, NULL);
    uvhttp_response_text(res, 200, "slow");
}

static void slow_later(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    uvhttp_deferred_t *deferred = uvhttp_response_defer(res);
    slow(req, res, user);
    uvhttp_deferred_text(deferred, 200, "later");
    uvhttp_deferred_release(deferred);
}

static void no_response(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void start(serving_t *serving, uint32_t warn_ms) {
    memset(&said, 0, sizeof said);
    pthread_mutex_init(&said.lock, NULL);
    serving->config.handler_warn_ms = warn_ms;
    serving_make(serving);
    uvhttp_get(serving->server, "/fast", fast, NULL);
    uvhttp_get(serving->server, "/slow/:id", slow, NULL);
    uvhttp_get(serving->server, "/later", slow_later, NULL);
    uvhttp_get(serving->server, "/none/:id", no_response, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/worker", slow, NULL, UVHTTP_EXEC_WORKER);
    serving_start(serving);
    uvhttp_log_set_callback(keep_line, NULL);
}

static void ask(const serving_t *serving, const char *text, int responses) {
    int fd = client_ask(serving, text);
    while (responses-- > 0) assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

/* Once, but for a machine so busy that the line of this second was about another. */
static void ask_until_said(const serving_t *serving, const char *request, int responses, const char *text) {
    for (int tries = 0; !was_said(text); tries++) {
        if (tries > 200) fail_msg("not said: %s", text);
        ask(serving, request, responses);
    }
}

static uint64_t blocked(const serving_t *serving) {
    return uvhttp_server_counter(serving->server, "handler_blocked");
}

static void test_a_handler_that_blocks_is_counted_and_named(void **state) {
    serving_t *serving = *state;
    start(serving, 60);
    ask(serving, GET("/fast"), 1);
    ask(serving, GET("/worker"), 1); /* it may */
    ask_until_said(serving, GET("/slow/7"), 1, "GET /slow/:id blocked loop 0");
    assert_false(was_said("/worker"));
    assert_true(blocked(serving) >= 1);
}

static void test_many_in_a_row_are_counted_and_hardly_said(void **state) {
    serving_t *serving = *state;
    uint64_t start_ns = uvhttp__clock_ns();
    start(serving, 60);
    for (unsigned i = 1; i <= 5; i++) {
        ask(serving, i % 2 ? GET("/slow/8") : GET("/later"), 1);
        WAIT_UNTIL(blocked(serving) >= i);
    }
    uint64_t seconds = (uvhttp__clock_ns() - start_ns) / 1000000000;
    assert_in_range(lines_said(), 0, 1 + seconds);
}

/* "GET /slow/:id blocked" is logged once, in whichever second. */
static void test_a_route_is_named_once(void **state) {
    serving_t *serving = *state;
    start(serving, 60);
    ask_until_said(serving, GET("/slow/7"), 1, "GET /slow/:id blocked loop 0");
    uint64_t start_ns = uvhttp__clock_ns(), before = blocked(serving);
    while (uvhttp__clock_ns() - start_ns < 1200000000) ask(serving, GET("/slow/7"), 1); /* more than a second */
    assert_true(blocked(serving) > before);
    pthread_mutex_lock(&said.lock);
    const char *first = strstr(said.all, "GET /slow/:id blocked loop 0");
    assert_null(strstr(first + 1, "GET /slow/:id blocked loop 0"));
    pthread_mutex_unlock(&said.lock);
}

static void test_one_of_several_in_an_iteration_is_found_the_next_time(void **state) {
    serving_t *serving = *state;
    start(serving, 60);
    const char *both = GET("/slow/1") GET("/fast");
    ask(serving, both, 2);
    WAIT_UNTIL(was_said("one of 2 requests, the last of them GET /fast"));
    ask_until_said(serving, both, 2, "GET /slow/:id blocked loop 0"); /* when a second has passed */
}

static void test_it_can_be_switched_off(void **state) {
    serving_t *serving = *state;
    start(serving, UVHTTP_NEVER);
    ask(serving, GET("/slow/1"), 1);
    ask(serving, GET("/fast"), 1);
    assert_int_equal(blocked(serving), 0);
}

static void test_a_handler_without_a_response_is_named_once_a_second(void **state) {
    serving_t *serving = *state;
    uint64_t start_ns = uvhttp__clock_ns();
    start(serving, UVHTTP_NEVER);
    int fd = client_ask(serving, GET("/none/1"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(client_read(fd)->status, 500);
        client_send_text(fd, GET("/none/2"));
    }
    close(fd);
    assert_true(was_said("GET /none/:id sent no response"));
    assert_in_range(lines_said(), 1, 1 + (uvhttp__clock_ns() - start_ns) / 1000000000);
}

/* --- in the loop of an application --- */

typedef struct app {
    uv_loop_t loop;
    uv_timer_t timer;
    unsigned handled;
} app_t;

static void block(uv_timer_t *timer) {
    (void)timer;
    nanosleep(&(struct timespec){.tv_nsec = 90000000}, NULL);
}

/* The timer is due before the iteration ends, in which its response leaves. */
static void fast_then_block(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    app_t *app = user;
    app->handled++;
    uv_timer_start(&app->timer, block, 0, 0);
    fast(req, res, NULL);
}

static void on_stopped(uvhttp_server_t *server, void *user) {
    app_t *app = user;
    uvhttp_server_free(server);
    uv_close((uv_handle_t *)&app->timer, NULL);
}

static void test_a_handler_is_not_named_for_what_the_application_does(void **state) {
    serving_t *serving = *state;
    app_t app = {.handled = 0};
    memset(&said, 0, sizeof said);
    pthread_mutex_init(&said.lock, NULL);
    serving->config.handler_warn_ms = 60;
    uvhttp_server_t *server = uvhttp_server_new(&serving->config);
    assert_non_null(uvhttp_get(server, "/fast", fast_then_block, &app));
    assert_int_equal(uv_loop_init(&app.loop), 0);
    assert_int_equal(uv_timer_init(&app.loop, &app.timer), 0);
    assert_int_equal(uvhttp_server_attach(server, &app.loop), UVHTTP_OK);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    uvhttp_log_set_callback(keep_line, NULL);
    int fd = client_ask(serving, GET("/fast"));
    while (!was_said("blocked")) uv_run(&app.loop, UV_RUN_ONCE);
    assert_true(was_said("one of 1 requests, the last of them GET /fast, or by another callback of the application's"));
    client_send_text(fd, GET("/fast"));
    while (app.handled < 2) uv_run(&app.loop, UV_RUN_ONCE);
    close(fd);
    uvhttp_server_on_stopped(server, on_stopped, &app);
    assert_int_equal(uvhttp_server_stop(server), UVHTTP_OK);
    uv_run(&app.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&app.loop), 0);
    assert_false(was_said("GET /fast blocked"));
}

static int teardown(void **state) {
    uvhttp_log_set_callback(NULL, NULL);
    return serving_teardown(state);
}

#undef ON_ENGINE
#define ON_ENGINE(test, engine)                                                                                        \
    { #test " (" #engine ")", test, serving_setup, teardown, &engine }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_handler_that_blocks_is_counted_and_named),
        ON_EACH(test_many_in_a_row_are_counted_and_hardly_said),
        ON_ENGINE(test_a_route_is_named_once, on_epoll),
        ON_ENGINE(test_one_of_several_in_an_iteration_is_found_the_next_time, on_epoll),
        ON_EACH(test_it_can_be_switched_off),
        ON_EACH(test_a_handler_without_a_response_is_named_once_a_second),
        ON_EACH(test_a_handler_is_not_named_for_what_the_application_does),
    };
    return RUN_TABLE(tests);
}
