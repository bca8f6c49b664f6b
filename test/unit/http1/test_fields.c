/* Owns: tests of the syntax of fields and of those that steer the connection: Host, Connection, Expect, Upgrade. */
#include "http1_feed.h"

#define GET11 "GET / HTTP/1.1\r\n"
#define HOST "Host: a\r\n"

static void test_field_syntax(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(GET11 HOST "A: b\r\n\r\n", 0),
        V(GET11 HOST "A:b\r\n\r\n", 0),
        V(GET11 HOST "A:\r\n\r\n", 0),
        V(GET11 HOST "A: \t \r\n\r\n", 0),
        V(GET11 HOST "A: b\tc d\xc3\xa9\xff\r\n\r\n", 0),
        V(GET11 HOST "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n", 0),
        V(GET11 HOST "A : b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A\t: b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST ": b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A B: c\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A\0: b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A\xc3: b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "A(: b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST "\0A: b\r\n\r\n", UVHTTP_E_HTTP_HEADER_NAME),
        V(GET11 HOST " A: b\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(GET11 HOST "A: b\r\n c\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(GET11 HOST "A: b\r\n\tc\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(GET11 " Host: a\r\n\r\n", UVHTTP_E_HTTP_OBS_FOLD),
        V(GET11 HOST "A: b\0c\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE),
        V(GET11 HOST "A: b\x01\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE),
        V(GET11 HOST "A: b\x0b\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE),
        V(GET11 HOST "A: b\x1f"
                     "c\r\n\r\n",
          UVHTTP_E_HTTP_HEADER_VALUE),
        V(GET11 HOST "A: b\x7f\r\n\r\n", UVHTTP_E_HTTP_HEADER_VALUE),
        V(GET11 HOST "A: b\rc\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(GET11 HOST "A: b\r\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(GET11 HOST "A\r: b\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(GET11 HOST "\rA: b\r\n\r\n", UVHTTP_E_HTTP_BARE_CR),
        V(GET11 HOST "A: b\nC: d\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(GET11 HOST "A: b\n\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(GET11 HOST "A: b\n\n", UVHTTP_E_HTTP_BARE_LF),
        V(GET11 HOST "A\n: b\r\n\r\n", UVHTTP_E_HTTP_BARE_LF),
        V(GET11 HOST "A: b\r\n\n", UVHTTP_E_HTTP_BARE_LF),
        V(GET11 HOST "A: b\r\n", UVHTTP_E_AGAIN),
        V(GET11 HOST "A: b\r\n\r", UVHTTP_E_AGAIN),
        V(GET11 HOST "\r\nGET /next HTTP/1.1\r\n", 0),
        V(GET11 HOST "\r\n\n\n\0\r", 0), /* what follows the head is none of its business */
    };
    FEED_VECTORS(vectors);
}

static void test_names_and_values_are_cut_without_blanks(void **state) {
    (void)state;
    const char *text =
        GET11 "Host: a\r\nA:b\r\nLong-Name-Of-A-Field-That-Is-Longer-Than-One-Vector-Of-Thirty-Two-Bytes: \t v w\t \r\n"
              "E:\r\nE2:  \t\r\nU: \xc3\xa9\r\n\r\n";
    feed_result_t result;
    const uvhttp__head_t *head = feed_accepted(text, &result);
    static const char *const expected[][2] = {
        {"Host", "a"}, {"A", "b"}, {"Long-Name-Of-A-Field-That-Is-Longer-Than-One-Vector-Of-Thirty-Two-Bytes", "v w"},
        {"E", ""},     {"E2", ""}, {"U", "\xc3\xa9"},
    };
    assert_int_equal(head->header_count, 6);
    for (size_t i = 0; i < 6; ++i) {
        feed_expect_span(text, result.fields[i].name, expected[i][0]);
        feed_expect_span(text, result.fields[i].value, expected[i][1]);
    }
}

static void test_fields_of_every_size_are_cut_the_same(void **state) {
    (void)state;
    char text[1200];
    feed_result_t result;
    for (int name = 1; name < 140; name += 3) {
        for (int value = 0; value < 140; value += 13) {
            int size = snprintf(
                text, sizeof text, GET11 HOST "%0*d: %.*s\r\nZ: z\r\n\r\n", name, 7, value,
                "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"
                "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv");
            FEED_EACH_LEVEL(level) {
                size_t cut = (size_t)size;
                feed_cuts(text, &cut, 1, true, &feed_limits, &result);
                assert_int_equal(result.code, 0);
                assert_int_equal(result.head.header_count, 3);
                assert_int_equal(result.fields[1].name.size, name);
                assert_int_equal(result.fields[1].value.size, value);
                feed_expect_span(text, result.fields[2].value, "z");
            }
        }
    }
}

#define HOST_VECTOR(value, code) V(GET11 "Host: " value "\r\n\r\n", code)
#define HOST_OK(value) HOST_VECTOR(value, 0)
#define HOST_BAD(value) HOST_VECTOR(value, UVHTTP_E_HTTP_HOST)

static void test_host_syntax(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        HOST_OK(""),
        HOST_OK("a"),
        HOST_OK("example.com"),
        HOST_OK("EXAMPLE.com."),
        HOST_OK("a:80"),
        HOST_OK("a:"),
        HOST_OK("127.0.0.1:8080"),
        HOST_OK("999.1.1.1"),
        HOST_OK("a_b-c~d"),
        HOST_OK("a%20b"),
        HOST_OK("a:65535"),
        HOST_OK("a:00080"),
        HOST_OK("a!$&'()*+;="),
        HOST_OK("[::1]"),
        HOST_OK("[::]:80"),
        HOST_OK("[1:2:3:4:5:6:7:8]"),
        HOST_OK("[2001:db8::1]:443"),
        HOST_OK("[::ffff:192.0.2.1]"),
        HOST_OK("[1::]"),
        HOST_OK("[1:2:3:4:5:6:1.2.3.4]"),
        HOST_OK("a.very.long.name.that.is.longer.than.thirty-two.bytes.and.than.sixty-four.bytes.example.com:12345"),
        HOST_OK("xn--bcher-kva.example"),
        HOST_OK("[ABCD:ef01::]"),
        HOST_BAD("a b"),
        HOST_BAD("a,b"),
        HOST_BAD("a, a"),
        HOST_BAD("u@a"),
        HOST_BAD("a/b"),
        HOST_BAD("a/"),
        HOST_BAD("http://a"),
        HOST_BAD("a?b"),
        HOST_BAD("a#b"),
        HOST_BAD("a\\b"),
        HOST_BAD("a\"b"),
        HOST_BAD("a<b"),
        HOST_BAD("a:b"),
        HOST_BAD("a:80b"),
        HOST_BAD("a:-1"),
        HOST_BAD("a:+1"),
        HOST_BAD("a:65536"),
        HOST_BAD("a:99999"),
        HOST_BAD("a:000080"),
        HOST_BAD("a:1:2"),
        HOST_BAD(":80"),
        HOST_BAD(":"),
        HOST_BAD("a:8 0"),
        HOST_BAD("a:1\t2"),
        HOST_BAD("a%2"),
        HOST_BAD("a%"),
        HOST_BAD("a%zz"),
        HOST_BAD("\xc3\xa9"),
        HOST_BAD("a\xff"),
        HOST_BAD("a|b"),
        HOST_BAD("::1"),
        HOST_BAD("[::1"),
        HOST_BAD("::1]"),
        HOST_BAD("[]"),
        HOST_BAD("[:]"),
        HOST_BAD("[::1]a"),
        HOST_BAD("[::1]:x"),
        HOST_BAD("a[::1]"),
        HOST_BAD("[[::1]]"),
        HOST_BAD("[::1%25eth0]"),
        HOST_BAD("[v1.a]"),
        HOST_BAD("[1:2:3:4:5:6:7]"),
        HOST_BAD("[1:2:3:4:5:6:7:8:9]"),
        HOST_BAD("[1::2::3]"),
        HOST_BAD("[:::]"),
        HOST_BAD("[1:2:3:4:5:6:7:8::]"),
        HOST_BAD("[12345::]"),
        HOST_BAD("[g::]"),
        HOST_BAD("[1:]"),
        HOST_BAD("[:1]"),
        HOST_BAD("[::256.1.1.1]"),
        HOST_BAD("[::1.2.3]"),
        HOST_BAD("[::01.2.3.4]"),
        HOST_BAD("[::1.2.3.4:5]"),
        HOST_BAD("[1.2.3.4]"),
        HOST_BAD("[1:2:3:4:5:6:7:1.2.3.4]"),
        HOST_BAD("["),
        HOST_BAD("[::1.2.3.4.5]"),
    };
    FEED_VECTORS(vectors);
}

static void test_host_is_required_once(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(GET11 "\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 "Hos: a\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 HOST HOST "\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 HOST "hOST: b\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 "Host:\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET / HTTP/1.0\r\n\r\n", 0),
        V("GET / HTTP/1.0\r\nHost: a\r\n\r\n", 0),
        V("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET / HTTP/1.0\r\nHost: a b\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET http://a/ HTTP/1.1\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET http://a/ HTTP/1.1\r\nHost: b@c\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", 0),
    };
    FEED_VECTORS(vectors);
}

static void test_authority_of_the_target_wins_over_host(void **state) {
    (void)state;
    feed_result_t result;
    const char *text = "GET http://target.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n";
    feed_expect_span(text, feed_accepted(text, &result)->authority, "target.example");
    text = GET11 "hOsT: \tname.example:8080 \r\n\r\n";
    feed_expect_span(text, feed_accepted(text, &result)->authority, "name.example:8080");
}

typedef struct steering {
    const char *lines;
    bool keep_alive, upgrade, expect_continue;
} steering_t;

static void expect_steering(const char *version, const steering_t *cases, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        char text[512];
        feed_result_t result;
        snprintf(text, sizeof text, "GET / HTTP/1.%s\r\nHost: a\r\n%s\r\n", version, cases[i].lines);
        const uvhttp__head_t *head = feed_accepted(text, &result);
        if (head->keep_alive != cases[i].keep_alive || head->upgrade != cases[i].upgrade ||
            head->expect_continue != cases[i].expect_continue)
            fail_msg("keep_alive %d, upgrade %d, expect_continue %d for:\n%s", head->keep_alive, head->upgrade,
                     head->expect_continue, text);
    }
}

static void test_connection_options_of_http_1_1(void **state) {
    (void)state;
    static const steering_t cases[] = {
        {"", true, false, false},
        {"Connection: keep-alive\r\n", true, false, false},
        {"Connection: close\r\n", false, false, false},
        {"Connection: ClOsE\r\n", false, false, false},
        {"Connection: keep-alive, close\r\n", false, false, false},
        {"Connection: close, keep-alive\r\n", false, false, false},
        {"Connection: keep-alive\r\nConnection: close\r\n", false, false, false},
        {"cOnNeCtIoN: x,\tclose ,y\r\n", false, false, false},
        {"Connection: closed\r\n", true, false, false},
        {"Connection: clos\r\n", true, false, false},
        {"Connection:\r\n", true, false, false},
        {"Connection: , ,close,\r\n", false, false, false},
        {"Connection: upgrade\r\n", true, false, false},
        {"Upgrade: websocket\r\n", true, false, false},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\n", true, true, false},
        {"Connection: keep-alive, Upgrade\r\nUPGRADE: websocket\r\n", true, true, false},
        {"Connection: Upgrade\r\nUpgrade:\r\n", true, false, false},
        {"Connection: Upgrade, close\r\nUpgrade: h2c\r\n", false, true, false},
        {"Expect: 100-continue\r\n", true, false, true},
        {"eXPECT: 100-CONTINUE\r\n", true, false, true},
        {"Expectx: y\r\n", true, false, false},
    };
    expect_steering("1", cases, sizeof cases / sizeof *cases);
}

static void test_connection_options_of_http_1_0(void **state) {
    (void)state;
    static const steering_t cases[] = {
        {"", false, false, false},
        {"Connection: keep-alive\r\n", true, false, false},
        {"Connection: Keep-Alive\r\n", true, false, false},
        {"Connection: keep-alive, close\r\n", false, false, false},
        {"Connection: close\r\n", false, false, false},
        {"Upgrade: websocket\r\nConnection: Upgrade\r\n", false, false, false},
        {"Expect: 100-continue\r\n", false, false, false},
    };
    expect_steering("0", cases, sizeof cases / sizeof *cases);
}

static void test_malformed_connection_and_expect(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(GET11 HOST "Connection: a b\r\n\r\n", UVHTTP_E_HTTP_CONNECTION),
        V(GET11 HOST "Connection: close;\r\n\r\n", UVHTTP_E_HTTP_CONNECTION),
        V(GET11 HOST "Connection: \"close\"\r\n\r\n", UVHTTP_E_HTTP_CONNECTION),
        V(GET11 HOST "Connection: close\r\nConnection: \xc3\r\n\r\n", UVHTTP_E_HTTP_CONNECTION),
        V(GET11 HOST "Expect: 200-ok\r\n\r\n", UVHTTP_E_HTTP_EXPECTATION),
        V(GET11 HOST "Expect:\r\n\r\n", UVHTTP_E_HTTP_EXPECTATION),
        V(GET11 HOST "Expect: 100-continue, x\r\n\r\n", UVHTTP_E_HTTP_EXPECTATION),
        V(GET11 HOST "Expect: 100-continue\r\nExpect: x\r\n\r\n", UVHTTP_E_HTTP_EXPECTATION),
    };
    FEED_VECTORS(vectors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_field_syntax),
        cmocka_unit_test(test_names_and_values_are_cut_without_blanks),
        cmocka_unit_test(test_fields_of_every_size_are_cut_the_same),
        cmocka_unit_test(test_host_syntax),
        cmocka_unit_test(test_host_is_required_once),
        cmocka_unit_test(test_authority_of_the_target_wins_over_host),
        cmocka_unit_test(test_connection_options_of_http_1_1),
        cmocka_unit_test(test_connection_options_of_http_1_0),
        cmocka_unit_test(test_malformed_connection_and_expect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
