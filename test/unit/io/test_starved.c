/* Owns: tests of connections that have sent more at once than there are receive buffers, on every engine: all are
 * served, none of them is tried again and again, and any may close meanwhile. */
#include "support/io_server.h"

/* More than there are entries for submissions, and not so many that completions overflow. */
enum { CLIENTS = 560, BUFFERS = 4 };

static atomic_bool is_held, may_continue;

static void hold_loop(server_t *server, void *arg) {
    (void)server, (void)arg;
    atomic_store(&is_held, true);
    while (!atomic_load(&may_continue)) sched_yield();
}

static void *call_hold(void *server) {
    server_call(server, hold_loop, NULL);
    return NULL;
}

/* They connect, and then the loop finds together what they send. */
static int *all_send_at_once(server_t *server, const uvhttp__stream_ops_t *ops) {
    int *fds = descriptors_for(server, CLIENTS);
    pthread_t holder;
    server->options.receive_buffer_count = BUFFERS;
    server_start(server, ops);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect(server->port);
    server_wait(server, EV_OPENED, CLIENTS);
    server_settle(server);
    atomic_store(&is_held, false);
    atomic_store(&may_continue, false);
    assert_int_equal(pthread_create(&holder, NULL, call_hold, server), 0);
    while (!atomic_load(&is_held)) sched_yield();
    for (int i = 0; i < CLIENTS; i++) client_send(fds[i], &i, sizeof i);
    atomic_store(&may_continue, true);
    assert_int_equal(pthread_join(holder, NULL), 0);
    return fds;
}

static void close_all(server_t *server, int *fds) {
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
    free(fds);
}

/* On io_uring most of them find no buffer and ask for one again. The loop did not get out of that. */
static void test_all_are_served_and_fail_to_receive_once_each(void **state) {
    server_t *server = *state;
    uvhttp__counter_sums_t sums = {0};
    int *fds = all_send_at_once(server, &echo_ops);
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], &i, sizeof i);
    uvhttp__counters_read(server->counters, &sums);
    assert_true(UVHTTP__COUNTER(&sums, engine_enobufs) <= 2 * CLIENTS); /* and not as often as there are others */
    close_all(server, fds);
}

/* The connections that were served last are followed by others that wait: all of those close. */
static size_t close_others(uvhttp__stream_t *stream, const char *data, size_t size) {
    enum { SERVED = CLIENTS / 4 };
    peer_t *own = peer_of(stream);
    server_t *server = own->server;
    uvhttp__list_t *node, *next;
    own->step = 1;
    if (++*(int *)server->user == SERVED) {
        UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
            peer_t *other = UVHTTP__CONTAINER_OF(node, peer_t, link);
            if (other->step == 0) peer_close(other);
        }
    }
    return peer_echo(stream, data, size);
}

static void test_those_that_wait_for_a_buffer_can_be_closed(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_others);
    int served = 0, echoed = 0;
    server->user = &served;
    int *fds = all_send_at_once(server, &ops);
    for (int i = 0; i < CLIENTS; i++) {
        int echo;
        ssize_t got = recv(fds[i], &echo, sizeof echo, 0);
        if (got > 0) assert_int_equal(echo, i);
        echoed += got > 0;
    }
    assert_int_equal(echoed, CLIENTS / 4);
    int fd = client_connect(server->port);
    client_send(fd, "ping", 4);
    client_expect(fd, "ping", 4);
    close(fd);
    close_all(server, fds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_all_are_served_and_fail_to_receive_once_each),
        ON_EACH(test_those_that_wait_for_a_buffer_can_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
