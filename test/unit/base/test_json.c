/* Owns: tests of uvhttp_json_string. The check of texts in parts is the second opinion. */
#include <stdlib.h>
#include <string.h>
#include <uvhttp/str.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/run.h"

static void expect(const char *text, size_t size, const char *expected) {
    char buffer[256];
    size_t written = 0;
    assert_int_equal(uvhttp_json_string(buffer, sizeof buffer, (uvhttp_str_t){text, size}, &written), UVHTTP_OK);
    assert_string_equal(buffer, expected);
    assert_int_equal(written, strlen(expected));
}

#define EXPECT(literal, expected) expect(literal, sizeof(literal) - 1, expected)

static void test_what_needs_no_escape_stays(void **state) {
    (void)state;
    expect(NULL, 0, "\"\"");
    EXPECT("", "\"\"");
    EXPECT("a b/'c' \x7f", "\"a b/'c' \x7f\"");
    EXPECT("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    EXPECT("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf", "\"\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf\"");
}

static void test_quotes_backslashes_and_controls_are_escaped(void **state) {
    (void)state;
    EXPECT("\"\\\b\f\n\r\t", "\"\\\"\\\\\\b\\f\\n\\r\\t\"");
    EXPECT("\0\x01\x0b\x1f", "\"\\u0000\\u0001\\u000b\\u001f\"");
}

/* Unicode 15 section 3.9, "U+FFFD substitution of maximal subparts". */
static void test_each_maximal_part_that_is_malformed_is_replaced_once(void **state) {
    (void)state;
#define R "\xef\xbf\xbd"
    EXPECT("\x80", "\"" R "\"");
    EXPECT("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", "\"" R R R R R R R R "A\"");
    EXPECT("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", "\"" R R R R R R R R "A\"");
    EXPECT("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", "\"" R R R R R "A" R R "B\"");
    EXPECT("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", "\"" R R R R "A\"");
    EXPECT("a\xf0\x9f\x98", "\"a" R "\"");
    EXPECT("\xe2\x82\"", "\"" R "\\\"\"");
    EXPECT("\xc3\n", "\"" R "\\n\"");
#undef R
}

/* All texts of four bytes, of those with which a rule of UTF-8 begins or ends, before one byte that shows where the
 * next character begins. */
static void test_any_bytes_become_utf8_and_utf8_stays(void **state) {
    (void)state;
    static const char edges[] = "\x20\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3"
                                "\xf4\xf5\xff";
    const size_t count = sizeof edges - 1;
    for (size_t i = 0; i < count * count * count * count; i++) {
        char text[5] = {edges[i % count], edges[i / count % count], edges[i / count / count % count],
                        edges[i / count / count / count], 'x'};
        char buffer[64];
        size_t written;
        int status = uvhttp_json_string(buffer, sizeof buffer, (uvhttp_str_t){text, 5}, &written);
        bool same = written == 7 && memcmp(buffer + 1, text, 5) == 0;
        if (status != UVHTTP_OK || !uvhttp__utf8_valid(buffer, written) || same != uvhttp__utf8_valid(text, 5) ||
            buffer[written - 2] != 'x')
            fail_msg("%zu: %s", i, buffer);
    }
}

static void test_a_string_that_does_not_fit_says_what_it_needs(void **state) {
    (void)state;
    static const char text[] = "a\n\x01\xff";
    const size_t needed = 1 + 1 + 2 + 6 + 3 + 1;
    for (size_t size = 0; size <= needed + 1; size++) {
        char *buffer = malloc(size + 1); /* with a byte behind it that has to stay */
        buffer[size] = 'z';
        size_t written = 0;
        int status = uvhttp_json_string(size ? buffer : NULL, size, (uvhttp_str_t){text, sizeof text - 1}, &written);
        assert_int_equal(written, needed);
        assert_int_equal(status, size > needed ? UVHTTP_OK : UVHTTP_E_LIMIT);
        assert_int_equal(buffer[size], 'z');
        free(buffer);
    }
    assert_int_equal(uvhttp_json_string(NULL, 1, (uvhttp_str_t){text, 1}, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_json_string(NULL, 0, (uvhttp_str_t){text, 1}, NULL), UVHTTP_E_LIMIT);
    char worst[UVHTTP_JSON_STRING_SIZE_MAX(2)];
    assert_int_equal(uvhttp_json_string(worst, sizeof worst, (uvhttp_str_t){"\0\x01", 2}, NULL), UVHTTP_OK);
    assert_int_equal(uvhttp_json_string(worst, sizeof worst - 1, (uvhttp_str_t){"\0\x01", 2}, NULL), UVHTTP_E_LIMIT);
}

int main(void) {
    return RUN_TESTS(test_what_needs_no_escape_stays, test_quotes_backslashes_and_controls_are_escaped,
                     test_each_maximal_part_that_is_malformed_is_replaced_once,
                     test_any_bytes_become_utf8_and_utf8_stays, test_a_string_that_does_not_fit_says_what_it_needs);
}
