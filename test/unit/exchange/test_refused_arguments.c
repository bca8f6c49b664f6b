/* What functions refuse when there is no request, response, server or group, or no place for the result: with
 * UVHTTP_E_INVALID, and without an effect. */
/* Needs: static forms. */
#include <stdint.h>
#include <stdlib.h>
#include <uvhttp.h>

#include <cmocka.h>

#include "support/run.h"

static void run(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    abort();
}

static void test_a_deferred_response_needs_its_handle(void **state) {
    (void)state;
    assert_int_equal(uvhttp_deferred_send(NULL, 200, "text/plain", "a", 1), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_text(NULL, 200, "a"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_text(NULL, 200, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_json(NULL, 200, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_header(NULL, "a", "b"), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_deferred_run(NULL, run, NULL), UVHTTP_E_INVALID);
    uvhttp_deferred_release(NULL);
}

static void test_a_body_needs_its_request(void **state) {
    (void)state;
    uvhttp_str_t piece = {"a", 1};
    uvhttp_form_t *form = (uvhttp_form_t *)state;
    uint64_t size = 9;
    assert_int_equal(uvhttp_request_read_body(NULL, &piece, 0), UVHTTP_E_INVALID);
    assert_null(piece.data);
    assert_int_equal(uvhttp_request_save_form(NULL, 0, NULL, &form), UVHTTP_E_INVALID);
    assert_null(form);
    assert_int_equal(uvhttp_request_save_body(NULL, 0, NULL, NULL, &size), UVHTTP_E_INVALID);
    assert_int_equal(size, 9);
    assert_int_equal(uvhttp_request_write_body(NULL, 0, NULL, &size), UVHTTP_E_INVALID);
    assert_int_equal(size, 0);
    assert_int_equal(uvhttp_request_write_body(NULL, 0, NULL, NULL), UVHTTP_E_INVALID);
}

static void test_files_need_a_server_or_a_group(void **state) {
    (void)state;
    assert_int_equal(uvhttp_static(NULL, "/", "/tmp", NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_group_static(NULL, "/", "/tmp", NULL), UVHTTP_E_INVALID);
    assert_null(uvhttp_static_files(NULL, "/tmp", NULL));
    assert_int_equal(uvhttp_static_respond(NULL, NULL, NULL, 0), UVHTTP_E_INVALID);
}

static void test_a_server_is_needed_for_its_addresses_and_proxies(void **state) {
    (void)state;
    const uvhttp_proxy_options_t proxies = {.trusted_count = 0};
    assert_int_equal(uvhttp_server_listen(NULL, "127.0.0.1:0", NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_trust_proxies(NULL, &proxies), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_server_attach(NULL, (struct uv_loop_s *)state), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_log_level_parse(NULL, NULL), UVHTTP_E_INVALID);
    assert_int_equal(uvhttp_log_level_parse("warn", NULL), UVHTTP_E_INVALID);
}

int main(void) {
    return RUN_TESTS(test_a_deferred_response_needs_its_handle, test_a_body_needs_its_request,
                     test_files_need_a_server_or_a_group, test_a_server_is_needed_for_its_addresses_and_proxies);
}
