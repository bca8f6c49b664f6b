/* Owns: tests of a process without standard descriptors; each in a child. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <uvhttp/error.h>

#include "base/standard_fds.h"
#include "support/run.h"

static bool is_null_device(int fd) {
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

static int exit_status_of(int (*child)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(child());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int without_any(void) {
    for (int fd = 0; fd <= 2; fd++) close(fd);
    if (uvhttp__standard_fds_hold() != UVHTTP_OK) return 1;
    int next = open("/dev/null", O_RDONLY);
    return is_null_device(0) && is_null_device(1) && is_null_device(2) && next > 2 ? 0 : 2;
}

static int without_output(void) {
    int before = dup(0);
    close(1);
    if (uvhttp__standard_fds_hold() != UVHTTP_OK) return 1;
    struct stat was, is;
    if (fstat(before, &was) != 0 || fstat(0, &is) != 0 || was.st_ino != is.st_ino) return 2;
    return is_null_device(1) && (fcntl(1, F_GETFD) & FD_CLOEXEC) == 0 ? 0 : 3;
}

static int without_a_descriptor_to_have(void) {
    close(2);
    if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}) != 0) return 1;
    return uvhttp__standard_fds_hold() == UVHTTP_E_NO_DESCRIPTORS ? 0 : 2;
}

static int with_all(void) {
    int next = open("/dev/null", O_RDONLY);
    close(next);
    if (uvhttp__standard_fds_hold() != UVHTTP_OK) return 1;
    return open("/dev/null", O_RDONLY) == next ? 0 : 2;
}

static void test_those_that_are_closed_are_held(void **state) {
    (void)state;
    assert_int_equal(exit_status_of(without_any), 0);
    assert_int_equal(exit_status_of(without_output), 0);
}

static void test_those_that_are_open_stay(void **state) {
    (void)state;
    assert_int_equal(exit_status_of(with_all), 0);
}

static void test_that_there_is_none_left_is_an_error(void **state) {
    (void)state;
    assert_int_equal(exit_status_of(without_a_descriptor_to_have), 0);
}

int main(void) {
    return RUN_TESTS(test_those_that_are_closed_are_held, test_those_that_are_open_stay,
                     test_that_there_is_none_left_is_an_error);
}
