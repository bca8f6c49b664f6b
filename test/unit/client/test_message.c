/* Owns: tests of what a request to another server looks like: urls, and heads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <uvhttp/str.h>

#include "base/str.h"
#include "client/connect.h"
#include "client/message.h"
#include "support/run.h"

typedef struct good {
    const char *text, *address, *head;
} good_t;

static void test_urls_name_an_address_and_a_target(void **state) {
    (void)state;
    static const good_t goods[] = {
        {"http://a", "a:80", "GET / HTTP/1.1\r\nHost: a\r\n"},
        {"http://a/", "a:80", "GET / HTTP/1.1\r\nHost: a\r\n"},
        {"HTTP://Name.example:8080/b/c?d=%20&e", "Name.example:8080",
         "GET /b/c?d=%20&e HTTP/1.1\r\nHost: Name.example:8080\r\n"},
        {"http://127.0.0.1:1?x", "127.0.0.1:1", "GET /?x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"},
        {"http://a:/x", "a:80", "GET /x HTTP/1.1\r\nHost: a:\r\n"},
        {"http://[::1]/x", "[::1]:80", "GET /x HTTP/1.1\r\nHost: [::1]\r\n"},
        {"http://[fe80::1]:81", "[fe80::1]:81", "GET / HTTP/1.1\r\nHost: [fe80::1]:81\r\n"},
        {"http://unix/x", "unix:80", "GET /x HTTP/1.1\r\nHost: unix\r\n"}, /* a host like any other: TCP only */
        {"http://fd:3/x", "fd:3", "GET /x HTTP/1.1\r\nHost: fd:3\r\n"},
    };
    for (size_t i = 0; i < sizeof goods / sizeof *goods; i++) {
        uvhttp__client_url_t url;
        char address[UVHTTP__CONNECT_TEXT_MAX], head[512] = "";
        const uvhttp_client_request_t request = {.url = goods[i].text};
        print_message("%s\n", goods[i].text);
        assert_int_equal(uvhttp__client_url_parse(uvhttp__str_from(goods[i].text), &url), UVHTTP_OK);
        assert_int_equal(uvhttp__client_url_address(&url, address, sizeof address), UVHTTP_OK);
        assert_string_equal(address, goods[i].address);
        size_t size = uvhttp__client_write_head(&request, &url, NULL, NULL);
        assert_true(size < sizeof head);
        assert_int_equal(uvhttp__client_write_head(&request, &url, NULL, head), size);
        size_t expected = strlen(goods[i].head);
        assert_memory_equal(head, goods[i].head, expected);
        assert_string_equal(head + expected, "Connection: close\r\n\r\n");
    }
}

static void test_urls_that_could_be_read_differently_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        "a",
        "http:/a",
        "http://",
        "http:///x",
        "http://a b",
        "http://a/\n",
        "http://a/#",
        "http://u@a/",
        "http://a:x/",
        "http://a:1:2/",
        "http://[::1/",
        "http://[g]/",
        "http://a:65536/",
        "ftp://a/",
        "http://:80/",
        "//a",
        "http://a\\b",
        "http://a/\x80",
        "http://a/\x7f",
    };
    uvhttp__client_url_t url;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (uvhttp__client_url_parse(uvhttp__str_from(bad[i]), &url) != UVHTTP_E_ADDRESS) fail_msg("%s", bad[i]);
    assert_int_equal(uvhttp__client_url_parse(UVHTTP__STR("https://a/"), &url), UVHTTP_E_UNSUPPORTED);
}

static void test_what_belongs_to_one_connection_is_not_passed_on(void **state) {
    (void)state;
    assert_true(uvhttp_field_is_hop_by_hop(uvhttp_str("Transfer-Encoding")));
    assert_true(uvhttp_field_is_hop_by_hop(uvhttp_str("te")));
    assert_true(uvhttp_field_is_hop_by_hop(uvhttp_str("CONTENT-LENGTH")));
    assert_false(uvhttp_field_is_hop_by_hop(uvhttp_str("Content-Type")));
    assert_false(uvhttp_field_is_hop_by_hop(uvhttp_str("t")));
    assert_false(uvhttp_field_is_hop_by_hop((uvhttp_str_t){NULL, 0}));
}

static void test_a_url_names_no_unix_socket(void **state) {
    (void)state;
    static const char *const bad[] = {"http://unix:/run/a.sock", "http://unix:/run/a.sock:/x?y", "HTTP://UNIX:/run/a",
                                      "http://unix:@name:/x", "http://unix:/"};
    uvhttp__client_url_t url;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (uvhttp__client_url_parse(uvhttp__str_from(bad[i]), &url) != UVHTTP_E_CLIENT_UNIX_URL)
            fail_msg("%s", bad[i]);
}

static void test_an_address_has_a_limit(void **state) {
    (void)state;
    char text[UVHTTP__CONNECT_TEXT_MAX + 16] = "http://", address[UVHTTP__CONNECT_TEXT_MAX];
    uvhttp__client_url_t url;
    size_t fits = sizeof address - sizeof ":80";
    memset(text + 7, 'a', fits);
    assert_int_equal(uvhttp__client_url_parse(uvhttp__str_from(text), &url), UVHTTP_OK);
    assert_int_equal(uvhttp__client_url_address(&url, address, sizeof address), UVHTTP_OK);
    text[7 + fits] = 'a';
    assert_int_equal(uvhttp__client_url_parse(uvhttp__str_from(text), &url), UVHTTP_OK);
    assert_int_equal(uvhttp__client_url_address(&url, address, sizeof address), UVHTTP_E_ADDRESS);
}

static void expect_head(const uvhttp_client_request_t *request, const char *expected) {
    uvhttp__client_url_t url;
    char head[512] = "";
    assert_int_equal(uvhttp__client_check(request), UVHTTP_OK);
    assert_int_equal(uvhttp__client_url_parse(uvhttp__str_from(request->url), &url), UVHTTP_OK);
    assert_true(uvhttp__client_write_head(request, &url, NULL, head) < sizeof head);
    assert_string_equal(head, expected);
}

static void test_a_head_has_the_fields_that_were_given(void **state) {
    (void)state;
    static const uvhttp_client_header_t two[] = {{"Accept", "text/plain"}, {"X-Empty", ""}};
    static const uvhttp_client_header_t host[] = {{"hOST", "other"}};
    expect_head(&(uvhttp_client_request_t){.url = "http://a/b", .headers = two, .header_count = 2},
                "GET /b HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\nX-Empty: \r\nConnection: close\r\n\r\n");
    expect_head(&(uvhttp_client_request_t){.url = "http://a", .headers = host, .header_count = 1, .method = "HEAD"},
                "HEAD / HTTP/1.1\r\nhOST: other\r\nConnection: close\r\n\r\n");
    expect_head(&(uvhttp_client_request_t){.url = "http://a", .method = "POST"},
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    expect_head(&(uvhttp_client_request_t){.url = "http://a", .method = "REPORT", .body = "12345", .body_size = 5},
                "REPORT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\n");
}

/* traceparent and tracestate are the caller's where it gives them: a second one would be read as one list with it. */
static void test_a_head_has_one_field_of_each_kind_about_its_trace(void **state) {
    (void)state;
#define PARENT "00-000102030405060708090a0b0c0d0e0f-1011121314151617-01"
    static const uvhttp_client_header_t parent[] = {{"Traceparent", "own"}}, other[] = {{"TraceState", "b=2"}};
    static const struct {
        const uvhttp_client_header_t *headers;
        const char *expected;
    } cases[] = {
        {NULL, "traceparent: " PARENT "\r\ntracestate: a=1\r\n"},
        {parent, "Traceparent: own\r\n"},
        {other, "TraceState: b=2\r\ntraceparent: " PARENT "\r\n"},
    };
    uvhttp__trace_context_t trace = {.flags = UVHTTP__TRACE_SAMPLED, .state = UVHTTP__STR_INIT("a=1")};
    for (uint8_t i = 0; i < UVHTTP__TRACE_ID_SIZE; i++) trace.trace_id[i] = i;
    for (uint8_t i = 0; i < UVHTTP__SPAN_ID_SIZE; i++) trace.span_id[i] = (uint8_t)(UVHTTP__TRACE_ID_SIZE + i);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uvhttp_client_request_t request = {
            .url = "http://a", .headers = cases[i].headers, .header_count = cases[i].headers != NULL};
        uvhttp__client_url_t url;
        char head[512] = "", expected[512];
        assert_int_equal(uvhttp__client_url_parse(UVHTTP__STR("http://a"), &url), UVHTTP_OK);
        assert_true(uvhttp__client_write_head(&request, &url, &trace, head) < sizeof head);
        snprintf(expected, sizeof expected, "GET / HTTP/1.1\r\nHost: a\r\n%sConnection: close\r\n\r\n",
                 cases[i].expected);
        assert_string_equal(head, expected);
    }
}

static void test_fields_that_frame_or_break_the_message_are_refused(void **state) {
    (void)state;
    static const uvhttp_client_header_t bad[] = {
        {"Connection", "close"},
        {"content-length", "1"},
        {"Transfer-Encoding", "chunked"},
        {"Upgrade", "x"},
        {"Expect", "y"},
        {"TE", "trailers"},
        {"Trailer", "x"},
        {"Keep-Alive", "x"},
        {"Proxy-Connection", "close"},
        {"", "x"},
        {"A b", "x"},
        {"A:", "x"},
        {"A", "b\r\nC: d"},
        {"A", "b\nc"},
        {"A", NULL},
        {NULL, "x"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const uvhttp_client_request_t request = {.url = "http://a", .headers = &bad[i], .header_count = 1};
        if (uvhttp__client_check(&request) != UVHTTP_E_INVALID) fail_msg("field %zu", i);
    }
    static const uvhttp_client_header_t hosts[] = {{"Host", "a"}, {"host", "b"}};
    static const uvhttp_client_request_t others[] = {
        {.url = "http://a", .headers = hosts, .header_count = 2},
        {.url = "http://a", .header_count = 1},
        {.url = "http://a", .body_size = 1},
        {.url = "http://a", .method = "CONNECT"},
        {.url = "http://a", .method = ""},
        {.url = "http://a", .method = "GET /x HTTP/1.1\r\n"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(uvhttp__client_check(&others[i]), UVHTTP_E_INVALID);
}

int main(void) {
    return RUN_TESTS(test_urls_name_an_address_and_a_target, test_urls_that_could_be_read_differently_are_refused,
                     test_what_belongs_to_one_connection_is_not_passed_on, test_a_url_names_no_unix_socket,
                     test_an_address_has_a_limit, test_a_head_has_the_fields_that_were_given,
                     test_a_head_has_one_field_of_each_kind_about_its_trace,
                     test_fields_that_frame_or_break_the_message_are_refused);
}
