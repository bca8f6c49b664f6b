/* Owns: tests of the character classes: field names and values (RFC 9110 sections 5.1 and 5.5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/chars.h"
#include "support/run.h"

static bool is_tchar(int byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
           (byte != 0 && byte < 0x80 && strchr("!#$%&'*+-.^_`|~", byte) != NULL);
}

static void test_header_names(void **state) {
    (void)state;
    assert_false(uvhttp__valid_header_name((uvhttp_str_t){"", 0}));
    for (int byte = 0; byte < 256; ++byte) {
        char name[3] = {'a', (char)byte, 'b'};
        assert_int_equal(uvhttp__valid_header_name((uvhttp_str_t){name, 3}), is_tchar(byte));
        assert_int_equal(uvhttp__valid_header_name((uvhttp_str_t){name + 1, 1}), is_tchar(byte));
    }
}

static void test_header_values_with_every_byte_in_every_place(void **state) {
    (void)state;
    char value[40];
    memset(value, 'v', sizeof value);
    for (size_t size = 0; size <= sizeof value; ++size) {
        assert_true(uvhttp__valid_header_value((uvhttp_str_t){value, size}));
        for (size_t at = 0; at < size; ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                value[at] = (char)byte;
                bool valid = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
                assert_int_equal(uvhttp__valid_header_value((uvhttp_str_t){value, size}), valid);
            }
            value[at] = 'v';
        }
    }
}

int main(void) {
    return RUN_TESTS(test_header_names, test_header_values_with_every_byte_in_every_place);
}
