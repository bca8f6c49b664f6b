/* Owns: tests of the security header fields: defaults, each option, and that a handler's own stay. */
/* Needs: middleware. */
#include <cmocka.h>
#include <uvhttp/security_headers.h>

#include "running.h"
#include "support/run.h"

#define HEADERS(...) uvhttp_security_headers(&(uvhttp_security_headers_options_t){__VA_ARGS__})
#define NOSNIFF "X-Content-Type-Options: nosniff\r\n"
#define FRAME "X-Frame-Options: DENY\r\n"
#define REFERRER "Referrer-Policy: strict-origin-when-cross-origin\r\n"

/* What a response has; the middleware is dropped. */
static const char *sent(uvhttp_middleware_t middleware) {
    begin(UVHTTP_GET);
    assert_int_equal(run(middleware), UVHTTP_NEXT);
    uvhttp_response_text(&ex.res, 200, "body");
    finish();
    drop(middleware);
    return fields();
}

static void test_defaults(void **state) {
    (void)state;
    assert_string_equal(sent(uvhttp_security_headers(NULL)), NOSNIFF FRAME REFERRER);
}

static void test_each_can_be_changed_or_left_out(void **state) {
    (void)state;
    assert_string_equal(sent(HEADERS(.allow_sniffing = true, .frame_options = "", .referrer_policy = "")), "");
    assert_string_equal(sent(HEADERS(.frame_options = "SAMEORIGIN")),
                        NOSNIFF "X-Frame-Options: SAMEORIGIN\r\n" REFERRER);
    assert_string_equal(sent(HEADERS(.referrer_policy = "no-referrer, same-origin")),
                        NOSNIFF FRAME "Referrer-Policy: no-referrer, same-origin\r\n");
    assert_string_equal(sent(HEADERS(.content_security_policy = "default-src 'self'")),
                        NOSNIFF FRAME REFERRER "Content-Security-Policy: default-src 'self'\r\n");
    assert_string_equal(
        sent(HEADERS(.content_security_policy = "default-src 'self'", .content_security_policy_report_only = true)),
        NOSNIFF FRAME REFERRER "Content-Security-Policy-Report-Only: default-src 'self'\r\n");
    assert_string_equal(sent(HEADERS(.hsts_max_age = 600)),
                        NOSNIFF FRAME REFERRER "Strict-Transport-Security: max-age=600\r\n");
    assert_string_equal(sent(HEADERS(.hsts_max_age = 63072000, .hsts_include_subdomains = true, .hsts_preload = true)),
                        NOSNIFF FRAME REFERRER
                        "Strict-Transport-Security: max-age=63072000; includeSubDomains; preload\r\n");
}

static void test_frame_ancestors_stands_in_for_frame_options(void **state) {
    (void)state;
    assert_string_equal(sent(HEADERS(.content_security_policy = "default-src 'self';Frame-Ancestors 'self'")),
                        NOSNIFF REFERRER "Content-Security-Policy: default-src 'self';Frame-Ancestors 'self'\r\n");
    assert_non_null(
        strstr(sent(HEADERS(.content_security_policy = "frame-ancestors 'self'", .frame_options = "DENY")), FRAME));
    /* Neither another directive's source nor a policy that only reports is one. */
    assert_non_null(
        strstr(sent(HEADERS(.content_security_policy = "script-src frame-ancestors; frame-ancestorsx a")), FRAME));
    assert_non_null(strstr(
        sent(HEADERS(.content_security_policy = "frame-ancestors 'self'", .content_security_policy_report_only = true)),
        FRAME));
}

static void test_what_the_handler_set_stays(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_security_headers(NULL);
    begin(UVHTTP_GET);
    run(middleware);
    uvhttp_response_header(&ex.res, "x-frame-options", "SAMEORIGIN");
    uvhttp_response_header(&ex.res, "Referrer-Policy", "");
    finish();
    assert_string_equal(fields(), "x-frame-options: SAMEORIGIN\r\nReferrer-Policy: \r\n" NOSNIFF);
    drop(middleware);
}

static void test_errors_have_them(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_security_headers(NULL);
    begin(UVHTTP_GET);
    run(middleware);
    uvhttp__response_fail(&ex.res, 500, "error\n");
    finish();
    assert_string_equal(fields(), NOSNIFF FRAME REFERRER);
    drop(middleware);
}

static void test_wrong_options_are_refused(void **state) {
    (void)state;
    assert_refused(HEADERS(.frame_options = "deny"),
                   "middleware: security_headers: frame_options is unknown: expected \"DENY\", \"SAMEORIGIN\" or \"\"; "
                   "for single origins use frame-ancestors in content_security_policy");
    assert_refused(HEADERS(.referrer_policy = "no-referrer,never"),
                   "middleware: security_headers: referrer_policy has an unknown policy: expected those of Referrer "
                   "Policy section 3, in lower case");
    assert_null(HEADERS(.content_security_policy = "default-src 'self'\r\nX: y").run);
    assert_null(HEADERS(.content_security_policy_report_only = true).run);
    assert_null(HEADERS(.hsts_max_age = 63072001).run);
    assert_null(HEADERS(.hsts_include_subdomains = true).run);
    assert_null(HEADERS(.hsts_max_age = 63072000, .hsts_preload = true).run);
    assert_null(HEADERS(.hsts_max_age = 31535999, .hsts_include_subdomains = true, .hsts_preload = true).run);
    static char policy[8194];
    memset(policy, 'a', 8193);
    assert_null(HEADERS(.content_security_policy = policy).run);
    policy[8192] = '\0';
    assert_non_null(strstr(sent(HEADERS(.content_security_policy = policy)), policy));
}

static void test_without_memory_the_request_is_refused(void **state) {
    (void)state;
    uvhttp_middleware_t middleware = uvhttp_security_headers(NULL);
    begin(UVHTTP_GET);
    leave_memory(0);
    assert_int_equal(run(middleware), UVHTTP_STOP);
    assert_int_equal(uvhttp_response_status(&ex.res), 503);
    drop(middleware);
    ex.arena.size_max = SIZE_MAX;
}

static uvhttp_middleware_t make(void) {
    return HEADERS(.content_security_policy = "default-src 'self'", .hsts_max_age = 1);
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_refused_without_memory(make, "middleware: security_headers: out of memory", 6);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS_WITH(setup, teardown, test_defaults, test_each_can_be_changed_or_left_out,
                          test_frame_ancestors_stands_in_for_frame_options, test_what_the_handler_set_stays,
                          test_errors_have_them, test_wrong_options_are_refused,
                          test_without_memory_the_request_is_refused, test_every_allocation_may_fail);
}
