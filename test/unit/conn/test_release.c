/* Owns: tests of functions that the application gives with bytes (uvhttp_tcp_send_ref) and that use their connection
 * when they are called: they send, close or reset. */
#include "support/tcp_server.h"

static fixture_t *serving;

static void give(uvhttp_tcp_t *tcp, const char *text, void (*release)(void *arg)) {
    assert_int_equal(uvhttp_tcp_send_ref(tcp, text, strlen(text), release, serving), UVHTTP_OK);
}

/* Several pieces, which leave in one call. */
static void give_three(uvhttp_tcp_t *tcp, void (*release)(void *arg)) {
    serving->tcp = tcp;
    give(tcp, "one ", release);
    give(tcp, "two ", count_release);
    give(tcp, "three ", count_release);
}

static void send_more(void *arg) {
    fixture_t *fixture = arg;
    fixture_saw(fixture, SEEN_RELEASE, 1);
    assert_int_equal(uvhttp_tcp_send(fixture->tcp, "four.", 5, NULL), UVHTTP_OK);
}

static void close_it(void *arg) {
    fixture_t *fixture = arg;
    fixture_saw(fixture, SEEN_RELEASE, 1);
    uvhttp_tcp_close(fixture->tcp);
}

static void reset_it(void *arg) {
    fixture_t *fixture = arg;
    fixture_saw(fixture, SEEN_RELEASE, 1);
    uvhttp_tcp_reset(fixture->tcp);
}

static void on_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    give_three(tcp, fixture->number == 0 ? send_more : fixture->number == 1 ? close_it : reset_it);
}

static int start(fixture_t *fixture, uint64_t what) {
    serving = fixture;
    fixture->number = what;
    fixture->handlers.on_data = on_data;
    return fixture_dial(fixture, "go");
}

static void expect(int fd, const char *text) {
    char got[64] = "";
    assert_int_equal(recv(fd, got, strlen(text), MSG_WAITALL), strlen(text));
    assert_string_equal(got, text);
}

static void test_it_may_send(void **state) {
    fixture_t *fixture = *state;
    int fd = start(fixture, 0);
    expect(fd, "one two three four.");
    wait_seen(fixture, SEEN_RELEASE, 3);
    fixture_leave(fixture, fd);
}

static void test_it_may_close(void **state) {
    fixture_t *fixture = *state;
    int fd = start(fixture, 1);
    expect(fd, "one two three ");
    client_expect_eof(fd);
    close(fd);
    wait_seen(fixture, SEEN_RELEASE, 3);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

static void test_it_may_reset(void **state) {
    fixture_t *fixture = *state;
    int fd = start(fixture, 2);
    wait_seen(fixture, SEEN_RELEASE, 3);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close(fd);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

static void remember_first(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    if (!fixture->subject) fixture->subject = tcp;
    count_open(tcp, user);
}

/* The end of the second connection is that of the first one. */
static void reset_first(uvhttp_tcp_t *tcp, int status, void *user) {
    fixture_t *fixture = user;
    if (tcp == fixture->subject) {
        fixture_saw(fixture, SEEN_STEP, 1);
        if (fixture_seen(fixture, SEEN_RELEASE) != 1) fixture_saw(fixture, SEEN_WRONG, 1);
    } else if (uvhttp_tcp_send_ref(fixture->subject, "x", 1, count_release, fixture) != UVHTTP_OK) {
        fixture_saw(fixture, SEEN_WRONG, 1);
    } else {
        uvhttp_tcp_reset(fixture->subject);
    }
    count_close(tcp, status, user);
}

static void test_it_is_called_before_on_close(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = remember_first;
    fixture->handlers.on_close = reset_first;
    fixture_start(fixture);
    int first = dial(fixture);
    wait_seen(fixture, SEEN_OPEN, 1);
    int second = dial(fixture);
    wait_seen(fixture, SEEN_OPEN, 2);
    close(second);
    wait_seen(fixture, SEEN_STEP, 1);
    assert_int_equal(fixture_seen(fixture, SEEN_WRONG), 0);
    close(first);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

int main(void) {
    return RUN_ON_ENGINES(test_it_may_send, test_it_may_close, test_it_may_reset, test_it_is_called_before_on_close);
}
