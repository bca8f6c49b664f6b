/* Owns: tests of whom a request comes from: its peer, or the client for whom a proxy that is trusted speaks. */
#include "support/http_server.h"

static void show_client(uvhttp_request_t *req, uvhttp_response_t *res, void *user) {
    (void)user;
    char text[256];
    uvhttp_str_t client = uvhttp_request_client(req), address = uvhttp_request_peer_address(req);
    uvhttp_str_t scheme = uvhttp_request_client_scheme(req), host = uvhttp_request_client_host(req);
    snprintf(text, sizeof text, "%.*s by %.*s, %.*s://%.*s", (int)client.size, client.data, (int)address.size,
             address.data, (int)scheme.size, scheme.data, (int)host.size, host.data);
    uvhttp_response_text(res, 200, text);
}

/* Of a request that comes from 127.0.0.1 and says that it speaks for somebody. trusted: NULL: nobody. */
static void expect_client(serving_t *serving, const char *trusted, const char *expected) {
    serving_make(serving);
    const uvhttp_proxy_options_t options = {.trusted = &trusted,
                                            .trusted_count = 1,
                                            .header = UVHTTP_PROXY_HEADER_X_FORWARDED,
                                            .fields = UVHTTP_PROXY_FOR | UVHTTP_PROXY_PROTO | UVHTTP_PROXY_HOST};
    if (trusted) assert_int_equal(uvhttp_server_trust_proxies(serving->server, &options), UVHTTP_OK);
    assert_non_null(uvhttp_get(serving->server, "/", show_client, NULL));
    serving_start(serving);
    int fd = client_ask(serving, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n"
                                 "X-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n\r\n");
    assert_string_equal(client_read(fd)->body, expected);
    serving_leave(serving, fd);
}

static void test_a_proxy_that_is_trusted_names_the_client(void **state) {
    expect_client(*state, "127.0.0.0/8", "192.0.2.7 by 127.0.0.1, https://b");
}

static void test_no_other_peer_names_the_client(void **state) {
    expect_client(*state, "198.51.100.0/24", "127.0.0.1 by 127.0.0.1, http://a");
}

static void test_nobody_is_trusted_by_default(void **state) {
    expect_client(*state, NULL, "127.0.0.1 by 127.0.0.1, http://a");
}

/* A proxy that ends TLS may forward it so. It is served, and believed only in fields of a proxy that is trusted. */
static void test_a_target_names_no_scheme(void **state) {
    serving_t *serving = *state;
    serving_make(serving);
    assert_non_null(uvhttp_get(serving->server, "/", show_client, NULL));
    serving_start(serving);
    int fd = client_ask(serving, "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_string_equal(client_read(fd)->body, "127.0.0.1 by 127.0.0.1, http://a");
    serving_leave(serving, fd);
}

int main(void) {
    return RUN_ON_EACH(test_a_proxy_that_is_trusted_names_the_client, test_no_other_peer_names_the_client,
                       test_nobody_is_trusted_by_default, test_a_target_names_no_scheme);
}
