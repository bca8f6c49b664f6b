/* Owns: tests of how a stream ends, on every engine: close and reset from everywhere, exactly once, nothing after it.
 */
#include "support/io_server.h"

enum { LARGE = 10 * 1024 * 1024 };

static void close_first_peer(server_t *server, void *arg) {
    (void)arg;
    peer_close(server_first_peer(server));
}

static void reset_first_peer(server_t *server, void *arg) {
    peer_t *peer = server_first_peer(server);
    (void)arg;
    peer->closed_by_test = true;
    peer->in_call = true;
    uvhttp__stream_reset(&peer->stream);
    peer->in_call = false;
}

static void test_close_sends_fin_although_a_receive_is_armed(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "x");
    client_expect(fd, "x", 1); /* the next receive is armed by now */
    server_call(server, close_first_peer, NULL);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_END_OK) + server_count(server, EV_END_ABORTED), 0);
    close(fd);
}

static void test_reset_reaches_the_peer_as_a_reset(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "x");
    client_expect(fd, "x", 1);
    server_call(server, reset_first_peer, NULL);
    client_expect_reset(fd);
    server_wait(server, EV_CLOSED, 1);
    close(fd);
}

/* --- close inside every callback --- */

static size_t close_in_data(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    count_event(peer_of(stream)->server, EV_BYTES, size);
    peer_close(peer_of(stream));
    peer_close(peer_of(stream)); /* twice is once */
    return size;
}

static void test_close_inside_on_data(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_in_data);
    int fd = server_dial(server, &ops, "x");
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_BYTES), 1);
    close(fd);
}

/* Of two sockets with bytes one may have the number of the descriptor that was closed. */
static size_t close_and_reuse_its_number(uvhttp__stream_t *stream, const char *data, size_t size) {
    int pair[2];
    close_in_data(stream, data, size);
    bool made = socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0;
    bool wrote = made && write(pair[0], "x", 1) == 1 && write(pair[1], "x", 1) == 1;
    if (wrote && !uvhttp__stream_unread(stream)) count_event(peer_of(stream)->server, EV_END_OK, 1);
    if (made) close(pair[0]), close(pair[1]);
    return size;
}

static void test_nothing_is_unread_behind_close(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_and_reuse_its_number);
    int fd = server_dial(server, &ops, "x");
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_END_OK), 1);
    close(fd);
}

static size_t close_in_data_leaving_bytes(uvhttp__stream_t *stream, const char *data, size_t size) {
    close_in_data(stream, data, size);
    return 0;
}

static void test_close_inside_on_data_drops_bytes_left(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_in_data_leaving_bytes);
    int fd = server_dial(server, &ops, "abc");
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_BYTES), 3); /* delivered once */
    close(fd);
}

static size_t respond_and_close(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    peer_echo(stream, data, size);
    peer_close(peer_of(stream));
    if (uvhttp__stream_send_copy(stream, "x", 1) != UVHTTP_E_CLOSED) count_event(server, EV_WRONG, 1);
    uvhttp__stream_shutdown(stream);
    uvhttp__stream_resume(stream);
    return size;
}

static void test_close_drops_what_was_queued_and_refuses_more(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(respond_and_close);
    int fd = server_dial(server, &ops, "x");
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    close(fd);
}

static void test_close_inside_on_end(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    shutdown(fd, SHUT_WR);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_END_OK), 1);
    close(fd);
}

static void close_in_sent(uvhttp__stream_t *stream) {
    peer_count_sent(stream);
    peer_close(peer_of(stream));
}

static size_t echo_and_notify(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_echo(stream, data, size);
    uvhttp__stream_notify_sent(stream);
    return size;
}

static void test_close_inside_on_sent_loses_nothing(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS_SENT(echo_and_notify, close_in_sent);
    int fd = server_dial(server, &ops, "last words");
    client_expect(fd, "last words", 10);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_SENT), 1);
    close(fd);
}

static void count_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

static size_t send_much_and_notify(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    (void)data;
    uvhttp__stream_send_ref(stream, server->user, LARGE, count_release, server);
    uvhttp__stream_notify_sent(stream);
    return size;
}

/* What a server does that responds and closes: the last byte of a long response is not lost. */
static void test_close_inside_on_sent_after_backpressure_loses_nothing(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS_SENT(send_much_and_notify, close_in_sent);
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, server->user, LARGE);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    close(fd);
    free(server->user);
}

static void send_much(server_t *server, void *arg) {
    (void)arg;
    uvhttp__stream_send_ref(&server_first_peer(server)->stream, server->user, LARGE, count_release, server);
}

static void send_more_and_close(server_t *server, void *arg) {
    (void)arg;
    peer_t *peer = server_first_peer(server);
    uvhttp__stream_send_copy(&peer->stream, "between", 7);
    uvhttp__stream_send_ref(&peer->stream, "behind", 6, count_release, server);
    uvhttp__stream_send_copy(&peer->stream, "last", 4);
    peer_close(peer);
}

static void overwrite_iteration_memory(server_t *server, void *arg) {
    (void)arg;
    size_t size = (size_t)(server->loop->iteration_end - server->loop->iteration_at);
    memset(uvhttp__loop_iteration_alloc(server->loop, size), 0xff, size);
}

/* What the kernel still has is released when it has done with it; what was queued in the iteration of the close stood
 * in memory that is used again by then. */
static void test_close_while_sending_forgets_what_its_iteration_queued(void **state) {
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, send_much, NULL);
    server_settle(server); /* the socket is full by now, and what is left is on its way */
    server_call(server, send_more_and_close, NULL);
    for (int i = 0; i < 4; i++) server_call(server, overwrite_iteration_memory, NULL);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 2);
    close(fd);
    free(server->user);
}

/* Sends on another stream that is closed at the same time, from the callback of the first. */
static size_t close_all(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    uvhttp__list_t *node, *next;
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_t *peer = UVHTTP__CONTAINER_OF(node, peer_t, link);
        uvhttp__stream_send_copy(&peer->stream, data, size);
        peer_close(peer);
    }
    return size;
}

static void test_one_callback_may_close_every_stream(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_all);
    enum { CLIENTS = 20 };
    int fds[CLIENTS];
    server_start(server, &ops);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect(server->port);
    server_wait(server, EV_OPENED, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) { /* may already be closed by the first that got through */
        if (send(fds[i], "x", 1, MSG_NOSIGNAL) < 0) assert_true(errno == EPIPE || errno == ECONNRESET);
    }
    server_wait(server, EV_CLOSED, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        char byte;
        ssize_t got = recv(fds[i], &byte, 1, 0); /* FIN, or a reset if its byte had not been read */
        assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
        close(fds[i]);
    }
}

/* --- close before anything --- */

static void accept_and_close(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, fd, false, server->ops);
    count_event(server, EV_OPENED, 1);
    peer_close(peer);
}

static void test_close_before_reading_began_is_reported_without_another_event(void **state) {
    server_t *server = *state;
    server->listener_ops.on_accept = accept_and_close;
    int fd = server_dial(server, &echo_ops, "");
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    close(fd);
}

static void test_close_in_a_message_is_reported_without_another_event(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, close_first_peer, NULL);
    server_wait(server, EV_CLOSED, 1);
    client_expect_eof(fd);
    close(fd);
}

static void shut_and_close(server_t *server, void *arg) {
    uvhttp__stream_shutdown(&server_first_peer(server)->stream);
    close_first_peer(server, arg);
}

static void test_close_after_shutdown(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, shut_and_close, NULL);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    close(fd);
}

/* --- storms --- */

static void test_storm_of_resets_leaves_nothing_behind(void **state) {
    server_t *server = *state;
    enum { ROUNDS = 500 };
    server_start(server, &echo_ops);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = client_connect(server->port);
        if (i % 2) client_send(fd, "x", 1);
        client_reset(fd);
    }
    int fd = client_connect(server->port); /* everybody before has been accepted when this one gets a response */
    client_send(fd, "alive", 5);
    client_expect(fd, "alive", 5);
    close(fd);
    uint64_t opened = server_count(server, EV_OPENED); /* a reset before accept may never show up */
    assert_true(opened >= 1);
    server_wait(server, EV_CLOSED, opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_close_sends_fin_although_a_receive_is_armed),
        ON_EACH(test_reset_reaches_the_peer_as_a_reset),
        ON_EACH(test_close_inside_on_data),
        ON_EACH(test_nothing_is_unread_behind_close),
        ON_EACH(test_close_inside_on_data_drops_bytes_left),
        ON_EACH(test_close_drops_what_was_queued_and_refuses_more),
        ON_EACH(test_close_inside_on_end),
        ON_EACH(test_close_inside_on_sent_loses_nothing),
        ON_EACH(test_close_inside_on_sent_after_backpressure_loses_nothing),
        ON_EACH(test_close_while_sending_forgets_what_its_iteration_queued),
        ON_EACH(test_one_callback_may_close_every_stream),
        ON_EACH(test_close_before_reading_began_is_reported_without_another_event),
        ON_EACH(test_close_in_a_message_is_reported_without_another_event),
        ON_EACH(test_close_after_shutdown),
        ON_EACH(test_storm_of_resets_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
