/* Owns: tests of the idle timeout of a connection whose queue moves, or does not. A program of its own: it waits for
 * seconds. */
#include "support/tcp_server.h"

/* Reads the response in rounds, with a pause after each. Returns whether it was complete: the connection may end before
 * if the machine itself has paused for an idle time, but not otherwise. In the end nothing moves any more. */
static bool take_slowly(fixture_t *fixture, uint64_t connections) {
    enum { ROUND = 4 << 20 };
    char *got = malloc(ROUND);
    int fd = dial_narrow(fixture);
    client_send(fd, "x", 1);
    size_t at = 0;
    uint64_t longest_ms = 0;
    for (bool lives = true; lives && at < fixture->size;) {
        uint64_t begin_ms = clock_ms();
        lives = recv(fd, got, ROUND, MSG_WAITALL) == ROUND;
        if (lives) {
            assert_memory_equal(got, fixture->data + at, ROUND);
            at += ROUND;
            poll(NULL, 0, 250);
        }
        uint64_t took_ms = clock_ms() - begin_ms;
        if (took_ms > longest_ms) longest_ms = took_ms;
    }
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, connections);
    close(fd);
    free(got);
    if (at < fixture->size && longest_ms < 900)
        fail_msg("closed at %zu bytes, although no round took longer than %llu ms", at, (unsigned long long)longest_ms);
    return at >= fixture->size;
}

/* One big send, read slowly: nothing is queued for longer than idle_timeout, but bytes are sent all the time. */
static void test_a_long_queue_that_moves_keeps_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    char *data = fixture_have_sent(fixture, send_by_reference, 48 << 20);
    fixture_start(fixture);
    for (uint64_t tries = 1; !take_slowly(fixture, tries); tries++)
        if (tries == 20) fail_msg("the machine stands still all the time");
    free(data);
}

static void test_a_queue_that_does_not_move_does_not(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    char *data = fixture_have_sent(fixture, send_by_reference, 48 << 20);
    int fd = fixture_dial_narrow(fixture, "x");
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, 1);
    close(fd);
    free(data);
}

int main(void) {
    return RUN_ON_ENGINES(test_a_long_queue_that_moves_keeps_a_connection_alive,
                          test_a_queue_that_does_not_move_does_not);
}
