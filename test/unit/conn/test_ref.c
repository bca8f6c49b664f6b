/* Owns: tests of the handles that other threads hold on a connection. */
#include "support/tcp_server.h"

#include <sched.h>

static uvhttp_tcp_ref_t *newest(fixture_t *fixture) {
    pthread_mutex_lock(&fixture->lock);
    uvhttp_tcp_ref_t *ref = fixture->ref;
    if (ref) uvhttp_tcp_ref_retain(ref);
    pthread_mutex_unlock(&fixture->lock);
    return ref;
}

static void test_another_thread_sends(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial_with_ref(fixture);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "from outside", 12), UVHTTP_OK);
    client_expect(fd, "from outside", 12);
    close(fd);
}

/* The order of one thread's sends is kept. */
static void test_many_sends_of_one_thread_keep_their_order(void **state) {
    fixture_t *fixture = *state;
    enum { COUNT = 20000, SIZE = 37 };
    int fd = fixture_dial_with_ref(fixture);
    char *data = pattern_new(COUNT * SIZE);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, data + i * SIZE, SIZE), UVHTTP_OK);
    client_expect(fd, data, COUNT * SIZE);
    close(fd);
    free(data);
}

static void test_another_thread_closes_after_what_it_sent(void **state) {
    fixture_t *fixture = *state;
    int fd = fixture_dial_with_ref(fixture);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "end", 3), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_ref_close(fixture->ref), UVHTTP_OK);
    (void)uvhttp_tcp_ref_send(fixture->ref, "too late", 8);
    client_expect(fd, "end", 3);
    client_expect_eof(fd);
    fixture_leave(fixture, fd);
}

static void note_status(uvhttp_tcp_t *tcp, int status, void *user) {
    fixture_t *fixture = user;
    if (status == UVHTTP_E_LIMIT) fixture_saw(fixture, SEEN_STEP, 1);
    count_close(tcp, status, user);
}

/* Nobody would notice that bytes are missing in front of the next ones. */
static void test_what_the_queue_does_not_hold_resets_the_connection(void **state) {
    fixture_t *fixture = *state;
    static const char large[5000];
    fixture->config.write_high_watermark = 1000;
    fixture->config.write_queue_max = sizeof large - 1;
    fixture->handlers.on_close = note_status;
    int fd = fixture_dial_with_ref(fixture);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, large, sizeof large), UVHTTP_OK);
    (void)uvhttp_tcp_ref_send(fixture->ref, "behind it", 9);
    client_expect_reset(fd);
    close(fd);
    wait_seen(fixture, SEEN_STEP, 1);
}

/* on_close comes before the handle is notified, so that the loop has to iterate once more. */
static void wait_gone(uvhttp_tcp_ref_t *ref) {
    uint64_t end_ms = clock_ms() + TIMEOUT_MS;
    while (uvhttp_tcp_ref_close(ref) != UVHTTP_E_ABORTED) {
        assert_true(clock_ms() < end_ms);
        poll(NULL, 0, 1);
    }
}

static void test_a_connection_that_is_gone_is_reported_as_aborted(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = open_with_ref;
    int fd = fixture_dial(fixture, "");
    ping(fd);
    fixture_leave(fixture, fd);
    wait_gone(fixture->ref);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "x", 1), UVHTTP_E_ABORTED);
    assert_int_equal(uvhttp_tcp_ref_close(fixture->ref), UVHTTP_E_ABORTED);
}

static void test_a_handle_outlives_its_server(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = open_with_ref;
    int fd = fixture_dial(fixture, "");
    ping(fd);
    uvhttp_tcp_server_stop(fixture->server);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
    fixture_free(fixture);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "x", 1), UVHTTP_E_ABORTED);
}

/* --- connections come and go --- */

typedef struct crowd {
    fixture_t *fixture;
    atomic_bool over;
    atomic_ulong sent, aborted;
} crowd_t;

static void *send_to_newest(void *arg) {
    crowd_t *crowd = arg;
    while (!atomic_load(&crowd->over)) {
        sched_yield(); /* the lock in newest is not fair: the server's thread needs it, too */
        uvhttp_tcp_ref_t *ref = newest(crowd->fixture);
        if (!ref) continue;
        for (int i = 0; i < 20; i++) {
            int status = i == 19 ? uvhttp_tcp_ref_close(ref) : uvhttp_tcp_ref_send(ref, "tick", 4);
            if (status == UVHTTP_E_ABORTED)
                atomic_fetch_add(&crowd->aborted, 1);
            else if (status == UVHTTP_OK)
                atomic_fetch_add(&crowd->sent, 1);
            else
                fixture_saw(crowd->fixture, SEEN_WRONG, 1);
        }
        uvhttp_tcp_ref_release(ref);
    }
    return NULL;
}

/* Reads until the end and checks that only whole ticks came, and that they are ticks. */
static void read_ticks(int fd) {
    char buffer[4096];
    size_t sum = 0;
    for (ssize_t got; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;)
        for (ssize_t i = 0; i < got; i++) assert_int_equal(buffer[i], "tick"[sum++ % 4]);
    assert_int_equal(sum % 4, 0);
}

static void test_threads_send_while_connections_come_and_go(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    fixture->handlers.on_open = open_with_ref;
    fixture->handlers.on_data = swallow_data;
    fixture_start(fixture);
    crowd_t crowd = {.fixture = fixture};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, send_to_newest, &crowd), 0);
    for (int i = 0; i < 150; i++) {
        int fd = dial(fixture);
        if (i % 3 == 0) {
            client_reset(fd);
            continue;
        }
        if (i % 3 == 1) {
            shutdown(fd, SHUT_WR); /* the server closes if no thread does */
            read_ticks(fd);
        }
        close(fd);
    }
    /* One of them at least must be met while it is open. A single one would not do: a connection that was reset above
     * may be opened after it by the other loop, and is the newest then. */
    for (uint64_t end_ms = clock_ms() + TIMEOUT_MS; atomic_load(&crowd.sent) == 0 && clock_ms() < end_ms;) {
        int fd = dial(fixture);
        for (int i = 0; i < 50 && atomic_load(&crowd.sent) == 0; i++) poll(NULL, 0, 1);
        close(fd);
    }
    /* The server stops while they continue. */
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
    for (uint64_t end_ms = clock_ms() + TIMEOUT_MS; atomic_load(&crowd.aborted) == 0 && clock_ms() < end_ms;)
        poll(NULL, 0, 1);
    atomic_store(&crowd.over, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_true(atomic_load(&crowd.sent) > 0);
    assert_true(atomic_load(&crowd.aborted) > 0);
}

static void never_run(uvhttp_tcp_t *tcp, void *arg) {
    (void)tcp, (void)arg;
    abort();
}

/* The result of uvhttp_tcp_ref for a connection that is over, and what cannot be done. */
static void test_wrong_arguments_are_refused(void **state) {
    fixture_t *fixture = *state;
    assert_int_equal(uvhttp_tcp_ref_send(NULL, "a", 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_ref_close(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_ref_run(NULL, never_run, NULL), UVHTTP_E_INVALID);
    uvhttp_tcp_ref_retain(NULL);
    uvhttp_tcp_ref_release(NULL);
    int fd = fixture_dial_with_ref(fixture);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, NULL, 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_ref_run(fixture->ref, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, NULL, 0), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_ref_send(fixture->ref, "b", 1), UVHTTP_OK);
    client_expect(fd, "b", 1);
    close(fd);
}

int main(void) {
    return RUN_ON_ENGINES(test_another_thread_sends, test_wrong_arguments_are_refused,
                          test_many_sends_of_one_thread_keep_their_order, test_another_thread_closes_after_what_it_sent,
                          test_what_the_queue_does_not_hold_resets_the_connection,
                          test_a_connection_that_is_gone_is_reported_as_aborted, test_a_handle_outlives_its_server,
                          test_threads_send_while_connections_come_and_go);
}
