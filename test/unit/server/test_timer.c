/* Timers of applications: on each engine, in the order of their deadlines, and none that was stopped. */
#include "support/http_server.h"

static struct {
    uvhttp_timer_t timers[4];
    char order[8]; /* letters of those that have fired */
    int fired;
    uvhttp_deferred_t *deferred;
} it;

static void on_timer(uvhttp_timer_t *timer, void *user) {
    it.order[it.fired++] = (char)('a' + (timer - it.timers));
    if (*(char *)user == 's') { /* is stopped here, and may start again */
        uvhttp_timer_stop(timer);
        uvhttp_timer_start(timer, 5, on_timer, (char *)"e");
    }
    if (*(char *)user != 'e') return;
    uvhttp_deferred_text(it.deferred, 200, it.order);
    uvhttp_deferred_release(it.deferred);
}

static void four_timers(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    it.deferred = uvhttp_response_defer(res);
    uvhttp_timer_start(&it.timers[0], 30, on_timer, (char *)"s");
    uvhttp_timer_start(&it.timers[1], 10, on_timer, (char *)"-");
    uvhttp_timer_start(&it.timers[2], 20, on_timer, (char *)"-");
    uvhttp_timer_start(&it.timers[3], 15, on_timer, (char *)"-");
    uvhttp_timer_stop(&it.timers[3]);
    uvhttp_timer_stop(&it.timers[3]);
    uvhttp_timer_start(&it.timers[1], 25, on_timer, (char *)"-"); /* put off */
    uvhttp_timer_start(&it.timers[2], 0, on_timer, (char *)"-");  /* brought forward */
}

static void test_timers_fire_in_the_order_of_their_deadlines(void **state) {
    serving_t *serving = *state;
    memset(&it, 0, sizeof it);
    serving_make(serving);
    uvhttp_get(serving->server, "/", four_timers, NULL);
    serving_start(serving);
    int fd = client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "cbaa");
    serving_leave(serving, fd);
}

static void test_there_are_none_without_a_loop(void **state) {
    (void)state;
    uvhttp_timer_t timer = {.internal = {0}};
    assert_int_equal(uvhttp_timer_start(&timer, 1, on_timer, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_timer_start(&timer, 1, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_timer_start(NULL, 1, on_timer, NULL), UVHTTP_E_INVALID);
    uvhttp_timer_stop(&timer);
    uvhttp_timer_stop(NULL);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_are_none_without_a_loop),
        ON_EACH(test_timers_fire_in_the_order_of_their_deadlines),
    };
    return RUN_TABLE(tests);
}
