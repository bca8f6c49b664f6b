/* Owns: tests of the idle timeout of a connection whose queue moves, or does not. A program of its own: it waits for
 * seconds. */
#include "conn/conn_harness.h"

/* One big send, taken slowly: nothing is queued for longer than idle_timeout, but bytes go out all the time. */
static void test_a_long_queue_that_moves_keeps_a_connection_alive(void **state) {
    fixture_t *fixture = *state;
    fixture->config.idle_timeout = 1;
    fixture->handlers.on_data = send_by_reference;
    fixture->size = 48 << 20;
    char *data = pattern_new(fixture->size);
    fixture->data = data;
    start(fixture);
    int fd = dial_narrow(fixture);
    client_send(fd, "x", 1);
    for (size_t at = 0; at < fixture->size; at += 4 << 20) {
        client_expect(fd, data + at, 4 << 20);
        poll(NULL, 0, 250);
    }
    wait_seen(fixture, SEEN_CLOSE_TIMEOUT, 1);
    close(fd);
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
