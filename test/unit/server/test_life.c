#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <uv.h>

#include "server/server.h"
#include "support/http_server.h"

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "home");
}

static void stop_server(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    serving_t *serving = user;
    (void)req;
    uvhttp_server_stop(serving->server);
    uvhttp_response_text(res, 200, "stopping");
}

static void expect_home(uint16_t port) {
    int fd = client_connect(port);
    client_send_text(fd, GET("/"));
    client_read_last(fd, 200);
}

/* --- registration errors --- */

static void test_conflicting_routes_are_both_named_by_listen_and_run(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/users/:id", home, NULL));
    assert_int_equal(uvhttp_server_error(serving->server), UVHTTP_OK);
    assert_null(uvhttp_get(serving->server, "/users/:name", home, NULL));
    assert_int_equal(uvhttp_server_error(serving->server), UVHTTP_E_ROUTE_CONFLICT);
    assert_non_null(uvhttp_get(serving->server, "/fine", home, NULL));
    for (int i = 0; i < 2; i++) {
        int status = i ? uvhttp_server_run(serving->server, "127.0.0.1:0")
                       : uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL);
        assert_int_equal(status, UVHTTP_E_ROUTE_CONFLICT);
        assert_non_null(strstr(uvhttp_server_error_text(serving->server), "/users/:id"));
        assert_non_null(strstr(uvhttp_server_error_text(serving->server), "/users/:name"));
    }
}

static void test_a_wrong_pattern_is_named_by_listen(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_string_equal(uvhttp_server_error_text(serving->server), "");
    assert_null(uvhttp_get(serving->server, "no/slash", home, NULL));
    uvhttp_group_t *group = uvhttp_group(serving->server, "/ok");
    assert_non_null(group);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_ROUTE_PATTERN);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "no/slash"));
}

static void test_routes_are_complete_after_listen(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/", home, NULL));
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_null(uvhttp_get(serving->server, "/late", home, NULL));
    assert_int_equal(uvhttp_server_error(serving->server), UVHTTP_E_STATE);
}

static void test_listen_says_which_address_is_in_use(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uint16_t port;
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &port), UVHTTP_OK);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(uvhttp_server_listen(serving->server, address, NULL), UVHTTP_E_ADDRESS_IN_USE);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), address));
    assert_int_equal(uvhttp_server_listen(serving->server, "nonsense", NULL), UVHTTP_E_ADDRESS);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "nonsense"));
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "expected host:port"));
    assert_int_equal(uvhttp_server_listen(serving->server, "unix:/no/such/directory/socket", NULL), UVHTTP_E_ADDRESS);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "No such file or directory"));
    assert_null(strstr(uvhttp_server_error_text(serving->server), "expected host:port"));
}

static const char *system_congestion_control(char *name, size_t size) {
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "re");
    if (!file || !fgets(name, (int)size, file)) skip();
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    return name;
}

/* Of the server's end of the connection `client`; this process has both. */
static void expect_accepted_with(int client, const char *expected) {
    struct sockaddr_in own, other;
    socklen_t size = sizeof own;
    assert_int_equal(getsockname(client, (struct sockaddr *)&own, &size), 0);
    for (int fd = 0; fd < 1024; fd++) {
        size = sizeof other;
        if (fd == client || getpeername(fd, (struct sockaddr *)&other, &size) != 0) continue;
        if (other.sin_family != AF_INET || other.sin_port != own.sin_port) continue;
        char name[16] = "";
        size = sizeof name;
        assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
        assert_string_equal(name, expected);
        return;
    }
    fail_msg("the server's end was not found");
}

static void test_accepted_sockets_have_the_congestion_control_of_the_configuration(void **state) {
    serving_t *serving = *state;
    char system[17];
    const char *const given[][2] = {
        {"", "reno"}, {"reno", "reno"}, {"system", system_congestion_control(system, sizeof system)}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        assert_int_equal(uvhttp_server_config_set(&serving->config, "tcp_congestion_control", given[i][0], NULL, 0),
                         UVHTTP_OK);
        serving_make(serving);
        assert_non_null(uvhttp_get(serving->server, "/", home, NULL));
        serving_start(serving);
        int client = client_connect(serving->port);
        client_send_text(client, GET("/"));
        assert_int_equal(client_read(client)->status, 200);
        expect_accepted_with(client, given[i][1]);
        serving_leave(serving, client);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

static void test_listen_says_which_congestion_control_is_unknown(void **state) {
    serving_t *serving = *state;
    assert_int_equal(uvhttp_server_config_set(&serving->config, "tcp_congestion_control", "carrier-pigeon", NULL, 0),
                     UVHTTP_OK);
    serving_make(serving);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_CONFIG);
    assert_string_equal(uvhttp_server_error_text(serving->server),
                        "cannot listen on \"127.0.0.1:0\": invalid configuration value: tcp_congestion_control "
                        "\"carrier-pigeon\" is not known to the kernel: "
                        "net.ipv4.tcp_available_congestion_control");
}

/* --- no server --- */

static int destroyed;

static uvhttp_flow_t pass(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    return UVHTTP_NEXT;
}

static void count_destroyed(void *user) {
    (void)user;
    destroyed++;
}

/* A program need not look at what uvhttp_server_new returns: a wrong environment is enough for NULL. */
static void test_a_server_that_could_not_be_made_is_refused_by_run_and_not_before(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.iteration_requests_max = 0;
    uvhttp_server_t *server = uvhttp_server_new(&config);
    assert_null(server);
    destroyed = 0;
    const uvhttp_middleware_t middleware = {.run = pass, .destroy = count_destroyed};
    assert_int_equal(uvhttp_use(server, middleware), UVHTTP_E_INVALID);
    uvhttp_route_t *route = uvhttp_get(server, "/", home, NULL);
    assert_null(route);
    assert_int_equal(uvhttp_route_use(route, middleware), UVHTTP_E_INVALID);
    assert_int_equal(destroyed, 2);
    assert_int_equal(uvhttp_route_options(route, NULL), UVHTTP_E_INVALID);
    uvhttp_group_t *group = uvhttp_group(server, "/api");
    assert_int_equal(uvhttp_group_use(uvhttp_group_group(group, "/v1"), middleware), UVHTTP_E_INVALID);
    assert_int_equal(destroyed, 3);
    assert_null(uvhttp_group_get(group, "/x", home, NULL));
    assert_int_equal(uvhttp_group_defaults(group, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_error(server), UVHTTP_E_INVALID);
    uvhttp_server_on_stopped(server, NULL, NULL);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_run(server, "127.0.0.1:0"), UVHTTP_E_INVALID);
    assert_true(*uvhttp_server_error_text(server));
    assert_null(uvhttp_server_engine(server, NULL));
    assert_int_equal(uvhttp_server_stop(server), UVHTTP_E_INVALID);
    uvhttp_server_free(server);
}

/* --- stopping --- */

static void start_home(serving_t *serving) {
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    serving_start(serving);
    expect_home(serving->port);
}

static void test_stop_from_another_thread_ends_run_and_may_be_repeated(void **state) {
    serving_t *serving = *state;
    start_home(serving);
    for (int i = 0; i < 3; i++) assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    serving_join(serving);
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
}

static void stop_at_any_message(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)message, (void)size;
    assert_int_equal(uvhttp_server_stop(user), UVHTTP_OK);
}

/* Nothing is logged under a lock of the server. */
static void test_the_log_callback_may_stop_the_server(void **state) {
    serving_t *serving = *state;
    uvhttp_log_level_t level = uvhttp_log_get_level();
    serving->config.drain_grace_ms = 1;
    start_home(serving);
    assert_int_equal(uvhttp_log_set_level(UVHTTP_LOG_LEVEL_DEBUG), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_callback(stop_at_any_message, serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    serving_join(serving);
    assert_int_equal(uvhttp_log_set_callback(NULL, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_log_set_level(level), UVHTTP_OK);
}

static void test_stop_in_a_handler_responds_and_closes(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_get(serving->server, "/stop", stop_server, serving);
    serving_start(serving);
    int idle = client_connect(serving->port), fd = client_ask(serving, GET("/stop"));
    client_response_t *response = client_read(fd);
    assert_int_equal(response->status, 200);
    assert_string_equal(response->body, "stopping");
    client_expect_end(fd);
    client_expect_end(idle);
    close(fd);
    close(idle);
    serving_join(serving);
}

static void test_an_idle_connection_is_not_cut_off_while_it_is_served(void **state) {
    serving_t *serving = *state;
    serving->config.drain_timeout = 0;
    serving->config.drain_idle_ms = 60000;
    serving_make(serving);
    serving_start(serving);
    int idle = client_connect(serving->port), new = client_connect(serving->port);
    client_send_text(idle, GET("/"));
    assert_int_equal(client_read(idle)->status, 404);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "connections_accepted") == 2);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "drain_cut_off"), 0);
    close(idle);
    close(new);
}

static void test_stop_before_run_makes_run_return(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    serving_start(serving);
    serving_join(serving);
}

/* Nothing reads standard error, and it accepts nothing any more. Returns what it was. */
static int choke_standard_error(int ends[2]) {
    int saved = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], "full", 4) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    dup2(ends[1], STDERR_FILENO);
    return saved;
}

static void give_back_standard_error(const int ends[2], int saved) {
    alarm(0);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[0]);
    close(ends[1]);
}

/* Such a server is never ready. The line of its end must not make run wait for longer than that of any other. */
static void test_stop_before_run_waits_for_standard_error_only_for_a_while(void **state) {
    serving_t *serving = *state;
    int ends[2], saved = choke_standard_error(ends);
    serving_make(serving);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    assert_int_equal(uvhttp_server_stop(serving->server), UVHTTP_OK);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    alarm(60); /* or the program ends */
    serving_run(serving);
    serving_join(serving);
    give_back_standard_error(ends, saved);
}

/* A supervisor whose reader is stuck must not keep the server, or its successor, from becoming ready. */
static void test_the_start_does_not_wait_for_standard_error(void **state) {
    serving_t *serving = *state;
    int ends[2], saved = choke_standard_error(ends);
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_INFO);
    alarm(60); /* or the program ends */
    serving_run(serving);
    expect_home(serving->port);
    serving_stop(serving);
    give_back_standard_error(ends, saved);
}

static void *stop_thread(void *server) {
    uvhttp_server_stop(server);
    return NULL;
}

/* The stop may come before, while and after the loops are made, and while the last of them ends. */
static void test_stop_may_race_with_the_start(void **state) {
    serving_t *serving = *state;
    serving->config.io_threads = 3;
    for (int i = 0; i < 30; i++) {
        serving_make(serving);
        serving_start(serving);
        pthread_t stoppers[2];
        for (int j = 0; j < 2; j++)
            assert_int_equal(pthread_create(&stoppers[j], NULL, stop_thread, serving->server), 0);
        serving_join(serving);
        for (int j = 0; j < 2; j++) pthread_join(stoppers[j], NULL);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
}

static void test_a_server_runs_once(void **state) {
    serving_t *serving = *state;
    start_home(serving);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_run(serving->server, "127.0.0.1:0"), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_counter(serving->server, "requests"), 1);
}

static void test_run_without_an_address_says_what_to_do(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "address"));
}

static void test_free_without_run_gives_the_port_back(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uint16_t port;
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &port), UVHTTP_OK);
    uvhttp_server_free(serving->server);
    serving_make(serving);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_int_equal(uvhttp_server_listen(serving->server, address, NULL), UVHTTP_OK);
    uvhttp_server_free(NULL);
}

static void test_the_engine_is_reported(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    const char *reason = "";
    assert_null(uvhttp_server_engine(serving->server, &reason));
    uvhttp_get(serving->server, "/", home, NULL);
    serving_start(serving);
    expect_home(serving->port);
    const char *name = serving->config.engine == UVHTTP_ENGINE_EPOLL ? "epoll" : "io_uring";
    assert_string_equal(uvhttp_server_engine(serving->server, &reason), name);
    assert_non_null(reason);
    assert_null(uvhttp_loop_uv()); /* this is no loop's thread */
}

/* --- attached --- */

typedef struct embedding {
    serving_t *serving;
    uv_loop_t *loop;
    int stopped;
    bool free_inside;
} embedding_t;

static void on_stopped(uvhttp_server_t *server, void *user) {
    embedding_t *embedding = user;
    embedding->stopped++;
    if (!embedding->free_inside) {
        uv_stop(embedding->loop);
        return;
    }
    uvhttp_server_free(server);
    embedding->serving->server = NULL;
}

static void *ask_and_stop(void *arg) {
    serving_t *serving = arg;
    expect_home(serving->port);
    uvhttp_server_stop(serving->server);
    return NULL;
}

static void serve_attached(serving_t *serving, bool free_inside) {
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    embedding_t embedding = {.serving = serving, .loop = &loop, .free_inside = free_inside};
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    uvhttp_server_on_stopped(serving->server, on_stopped, &embedding);
    assert_int_equal(uvhttp_server_attach(serving->server, &loop), UVHTTP_OK);
    assert_int_equal(uvhttp_server_attach(serving->server, &loop), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_run(serving->server, "127.0.0.1:0"), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "attached"));
    assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STARTING); /* nothing listens */
    assert_non_null(uvhttp_get(serving->server, "/more", home, NULL));
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_E_STATE);
    pthread_t client;
    assert_int_equal(pthread_create(&client, NULL, ask_and_stop, serving), 0);
    while (embedding.stopped == 0) uv_run(&loop, UV_RUN_DEFAULT);
    pthread_join(client, NULL);
    if (!free_inside) {
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(embedding.stopped, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_an_attached_server_is_freed_in_on_stopped(void **state) {
    serve_attached(*state, true);
}

static void test_an_attached_server_is_freed_after_on_stopped(void **state) {
    serve_attached(*state, false);
}

static void test_attach_comes_before_listen(void **state) {
    serving_t *serving = *state;
    uv_loop_t loop;
    uv_loop_init(&loop);
    serving_make(serving);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_server_attach(serving->server, &loop), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_server_attach(serving->server, NULL), UVHTTP_E_INVALID);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static atomic_bool all_listen;

/* As the thread of an admin listener does. Returns how often there were fewer than before. */
static void *read_addresses(void *arg) {
    const serving_t *serving = arg;
    char text[4096];
    size_t size = 0;
    uintptr_t fewer = 0;
    while (!atomic_load(&all_listen)) {
        uvhttp__tcp_server_addresses(serving->server->tcp_server, text, sizeof text);
        fewer += strlen(text) < size;
        size = strlen(text);
    }
    return (void *)fewer;
}

static void test_other_threads_read_the_addresses_of_an_attached_server_that_gets_more(void **state) {
    serving_t *serving = *state;
    uv_loop_t loop;
    pthread_t reader;
    void *fewer;
    assert_int_equal(uv_loop_init(&loop), 0);
    embedding_t embedding = {.serving = serving, .loop = &loop, .free_inside = true};
    serving_make(serving);
    uvhttp_server_on_stopped(serving->server, on_stopped, &embedding);
    assert_int_equal(uvhttp_server_attach(serving->server, &loop), UVHTTP_OK);
    atomic_store(&all_listen, false);
    assert_int_equal(pthread_create(&reader, NULL, read_addresses, serving), 0);
    for (int i = 0; i < 64; i++)
        assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    atomic_store(&all_listen, true);
    pthread_join(reader, &fewer);
    assert_null(fewer);
    uvhttp_server_stop(serving->server);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(embedding.stopped, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        ON_EACH(test_conflicting_routes_are_both_named_by_listen_and_run),
        ON_EACH(test_a_wrong_pattern_is_named_by_listen),
        ON_EACH(test_routes_are_complete_after_listen),
        ON_EACH(test_listen_says_which_address_is_in_use),
        ON_EACH(test_accepted_sockets_have_the_congestion_control_of_the_configuration),
        ON_EACH(test_listen_says_which_congestion_control_is_unknown),
        cmocka_unit_test(test_a_server_that_could_not_be_made_is_refused_by_run_and_not_before),
        ON_EACH(test_stop_from_another_thread_ends_run_and_may_be_repeated),
        ON_EACH(test_the_log_callback_may_stop_the_server),
        ON_EACH(test_stop_in_a_handler_responds_and_closes),
        ON_EACH(test_an_idle_connection_is_not_cut_off_while_it_is_served),
        ON_EACH(test_stop_before_run_makes_run_return),
        ON_EACH(test_stop_before_run_waits_for_standard_error_only_for_a_while),
        ON_EACH(test_the_start_does_not_wait_for_standard_error),
        ON_EACH(test_stop_may_race_with_the_start),
        ON_EACH(test_a_server_runs_once),
        ON_EACH(test_run_without_an_address_says_what_to_do),
        ON_EACH(test_free_without_run_gives_the_port_back),
        ON_EACH(test_the_engine_is_reported),
        ON_EACH(test_an_attached_server_is_freed_in_on_stopped),
        ON_EACH(test_an_attached_server_is_freed_after_on_stopped),
        ON_EACH(test_attach_comes_before_listen),
        ON_EACH(test_other_threads_read_the_addresses_of_an_attached_server_that_gets_more),
    };
    return RUN_TABLE(tests);
}
