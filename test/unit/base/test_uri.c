/* Owns: tests of authorities and plain paths (RFC 3986 section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/uri.h"

static bool valid(const char *text, bool port_required) {
    return uvhttp__valid_authority((uvhttp_str_t){text, strlen(text)}, port_required);
}

static void test_authorities(void **state) {
    (void)state;
    static const char *const good[] = {"a",       "example.com", "example.com:", "example.com:65535", "127.0.0.1:80",
                                       "[::1]",   "[::1]:443",   "a%2Fb",        "[::ffff:1.2.3.4]",  "a_b~c",
                                       "[1:2::8]"};
    static const char *const bad[] = {"",
                                      ":80",
                                      "a:65536",
                                      "a:8a",
                                      "user@a",
                                      "a b",
                                      "a/b",
                                      "[::1",
                                      "[:::1]:",
                                      "[g::]",
                                      "a%2",
                                      "[::1]x",
                                      "a,b",
                                      "a:1:2",
                                      "[::1%e]",
                                      "a\x80",
                                      "[::ffff:1.2.3]",
                                      "[::ffff:1.2..4]",
                                      "[::ffff:1.2.3.256]",
                                      "[::ffff:1.2.3.04]",
                                      "[::ffff:1.2.3x4]",
                                      "[::ffff:1.2.3.4.5]",
                                      "a]"};
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i) assert_true(valid(good[i], false));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) assert_false(valid(bad[i], false));
    assert_true(valid("a:80", true));
    assert_false(valid("a", true));
    assert_false(valid("a:", true));
}

/* What follows a host is a port, or it is no authority. */
static void test_ports(void **state) {
    (void)state;
    static const char *const hosts[] = {"a", "[::1]"};
    static const struct {
        const char *text;
        bool good, port;
    } ends[] = {{"", true, false},         {":", true, false},     {"x", false, false},
                {":1", true, true},        {":65535", true, true}, {":65536", false, false},
                {":000080", false, false}, {":/", false, false},   {":8:", false, false}};
    for (size_t i = 0; i < 2; ++i) {
        for (size_t j = 0; j < sizeof ends / sizeof *ends; ++j) {
            if (i == 0 && *ends[j].text == 'x') continue; /* a longer name */
            char text[32];
            strcpy(text, hosts[i]);
            strcat(text, ends[j].text);
            if (valid(text, false) != ends[j].good || valid(text, true) != ends[j].port) fail_msg("%s", text);
        }
    }
}

static void test_plain_paths(void **state) {
    (void)state;
    static const char *const plain[] = {"/", "/a", "/a/b/", "/.a", "/a.", "/...", "/a/..b", "*"};
    static const char *const other[] = {"//", "/a//b", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/%41"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i)
        assert_true(uvhttp__plain_path(plain[i], strlen(plain[i])));
    for (size_t i = 0; i < sizeof other / sizeof *other; ++i)
        assert_false(uvhttp__plain_path(other[i], strlen(other[i])));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_authorities), cmocka_unit_test(test_ports),
                                       cmocka_unit_test(test_plain_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
