/* Owns: tests of what is ready at once and of what is ready no more, on every engine; and of the epoll engine's epoll
 * set when the kernel refuses it something. */
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "support/io_server.h"

#include "io/engine.h"

/* --- a kernel that refuses --- */

static atomic_int refusing_set = -1; /* additions to this epoll set meet fs.epoll.max_user_watches */

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    if (operation == EPOLL_CTL_ADD && set == atomic_load(&refusing_set)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

/* --- many at once --- */

typedef struct crowd {
    int *fds;
    int size;
} crowd_t;

/* In the loop's thread, which does not look at its sockets meanwhile: all are ready when it does. */
static void send_to_all(server_t *server, void *arg) {
    const crowd_t *crowd = arg;
    (void)server;
    for (int i = 0; i < crowd->size; i++) client_send(crowd->fds[i], &i, sizeof i);
}

static crowd_t crowd_new(server_t *server, int size) {
    struct rlimit limit = server->nofile_before;
    rlim_t needed = (rlim_t)(2 * size + 100);
    if (limit.rlim_max < needed) skip();
    if (limit.rlim_cur < needed) limit.rlim_cur = needed;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    crowd_t crowd = {.fds = calloc((size_t)size, sizeof(int)), .size = size};
    for (int i = 0; i < size; i++) crowd.fds[i] = client_connect(server->port);
    server_wait(server, EV_OPENED, (uint64_t)size);
    server_settle(server);
    return crowd;
}

static void crowd_free(server_t *server, crowd_t *crowd) {
    for (int i = 0; i < crowd->size; i++) close(crowd->fds[i]);
    server_wait(server, EV_CLOSED, (uint64_t)crowd->size);
    free(crowd->fds);
}

static void test_more_ready_streams_than_one_look_reports_are_all_served(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    crowd_t crowd = crowd_new(server, 2 * UVHTTP__FD_EVENTS_MAX + 1);
    server_call(server, send_to_all, &crowd);
    for (int i = 0; i < crowd.size; i++) client_expect(crowd.fds[i], &i, sizeof i);
    assert_quiet(server);
    crowd_free(server, &crowd);
}

/* Closes all, itself last: those behind it were reported with it. */
static size_t close_all(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    uvhttp__list_t *node, *next;
    (void)data;
    count_event(server, EV_BYTES, size);
    UVHTTP__LIST_FOREACH_SAFE(node, next, &server->peers) {
        peer_close(UVHTTP__CONTAINER_OF(node, peer_t, link));
    }
    return size;
}

static void test_what_was_ready_with_a_stream_that_closes_it_is_not_reported(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_all);
    server_start(server, &ops);
    crowd_t crowd = crowd_new(server, 20);
    server_call(server, send_to_all, &crowd);
    server_wait(server, EV_CLOSED, (uint64_t)crowd.size);
    assert_int_equal(server_count(server, EV_BYTES), sizeof(int)); /* of the first alone */
    crowd_free(server, &crowd);
}

/* The number of a closed descriptor is another connection's at once. */
static size_t close_next_and_take_its_number(uvhttp__stream_t *stream, const char *data, size_t size) {
    peer_t *peer = peer_of(stream);
    server_t *server = peer->server;
    (void)data;
    count_event(server, EV_BYTES, size);
    for (uvhttp__list_t *node = server->peers.next; node != &server->peers && server->user; node = node->next) {
        peer_t *other = UVHTTP__CONTAINER_OF(node, peer_t, link);
        if (other == peer || other->closed_by_test) continue;
        int *pair = server->user;
        server->user = NULL;
        peer_close(other);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) abort();
        peer_t *made = peer_new(server);
        uvhttp__stream_open(&made->stream, server->loop, pair[0], true, &echo_ops);
        if (uvhttp__stream_read_start(&made->stream) != 0) count_event(server, EV_WRONG, 1);
        if (write(pair[1], "mine", 4) != 4) count_event(server, EV_WRONG, 1);
        break;
    }
    return size;
}

static void test_a_new_stream_with_the_number_of_one_that_was_ready_has_only_its_own_events(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(close_next_and_take_its_number);
    int pair[2] = {-1, -1};
    server->user = pair;
    server_start(server, &ops);
    crowd_t crowd = crowd_new(server, 2);
    server_call(server, send_to_all, &crowd);
    server_wait(server, EV_CLOSED, 1);
    set_limits(pair[1]);
    assert_int_equal(fcntl(pair[1], F_SETFL, 0), 0);
    client_expect(pair[1], "mine", 4);
    assert_int_equal(server_count(server, EV_BYTES), sizeof(int) + 4);
    close(pair[1]);
    server_wait(server, EV_CLOSED, 2);
    for (int i = 0; i < crowd.size; i++) close(crowd.fds[i]);
    server_wait(server, EV_CLOSED, 3);
    free(crowd.fds);
}

enum { LONG_ITERATION_MS = 100 };

typedef struct late {
    uvhttp__timer_t timer;
    uint64_t bytes_at_expiry;
} late_t;

static void on_expire_late(uvhttp__wheel_t *wheel, uvhttp__timer_t *timer, void *user) {
    (void)wheel;
    server_t *server = user;
    UVHTTP__CONTAINER_OF(timer, late_t, timer)->bytes_at_expiry = server_count(server, EV_BYTES);
    count_event(server, EV_TICK, 1);
}

/* A byte at a time, the rest behind the others. With the second, which comes at the end of an iteration, that iteration
 * lasts until a timer is due. */
static size_t take_one_byte(uvhttp__stream_t *stream, const char *data, size_t size) {
    server_t *server = peer_of(stream)->server;
    late_t *late = server->user;
    (void)size;
    count_event(server, EV_BYTES, 1);
    uvhttp__stream_resume(stream);
    if (*data == 'b') {
        uvhttp__timer_kind_t kind = uvhttp__wheel_kind(&server->loop->wheel, on_expire_late, server);
        uvhttp__timer_init(&late->timer, kind);
        uvhttp__timer_set(&server->loop->wheel, &late->timer, server->loop->now_ms + 1);
        poll(NULL, 0, LONG_ITERATION_MS);
    }
    return 1;
}

static void test_what_was_deferred_comes_before_timers_that_are_late(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(take_one_byte);
    static late_t late;
    memset(&late, 0, sizeof late);
    server->user = &late;
    server_start(server, &ops);
    int client = client_connect(server->port);
    client_send(client, "abc", 3);
    server_wait(server, EV_TICK, 1);
    assert_int_equal(late.bytes_at_expiry, 3);
    server_leave(server, client);
}

/* --- waits --- */

typedef struct pair_of_waits {
    uvhttp__fd_wait_t waits[2];
    server_t *server;
    int pipes[2][2];
} pair_of_waits_t;

static pair_of_waits_t two;

static void stop_both(uvhttp__fd_wait_t *wait) {
    (void)wait;
    for (int i = 0; i < 2; i++) uvhttp__fd_wait_stop(&two.waits[i]);
    memset(two.waits, 0xdd, sizeof two.waits); /* whoever still looks at the other is found out */
    count_event(two.server, EV_TICK, 1);
}

static void wait_for_both(server_t *server, void *arg) {
    (void)arg;
    two.server = server;
    for (int i = 0; i < 2; i++) {
        if (uvhttp__fd_wait_start(server->loop, &two.waits[i], two.pipes[i][0], UVHTTP__FD_READABLE, stop_both) != 0)
            count_event(server, EV_WRONG, 1);
        if (write(two.pipes[i][1], "x", 1) != 1) count_event(server, EV_WRONG, 1);
    }
}

static void test_wait_that_is_stopped_by_one_that_was_ready_with_it_is_not_reported(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    for (int i = 0; i < 2; i++) assert_int_equal(pipe(two.pipes[i]), 0);
    server_call(server, wait_for_both, NULL);
    server_wait(server, EV_TICK, 1);
    assert_quiet(server);
    assert_int_equal(server_count(server, EV_TICK), 1);
    for (int i = 0; i < 4; i++) close(two.pipes[i / 2][i % 2]);
}

/* --- copies of a descriptor --- */

static void copy_and_close(server_t *server, void *arg) {
    peer_t *peer = server_first_peer(server);
    *(int *)arg = fcntl(peer->stream.fd, F_DUPFD_CLOEXEC, 0);
    peer_close(peer);
}

/* As after a fork: the socket lives on in somebody else's hands. */
static void test_a_copy_of_a_closed_streams_descriptor_has_no_events(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    int copy = -1;
    int fd = client_connect(server->port);
    server_wait(server, EV_OPENED, 1);
    server_call(server, copy_and_close, &copy);
    server_wait(server, EV_CLOSED, 1);
    client_send(fd, "nobody", 6);
    assert_true(wait_fd(copy, POLLIN, TIMEOUT_MS));
    assert_quiet(server);
    assert_int_equal(server_count(server, EV_BYTES), 0);
    client_reset(fd);
    assert_true(wait_fd(copy, 0, TIMEOUT_MS)); /* POLLERR, POLLHUP */
    assert_quiet(server);
    close(copy);
}

/* --- hang-ups --- */

static size_t take_when_notified(uvhttp__stream_t *stream, const char *data, size_t size) {
    (void)data;
    if (peer_of(stream)->step == 0) return 0;
    count_event(peer_of(stream)->server, EV_BYTES, size);
    return size;
}

static void adopt(server_t *server, void *arg) {
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, *(int *)arg, true, server->ops);
    if (uvhttp__stream_read_start(&peer->stream) != 0) count_event(server, EV_WRONG, 1);
}

static void begin_to_take(server_t *server, void *arg) {
    peer_t *peer = server_first_peer(server);
    (void)arg;
    peer->step = 1;
    uvhttp__stream_resume(&peer->stream);
}

/* Both directions of a Unix socket end with its peer: not only FIN, which epoll can be configured not to report. */
static void test_hang_up_of_a_unix_socket_while_reading_is_stopped_does_not_spin(void **state) {
    server_t *server = *state;
    static const uvhttp__stream_ops_t ops = PEER_OPS(take_when_notified);
    enum { SIZE = 100000 }; /* more than a stream holds: reading stops */
    int pair[2];
    server_start(server, &ops);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    set_limits(pair[1]);
    server_call(server, adopt, &pair[0]);
    char *data = pattern_new(SIZE);
    client_send(pair[1], data, SIZE);
    server_settle(server);
    close(pair[1]);
    assert_quiet(server);
    assert_int_equal(server_count(server, EV_END_OK) + server_count(server, EV_END_ABORTED), 0);
    server_call(server, begin_to_take, NULL);
    server_wait(server, EV_BYTES, SIZE);
    server_wait(server, EV_CLOSED, 1);
    free(data);
}

/* --- refusals --- */

static void test_loop_new_without_descriptors_says_so_and_leaves_none(void **state) {
    server_t *server = *state;
    if (server->variant->guest) {
        assert_int_equal(uv_loop_init(&server->embedding), 0);
        server->options.embedding = &server->embedding;
    }
    int lowest_free = dup(0);
    close(lowest_free);
    for (int capacity = 0; capacity < 2; capacity++) { /* for neither the set nor what wakes it; for the set alone */
        struct rlimit limit = server->nofile_before;
        limit.rlim_cur = (rlim_t)(lowest_free + capacity);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(uvhttp__loop_new(&server->options, &server->loop), UVHTTP_E_NO_DESCRIPTORS);
        assert_null(server->loop);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &server->nofile_before), 0);
    assert_int_equal(uvhttp__loop_new(&server->options, &server->loop), 0);
    uvhttp__loop_free(server->loop, NULL, NULL);
    if (server->variant->guest) {
        assert_int_equal(uv_run(&server->embedding, UV_RUN_DEFAULT), 0);
        assert_int_equal(uv_loop_close(&server->embedding), 0);
    }
}

static void refuse(server_t *server, void *arg) {
    (void)arg;
    atomic_store(&refusing_set, server->loop->waited->fd);
}

static void adopt_in_vain(server_t *server, void *arg) {
    peer_t *peer = peer_new(server);
    uvhttp__stream_open(&peer->stream, server->loop, *(int *)arg, true, server->ops);
    if (uvhttp__stream_read_start(&peer->stream) != UVHTTP_E_LIMIT) count_event(server, EV_WRONG, 1);
    peer_close(peer);
}

static void test_stream_that_the_kernel_does_not_poll_says_why_and_closes(void **state) {
    server_t *server = *state;
    int pair[2];
    server_start(server, &echo_ops);
    server_call(server, refuse, NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    server_call(server, adopt_in_vain, &pair[0]);
    atomic_store(&refusing_set, -1);
    server_wait(server, EV_CLOSED, 1);
    close(pair[1]);
}

static void toggle_listener(server_t *server, void *arg) {
    uvhttp__listener_pause(&server->listener);
    refuse(server, arg);
    uvhttp__listener_resume(&server->listener);
}

static void test_listener_that_the_kernel_does_not_poll_tries_again(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_call(server, toggle_listener, NULL);
    int fd = client_connect(server->port);
    server_wait(server, EV_ACCEPT_ERROR, 2); /* a try each 20 ms */
    assert_int_equal(server_count(server, EV_OPENED), 0);
    atomic_store(&refusing_set, -1);
    client_send(fd, "x", 1);
    client_expect(fd, "x", 1);
    server_leave(server, fd);
}

#define ON_EPOLL(test) ON_VARIANT(test, epoll_own), ON_VARIANT(test, epoll_guest)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_what_was_deferred_comes_before_timers_that_are_late),
        ON_EACH(test_more_ready_streams_than_one_look_reports_are_all_served),
        ON_EACH(test_what_was_ready_with_a_stream_that_closes_it_is_not_reported),
        ON_EACH(test_a_new_stream_with_the_number_of_one_that_was_ready_has_only_its_own_events),
        ON_EACH(test_wait_that_is_stopped_by_one_that_was_ready_with_it_is_not_reported),
        ON_EACH(test_a_copy_of_a_closed_streams_descriptor_has_no_events),
        ON_EACH(test_hang_up_of_a_unix_socket_while_reading_is_stopped_does_not_spin),
        ON_EPOLL(test_loop_new_without_descriptors_says_so_and_leaves_none),
        ON_EPOLL(test_stream_that_the_kernel_does_not_poll_says_why_and_closes),
        ON_EPOLL(test_listener_that_the_kernel_does_not_poll_tries_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
