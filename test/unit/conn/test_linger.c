/* Owns: tests of how long a connection lingers whose client sends behind the server's FIN. The server is inside a libuv
 * loop of the test's thread, and nothing waits for time: the test looks at the timer. */
#include "conn/tcp_server_internal.h"
#include "support/tcp_server.h"

static uv_loop_t loop;

static void close_at_data(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)data, (void)size, (void)user;
    uvhttp_tcp_close(tcp);
}

static void free_server(void *user) {
    fixture_free(user);
}

static void make_with(fixture_t *fixture,
                      void (*on_data)(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user)) {
    fixture->handlers.on_data = on_data;
    fixture_make(fixture);
    assert_int_equal(uv_loop_init(&loop), 0);
    uvhttp_tcp_server_on_stopped(fixture->server, free_server, fixture);
    assert_int_equal(uvhttp_tcp_server_attach(fixture->server, &loop), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
}

static void make(fixture_t *fixture) {
    make_with(fixture, close_at_data);
}

static uint64_t received(const fixture_t *fixture) {
    uvhttp_tcp_metrics_t metrics;
    uvhttp_tcp_server_metrics(fixture->server, &metrics);
    return metrics.bytes_received;
}

static void run_until_received(const fixture_t *fixture, uint64_t bytes) {
    while (received(fixture) < bytes) uv_run(&loop, UV_RUN_ONCE);
}

/* Returns the connection, which lingers. */
static uvhttp_tcp_t *end_one(fixture_t *fixture, int fd) {
    client_send(fd, "x", 1);
    run_until_received(fixture, 1);
    while (!(fixture->tcp->flags & UVHTTP__CONN_LINGERING)) uv_run(&loop, UV_RUN_ONCE);
    return fixture->tcp;
}

static void leave(fixture_t *fixture, int fd) {
    close(fd);
    uvhttp_tcp_server_stop(fixture->server);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(fixture_seen(fixture, SEEN_CLOSE_OK), 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static uint64_t due_ms(const uvhttp_tcp_t *tcp) {
    return uvhttp__timer_deadline(&tcp->timer) / UVHTTP__TICKS_PER_MS;
}

static void set_due(uvhttp_tcp_t *tcp, uint64_t in_ms) {
    uvhttp__conn_timer_stop(tcp);
    uvhttp__conn_timer_set(tcp, uvhttp__conn_now_ms(tcp) + in_ms);
}

/* Sends so much to a connection that has a part of its time left. Returns whether it has more now. */
static bool lingers_on(fixture_t *fixture, uvhttp_tcp_t *tcp, int fd, size_t size) {
    static const char data[UVHTTP__CONN_LINGER_BYTES];
    set_due(tcp, UVHTTP__CONN_LINGER_MS * 3 / 4);
    uint64_t before = due_ms(tcp);
    uint64_t bytes = received(fixture);
    client_send(fd, data, size);
    run_until_received(fixture, bytes + size);
    uint64_t most = uvhttp__conn_now_ms(tcp) + UVHTTP__CONN_LINGER_MS + UVHTTP__CONN_TIMER_GRAIN_MS;
    assert_true(due_ms(tcp) >= before && due_ms(tcp) <= most);
    return due_ms(tcp) > before;
}

static void test_what_the_client_sends_lets_a_connection_linger_on(void **state) {
    fixture_t *fixture = *state;
    make(fixture);
    int fd = dial(fixture);
    uvhttp_tcp_t *tcp = end_one(fixture, fd);
    assert_true(lingers_on(fixture, tcp, fd, UVHTTP__CONN_LINGER_BYTES));
    assert_true(lingers_on(fixture, tcp, fd, UVHTTP__CONN_LINGER_BYTES));
    leave(fixture, fd);
}

static void test_but_not_a_trickle(void **state) {
    fixture_t *fixture = *state;
    make(fixture);
    int fd = dial(fixture);
    uvhttp_tcp_t *tcp = end_one(fixture, fd);
    assert_false(lingers_on(fixture, tcp, fd, UVHTTP__CONN_LINGER_BYTES - 1));
    leave(fixture, fd);
}

static void test_and_not_for_ever(void **state) {
    fixture_t *fixture = *state;
    make(fixture);
    int fd = dial(fixture);
    uvhttp_tcp_t *tcp = end_one(fixture, fd);
    assert_true(lingers_on(fixture, tcp, fd, UVHTTP__CONN_LINGER_BYTES));
    uint64_t end = (uvhttp__conn_now_ms(tcp) + UVHTTP__CONN_LINGER_MAX_MS) / UVHTTP__CONN_TIMER_GRAIN_MS;
    assert_in_range(tcp->linger_end, end - 100, end);
    tcp->linger_end -= (UVHTTP__CONN_LINGER_MAX_MS - UVHTTP__CONN_LINGER_MS / 2) / UVHTTP__CONN_TIMER_GRAIN_MS;
    assert_false(lingers_on(fixture, tcp, fd, UVHTTP__CONN_LINGER_BYTES));
    leave(fixture, fd);
}

static void close_behind_bytes(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)uvhttp_tcp_send(tcp, data, size, NULL);
    uvhttp_tcp_close(tcp);
    (void)user;
}

/* Its time would never end: a client that keeps its end open would hold the connection. */
static void test_a_second_close_changes_nothing(void **state) {
    fixture_t *fixture = *state;
    make_with(fixture, close_behind_bytes);
    int fd = dial(fixture);
    uvhttp_tcp_t *tcp = end_one(fixture, fd);
    assert_true(tcp->flags & UVHTTP__CONN_CHECKED); /* the client may not have acknowledged its byte yet */
    const uvhttp__output_check_t *check = &tcp->loop->output_checks[tcp->output_check];
    uint64_t deadline_ms = check->deadline_ms;
    uvhttp_tcp_close(tcp);
    assert_int_equal(check->deadline_ms, deadline_ms);
    client_expect(fd, "x", 1);
    leave(fixture, fd);
}

static void keep_open(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    (void)tcp, (void)data, (void)size, (void)user;
}

/* Nothing was asked of the client before: its rate and its time begin with the close. */
static void test_the_limits_of_the_end_begin_to_count_with_it(void **state) {
    fixture_t *fixture = *state;
    enum { SILENT_MS = 3600000 };
    make_with(fixture, keep_open);
    int fd = dial(fixture);
    client_send(fd, "x", 1);
    run_until_received(fixture, 1);
    uvhttp_tcp_t *tcp = fixture->tcp;
    uvhttp__output_check_start(tcp);
    uvhttp__output_check_t *check = &tcp->loop->output_checks[tcp->output_check];
    check->rate.moved_ms -= SILENT_MS;
    check->rate.credit_ms = 0;
    uvhttp_tcp_close(tcp);
    assert_in_range((uint32_t)uvhttp__conn_now_ms(tcp) - check->rate.moved_ms, 0, SILENT_MS / 2);
    assert_int_equal(check->rate.credit_ms, fixture->config.rate_grace * 1000);
    leave(fixture, fd);
}

int main(void) {
    return RUN_ON_ENGINES(test_what_the_client_sends_lets_a_connection_linger_on, test_but_not_a_trickle,
                          test_and_not_for_ever, test_a_second_close_changes_nothing,
                          test_the_limits_of_the_end_begin_to_count_with_it);
}
