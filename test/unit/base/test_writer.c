/* Owns: tests of the text that grows: numbers, JSON, its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "base/writer.h"
#include "support/comma_locale.h"
#include "support/failing_allocator.h"
#include "support/run.h"

static void assert_text(uvhttp__writer_t *writer, const char *wanted) {
    size_t size = 0;
    char *text = uvhttp__writer_finish(writer, &size);
    assert_non_null(text);
    assert_string_equal(text, wanted);
    assert_int_equal(size, strlen(wanted));
    uvhttp__free(text);
}

static void test_numbers(void **state) {
    (void)state;
    uvhttp__writer_t writer = {0};
    uvhttp__write_number(&writer, UINT64_MAX);
    uvhttp__write_text(&writer, " ");
    uvhttp__write_hex(&writer, 0xab);
    uvhttp__write_text(&writer, " ");
    uvhttp__write_scaled(&writer, 1050, 1000, false);
    uvhttp__write_text(&writer, " ");
    uvhttp__write_scaled(&writer, 2000, 1000, false);
    uvhttp__write_text(&writer, " ");
    uvhttp__write_scaled(&writer, 2000, 1000, true);
    assert_text(&writer, "18446744073709551615 00000000000000ab 1.05 2 2.0");
}

static void test_commas_stand_between_items_only(void **state) {
    (void)state;
    uvhttp__writer_t writer = {0};
    uvhttp__write_comma(&writer);
    uvhttp__write_text(&writer, "{");
    uvhttp__write_member(&writer, "a", "x\"y");
    uvhttp__write_member(&writer, "b", NULL);
    uvhttp__write_key(&writer, "c");
    uvhttp__write_text(&writer, "[");
    for (unsigned i = 0; i < 3; i++) {
        uvhttp__write_comma(&writer);
        uvhttp__write_number(&writer, i);
    }
    uvhttp__write_text(&writer, "]}");
    uvhttp__write_comma(&writer);
    uvhttp__write_text(&writer, "{");
    uvhttp__write_member(&writer, "d", "{");
    uvhttp__write_text(&writer, "}");
    assert_text(&writer, "{\"a\":\"x\\\"y\",\"b\":null,\"c\":[0,1,2]},{\"d\":\"{\"}");
}

static void test_floating_numbers_do_not_depend_on_the_locale(void **state) {
    (void)state;
    uvhttp__writer_t writer = {0};
    test_comma_locale_begin();
    uvhttp__write_format(&writer, "[%.1f,%g]", 0.5, 0.25);
    test_comma_locale_end();
    assert_text(&writer, "[0.5,0.25]");
}

static void test_a_format_that_is_too_long_fails(void **state) {
    (void)state;
    static char long_text[UVHTTP__WRITE_FORMAT_MAX];
    memset(long_text, 'x', sizeof long_text - 1);
    uvhttp__writer_t writer = {0};
    uvhttp__write_format(&writer, "%s", long_text);
    assert_false(writer.failed);
    assert_int_equal(writer.size, sizeof long_text - 1);
    uvhttp__write_format(&writer, "%s.", long_text);
    assert_true(writer.failed);
    assert_int_equal(writer.size, sizeof long_text - 1);
    uvhttp__writer_clear(&writer);
    uvhttp__write_format(&writer, "%s", "again");
    assert_text(&writer, "again");
}

static void test_one_is_written_into_another(void **state) {
    (void)state;
    uvhttp__writer_t writer = {0}, other = {0};
    uvhttp__write_other(&writer, &other);
    assert_int_equal(writer.size, 0);
    for (int i = 0; i < 3000; i++) uvhttp__write_text(&other, "0123456789");
    uvhttp__writer_trim(&other);
    assert_int_equal(other.capacity, other.size);
    uvhttp__write_other(&writer, &other);
    assert_int_equal(writer.size, 30000);
    assert_memory_equal(writer.data, other.data, other.size);
    other.failed = true;
    uvhttp__write_other(&writer, &other);
    assert_true(writer.failed);
    assert_null(uvhttp__writer_finish(&writer, NULL));
    uvhttp__writer_free(&other);
    uvhttp__writer_trim(&other); /* an empty one */
    assert_null(other.data);
}

static void attempt(void *user) {
    (void)user;
    uvhttp__writer_t writer = {0};
    uvhttp__write_member(&writer, "name", "value");
    uvhttp__write_number(&writer, 1);
    for (int i = 0; i < 1000; i++) uvhttp__write_text(&writer, "0123456789");
    uvhttp__writer_trim(&writer);
    bool failed = writer.failed;
    char *text = uvhttp__writer_finish(&writer, NULL);
    assert_true(!failed || !text);
    if (text) assert_int_equal(strlen(text), strlen("\"name\":\"value\"1") + 10000);
    uvhttp__free(text);
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt, NULL) > 3);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_numbers, test_commas_stand_between_items_only,
                     test_floating_numbers_do_not_depend_on_the_locale, test_a_format_that_is_too_long_fails,
                     test_one_is_written_into_another, test_any_allocation_may_fail);
}
