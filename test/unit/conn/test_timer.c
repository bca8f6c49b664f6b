/* Owns: tests of what a connection is told beside its bytes: its timer, the stop of its server, calls of other threads.
 */
#include "support/tcp_server.h"

static atomic_int status_of_timer, timers_fired;

static void open_with_timer(uvhttp_tcp_t *tcp, void *user) {
    atomic_store(&status_of_timer, uvhttp_tcp_set_timer(tcp, 20));
    count_open(tcp, user);
}

/* Twice, then stopped. */
static void on_timer(uvhttp_tcp_t *tcp, void *user) {
    int fired = atomic_fetch_add(&timers_fired, 1) + 1;
    uvhttp_tcp_set_timer(tcp, 20);
    if (fired == 2) uvhttp_tcp_set_timer(tcp, 0);
    uvhttp_tcp_send(tcp, "tick", 4, NULL);
    fixture_saw(user, SEEN_STEP, 1);
}

static void test_a_timer_fires_once_for_each_time_it_is_set(void **state) {
    fixture_t *fixture = *state;
    atomic_store(&timers_fired, 0);
    fixture->handlers.on_open = open_with_timer;
    fixture->handlers.on_timer = on_timer;
    int fd = fixture_dial(fixture, "");
    client_expect(fd, "ticktick", 8);
    assert_int_equal(atomic_load(&status_of_timer), UVHTTP_OK);
    poll(NULL, 0, 200); /* a third would have come */
    assert_int_equal(atomic_load(&timers_fired), 2);
    close(fd);
}

static void test_an_idle_timeout_has_the_timer_for_itself(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 100;
    fixture->handlers.on_open = open_with_timer;
    int fd = fixture_dial(fixture, "");
    wait_seen(fixture, SEEN_OPEN, 1);
    assert_int_equal(atomic_load(&status_of_timer), UVHTTP_E_STATE);
    close(fd);
}

static void say_goodbye(uvhttp_tcp_t *tcp, void *user) {
    uvhttp_tcp_send(tcp, "goodbye", 7, NULL);
    uvhttp_tcp_close(tcp);
    if (uvhttp_tcp_set_timer(tcp, 1) != UVHTTP_E_CLOSED) fixture_saw(user, SEEN_WRONG, 1);
}

static void test_a_stop_is_reported_before_the_end(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_stop = say_goodbye;
    int fd = fixture_dial(fixture, "");
    wait_seen(fixture, SEEN_OPEN, 1);
    uvhttp_tcp_server_stop(fixture->server);
    client_expect(fd, "goodbye", 7);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
}

static void run(uvhttp_tcp_t *tcp, void *arg) {
    if (tcp) uvhttp_tcp_send(tcp, "ran", 3, NULL);
    fixture_saw(arg, SEEN_STEP, 1);
}

static void test_a_call_of_another_thread_runs_while_the_connection_is_there(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial_with_ref(fixture);
    assert_int_equal(uvhttp_tcp_ref_run(fixture->ref, run, fixture), UVHTTP_OK);
    client_expect(fd, "ran", 3);
    fixture_leave(fixture, fd);
    uint64_t posted = 1;
    int status; /* the handle learns of it right after on_close */
    for (int tries = 0; (status = uvhttp_tcp_ref_run(fixture->ref, run, fixture)) == UVHTTP_OK; tries++) {
        posted++;
        assert_true(tries < 1000000);
    }
    assert_int_equal(status, UVHTTP_E_ABORTED);
    wait_seen(fixture, SEEN_STEP, posted); /* what was posted has run, with no connection */
}

int main(void) {
    return RUN_ON_ENGINES(test_a_timer_fires_once_for_each_time_it_is_set,
                          test_an_idle_timeout_has_the_timer_for_itself, test_a_stop_is_reported_before_the_end,
                          test_a_call_of_another_thread_runs_while_the_connection_is_there);
}
