/* Owns: tests of what a service's functions refuse; what they do is tested with processes (test/integration). */
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/process.h"
#include "server/server.h"
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

/* Clients must not wait for a server that will not come. */
static void test_a_start_that_fails_before_the_loops_closes_the_sockets(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    uvhttp_server_config_t *config = &serving->server->service.config; /* the user was removed meanwhile */
    snprintf(config->user, sizeof config->user, "no-such-user");
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", &serving->port), UVHTTP_OK);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_E_CONFIG);
    assert_int_equal(uvhttp_server_state(serving->server), UVHTTP_SERVER_STOPPED);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(serving->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), -1);
    close(fd);
}

/* --- signals that come before the server is ready --- */

static bool is_blocked(int number) {
    sigset_t mask;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    return sigismember(&mask, number) == 1;
}

static bool is_pending(int number) {
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    return sigismember(&pending, number) == 1;
}

/* It would start this program again. */
static void drop_pending(int number) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    assert_int_equal(sigtimedwait(&one, NULL, &(struct timespec){0}), number);
}

static int reloads;

static void on_early_ready(uvhttp_server_t *server, void *user) {
    (void)server, (void)user;
    assert_false(is_blocked(SIGHUP) || is_blocked(SIGUSR2) || is_pending(SIGHUP));
}

static void on_early_reload(uvhttp_server_t *server, void *user) {
    (void)user;
    reloads++;
    uvhttp_server_stop(server);
}

/* An operator, or logrotate, reads the PID file as soon as it is there. */
static void test_signals_wait_until_the_server_is_ready(void **state) {
    serving_t *serving = *state;
    serving->config.install_signal_handlers = true;
    serving_make(serving);
    reloads = 0;
    assert_int_equal(uvhttp_server_on_reload(serving->server, on_early_reload, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_server_on_ready(serving->server, on_early_ready, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(raise(SIGHUP), 0);
    assert_true(is_pending(SIGUSR2) && is_pending(SIGHUP));
    drop_pending(SIGUSR2);
    assert_int_equal(uvhttp_server_run(serving->server, "127.0.0.1:0"), UVHTTP_OK);
    assert_int_equal(reloads, 1);
    for (int i = 0; i < 2; i++) { /* until the PID file is gone, and nobody is meant any more */
        assert_int_equal(raise(SIGHUP), 0);
        assert_int_equal(raise(SIGUSR2), 0);
    }
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_signals_are_as_before_after_a_server_that_never_ran(void **state) {
    serving_t *serving = *state;
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGHUP);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &own, NULL), 0);
    serving->config.install_signal_handlers = true;
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_true(is_blocked(SIGUSR2));
    uvhttp_server_free(serving->server);
    serving->server = NULL;
    assert_true(is_blocked(SIGHUP)); /* by the program */
    assert_false(is_blocked(SIGUSR2));
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &own, NULL), 0);
}

static void test_signals_of_a_program_that_handles_them_are_its_own(void **state) {
    serving_t *serving = *state;
    serving->config.install_signal_handlers = false;
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_false(is_blocked(SIGHUP) || is_blocked(SIGUSR2));
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_a_user_that_does_not_exist_is_said_before_listen(void **state) {
    serving_t *serving = *state;
    snprintf(serving->config.user, sizeof serving->config.user, "no-such-user");
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_E_CONFIG);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_E_CONFIG);
    assert_string_equal(uvhttp_server_error_text(serving->server), "user \"no-such-user\" does not exist");
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void test_a_dry_run_is_chosen_before_anything_else(void **state) {
    serving_t *serving = *state;
    assert_int_equal(uvhttp_server_dry_run(NULL), UVHTTP_E_INVALID);
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_server_dry_run(serving->server), UVHTTP_E_STATE);
    uvhttp_server_free(serving->server);
    serving_make(serving);
    assert_int_equal(uvhttp_server_listen(serving->server, "127.0.0.1:0", NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_server_dry_run(serving->server), UVHTTP_E_STATE);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static mode_t current_umask(void) {
    mode_t mask = umask(0);
    umask(mask);
    return mask;
}

/* Next to a server that listens on the same address. */
static void test_a_dry_run_changes_nothing_and_returns(void **state) {
    serving_t *serving = *state;
    char address[32], path[64];
    struct rlimit before, after;
    uint16_t port;
    mode_t mask = current_umask();
    uvhttp_server_t *other = uvhttp_server_new(&serving->config);
    assert_int_equal(uvhttp_server_listen(other, "127.0.0.1:0", &port), UVHTTP_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    snprintf(path, sizeof path, "/tmp/uvhttp-dry-run-%ld", (long)getpid());
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    snprintf(serving->config.pid_file, sizeof serving->config.pid_file, "%s", path);
    snprintf(serving->config.umask, sizeof serving->config.umask, "0");
#if UVHTTP_WITH_MIDDLEWARE /* else there is no admin listener */
    snprintf(serving->config.admin, sizeof serving->config.admin, "unix:%s", path);
#endif
    serving->config.descriptor_limit = (uint32_t)before.rlim_cur - 1;
    serving_make(serving);
    assert_int_equal(uvhttp_server_dry_run(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_server_listen(serving->server, address, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_server_listen(serving->server, address, NULL), UVHTTP_E_ADDRESS_IN_USE);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_server_run(serving->server, NULL), UVHTTP_E_STATE);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_true(after.rlim_cur == before.rlim_cur && after.rlim_max == before.rlim_max);
    assert_int_equal(current_umask(), mask);
    assert_int_equal(access(path, F_OK), -1);
    uvhttp_server_free(other);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
}

static void keep_soft_limit(uvhttp_server_t *server, void *user) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    *(rlim_t *)user = limit.rlim_cur;
    uvhttp_server_stop(server);
}

/* An operator who sets a limit means it. */
static void test_a_descriptor_limit_is_not_raised(void **state) {
    serving_t *serving = *state;
    struct rlimit before;
    rlim_t soft = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    serving->config.raise_descriptor_limit = true;
    serving->config.descriptor_limit = 256;
    serving->config.max_connections = 1000;
    serving_make(serving);
    assert_int_equal(uvhttp_server_on_ready(serving->server, keep_soft_limit, &soft), UVHTTP_OK);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    assert_int_equal(uvhttp_server_run(serving->server, "127.0.0.1:0"), UVHTTP_OK);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(soft, 256);
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

static void bind_manager(int *manager) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[48];
    int size = snprintf(name, sizeof name, "@uvhttp-test-service-%ld", (long)getpid());
    memcpy(address.sun_path, name, (size_t)size);
    address.sun_path[0] = '\0';
    *manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*manager, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)size)),
                     0);
    setenv("NOTIFY_SOCKET", name, 1);
}

/* The service is the new process: a manager that believed the old one would wait for the end of its reload. */
static void test_a_process_that_was_replaced_says_nothing_of_a_reload(void **state) {
    serving_t *serving = *state;
    int manager;
    char text[128];
    serving_make(serving);
    assert_int_equal(uvhttp_service_init(serving->server), UVHTTP_OK);
    uvhttp__process_t *process = serving->server->process;
    atomic_store(&serving->server->tcp_server->state, UVHTTP__STATE_READY);
    bind_manager(&manager);
    for (int replaced = 0; replaced < 2; replaced++) {
        process->successor.replaced = replaced;
        uvhttp__process_reloading(process);
        assert_int_equal(recv(manager, text, sizeof text, 0) > 0, !replaced);
        uvhttp__process_reloaded(process);
        assert_int_equal(recv(manager, text, sizeof text, 0) > 0, !replaced);
    }
    unsetenv("NOTIFY_SOCKET");
    close(manager);
    uvhttp_server_free(serving->server);
    serving->server = NULL;
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
        ON_EACH(test_a_start_that_fails_before_the_loops_closes_the_sockets),
        ON_EACH(test_signals_wait_until_the_server_is_ready),
        ON_EACH(test_signals_are_as_before_after_a_server_that_never_ran),
        ON_EACH(test_signals_of_a_program_that_handles_them_are_its_own),
        ON_EACH(test_a_user_that_does_not_exist_is_said_before_listen),
        ON_EACH(test_a_dry_run_is_chosen_before_anything_else),
        ON_EACH(test_a_dry_run_changes_nothing_and_returns),
        ON_EACH(test_a_descriptor_limit_is_not_raised),
        ON_EACH(test_an_upgrade_needs_a_service_that_serves),
        cmocka_unit_test(test_there_is_no_state_without_a_server),
        cmocka_unit_test(test_what_is_no_notification_is_refused),
        ON_ENGINE(test_a_process_that_was_replaced_says_nothing_of_a_reload, on_epoll),
        cmocka_unit_test(test_a_user_has_to_exist_and_the_present_one_is_no_change),
    };
    return RUN_TABLE(tests);
}
