/* Owns: tests of the request line: method, target forms, version (RFC 9112 section 3). */
#include "support/http1_feed.h"
#include "support/run.h"

#define REST " HTTP/1.1\r\nHost: a\r\n\r\n"

static void test_methods_are_known_by_number_and_case_matters(void **state) {
    (void)state;
    static const struct {
        const char *token;
        int method;
    } methods[] = {
#define METHOD(symbol, token) {token, UVHTTP_##symbol},
        UVHTTP_METHOD_MAP(METHOD)
#undef METHOD
            {"get", UVHTTP_METHOD_OTHER},
        {"Get", UVHTTP_METHOD_OTHER},
        {"GETS", UVHTTP_METHOD_OTHER},
        {"PU", UVHTTP_METHOD_OTHER},
        {"HEAP", UVHTTP_METHOD_OTHER},
        {"X", UVHTTP_METHOD_OTHER},
        {"!#$%&'*+-.^_`|~0aZ", UVHTTP_METHOD_OTHER},
        {"PROPFIND", UVHTTP_METHOD_OTHER},
        {"DELETF", UVHTTP_METHOD_OTHER},
        {"OPTIONZ", UVHTTP_METHOD_OTHER},
        {"TRACK", UVHTTP_METHOD_OTHER},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; ++i) {
        char text[128];
        feed_result_t result;
        const char *target = methods[i].method == UVHTTP_CONNECT ? "a:1" : "/";
        snprintf(text, sizeof text, "%s %s" REST, methods[i].token, target);
        const uvhttp__head_t *head = feed_accepted(text, &result);
        assert_int_equal(head->method, methods[i].method);
        feed_expect_span(text, head->method_text, methods[i].token);
    }
}

static void test_request_line_syntax(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0),
        V("GET / HTTP/1.0\r\n\r\n", 0),
        V("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_TARGET),
        V("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("GET /\tHTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_TARGET),
        V("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / a HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("GET/ HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("G\"T / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("G\0T / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("G\xc3T / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("GET\r\n\r\n", UVHTTP_E_HTTP_METHOD),
        V("GET \r\n\r\n", UVHTTP_E_HTTP_TARGET),
        V("GET /\r\n\r\n", UVHTTP_E_HTTP_VERSION), /* HTTP/0.9 */
        V("GET /index.html\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / \r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET /\rHTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V("GE\rT / HTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET / HTTP/1.1\rHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET /\nHTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V("GET / HTTP/1.1\nHost: a\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V("GET\n", UVHTTP_E_HTTP_BARE_LF),
    };
    FEED_VECTORS(vectors);
}

static void test_versions(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 0),
        V("GET /a HTTP/1.9\r\nHost: a\r\n\r\n", 0),
        V("GET / HTTP/1.2\r\n\r\n", UVHTTP_E_HTTP_HOST), /* as HTTP/1.1 in everything */
        V("GET / HTTP/1.12\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/2.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION_UNSUPPORTED),
        V("GET / HTTP/2.0\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION_UNSUPPORTED),
        V("GET / HTTP/0.9\r\n\r\n", UVHTTP_E_HTTP_VERSION_UNSUPPORTED),
        V("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", UVHTTP_E_HTTP_VERSION_UNSUPPORTED),
        V("GET / http/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/1.\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/11\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/1.10\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/01.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/ 1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/-1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/a.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / XTTP/1.1\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / H\r\n\r\n", UVHTTP_E_HTTP_VERSION),
    };
    FEED_VECTORS(vectors);
}

/* Nothing that follows would make it valid, and the client may wait for the response: HTTP/0.9 sends no more. */
static void test_a_faulty_line_is_refused_at_its_end(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V("GET /\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/3.0\r\n", UVHTTP_E_HTTP_VERSION_UNSUPPORTED),
        V("GET / HTTP/1.1 \r\n", UVHTTP_E_HTTP_VERSION),
        V("G@T / HTTP/1.1\r\n", UVHTTP_E_HTTP_METHOD),
        V("GET /\x80 HTTP/1.1\r\n", UVHTTP_E_HTTP_TARGET),
        V("\r\n\r\nGET /\r\n", UVHTTP_E_HTTP_VERSION),
        V("GET / HTTP/1.1\rH", UVHTTP_E_HTTP_BARE_CR), /* no LF comes at all */
        V("GET /\r\r", UVHTTP_E_HTTP_BARE_CR),
        V("G\rT / HTTP/1.1\r\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET / HTTP/1.1\r", UVHTTP_E_AGAIN),
        V("GET /", UVHTTP_E_AGAIN),
        V("GET / HTTP/1.1\r\nHost: a\r\n", UVHTTP_E_AGAIN),
        /* The limits and the ends of lines come first, then the line, then what is behind it. */
        V("G@T /\n", UVHTTP_E_HTTP_BARE_LF),
        V("G@T /\rb\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET /\r\nA: b\n\r\n", UVHTTP_E_HTTP_VERSION),
    };
    FEED_VECTORS(vectors);
}

static void test_target_bytes(void **state) {
    (void)state;
    for (int byte = 1; byte < 256; ++byte) {
        char text[64];
        feed_result_t result;
        int size = snprintf(text, sizeof text, "GET /a%cb?x%cy" REST, byte, byte);
        feed_all_ways(text, (size_t)size, &feed_limits, &result);
        bool allowed = byte > 0x20 && byte < 0x7f && byte != '#';
        int expected = allowed        ? 0
                       : byte == '\r' ? UVHTTP_E_HTTP_BARE_CR
                       : byte == '\n' ? UVHTTP_E_HTTP_BARE_LF
                       : byte == ' '  ? UVHTTP_E_HTTP_VERSION
                                      : UVHTTP_E_HTTP_TARGET;
        assert_int_equal(result.code, expected);
    }
}

static void expect_target(const char *text, int form, const char *path, const char *query, const char *authority) {
    feed_result_t result;
    const uvhttp__head_t *head = feed_accepted(text, &result);
    assert_int_equal(head->form, form);
    feed_expect_span(text, head->path, path);
    feed_expect_span(text, head->query, query);
    feed_expect_span(text, head->authority, authority);
}

static void test_target_forms_give_path_query_and_authority(void **state) {
    (void)state;
    expect_target("GET /" REST, UVHTTP__FORM_ORIGIN, "/", "", "a");
    expect_target("GET /p/q?x=1&y?z" REST, UVHTTP__FORM_ORIGIN, "/p/q", "x=1&y?z", "a");
    expect_target("GET /?" REST, UVHTTP__FORM_ORIGIN, "/", "", "a");
    expect_target("GET /?/../%" REST, UVHTTP__FORM_ORIGIN, "/", "/../%", "a");
    expect_target("GET http://h.example:80/p?q" REST, UVHTTP__FORM_ABSOLUTE, "/p", "q", "h.example:80");
    expect_target("GET HTTPS://h/p" REST, UVHTTP__FORM_ABSOLUTE, "/p", "", "h");
    expect_target("GET http://h" REST, UVHTTP__FORM_ABSOLUTE, "/", "", "h");
    expect_target("GET http://h:/" REST, UVHTTP__FORM_ABSOLUTE, "/", "", "h:");
    expect_target("GET http://h?x" REST, UVHTTP__FORM_ABSOLUTE, "/", "x", "h");
    expect_target("GET https://[::1]:8443?x/y" REST, UVHTTP__FORM_ABSOLUTE, "/", "x/y", "[::1]:8443");
    expect_target("OPTIONS *" REST, UVHTTP__FORM_ASTERISK, "*", "", "a");
    expect_target("CONNECT h:443" REST, UVHTTP__FORM_AUTHORITY, "", "", "h:443");
    expect_target("CONNECT [2001:db8::1]:443" REST, UVHTTP__FORM_AUTHORITY, "", "", "[2001:db8::1]:443");
    expect_target("GET / HTTP/1.0\r\n\r\n", UVHTTP__FORM_ORIGIN, "/", "", "");
    expect_target("GET http://h/ HTTP/1.0\r\n\r\n", UVHTTP__FORM_ABSOLUTE, "/", "", "h");
}

static void test_malformed_targets_are_refused(void **state) {
    (void)state;
    static const char *const requests[] = {
        "GET *",
        "OPTIONS **",
        "OPTIONS *?x",
        "GET a",
        "GET a/b",
        "GET ?x",
        "GET http:/",
        "GET http://",
        "GET http:///p",
        "GET http://?x",
        "GET http://:80/",
        "GET http:h/p",
        "GET ftp://h/p",
        "GET file:///p",
        "GET http://u@h/p",
        "GET http://u:p@h/",
        "GET http://h:x/",
        "GET http://h:65536/",
        "GET http://[::1",
        "GET http://[::1/",
        "GET http://::1/",
        "GET http://a,b/",
        "GET http://a b/",
        "GET http://a\\b/",
        "CONNECT /",
        "CONNECT h",
        "CONNECT h:",
        "CONNECT :443",
        "CONNECT h:443/",
        "CONNECT u@h:443",
        "CONNECT *",
        "CONNECT http://h:443/",
        "CONNECT h:443?x",
        "CONNECT h:99999",
        "GET h:443",
        "GET javascript:x",
        "GET http//h",
        "GET //",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; ++i) {
        char text[128];
        feed_result_t result;
        int size = snprintf(text, sizeof text, "%s" REST, requests[i]);
        feed_all_ways(text, (size_t)size, &feed_limits, &result);
        int expected = strcmp(requests[i], "GET //") == 0            ? 0
                       : strcmp(requests[i], "GET http://a b/") == 0 ? UVHTTP_E_HTTP_VERSION
                                                                     : UVHTTP_E_HTTP_TARGET;
        if (result.code != expected) fail_msg("expected %d, got %d: %s", expected, result.code, requests[i]);
    }
}

static void test_path_plain_reports_paths_that_need_no_decoding(void **state) {
    (void)state;
    static const struct {
        const char *path;
        bool plain;
    } paths[] = {
        {"/", true},        {"/a/b.c", true},  {"/a.", true},     {"/...", true},     {"/.a", true},
        {"/..a/b", true},   {"/a/..b", true},  {"/a../b", true},  {"/a/.well", true}, {"/a?/../", true},
        {"/a?%2e", true},   {"/.", false},     {"/..", false},    {"/./a", false},    {"/../a", false},
        {"/a/.", false},    {"/a/..", false},  {"/a/./b", false}, {"/a/../b", false}, {"//", false},
        {"//a", false},     {"/a//b", false},  {"/a//", false},   {"/%41", false},    {"/a%", false},
        {"/a/..?x", false}, {"/a/.?x", false},
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i) {
        char text[512];
        feed_result_t result;
        /* Padding moves the interesting bytes over the ends of 64-byte blocks. */
        for (int padding = 0; padding < 140; padding += i % 7 == 0 ? 1 : 23) {
            snprintf(
                text, sizeof text, "GET /%.*s%s" REST, padding,
                "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
                "pppppppppppppppppppppppppppppppppppppppp",
                padding == 0 ? paths[i].path + 1 : paths[i].path);
            assert_int_equal(feed_accepted(text, &result)->path_plain, paths[i].plain);
            snprintf(text, sizeof text, "GET http://h%s" REST, paths[i].path);
            assert_int_equal(feed_accepted(text, &result)->path_plain, paths[i].plain);
        }
    }
}

static void test_empty_lines_before_the_request_line(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V("\r\nGET /" REST, 0),
        V("\r\n\r\nGET /" REST, 0),
        V("\r\n\r\n\r\nGET /" REST, UVHTTP_E_HTTP_METHOD),
        V("\r\n\r\n\r", UVHTTP_E_HTTP_METHOD),
        V("\r\n\r\n", UVHTTP_E_AGAIN),
        V("\r", UVHTTP_E_AGAIN),
        V("\rGET /" REST, UVHTTP_E_HTTP_BARE_CR),
        V("\r\n\r\r\nGET /" REST, UVHTTP_E_HTTP_BARE_CR),
        V("\nGET /" REST, UVHTTP_E_HTTP_BARE_LF),
        V("\r\n\nGET /" REST, UVHTTP_E_HTTP_BARE_LF),
        V("\r\n GET /" REST, UVHTTP_E_HTTP_METHOD),
    };
    FEED_VECTORS(vectors);
    feed_result_t result;
    const char *text = "\r\n\r\nPOST /p" REST;
    const uvhttp__head_t *head = feed_accepted(text, &result);
    assert_int_equal(head->size, strlen(text));
    assert_int_equal(head->method, UVHTTP_POST);
    feed_expect_span(text, head->path, "/p");
}

static void test_first_byte_that_begins_no_method_is_refused_at_once(void **state) {
    (void)state;
    for (int byte = 0; byte < 256; ++byte) {
        char text = (char)byte;
        feed_result_t result;
        feed_all_ways(&text, 1, &feed_limits, &result);
        int expected = oracle_token((unsigned char)byte) || byte == '\r' ? UVHTTP_E_AGAIN
                       : byte == '\n'                                    ? UVHTTP_E_HTTP_BARE_LF
                                                                         : UVHTTP_E_HTTP_METHOD;
        assert_int_equal(result.code, expected);
    }
    static const feed_vector_t client_hello[] = {V("\x16\x03\x01\x02\x00\x01", UVHTTP_E_HTTP_METHOD)};
    FEED_VECTORS(client_hello);
}

int main(void) {
    return RUN_TESTS(test_methods_are_known_by_number_and_case_matters, test_request_line_syntax, test_versions,
                     test_a_faulty_line_is_refused_at_its_end, test_target_bytes,
                     test_target_forms_give_path_query_and_authority, test_malformed_targets_are_refused,
                     test_path_plain_reports_paths_that_need_no_decoding, test_empty_lines_before_the_request_line,
                     test_first_byte_that_begins_no_method_is_refused_at_once);
}
