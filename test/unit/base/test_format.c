/* Owns: tests of printf in the C locale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/format.h"
#include "support/comma_locale.h"
#include "support/run.h"

static void test_the_decimal_point_is_a_point(void **state) {
    (void)state;
    char text[32];
    test_comma_locale_begin();
    assert_int_equal(uvhttp__format(text, sizeof text, "%.1f %g %s", 1.5, 0.25, "a,b"), 12);
    assert_string_equal(text, "1.5 0.25 a,b");
    snprintf(text, sizeof text, "%.1f", 1.5);
    assert_string_equal(text, "1,5"); /* the program's locale is as it was */
    test_comma_locale_end();
}

static void test_the_size_is_that_of_all_of_it(void **state) {
    (void)state;
    char text[4] = "xyz";
    assert_int_equal(uvhttp__format(text, sizeof text, "%d", 12345), 5);
    assert_string_equal(text, "123");
    assert_int_equal(uvhttp__format(text, 0, "%d", 12345), 5);
    assert_string_equal(text, "123");
}

int main(void) {
    return RUN_TESTS(test_the_decimal_point_is_a_point, test_the_size_is_that_of_all_of_it);
}
