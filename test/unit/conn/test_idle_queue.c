/* Owns: tests of the idle timeout of a connection whose queue moves, or does not. A program of its own: it waits for
 * seconds. */
#include "conn/conn_harness.h"

/* Takes the answer in rounds, with a pause after each. Returns whether it came whole: the connection may end before if
 * the machine itself has paused for an idle time, but not else. In the end nothing moves any more. */
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

/* One big send, taken slowly: nothing is queued for longer than idle_timeout, but bytes go out all the time. */
static void test_a_long_queue_that_moves_keeps_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture->handlers.on_data = send_by_reference;
    fixture->size = 48 << 20;
    char *data = pattern_new(fixture->size);
    fixture->data = data;
    start(fixture);
    for (uint64_t tries = 1; !take_slowly(fixture, tries); tries++)
        if (tries == 20) fail_msg("the machine stands still all the time");
    free(data);
}

static void test_a_queue_that_does_not_move_does_not(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture->handlers.on_data = send_by_reference;
    fixture->size = 48 << 20;
    char *data = pattern_new(fixture->size);
    fixture->data = data;
    start(fixture);
    int fd = dial_narrow(fixture);
    client_send(fd, "x", 1);
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, 1);
    close(fd);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_ENGINES(test_a_long_queue_that_moves_keeps_a_connection_alive),
        ON_ENGINES(test_a_queue_that_does_not_move_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
