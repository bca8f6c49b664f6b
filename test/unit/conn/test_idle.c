/* Owns: tests of the idle timeout of a connection with nothing queued. A program of its own: it waits for seconds. */
#include "support/tcp_server.h"

static void test_an_idle_connection_is_closed(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture_start(fixture);
    uint64_t begin_ms =
        clock_ms(); /* of an iteration before: the loop's clock stands still in an iteration, however long it takes */
    int fd = dial(fixture);
    ping(fd);
    client_expect_eof(fd);
    assert_in_range(clock_ms() - begin_ms, 1000, TIMEOUT_MS);
    close(fd);
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, 1);
}

static void test_without_idle_timeout_nothing_is_closed(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial(fixture, "");
    ping(fd);
    assert_false(wait_fd(fd, POLLIN, 1500));
    ping(fd);
    close(fd);
}

/* A client gives a sign of life (returns false if the connection has ended) again and again for more than two idle
 * times, which keeps its connection, and then no more, which ends it. */
static void expect_life(fixture_t *fixture, bool (*sign)(fixture_t *fixture, int fd)) {
    fixture->config.idle_timeout = 1;
    fixture_start(fixture);
    for (uint64_t tries = 1;; tries++) {
        int fd = dial(fixture);
        wait_seen(fixture, SEEN_OPEN, tries);
        uint64_t begin_ms = clock_ms(), last_ms = begin_ms, longest_ms = 0;
        bool lives = true;
        for (uint64_t now_ms = begin_ms; lives && now_ms < begin_ms + 2200; last_ms = now_ms) {
            lives = sign(fixture, fd);
            now_ms = clock_ms();
            if (now_ms - last_ms > longest_ms) longest_ms = now_ms - last_ms;
        }
        if (lives) client_expect_eof(fd);
        close(fd);
        wait_seen(fixture, SEEN_CLOSE_TIMEOUT, tries);
        if (lives) return;
        /* Where the machine itself has kept a sign back for an idle time, another connection has to show it. */
        if (longest_ms < 900) fail_msg("closed, although signs came each %llu ms", (unsigned long long)longest_ms);
        if (tries == 20) fail_msg("the machine stands still all the time");
    }
}

static bool send_a_byte(fixture_t *fixture, int fd) {
    (void)fixture;
    return send(fd, "x", 1, MSG_NOSIGNAL) == 1 && !wait_fd(fd, POLLIN, 100);
}

static void test_received_bytes_keep_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = swallow_data;
    expect_life(fixture, send_a_byte);
}

static bool have_a_tick_sent(fixture_t *fixture, int fd) {
    char got[4];
    if (uvhttp_tcp_ref_send(fixture->ref, "tick", 4) != UVHTTP_OK) return false;
    if (recv(fd, got, sizeof got, MSG_WAITALL) != sizeof got) return false;
    assert_memory_equal(got, "tick", 4);
    poll(NULL, 0, 100);
    return true;
}

static void test_sent_bytes_keep_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = open_with_ref;
    expect_life(fixture, have_a_tick_sent);
}

int main(void) {
    return RUN_ON_ENGINES(test_an_idle_connection_is_closed, test_without_idle_timeout_nothing_is_closed,
                          test_received_bytes_keep_a_connection_alive, test_sent_bytes_keep_a_connection_alive);
}
