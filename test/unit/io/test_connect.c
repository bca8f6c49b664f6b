/* Owns: tests of uvhttp__stream_connect on every engine. Here the plain socket is the server and the loop is the
 * client. */
#include "support/io_server.h"

static _Atomic int connect_status;

static void on_connect(uvhttp__stream_t *stream, int status) {
    peer_t *peer = peer_of(stream);
    connect_status = status;
    if (peer->in_call || peer->closed_by_test) count_event(peer->server, EV_WRONG, 1);
    if (status == 0) {
        if (uvhttp__stream_read_start(stream) != 0) count_event(peer->server, EV_WRONG, 1);
        count_event(peer->server, EV_CONNECT_OK, 1);
    } else {
        if (uvhttp__stream_send_copy(stream, "x", 1) != UVHTTP_E_CLOSED) count_event(peer->server, EV_WRONG, 1);
        count_event(peer->server, EV_CONNECT_FAILED, 1);
        peer_close(peer);
    }
}

static const uvhttp__stream_ops_t ops = {.on_data = peer_echo,
                                         .on_end = peer_close_at_end,
                                         .on_sent = peer_count_sent,
                                         .on_closed = peer_on_closed,
                                         .on_connect = on_connect};

typedef struct target {
    const char *text;
    bool send_at_once, close_at_once;
    int status;
} target_t;

static void connect_to(server_t *server, void *arg) {
    target_t *target = arg;
    uvhttp__endpoint_t endpoint;
    peer_t *peer = peer_new(server);
    target->status = uvhttp__endpoint_parse(target->text, &endpoint);
    peer->in_call = true;
    if (target->status == 0) target->status = uvhttp__stream_connect(&peer->stream, server->loop, &endpoint, &ops);
    if (target->status != 0) { /* it may fail at once: then nothing was opened */
        uvhttp__list_remove(&peer->link);
        free(peer);
        count_event(server, EV_CONNECT_FAILED, 1);
        count_event(server, EV_CLOSED, 1);
        return;
    }
    if (target->send_at_once) {
        uvhttp__stream_send_copy(&peer->stream, "early ", 6);
        uvhttp__stream_send_copy(&peer->stream, "bird", 4);
    }
    peer->in_call = false;
    if (target->close_at_once) peer_close(peer);
}

static int accept_one(int fd) {
    assert_true(wait_fd(fd, POLLIN, TIMEOUT_MS));
    int accepted = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    set_limits(accepted);
    return accepted;
}

/* `text` is where. */
static int listen_as_text(char text[64]) {
    int port = 0;
    int listener = listen_loopback(&port);
    snprintf(text, 64, "127.0.0.1:%d", port);
    return listener;
}

static void test_connect_then_echo(void **state) {
    server_t *server = *state;
    char text[64];
    int listener = listen_as_text(text);
    target_t target = {.text = text};
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    assert_int_equal(target.status, 0);
    int fd = accept_one(listener);
    server_wait(server, EV_CONNECT_OK, 1);
    client_send(fd, "hello", 5);
    client_expect(fd, "hello", 5);
    server_leave(server, fd);
    close(listener);
}

static void test_output_queued_before_the_connection_is_there_is_sent_then(void **state) {
    server_t *server = *state;
    char text[64];
    int listener = listen_as_text(text);
    target_t target = {.text = text, .send_at_once = true};
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    int fd = accept_one(listener);
    client_expect(fd, "early bird", 10);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_CONNECT_OK), 1);
    close(listener);
}

static void test_connect_to_a_port_without_listener_fails(void **state) {
    server_t *server = *state;
    char text[64];
    close(listen_as_text(text));
    target_t target = {.text = text, .send_at_once = true};
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    server_wait(server, EV_CONNECT_FAILED, 1);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(connect_status, UVHTTP_E_ABORTED);
    assert_int_equal(server_count(server, EV_CONNECT_OK), 0);
    assert_int_equal(server_count(server, EV_END_ABORTED), 0); /* on_connect was the news */
}

static void test_connect_to_a_unix_socket(void **state) {
    server_t *server = *state;
    char text[64];
    uvhttp__endpoint_t endpoint;
    int listener = -1;
    snprintf(text, sizeof text, "unix:@uvhttp-connect-%d", (int)getpid());
    assert_int_equal(uvhttp__endpoint_parse(text, &endpoint), 0);
    assert_int_equal(uvhttp__listen_socket(&endpoint, 16, false, &listener), 0);
    target_t target = {.text = text, .send_at_once = true};
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    assert_int_equal(target.status, 0);
    int fd = accept_one(listener);
    client_expect(fd, "early bird", 10);
    server_leave(server, fd);
    close(listener);
}

static void test_connect_to_a_unix_socket_that_is_not_there_fails(void **state) {
    server_t *server = *state;
    target_t target = {.text = "unix:/no/such/socket"};
    connect_status = UVHTTP_OK;
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    server_wait(server, EV_CONNECT_FAILED, 1);
    server_wait(server, EV_CLOSED, 1);
    /* epoll engine knows at once, io_uring's later: the code is the same. */
    assert_int_equal(target.status != UVHTTP_OK ? target.status : connect_status, UVHTTP_E_ADDRESS);
}

static void test_close_while_connecting_calls_nothing_but_closed(void **state) {
    server_t *server = *state;
    char text[64];
    int listener = listen_as_text(text);
    target_t target = {.text = text, .send_at_once = true, .close_at_once = true};
    server_start(server, &ops);
    for (uint64_t i = 1; i <= 20; i++) {
        server_call(server, connect_to, &target);
        server_wait(server, EV_CLOSED, i);
    }
    assert_int_equal(server_count(server, EV_CONNECT_OK) + server_count(server, EV_CONNECT_FAILED), 0);
    close(listener);
}

static void test_inherited_descriptor_is_nothing_to_connect_to(void **state) {
    server_t *server = *state;
    target_t target = {.text = "fd:0"};
    server_start(server, &ops);
    server_call(server, connect_to, &target);
    assert_int_equal(target.status, UVHTTP_E_ADDRESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_connect_then_echo),
        ON_EACH(test_output_queued_before_the_connection_is_there_is_sent_then),
        ON_EACH(test_connect_to_a_port_without_listener_fails),
        ON_EACH(test_connect_to_a_unix_socket),
        ON_EACH(test_connect_to_a_unix_socket_that_is_not_there_fails),
        ON_EACH(test_close_while_connecting_calls_nothing_but_closed),
        ON_EACH(test_inherited_descriptor_is_nothing_to_connect_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
