/* Owns: tests of what is known of a file before it is made. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/new_file.h"

static void test_the_directory_of_a_new_file_has_to_be_one(void **state) {
    (void)state;
    static char longer[PATH_MAX + 8];
    memset(longer, '/', sizeof longer - 2);
    longer[sizeof longer - 2] = 'a';
    assert_int_equal(uvhttp__new_file_error("new"), 0);
    assert_int_equal(uvhttp__new_file_error("/new"), 0);
    assert_int_equal(uvhttp__new_file_error("/tmp/new"), 0);
    assert_int_equal(uvhttp__new_file_error("/no/such/directory/new"), ENOENT);
    assert_int_equal(uvhttp__new_file_error("/dev/null/new"), ENOTDIR);
    assert_int_equal(uvhttp__new_file_error("/tmp/new/"), EISDIR);
    assert_int_equal(uvhttp__new_file_error(longer), ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_directory_of_a_new_file_has_to_be_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
