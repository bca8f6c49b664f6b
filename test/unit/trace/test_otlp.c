/* Owns: tests of spans as JSON: what the tests with a collector (test/integration/test_trace.py) do not reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "support/run.h"
#include "trace/span.h"

typedef struct written {
    uvhttp__span_record_t record;
    char bytes[4096];
} written_t;

static void set_field(written_t *written, uvhttp__span_field_t field, const char *text) {
    size_t at = 0;
    for (int i = 0; i < (int)field; i++) at += written->record.sizes[i];
    written->record.sizes[field] = (uint16_t)strlen(text);
    memcpy(written->bytes + at, text, strlen(text)); /* fields are set in their order */
}

/* The JSON of one span, for uvhttp__free. */
static char *json_of(const written_t *written) {
    uvhttp__otlp_t otlp = {0};
    uvhttp__otlp_begin(&otlp, "test", 0);
    uvhttp__otlp_span(&otlp, &written->record);
    uvhttp__otlp_end(&otlp);
    assert_int_equal(otlp.spans, 1);
    char *text = uvhttp__writer_finish(&otlp.out, NULL);
    assert_non_null(text);
    return text;
}

static void assert_has(const written_t *written, const char *wanted) {
    char *json = json_of(written);
    if (!strstr(json, wanted)) fail_msg("no %s in %s", wanted, json);
    uvhttp__free(json);
}

static void assert_lacks(const written_t *written, const char *unwanted) {
    char *json = json_of(written);
    if (strstr(json, unwanted)) fail_msg("%s in %s", unwanted, json);
    uvhttp__free(json);
}

static void assert_server(const char *host, bool https, const char *address, const char *port) {
    written_t written = {.record = {.https = https}};
    char wanted[256];
    set_field(&written, UVHTTP__SPAN_SERVER, host);
    snprintf(wanted, sizeof wanted,
             "{\"key\":\"server.address\",\"value\":{\"stringValue\":\"%s\"}},"
             "{\"key\":\"server.port\",\"value\":{\"intValue\":\"%s\"}}",
             address, port);
    assert_has(&written, wanted);
}

static void test_the_server_is_host_and_port(void **state) {
    (void)state;
    assert_server("a.example", false, "a.example", "80");
    assert_server("a.example", true, "a.example", "443");
    assert_server("a.example:8080", true, "a.example", "8080");
    assert_server("a.example:", false, "a.example", "80");
    assert_server("a.example:x", false, "a.example", "80");
    assert_server("[2001:db8::1]:81", false, "2001:db8::1", "81");
    assert_server("[2001:db8::1]", false, "2001:db8::1", "80");
    assert_server("2001:db8::1", false, "2001:db8::1", "80");
    written_t none = {.record = {.status = 200}};
    assert_lacks(&none, "server.");
}

static void test_text_of_clients_stays_in_its_string(void **state) {
    (void)state;
    written_t written = {.record = {.status = 200}};
    set_field(&written, UVHTTP__SPAN_METHOD, "GET");
    set_field(&written, UVHTTP__SPAN_PATH, "/\"},\n\x80\\");
    assert_has(&written, "\"url.path\",\"value\":{\"stringValue\":\"/\\\"},\\n\xef\xbf\xbd\\\\\"}}");
}

static void test_a_reset_is_an_error_with_the_status_that_was_sent(void **state) {
    (void)state;
    written_t written = {.record = {.status = 200, .error = UVHTTP_E_ABORTED}};
    assert_has(&written, "\"error.type\",\"value\":{\"stringValue\":\"aborted\"}}");
    assert_has(&written, "\"http.response.status_code\",\"value\":{\"intValue\":\"200\"}}");
    assert_has(&written, "\"status\":{\"code\":2}");
    written.record.error = UVHTTP_OK;
    assert_lacks(&written, "error.type");
    assert_has(&written, "\"status\":{}");
    written.record.status = 499;
    assert_lacks(&written, "error.type");
    written.record.status = 500;
    assert_has(&written, "\"error.type\",\"value\":{\"stringValue\":\"500\"}}");
}

static void test_a_client_of_a_unix_socket_has_no_address(void **state) {
    (void)state;
    written_t written = {.record = {.client = {.kind = UVHTTP__PEER_UNIX}}};
    assert_lacks(&written, "client.address");
    written.record.client = uvhttp__peer_of_ip((const uint8_t[]){192, 0, 2, 1}, 4, 7);
    assert_has(&written, "\"client.address\",\"value\":{\"stringValue\":\"192.0.2.1\"}}");
}

static void test_rejected_spans_are_read_in_any_form(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t count;
    } cases[] = {
        {"", 0},
        {"{}", 0},
        {"{\"partialSuccess\":{}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}", 3},
        {"{\"partialSuccess\": { \"rejectedSpans\" :\t17, \"errorMessage\":\"x\"}}", 17},
        {"{\"partialSuccess\":{\"rejectedSpans\":null}}", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\"", 0},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"99999999999999999999\"}}", UINT64_C(9999999999)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(uvhttp__otlp_rejected(uvhttp__str_from(cases[i].text)), cases[i].count);
}

int main(void) {
    return RUN_TESTS(test_the_server_is_host_and_port, test_text_of_clients_stays_in_its_string,
                     test_a_reset_is_an_error_with_the_status_that_was_sent,
                     test_a_client_of_a_unix_socket_has_no_address, test_rejected_spans_are_read_in_any_form);
}
