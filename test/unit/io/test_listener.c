/* Owns: tests of listeners on every engine: each kind of address, pausing, closing, running out of descriptors. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/io_server.h"

static int port_of(int fd) {
    uvhttp__address_t address;
    socklen_t size = sizeof address;
    assert_int_equal(getsockname(fd, &address.any, &size), 0);
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

static void echo_once(int fd) {
    client_send(fd, "ping", 4);
    client_expect(fd, "ping", 4);
}

static void echo_through(server_t *server, const char *address) {
    server_start(server, &echo_ops);
    int fd = client_connect_to(address);
    echo_once(fd);
    server_leave(server, fd);
}

static void test_ipv6_listener(void **state) {
    server_t *server = *state;
    char text[64];
    server->listen_fd = listen_on("[::1]:0");
    if (server->listen_fd < 0) skip(); /* no IPv6 here */
    snprintf(text, sizeof text, "[::1]:%d", port_of(server->listen_fd));
    echo_through(server, text);
}

static void test_dual_stack_listener_takes_an_ipv4_client(void **state) {
    server_t *server = *state;
    char text[64];
    server->listen_fd = listen_on("*:0");
    assert_true(server->listen_fd >= 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", port_of(server->listen_fd));
    echo_through(server, text);
}

static void test_unix_listener(void **state) {
    server_t *server = *state;
    char text[64];
    snprintf(text, sizeof text, "unix:@uvhttp-listener-%d", (int)getpid());
    server->listen_fd = listen_on(text);
    assert_true(server->listen_fd >= 0);
    server_start(server, &echo_ops);
    int fd = client_connect_to(text);
    echo_once(fd);
    shutdown(fd, SHUT_WR);
    client_expect_eof(fd);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_END_OK), 1);
}

static void test_inherited_blocking_listener(void **state) {
    server_t *server = *state;
    char text[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(listen(fd, 16), 0);
    int port = port_of(fd);
    snprintf(text, sizeof text, "fd:%d", fd);
    server->listen_fd = listen_on(text);
    assert_int_equal(server->listen_fd, fd);
    server_start(server, &echo_ops);
    snprintf(text, sizeof text, "127.0.0.1:%d", port);
    int client = client_connect_to(text);
    echo_once(client);
    server_leave(server, client);
}

static void on_accept_checked(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    if (!(fcntl(fd, F_GETFL) & O_NONBLOCK) || !(fcntl(fd, F_GETFD) & FD_CLOEXEC)) count_event(server, EV_WRONG, 1);
    server_on_accept(listener, fd);
}

static void test_accepted_socket_is_nonblocking_and_close_on_exec(void **state) {
    server_t *server = *state;
    server->listener_ops.on_accept = on_accept_checked;
    int fd = server_dial(server, &echo_ops, "");
    echo_once(fd);
    server_leave(server, fd);
}

static void resume_listener(server_t *server, void *arg) {
    (void)arg;
    uvhttp__listener_resume(&server->listener);
}

static void test_paused_listener_leaves_connections_in_the_backlog(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    for (uint64_t i = 1; i <= 3; i++) {
        server_call(server, pause_listener, NULL);
        server_settle(server);
        int fd = client_connect(server->port);
        client_send(fd, "ping", 4);
        server_settle(server);
        assert_int_equal(server_count(server, EV_OPENED), i - 1);
        assert_false(wait_fd(fd, POLLIN, 30));
        server_call(server, resume_listener, NULL);
        client_expect(fd, "ping", 4);
        close(fd);
        server_wait(server, EV_CLOSED, i);
    }
}

static void pause_and_resume(server_t *server, void *arg) {
    for (int i = 0; i < 10; i++) {
        pause_listener(server, arg);
        resume_listener(server, arg);
    }
}

static void test_pause_and_resume_in_one_iteration_end_up_listening(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_call(server, pause_and_resume, NULL);
    int fd = client_connect(server->port);
    echo_once(fd);
    server_leave(server, fd);
}

static void accept_and_close_listener(uvhttp__listener_t *listener, int fd) {
    server_on_accept(listener, fd);
    uvhttp__listener_close(listener);
    uvhttp__listener_close(listener);
}

static void test_listener_closed_inside_on_accept_is_reported_once(void **state) {
    server_t *server = *state;
    server->listener_ops.on_accept = accept_and_close_listener;
    int fd = server_dial(server, &echo_ops, "");
    echo_once(fd);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    struct sockaddr_in address = loopback(server->port);
    int late = client_socket();
    assert_int_not_equal(connect(late, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(errno, ECONNREFUSED);
    close(late);
    server_leave(server, fd);
    assert_int_equal(server_count(server, EV_LISTENER_CLOSED), 1);
}

/* Closing a listening socket resets what is in its backlog: a client that was connected and has sent must not lose
 * that. */
static void test_closing_a_listener_accepts_the_backlog_first(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_call(server, pause_listener, NULL);
    server_settle(server);
    int fd = client_connect(server->port);
    client_send(fd, "ping", 4);
    server_call(server, close_listener, NULL);
    client_expect(fd, "ping", 4);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    server_leave(server, fd);
}

static bool no_place(uvhttp__listener_t *listener) {
    (void)listener;
    return false;
}

/* The socket is a service manager's, too: the process that it starts next accepts the client. */
static void test_a_client_without_a_place_stays_in_the_backlog_of_a_shared_socket(void **state) {
    server_t *server = *state;
    struct sockaddr_in where;
    server->listen_fd = loopback_listener(4, &where);
    int shared = fcntl(server->listen_fd, F_DUPFD_CLOEXEC, 0);
    server->listener_ops.take_place = no_place;
    server->listener_ops.on_full = uvhttp__listener_pause;
    server_start(server, &echo_ops);
    int fd = client_connect(ntohs(where.sin_port));
    server_call(server, close_listener, NULL);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    assert_true(wait_fd(shared, POLLIN, 2000));
    close(shared);
    close(fd);
}

/* This program's own: of so many calls a signal interrupts every other one. */
static atomic_int calls;

#ifdef __GLIBC__ /* which declares a union of all kinds of addresses */
#define ADDRESS_ARG __SOCKADDR_ARG
#define ADDRESS_OF(arg) (arg).__sockaddr__
#else
#define ADDRESS_ARG struct sockaddr *restrict
#define ADDRESS_OF(arg) (arg)
#endif

int accept4(int fd, ADDRESS_ARG address, socklen_t *restrict size, int flags) {
    if (atomic_load(&calls) > 0 && atomic_fetch_sub(&calls, 1) % 2 == 1) {
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, ADDRESS_OF(address), size, flags);
}

/* Two defects that the simulation has found: each signal cost a connection, and seventeen in all ended the accepting.
 */
static void test_signals_cost_no_connection_of_the_backlog(void **state) {
    server_t *server = *state;
    enum { CLIENTS = 20 };
    int fds[CLIENTS];
    server_start(server, &echo_ops);
    server_call(server, pause_listener, NULL);
    server_settle(server);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(server->port);
        client_send(fds[i], "ping", 4);
    }
    atomic_store(&calls, 2 * CLIENTS - 1);
    server_call(server, close_listener, NULL);
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], "ping", 4);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    assert_true(atomic_load(&calls) <= 0);
    for (int i = 0; i < CLIENTS; i++) server_leave(server, fds[i]);
}

static void test_thousand_connections(void **state) {
    server_t *server = *state;
    enum { CLIENTS = 1000 };
    int *fds = descriptors_for(server, CLIENTS);
    server_start(server, &echo_ops);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(server->port);
        client_send(fds[i], &i, sizeof i);
    }
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], &i, sizeof i);
    for (int i = CLIENTS - 1; i >= 0; i--) client_send(fds[i], &i, sizeof i);
    for (int i = 0; i < CLIENTS; i++) client_expect(fds[i], &i, sizeof i);
    assert_int_equal(server_count(server, EV_OPENED), CLIENTS);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    server_wait(server, EV_CLOSED, CLIENTS);
    free(fds);
}

static void set_nofile(int count) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* io_uring remembers the limit of the moment in which an accept was armed: the listener is armed again after each
 * change. */
static void set_nofile_for(server_t *server, int count) {
    server_call(server, pause_listener, NULL);
    server_settle(server);
    set_nofile(count);
    server_call(server, resume_listener, NULL);
}

/* When the connection with that number was accepted: a test that looks when it gets to run may see more iterations. */
static void on_accept_timed(uvhttp__listener_t *listener, int fd) {
    server_t *server = UVHTTP__CONTAINER_OF(listener, server_t, listener);
    unsigned *iterations = server->user;
    uint64_t number = server_count(server, EV_OPENED);
    iterations[number] = atomic_load(&server->iterations);
    server_on_accept(listener, fd);
}

static void test_out_of_descriptors_parks_does_not_spin_and_is_back_at_once(void **state) {
    server_t *server = *state;
    enum { CLIENTS = 20, DESCRIPTORS = 5 };
    int fds[CLIENTS];
    unsigned accepted_at[CLIENTS];
    server->user = accepted_at;
    server->listener_ops.on_accept = on_accept_timed;
    server_start(server, &echo_ops);
    server_settle(server);
    for (int i = 0; i < CLIENTS; i++) fds[i] = client_socket();
    int lowest_free = dup(0);
    close(lowest_free);
    set_nofile_for(server, lowest_free + DESCRIPTORS);
    for (int i = 0; i < CLIENTS; i++) client_connect_fd(fds[i], server->port); /* the backlog takes them */
    server_wait(server, EV_OPENED, DESCRIPTORS);
    server_wait(server, EV_ACCEPT_ERROR, 1);
    server_settle(server);
    assert_int_equal(server_count(server, EV_OPENED), DESCRIPTORS);

    uint64_t begin_ms = clock_ms();
    unsigned iterations = atomic_load(&server->iterations);
    poll(NULL, 0, 200);
    iterations = atomic_load(&server->iterations) - iterations;
    assert_true(iterations <= 20 + (clock_ms() - begin_ms) / 5); /* a try each 20 ms, not a spin */

    close(fds[0]); /* frees the client's descriptor and then the server's */
    unsigned begin = atomic_load(&server->iterations);
    server_wait(server, EV_OPENED, DESCRIPTORS + 1);
    int freed = (int)(accepted_at[DESCRIPTORS] - begin); /* negative: it was so quick */
    set_nofile((int)server->nofile_before.rlim_cur);
    begin = atomic_load(&server->iterations);
    server_wait(server, EV_OPENED, CLIENTS);
    int relief = (int)(accepted_at[CLIENTS - 1] - begin);
    print_message("           back %d turns after a close, %d turns after a higher limit; %u turns in 200 ms\n", freed,
                  relief, iterations);
    assert_true(freed < 25 && relief < 25); /* 500 ms if nothing else happens */
    for (int i = 1; i < CLIENTS; i++) {
        echo_once(fds[i]); /* nobody was dropped */
        close(fds[i]);
    }
    server_wait(server, EV_CLOSED, CLIENTS);
}

static void test_listener_that_is_parked_can_be_closed(void **state) {
    server_t *server = *state;
    server_start(server, &echo_ops);
    server_settle(server);
    int fd = client_socket();
    int lowest_free = dup(0);
    close(lowest_free);
    set_nofile_for(server, lowest_free);
    client_connect_fd(fd, server->port);
    server_wait(server, EV_ACCEPT_ERROR, 1);
    server_call(server, close_listener, NULL);
    server_wait(server, EV_LISTENER_CLOSED, 1);
    set_nofile((int)server->nofile_before.rlim_cur);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_EACH(test_ipv6_listener),
        ON_EACH(test_dual_stack_listener_takes_an_ipv4_client),
        ON_EACH(test_unix_listener),
        ON_EACH(test_inherited_blocking_listener),
        ON_EACH(test_accepted_socket_is_nonblocking_and_close_on_exec),
        ON_EACH(test_paused_listener_leaves_connections_in_the_backlog),
        ON_EACH(test_pause_and_resume_in_one_iteration_end_up_listening),
        ON_EACH(test_listener_closed_inside_on_accept_is_reported_once),
        ON_EACH(test_closing_a_listener_accepts_the_backlog_first),
        ON_EACH(test_a_client_without_a_place_stays_in_the_backlog_of_a_shared_socket),
        ON_EACH(test_signals_cost_no_connection_of_the_backlog),
        ON_EACH(test_thousand_connections),
        ON_EACH(test_out_of_descriptors_parks_does_not_spin_and_is_back_at_once),
        ON_EACH(test_listener_that_is_parked_can_be_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
