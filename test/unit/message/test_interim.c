/* Owns: tests of interim responses as the handler makes them: what is sent, and what is refused. */
#include <cmocka.h>
#include <uvhttp/log.h>

#include "one_exchange.h"
#include "support/run.h"

static int warnings;

static void count_warning(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)size, (void)user;
    if (level == UVHTTP_LOG_LEVEL_WARN && strstr(message, "interim response")) ++warnings;
}

static void expect_refused(int expected, int status, const uvhttp_response_field_t *fields, size_t count) {
    warnings = 0;
    assert_int_equal(uvhttp_response_interim(&ex.res, status, fields, count), expected);
    assert_int_equal(warnings, 1);
}

static const uvhttp_response_field_t hint = {"Link", "</a.css>; rel=preload"};

static void test_fields_are_sent_and_stay_out_of_the_final_response(void **state) {
    (void)state;
    const uvhttp_response_field_t fields[] = {{"Link", "</a>"}, {"Link", "</b>"}, {"X-Empty", ""}};
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_interim(&ex.res, 103, fields, 3), 0);
    assert_int_equal(uvhttp_response_interim(&ex.res, 102, NULL, 0), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "x"), 0);
    assert_int_equal(uvhttp_response_interim(&ex.res, 199, NULL, 0), 0); /* it has not left yet */
    assert_string_equal(ex.log, "interim:103:Link: </a>\r\nLink: </b>\r\nX-Empty: \r\n interim:102: interim:199: ");
    assert_null(uvhttp_response_header_get(&ex.res, "Link").data);
    assert_int_equal(uvhttp_response_status(&ex.res), 200);
}

static void test_other_statuses_and_bad_fields_are_refused(void **state) {
    (void)state;
    static const int statuses[] = {-103, 0, 99, 100, 101, 200, 404};
    const uvhttp_response_field_t bad[] = {{NULL, "x"},         {"X", NULL},      {"", "x"},
                                           {"X Y", "z"},        {"X", "a\r\nb"},  {"Content-Length", "1"},
                                           {"connection", "x"}, {"Upgrade", "x"}, {"Transfer-Encoding", "x"},
                                           {"Date", "tomorrow"}};
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; ++i)
        expect_refused(UVHTTP_E_INVALID, statuses[i], &hint, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) expect_refused(UVHTTP_E_INVALID, 103, &bad[i], 1);
    expect_refused(UVHTTP_E_INVALID, 103, NULL, 1);
    assert_int_equal(uvhttp_response_interim(NULL, 103, &hint, 1), UVHTTP_E_INVALID);
    static char large[70000];
    memset(large, 'a', sizeof large - 1);
    expect_refused(UVHTTP_E_LIMIT, 103, &(uvhttp_response_field_t){"X", large}, 1);
    assert_string_equal(ex.log, "");
}

static void test_it_is_too_late_when_the_final_response_has_begun(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_begin(&ex.res, 200, NULL, UVHTTP_SIZE_UNKNOWN), 0);
    ex.log[0] = '\0';
    expect_refused(UVHTTP_E_STATE, 103, &hint, 1);
    assert_int_equal(uvhttp_response_end(&ex.res), 0);
    expect_refused(UVHTTP_E_STATE, 103, &hint, 1);
    assert_string_equal(ex.log, "end ");
}

static void finish_with_interim(uvhttp_response_t *res, void *user) {
    (void)res, (void)user;
    expect_refused(UVHTTP_E_STATE, 103, &hint, 1);
}

static void test_hooks_and_deferred_responses_are_refused(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    assert_int_equal(uvhttp_response_on_finish(&ex.res, finish_with_interim, NULL), 0);
    assert_int_equal(uvhttp_response_text(&ex.res, 200, "x"), 0);
    uvhttp__response_finish(&ex.res);
    uvhttp__response_done(&ex.res, 0);
    uvhttp__response_reset(&ex.res);
    assert_non_null(uvhttp_response_defer(&ex.res));
    expect_refused(UVHTTP_E_STATE, 103, &hint, 1);
    assert_string_equal(ex.log, "defer ");
}

static void test_a_client_of_http_1_0_gets_none(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    ex.req.head.version = UVHTTP_HTTP_1_0;
    assert_int_equal(uvhttp_response_interim(&ex.res, 103, &hint, 1), 0);
    expect_refused(UVHTTP_E_INVALID, 101, &hint, 1);
    assert_string_equal(ex.log, "");
}

static void test_what_the_protocol_returns_is_returned(void **state) {
    (void)state;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    ex.sink_result = UVHTTP_E_ABORTED;
    assert_int_equal(uvhttp_response_interim(&ex.res, 103, &hint, 1), UVHTTP_E_ABORTED);
    ex.sink_result = UVHTTP_E_LIMIT;
    expect_refused(UVHTTP_E_LIMIT, 103, &hint, 1);
    uvhttp__response_abort(&ex.res);
    ex.sink_result = 0;
    assert_int_equal(uvhttp_response_interim(&ex.res, 103, &hint, 1), UVHTTP_E_ABORTED);
}

int main(void) {
    assert_int_equal(uvhttp_log_set_callback(count_warning, NULL), 0);
    assert_int_equal(uvhttp_log_set_rate_limit(0), 0);
    return RUN_TESTS_WITH(set_up, tear_down, test_fields_are_sent_and_stay_out_of_the_final_response,
                          test_other_statuses_and_bad_fields_are_refused,
                          test_it_is_too_late_when_the_final_response_has_begun,
                          test_hooks_and_deferred_responses_are_refused, test_a_client_of_http_1_0_gets_none,
                          test_what_the_protocol_returns_is_returned);
}
