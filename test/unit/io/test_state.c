/* Owns: tests of the state machines of a stream: every pair of states against the diagrams of docs/internals/io.md, an
 * assertion for an illegal step, and the states that real streams have in their callbacks, on every engine. */
#include "support/io_server.h"

#include "io/io_state.h"

/* --- the tables --- */

typedef struct edge {
    unsigned from, to;
} edge_t;

static void check_machine(bool (*may)(unsigned from, unsigned to), unsigned count, const edge_t *edges, size_t size) {
    for (unsigned from = 0; from <= count; from++) { /* `count` itself is no state */
        for (unsigned to = 0; to <= count; to++) {
            bool legal = false;
            for (size_t i = 0; i < size; i++) legal = legal || (edges[i].from == from && edges[i].to == to);
            if (may(from, to) != legal) fail_msg("%u to %u is %s", from, to, legal ? "refused" : "accepted");
        }
    }
}

static void test_read_pauses_and_ends_once(void **state) {
    (void)state;
    static const edge_t edges[] = {{UVHTTP__READ_OPEN, UVHTTP__READ_PAUSED},
                                   {UVHTTP__READ_OPEN, UVHTTP__READ_ENDED},
                                   {UVHTTP__READ_PAUSED, UVHTTP__READ_OPEN},
                                   {UVHTTP__READ_PAUSED, UVHTTP__READ_ENDED}};
    check_machine(uvhttp__read_may, UVHTTP__READ_ENDED + 1, edges, sizeof edges / sizeof *edges);
}

static void test_write_goes_one_way(void **state) {
    (void)state;
    static const edge_t edges[] = {{UVHTTP__WRITE_OPEN, UVHTTP__WRITE_DRAINING},
                                   {UVHTTP__WRITE_OPEN, UVHTTP__WRITE_SHUT},
                                   {UVHTTP__WRITE_DRAINING, UVHTTP__WRITE_SHUT}};
    check_machine(uvhttp__write_may, UVHTTP__WRITE_SHUT + 1, edges, sizeof edges / sizeof *edges);
}

static void test_close_goes_one_way(void **state) {
    (void)state;
    static const edge_t edges[] = {
        {UVHTTP__CLOSE_NO, UVHTTP__CLOSE_BROKEN},     {UVHTTP__CLOSE_NO, UVHTTP__CLOSE_WANTED},
        {UVHTTP__CLOSE_BROKEN, UVHTTP__CLOSE_WANTED}, {UVHTTP__CLOSE_WANTED, UVHTTP__CLOSE_WAITING},
        {UVHTTP__CLOSE_WANTED, UVHTTP__CLOSE_DONE},   {UVHTTP__CLOSE_WAITING, UVHTTP__CLOSE_DONE}};
    check_machine(uvhttp__close_may, UVHTTP__CLOSE_DONE + 1, edges, sizeof edges / sizeof *edges);
}

/* --- assertions --- */

/* Whether a step ends the process with SIGABRT. */
static bool aborts(void (*step)(uvhttp__stream_t *stream)) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uvhttp__stream_t stream = {0};
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); /* cmocka's handler would continue with the next test */
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        step(&stream);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void close_twice(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_WANTED);
    uvhttp__close_to(stream, UVHTTP__CLOSE_DONE);
    uvhttp__close_to(stream, UVHTTP__CLOSE_DONE);
}

static void close_unasked(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_DONE);
}

static void break_closing(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_WANTED);
    uvhttp__close_to(stream, UVHTTP__CLOSE_BROKEN);
}

static void end_twice(uvhttp__stream_t *stream) {
    uvhttp__read_to(stream, UVHTTP__READ_ENDED);
    uvhttp__read_to(stream, UVHTTP__READ_ENDED);
}

static void pause_broken(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_BROKEN);
    uvhttp__read_to(stream, UVHTTP__READ_PAUSED);
}

static void reopen(uvhttp__stream_t *stream) {
    uvhttp__write_to(stream, UVHTTP__WRITE_DRAINING);
    uvhttp__write_to(stream, UVHTTP__WRITE_OPEN);
}

static void shut_closing(uvhttp__stream_t *stream) {
    uvhttp__close_to(stream, UVHTTP__CLOSE_WANTED);
    uvhttp__write_to(stream, UVHTTP__WRITE_DRAINING);
}

static void close_properly(uvhttp__stream_t *stream) {
    uvhttp__read_to(stream, UVHTTP__READ_PAUSED);
    uvhttp__read_to(stream, UVHTTP__READ_OPEN);
    uvhttp__write_to(stream, UVHTTP__WRITE_DRAINING);
    uvhttp__close_to(stream, UVHTTP__CLOSE_BROKEN);
    uvhttp__close_to(stream, UVHTTP__CLOSE_WANTED);
    uvhttp__close_to(stream, UVHTTP__CLOSE_WAITING);
    uvhttp__close_to(stream, UVHTTP__CLOSE_DONE);
}

static void test_an_illegal_step_is_asserted(void **state) {
    (void)state;
#ifdef NDEBUG
    const bool asserted = false; /* a plain store */
#else
    const bool asserted = true;
#endif
    assert_false(aborts(close_properly));
    assert_int_equal(aborts(close_twice), asserted);
    assert_int_equal(aborts(close_unasked), asserted);
    assert_int_equal(aborts(break_closing), asserted);
    assert_int_equal(aborts(end_twice), asserted);
    assert_int_equal(aborts(pause_broken), asserted);
    assert_int_equal(aborts(reopen), asserted);
    assert_int_equal(aborts(shut_closing), asserted);
}

static void test_a_stream_that_is_over_neither_receives_nor_sends(void **state) {
    (void)state;
    uvhttp__stream_t broken = {0}, closing = {0};
    uvhttp__close_to(&broken, UVHTTP__CLOSE_BROKEN);
    assert_int_equal(broken.read, UVHTTP__READ_ENDED);
    assert_int_equal(broken.write, UVHTTP__WRITE_SHUT);
    uvhttp__read_to(&closing, UVHTTP__READ_PAUSED);
    uvhttp__write_to(&closing, UVHTTP__WRITE_DRAINING);
    uvhttp__close_to(&closing, UVHTTP__CLOSE_WANTED);
    assert_int_equal(closing.read, UVHTTP__READ_ENDED);
    assert_int_equal(closing.write, UVHTTP__WRITE_SHUT);
}

/* --- real streams --- */

typedef struct seen {
    _Atomic unsigned on_end, closing, on_closed;
} seen_t;

static seen_t *seen_of(uvhttp__stream_t *stream) {
    return peer_of(stream)->server->user;
}

static void close_and_note(uvhttp__stream_t *stream) {
    peer_close(peer_of(stream));
    seen_of(stream)->closing = stream->close;
}

static void on_end(uvhttp__stream_t *stream, int status) {
    seen_of(stream)->on_end = stream->close;
    peer_count_end(stream, status);
    close_and_note(stream);
}

static void on_closed(uvhttp__stream_t *stream) {
    seen_of(stream)->on_closed = stream->close;
    peer_on_closed(stream);
}

static const uvhttp__stream_ops_t noting_ops = {
    .on_data = peer_echo, .on_end = on_end, .on_sent = peer_count_sent, .on_closed = on_closed};

static void test_close_states_after_a_fin(void **state) {
    server_t *server = *state;
    seen_t seen = {0};
    server->user = &seen;
    server_start(server, &noting_ops);
    close(client_connect(server->port));
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(seen.on_end, UVHTTP__CLOSE_NO);
    assert_in_range(seen.closing, UVHTTP__CLOSE_WANTED, UVHTTP__CLOSE_DONE);
    assert_int_equal(seen.on_closed, UVHTTP__CLOSE_DONE);
}

static void test_close_states_after_a_reset(void **state) {
    server_t *server = *state;
    seen_t seen = {0};
    server->user = &seen;
    int fd = server_dial(server, &noting_ops, "");
    server_wait(server, EV_OPENED, 1);
    client_reset(fd);
    server_wait(server, EV_CLOSED, 1);
    assert_int_equal(seen.on_end, UVHTTP__CLOSE_BROKEN);
    assert_in_range(seen.closing, UVHTTP__CLOSE_WANTED, UVHTTP__CLOSE_DONE);
    assert_int_equal(seen.on_closed, UVHTTP__CLOSE_DONE);
}

static void close_first_and_note(server_t *server, void *arg) {
    (void)arg;
    close_and_note(&server_first_peer(server)->stream);
}

/* An armed receive is a reference of the ring's kernel; epoll holds none. */
static void test_close_waits_for_an_armed_receive(void **state) {
    server_t *server = *state;
    seen_t seen = {0};
    server->user = &seen;
    int fd = server_dial(server, &noting_ops, "");
    server_wait(server, EV_OPENED, 1);
    client_send(fd, "x", 1); /* and back: what was submitted in the iteration before is settled when the echo is here */
    client_expect(fd, "x", 1);
    server_settle(server);
    server_call(server, close_first_and_note, NULL);
    server_wait(server, EV_CLOSED, 1);
    bool uring = server->variant->kind == UVHTTP__ENGINE_URING;
    assert_int_equal(seen.closing, uring ? UVHTTP__CLOSE_WAITING : UVHTTP__CLOSE_DONE);
    assert_int_equal(seen.on_closed, UVHTTP__CLOSE_DONE);
    close(fd);
}

static char long_data[16 * 1024 * 1024]; /* more than the kernel accepts for a client that reads nothing */

static void shut_and_note(server_t *server, void *arg) {
    uvhttp__stream_t *stream = &server_first_peer(server)->stream;
    unsigned *write = arg;
    uvhttp__stream_send_ref(stream, long_data, sizeof long_data, NULL, NULL);
    write[0] = stream->write;
    uvhttp__stream_shutdown(stream);
    write[1] = stream->write;
}

static void note_write(server_t *server, void *arg) {
    *(unsigned *)arg = server_first_peer(server)->stream.write;
}

static void test_write_drains_until_the_queue_is_sent(void **state) {
    server_t *server = *state;
    unsigned write[2], later;
    server_start(server, &echo_ops);
    int fd = client_socket();
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){65536}, sizeof(int));
    client_connect_fd(fd, server->port);
    server_wait(server, EV_OPENED, 1);
    server_call(server, shut_and_note, write);
    assert_int_equal(write[0], UVHTTP__WRITE_OPEN);
    assert_int_equal(write[1], UVHTTP__WRITE_DRAINING);
    server_settle(server);
    server_call(server, note_write, &later);
    assert_int_equal(later, UVHTTP__WRITE_DRAINING);
    client_expect(fd, long_data, sizeof long_data);
    client_expect_eof(fd);
    server_call(server, note_write, &later);
    assert_int_equal(later, UVHTTP__WRITE_SHUT);
    server_leave(server, fd);
}

typedef struct reading {
    _Atomic unsigned on_end; /* the read state in it */
    unsigned read;
    bool fin;
} reading_t;

static size_t leave_once(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_t *peer = peer_of(stream);
    (void)data;
    count_event(peer->server, EV_BYTES, size);
    return peer->step++ == 0 ? 0 : size;
}

static void note_end(uvhttp__stream_t *stream, int status) {
    ((reading_t *)peer_of(stream)->server->user)->on_end = stream->read;
    peer_count_end(stream, status);
}

static void note_read(server_t *server, void *arg) {
    const uvhttp__stream_t *stream = &server_first_peer(server)->stream;
    reading_t *reading = arg;
    reading->read = stream->read;
    reading->fin = stream->flags & UVHTTP__STREAM_FIN;
}

static void resume_first(server_t *server, void *arg) {
    (void)arg;
    uvhttp__stream_resume(&server_first_peer(server)->stream);
}

static const uvhttp__stream_ops_t leaving_ops = {
    .on_data = leave_once, .on_end = note_end, .on_sent = peer_count_sent, .on_closed = peer_on_closed};

static void test_read_ends_behind_kept_bytes(void **state) {
    server_t *server = *state;
    reading_t reading = {0};
    server->user = &reading;
    int fd = server_dial(server, &leaving_ops, "");
    server_wait(server, EV_OPENED, 1);
    server_call(server, note_read, &reading);
    assert_int_equal(reading.read, UVHTTP__READ_OPEN);
    client_send(fd, "abc", 3);
    server_wait(server, EV_BYTES, 3);
    shutdown(fd, SHUT_WR);
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    while (!reading.fin && clock_ms() < end_ms) server_call(server, note_read, &reading);
    assert_true(reading.fin);
    assert_int_equal(reading.read, UVHTTP__READ_PAUSED);
    assert_int_equal(server_count(server, EV_END_OK), 0);
    server_call(server, resume_first, NULL);
    server_wait(server, EV_END_OK, 1);
    assert_int_equal(reading.on_end, UVHTTP__READ_ENDED);
    assert_int_equal(server_count(server, EV_BYTES), 6); /* they came twice */
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_pauses_and_ends_once),
        cmocka_unit_test(test_write_goes_one_way),
        cmocka_unit_test(test_close_goes_one_way),
        cmocka_unit_test(test_an_illegal_step_is_asserted),
        cmocka_unit_test(test_a_stream_that_is_over_neither_receives_nor_sends),
        ON_EACH(test_close_states_after_a_fin),
        ON_EACH(test_close_states_after_a_reset),
        ON_EACH(test_close_waits_for_an_armed_receive),
        ON_EACH(test_write_drains_until_the_queue_is_sent),
        ON_EACH(test_read_ends_behind_kept_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
