/* Owns: tests of the idle timeout of a connection with nothing queued. A program of its own: it waits for seconds. */
#include "conn/conn_harness.h"

static void test_an_idle_connection_is_closed(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    start(fixture);
    int fd = dial(fixture);
    uint64_t begin_ms = clock_ms();
    ping(fd);
    client_expect_eof(fd);
    assert_in_range(clock_ms() - begin_ms, 900, 10000);
    close(fd);
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, 1);
}

static void test_without_idle_timeout_nothing_is_closed(void **state) {
    fixture_t *fixture = *state;
    start(fixture);
    int fd = dial(fixture);
    ping(fd);
    assert_false(wait_fd(fd, POLLIN, 1500));
    ping(fd);
    close(fd);
}

static void test_received_bytes_keep_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture->handlers.on_data = swallow_data;
    start(fixture);
    int fd = dial(fixture);
    for (uint64_t end_ms = clock_ms() + 2200; clock_ms() < end_ms;) {
        client_send(fd, "x", 1);
        assert_false(wait_fd(fd, POLLIN, 100));
    }
    client_expect_eof(fd);
    close(fd);
}

static void open_with_ref(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    uvhttp_tcp_ref_t *ref = uvhttp_tcp_ref(tcp);
    pthread_mutex_lock(&fixture->lock);
    fixture->ref = ref;
    pthread_mutex_unlock(&fixture->lock);
    count_open(tcp, user);
}

static void test_sent_bytes_keep_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture->handlers.on_open = open_with_ref;
    start(fixture);
    int fd = dial(fixture);
    wait_seen(fixture, SEEN_OPEN, 1);
    for (uint64_t end_ms = clock_ms() + 2200; clock_ms() < end_ms;) {
        assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "tick", 4), UVHTTP_OK);
        client_expect(fd, "tick", 4);
        poll(NULL, 0, 100);
    }
    client_expect_eof(fd);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ENGINES(test_an_idle_connection_is_closed),
        ON_ENGINES(test_without_idle_timeout_nothing_is_closed),
        ON_ENGINES(test_received_bytes_keep_a_connection_alive),
        ON_ENGINES(test_sent_bytes_keep_a_connection_alive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
