/* Owns: tests of what a service's functions refuse; what they do is tested with processes (test/integration). */
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "support/http_server.h"

static void test_a_service_is_made_once_and_before_listen(void **state) {
    serving_t *serving = *state;
    assert_int_equal(uvhttp_service_init(NULL), UVHTTP_E_INVALID);
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_E_STATE);
    uvhttp_server_free(serving->server);
    serving_make(serving);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_E_STATE);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "before listen"));
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_a_service_that_could_not_be_made_does_not_listen(void **state) {
    serving_t *serving = *state;
    snprintf(serving->config.pid_file, sizeof serving->config.pid_file, "/no/such/directory/pid");
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_E_IO);
    assert_non_null(strstr(uvhttp_server_error_text(serving->server), "/no/such/directory/pid"));
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_IO);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_an_upgrade_needs_a_service_that_serves(void **state) {
    serving_t *serving = *state;
    assert_int_equal(uvhttp_service_upgrade(NULL), UVHTTP_E_INVALID);
    serving_make(serving);
    assert_int_equal(uvhttp_service_upgrade(serving->server), UVHTTP_E_STATE);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_service_upgrade(serving->server), UVHTTP_E_STATE);
    assert_false(uvhttp_server_ready(serving->server));
    assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STARTING);
    serving_start(serving);
    serving_stop(serving);
    assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STOPPED);
    assert_int_equal(uvhttp_service_upgrade(serving->server), UVHTTP_E_STATE);
}

static void test_there_is_no_state_without_a_server(void **state) {
    (void)state;
    assert_int_equal(uvhttp_server_state(NULL), UVHTTP_SERVER_STOPPED);
    assert_false(uvhttp_server_ready(NULL));
}

static void test_what_is_no_notification_is_refused(void **state) {
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    assert_int_equal(uvhttp_service_notify(NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_service_notify("READY=1"), 0);
    static const char *const wrong[] = {"relative", "/", "@", "vsock:2:3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("NOTIFY_SOCKET", wrong[i], 1);
        assert_int_equal(uvhttp_service_notify("READY=1"), UVHTTP_E_ADDRESS);
    }
    setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
    assert_int_equal(uvhttp_service_notify("READY=1"), UVHTTP_E_IO);
    unsetenv("NOTIFY_SOCKET");
}

static void test_a_user_has_to_exist_and_the_present_one_is_no_change(void **state) {
    (void)state;
    char message[128] = "", number[24], group[24];
    assert_int_equal(uvhttp_service_drop_privileges(NULL, "", message, sizeof message), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_service_drop_privileges("no-such-user", NULL, message, sizeof message), UVHTTP_E_CONFIG);
    assert_string_equal(message, "user \"no-such-user\" does not exist");
    assert_int_equal(uvhttp_service_drop_privileges(NULL, "no-such-group", NULL, 0), UVHTTP_E_CONFIG);
    assert_int_equal(uvhttp_service_drop_privileges("4294967295", NULL, message, sizeof message), UVHTTP_E_CONFIG);
    snprintf(number, sizeof number, "%lu", (unsigned long)getuid());
    snprintf(group, sizeof group, "%lu", (unsigned long)getgid());
    assert_int_equal(uvhttp_service_drop_privileges(number, group, message, sizeof message), UVHTTP_OK);
}

int main(void) {
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    const struct CMUnitTest tests[] = {
        ON_EACH(test_a_service_is_made_once_and_before_listen),
        ON_EACH(test_a_service_that_could_not_be_made_does_not_listen),
        ON_EACH(test_an_upgrade_needs_a_service_that_serves),
        cmocka_unit_test(test_there_is_no_state_without_a_server),
        cmocka_unit_test(test_what_is_no_notification_is_refused),
        cmocka_unit_test(test_a_user_has_to_exist_and_the_present_one_is_no_change),
    };
    return RUN_TABLE(tests);
}
