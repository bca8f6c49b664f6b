/* Owns: tests of what a handler can ask about a request, but for its path and query. */
#include <cmocka.h>

#define EXCHANGE_MEMORY_MAX 65536
#include "one_exchange.h"
#include "support/run.h"

static void test_request_line_is_seen_as_sent(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_POST, STR("/a%20b"), "x=1");
    assert_int_equal(uvhttp_request_method(&ex.req), UVHTTP_POST);
    assert_str(uvhttp_request_method_text(&ex.req), "POST");
    assert_str(uvhttp_request_target(&ex.req), "/a%20b?x=1");
    assert_str(uvhttp_request_query(&ex.req), "x=1");
    assert_str(uvhttp_request_host(&ex.req), "example.org:8080");
    assert_int_equal(uvhttp_request_http_version(&ex.req), UVHTTP_HTTP_1_1);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_request_query(&ex.req).size, 0);
}

static void test_versions_compare_and_have_the_names_of_access_logs(void **state) {
    (void)state;
    assert_true(UVHTTP_HTTP_1_0 < UVHTTP_HTTP_1_1 && UVHTTP_HTTP_1_1 < UVHTTP_HTTP_2);
    assert_string_equal(uvhttp_http_version_name(UVHTTP_HTTP_1_0), "HTTP/1.0");
    assert_string_equal(uvhttp_http_version_name(UVHTTP_HTTP_1_1), "HTTP/1.1");
    assert_string_equal(uvhttp_http_version_name(UVHTTP_HTTP_2), "HTTP/2.0");
}

static void test_every_method_has_its_name(void **state) {
    (void)state;
    assert_string_equal(uvhttp_method_name(UVHTTP_GET), "GET");
    assert_string_equal(uvhttp_method_name(UVHTTP_DELETE), "DELETE");
    assert_string_equal(uvhttp_method_name(UVHTTP_TRACE), "TRACE");
    assert_string_equal(uvhttp_method_name(UVHTTP_METHOD_OTHER), "");
    assert_string_equal(uvhttp_method_name(UVHTTP_ANY), "");
    assert_string_equal(uvhttp_method_name((uvhttp_method_t)99), "");
}

static void test_header_is_found_in_any_case(void **state) {
    (void)state;
    exchange_field(&ex, "Accept", "*/*");
    exchange_field(&ex, "accept-LANGUAGE", "de");
    exchange_field(&ex, "X", "");
    assert_str(uvhttp_request_header(&ex.req, "ACCEPT"), "*/*");
    assert_str(uvhttp_request_header(&ex.req, "Accept-Language"), "de");
    assert_str(uvhttp_request_header(&ex.req, "x"), "");
    assert_null(uvhttp_request_header(&ex.req, "Accept-").data);
    assert_null(uvhttp_request_header(&ex.req, "Accep").data);
    assert_null(uvhttp_request_header(&ex.req, NULL).data);
    assert_false(uvhttp_request_header_next(&ex.req, NULL, &(size_t){0}, &(uvhttp_str_t){NULL, 0}));
    assert_null(uvhttp_request_header(&ex.req, "").data);
}

static void test_header_names_differ_in_more_than_bit_five(void **state) {
    (void)state;
    exchange_field(&ex, "a^b", "caret"); /* '^' and '~' differ in the bit that makes letters small */
    exchange_field(&ex, "aaaaaaaaa^b", "long caret");
    assert_null(uvhttp_request_header(&ex.req, "a~b").data);
    assert_null(uvhttp_request_header(&ex.req, "aaaaaaaaa~b").data);
    assert_str(uvhttp_request_header(&ex.req, "A^B"), "caret");
}

static void test_repeated_headers_come_in_order(void **state) {
    (void)state;
    exchange_field(&ex, "Cookie", "a");
    exchange_field(&ex, "Host", "h");
    exchange_field(&ex, "cookie", "b");
    size_t index = 0;
    uvhttp_str_t value;
    assert_true(uvhttp_request_header_next(&ex.req, "COOKIE", &index, &value));
    assert_str(value, "a");
    assert_true(uvhttp_request_header_next(&ex.req, "COOKIE", &index, &value));
    assert_str(value, "b");
    assert_false(uvhttp_request_header_next(&ex.req, "COOKIE", &index, &value));
    assert_null(value.data);
    assert_false(uvhttp_request_header_next(&ex.req, "COOKIE", &index, NULL));
    assert_str(uvhttp_request_header(&ex.req, "cookie"), "a");
}

static void test_headers_are_counted_and_indexed(void **state) {
    (void)state;
    exchange_field(&ex, "A", "1");
    exchange_field(&ex, "B", "2");
    uvhttp_str_t name, value;
    assert_int_equal(uvhttp_request_header_count(&ex.req), 2);
    assert_true(uvhttp_request_header_at(&ex.req, 1, &name, &value));
    assert_str(name, "B");
    assert_str(value, "2");
    assert_false(uvhttp_request_header_at(&ex.req, 2, &name, &value));
    assert_null(name.data);
    assert_false(uvhttp_request_header_at(&ex.req, SIZE_MAX, NULL, NULL));
}

static void test_views_follow_a_head_that_was_copied(void **state) {
    (void)state;
    static char copy[sizeof ex.head];
    uvhttp__field_t fields[2];
    exchange_request(&ex, UVHTTP_GET, STR("/plain"), "q=1");
    ex.req.head.path_plain = true;
    exchange_field(&ex, "A", "1");
    uvhttp_str_t value;
    assert_int_equal(uvhttp__request_decode_path(&ex.req), 0);
    assert_true(uvhttp_request_query_param(&ex.req, "q", &value)); /* parsed before the move */
    memcpy(copy, ex.head, ex.head_size);
    memcpy(fields, ex.fields, sizeof fields);
    uvhttp__request_rebase(&ex.req, copy, fields);
    memset(ex.head, '!', sizeof ex.head);
    memset(ex.fields, 0xff, sizeof ex.fields);
    assert_str(uvhttp_request_path(&ex.req), "/plain");
    assert_ptr_equal(uvhttp_request_path(&ex.req).data, copy + 4);
    assert_str(uvhttp_request_header(&ex.req, "a"), "1");
    assert_true(uvhttp_request_query_param(&ex.req, "q", &value));
    assert_str(value, "1");
}

static void test_peer_is_asked_for_once(void **state) {
    (void)state;
    int before = ex.peer_calls;
    assert_str(uvhttp_request_peer(&ex.req), "[2001:db8::1]:50000");
    assert_str(uvhttp_request_peer_address(&ex.req), "2001:db8::1");
    assert_int_equal(ex.peer_calls, before + 1);
}

static void test_peer_address_has_no_port(void **state) {
    (void)state;
    uvhttp__origin_t origin = {.known = UVHTTP__ORIGIN_PEER, .peer = STR("192.0.2.1:50000")};
    ex.req.origin = &origin;
    assert_str(uvhttp_request_peer_address(&ex.req), "192.0.2.1");
    origin.peer = STR("unix:/run/a:1");
    assert_str(uvhttp_request_peer_address(&ex.req), "unix:/run/a:1");
}

static void test_data_and_body_are_forgotten_by_reset(void **state) {
    (void)state;
    int data;
    assert_null(uvhttp_request_data(&ex.req));
    uvhttp_request_set_data(&ex.req, &data);
    ex.req.body = STR("body");
    assert_ptr_equal(uvhttp_request_data(&ex.req), &data);
    assert_str(uvhttp_request_body(&ex.req), "body");
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_null(uvhttp_request_data(&ex.req));
    assert_int_equal(uvhttp_request_body(&ex.req).size, 0);
}

static void test_request_memory_is_aligned_and_limited(void **state) {
    (void)state;
    void *first = uvhttp_request_alloc(&ex.req, 3), *second = uvhttp_request_alloc(&ex.req, 3);
    assert_non_null(first);
    assert_int_equal((uintptr_t)second % 16, 0);
    assert_null(uvhttp_request_alloc(&ex.req, 0));
    assert_null(uvhttp_request_alloc(&ex.req, 100000)); /* the limit is 65536 */
}

static void test_a_copy_is_terminated_and_limited(void **state) {
    (void)state;
    char text[] = {'a', 'b', '\0', 'c'};
    char *copy = uvhttp_request_str_dup(&ex.req, (uvhttp_str_t){text, sizeof text});
    memset(text, 'x', sizeof text);
    assert_non_null(copy);
    assert_memory_equal(copy, "ab\0c", 5);
    assert_string_equal(uvhttp_request_str_dup(&ex.req, (uvhttp_str_t){NULL, 0}), "");
    assert_null(uvhttp_request_str_dup(&ex.req, (uvhttp_str_t){text, EXCHANGE_MEMORY_MAX}));
    assert_null(uvhttp_request_str_dup(&ex.req, (uvhttp_str_t){text, SIZE_MAX}));
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_request_line_is_seen_as_sent,
                          test_versions_compare_and_have_the_names_of_access_logs, test_every_method_has_its_name,
                          test_header_is_found_in_any_case, test_header_names_differ_in_more_than_bit_five,
                          test_repeated_headers_come_in_order, test_headers_are_counted_and_indexed,
                          test_views_follow_a_head_that_was_copied, test_peer_is_asked_for_once,
                          test_peer_address_has_no_port, test_data_and_body_are_forgotten_by_reset,
                          test_request_memory_is_aligned_and_limited, test_a_copy_is_terminated_and_limited);
}
