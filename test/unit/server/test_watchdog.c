/* Owns: tests of the watchdog: a handler that keeps its loop from others is counted and named. */
#include "server/serving.h"

static struct {
    pthread_mutex_t lock;
    unsigned lines;
    char last[512];
} said;

static void keep_line(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level != UVHTTP_LOG_LEVEL_WARN || !strstr(message, "kept")) return;
    pthread_mutex_lock(&said.lock);
    said.lines++;
    snprintf(said.last, sizeof said.last, "%s", message);
    pthread_mutex_unlock(&said.lock);
}

static void expect_said(unsigned lines, const char *text) {
    pthread_mutex_lock(&said.lock);
    assert_int_equal(said.lines, lines);
    if (!strstr(said.last, text)) fail_msg("said: %s", said.last);
    pthread_mutex_unlock(&said.lock);
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

static void start(serving_t *serving, uint32_t warn_ms) {
    memset(&said, 0, sizeof said);
    pthread_mutex_init(&said.lock, NULL);
    serving->config.handler_warn_ms = warn_ms;
    serving_make(serving);
    uvhttp_get(serving->server, "/fast", fast, NULL);
    uvhttp_get(serving->server, "/slow/:id", slow, NULL);
    uvhttp_get(serving->server, "/later", slow_later, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/worker", slow, NULL, UVHTTP_EXEC_WORKER);
    serving_start(serving);
    uvhttp_log_set_callback(keep_line, NULL);
}

static void ask(const serving_t *serving, const char *text, int answers) {
    int fd = client_ask(serving, text);
    while (answers-- > 0) assert_int_equal(client_read(fd)->status, 200);
    close(fd);
}

static uint64_t blocked(const serving_t *serving) {
    return uvhttp_server_counter(serving->server, "handler_blocked");
}

static void test_a_handler_that_blocks_is_counted_and_named(void **state) {
    serving_t *serving = *state;
    start(serving, 60);
    ask(serving, GET("/fast"), 1);
    ask(serving, GET("/worker"), 1); /* it may */
    assert_int_equal(blocked(serving), 0);
    ask(serving, GET("/slow/7"), 1);
    WAIT_UNTIL(blocked(serving) == 1);
    expect_said(1, "GET /slow/:id kept loop 0");
    ask(serving, GET("/slow/8"), 1); /* counted, but not said again at once */
    WAIT_UNTIL(blocked(serving) == 2);
    expect_said(1, "GET /slow/:id kept loop 0");
    ask(serving, GET("/later"), 1);
    WAIT_UNTIL(blocked(serving) == 3);
}

static void test_one_of_several_in_a_turn_is_found_the_next_time(void **state) {
    serving_t *serving = *state;
    start(serving, 60);
    const char *both = GET("/slow/1") GET("/fast");
    ask(serving, both, 2);
    WAIT_UNTIL(blocked(serving) == 1);
    expect_said(1, "one of 2 requests, the last of them GET /fast");
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 1000000}, NULL); /* until it may speak again */
    ask(serving, both, 2);
    WAIT_UNTIL(blocked(serving) == 2);
    expect_said(2, "GET /slow/:id kept loop 0");
}

static void test_it_can_be_switched_off(void **state) {
    serving_t *serving = *state;
    start(serving, 0);
    ask(serving, GET("/slow/1"), 1);
    ask(serving, GET("/fast"), 1);
    assert_int_equal(blocked(serving), 0);
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
        ON_ENGINE(test_one_of_several_in_a_turn_is_found_the_next_time, on_libuv),
        ON_EACH(test_it_can_be_switched_off),
    };
    return RUN_ON_EACH(tests);
}
