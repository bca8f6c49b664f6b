#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error_index.h"
#include "support/run.h"

static void test_every_code_has_name_message_and_status(void **state) {
    (void)state;
    for (unsigned i = 0; i < UVHTTP__ERROR_INDEX_UNKNOWN; i++) {
        int code = uvhttp__error_at(i);
        assert_true(code < 0);
        assert_int_equal(uvhttp__error_index(code), i);
        assert_int_equal(strncmp(uvhttp_error_name(code), "UVHTTP_E_", 9), 0);
        assert_true(strlen(uvhttp_error_message(code)) > 3);
        assert_null(strchr(uvhttp_error_message(code), '.'));
        int status = uvhttp_error_http_status(code);
        assert_true(status >= 400 && status <= 599);
    }
}

static void test_known_codes_say_what_they_are(void **state) {
    (void)state;
    assert_string_equal(uvhttp_error_name(UVHTTP_E_NOMEM), "UVHTTP_E_NOMEM");
    assert_string_equal(uvhttp_error_message(UVHTTP_E_NOMEM), "out of memory");
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_NOMEM), 503);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_HTTP_BODY_TOO_LARGE), 413);
    assert_int_equal(uvhttp_error_http_status(UVHTTP_E_INVALID), 500);
    assert_string_equal(uvhttp_error_name(UVHTTP_OK), "UVHTTP_OK");
    assert_string_equal(uvhttp_error_message(UVHTTP_OK), "success");
}

static void test_unknown_codes_are_acknowledged_too(void **state) {
    (void)state;
    static const int codes[] = {1, -99, -9999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_string_equal(uvhttp_error_name(codes[i]), "UVHTTP_E_UNKNOWN");
        assert_non_null(uvhttp_error_message(codes[i]));
        assert_int_equal(uvhttp_error_http_status(codes[i]), 500);
        assert_int_equal(uvhttp__error_index(codes[i]), UVHTTP__ERROR_INDEX_UNKNOWN);
    }
    assert_int_equal(uvhttp__error_index(UVHTTP_OK), UVHTTP__ERROR_INDEX_UNKNOWN);
    assert_int_equal(uvhttp__error_at(UVHTTP__ERROR_INDEX_UNKNOWN), 0);
    assert_int_equal(uvhttp__error_at(UVHTTP__ERROR_COUNT), 0);
}

int main(void) {
    return RUN_TESTS(test_every_code_has_name_message_and_status, test_known_codes_say_what_they_are,
                     test_unknown_codes_are_acknowledged_too);
}
