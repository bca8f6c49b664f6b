#include "support/http_server.h"

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "home");
}

static void begin(serving_t *serving) {
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    serving_start(serving);
}

static void ask(int fd, const char *request, int status) {
    client_send_text(fd, request);
    assert_int_equal(client_read(fd)->status, status);
}

static void ask_all_kinds(serving_t *serving) {
    int fd = client_connect(serving->port);
    for (int i = 0; i < 50; i++) ask(fd, GET("/"), 200);
    for (int i = 0; i < 5; i++) ask(fd, GET("/nowhere"), 404);
    ask(fd, "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 405);
    close(fd);
    for (int i = 0; i < 3; i++) {
        fd = client_ask(serving, "GET / HTTP/1.1\r\n\r\n");
        client_read_last(fd, 400);
    }
}

static uvhttp_metrics_t metrics_after_stop(serving_t *serving) {
    uvhttp_metrics_t metrics;
    serving_stop(serving);
    uvhttp_server_metrics(serving->server, &metrics);
    return metrics;
}

static void test_every_response_is_counted_and_measured(void **state) {
    serving_t *serving = *state;
    begin(serving);
    ask_all_kinds(serving);
    serving_stop(serving);
    uvhttp_metrics_t metrics;
    uvhttp_server_metrics(serving->server, &metrics); /* also after the end */
    assert_int_equal(metrics.responses_2xx, 50);
    assert_int_equal(metrics.responses_4xx, 9);
    assert_int_equal(metrics.responses_1xx + metrics.responses_3xx + metrics.responses_5xx, 0);
    assert_int_equal(metrics.response_time_count, 59);
    assert_int_equal(metrics.connections_accepted, 4);
    assert_int_equal(metrics.connections_active, 0);
    assert_true(metrics.bytes_received > 50 * strlen(GET("/")));
    assert_true(metrics.bytes_sent > metrics.bytes_received);
    assert_true(metrics.response_time_p50_ns > 0);
    assert_true(metrics.response_time_p50_ns <= metrics.response_time_p90_ns);
    assert_true(metrics.response_time_p90_ns <= metrics.response_time_p99_ns);
    assert_true(metrics.response_time_p99_ns <= metrics.response_time_p999_ns);
    assert_true(metrics.response_time_max_ns >= metrics.response_time_p50_ns);
    assert_true(metrics.response_time_mean_ns > 0);
    assert_true(metrics.response_time_mean_ns <= (double)metrics.response_time_max_ns);
}

static void test_a_pipelined_batch_is_measured_request_by_request(void **state) {
    serving_t *serving = *state;
    begin(serving);
    int fd = client_ask(serving, GET("/") GET("/") GET("/") GET("/"));
    for (int i = 0; i < 4; i++) assert_int_equal(client_read(fd)->status, 200);
    close(fd);
    uvhttp_metrics_t metrics = metrics_after_stop(serving);
    assert_int_equal(metrics.requests, 4);
    assert_int_equal(metrics.response_time_count, 4);
}

static void test_the_histogram_can_be_switched_off_and_counters_not(void **state) {
    serving_t *serving = *state;
    serving->config.performance.enable_statistics = false;
    begin(serving);
    ask_all_kinds(serving);
    uvhttp_metrics_t metrics = metrics_after_stop(serving);
    assert_int_equal(metrics.response_time_count, 0);
    assert_int_equal(metrics.responses_2xx, 50);
}

typedef struct seen {
    unsigned all, named, repeated;
    const char *previous;
} seen_t;

static void see(const char *name, const char *help, uint64_t value, void *user) {
    seen_t *seen = user;
    seen->all++;
    assert_true(strlen(name) > 0 && strlen(help) > 0);
    assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_"), strlen(name));
    if (strcmp(name, "rejected_http_host") == 0) {
        seen->named++;
        assert_int_equal(value, 3);
    }
}

static void test_refusals_are_counted_by_reason(void **state) {
    serving_t *serving = *state;
    begin(serving);
    ask_all_kinds(serving);
    serving_stop(serving);
    seen_t seen = {0};
    uvhttp_server_counters(serving->server, see, &seen);
    assert_int_equal(seen.named, 1);
    assert_true(seen.all > 60);
    assert_int_equal(uvhttp_server_counter(serving->server, "rejected_http_host"), 3);
    assert_int_equal(uvhttp_server_counter(serving->server, "requests"), 56);
    assert_int_equal(uvhttp_server_counter(serving->server, "no_such_counter"), 0);
}

/* For ThreadSanitizer: figures and engine are asked for while the loops are made and while they serve. */
static void test_figures_may_be_read_at_any_time(void **state) {
    serving_t *serving = *state;
    serving->config.io_threads = 2;
    begin(serving);
    uvhttp_metrics_t metrics;
    const char *reason;
    WAIT_UNTIL((uvhttp_server_metrics(serving->server, &metrics), uvhttp_server_engine(serving->server, &reason)));
    int fd = client_connect(serving->port);
    for (uint64_t i = 1; i <= 50; i++) {
        ask(fd, GET("/"), 200);
        uvhttp_server_metrics(serving->server, &metrics);
        assert_true(metrics.requests == i);
    }
    serving_leave(serving, fd);
    assert_non_null(uvhttp_server_engine(serving->server, &reason));
}

/* Counters of a server that never ran are there, and zero. */
static void test_metrics_before_run_are_zero(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_metrics_t metrics;
    memset(&metrics, 0xff, sizeof metrics);
    uvhttp_server_metrics(serving->server, &metrics);
    assert_int_equal(metrics.requests + metrics.response_time_count + metrics.connections_active, 0);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(test_every_response_is_counted_and_measured,
                       test_a_pipelined_batch_is_measured_request_by_request,
                       test_the_histogram_can_be_switched_off_and_counters_not, test_refusals_are_counted_by_reason,
                       test_figures_may_be_read_at_any_time, test_metrics_before_run_are_zero);
}
