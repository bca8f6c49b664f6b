/* Owns: tests of the maximum of connections: those beyond it wait, are not refused, and are served when a place is
 * free. */
#include "support/tcp_server.h"

/* Clients come all at once and each wants one echo; one that is served leaves, until all were. Whoever waits must be
 * woken, also by a connection of another loop. */
static void everybody_is_served_in_the_end(fixture_t *fixture, int count) {
    struct pollfd *clients = calloc((size_t)count, sizeof *clients);
    for (int i = 0; i < count; i++) {
        clients[i] = (struct pollfd){.fd = dial(fixture), .events = POLLIN};
        client_send(clients[i].fd, "ping", 4);
    }
    int left = count;
    while (left > 0) {
        if (poll(clients, (nfds_t)count, TIMEOUT_MS) <= 0) fail_msg("%d clients are never served", left);
        for (int i = 0; i < count; i++) {
            if (clients[i].fd < 0 || !clients[i].revents) continue;
            client_expect(clients[i].fd, "ping", 4);
            close(clients[i].fd);
            clients[i].fd = -1;
            left--;
        }
    }
    free(clients);
}

static void test_connections_over_the_limit_wait_with_one_loop(void **state) {
    fixture_t *fixture = *state;
    fixture->config.max_connections = 3;
    fixture_start(fixture);
    everybody_is_served_in_the_end(fixture, 40);
    wait_seen(fixture, SEEN_CLOSE_OK, 40);
    assert_true(fixture->open_most <= 3);
}

static void test_connections_over_the_limit_wait_across_loops(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    for (uint32_t max = 1; max <= 3; max++) {
        fixture->config.max_connections = max;
        fixture->open_most = 0;
        fixture_start(fixture);
        for (int round = 0; round < 5; round++) everybody_is_served_in_the_end(fixture, 30);
        wait_seen(fixture, SEEN_CLOSE_OK, 150 * max);
        assert_true(fixture->open_most <= max);
        assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
        fixture_free(fixture);
    }
}

static void test_at_the_limit_nobody_else_is_served(void **state) {
    fixture_t *fixture = *state;
    fixture->config.max_connections = 2;
    fixture_start(fixture);
    int first = dial(fixture), second = dial(fixture);
    ping(first);
    ping(second);
    int third = dial(fixture);
    client_send(third, "ping", 4);
    assert_false(wait_fd(third, POLLIN, 200));
    ping(first); /* those it has are served as before */
    close(second);
    client_expect(third, "ping", 4);
    close(first);
    close(third);
}

static void test_those_who_wait_are_closed_when_the_server_stops(void **state) {
    fixture_t *fixture = *state;
    fixture->config.max_connections = 1;
    fixture_start(fixture);
    int first = dial(fixture);
    ping(first);
    int fds[5];
    for (int i = 0; i < 5; i++) fds[i] = dial(fixture);
    ping(first);
    uvhttp_tcp_server_stop(fixture->server);
    client_expect_eof(first);
    close(first);
    for (int i = 0; i < 5; i++) {
        char byte;
        ssize_t got = recv(fds[i], &byte, 1, 0);
        assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
        close(fds[i]);
    }
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
}

int main(void) {
    return RUN_ON_ENGINES(test_connections_over_the_limit_wait_with_one_loop,
                          test_connections_over_the_limit_wait_across_loops, test_at_the_limit_nobody_else_is_served,
                          test_those_who_wait_are_closed_when_the_server_stops);
}
