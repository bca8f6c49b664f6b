/* Owns: tests of functions that get no server: uvhttp_server_new has returned NULL, and the program did not look. Each
 * says so, or returns nothing; none crashes. Those that listen, run and register: test/unit/exchange/
 * test_refused_arguments.c, test_refused_set_up.c. */
/* Needs: websocket. */
#include <stdlib.h>
#include <string.h>
#include <uvhttp.h>
#include <uvhttp/metrics.h>
#include <uvhttp/tcp.h>

#include <cmocka.h>

#include "support/run.h"

static void never_called(const char *name, const char *help, uint64_t value, void *user) {
    (void)name, (void)help, (void)value, (void)user;
    abort();
}

static void test_a_server_that_is_not_there_counts_nothing(void **state) {
    (void)state;
    uvhttp_metrics_t metrics, none;
    memset(&metrics, 0xff, sizeof metrics);
    memset(&none, 0, sizeof none);
    uvhttp_server_metrics(NULL, &metrics);
    assert_memory_equal(&metrics, &none, sizeof none);
    uvhttp_server_metrics(NULL, NULL);
    uvhttp_server_counters(NULL, never_called, NULL);
    assert_int_equal(uvhttp_server_counter(NULL, "requests"), 0);
    assert_int_equal(uvhttp_server_counter(NULL, NULL), 0);
}

static void test_a_counter_needs_a_name(void **state) {
    (void)state;
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    assert_non_null(server);
    assert_int_equal(uvhttp_server_counter(server, NULL), 0);
    uvhttp_server_counters(server, NULL, NULL);
    uvhttp_server_metrics(server, NULL);
    uvhttp_server_free(server);
}

static void test_a_snapshot_that_is_not_there_shows_nothing(void **state) {
    size_t size = 9;
    (void)state;
    assert_null(uvhttp_metrics_take(NULL));
    assert_null(uvhttp_metrics_process(NULL));
    assert_null(uvhttp_metrics_metric(NULL, 0));
    assert_null(uvhttp_metrics_loop(NULL, 0));
    assert_null(uvhttp_metrics_series(NULL, 0));
    assert_null(uvhttp_metrics_response_time(NULL, 0));
    assert_null(uvhttp_metrics_text(NULL, UVHTTP_METRICS_PROMETHEUS, &size));
    uvhttp_metrics_text_free(NULL);
    uvhttp_metrics_free(NULL);
}

static void test_a_server_that_is_not_there_is_stopped(void **state) {
    (void)state;
    const char *reason = "";
    assert_int_equal(uvhttp_server_state(NULL), UVHTTP_SERVER_STOPPED);
    assert_false(uvhttp_server_ready(NULL));
    assert_int_equal(uvhttp_server_stop(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_error(NULL), UVHTTP_E_INVALID);
    assert_non_null(strstr(uvhttp_server_error_text(NULL), "there is no server"));
    assert_null(uvhttp_server_engine(NULL, &reason));
    assert_null(reason);
    assert_int_equal(uvhttp_server_reload(NULL, NULL, NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_on_ready(NULL, NULL, NULL), UVHTTP_E_INVALID);
    uvhttp_server_on_stopped(NULL, NULL, NULL);
    assert_int_equal(uvhttp_server_on_reload(NULL, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_on_error(NULL, NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_service_init(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_service_upgrade(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_run(NULL, "127.0.0.1:0"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_listen_tls(NULL, "127.0.0.1:0", NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_websocket_publish(NULL, "a", UVHTTP_WS_TEXT, "", 0), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_work_with(NULL, NULL, NULL, NULL, NULL), UVHTTP_E_INVALID);
    uvhttp_server_free(NULL);
}

static void handle(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)res, (void)user;
}

static void test_a_server_that_is_not_there_has_no_routes(void **state) {
    (void)state;
    assert_null(uvhttp_get(NULL, "/", handle, NULL));
    assert_null(uvhttp_route(NULL, UVHTTP_GET, "/", handle, NULL, UVHTTP_EXEC_LOOP));
    assert_null(uvhttp_group(NULL, "/a"));
    assert_null(uvhttp_group_group(NULL, "/a"));
    assert_null(uvhttp_group_get(NULL, "/", handle, NULL));
    assert_null(uvhttp_metrics_route(NULL, "/metrics"));
    assert_null(uvhttp_websocket(NULL, "/ws", NULL, NULL));
    assert_int_equal(uvhttp_use(NULL, (uvhttp_middleware_t){.run = NULL}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_group_use(NULL, (uvhttp_middleware_t){.run = NULL}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_route_use(NULL, (uvhttp_middleware_t){.run = NULL}), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_route_options(NULL, NULL), UVHTTP_E_INVALID);
}

static void test_a_tcp_server_that_is_not_there(void **state) {
    (void)state;
    const char *reason = "";
    uvhttp_tcp_metrics_t metrics, none;
    memset(&metrics, 0xff, sizeof metrics);
    memset(&none, 0, sizeof none);
    assert_null(uvhttp_tcp_server_new(NULL, NULL, NULL));
    assert_int_equal(uvhttp_tcp_server_listen(NULL, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
    assert_int_not_equal(uvhttp_tcp_server_listen_tls(NULL, "127.0.0.1:0", NULL, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_tcp_server_run(NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_server_attach(NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_tcp_server_stop(NULL), UVHTTP_E_INVALID);
    uvhttp_tcp_server_on_ready(NULL, NULL, NULL);
    uvhttp_tcp_server_on_stopped(NULL, NULL, NULL);
    assert_non_null(uvhttp_tcp_server_error_text(NULL));
    assert_null(uvhttp_tcp_server_engine(NULL, &reason));
    assert_null(reason);
    uvhttp_tcp_server_metrics(NULL, &metrics);
    assert_memory_equal(&metrics, &none, sizeof none);
    uvhttp_tcp_server_free(NULL);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    return RUN_TESTS(test_a_server_that_is_not_there_counts_nothing, test_a_counter_needs_a_name,
                     test_a_snapshot_that_is_not_there_shows_nothing, test_a_server_that_is_not_there_is_stopped,
                     test_a_server_that_is_not_there_has_no_routes, test_a_tcp_server_that_is_not_there);
}
