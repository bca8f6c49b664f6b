/* Owns: tests of query parameters. */
#include <cmocka.h>

#include "one_exchange.h"
#include "support/run.h"

static void query(const char *text) {
    exchange_request(&ex, UVHTTP_GET, STR("/"), text);
}

#define assert_param(name, text)                                                                                       \
    do {                                                                                                               \
        uvhttp_str_t value_;                                                                                           \
        assert_true(uvhttp_request_query_param(&ex.req, name, &value_));                                               \
        assert_str(value_, text);                                                                                      \
    } while (0)

static void test_parameters_are_decoded(void **state) {
    (void)state;
    query("a=1&b=x+y%20z&%63=%26%3D&d&e=&f=1=2");
    assert_param("a", "1");
    assert_param("b", "x y z");
    assert_param("c", "&=");
    assert_param("d", "");
    assert_param("e", "");
    assert_param("f", "1=2");
    assert_true(uvhttp_request_query_param(&ex.req, "a", NULL));
}

static void test_missing_parameter_gives_an_empty_view(void **state) {
    (void)state;
    uvhttp_str_t value = STR("old");
    query("ab=1");
    assert_false(uvhttp_request_query_param(&ex.req, "a", &value));
    assert_null(value.data);
    assert_int_equal(value.size, 0);
    query(NULL);
    assert_false(uvhttp_request_query_param(&ex.req, "", NULL));
    assert_false(uvhttp_request_query_at(&ex.req, 0, NULL, NULL));
}

static void test_first_of_repeated_parameters_is_found(void **state) {
    (void)state;
    uvhttp_str_t name, value;
    query("a=1&a=2");
    assert_param("a", "1");
    assert_true(uvhttp_request_query_at(&ex.req, 1, &name, &value));
    assert_str(name, "a");
    assert_str(value, "2");
    assert_false(uvhttp_request_query_at(&ex.req, 2, &name, &value));
    assert_null(name.data);
}

static void test_semicolon_separates_nothing(void **state) {
    (void)state;
    query("a=1;b=2");
    assert_param("a", "1;b=2");
}

static void test_malformed_pairs_are_left_out(void **state) {
    (void)state;
    uvhttp_str_t name, value;
    query("a=%&%zz=1&b=%2&c=3&d=%1g");
    assert_true(uvhttp_request_query_at(&ex.req, 0, &name, &value));
    assert_str(name, "c");
    assert_str(value, "3");
    assert_false(uvhttp_request_query_at(&ex.req, 1, NULL, NULL));
    assert_false(uvhttp_request_query_param(&ex.req, "a", NULL));
}

static void test_empty_pairs_are_skipped(void **state) {
    (void)state;
    uvhttp_str_t name;
    query("&&a=1&&=x&");
    assert_true(uvhttp_request_query_at(&ex.req, 0, &name, NULL));
    assert_str(name, "a");
    assert_true(uvhttp_request_query_at(&ex.req, 1, &name, NULL));
    assert_int_equal(name.size, 0); /* "=x" is a pair without a name */
    assert_false(uvhttp_request_query_at(&ex.req, 2, NULL, NULL));
}

static void test_value_may_hold_nul(void **state) {
    (void)state;
    uvhttp_str_t value;
    query("a=x%00y");
    assert_true(uvhttp_request_query_param(&ex.req, "a", &value));
    assert_int_equal(value.size, 3);
    assert_memory_equal(value.data, "x\0y", 3);
}

static void test_number_of_parameters_is_bounded(void **state) {
    (void)state;
    static char text[60000];
    size_t size = 0;
    for (size_t i = 0; i < 5000; ++i) size += (size_t)snprintf(text + size, sizeof text - size, "p%zu=%zu&", i, i);
    query(text);
    uvhttp_str_t name;
    assert_true(uvhttp_request_query_at(&ex.req, UVHTTP__QUERY_PARAM_MAX - 1, &name, NULL));
    assert_str(name, "p999");
    assert_false(uvhttp_request_query_at(&ex.req, UVHTTP__QUERY_PARAM_MAX, NULL, NULL));
    assert_false(uvhttp_request_query_param(&ex.req, "p1000", NULL));
}

static void test_no_memory_means_no_parameters(void **state) {
    (void)state;
    query("a=1");
    ex.arena.size_max = ex.arena.used + 4;
    assert_false(uvhttp_request_query_param(&ex.req, "a", NULL));
    ex.arena.size_max = ex.arena.used + 16; /* space for the pairs, not for the text */
    assert_false(uvhttp_request_query_param(&ex.req, "a", NULL));
    ex.arena.size_max = 1 << 20;
    assert_true(uvhttp_request_query_param(&ex.req, "a", NULL));
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_parameters_are_decoded, test_missing_parameter_gives_an_empty_view,
                          test_first_of_repeated_parameters_is_found, test_semicolon_separates_nothing,
                          test_malformed_pairs_are_left_out, test_empty_pairs_are_skipped, test_value_may_hold_nul,
                          test_number_of_parameters_is_bounded, test_no_memory_means_no_parameters);
}
