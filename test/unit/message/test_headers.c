/* Owns: tests of a response's header fields, above all that no field can be smuggled in. */
#include <cmocka.h>

#include "one_exchange.h"
#include "support/run.h"

static uvhttp_str_t text(void) {
    return (uvhttp_str_t){ex.res.headers ? ex.res.headers : "", ex.res.headers_size};
}

static int set(const char *name, const char *value) {
    return uvhttp_response_header(&ex.res, name, value);
}

static int add(const char *name, const char *value) {
    return uvhttp_response_header_add(&ex.res, name, value);
}

static void test_fields_are_kept_as_they_are_sent(void **state) {
    (void)state;
    assert_int_equal(set("X-One", "1"), 0);
    assert_int_equal(add("Set-Cookie", "a=1"), 0);
    assert_int_equal(add("set-cookie", "b=2"), 0);
    assert_int_equal(set("X-Empty", ""), 0);
    assert_str(text(), "X-One: 1\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty: \r\n");
    assert_str(uvhttp_response_header_get(&ex.res, "SET-COOKIE"), "a=1");
    assert_str(uvhttp_response_header_get(&ex.res, "x-empty"), "");
    assert_null(uvhttp_response_header_get(&ex.res, "X").data);
    assert_null(uvhttp_response_header_get(&ex.res, "X-One: 1").data);
}

static int set_str(const char *name, const char *value, size_t size) {
    return uvhttp_response_header_str(&ex.res, name, (uvhttp_str_t){value, size});
}

static void test_values_with_a_length_are_checked_like_others(void **state) {
    (void)state;
    assert_int_equal(set_str("X-Cut", "one two", 3), 0);
    assert_int_equal(uvhttp_response_header_add_str(&ex.res, "x-cut", (uvhttp_str_t){"three", 3}), 0);
    assert_str(text(), "X-Cut: one\r\nx-cut: thr\r\n");
    assert_int_equal(set_str("X-Cut", "four", 0), 0);
    assert_str(text(), "X-Cut: \r\n");
    assert_int_equal(set_str("X-Cut", NULL, 0), UVHTTP_E_INVALID);
    assert_int_equal(set_str(NULL, "a", 1), UVHTTP_E_INVALID);
    assert_int_equal(set_str("X-Cut", "a\0b", 3), UVHTTP_E_INVALID);
    assert_int_equal(set_str("X-Cut", "a\r\nb: c", 7), UVHTTP_E_INVALID);
    assert_int_equal(set_str("Content-Length", "1", 1), UVHTTP_E_INVALID);
    assert_int_equal(set_str("Connection", "closed", 5), 0);
    assert_int_equal(set_str("Content-Type", "text/plainer", 10), 0);
    assert_memory_equal(ex.res.content_type, "text/plain", ex.res.content_type_size);
    assert_str(text(), "X-Cut: \r\n");
}

static void test_set_replaces_all_of_a_name(void **state) {
    (void)state;
    add("A", "1"), add("B", "2"), add("a", "3"), add("C", "4");
    assert_int_equal(set("A", "new"), 0);
    assert_str(text(), "B: 2\r\nC: 4\r\nA: new\r\n");
    assert_int_equal(set("a", "newer"), 0);
    assert_str(text(), "B: 2\r\nC: 4\r\na: newer\r\n");
}

static void test_remove_takes_all_of_a_name(void **state) {
    (void)state;
    add("A", "1"), add("B", "2"), add("a", "3"), add("AA", "4");
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "A"), 0);
    assert_str(text(), "B: 2\r\nAA: 4\r\n");
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "missing"), 0);
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "B"), 0);
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "AA"), 0);
    assert_int_equal(ex.res.headers_size, 0);
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "no token"), UVHTTP_E_INVALID);
}

static void test_no_byte_of_a_value_makes_a_new_line(void **state) {
    (void)state;
    for (int c = 1; c < 256; ++c) {
        char value[] = {'a', (char)c, 'b', '\0'};
        bool control = (c < 0x20 && c != '\t') || c == 0x7f;
        assert_int_equal(set("X", value), control ? UVHTTP_E_INVALID : 0);
        assert_int_equal(add("Content-Type", value), control ? UVHTTP_E_INVALID : 0);
    }
    /* A view may hold NUL. */
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("X"), STR("a\0b"), true), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("X\0"), STR("a"), true), UVHTTP_E_INVALID);
}

static void test_names_are_tokens(void **state) {
    (void)state;
    for (int c = 1; c < 256; ++c) {
        char name[] = {'a', (char)c, '\0'};
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool token = alnum || (c < 128 && strchr("!#$%&'*+-.^_`|~", c));
        assert_int_equal(set(name, "v"), token ? 0 : UVHTTP_E_INVALID);
    }
    assert_int_equal(set("", "v"), UVHTTP_E_INVALID);
    assert_int_equal(set(NULL, "v"), UVHTTP_E_INVALID);
    assert_int_equal(set("A", NULL), UVHTTP_E_INVALID);
}

static void test_framing_fields_are_the_librarys(void **state) {
    (void)state;
    static const char *const names[] = {"Content-Length", "content-length", "TRANSFER-ENCODING",
                                        "Connection",     "Date",           "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        assert_int_equal(set(names[i], "1"), UVHTTP_E_INVALID);
        assert_int_equal(add(names[i], "1"), UVHTTP_E_INVALID);
        assert_int_equal(uvhttp_response_header_remove(&ex.res, names[i]), UVHTTP_E_INVALID);
    }
    assert_int_equal(set("Connection", "keep-alive"), UVHTTP_E_INVALID);
    assert_false(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_CLOSE));
    assert_int_equal(set("connection", "Close"), 0);
    assert_true(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_CLOSE));
    assert_int_equal(ex.res.headers_size, 0);
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("Upgrade"), STR("websocket"), true), 0);
}

static void test_content_type_is_one(void **state) {
    (void)state;
    assert_int_equal(set("Content-Type", "a/b"), 0);
    assert_int_equal(add("content-type", "c/d"), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "Content-type"), "c/d");
    assert_int_equal(uvhttp_response_header_remove(&ex.res, "CONTENT-TYPE"), 0);
    assert_null(uvhttp_response_header_get(&ex.res, "Content-type").data);
    assert_int_equal(uvhttp_response_send(&ex.res, 200, NULL, "x", 1), 0);
    assert_int_equal(ex.res.content_type_size, 0);
}

static void test_value_may_be_a_view_of_the_fields_themselves(void **state) {
    (void)state;
    for (int i = 0; i < 12; ++i) add("Filler", "................"); /* 26 bytes each: the next one makes it grow */
    assert_int_equal(set("A", "first"), 0);
    uvhttp_str_t value = uvhttp_response_header_get(&ex.res, "A");
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("B"), value, true), 0);
    value = uvhttp_response_header_get(&ex.res, "A");
    assert_int_equal(uvhttp__response_put_header(&ex.res, STR("A"), value, true), 0);
    assert_str(uvhttp_response_header_get(&ex.res, "A"), "first");
    assert_str(uvhttp_response_header_get(&ex.res, "B"), "first");
}

static void test_size_of_all_fields_is_bounded(void **state) {
    (void)state;
    char value[1001];
    memset(value, 'v', 1000);
    value[1000] = '\0';
    size_t count = 0;
    int status;
    while ((status = add("X", value)) == 0 && count < 1000) ++count;
    assert_int_equal(status, UVHTTP_E_LIMIT);
    assert_int_equal(count, UVHTTP__RESPONSE_HEADERS_SIZE_MAX / 1005);
    assert_int_equal(ex.res.headers_size, count * 1005);
    assert_int_equal(set("X", "one"), 0); /* a short one still fits */
    assert_str(text(), "X: one\r\n");
}

static void test_failing_field_changes_nothing(void **state) {
    (void)state;
    assert_int_equal(set("A", "1"), 0);
    static char value[300];
    memset(value, 'v', sizeof value - 1);
    ex.arena.size_max = ex.arena.used;
    assert_int_equal(set("A", value), UVHTTP_E_LIMIT);
    /* Longer than what is kept in the response itself. */
    assert_int_equal(set("Content-Type", "application/vnd.example.a-name-of-more-than-forty-eight-bytes"),
                     UVHTTP_E_LIMIT);
    assert_str(text(), "A: 1\r\n");
    assert_int_equal(ex.res.content_type_size, 0);
    ex.arena.size_max = 1 << 20;
}

/* The last type is kept over resets, but not overwritten while the response in hand uses it. */
static void test_type_that_was_kept_survives_a_change_that_fails(void **state) {
    (void)state;
    assert_int_equal(set("Content-Type", "text/one"), 0);
    uvhttp__response_reset(&ex.res);
    assert_int_equal(set("Content-Type", "text/one"), 0);
    ex.arena.size_max = ex.arena.used;
    assert_int_equal(set("Content-Type", "text/two"), UVHTTP_E_LIMIT);
    assert_memory_equal(ex.res.content_type, "text/one", 8);
    ex.arena.size_max = 1 << 20;
    assert_int_equal(set("Content-Type", "text/two"), 0);
    assert_memory_equal(ex.res.content_type, "text/two", 8);
}

int main(void) {
    return RUN_TESTS_WITH(set_up, tear_down, test_fields_are_kept_as_they_are_sent,
                          test_values_with_a_length_are_checked_like_others, test_set_replaces_all_of_a_name,
                          test_remove_takes_all_of_a_name, test_no_byte_of_a_value_makes_a_new_line,
                          test_names_are_tokens, test_framing_fields_are_the_librarys, test_content_type_is_one,
                          test_value_may_be_a_view_of_the_fields_themselves, test_size_of_all_fields_is_bounded,
                          test_failing_field_changes_nothing, test_type_that_was_kept_survives_a_change_that_fails);
}
