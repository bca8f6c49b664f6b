/* Owns: see comma_locale.h. */
#include "support/comma_locale.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";

void test_comma_locale_begin(void) {
    char directory[] = "/tmp/uvhttp-locale-XXXXXX", command[256], shown[16];
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command, "cd %s && localedef -c -i source ./comma >/dev/null 2>&1", directory);
    char path[64];
    snprintf(path, sizeof path, "%s/source", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(source, file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)!system(command); /* it also fails for the categories that are not there */
    setenv("LOCPATH", directory, 1);
    const char *set = setlocale(LC_NUMERIC, "comma");
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
    if (!set || localeconv()->decimal_point[0] != ',') skip(); /* musl has no such locale, by whatever name */
    snprintf(shown, sizeof shown, "%.1f", 1.5);
    assert_string_equal(shown, "1,5");
}

void test_comma_locale_end(void) {
    assert_non_null(setlocale(LC_ALL, "C"));
    unsetenv("LOCPATH");
}
