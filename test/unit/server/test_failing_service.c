/* What a service sets up before it listens, as each system call and each allocation fails once: an error that says what
 * is wrong, or a service; its PID file is there meanwhile, and not afterwards. */
/* Needs: middleware. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/failing_calls.h"
#include "support/process.h"
#include "support/run.h"

static char folder[] = "/tmp/uvhttp-failing-XXXXXX", pid_file[64];

static bool something_failed(void) {
    return test_call_failed() || test_allocator_failed();
}

static bool has_pid(void) {
    char text[24] = "", own[24];
    FILE *in = fopen(pid_file, "re");
    if (!in) return false;
    bool read = fgets(text, sizeof text, in) != NULL;
    fclose(in);
    snprintf(own, sizeof own, "%ld\n", (long)getpid());
    return read && strcmp(text, own) == 0;
}

/* `user`: of what a failure says, or NULL. */
static void serve(void *user) {
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    config.io_threads = 1;
    config.quiet = true;
    config.descriptor_limit = 64;
    snprintf(config.umask, sizeof config.umask, "077");
    snprintf(config.pid_file, sizeof config.pid_file, "%s", pid_file);
    remove(pid_file);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    int status = server ? uvhttp_service_init(server) : UVHTTP_E_NOMEM;
    if (status != UVHTTP_OK) {
        assert_true(something_failed());
        if (server) assert_string_not_equal(uvhttp_server_error_text(server), "");
        if (server && user) assert_non_null(strstr(uvhttp_server_error_text(server), user));
    } else {
        assert_true(has_pid());
    }
    uvhttp_server_free(server);
    /* A file that cannot be removed is emptied. */
    assert_true(!has_pid());
    if (!something_failed()) assert_int_equal(access(pid_file, F_OK), -1);
}

static size_t each(int call, int error, char *what) {
    const failing_call_t one = {call, {error}};
    return test_calls_each_failure(&one, 1, serve, what);
}

static void test_a_pid_file_that_cannot_be_had_is_an_error(void **state) {
    (void)state;
    assert_true(each(FAIL_open, EACCES, NULL) > 0);
    assert_true(each(FAIL_flock, EWOULDBLOCK, "is locked by a process that runs") == 1);
    assert_true(each(FAIL_flock, ENOLCK, "No locks available") == 1);
    assert_true(each(FAIL_flock, EINTR, NULL) == 1); /* and is tried again */
    assert_true(each(FAIL_fstat, EIO, pid_file) >= 1);
    assert_true(each(FAIL_stat, EACCES, NULL) >= 1);
    assert_true(each(FAIL_stat, ENOENT, NULL) >= 1);
    assert_true(each(FAIL_pwrite, ENOSPC, "No space left on device") == 1);
    assert_true(each(FAIL_ftruncate, EIO, strerror(EIO)) == 1);
}

/* Somebody removes the file again and again. */
static void test_a_pid_file_that_does_not_stay_is_an_error_at_last(void **state) {
    (void)state;
    uvhttp_server_config_t config;
    uvhttp_server_config_default(&config);
    snprintf(config.pid_file, sizeof config.pid_file, "%s", pid_file);
    uvhttp_server_t *server = uvhttp_server_new(&config);
    int fds = count_fds();
    test_call_fail_always(FAIL_stat, ENOENT);
    assert_int_equal(uvhttp_service_init(server), UVHTTP_E_IO);
    test_call_fail_at(FAIL_stat, 0, 0);
    assert_non_null(strstr(uvhttp_server_error_text(server), "No such file or directory"));
    assert_int_equal(count_fds(), fds);
    uvhttp_server_free(server);
    remove(pid_file);
}

static void test_a_pid_file_that_cannot_be_removed_is_emptied(void **state) {
    (void)state;
    assert_true(each(FAIL_unlink, EACCES, NULL) == 1);
    remove(pid_file);
}

static void test_a_limit_that_cannot_be_set_is_an_error(void **state) {
    (void)state;
    assert_true(each(FAIL_setrlimit, EPERM, "descriptor_limit is 64: Operation not permitted") == 1);
    assert_true(each(FAIL_getrlimit, EFAULT, NULL) >= 1);
}

/* There is no upgrade then, and all else works. */
static void test_a_program_that_does_not_find_itself_serves(void **state) {
    (void)state;
    static const int calls[] = {FAIL_readlink, FAIL_getcwd, FAIL_read};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        test_call_fail_always(calls[i], EIO);
        serve(NULL);
        test_call_fail_at(calls[i], 0, 0);
        assert_false(test_call_failed());
    }
}

static void test_each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(serve, NULL) > 5);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_level(UVHTTP_LOG_LEVEL_NONE);
    if (!mkdtemp(folder)) return 1;
    snprintf(pid_file, sizeof pid_file, "%s/pid", folder);
    serve(NULL); /* what is made once and stays */
    int failed = RUN_TESTS(
        test_a_pid_file_that_cannot_be_had_is_an_error, test_a_pid_file_that_does_not_stay_is_an_error_at_last,
        test_a_pid_file_that_cannot_be_removed_is_emptied, test_a_limit_that_cannot_be_set_is_an_error,
        test_a_program_that_does_not_find_itself_serves, test_each_allocation_may_fail);
    remove_tree(folder);
    return failed;
}
