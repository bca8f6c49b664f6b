/* Owns: tests of the bytes of a line: whatever a message contains, a text line is one line without control characters,
 * and a JSON line is one object that parses and contains the message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "obs/log_line.h"

#define NOW_NS UINT64_C(1767997800123456789) /* 2026-01-09T22:30:00.123456789Z */

static char line[UVHTTP__LOG_LINE_MAX];
static const char *trace_id = "";

static const char *make(uvhttp_log_format_t format, const char *text, size_t size) {
    char message[UVHTTP_LOG_MESSAGE_MAX + 1];
    size_t escaped = uvhttp__log_escape(format, text, size, false, message);
    assert_true(escaped <= UVHTTP_LOG_MESSAGE_MAX);
    assert_int_equal(strlen(message), escaped);
    size_t total = uvhttp__log_line(format, UVHTTP_LOG_LEVEL_WARN, message, trace_id, NOW_NS, line);
    assert_true(total > 1 && line[total - 1] == '\n');
    line[total - 1] = '\0';
    assert_int_equal(strlen(line), total - 1);
    return line;
}

static const char *make_json(const char *text) {
    return make(UVHTTP_LOG_FORMAT_JSON, text, strlen(text));
}

static void test_the_two_forms(void **state) {
    (void)state;
    assert_string_equal(make(UVHTTP_LOG_FORMAT_TEXT, "io: paused", 10), "2026-01-09T22:30:00.123Z WARN  io: paused");
    assert_string_equal(make_json("io: paused"), "{\"time\":\"2026-01-09T22:30:00.123Z\",\"level\":\"WARN\","
                                                 "\"area\":\"io\",\"message\":\"paused\"}");
    assert_string_equal(make_json("of the application"), "{\"time\":\"2026-01-09T22:30:00.123Z\",\"level\":\"WARN\","
                                                         "\"message\":\"of the application\"}");
}

static void test_a_trace_is_named(void **state) {
    (void)state;
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    assert_string_equal(make(UVHTTP_LOG_FORMAT_TEXT, "paid", 4),
                        "2026-01-09T22:30:00.123Z WARN  paid trace_id=4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(make_json("pay: paid"), "{\"time\":\"2026-01-09T22:30:00.123Z\",\"level\":\"WARN\","
                                                "\"area\":\"pay\",\"message\":\"paid\","
                                                "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}");
    static char longest[UVHTTP_LOG_MESSAGE_MAX + 1];
    memset(longest, 'x', sizeof longest - 1);
    memcpy(longest, "abcdefghijklmnopqrstuvwxyz_01234: ", 34);
    assert_non_null(strstr(make_json(longest), trace_id)); /* the longest line */
    trace_id = "";
}

static void test_an_area_is_a_short_name_only(void **state) {
    (void)state;
    assert_non_null(strstr(make_json("access_log: a: b"), "\"area\":\"access_log\",\"message\":\"a: b\"}"));
    static const char *const none[] = {"GET: x",
                                       ": x",
                                       "io:x",
                                       "io",
                                       "",
                                       "two words: x",
                                       "io:",
                                       "a\"b: inject",
                                       "abcdefghijklmnopqrstuvwxyz_0123456789: too long"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_null(strstr(make_json(none[i]), "\"area\""));
}

/* --- a strict reader of one JSON string (RFC 8259 section 7) --- */

/* Reads a string behind its quote into out[]: a byte per character below 256, others as they stand. Returns what is
 * behind it. */
static const char *read_string(const char *at, char *out, size_t *size) {
    *size = 0;
    for (; *at != '"'; (*size)++) {
        assert_true((uint8_t)*at >= 0x20 && *at != 0x7f);
        if (*at != '\\') {
            out[*size] = *at++;
            continue;
        }
        if (at[1] == '"' || at[1] == '\\') {
            out[*size] = at[1];
            at += 2;
            continue;
        }
        assert_true(at[1] == 'u' && at[2] == '0' && at[3] == '0');
        char digits[3] = {at[4], at[5]}, *end;
        out[*size] = (char)strtoul(digits, &end, 16);
        assert_ptr_equal(end, digits + 2);
        at += 6;
    }
    return at + 1;
}

static void check_json(const char *text, size_t size) {
    char message[UVHTTP_LOG_MESSAGE_MAX + 1];
    size_t got;
    const char *at = strstr(make(UVHTTP_LOG_FORMAT_JSON, text, size), "\"message\":\"");
    assert_non_null(at);
    assert_string_equal(read_string(at + 11, message, &got), "}");
    if (got >= 3 && memcmp(message + got - 3, "...", 3) == 0) got -= 3, assert_true(got <= size);
    assert_memory_equal(message, text, got);
    if (size <= UVHTTP_LOG_MESSAGE_MAX / 6) assert_int_equal(got, size); /* all of it fits */
}

static void check_text(const char *text, size_t size) {
    for (const char *at = make(UVHTTP_LOG_FORMAT_TEXT, text, size); *at; at++)
        assert_true((uint8_t)*at >= 0x20 && *at != 0x7f);
}

static void test_every_byte_and_every_pair_of_bytes(void **state) {
    (void)state;
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            char text[] = {'X', (char)a, (char)b, 'y'}; /* X: no area */
            check_json(text, sizeof text);
            check_text(text, sizeof text);
        }
    }
}

static void test_random_bytes_of_any_size(void **state) {
    (void)state;
    static char text[UVHTTP_LOG_MESSAGE_MAX];
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 2000; round++) {
        size_t size = 0;
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        for (size_t wanted = random % (sizeof text + 1); size < wanted; size++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            text[size] = (char)(random >> 11);
        }
        check_json(text, size);
        check_text(text, size);
    }
}

/* Control characters of C1, as bytes of UTF-8, and what ends a line for some readers. */
static void test_what_a_terminal_or_a_reader_would_obey_is_escaped(void **state) {
    (void)state;
    static const char text[] = "\xc2\x9b"
                               "31m \xe2\x80\xa8 \xe2\x80\xa9 \xc3\xa4";
    assert_non_null(
        strstr(make_json(text), "\\u00c2\\u009b31m \\u00e2\\u0080\\u00a8 \\u00e2\\u0080\\u00a9 \xc3\xa4\"}"));
    assert_non_null(strstr(make(UVHTTP_LOG_FORMAT_TEXT, text, 3), "\\xc2\\x9b3"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_two_forms),
        cmocka_unit_test(test_a_trace_is_named),
        cmocka_unit_test(test_an_area_is_a_short_name_only),
        cmocka_unit_test(test_every_byte_and_every_pair_of_bytes),
        cmocka_unit_test(test_random_bytes_of_any_size),
        cmocka_unit_test(test_what_a_terminal_or_a_reader_would_obey_is_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
