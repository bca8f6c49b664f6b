/* Owns: tests of one connection of the TCP server: data, backpressure, and every way to end it. */
#include <sys/ioctl.h>

#include "conn/conn.h"
#include "support/tcp_server.h"

/* --- data --- */

static void test_echo(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial(fixture, "");
    for (int i = 0; i < 100; i++) ping(fd);
    fixture_leave(fixture, fd);
}

typedef struct sender {
    int fd;
    const char *data;
    size_t size;
    pthread_t thread;
} sender_t;

static void *send_in_thread(void *arg) {
    sender_t *sender = arg;
    client_send(sender->fd, sender->data, sender->size);
    return NULL;
}

static void sender_start(sender_t *sender, int fd, const char *data, size_t size) {
    *sender = (sender_t){.fd = fd, .data = data, .size = size};
    assert_int_equal(pthread_create(&sender->thread, NULL, send_in_thread, sender), 0);
}

/* More than the queue may hold: the server must pause, and lose nothing by it. */
static void test_echo_of_many_bytes_with_backpressure(void **state) {
    fixture_t *fixture = *state;
    fixture->config.write_high_watermark = 64 << 10;
    fixture->config.write_queue_max = 1 << 20;
    fixture_start(fixture);
    size_t size = 24 << 20;
    char *data = pattern_new(size);
    int fd = dial_narrow(fixture);
    sender_t sender;
    sender_start(&sender, fd, data, size);
    wait_seen(fixture, SEEN_AGAIN, 1); /* a client that read at once might never hold it up */
    client_expect(fd, data, size);
    pthread_join(sender.thread, NULL);
    assert_true(fixture_seen(fixture, SEEN_DRAIN) > 0);
    close(fd);
    free(data);
}

static void greet(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    char peer[64];
    count_open(tcp, user);
    if (uvhttp_tcp_data(tcp) != NULL) fixture_saw(fixture, SEEN_WRONG, 1);
    uvhttp_tcp_set_data(tcp, fixture);
    if (uvhttp_tcp_data(tcp) != fixture) fixture_saw(fixture, SEEN_WRONG, 1);
    if (uvhttp_tcp_peer(tcp, peer, sizeof peer) != UVHTTP_OK) fixture_saw(fixture, SEEN_WRONG, 1);
    size_t queued = 0;
    if (uvhttp_tcp_send(tcp, peer, strlen(peer), &queued) != UVHTTP_OK) fixture_saw(fixture, SEEN_WRONG, 1);
    if (queued != strlen(peer)) fixture_saw(fixture, SEEN_WRONG, 1);
    if (uvhttp_tcp_peer(tcp, peer, 0) != UVHTTP_E_INVALID) fixture_saw(fixture, SEEN_WRONG, 1);
    const char *reason = NULL, *engine = uvhttp_tcp_server_engine(fixture->server, &reason);
    const char *expected = fixture->engine == UVHTTP__ENGINE_URING ? "io_uring" : "epoll";
    if (!engine || strcmp(engine, expected) != 0 || !reason || !*reason) fixture_saw(fixture, SEEN_WRONG, 1);
}

static void test_the_server_may_speak_first_and_knows_the_peer(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = greet;
    int fd = fixture_dial(fixture, "");
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &size), 0);
    char expected[64];
    snprintf(expected, sizeof expected, "127.0.0.1:%u", ntohs(own.sin_port));
    client_expect(fd, expected, strlen(expected));
    close(fd);
}

static void end_at_open(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    count_open(tcp, user);
    if (fixture->number == 0) {
        uvhttp_tcp_send(tcp, "bye", 3, NULL);
        uvhttp_tcp_close(tcp);
    } else {
        uvhttp_tcp_reset(tcp);
    }
}

static void test_a_connection_may_be_ended_in_on_open(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = end_at_open;
    int fd = fixture_dial(fixture, "");
    client_expect(fd, "bye", 3);
    client_expect_eof(fd);
    fixture_leave(fixture, fd);
}

static void test_a_connection_may_be_reset_in_on_open(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = end_at_open;
    fixture->number = 1;
    fixture_start(fixture);
    int fd = client_socket();
    client_connect_expect_reset(fd, fixture->port);
    fixture_leave(fixture, fd);
}

/* --- backpressure --- */

/* "p" from anybody pauses that connection, "r" resumes it; all other bytes are echoed. */
static void pause_on_order(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    if (size > fixture->config.read_buffer_size) fixture_saw(fixture, SEEN_WRONG, 1);
    if (size == 1 && *data == 'p') {
        fixture->subject = tcp;
        uvhttp_tcp_pause(tcp);
        uvhttp_tcp_pause(tcp);
        fixture_saw(fixture, SEEN_STEP, 1);
    } else if (size == 1 && *data == 'r') {
        uvhttp_tcp_resume(fixture->subject);
        fixture_saw(fixture, SEEN_STEP, 1);
    } else {
        echo_data(tcp, data, size, user);
    }
}

static size_t fill_socket(int fd, const char *data, size_t size, int quiet_ms) {
    size_t sent = 0;
    while (sent < size && wait_fd(fd, POLLOUT, quiet_ms)) {
        ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent += (size_t)n;
    }
    return sent;
}

static void test_a_paused_connection_reads_a_bounded_amount(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = pause_on_order;
    fixture_start(fixture);
    int fd = dial(fixture), other = dial(fixture);
    client_send(fd, "p", 1);
    wait_seen(fixture, SEEN_STEP, 1);
    size_t size = 64 << 20;
    char *data = pattern_new(size);
    size_t sent = fill_socket(fd, data, size, 300);
    assert_true(sent < size);
    uvhttp_tcp_metrics_t metrics;
    uvhttp_tcp_server_metrics(fixture->server, &metrics);
    assert_true(metrics.bytes_received < 2 << 20); /* the rest is in the kernel */
    assert_int_equal(fixture_seen(fixture, SEEN_BYTES), 0);
    ping(other); /* the others do not suffer */
    client_send(other, "r", 1);
    client_expect(fd, data, sent);
    close(fd);
    close(other);
    free(data);
}

static void test_fin_of_a_paused_connection_comes_after_its_data(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = pause_on_order;
    fixture_start(fixture);
    int fd = dial(fixture), other = dial(fixture);
    client_send(fd, "p", 1);
    wait_seen(fixture, SEEN_STEP, 1);
    client_send(fd, "last words", 10);
    shutdown(fd, SHUT_WR);
    ping(other);
    client_send(other, "r", 1);
    client_expect(fd, "last words", 10);
    client_expect_eof(fd);
    close(fd);
    close(other);
}

/* Sends until backpressure is reported, then until a send is refused. */
static void send_until_refused(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    const size_t piece = 10000;
    size_t queued = 0, sum = 0;
    int status;
    while ((status = uvhttp_tcp_send(tcp, fixture->data + sum, piece, &queued)) == UVHTTP_OK) {
        sum += piece;
        if (queued != sum || queued > fixture->config.write_high_watermark) fixture_saw(fixture, SEEN_WRONG, 1);
    }
    for (; status == UVHTTP_E_AGAIN; status = uvhttp_tcp_send(tcp, fixture->data + sum, piece, &queued)) {
        sum += piece;
        if (queued != sum || queued <= fixture->config.write_high_watermark) fixture_saw(fixture, SEEN_WRONG, 1);
        fixture_saw(fixture, SEEN_AGAIN, 1);
    }
    if (status != UVHTTP_E_LIMIT || sum + piece <= fixture->config.write_queue_max) fixture_saw(fixture, SEEN_WRONG, 1);
    if (sum > fixture->config.write_queue_max || queued != sum) fixture_saw(fixture, SEEN_WRONG, 1);
    /* What is refused is released all the same. */
    status = uvhttp_tcp_send_ref(tcp, fixture->data, piece, count_release, fixture);
    if (status != UVHTTP_E_LIMIT) fixture_saw(fixture, SEEN_WRONG, 1);
    fixture->number = sum;
    fixture_saw(fixture, SEEN_STEP, 1);
}

static void test_watermarks(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = send_until_refused;
    fixture->config.write_high_watermark = 200000;
    fixture->config.write_queue_max = 600000;
    char *data = pattern_new(700000);
    fixture->data = data;
    int fd = fixture_dial_narrow(fixture, "x");
    wait_seen(fixture, SEEN_STEP, 1);
    assert_int_equal(fixture_seen(fixture, SEEN_AGAIN), 40);
    assert_int_equal(fixture_seen(fixture, SEEN_RELEASE), 1);
    client_expect(fd, data, 600000);
    wait_seen(fixture, SEEN_DRAIN, 1);
    client_send(fd, "x", 1); /* after on_drain it goes as before */
    wait_seen(fixture, SEEN_STEP, 2);
    client_expect(fd, data, 600000);
    wait_seen(fixture, SEEN_DRAIN, 2);
    fixture_leave(fixture, fd);
    assert_int_equal(fixture_seen(fixture, SEEN_DRAIN), 2);
    free(data);
}

static void test_without_backpressure_on_drain_does_not_come(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial(fixture, "");
    for (int i = 0; i < 10; i++) ping(fd);
    fixture_leave(fixture, fd);
    assert_int_equal(fixture_seen(fixture, SEEN_DRAIN), 0);
}

/* --- ends --- */

static void send_and_close(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    fixture_saw(fixture, SEEN_STEP, 1);
    int status = uvhttp_tcp_send_ref(tcp, fixture->data, fixture->size, count_release, fixture);
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) fixture_saw(fixture, SEEN_WRONG, 1);
    uvhttp_tcp_close(tcp);
    uvhttp_tcp_close(tcp);
    if (uvhttp_tcp_send(tcp, "more", 4, NULL) != UVHTTP_E_CLOSED) fixture_saw(fixture, SEEN_WRONG, 1);
    if (uvhttp_tcp_send_ref(tcp, "more", 4, count_release, fixture) != UVHTTP_E_CLOSED)
        fixture_saw(fixture, SEEN_WRONG, 1);
}

static void test_close_sends_everything_before_fin(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_and_close, 12 << 20);
    int fd = fixture_dial_narrow(fixture, "x");
    wait_seen(fixture, SEEN_STEP, 1);
    client_send(fd, "bytes that nobody reads must not become a reset", 47);
    client_expect(fd, data, fixture->size);
    client_expect_eof(fd);
    wait_seen(fixture, SEEN_RELEASE, 2);
    fixture_leave(fixture, fd);
    assert_int_equal(fixture_seen(fixture, SEEN_STEP), 1);
    assert_int_equal(fixture_seen(fixture, SEEN_RELEASE), 2);
    assert_int_equal(fixture_seen(fixture, SEEN_DRAIN), 0);
    free(data);
}

/* A client to which the server has sent FIN. */
static int dial_ended(fixture_t *fixture) {
    fixture->handlers.on_data = send_and_close;
    fixture->data = "end";
    fixture->size = 3;
    int fd = fixture_dial(fixture, "x");
    client_expect(fd, "end", 3);
    client_expect_eof(fd);
    return fd;
}

/* A client that never closes its side is left alone after a while. */
static void test_close_waits_for_the_peer_for_a_bounded_time(void **state) {
    fixture_t *fixture = *state;
    int fd = dial_ended(fixture);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close(fd);
}

/* Who floods behind the end is not waited for. */
static void test_what_follows_the_end_is_read_at_a_bounded_rate(void **state) {
    fixture_t *fixture = *state;
    int fd = dial_ended(fixture);
    size_t size = 1 << 20;
    char *flood = pattern_new(size);
    uint64_t start = uvhttp__clock_ns() / 1000000;
    while (send(fd, flood, size, MSG_NOSIGNAL) > 0) {
        if (uvhttp__clock_ns() / 1000000 - start > TIMEOUT_MS)
            fail_msg("the server reads a connection that it has ended forever");
    }
    uint64_t ticks = (uvhttp__clock_ns() / 1000000 - start) / UVHTTP__CONN_DISCARD_MS + 2;
    uvhttp_tcp_metrics_t metrics;
    uvhttp_tcp_server_metrics(fixture->server, &metrics);
    assert_true(metrics.bytes_received <= (ticks + 1) * UVHTTP__CONN_DISCARD_MAX);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close(fd);
    free(flood);
}

/* A client that reads only when it has sent. The kernel holds what the client has yet to acknowledge, so that a reset
 * would destroy it. */
static void test_who_sends_first_gets_what_was_sent_before_the_end(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_and_close, 512 << 10);
    size_t size = 32 << 20;
    char *flood = pattern_new(size);
    int fd = fixture_dial_narrow(fixture, "x");
    client_send(fd, flood, size);
    client_expect(fd, data, fixture->size);
    client_expect_eof(fd);
    fixture_leave(fixture, fd);
    free(flood);
    free(data);
}

static void reset_with_queue(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    (void)uvhttp_tcp_send_ref(tcp, fixture->data, fixture->size, count_release, fixture);
    uvhttp_tcp_reset(tcp);
    uvhttp_tcp_reset(tcp);
    uvhttp_tcp_close(tcp);
    if (uvhttp_tcp_send(tcp, "more", 4, NULL) != UVHTTP_E_CLOSED) fixture_saw(fixture, SEEN_WRONG, 1);
    if (uvhttp_tcp_ref(tcp) != NULL) fixture_saw(fixture, SEEN_WRONG, 1);
}

static void test_reset_drops_the_queue(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, reset_with_queue, 4 << 20);
    int fd = fixture_dial(fixture, "x");
    client_expect_reset(fd);
    fixture_leave(fixture, fd);
    assert_int_equal(fixture_seen(fixture, SEEN_RELEASE), 1);
    free(data);
}

static void test_a_reset_of_the_client_is_reported(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial(fixture, "");
    ping(fd);
    client_reset(fd);
    wait_seen(fixture, SEEN_CLOSE_ABORTED, 1);
}

static void test_a_reset_of_the_client_releases_the_queue(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_and_close, 12 << 20);
    int fd = fixture_dial_narrow(fixture, "x");
    wait_seen(fixture, SEEN_STEP, 1);
    client_reset(fd);
    wait_seen(fixture, SEEN_RELEASE, 2);
    wait_seen(fixture, SEEN_CLOSE_ABORTED, 1);
    free(data);
}

static void test_without_on_end_the_queue_is_sent_and_closed(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_by_reference, 5000000);
    int fd = fixture_dial_narrow(fixture, "x");
    shutdown(fd, SHUT_WR);
    client_expect(fd, data, 5000000);
    client_expect_eof(fd);
    wait_seen(fixture, SEEN_CLOSE_OK, 1);
    close(fd);
    free(data);
}

/* Copies and references alternate, so that none can be joined with the next. */
static void send_in_small_pieces(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    for (size_t at = 0; at < fixture->size; at += 20) {
        if (uvhttp_tcp_send(tcp, fixture->data + at, 10, NULL) != UVHTTP_OK) fixture_saw(fixture, SEEN_WRONG, 1);
        if (uvhttp_tcp_send_ref(tcp, fixture->data + at + 10, 10, NULL, NULL) != UVHTTP_OK)
            fixture_saw(fixture, SEEN_WRONG, 1);
    }
}

/* One iteration cannot hand them all to the kernel, and its memory is used again before the last ones are sent. */
static void test_many_small_pieces_are_sent_as_they_were(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_in_small_pieces, 20000);
    int fd = fixture_dial(fixture, "x");
    client_expect(fd, data, fixture->size);
    fixture_leave(fixture, fd);
    free(data);
}

static void respond_at_end(uvhttp_tcp_t *tcp, void *user) {
    fixture_saw(user, SEEN_END, 1);
    if (uvhttp_tcp_send(tcp, "after your end", 14, NULL) != UVHTTP_OK) fixture_saw(user, SEEN_WRONG, 1);
    uvhttp_tcp_close(tcp);
}

static void test_with_on_end_sending_is_still_possible(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = swallow_data;
    fixture->handlers.on_end = respond_at_end;
    int fd = fixture_dial(fixture, "request");
    shutdown(fd, SHUT_WR);
    client_expect(fd, "after your end", 14);
    client_expect_eof(fd);
    fixture_leave(fixture, fd);
    assert_int_equal(fixture_seen(fixture, SEEN_END), 1);
    assert_int_equal(fixture_seen(fixture, SEEN_BYTES), 7);
}

static void shut_on_order(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_saw(user, SEEN_BYTES, size);
    if (*data != 's') return;
    if (uvhttp_tcp_send(tcp, "end", 3, NULL) != UVHTTP_OK) fixture_saw(user, SEEN_WRONG, 1);
    uvhttp_tcp_shutdown(tcp);
    uvhttp_tcp_shutdown(tcp);
    if (uvhttp_tcp_send(tcp, "more", 4, NULL) != UVHTTP_E_CLOSED) fixture_saw(user, SEEN_WRONG, 1);
}

static void test_after_shutdown_receiving_continues(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_data = shut_on_order;
    int fd = fixture_dial(fixture, "s");
    client_expect(fd, "end", 3);
    client_expect_eof(fd);
    client_send(fd, "and there", 9);
    wait_seen(fixture, SEEN_BYTES, 10);
    fixture_leave(fixture, fd);
}

int main(void) {
    return RUN_ON_ENGINES(
        test_echo, test_echo_of_many_bytes_with_backpressure, test_the_server_may_speak_first_and_knows_the_peer,
        test_a_connection_may_be_ended_in_on_open, test_a_connection_may_be_reset_in_on_open,
        test_a_paused_connection_reads_a_bounded_amount, test_fin_of_a_paused_connection_comes_after_its_data,
        test_watermarks, test_without_backpressure_on_drain_does_not_come, test_close_sends_everything_before_fin,
        test_close_waits_for_the_peer_for_a_bounded_time, test_what_follows_the_end_is_read_at_a_bounded_rate,
        test_who_sends_first_gets_what_was_sent_before_the_end, test_reset_drops_the_queue,
        test_a_reset_of_the_client_is_reported, test_a_reset_of_the_client_releases_the_queue,
        test_without_on_end_the_queue_is_sent_and_closed, test_many_small_pieces_are_sent_as_they_were,
        test_with_on_end_sending_is_still_possible, test_after_shutdown_receiving_continues);
}
