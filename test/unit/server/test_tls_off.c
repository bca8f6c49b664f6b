/* A library without TLS says so, and serves the rest. */
/* Needs: no_tls. */
#include <cmocka.h>
#include <string.h>
#include <uvhttp.h>

static char logged[512];

static void on_log(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    memcpy(logged, message, size < sizeof logged ? size + 1 : 1);
}

static void test_everything_is_refused_with_the_reason(void **state) {
    (void)state;
    uvhttp_log_set_callback(on_log, NULL);
    assert_null(uvhttp_tls_new(&(uvhttp_tls_options_t){.certificate_count = 1}));
    assert_non_null(strstr(logged, "UVHTTP_TLS=off"));
    assert_null(uvhttp_tls_development(NULL));
    uvhttp_tls_release(NULL);
    uvhttp_server_t *server = uvhttp_server_new(NULL);
    assert_int_equal(uvhttp_server_listen_tls(server, "127.0.0.1:0", NULL, NULL), UVHTTP_E_UNSUPPORTED);
    assert_non_null(strstr(uvhttp_server_error_text(server), "UVHTTP_TLS=off"));
    assert_int_equal(uvhttp_tcp_server_listen_tls(NULL, "127.0.0.1:0", NULL, NULL), UVHTTP_E_UNSUPPORTED);
    assert_int_equal(uvhttp_tls_reload(NULL), UVHTTP_E_UNSUPPORTED);
    assert_false(uvhttp_tcp_is_tls(NULL));
    assert_null(uvhttp_tcp_client_subject(NULL));
    assert_false(uvhttp_request_is_tls(NULL));
    assert_null(uvhttp_request_client_subject(NULL));
    uvhttp_server_free(server);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything_is_refused_with_the_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
