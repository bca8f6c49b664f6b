/* Owns: tests of the list of hosts that a server accepts. */
/* Needs: middleware. */
#include <cmocka.h>
#include <uvhttp/allowed_hosts.h>

#include "running.h"
#include "support/run.h"

static bool passes(uvhttp_middleware_t middleware, const char *host) {
    exchange_t one;
    exchange_init(&one, SIZE_MAX);
    one.req.head.authority = (uvhttp__span_t){0, 0};
    if (host) {
        exchange_field(&one, "Host", host);
        one.req.head.authority = one.req.head.headers[one.req.head.header_count - 1].value;
    }
    bool passed = middleware.run(&one.req, &one.res, middleware.user) == UVHTTP_NEXT;
    assert_int_equal(uvhttp_response_status(&one.res), passed ? 0 : 421);
    assert_int_equal(uvhttp__response_is(&one.res, UVHTTP__RESPONSE_BY_SERVER), !passed);
    exchange_deinit(&one);
    return passed;
}

static void expect(const uvhttp_allowed_hosts_options_t *options, const char *const *good, const char *const *bad) {
    uvhttp_middleware_t middleware = uvhttp_allowed_hosts(options);
    assert_non_null(middleware.run);
    for (; *good; good++)
        if (!passes(middleware, *good)) fail_msg("%s is refused", *good);
    for (; *bad; bad++)
        if (passes(middleware, *bad)) fail_msg("%s passes", *bad);
    assert_true(passes(middleware, NULL));
    assert_true(passes(middleware, ""));
    middleware.destroy(middleware.user);
}

static void test_loopback_has_its_names_and_addresses(void **state) {
    (void)state;
    static const char *const good[] = {
        "localhost", "LocalHost:8080", "localhost.", "a.localhost", "a.b.LOCALHOST:1", "127.0.0.1", "127.255.0.1:80",
        "[::1]",     "[::1]:8080",     "localhost:", NULL};
    static const char *const bad[] = {
        "example.com", "localhost.example.com", "notlocalhost", ".localhost",  "127.0.0.1.nip.io", "128.0.0.1", "127.1",
        "[::2]",       "[::ffff:127.0.0.1]",    "0.0.0.0",      "10.0.0.1:80", "127.0.0.1x",       NULL};
    expect(&(uvhttp_allowed_hosts_options_t){.loopback = true}, good, bad);
}

static void test_names_are_matched_whole_or_below(void **state) {
    (void)state;
    static const char *const good[] = {
        "example.com", "EXAMPLE.com.:443", "a.example.org", "a.b.example.org", "192.0.2.1:80", "[2001:DB8::1]:1", NULL};
    static const char *const bad[] = {"localhost",     "127.0.0.1",   "a.example.com", "example.com.evil",
                                      "xexample.com",  "example.org", "xexample.org",  "192.0.2.10",
                                      "[2001:db8::2]", NULL};
    expect(&(uvhttp_allowed_hosts_options_t){.hosts = "example.com, *.example.org,192.0.2.1,[2001:db8::1]"}, good, bad);
}

/* One address has several texts, of which browsers have one (RFC 5952). */
static void test_an_ipv6_address_is_matched_however_it_is_written(void **state) {
    (void)state;
    static const char *const good[] = {"[2001:db8::1]", "[2001:DB8:0::0:1]:80", "[2001:db8:0:0:0:0:0:1]", NULL};
    static const char *const bad[] = {"[2001:db8::2]", "[2001:db8::1", "2001:db8::1", "[]", "[", NULL};
    expect(&(uvhttp_allowed_hosts_options_t){.hosts = "[2001:db8::1]"}, good, bad);
    expect(&(uvhttp_allowed_hosts_options_t){.hosts = "example.org, [2001:0db8:0:0::1]"}, good, bad);
    static const char *const loopback[] = {"[::1]", "[0:0:0:0:0:0:0:1]:8080", NULL};
    expect(&(uvhttp_allowed_hosts_options_t){.loopback = true}, loopback, bad);
}

static void test_the_response_says_what_to_do(void **state) {
    (void)state;
    uvhttp_middleware_t middleware =
        uvhttp_allowed_hosts(&(uvhttp_allowed_hosts_options_t){.loopback = true, .hint = "Do this."});
    exchange_t one;
    exchange_init(&one, SIZE_MAX);
    exchange_field(&one, "Host", "evil.example");
    one.req.head.authority = one.req.head.headers[0].value;
    assert_int_equal(middleware.run(&one.req, &one.res, middleware.user), UVHTTP_STOP);
    assert_string_equal(one.res.body.data, "This server does not serve the host of the request.\nDo this.\n");
    assert_int_equal(one.res.code, UVHTTP_E_HTTP_HOST_NOT_ALLOWED);
    exchange_deinit(&one);
    middleware.destroy(middleware.user);
}

static void test_what_names_no_host_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",   ",",  "a b",  "a:80", "http://a", "*",   "*.",   "a.*",
                                      ".a", "a.", "[::1", "[g]",  "::1",      "a/b", "a,b:1"};
    assert_null(uvhttp_allowed_hosts(NULL).run);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (uvhttp_allowed_hosts(&(uvhttp_allowed_hosts_options_t){.hosts = bad[i]}).run) fail_msg("\"%s\"", bad[i]);
}

int main(void) {
    return RUN_TESTS(test_loopback_has_its_names_and_addresses, test_names_are_matched_whole_or_below,
                     test_an_ipv6_address_is_matched_however_it_is_written, test_the_response_says_what_to_do,
                     test_what_names_no_host_is_refused);
}
