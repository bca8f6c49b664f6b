#include <uvhttp/metrics.h>

#include "obs/series.h"
#include "server/server.h"
#include "support/failing_allocator.h"
#include "support/http_server.h"

#define LATE_MS UINT64_C(30)
#define METHOD(method, target) method " " target " HTTP/1.1\r\nHost: a\r\n\r\n"

static void home(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "home");
}

static void break_down(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 503, "not now");
}

static void echo(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    uvhttp_str_t body = uvhttp_request_body(req);
    uvhttp_response_send(res, 200, "text/plain", body.data, body.size);
}

static void stream(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_begin(res, 200, "text/plain", 6);
    uvhttp_response_write(res, "abc", 3);
    uvhttp_response_write(res, "def", 3);
    uvhttp_response_end(res);
}

static _Atomic(uvhttp_deferred_t *) waiting;

static void wait(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    waiting = uvhttp_response_defer(res);
}

static void begin(serving_t *serving) {
    serving->config.metrics = true;
    waiting = NULL;
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    uvhttp_get(serving->server, "/users/:id", home, NULL);
    uvhttp_get(serving->server, "/down", break_down, NULL);
    uvhttp_get(serving->server, "/stream", stream, NULL);
    uvhttp_get(serving->server, "/wait", wait, NULL);
    const uvhttp_route_options_t late = {.response_timeout_ms = LATE_MS};
    uvhttp_route_options(uvhttp_get(serving->server, "/late", wait, NULL), &late);
    uvhttp_post(serving->server, "/echo", echo, NULL);
    uvhttp_route(serving->server, UVHTTP_GET, "/worker", home, NULL, UVHTTP_EXEC_WORKER);
    serving_start(serving);
}

static void ask(int fd, const char *request, int status) {
    client_send_text(fd, request);
    assert_int_equal(client_read(fd)->status, status);
}

/* --- finding a series --- */

typedef struct wanted {
    const char *route, *method;
    uint32_t status;
    const char *error_type;
} wanted_t;

static uint64_t sum(const uint64_t *counts, size_t size) {
    uint64_t all = 0;
    for (size_t i = 0; i < size; i++) all += counts[i];
    return all;
}

/* Asserts that its histograms agree with its count. */
static const uvhttp_metrics_series_t *find(const uvhttp_metrics_snapshot_t *snapshot, wanted_t wanted) {
    const uvhttp_metrics_series_t *found = NULL;
    for (uint32_t i = 0; i < snapshot->series_count; i++) {
        const uvhttp_metrics_series_t *series = uvhttp_metrics_series(snapshot, i);
        assert_int_equal(sum(series->duration_counts, snapshot->duration_bound_count + 1), series->count);
        assert_int_equal(sum(series->request_body_counts, snapshot->size_bound_count + 1), series->count);
        assert_int_equal(sum(series->response_body_counts, snapshot->size_bound_count + 1), series->count);
        if (strcmp(series->route, wanted.route) != 0 || strcmp(series->method, wanted.method) != 0) continue;
        if (series->status != wanted.status || strcmp(series->error_type, wanted.error_type) != 0) continue;
        assert_null(found);
        found = series;
    }
    return found;
}

static uint64_t count_of(const uvhttp_metrics_snapshot_t *snapshot, wanted_t wanted) {
    const uvhttp_metrics_series_t *series = find(snapshot, wanted);
    return series ? series->count : 0;
}

static uint64_t count_all(const uvhttp_metrics_snapshot_t *snapshot) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < snapshot->series_count; i++) all += uvhttp_metrics_series(snapshot, i)->count;
    return all;
}

static uvhttp_metrics_snapshot_t *stop_and_take(serving_t *serving) {
    serving_stop(serving);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    assert_non_null(snapshot);
    assert_int_equal(snapshot->active_requests, 0);
    return snapshot;
}

/* --- what is counted --- */

static void test_requests_are_counted_by_route_method_and_status(void **state) {
    serving_t *serving = *state;
    begin(serving);
    int fd = client_connect(serving->port);
    for (int i = 0; i < 5; i++) ask(fd, GET("/"), 200);
    ask(fd, GET("/users/1"), 200);
    ask(fd, GET("/users/2"), 200);
    ask(fd, GET("/nowhere"), 404);
    ask(fd, METHOD("DELETE", "/"), 405);
    ask(fd, METHOD("BREW", "/pot"), 404);
    ask(fd, GET("/down"), 503);
    ask(fd, GET("/stream"), 200);
    ask(fd, GET("/worker"), 200);
    ask(fd,
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 300\r\n\r\n"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
        200);
    close(fd);
    client_read_last(client_ask(serving, "GET / HTTP/1.1\r\n\r\n"), 400);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_int_equal(count_of(snapshot, (wanted_t){"/", "GET", 200, ""}), 5);
    assert_int_equal(count_of(snapshot, (wanted_t){"/users/:id", "GET", 200, ""}), 2);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "GET", 404, ""}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "DELETE", 405, ""}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "_OTHER", 404, ""}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"/down", "GET", 503, "503"}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"/stream", "GET", 200, ""}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"/worker", "GET", 200, ""}), 1);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "GET", 400, "http_host"}), 1);
    const uvhttp_metrics_series_t *echoed = find(snapshot, (wanted_t){"/echo", "POST", 200, ""});
    assert_int_equal(echoed->request_body_sum, 300);
    assert_int_equal(echoed->request_body_counts[2], 1);
    assert_int_equal(echoed->response_body_sum, 300);
    assert_string_equal(echoed->protocol, "1.1");
    assert_string_equal(echoed->scheme, "http");
    assert_int_equal(find(snapshot, (wanted_t){"/stream", "GET", 200, ""})->response_body_sum, 6);
    assert_int_equal(count_all(snapshot), 15);
    uvhttp_metrics_free(snapshot);
}

static void test_a_client_that_goes_is_counted_with_the_reason(void **state) {
    serving_t *serving = *state;
    begin(serving);
    int fd = client_ask(serving, GET("/wait"));
    WAIT_UNTIL(waiting);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    assert_int_equal(snapshot->active_requests, 1);
    assert_int_equal(count_all(snapshot), 0);
    uvhttp_metrics_free(snapshot);
    client_reset(fd);
    WAIT_UNTIL(uvhttp_server_counter(serving->server, "aborted") == 1);
    assert_int_equal(uvhttp_deferred_text(waiting, 200, "too late"), UVHTTP_E_ABORTED);
    uvhttp_deferred_release(waiting);
    snapshot = stop_and_take(serving);
    assert_int_equal(count_all(snapshot), 1);
    const uvhttp_metrics_series_t *series = uvhttp_metrics_series(snapshot, 0);
    assert_string_equal(series->route, "/wait");
    assert_int_equal(series->status, 0);
    assert_true(series->error_type[0] >= 'a' && series->error_type[0] <= 'z');
    uvhttp_metrics_free(snapshot);
}

/* The refusal is an exchange of its own, because the handler's is still another thread's. */
static void test_a_response_that_is_late_is_counted_for_its_route_with_its_duration(void **state) {
    serving_t *serving = *state;
    begin(serving);
    int fd = client_connect(serving->port);
    ask(fd, GET("/late"), 503);
    close(fd);
    assert_int_equal(uvhttp_deferred_text(waiting, 200, "too late"), UVHTTP_E_ABORTED);
    uvhttp_deferred_release(waiting);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_int_equal(count_all(snapshot), 1);
    const uvhttp_metrics_series_t *series = find(snapshot, (wanted_t){"/late", "GET", 503, "response_timeout"});
    assert_non_null(series);
    assert_in_range(series->duration_sum_ns, LATE_MS * 1000000, UINT64_C(60000000000));
    assert_int_equal(snapshot->response_time_count, 1);
    assert_true(uvhttp_metrics_response_time(snapshot, 0)->high_ns >= LATE_MS * 1000000);
    uvhttp_metrics_free(snapshot);
}

static void test_pipelined_requests_are_counted_one_by_one_over_all_loops(void **state) {
    serving_t *serving = *state;
    serving->config.io_threads = 3;
    begin(serving);
    for (int i = 0; i < 20; i++) {
        int fd = client_ask(serving, GET("/") GET("/users/7") GET("/") GET("/nowhere"));
        for (int j = 0; j < 4; j++) assert_int_equal(client_read(fd)->status, j == 3 ? 404 : 200);
        close(fd);
    }
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_int_equal(count_of(snapshot, (wanted_t){"/", "GET", 200, ""}), 40);
    assert_int_equal(count_of(snapshot, (wanted_t){"/users/:id", "GET", 200, ""}), 20);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "GET", 404, ""}), 20);
    assert_int_equal(snapshot->series_count, 3);
    assert_int_equal(snapshot->loop_count, 3);
    uint64_t requests = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const uvhttp_metrics_loop_t *loop = uvhttp_metrics_loop(snapshot, i);
        assert_int_equal(loop->index, i);
        assert_true(loop->cpu_ns > 0); /* of threads that have ended */
        assert_int_equal(loop->busy_ns > 0, loop->iterations > 0);
        requests += loop->requests;
    }
    assert_int_equal(requests, 80);
    uvhttp_metrics_free(snapshot);
}

static void test_requests_beyond_the_maximum_of_series_are_counted_together(void **state) {
    serving_t *serving = *state;
    serving->config.metrics_series_max = 2;
    begin(serving);
    int fd = client_connect(serving->port);
    ask(fd, GET("/"), 200);
    ask(fd, GET("/nowhere"), 404);
    for (int i = 0; i < 3; i++) ask(fd, GET("/down"), 503);
    ask(fd, GET("/users/1"), 200);
    ask(fd, GET("/"), 200);
    close(fd);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_int_equal(snapshot->series_count, 3);
    assert_int_equal(count_of(snapshot, (wanted_t){"/", "GET", 200, ""}), 2);
    assert_int_equal(count_of(snapshot, (wanted_t){"", "", 0, ""}), 4);
    assert_true(find(snapshot, (wanted_t){"", "", 0, ""})->overflow);
    assert_int_equal(uvhttp_server_counter(serving->server, "metrics_series_overflows"), 4);
    uvhttp_metrics_free(snapshot);
}

static void test_without_metrics_there_are_counters_and_no_series(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_get(serving->server, "/", home, NULL);
    serving_start(serving);
    client_read_last(client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_false(snapshot->recording);
    assert_int_equal(snapshot->series_count, 0);
    assert_int_equal(uvhttp_metrics_loop(snapshot, 0)->requests, 1);
    assert_int_equal(snapshot->response_time_count, 1);
    const uvhttp_metrics_bucket_t *bucket = uvhttp_metrics_response_time(snapshot, 0);
    assert_true(bucket->count == 1 && bucket->low_ns <= bucket->high_ns);
    uvhttp_metrics_free(snapshot);
}

/* --- reading --- */

static void test_elements_beyond_the_last_are_null(void **state) {
    serving_t *serving = *state;
    begin(serving);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    assert_int_equal(snapshot->struct_size, sizeof *snapshot);
    assert_null(uvhttp_metrics_metric(snapshot, snapshot->metric_count));
    assert_null(uvhttp_metrics_loop(snapshot, snapshot->loop_count));
    assert_null(uvhttp_metrics_series(snapshot, snapshot->series_count));
    assert_null(uvhttp_metrics_response_time(snapshot, snapshot->response_time_count));
    assert_null(uvhttp_metrics_metric(NULL, 0));
    assert_null(uvhttp_metrics_process(NULL));
    assert_null(uvhttp_metrics_take(NULL));
    assert_null(uvhttp_metrics_text(NULL, UVHTTP_METRICS_JSON, NULL));
    uvhttp_metrics_free(NULL);
    uvhttp_metrics_text_free(NULL);
    uvhttp_metrics_free(snapshot);
}

static void test_a_server_that_has_not_run_has_a_snapshot(void **state) {
    serving_t *serving = *state;
    serving->config.metrics = true;
    serving_make(serving);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    assert_int_equal(snapshot->loop_count + snapshot->series_count + snapshot->connections, 0);
    assert_string_equal(snapshot->engine, "");
    uvhttp_metrics_free(snapshot);
}

static void test_the_process_is_described(void **state) {
    serving_t *serving = *state;
    begin(serving);
    uvhttp_metrics_snapshot_t *snapshot = stop_and_take(serving);
    const uvhttp_metrics_process_t *process = uvhttp_metrics_process(snapshot);
    assert_in_range(process->open_descriptors, 3, 1000);
    assert_true(process->max_descriptors >= process->open_descriptors);
    assert_true(process->resident_bytes > 1 << 20 && process->virtual_bytes > process->resident_bytes);
    assert_true(process->threads >= 1);
    assert_true(process->cpu_user_ns + process->cpu_system_ns > 0);
    assert_true(process->start_unix_ns <= snapshot->time_unix_ns);
    assert_true(process->start_unix_ns + UINT64_C(3600000000000) > snapshot->time_unix_ns);
    uvhttp_metrics_free(snapshot);
}

/* Else every reading looks like a restart to changes(process_start_time_seconds[1h]). */
static void test_the_process_starts_at_one_time(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    uint64_t start_unix_ns = uvhttp_metrics_process(snapshot)->start_unix_ns;
    uvhttp_metrics_free(snapshot);
    for (int i = 0; i < 10; i++) {
        snapshot = uvhttp_metrics_take(serving->server);
        assert_int_equal(uvhttp_metrics_process(snapshot)->start_unix_ns, start_unix_ns);
        uvhttp_metrics_free(snapshot);
    }
}

/* For ThreadSanitizer: a snapshot may be made at any time. */
static void test_snapshots_may_be_made_while_requests_are_counted(void **state) {
    serving_t *serving = *state;
    serving->config.io_threads = 2;
    begin(serving);
    int fd = client_connect(serving->port);
    for (uint64_t i = 1; i <= 50; i++) {
        client_send_text(fd, i % 2 ? GET("/") : GET("/users/1"));
        uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
        assert_in_range(count_all(snapshot), i - 1, i);
        uvhttp_metrics_free(snapshot);
        assert_int_equal(client_read(fd)->status, 200);
        WAIT_UNTIL((snapshot = uvhttp_metrics_take(serving->server)) && count_all(snapshot) == i &&
                   (uvhttp_metrics_free(snapshot), true));
    }
    serving_leave(serving, fd);
}

static uvhttp__series_shard_t *growing;
static uint64_t next_attributes = 1;

static uint32_t series_of(const uvhttp__tcp_server_t *tcp_server, unsigned loop) {
    const uvhttp__http_loop_t *http = tcp_server->loops[loop].user;
    return atomic_load(&http->metrics->count);
}

static void add_series(void) {
    (void)uvhttp__series_find(growing, (uvhttp__series_key_t){.attributes = next_attributes++});
}

/* Else the requests of the series that is left out seem to be gone: a reader takes that for a restart of the counter.
 */
static void test_a_series_that_comes_meanwhile_hides_no_other(void **state) {
    serving_t *serving = *state;
    serving->config.io_threads = 2;
    begin(serving);
    const uvhttp__tcp_server_t *tcp_server = serving->server->tcp_server;
    uint64_t requests = 0;
    for (uint32_t served = 0; served != 3;) {
        client_read_last(client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200);
        requests++;
        uvhttp_metrics_free(uvhttp_metrics_take(serving->server)); /* the loops are there for this thread, too */
        for (unsigned i = 0; i < 2; i++)
            if (series_of(tcp_server, i) > 1) served |= 1u << i; /* the first is that of the overflow */
    }
    serving_stop(serving);
    const uvhttp__http_loop_t *first = tcp_server->loops[0].user;
    growing = first->metrics;
    size_t before = test_allocator_count();
    uvhttp_metrics_free(uvhttp_metrics_take(serving->server));
    for (size_t i = 1, count = test_allocator_count() - before; i <= count; i++) {
        test_allocator_call_at(i, add_series);
        uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
        assert_int_equal(count_all(snapshot), requests);
        uvhttp_metrics_free(snapshot);
    }
}

/* A request may end between the reading of its series and that of the examples. */
static void test_an_example_of_a_series_that_is_not_shown_is_of_no_other(void **state) {
    serving_t *serving = *state;
    begin(serving);
    client_read_last(client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200);
    serving_stop(serving);
    const uvhttp__http_loop_t *loop = serving->server->tcp_server->loops[0].user;
    const uvhttp__series_t *empty = uvhttp__series_find(loop->metrics, (uvhttp__series_key_t){.attributes = 1});
    uvhttp__exemplar_put(loop->metrics, empty, &(uvhttp__trace_id_t){{1, 2}, 3}, 1);
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    assert_int_equal(snapshot->series_count, 1);
    char *text = uvhttp_metrics_text(snapshot, UVHTTP_METRICS_OPENMETRICS, NULL);
    assert_null(strstr(text, "trace_id"));
    uvhttp_metrics_text_free(text);
    uvhttp_metrics_free(snapshot);
}

/* --- memory --- */

static void take_and_write(void *user) {
    const serving_t *serving = user;
    uvhttp_metrics_snapshot_t *snapshot = uvhttp_metrics_take(serving->server);
    for (int format = UVHTTP_METRICS_PROMETHEUS; format <= UVHTTP_METRICS_JSON; format++)
        uvhttp_metrics_text_free(uvhttp_metrics_text(snapshot, (uvhttp_metrics_format_t)format, NULL));
    uvhttp_metrics_free(snapshot);
}

static void test_a_snapshot_without_memory_is_none(void **state) {
    serving_t *serving = *state;
    begin(serving);
    client_read_last(client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 200);
    serving_stop(serving);
    assert_true(test_allocator_each_failure(take_and_write, serving) >= 10);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_ON_EACH(
        test_requests_are_counted_by_route_method_and_status, test_a_client_that_goes_is_counted_with_the_reason,
        test_a_response_that_is_late_is_counted_for_its_route_with_its_duration,
        test_pipelined_requests_are_counted_one_by_one_over_all_loops,
        test_requests_beyond_the_maximum_of_series_are_counted_together,
        test_without_metrics_there_are_counters_and_no_series, test_elements_beyond_the_last_are_null,
        test_a_server_that_has_not_run_has_a_snapshot, test_the_process_is_described,
        test_the_process_starts_at_one_time, test_snapshots_may_be_made_while_requests_are_counted,
        test_a_series_that_comes_meanwhile_hides_no_other, test_an_example_of_a_series_that_is_not_shown_is_of_no_other,
        test_a_snapshot_without_memory_is_none);
}
