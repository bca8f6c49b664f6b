/* Coroutine routes whose client goes, or whose server stops, at every place where a coroutine can wait: nothing is
 * lost, and everything is unwound in order. */
/* Needs: coroutines. */
#include "exchange/coroutine_routes.h"

#include <uv.h>

static int wait_sleep(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    return uvhttp_coro_sleep(3600000);
}

static int wait_yield(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int status;
    while ((status = uvhttp_coro_yield()) == UVHTTP_OK) continue;
    return status;
}

static int wait_body(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)res;
    uvhttp_str_t piece;
    int status;
    while ((status = uvhttp_coro_read_body(req, &piece, UVHTTP_NEVER)) == UVHTTP_OK) continue;
    return status;
}

static int wait_write(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req;
    static char piece[PIECE];
    int status = uvhttp_response_begin(res, 200, "text/plain", UVHTTP_SIZE_UNKNOWN);
    while (status == UVHTTP_OK) status = uvhttp_response_write(res, piece, sizeof piece);
    return status;
}

static int wait_work(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    pthread_t there;
    return uvhttp_coro_work(block, &there);
}

static void sleep_long(void *arg) {
    *(int *)arg = uvhttp_coro_sleep(3600000);
    cleanups += *(int *)arg == UVHTTP_E_ABORTED ? 0 : 100;
}

static int wait_join(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static int statuses[3];
    uvhttp_coro_t *children[3];
    for (int i = 0; i < 3; i++)
        if (uvhttp_coro_spawn(sleep_long, &statuses[i], &children[i]) != UVHTTP_OK) abort();
    int status = uvhttp_coro_join(children[1], UVHTTP_NEVER); /* it has been cancelled, too */
    return status == UVHTTP_OK ? uvhttp_coro_sleep(3600000) : status;
}

/* At its end a coroutine waits for those that it has not joined. */
static void slow_work(void *arg) {
    pthread_t there;
    *(int *)arg = uvhttp_coro_work(block, &there);
}

static int wait_children(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static int status;
    uvhttp_coro_t *child;
    if (uvhttp_coro_spawn(slow_work, &status, &child) != UVHTTP_OK) abort();
    return uvhttp_coro_sleep(3600000);
}

static void sleep_in_cleanup(void *arg) {
    (void)arg;
    waited_status = uvhttp_coro_sleep(3600000);
    cleanups++;
}

static int wait_cleanup(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    if (uvhttp_coro_defer(sleep_in_cleanup, NULL) != UVHTTP_OK) abort();
    return 1; /* the cleanup sets the status */
}

static int wait_descriptor(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    open_pair();
    return uvhttp_coro_wait_fd(ends[0], UVHTTP_READABLE, 3600000);
}

static int wait_read(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    char byte;
    size_t size;
    open_pair();
    return uvhttp_coro_read(ends[0], &byte, 1, &size, UVHTTP_NEVER);
}

static int wait_peer_write(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    static char piece[PIECE];
    int status;
    open_pair();
    while ((status = uvhttp_coro_write(ends[0], piece, sizeof piece, UVHTTP_NEVER)) == UVHTTP_OK) continue;
    return status;
}

static char full_address[64];

/* Nobody accepts there, and nobody more has space. */
static int full_listener(int clients[3]) {
    struct sockaddr_in address;
    int fd = loopback_listener(0, &address);
    for (int i = 0; i < 3; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(clients[i], (struct sockaddr *)&address, sizeof address);
    }
    snprintf(full_address, sizeof full_address, "127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static int wait_connect(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int fd;
    return uvhttp_coro_connect(full_address, UVHTTP_NEVER, &fd);
}

static int wait_for_response(const char *address) {
    char url[96];
    uvhttp_client_response_t *response;
    snprintf(url, sizeof url, "http://%s/", address);
    int status = uvhttp_coro_request(&(uvhttp_client_request_t){.url = url, .timeout_ms = UVHTTP_NEVER}, &response);
    if (response) abort();
    return status;
}

static int wait_request_connect(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    return wait_for_response(full_address);
}

/* The kernel accepts for a server that does not. */
static int wait_request(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    char text[32];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0) abort();
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) abort();
    snprintf(text, sizeof text, "127.0.0.1:%u", ntohs(address.sin_port));
    int status = wait_for_response(text);
    close(fd);
    return status;
}

static int wait_send(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    uvhttp_coro_channel_t *channel = open_channel();
    int status, number = 0;
    while ((status = uvhttp_coro_channel_send(channel, &number, UVHTTP_NEVER)) == UVHTTP_OK) number++;
    return number == 2 ? status : 1;
}

static int wait_receive(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req, (void)res;
    int number;
    return uvhttp_coro_channel_receive(open_channel(), &number, UVHTTP_NEVER);
}

typedef struct point {
    const char *name;
    int (*wait)(uvhttp_request_t *req, uvhttp_response_t *res);
    bool blocks; /* on a thread that the test holds up */
    int cleanups;
} point_t;

static const point_t points[] = {
    {"sleep", wait_sleep, false, 1},
    {"yield", wait_yield, false, 1},
    {"body", wait_body, false, 1},
    {"write", wait_write, false, 1},
    {"work", wait_work, true, 1},
    {"join", wait_join, false, 1},
    {"children", wait_children, true, 1},
    {"cleanup", wait_cleanup, false, 2},
    {"descriptor", wait_descriptor, false, 1},
    {"connect", wait_connect, false, 1},
    {"request's connect", wait_request_connect, false, 1},
    {"request's response", wait_request, false, 1},
    {"read", wait_read, false, 1},
    {"peer's write", wait_peer_write, false, 1},
    {"channel's send", wait_send, false, 1},
    {"channel's receive", wait_receive, false, 1},
};

static void wait_at(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    const point_t *point = user;
    uvhttp_response_on_done(res, on_done, NULL);
    if (uvhttp_coro_defer(on_cleanup, NULL) != UVHTTP_OK) abort();
    reached++;
    int status = point->wait(req, res);
    if (status <= 0) waited_status = status;
    if (uvhttp_request_path(req).size != 2) abort(); /* it is readable */
    uvhttp_response_text(res, 200, "nobody reads this");
}

/* Only where the body is waited for, it is not whole: a FIN behind bytes that nobody reads is not seen. */
static int ask_point(serving_t *serving, const point_t *point) {
    return client_ask(serving, point->wait == wait_body
                                   ? "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nbody"
                                   : "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
}

static void make_point(serving_t *serving, const point_t *point) {
    serving_make(serving);
    uvhttp_route_options(
        uvhttp_route(serving->server, UVHTTP_POST, "/p", wait_at, (void *)(uintptr_t)point, UVHTTP_EXEC_COROUTINE),
        &(uvhttp_route_options_t){.stream_body = point->wait == wait_body});
}

static void test_a_client_that_goes_at_any_wait_loses_nothing(void **state) {
    serving_t *serving = *state;
    int clients[3], listener = full_listener(clients);
    serving->config.write_queue_max = 2 * PIECE;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const point_t *point = &points[i];
        reset();
        gate = point->blocks;
        make_point(serving, point);
        serving_start(serving);
        int fd = ask_point(serving, point);
        WAIT_UNTIL(reached == 1);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "coroutines_waited") == 1);
        close(fd);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "connections_closed") == 1);
        gate = false;
        WAIT_UNTIL(dones == 1);
        print_message("%s: %s\n", point->name, uvhttp_error_name(waited_status));
        bool reported = waited_status == UVHTTP_E_ABORTED || waited_status == UVHTTP_E_HTTP_BODY_INCOMPLETE;
        assert_true(reported);
        assert_int_equal(cleanups, point->cleanups);
        assert_int_equal(done_status, UVHTTP_E_ABORTED);
        assert_true(done_at > cleanup_at); /* the hooks of the end come behind the coroutine's */
        serving_stop(serving);
        assert_int_equal(uvhttp_server_counter(serving->server, "aborted"), 1);
        assert_int_equal(dones, 1);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    for (int i = 0; i < 3; i++) close(clients[i]);
    close(listener);
}

static int wait_behind_end(uvhttp_request_t *req, uvhttp_response_t *res) {
    (void)req;
    int status = uvhttp_response_begin(res, 200, "text/plain", 5);
    if (status == UVHTTP_OK) status = uvhttp_response_write(res, "whole", 5);
    if (status == UVHTTP_OK) status = uvhttp_response_end(res);
    return status == UVHTTP_OK ? uvhttp_coro_sleep(3600000) : 1;
}

static void test_a_client_that_goes_with_its_whole_response_has_not_aborted(void **state) {
    static const point_t point = {.name = "behind the end", .wait = wait_behind_end};
    serving_t *serving = *state;
    reset();
    make_point(serving, &point);
    serving_start(serving);
    int fd = ask_point(serving, &point);
    assert_int_equal(client_read(fd)->status, 200);
    close(fd);
    WAIT_UNTIL(dones == 1);
    assert_int_equal(waited_status, UVHTTP_E_ABORTED);
    assert_int_equal(done_status, UVHTTP_OK);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_counter(serving->server, "aborted"), 0);
    assert_int_equal(uvhttp_server_counter(serving->server, "responses_2xx"), 1);
}

static void test_a_stop_unwinds_whoever_waits(void **state) {
    serving_t *serving = *state;
    int clients[3], listener = full_listener(clients);
    serving->config.drain_timeout = 0;
    serving->config.write_queue_max = 2 * PIECE;
    for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
        const point_t *point = &points[i];
        if (point->blocks) continue; /* a stop waits for them */
        reset();
        make_point(serving, point);
        serving_start(serving);
        int fd = ask_point(serving, point);
        WAIT_UNTIL(uvhttp_server_counter(serving->server, "coroutines_waited") == 1);
        serving_stop(serving);
        assert_int_equal(dones, 1);
        assert_int_equal(cleanups, point->cleanups);
        assert_int_equal(done_status, UVHTTP_E_ABORTED);
        close(fd);
        uvhttp_server_free(serving->server);
        serving->server = NULL;
    }
    for (int i = 0; i < 3; i++) close(clients[i]);
    close(listener);
}

static atomic_int after_status;

static void wait_for_stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    if (uvhttp_coro_wake_on_stop() != UVHTTP_OK) abort();
    reached++;
    waited_status = uvhttp_coro_sleep(3600000);
    after_status = uvhttp_coro_sleep(1); /* it is reported once */
    uvhttp_response_text(res, 200, uvhttp_response_stopping(res) ? "stopping" : "not stopping");
}

static void wait_on(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, uvhttp_coro_sleep(300) == UVHTTP_OK ? "not told" : "told");
}

static void test_a_stop_wakes_who_has_asked_for_it_and_nobody_else(void **state) {
    serving_t *serving = *state;
    serving->config.drain_timeout = 3600;
    begin(serving, "/wait", wait_for_stop);
    assert_non_null(uvhttp_route(serving->server, UVHTTP_ANY, "/other", wait_on, NULL, UVHTTP_EXEC_COROUTINE));
    assert_int_equal(uvhttp_coro_wake_on_stop(), UVHTTP_E_STATE);
    serving_start(serving);
    int fd = client_ask(serving, GET("/wait")), other = client_ask(serving, GET("/other"));
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "coroutines_waited") == 2);
    uvhttp_server_stop(serving->server);
    assert_string_equal(client_read(fd)->body, "stopping");
    assert_int_equal(waited_status, UVHTTP_E_STOPPING);
    assert_int_equal(after_status, UVHTTP_OK);
    assert_string_equal(client_read(other)->body, "not told");
    close(fd);
    close(other);
    serving_join(serving);
}

static void count_run(void *arg) {
    ++*(int *)arg;
}

static void work_at_the_stop(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    int runs = 0;
    uvhttp_coro_t *child;
    reached++;
    while (!uvhttp_response_stopping(res) && uvhttp_coro_sleep(1) == UVHTTP_OK) continue;
    if (uvhttp_coro_wake_on_stop() != UVHTTP_OK) abort();
    bool right = uvhttp_coro_work(count_run, &runs) == UVHTTP_OK &&
                 uvhttp_coro_spawn(count_run, &runs, &child) == UVHTTP_OK &&
                 uvhttp_coro_join(child, UVHTTP_NEVER) == UVHTTP_OK && runs == 2;
    after_status = uvhttp_coro_sleep(1);
    uvhttp_response_text(res, 200, right ? "right" : "wrong");
}

static void test_a_stop_does_not_affect_work_and_children(void **state) {
    serving_t *serving = *state;
    reached = 0;
    begin(serving, "/work", work_at_the_stop);
    serving_start(serving);
    int fd = client_ask(serving, GET("/work"));
    WAIT_UNTIL(reached == 1);
    uvhttp_server_stop(serving->server);
    assert_string_equal(client_read(fd)->body, "right");
    assert_int_equal(after_status, UVHTTP_E_STOPPING);
    close(fd);
    serving_join(serving);
}

/* --- attached --- */

static int ended, ended_before_the_server;

static void sleep_until_aborted(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
    reached++;
    (void)uvhttp_coro_sleep(3600000);
    ended++;
}

static void on_attached_stopped(uvhttp_server_t *server, void *user) {
    (void)user;
    ended_before_the_server = ended;
    uvhttp_server_free(server);
}

/* Its last connection closes in the iteration in which the coroutine is to notice that. */
static void test_an_attached_server_stops_when_its_coroutines_have_ended(void **state) {
    serving_t *serving = *state;
    uv_loop_t loop;
    reached = ended = ended_before_the_server = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    uvhttp_server_t *server = uvhttp_server_new(&serving->config);
    assert_non_null(uvhttp_route(server, UVHTTP_GET, "/", sleep_until_aborted, NULL, UVHTTP_EXEC_COROUTINE));
    assert_int_equal(uvhttp_server_attach(server, &loop), UVHTTP_OK);
    uvhttp_server_on_stopped(server, on_attached_stopped, NULL);
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    int fd = client_ask(serving, GET("/"));
    while (reached == 0) uv_run(&loop, UV_RUN_ONCE);
    uvhttp_server_stop(server);
    client_reset(fd);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(ended, 1);
    assert_int_equal(ended_before_the_server, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    return RUN_ON_EACH(test_a_client_that_goes_at_any_wait_loses_nothing,
                       test_a_client_that_goes_with_its_whole_response_has_not_aborted,
                       test_a_stop_unwinds_whoever_waits, test_a_stop_wakes_who_has_asked_for_it_and_nobody_else,
                       test_a_stop_does_not_affect_work_and_children,
                       test_an_attached_server_stops_when_its_coroutines_have_ended);
}
