/* Owns: tests of what is queued on a stream: its bytes in order, its sizes and counts, and what is refused. */
#include "support/io_server.h"

#define LARGE (6u << 20)

static uint64_t counted(server_t *server) {
    uvhttp__counter_sums_t sums = {0};
    uvhttp__counters_read(server->counters, &sums);
    return UVHTTP__COUNTER(&sums, bytes_sent);
}

typedef struct sizes {
    uint32_t queued, consumed;
} sizes_t;

static void look(server_t *server, void *arg) {
    const uvhttp__stream_t *stream = &server_first_peer(server)->stream;
    *(sizes_t *)arg = (sizes_t){uvhttp__stream_out_size(stream), stream->out_sent};
}

/* All of it has gone, and is counted. */
static void expect_sent(server_t *server, uint64_t size) {
    sizes_t sizes;
    server_settle(server);
    server_call(server, look, &sizes);
    assert_int_equal(sizes.queued, 0);
    assert_true(sizes.consumed <= size); /* what is sent and forgotten at once is missing */
    assert_int_equal(counted(server), size);
}

static void test_each_byte_that_goes_is_counted_once(void **state) {
    server_t *server = *state;
    int fd = server_dial(server, &echo_ops, "");
    static const size_t sizes[] = {1, 2, 1000, 1, 100000, LARGE};
    char *data = pattern_new(LARGE);
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t at = 0; at < sizes[i];) { /* in shares that the sockets hold: this thread sends and receives */
            size_t share = sizes[i] - at < 16384 ? sizes[i] - at : 16384;
            client_send(fd, data + at, share);
            client_expect(fd, data + at, share);
            at += share;
        }
        sum += sizes[i];
        expect_sent(server, sum);
    }
    free(data);
    server_leave(server, fd);
}

static size_t send_all_by_reference(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    uvhttp__stream_send_ref(stream, peer_of(stream)->server->user, LARGE, NULL, NULL);
    return size;
}

static void test_each_byte_of_a_queue_that_waits_is_counted_once(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_all_by_reference);
    char *data = pattern_new(LARGE);
    server->user = data;
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, data, LARGE);
    expect_sent(server, LARGE);
    sizes_t sizes;
    server_call(server, look, &sizes);
    assert_int_equal(sizes.consumed, LARGE); /* it has waited */
    server_leave(server, fd);
    free(data);
}

static void close_first(server_t *server, void *arg) {
    (void)arg;
    peer_close(server_first_peer(server));
}

static void test_what_is_under_way_at_a_close_is_counted(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_all_by_reference);
    char *data = pattern_new(LARGE), received[16384];
    uint64_t all = 0;
    server->user = data;
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, data, 1000000); /* what is sent from now on waits for the client */
    server_settle(server);
    server_call(server, close_first, NULL);
    for (ssize_t got; (got = client_receive_some(fd, received, sizeof received)) > 0;) all += (uint64_t)got;
    server_leave(server, fd);
    assert_int_equal(counted(server), 1000000 + all);
    free(data);
}

static size_t ask_once(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_t *peer = peer_of(stream);
    uvhttp__stream_send_copy(stream, data, size);
    if (peer->step++ == 0) uvhttp__stream_notify_sent(stream);
    return size;
}

static void test_on_sent_comes_once_for_what_was_asked_once(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(ask_once);
    int fd = server_dial(server, &ops, "");
    for (int i = 0; i < 5; i++) {
        client_send(fd, "x", 1);
        client_expect(fd, "x", 1);
        server_settle(server);
        assert_int_equal(server_count(server, EV_SENT), 1);
    }
    server_leave(server, fd);
}

static void note_release(void *arg) {
    count_event(arg, EV_RELEASED, 1);
}

static void expect_in_loop(server_t *server, bool met) {
    if (!met) count_event(server, EV_WRONG, 1);
}

static size_t send_by_reference_of_each_size(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    (void)data;
    expect_in_loop(server, uvhttp__stream_send_ref(stream, "none", 0, note_release, server) == UVHTTP_OK);
    expect_in_loop(server, server_count(server, EV_RELEASED) == 1); /* at once: there is nothing to wait for */
    expect_in_loop(server, uvhttp__stream_out_size(stream) == 0);
    expect_in_loop(server, uvhttp__stream_send_ref(stream, "a", 1, note_release, server) == UVHTTP_OK);
    expect_in_loop(server, uvhttp__stream_send_ref(stream, "bc", 2, note_release, server) == UVHTTP_OK);
    expect_in_loop(server, uvhttp__stream_out_size(stream) == 3);
    return size;
}

static void test_references_of_any_size_are_sent_and_released(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_by_reference_of_each_size);
    int fd = server_dial(server, &ops, "x");
    client_expect(fd, "abc", 3);
    server_wait(server, EV_RELEASED, 3);
    assert_int_equal(server_count(server, EV_WRONG), 0);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_RELEASED), 3);
}

static size_t send_parts_of_iteration_memory(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    char *memory = uvhttp__loop_iteration_alloc(stream->loop, 26);
    if (!memory) return size;
    memcpy(memory, "abcdefghijklmnopqrstuvwxyz", 26);
    uvhttp__stream_send_iteration(stream, memory, 5);
    uvhttp__stream_send_iteration(stream, memory + 5, 5); /* follows */
    uvhttp__stream_send_iteration(stream, memory + 10, 0);
    uvhttp__stream_send_iteration(stream, memory + 20, 6);
    uvhttp__stream_send_iteration(stream, memory + 10, 5);
    return size;
}

static void test_parts_of_iteration_memory_are_sent_in_the_order_of_the_calls(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_parts_of_iteration_memory);
    int fd = server_dial(server, &ops, "x");
    client_expect_text(fd, "abcdefghijuvwxyzklmno");
    expect_sent(server, 21);
    server_leave(server, fd);
}

static size_t send_behind_the_end(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    if (*data == 's')
        uvhttp__stream_shutdown(stream);
    else
        peer_close(peer_of(stream));
    expect_in_loop(server, uvhttp__stream_send_iteration(stream, "x", 1) == UVHTTP_E_CLOSED);
    expect_in_loop(server, uvhttp__stream_send_iteration(stream, "x", 0) == UVHTTP_E_CLOSED);
    expect_in_loop(server, uvhttp__stream_send_copy(stream, "x", 1) == UVHTTP_E_CLOSED);
    expect_in_loop(server, uvhttp__stream_send_ref(stream, "x", 1, note_release, server) == UVHTTP_E_CLOSED);
    expect_in_loop(server, server_count(server, EV_RELEASED) == 1);
    return size;
}

static void refuse_behind(server_t *server, const char *how) {
    static const uvhttp__stream_ops_t ops = PEER_OPS(send_behind_the_end);
    int fd = server_dial(server, &ops, how);
    client_expect_eof(fd);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_WRONG), 0);
    assert_int_equal(server_count(server, EV_RELEASED), 1);
}

static void test_nothing_is_queued_behind_a_shutdown(void **state) {
    refuse_behind(*state, "shutdown");
}

static void test_nothing_is_queued_behind_a_close(void **state) {
    refuse_behind(*state, "close");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_each_byte_that_goes_is_counted_once),
        ON_EACH(test_each_byte_of_a_queue_that_waits_is_counted_once),
        ON_EACH(test_what_is_under_way_at_a_close_is_counted),
        ON_EACH(test_on_sent_comes_once_for_what_was_asked_once),
        ON_EACH(test_references_of_any_size_are_sent_and_released),
        ON_EACH(test_parts_of_iteration_memory_are_sent_in_the_order_of_the_calls),
        ON_EACH(test_nothing_is_queued_behind_a_shutdown),
        ON_EACH(test_nothing_is_queued_behind_a_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
