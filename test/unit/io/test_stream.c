/* Owns: tests of what a stream sends, on every engine: order, bounds, backpressure, ends. What it receives is in
 * test_stream_receive.c. */
#include "support/io_server.h"

#include <sys/stat.h>

enum { LARGE = 10 * 1024 * 1024, MEGABYTE = 1024 * 1024 };

/* --- echo --- */

static void test_echo_returns_what_came(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "hello");
    client_expect(fd, "hello", 5);
    client_send(fd, "again", 5);
    client_expect(fd, "again", 5);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_BYTES), 10);
    assert_int_equal(server_count(server, EV_END_OK), 1);
    assert_int_equal(server_count(server, EV_SENT), 0); /* nobody asked, and the kernel took all at once */
}

/* Stops reading while a megabyte waits to be sent, goes on when it has gone. */
static size_t echo_with_backpressure(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_t *peer = peer_of(stream);
    uint32_t out_size = uvhttp__stream_out_size(stream);
    if (out_size > peer->out_size_max) peer->out_size_max = out_size;
    if (out_size >= MEGABYTE) {
        uvhttp__stream_notify_sent(stream);
        count_event(peer->server, EV_TICK, 1);
        return 0;
    }
    return peer_echo(stream, data, size);
}

static void resume_on_sent(uvhttp__stream_t *stream) {
    peer_count_sent(stream);
    uvhttp__stream_resume(stream);
}

static void get_out_size_max(server_t *server, void *arg) {
    *(uint32_t *)arg = server_first_peer(server)->out_size_max;
}

static void test_ten_megabytes_both_ways_meet_backpressure(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS_SENT(echo_with_backpressure, resume_on_sent);
    int small = 256 * 1024; /* else the kernel's buffers alone take ten megabytes */
    server->listen_fd = listen_loopback(&server->port);
    setsockopt(server->listen_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(server->listen_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    int fd = server_dial(server, &ops, "");
    char *data = pattern_new(LARGE);
    size_t sent = 0;
    size_t got = 0;
    char *back = malloc(LARGE);
    /* A slow reader: it does not read at all until the server takes no more. */
    while (server_count(server, EV_TICK) == 0 && sent < LARGE) {
        if (!wait_fd(fd, POLLOUT, 10)) continue;
        ssize_t n = send(fd, data + sent, LARGE - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) sent += (size_t)n;
    }
    server_wait(server, EV_TICK, 1);
    while (got < LARGE) {
        if (sent < LARGE && wait_fd(fd, POLLOUT, 0)) {
            ssize_t n = send(fd, data + sent, LARGE - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n > 0) sent += (size_t)n;
        }
        if (!wait_fd(fd, sent < LARGE ? POLLIN | POLLOUT : POLLIN, TIMEOUT_MS)) fail_msg("stalled at %zu bytes", got);
        ssize_t n = recv(fd, back + got, LARGE - got, MSG_DONTWAIT);
        if (n > 0) got += (size_t)n;
        assert_int_not_equal(n, 0);
    }
    assert_memory_equal(back, data, LARGE);
    uint32_t out_size_max = 0;
    server_call(server, get_out_size_max, &out_size_max);
    assert_true(out_size_max >= MEGABYTE);
    /* What was held comes on top: with io_uring, buffers that the kernel had filled before it heard of the pause. */
    uint32_t bound = server->variant->kind == UVHTTP__ENGINE_URING ? 4 * MEGABYTE : MEGABYTE + 256 * 1024;
    if (out_size_max > bound) fail_msg("%u bytes were queued", out_size_max);
    assert_true(server_count(server, EV_SENT) >= 1);
    assert_int_equal(server_count(server, EV_BYTES), LARGE);
    free(back);
    free(data);
    server_leave(server, fd);
}

/* --- order and release --- */

static void count_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

enum { PIECES = 100, PIECE = 777 };

static int file_with(const char *data, size_t size) {
    char path[] = "/tmp/uvhttp-stream-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

typedef struct pieces {
    const char *data;
    int file;
} pieces_t;

/* A hundred pieces of every kind, more than one gathered call can take. */
static size_t send_pieces(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    pieces_t *pieces = server->user;
    (void)data;
    for (size_t i = 0; i < PIECES; i++) {
        const char *piece = pieces->data + i * PIECE;
        if (i == 50) {
            peer_send_file(stream, pieces->file, i * PIECE, PIECE);
        } else if (i % 3 == 0) {
            char *iteration = uvhttp__loop_iteration_alloc(stream->loop, 2 * PIECE);
            memcpy(iteration, piece, PIECE);
            uvhttp__loop_iteration_trim(stream->loop, iteration + PIECE);
            uvhttp__stream_send_iteration(stream, iteration, PIECE);
        } else if (i % 3 == 1) {
            char copy[PIECE];
            memcpy(copy, piece, PIECE);
            uvhttp__stream_send_copy(stream, copy, PIECE);
            memset(copy, 'x', PIECE);
        } else {
            uvhttp__stream_send_ref(stream, piece, PIECE, count_release, server);
        }
    }
    if (uvhttp__stream_out_size(stream) != PIECES * PIECE) count_event(server, EV_WRONG, 1);
    uvhttp__stream_notify_sent(stream);
    return size;
}

static void test_pieces_of_every_kind_keep_their_order(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_pieces);
    char *data = pattern_new(PIECES * PIECE);
    pieces_t pieces = {.data = data, .file = file_with(data, PIECES * PIECE)};
    server->user = &pieces;
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, data, PIECES * PIECE);
    server_wait(server, EV_SENT, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 33); /* 32 references and the file */
    server_leave(server, fd);
    close(pieces.file);
    free(data);
}

/* Ten megabytes by reference three times: far more than the sockets hold, so that the queue is not empty. */
static size_t send_much_by_ref(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    (void)data;
    for (int i = 0; i < 3; i++) uvhttp__stream_send_ref(stream, server->user, LARGE, count_release, server);
    uvhttp__stream_notify_sent(stream);
    return size;
}

static MAYBE_UNUSED const uvhttp__stream_ops_t much_by_ref_ops = PEER_OPS(send_much_by_ref);

static void test_references_are_released_once_when_sent(void **state) {
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &much_by_ref_ops, "x");
    for (int i = 0; i < 3; i++) client_expect(fd, server->user, LARGE);
    server_wait(server, EV_SENT, 1);
    assert_quiet(server); /* that the socket is writable now wakes nobody */
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
    free(server->user);
}

/* More than a stream's share of a turn, and behind it turn memory that the next turns would use again. */
static size_t send_more_than_a_share(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    const char *pattern = server->user;
    size_t at = MEGABYTE;
    (void)data;
    uvhttp__stream_send_ref(stream, pattern, at, NULL, NULL);
    for (int i = 0; i < 60; i++) {
        if (i % 2) {
            uvhttp__stream_send_ref(stream, pattern + at, 5000, count_release, server);
        } else {
            uvhttp__stream_send_copy(stream, pattern + at, 5000);
        }
        at += 5000;
    }
    return size;
}

static void test_iteration_memory_behind_more_than_a_share_is_not_lost(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_more_than_a_share);
    enum { CLIENTS = 4, SIZE = MEGABYTE + 60 * 5000 };
    server->user = pattern_new(SIZE);
    server_start(server, &ops);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_connect(server->port);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < CLIENTS; i++) client_send(fds[i], "x", 1);
        for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], server->user, SIZE);
    }
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
    free(server->user);
}

/* An answer that is queued in the very turn in which the hand-over of the last turn turns out to have met a full
 * socket.
 */
static void send_much_and_stand(server_t *server, void *arg) {
    pthread_mutex_t *gate = arg;
    uvhttp__stream_send_ref(&server_first_peer(server)->stream, server->user, LARGE, NULL, NULL);
    count_event(server, EV_TICK, 1);
    pthread_mutex_lock(gate); /* the test's thread holds it until its bytes are there */
    pthread_mutex_unlock(gate);
}

static pthread_mutex_t stand_gate = PTHREAD_MUTEX_INITIALIZER;

static void *send_much_and_stand_thread(void *arg) {
    server_call(arg, send_much_and_stand, &stand_gate);
    return NULL;
}

static void use_iteration_memory(server_t *server, void *arg) {
    (void)arg;
    char *memory = uvhttp__loop_iteration_alloc(server->loop, 10000);
    if (memory) memset(memory, 'z', 10000);
}

static void test_responses_queued_behind_a_full_socket_outlive_their_iteration(void **state) {
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    char question[1000];
    memset(question, 'q', sizeof question);
    pthread_t thread;
    pthread_mutex_lock(&stand_gate);
    assert_int_equal(pthread_create(&thread, NULL, send_much_and_stand_thread, server), 0);
    server_wait(server, EV_TICK, 1);
    client_send(fd, question, sizeof question);
    pthread_mutex_unlock(&stand_gate);
    pthread_join(thread, NULL);
    server_wait(server, EV_BYTES, sizeof question);
    for (int i = 0; i < 4; i++) server_call(server, use_iteration_memory, NULL);
    client_expect(fd, server->user, LARGE);
    client_expect(fd, question, sizeof question);
    server_leave(server, fd);
    free(server->user);
}

static void test_references_are_released_once_when_the_peer_resets(void **state) {
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &much_by_ref_ops, "x");
    char byte;
    client_receive(fd, &byte, 1);
    client_reset(fd);
    server_wait(server, EV_END_ABORTED, 1);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
    free(server->user);
}

static void close_at_break(uvhttp__stream_t *stream, int status) {
    peer_count_end(stream, status);
    if (status != UVHTTP_OK) peer_close(peer_of(stream));
}

/* Who still sends to a client that has sent FIN must hear that it has gone for good. */
static void test_reset_after_fin_is_reported_while_sending(void **state) {
    static const uvhttp__stream_ops_t ops = {
        .on_data = send_much_by_ref, .on_end = close_at_break, .on_sent = peer_count_sent, .on_closed = peer_on_closed};
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &ops, "x");
    char byte;
    client_receive(fd, &byte, 1);
    shutdown(fd, SHUT_WR);
    server_wait(server, EV_END_OK, 1);
    client_reset(fd);
    server_wait(server, EV_END_ABORTED, 1);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
    free(server->user);
}

static void close_first_peer(server_t *server, void *arg) {
    (void)arg;
    peer_close(server_first_peer(server));
}

static void test_references_are_released_once_when_closed_with_a_queue(void **state) {
    server_t *server = *state;
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &much_by_ref_ops, "x");
    char byte;
    client_receive(fd, &byte, 1);
    server_call(server, close_first_peer, NULL);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
    assert_int_equal(server_count(server, EV_END_OK) + server_count(server, EV_END_ABORTED), 0);
    assert_int_equal(server_count(server, EV_SENT), 0);
    close(fd);
    free(server->user);
}

/* --- files --- */

enum { FILE_SIZE = 5 * 1024 * 1024 };

typedef struct file_response {
    int fd;
    uint64_t offset, size;
} file_response_t;

static size_t send_the_file(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    file_response_t *file = server->user;
    (void)data;
    uvhttp__stream_send_copy(stream, "head", 4);
    peer_send_file(stream, file->fd, file->offset, file->size);
    uvhttp__stream_send_copy(stream, "tail", 4);
    uvhttp__stream_notify_sent(stream);
    return size;
}

static const uvhttp__stream_ops_t file_ops = PEER_OPS(send_the_file);

static void test_file_of_five_megabytes_is_sent_between_head_and_tail(void **state) {
    server_t *server = *state;
    char *data = pattern_new(FILE_SIZE);
    file_response_t file = {.fd = file_with(data, FILE_SIZE), .offset = 12345, .size = FILE_SIZE - 12345};
    server->user = &file;
    int fd = server_dial(server, &file_ops, "");
    for (int i = 0; i < 2; i++) { /* the file's own position is not used */
        client_send(fd, "x", 1);
        client_expect(fd, "head", 4);
        client_expect(fd, data + 12345, FILE_SIZE - 12345);
        client_expect(fd, "tail", 4);
        server_wait(server, EV_SENT, (uint64_t)i + 1);
        assert_int_equal(server_count(server, EV_RELEASED), i + 1);
    }
    server_leave(server, fd);
    close(file.fd);
    free(data);
}

static void test_file_shorter_than_promised_breaks_the_connection(void **state) {
    server_t *server = *state;
    file_response_t file = {.fd = file_with("short", 5), .offset = 0, .size = 6};
    server->user = &file;
    int fd = server_dial(server, &file_ops, "x");
    client_expect(fd, "headshort", 9);
    client_expect_eof(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_END_ABORTED), 1);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
    close(fd);
    close(file.fd);
}

/* sendfile(2) has no MSG_NOSIGNAL: a client that goes away in the middle must not kill the process by SIGPIPE. */
static void test_client_that_leaves_during_a_file_is_an_abort_and_no_signal(void **state) {
    server_t *server = *state;
    char *data = pattern_new(FILE_SIZE);
    file_response_t file = {.fd = file_with(data, FILE_SIZE), .offset = 0, .size = FILE_SIZE};
    server->user = &file;
    signal(SIGPIPE, SIG_DFL);
    server_start(server, &file_ops);
    for (uint64_t i = 1; i <= 5; i++) {
        int fd = client_connect(server->port);
        client_send(fd, "x", 1);
        client_expect(fd, "head", 4);
        close(fd); /* with bytes unread: a reset */
        server_wait(server, EV_CLOSED, i);
        assert_int_equal(server_count(server, EV_RELEASED), i);
    }
    close(file.fd);
    free(data);
}

/* --- ends --- */

static void send_late(server_t *server, void *arg) {
    peer_t *peer = server_first_peer(server);
    (void)arg;
    uvhttp__stream_send_copy(&peer->stream, "late", 4);
    uvhttp__stream_notify_sent(&peer->stream);
}

static void shut_first_peer(server_t *server, void *arg) {
    (void)arg;
    uvhttp__stream_shutdown(&server_first_peer(server)->stream);
}

static void test_after_the_peers_fin_sending_still_works(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = {
        .on_data = peer_echo, .on_end = peer_count_end, .on_sent = peer_count_sent, .on_closed = peer_on_closed};
    int fd = server_dial(server, &ops, "x");
    shutdown(fd, SHUT_WR);
    server_wait(server, EV_END_OK, 1);
    assert_quiet(server); /* a FIN that was seen wakes nobody */
    server_call(server, send_late, NULL);
    client_expect(fd, "xlate", 5);
    server_wait(server, EV_SENT, 1);
    server_call(server, close_first_peer, NULL);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(server_count(server, EV_END_OK), 1);
}

static void send_and_shut(server_t *server, void *arg) {
    send_late(server, arg);
    shut_first_peer(server, arg);
    if (uvhttp__stream_send_copy(&server_first_peer(server)->stream, "x", 1) != UVHTTP_E_CLOSED)
        count_event(server, EV_WRONG, 1);
}

/* The first send to a peer that is gone makes it answer by a reset, the next one fails: neither may raise SIGPIPE. */
static void send_or_count(server_t *server, void *arg) {
    (void)arg;
    if (uvhttp__stream_send_copy(&server_first_peer(server)->stream, "x", 1) == UVHTTP_E_CLOSED)
        count_event(server, EV_TICK, 1);
}

static void test_sending_to_a_peer_that_is_gone_raises_no_signal(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = {
        .on_data = peer_echo, .on_end = peer_count_end, .on_sent = peer_count_sent, .on_closed = peer_on_closed};
    signal(SIGPIPE, SIG_DFL);
    server_start(server, &ops);
    close(client_connect(server->port));
    server_wait(server, EV_END_OK, 1);
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    while (server_count(server, EV_TICK) == 0 && clock_ms() < end_ms) server_call(server, send_or_count, NULL);
    server_wait(server, EV_TICK, 1); /* the stream knows that it is broken */
    server_call(server, close_first_peer, NULL);
    server_wait(server, EV_CLOSED, 1);
}

static void test_shutdown_sends_the_queue_then_fin_and_receives_on(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(peer_swallow);
    int fd = server_dial(server, &ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, send_and_shut, NULL);
    client_expect(fd, "late", 4);
    client_expect_eof(fd);
    client_send(fd, "still here", 10);
    server_wait(server, EV_BYTES, 10);
    close(fd);
    server_wait(server, EV_END_OK, 1);
    server_wait(server, EV_CLOSED, 1);
}

static size_t send_much_and_shut(uvhttp__stream_t *stream, const char *data, size_t size) {
    send_much_by_ref(stream, data, size);
    uvhttp__stream_shutdown(stream);
    return size;
}

static void test_shutdown_waits_for_a_long_queue(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_much_and_shut);
    server->user = pattern_new(LARGE);
    int fd = server_dial(server, &ops, "x");
    for (int i = 0; i < 3; i++) client_expect(fd, server->user, LARGE);
    client_expect_eof(fd);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
    free(server->user);
}

static void notify_first_peer(server_t *server, void *arg) {
    (void)arg;
    server_first_peer(server)->in_call = true;
    uvhttp__stream_notify_sent(&server_first_peer(server)->stream);
    server_first_peer(server)->in_call = false;
}

static void test_notify_with_an_empty_queue_is_reported_in_a_later_iteration_once(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, notify_first_peer, NULL);
    server_wait(server, EV_SENT, 1);
    server_settle(server);
    assert_int_equal(server_count(server, EV_SENT), 1);
    server_leave(server, fd);
}

/* A producer that makes the next piece when the last one has gone, in turn memory: the memory must not be used twice.
 */
static void send_next_piece(uvhttp__stream_t *stream) {
    peer_t *peer = peer_of(stream);
    enum { SIZE = 50000 };
    if (peer->budget == 0) {
        count_event(peer->server, EV_TICK, 1);
        return;
    }
    char *data = uvhttp__loop_iteration_alloc(stream->loop, SIZE);
    for (uint64_t i = 0; i < SIZE; i++) data[i] = pattern_at(peer->received + i);
    peer->received += SIZE;
    peer->budget--;
    uvhttp__stream_send_iteration(stream, data, SIZE);
    uvhttp__stream_notify_sent(stream);
}

static size_t begin_producing(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    peer_of(stream)->budget = 200;
    send_next_piece(stream);
    return size;
}

static void test_producer_driven_by_on_sent_delivers_every_byte(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS_SENT(begin_producing, send_next_piece);
    enum { CLIENTS = 3, SIZE = 200 * 50000 };
    server_start(server, &ops);
    int fds[CLIENTS];
    char *data = pattern_new(SIZE);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(server->port);
        client_send(fds[i], "x", 1);
    }
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], data, SIZE);
    server_wait(server, EV_TICK, CLIENTS);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
    free(data);
}

static void test_reset_by_an_idle_peer_is_an_abort(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "x");
    client_expect(fd, "x", 1);
    client_reset(fd);
    server_wait(server, EV_END_ABORTED, 1);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(server_count(server, EV_END_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_echo_returns_what_came),
        ON_EACH(test_ten_megabytes_both_ways_meet_backpressure),
        ON_EACH(test_pieces_of_every_kind_keep_their_order),
        ON_EACH(test_references_are_released_once_when_sent),
        ON_EACH(test_iteration_memory_behind_more_than_a_share_is_not_lost),
        ON_EACH(test_responses_queued_behind_a_full_socket_outlive_their_iteration),
        ON_EACH(test_sending_to_a_peer_that_is_gone_raises_no_signal),
        ON_EACH(test_references_are_released_once_when_the_peer_resets),
        ON_EACH(test_reset_after_fin_is_reported_while_sending),
        ON_EACH(test_references_are_released_once_when_closed_with_a_queue),
        ON_EACH(test_file_of_five_megabytes_is_sent_between_head_and_tail),
        ON_EACH(test_file_shorter_than_promised_breaks_the_connection),
        ON_EACH(test_client_that_leaves_during_a_file_is_an_abort_and_no_signal),
        ON_EACH(test_after_the_peers_fin_sending_still_works),
        ON_EACH(test_shutdown_sends_the_queue_then_fin_and_receives_on),
        ON_EACH(test_shutdown_waits_for_a_long_queue),
        ON_EACH(test_notify_with_an_empty_queue_is_reported_in_a_later_iteration_once),
        ON_EACH(test_producer_driven_by_on_sent_delivers_every_byte),
        ON_EACH(test_reset_by_an_idle_peer_is_an_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
