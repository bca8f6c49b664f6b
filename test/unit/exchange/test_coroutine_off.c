/* A build without coroutines: the functions are there, and say so. */
/* Needs: no_coroutines. */
#include <cmocka.h>
#include <string.h>
#include <uvhttp.h>

static void respond(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)req, (void)user;
    uvhttp_response_text(res, 200, "");
}

static void test_a_route_that_asks_for_one_is_refused(void **state) {
    (void)state;
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    assert_non_null(server);
    assert_null(uvhttp_route(server, UVHTTP_GET, "/wait", respond, NULL, UVHTTP_EXEC_COROUTINE));
    assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), UVHTTP_E_UNSUPPORTED);
    assert_non_null(
        strstr(uvhttp_server_error_text(server), "GET /wait: UVHTTP_EXEC_COROUTINE (BUILD_WITH_COROUTINES): "));
    uvhttp_server_free(server);
}

static void test_nobody_runs_in_one(void **state) {
    (void)state;
    uvhttp_coro_t *coro;
    uvhttp_coro_channel_t *channel;
    int fd;
    assert_false(uvhttp_coro_active());
    assert_int_equal(uvhttp_coro_sleep(1), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_coro_spawn(NULL, NULL, &coro), UVHTTP_E_STATE);
    assert_null(coro);
    assert_int_equal(uvhttp_coro_channel_new(1, 1, &channel), UVHTTP_E_STATE);
    assert_null(channel);
    assert_int_equal(uvhttp_coro_connect("127.0.0.1:1", 1, &fd), UVHTTP_E_STATE);
    assert_int_equal(fd, -1);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_route_that_asks_for_one_is_refused),
                                       cmocka_unit_test(test_nobody_runs_in_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
