/* Listening on addresses of each kind, as each system call and each allocation fails once: it works, or there is an
 * error with a text that names the address; no descriptor and no memory is out. */
/* Needs: middleware. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "support/client.h"
#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/one_thread.h"
#include "support/process.h"

static char folder[] = "/tmp/uvhttp-failing-XXXXXX";
static char path[64];

/* A socket file whose server has crashed. */
static void leave_stale_socket(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    remove(path);
    one_thread_is_client = true;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(fd);
    one_thread_is_client = false;
}

static bool something_failed(void) {
    return test_call_failed() || test_allocator_failed();
}

static void listen_with_admin(const char *address, const char *admin) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = 2;
    config.quiet = true;
    snprintf(config.admin, sizeof config.admin, "%s", admin);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    int status = server ? uvhttp_server_listen(server, address, NULL) : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK) assert_true(something_failed());
    if (server && status != UVHTTP_OK) {
        assert_string_not_equal(uvhttp_server_error_text(server), "");
        assert_int_equal(uvhttp_server_error(server), status);
        if (!test_allocator_failed()) assert_non_null(strstr(uvhttp_server_error_text(server), address));
    }
    uvhttp_server_free(server);
}

static void listen_on(const char *address) {
    listen_with_admin(address, "");
}

static void listen_everywhere(void *user) {
    (void)user;
    char unix_address[80], inherited[16];
    leave_stale_socket();
    snprintf(unix_address, sizeof unix_address, "unix:%s", path);
    one_thread_is_client = true;
    struct sockaddr_in where;
    int fd = loopback_listener(4, &where);
    one_thread_is_client = false;
    snprintf(inherited, sizeof inherited, "fd:%d", fd);
    listen_on("127.0.0.1:0");
    listen_on("*:0");
    listen_on(unix_address);
    listen_on(inherited);
    listen_with_admin("127.0.0.1:0", "127.0.0.1:0");
    one_thread_is_client = true;
    close(fd);
    one_thread_is_client = false;
}

static const failing_call_t calls[] = {
    {FAIL_socket, {EMFILE, EAFNOSUPPORT, EACCES}},
    {FAIL_bind, {EADDRINUSE, EADDRNOTAVAIL, EACCES, ENOTDIR}},
    {FAIL_listen, {EADDRINUSE, ENOMEM}},
    {FAIL_setsockopt, {ENOPROTOOPT, EPERM, EOPNOTSUPP}},
    {FAIL_getsockopt, {EBADF, ENOPROTOOPT}},
    {FAIL_getsockname, {ENOBUFS}},
    {FAIL_fcntl, {EMFILE, EBADF}},
    {FAIL_lstat, {ENOENT}},
    {FAIL_connect, {EAGAIN}},
    {FAIL_unlink, {EACCES}},
    {FAIL_close, {EIO}},
};

static void test_each_system_call_may_fail(void **state) {
    (void)state;
    assert_true(test_calls_each_failure(calls, sizeof calls / sizeof *calls, listen_everywhere, NULL) > 50);
}

/* The caller may wait and listen again, or raise a limit: it must know which. */
static void test_the_code_says_what_there_is_too_little_of(void **state) {
    (void)state;
    static const struct {
        int call, error, status;
    } cases[] = {{FAIL_socket, EMFILE, UVHTTP_E_NO_DESCRIPTORS},
                 {FAIL_socket, ENFILE, UVHTTP_E_NO_DESCRIPTORS},
                 {FAIL_socket, ENOMEM, UVHTTP_E_NOMEM},
                 {FAIL_socket, ENOBUFS, UVHTTP_E_NOMEM},
                 {FAIL_bind, ENOMEM, UVHTTP_E_NOMEM},
                 {FAIL_bind, EACCES, UVHTTP_E_PERMISSION},
                 {FAIL_listen, EADDRINUSE, UVHTTP_E_ADDRESS_IN_USE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uvhttp_server_t *server = uvhttp_server_new(NULL);
        assert_non_null(server);
        test_call_fail_at(cases[i].call, cases[i].error, 1);
        assert_int_equal(uvhttp_server_listen(server, "127.0.0.1:0", NULL), cases[i].status);
        assert_true(test_call_failed());
        test_call_fail_at(cases[i].call, 0, 0);
        uvhttp_server_free(server);
    }
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(listen_everywhere, NULL) > 20);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/socket", folder);
    listen_everywhere(NULL); /* what is made once and stays */
    int failed = RUN_TESTS(test_each_system_call_may_fail, test_the_code_says_what_there_is_too_little_of,
                           test_each_allocation_may_fail);
    remove_tree(folder);
    return failed;
}
