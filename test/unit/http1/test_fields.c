/* Owns: tests of the syntax of fields and of those that steer the connection: Host, Connection, Expect, Upgrade. */
#include "base/uri.h"
#include "support/http1_feed.h"
#include "support/run.h"

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

/* The quick look at a port is not one digit after the other. */
static void test_each_byte_of_a_port_is_a_digit(void **state) {
    (void)state;
    char text[] = GET11 "Host: name.example:1234\r\n\r\n";
    char *const port = strstr(text, "1234");
    size_t size = sizeof text - 1;
    feed_result_t result;
    for (int place = 0; place < 4; place++) {
        char before = port[place];
        for (int byte = 0; byte < 256; byte++) {
            if (byte == '\r' || byte == '\n') continue;
            port[place] = (char)byte;
            bool blank_at_end = place == 3 && (byte == ' ' || byte == '\t'); /* not of the value */
            bool control = byte < ' ' ? byte != '\t' : byte == 0x7f;
            int expected = control ? UVHTTP_E_HTTP_HEADER_VALUE : UVHTTP_E_HTTP_HOST;
            if ((byte >= '0' && byte <= '9') || blank_at_end) expected = 0;
            FEED_EACH_LEVEL(level) {
                feed_cuts(text, &size, 1, true, &feed_limits, &result);
                assert_int_equal(result.code, expected);
            }
        }
        port[place] = before;
    }
    feed_select(UVHTTP__HTTP1_SIMD_AUTO);
}

static bool may_be_in_a_name(int byte) {
    bool letter = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    return letter || (byte >= '0' && byte <= '9') || strchr("-._~!$&'()*+;=", byte);
}

static int code_of_host(const char *host) {
    char text[64];
    feed_result_t result;
    size_t size = (size_t)snprintf(text, sizeof text, GET11 "Host: %s\r\n\r\n", host);
    feed_cuts(text, &size, 1, true, &feed_limits, &result);
    return result.code;
}

static void test_each_byte_of_a_name_is_one_of_a_name(void **state) {
    (void)state;
    for (int byte = '!'; byte < 0x7f; byte++) {
        for (int place = 1; place < 7 && byte != ':' && byte != '%'; place++) {
            char host[] = "abcdefgh";
            host[place] = (char)byte;
            int code = code_of_host(host);
            if (code != (may_be_in_a_name(byte) ? 0 : UVHTTP_E_HTTP_HOST)) fail_msg("%s: %d", host, code);
        }
    }
}

/* Whatever stands behind it. */
static void test_an_authority_is_what_it_is_within_its_size(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool port_required, valid;
    } cases[] = {
        {"a%41", false, true},    {"a%4", false, false},  {"a%", false, false},   {"%", false, false},
        {"a%g1", false, false},   {"a%1g", false, false}, {"a:1", true, true},    {"a:", true, false},
        {"a:", false, true},      {"a", true, false},     {"[::1]", false, true}, {"[::1", false, false},
        {"[::1]:80", true, true}, {"[:", false, false},   {"", false, false},     {"abcd", false, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = strlen(cases[i].text);
        for (int behind = 0; behind < 3; behind++) {
            char text[32];
            snprintf(text, sizeof text, "%s%s", cases[i].text, (const char *[]){"1111", "]:80", "%41a"}[behind]);
            const char *data = feed_guarded(text, size + 4, true);
            bool valid = uvhttp__valid_authority((uvhttp_str_t){data, size}, cases[i].port_required);
            if (valid != cases[i].valid) fail_msg("\"%s\" before \"%s\" is %d", cases[i].text, text + size, valid);
        }
        const char *data = feed_guarded(cases[i].text, size, true);
        assert_int_equal(uvhttp__valid_authority((uvhttp_str_t){data, size}, cases[i].port_required), cases[i].valid);
    }
}

static void test_host_is_required_once(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V(GET11 "\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 "Hos: a\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 HOST HOST "\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 "Upgrade:\r\n\r\n", UVHTTP_E_HTTP_HOST),
        V(GET11 "Upgrade:\r\n" HOST "\r\n", 0),
        V(GET11 "Upgrade: x\r\n\r\n", UVHTTP_E_HTTP_HOST),
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
        {"Connection: keep-alike\r\n", true, false, false},
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

/* RFC 9931 section 8: what follows may be meant for the tunnel. */
static void test_connect_is_the_last_request_of_its_connection(void **state) {
    (void)state;
    static const char *const texts[] = {"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
                                        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: keep-alive\r\n\r\n",
                                        "CONNECT a:1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        feed_result_t result;
        assert_false(feed_accepted(texts[i], &result)->keep_alive);
    }
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
    return RUN_TESTS(test_field_syntax, test_names_and_values_are_cut_without_blanks,
                     test_fields_of_every_size_are_cut_the_same, test_host_syntax, test_each_byte_of_a_port_is_a_digit,
                     test_each_byte_of_a_name_is_one_of_a_name, test_an_authority_is_what_it_is_within_its_size,
                     test_host_is_required_once, test_authority_of_the_target_wins_over_host,
                     test_connection_options_of_http_1_1, test_connect_is_the_last_request_of_its_connection,
                     test_connection_options_of_http_1_0, test_malformed_connection_and_expect);
}
