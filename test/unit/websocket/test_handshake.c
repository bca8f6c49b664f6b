/* Owns: tests of keys, lists and origins of the opening handshake. */
/* Needs: websocket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/str.h"
#include "support/run.h"
#include "websocket/handshake.h"

static uvhttp_str_t str(const char *text) {
    return uvhttp__str_from(text);
}

static void test_the_accept_of_the_rfc(void **state) {
    (void)state;
    char accept[UVHTTP__WS_ACCEPT_SIZE + 1];
    assert_int_equal(uvhttp__ws_accept(str("dGhlIHNhbXBsZSBub25jZQ=="), accept), UVHTTP_OK);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_a_key_is_the_base64_of_16_bytes(void **state) {
    (void)state;
    assert_true(uvhttp__ws_key_valid(str("dGhlIHNhbXBsZSBub25jZQ==")));
    assert_true(uvhttp__ws_key_valid(str("++++++++//////////////==")));
    static const char *const bad[] = {"",
                                      "dGhlIHNhbXBsZSBub25jZQ=",
                                      "dGhlIHNhbXBsZSBub25jZQ===",
                                      "dGhlIHNhbXBsZSBub25jZQAA",
                                      "dGhlIHNhbXBsZSBub25jZ===",
                                      "dGhlIHNhbXBsZSBub25j-Q==",
                                      "dGhlIHNhbXBsZSBub25j Q=="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(uvhttp__ws_key_valid(str(bad[i])));
    for (int c = 0; c < 256; c++) {
        char key[UVHTTP__WS_KEY_SIZE + 1] = "dGhlIHNhbXBsZSBub25jZQ==";
        bool digit = c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c);
        key[c % 22] = (char)c;
        assert_int_equal(uvhttp__ws_key_valid((uvhttp_str_t){key, UVHTTP__WS_KEY_SIZE}), digit);
    }
    assert_false(uvhttp__ws_key_valid(str("dGhlIHNhbXBsZSBub25jZQ=A")));
}

/* As an OpenSSL that is allowed what FIPS 140 approves, and has none of it. */
static void test_without_sha1_there_is_no_handshake(void **state) {
    (void)state;
    char accept[UVHTTP__WS_ACCEPT_SIZE + 1];
    assert_int_equal(EVP_set_default_properties(NULL, "fips=yes"), 1);
    int status = uvhttp__ws_accept(str("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    assert_int_equal(EVP_set_default_properties(NULL, ""), 1);
    assert_int_equal(status, UVHTTP_E_UNSUPPORTED);
    assert_int_equal(uvhttp__ws_accept(str("dGhlIHNhbXBsZSBub25jZQ=="), accept), UVHTTP_OK);
}

static void test_lists_are_cut_at_commas(void **state) {
    (void)state;
    assert_true(uvhttp__ws_list_has(str("h2c, WebSocket"), str("websocket")));
    assert_true(uvhttp__ws_list_has(str(" ,websocket\t,"), str("websocket")));
    assert_false(uvhttp__ws_list_has(str("websockets"), str("websocket")));
    assert_false(uvhttp__ws_list_has(str("web socket"), str("websocket")));
    assert_false(uvhttp__ws_list_has(str(" , ,"), str("websocket")));
    assert_false(uvhttp__ws_list_has(str(""), str("websocket")));
}

static void test_an_origin_is_the_host_of_the_request(void **state) {
    (void)state;
    static const struct {
        const char *origin, *host;
        bool same;
    } cases[] = {{"http://example.com", "example.com", true},
                 {"https://Example.com", "example.COM", true},
                 {"https://example.com", "example.com:443", true},
                 {"https://example.com:443", "example.com", true},
                 {"http://example.com", "example.com:80", true},
                 {"http://example.com:8080", "example.com:8080", true},
                 {"http://[::1]:8080", "[::1]:8080", true},
                 {"http://example.com", "example.com:8080", false},
                 {"https://example.com", "example.com:80", false},
                 {"http://evil.example", "example.com", false},
                 {"http://example.com.evil", "example.com", false},
                 {"http://notexample.com", "example.com", false},
                 {"ftp://example.com", "example.com", false},
                 {"http://", "", false},
                 {"http://a", "a:80", true},
                 {"http://a:80", "a", true},
                 {"http://a:8", "a", false},
                 {"example.com", "example.com", false},
                 {"null", "null", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (uvhttp__ws_origin_is_host(str(cases[i].origin), str(cases[i].host)) != cases[i].same)
            fail_msg("%s for %s", cases[i].origin, cases[i].host);
}

int main(void) {
    return RUN_TESTS(test_the_accept_of_the_rfc, test_a_key_is_the_base64_of_16_bytes,
                     test_without_sha1_there_is_no_handshake, test_lists_are_cut_at_commas,
                     test_an_origin_is_the_host_of_the_request);
}
