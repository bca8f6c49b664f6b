/* Owns: tests of a TCP server's life: listening, running, stopping, draining. */
#include "support/tcp_server.h"

/* --- configuration --- */

static void test_a_wrong_configuration_is_refused(void **state) {
    fixture_t *fixture = *state;
    assert_null(uvhttp_tcp_server_new(&fixture->config, NULL, NULL));
    assert_null(uvhttp_tcp_server_new(&fixture->config, &(uvhttp_tcp_handlers_t){0}, NULL));
    uvhttp_tcp_config_t config = fixture->config;
    config.io_threads = 1025;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
    config = fixture->config;
    config.engine = -1;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
    config = fixture->config;
    config.read_buffer_count = 48;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
    config = fixture->config;
    config.max_connections = 0;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
    config = fixture->config;
    config.struct_size = sizeof config + 8;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
    config = fixture->config;
    config.drain_timeout = 604801;
    assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
}

static void test_no_limit_is_never_and_not_0(void **state) {
    fixture_t *fixture = *state;
    uvhttp_tcp_config_t config;
    uvhttp_tcp_config_default(&config);
    uint32_t *const limits[] = {&config.idle_timeout, &config.min_send_rate, &config.connections_per_address_max};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(*limits[i], UVHTTP_NEVER);
        *limits[i] = 0;
        assert_null(uvhttp_tcp_server_new(&config, &fixture->handlers, NULL));
        *limits[i] = UVHTTP_NEVER;
        uvhttp_tcp_server_t *server = uvhttp_tcp_server_new(&config, &fixture->handlers, NULL);
        assert_non_null(server);
        uvhttp_tcp_server_free(server);
    }
}

/* --- start and stop --- */

static void test_a_server_that_nobody_came_to_stops(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 3;
    fixture_start(fixture);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
}

static void on_ready(void *user) {
    fixture_t *fixture = user;
    if (fixture_seen(fixture, SEEN_OPEN) > 0) fixture_saw(fixture, SEEN_WRONG, 1);
    fixture_saw(fixture, SEEN_STEP, 1);
}

static void open_when_ready(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    if (fixture_seen(fixture, SEEN_STEP) != 1) fixture_saw(fixture, SEEN_WRONG, 1);
    count_open(tcp, user);
}

static void test_it_is_ready_before_it_accepts(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 3;
    fixture->handlers.on_open = open_when_ready;
    fixture_make(fixture);
    uvhttp_tcp_server_on_ready(fixture->server, on_ready, fixture);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
    int fd = client_connect(fixture->port);
    assert_int_equal(fixture_seen(fixture, SEEN_STEP), 0);
    fixture_run(fixture);
    ping(fd);
    close(fd);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
    assert_int_equal(fixture_seen(fixture, SEEN_STEP), 1);
}

static void test_stop_before_run_ends_it_at_once(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    fixture_make(fixture);
    uvhttp_tcp_server_stop(fixture->server);
    assert_int_equal(uvhttp_tcp_server_run(fixture->server, "127.0.0.1:0"), UVHTTP_OK);
}

static void *stop_it(void *arg) {
    fixture_t *fixture = arg;
    uvhttp_tcp_server_stop(fixture->server);
    uvhttp_tcp_server_stop(fixture->server);
    return NULL;
}

/* While the loops are created, while they run, while they are freed. */
static void test_stop_from_another_thread_at_any_moment(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    for (int i = 0; i < 100; i++) {
        pthread_t threads[2];
        fixture_make(fixture);
        assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &fixture->port), UVHTTP_OK);
        for (int t = 0; t < 2; t++) {
            if (i % 3 == t) fixture_run(fixture);
            assert_int_equal(pthread_create(&threads[t], NULL, stop_it, fixture), 0);
        }
        if (!fixture->running) fixture_run(fixture);
        assert_int_equal(fixture_join(fixture), UVHTTP_OK);
        for (int t = 0; t < 2; t++) pthread_join(threads[t], NULL);
        fixture_free(fixture);
    }
}

static void test_a_server_runs_once(void **state) {
    fixture_t *fixture = *state;
    fixture_start(fixture);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_server_run(fixture->server, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", NULL), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_tcp_server_error_text(fixture->server), "listen"));
}

/* Another thread may ask for it at any time. */
static void test_the_engine_of_a_server_that_has_ended_is_known(void **state) {
    fixture_t *fixture = *state;
    const char *reason = NULL, *after = NULL;
    fixture_start(fixture);
    int fd = dial(fixture);
    ping(fd);
    const char *engine = uvhttp_tcp_server_engine(fixture->server, &reason);
    assert_non_null(engine);
    close(fd);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK);
    assert_ptr_equal(uvhttp_tcp_server_engine(fixture->server, &after), engine);
    assert_ptr_equal(after, reason);
    assert_true(strlen(reason) > 0);
}

static void listen_more(uvhttp_tcp_t *tcp, void *user) {
    fixture_t *fixture = user;
    count_open(tcp, user);
    if (uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", NULL) != UVHTTP_E_STATE)
        fixture_saw(fixture, SEEN_WRONG, 1);
}

static void test_a_server_that_runs_takes_no_more_addresses(void **state) {
    fixture_t *fixture = *state;
    fixture->handlers.on_open = listen_more;
    int fd = fixture_dial(fixture, "");
    ping(fd);
    close(fd);
}

static void test_a_server_that_never_ran_can_be_freed(void **state) {
    fixture_t *fixture = *state;
    fixture_make(fixture);
    uint16_t port;
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &port), UVHTTP_OK);
    assert_null(uvhttp_tcp_server_engine(fixture->server, NULL));
    fixture_free(fixture);
    uvhttp_tcp_server_free(NULL);
}

static void test_run_without_an_address_is_refused(void **state) {
    fixture_t *fixture = *state;
    fixture_make(fixture);
    assert_int_equal(uvhttp_tcp_server_run(fixture->server, NULL), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_tcp_server_error_text(fixture->server), "address"));
}

static int handled;

static void on_sigterm(int number) {
    handled = number;
}

static bool has_handler(int number) {
    struct sigaction action;
    assert_int_equal(sigaction(number, NULL, &action), 0);
    return action.sa_handler != SIG_DFL;
}

static void run_until_sigterm(fixture_t *fixture) {
    fixture->config.install_signal_handlers = true;
    int fd = fixture_dial(fixture, "");
    ping(fd); /* it runs, so the handler is there */
    kill(getpid(), SIGTERM);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
}

static void test_sigterm_stops_a_server_that_asked_for_it(void **state) {
    run_until_sigterm(*state);
}

/* timeout(1) sends two, and what follows the loops takes its time. */
static void test_a_second_sigterm_behind_the_drain_does_not_end_the_process(void **state) {
    static const int others[] = {SIGTERM, SIGINT};
    fixture_t *fixture = *state;
    run_until_sigterm(fixture);
    raise(SIGTERM);
    for (int i = 0; i < 2; i++) { /* one more does */
        int status;
        pid_t child = fork();
        if (child == 0) {
            raise(others[i]);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), others[i]);
    }
    fixture_free(fixture);
    assert_false(has_handler(SIGTERM));
    assert_false(has_handler(SIGINT));
}

static void test_a_handler_of_the_application_is_in_force_behind_the_drain(void **state) {
    const struct sigaction action = {.sa_handler = on_sigterm};
    struct sigaction before;
    fixture_t *fixture = *state;
    handled = 0;
    assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
    run_until_sigterm(fixture);
    assert_int_equal(handled, 0);
    raise(SIGTERM);
    assert_int_equal(handled, SIGTERM);
    fixture_free(fixture);
    raise(SIGTERM);
    assert_int_equal(sigaction(SIGTERM, &before, NULL), 0);
}

static void test_a_handler_that_is_set_behind_the_drain_stays(void **state) {
    const struct sigaction action = {.sa_handler = on_sigterm};
    struct sigaction before;
    fixture_t *fixture = *state;
    run_until_sigterm(fixture);
    assert_int_equal(sigaction(SIGTERM, &action, &before), 0);
    fixture_free(fixture);
    handled = 0;
    raise(SIGTERM);
    assert_int_equal(handled, SIGTERM);
    signal(SIGTERM, SIG_DFL);
}

/* --- listening --- */

static void test_a_port_in_use_is_named(void **state) {
    fixture_t *fixture = *state;
    char address[64];
    for (uint32_t io_threads = 1; io_threads <= 2; io_threads++) {
        int port, fd = listen_loopback(&port);
        fixture->config.io_threads = io_threads;
        fixture_make(fixture);
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        assert_int_equal(uvhttp_tcp_server_run(fixture->server, address), UVHTTP_E_ADDRESS_IN_USE);
        assert_non_null(strstr(uvhttp_tcp_server_error_text(fixture->server), address));
        assert_non_null(strstr(uvhttp_tcp_server_error_text(fixture->server), "in use"));
        fixture_free(fixture);
        close(fd);
    }
}

static void test_a_second_server_does_not_share_the_port(void **state) {
    fixture_t *fixture = *state;
    char address[64];
    fixture->config.io_threads = 2;
    fixture_start(fixture);
    snprintf(address, sizeof address, "127.0.0.1:%u", fixture->port);
    uvhttp_tcp_server_t *second = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
    assert_int_equal(uvhttp_tcp_server_listen(second, address, NULL), UVHTTP_E_ADDRESS_IN_USE);
    uvhttp_tcp_server_free(second);
}

static void test_wrong_addresses_are_refused_and_named(void **state) {
    fixture_t *fixture = *state;
    static const char *const wrong[] = {"", "nonsense", "127.0.0.1", "127.0.0.1:65536", "[::1:80", "fd:x"};
    fixture_make(fixture);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(uvhttp_tcp_server_listen(fixture->server, wrong[i], NULL), UVHTTP_E_ADDRESS);
        assert_non_null(strstr(uvhttp_tcp_server_error_text(fixture->server), wrong[i]));
    }
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, NULL, NULL), UVHTTP_E_INVALID);
}

static void test_several_addresses_are_served(void **state) {
    fixture_t *fixture = *state;
    enum { COUNT = 4 };
    uint16_t ports[COUNT];
    fixture->config.io_threads = 2;
    fixture_make(fixture);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1:0", &ports[i]), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_server_listen(fixture->server, "127.0.0.1", NULL), UVHTTP_E_ADDRESS);
    fixture_run(fixture);
    for (int i = 0; i < COUNT; i++) {
        int fd = client_connect(ports[i]);
        ping(fd);
        close(fd);
    }
}

/* Which loop served it: the first byte that it says. */
static void say_loop(uvhttp_tcp_t *tcp, void *user) {
    static atomic_uint loops;
    static _Thread_local char name;
    if (!name) name = (char)('a' + atomic_fetch_add(&loops, 1) % 26);
    count_open(tcp, user);
    (void)uvhttp_tcp_send(tcp, &name, 1, NULL);
}

static void test_connections_are_spread_over_the_loops(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 3;
    fixture->handlers.on_open = say_loop;
    fixture_start(fixture);
    unsigned names = 0;
    for (int i = 0; i < 120; i++) {
        char name;
        int fd = dial(fixture);
        client_receive(fd, &name, 1);
        close(fd);
        names |= 1u << (name - 'a');
    }
    assert_int_equal(__builtin_popcount(names), 3);
}

/* Servers on a port of the kernel's choice, many at a time, never get the same one. */
static void *listen_on_any_port(void *arg) {
    fixture_t *fixture = arg;
    enum { COUNT = 40 };
    uvhttp_tcp_server_t *servers[COUNT];
    uint16_t ports[COUNT];
    for (int i = 0; i < COUNT; i++) {
        servers[i] = uvhttp_tcp_server_new(&fixture->config, &fixture->handlers, fixture);
        if (uvhttp_tcp_server_listen(servers[i], "127.0.0.1:0", &ports[i]) != UVHTTP_OK)
            fixture_saw(fixture, SEEN_WRONG, 1);
    }
    for (int i = 0; i < COUNT; i++) {
        int fd = client_socket();
        struct sockaddr_in address = loopback(ports[i]);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINTR)
            fixture_saw(fixture, SEEN_WRONG, 1);
        close(fd);
        uvhttp_tcp_server_free(servers[i]);
    }
    return NULL;
}

static void test_a_port_of_the_kernels_choice_is_nobody_elses(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    pthread_t threads[4];
    for (int t = 0; t < 4; t++) assert_int_equal(pthread_create(&threads[t], NULL, listen_on_any_port, fixture), 0);
    for (int t = 0; t < 4; t++) pthread_join(threads[t], NULL);
}

/* --- draining --- */

static void test_stop_closes_idle_connections_with_fin(void **state) {
    fixture_t *fixture = *state;
    fixture->config.io_threads = 2;
    fixture_start(fixture);
    int fds[8];
    dial_many(fixture, fds, 8);
    uvhttp_tcp_server_stop(fixture->server);
    expect_ends(fds, 8);
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
    assert_int_equal(fixture->counts[SEEN_CLOSE_OK], 8);
    uvhttp_tcp_metrics_t metrics;
    uvhttp_tcp_server_metrics(fixture->server, &metrics);
    assert_int_equal(metrics.connections_accepted, 8);
    assert_int_equal(metrics.connections_closed, 8);
    assert_int_equal(metrics.bytes_received, 32);
    assert_int_equal(metrics.bytes_sent, 32);
}

static void send_much(uvhttp_tcp_t *tcp, const char *data, size_t size, void *user) {
    fixture_t *fixture = user;
    (void)data, (void)size;
    int status = uvhttp_tcp_send_ref(tcp, fixture->data, fixture->size, NULL, NULL);
    if (status != UVHTTP_OK && status != UVHTTP_E_AGAIN) fixture_saw(fixture, SEEN_WRONG, 1);
    fixture_saw(fixture, SEEN_STEP, 1);
}

static void test_stop_sends_what_is_queued_first(void **state) {
    fixture_t *fixture = *state;
    char *data = fixture_have_sent(fixture, send_much, 16 << 20);
    int fd = fixture_dial_narrow(fixture, "x");
    wait_seen(fixture, SEEN_STEP, 1);
    uvhttp_tcp_server_stop(fixture->server);
    client_expect(fd, data, fixture->size);
    client_expect_eof(fd);
    close(fd);
    assert_int_equal(fixture_join(fixture), UVHTTP_OK);
    assert_int_equal(fixture->counts[SEEN_CLOSE_OK], 1);
    free(data);
}

static void test_a_drain_is_cut_off_at_its_deadline(void **state) {
    fixture_t *fixture = *state;
    fixture->config.drain_timeout = 1;
    char *data = fixture_have_sent(fixture, send_much, 32 << 20);
    int fd = fixture_dial_narrow(fixture, "");
    uint64_t begin_ms =
        clock_ms(); /* of an iteration before: the loop's clock stands still in an iteration, however long it takes */
    client_send(fd, "x", 1);
    wait_seen(fixture, SEEN_STEP, 1);
    assert_int_equal(fixture_stop(fixture), UVHTTP_OK); /* the client reads nothing */
    uint64_t took_ms = clock_ms() - begin_ms;
    assert_in_range(took_ms, 1000, TIMEOUT_MS);
    assert_int_equal(fixture->counts[SEEN_CLOSE_TIMEOUT], 1);
    close(fd);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(test_a_wrong_configuration_is_refused, fixture_setup, fixture_teardown,
                                                 &epoll_engine),
        cmocka_unit_test_prestate_setup_teardown(test_no_limit_is_never_and_not_0, fixture_setup, fixture_teardown,
                                                 &epoll_engine),
        ON_ENGINES(test_a_server_that_nobody_came_to_stops),
        ON_ENGINES(test_it_is_ready_before_it_accepts),
        ON_ENGINES(test_stop_before_run_ends_it_at_once),
        ON_ENGINES(test_stop_from_another_thread_at_any_moment),
        ON_ENGINES(test_a_server_runs_once),
        ON_ENGINES(test_the_engine_of_a_server_that_has_ended_is_known),
        ON_ENGINES(test_a_server_that_runs_takes_no_more_addresses),
        ON_ENGINES(test_a_server_that_never_ran_can_be_freed),
        ON_ENGINES(test_run_without_an_address_is_refused),
        ON_ENGINES(test_sigterm_stops_a_server_that_asked_for_it),
        ON_ENGINES(test_a_second_sigterm_behind_the_drain_does_not_end_the_process),
        ON_ENGINES(test_a_handler_of_the_application_is_in_force_behind_the_drain),
        ON_ENGINES(test_a_handler_that_is_set_behind_the_drain_stays),
        ON_ENGINES(test_a_port_in_use_is_named),
        ON_ENGINES(test_a_second_server_does_not_share_the_port),
        ON_ENGINES(test_wrong_addresses_are_refused_and_named),
        ON_ENGINES(test_several_addresses_are_served),
        ON_ENGINES(test_connections_are_spread_over_the_loops),
        cmocka_unit_test_prestate_setup_teardown(test_a_port_of_the_kernels_choice_is_nobody_elses, fixture_setup,
                                                 fixture_teardown, &epoll_engine),
        ON_ENGINES(test_stop_closes_idle_connections_with_fin),
        ON_ENGINES(test_stop_sends_what_is_queued_first),
        ON_ENGINES(test_a_drain_is_cut_off_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
