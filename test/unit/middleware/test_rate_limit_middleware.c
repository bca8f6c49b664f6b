/* The middleware: options, whose bucket a request takes from, what the responses say. */
/* Needs: middleware. */
#include <cmocka.h>

#include <math.h>
#include <uvhttp/log.h>

#include "middleware/rate_limit.h"
#include "support/exchange.h"
#include "support/failing_allocator.h"
#include "support/run.h"

#define SECOND UINT64_C(1000000000)

static const char *peer_text = "192.0.2.1:50000";
static uint64_t time_now_ns = 77 * SECOND;

/* peer_text without its port, as an address. */
static void read_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    (void)req;
    const char *colon = strrchr(peer_text, ':');
    uvhttp_str_t text = {peer_text, colon ? (size_t)(colon - peer_text) : strlen(peer_text)};
    if (text.size > 1 && text.data[0] == '[') text = (uvhttp_str_t){text.data + 1, text.size - 2};
    uvhttp__ip_t ip;
    if (strncmp(peer_text, "unix:", 5) == 0)
        client->address.kind = UVHTTP__PEER_UNIX;
    else if (uvhttp__ip_parse(text, &ip))
        client->address = uvhttp__peer_of_ip(ip.bytes, ip.size, 0);
}

static uint64_t read_time_ns(const uvhttp_request_t *req) {
    (void)req;
    return time_now_ns;
}

static const uvhttp__request_ops_t ops = {.client = read_client, .time_ns = read_time_ns};

static exchange_t ex;
static char last_line[UVHTTP_LOG_MESSAGE_MAX + 1];

static void keep_line(uvhttp_log_level_t level, const char *message, size_t size, void *user) {
    (void)level, (void)user;
    memcpy(last_line, message, size + 1);
}

static int setup(void **state) {
    (void)state;
    exchange_init(&ex, 1 << 20);
    ex.req.ops = &ops;
    peer_text = "192.0.2.1:50000";
    last_line[0] = '\0';
    return 0;
}

static int teardown(void **state) {
    (void)state;
    exchange_deinit(&ex);
    assert_int_equal(test_allocator_live(), 0);
    return 0;
}

/* A new request from `peer`, with a header field unless it is NULL. Returns whether it continued to the handler. */
static bool ask_with(uvhttp_middleware_t limit, const char *peer, const char *name, const char *value) {
    uvhttp__response_done(&ex.res, 0);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    peer_text = peer;
    if (name) exchange_field(&ex, name, value);
    bool passed = limit.run(&ex.req, &ex.res, limit.user) == UVHTTP_NEXT;
    assert_int_equal(uvhttp__response_is(&ex.res, UVHTTP__RESPONSE_COMPLETE), !passed);
    return passed;
}

static bool ask(uvhttp_middleware_t limit, const char *peer) {
    return ask_with(limit, peer, NULL, NULL);
}

static uvhttp_middleware_t make(uvhttp_rate_limit_options_t options) {
    uvhttp_middleware_t limit = uvhttp_rate_limit(&options);
    assert_non_null(limit.run);
    assert_non_null(limit.destroy);
    assert_string_equal(last_line, "");
    return limit;
}

static void end(uvhttp_middleware_t limit) {
    limit.destroy(limit.user);
}

/* --- responses --- */

static uvhttp_rate_limit_stats_t stats_of(uvhttp_middleware_t limit) {
    uvhttp_rate_limit_stats_t stats;
    assert_int_equal(uvhttp_rate_limit_stats(limit, &stats), 0);
    return stats;
}

static void test_a_refusal_is_not_the_response_that_may_be_kept(void **state) {
    (void)state;
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 0.1, .burst = 1});
    assert_true(ask(limit, "192.0.2.1:1"));
    assert_int_equal(uvhttp_response_header(&ex.res, "Cache-Control", "public, max-age=3600"), 0);
    assert_int_equal(limit.run(&ex.req, &ex.res, limit.user), UVHTTP_STOP);
    assert_int_equal(uvhttp_response_status(&ex.res), 429);
    assert_null(uvhttp_response_header_get(&ex.res, "Cache-Control").data);
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "10");
    end(limit);
}

static void test_requests_beyond_the_burst_are_refused_and_notified_when_to_come_back(void **state) {
    (void)state;
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 0.1, .burst = 2});
    assert_true(ask(limit, "192.0.2.1:1"));
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit-Policy"), "\"default\";q=2;w=20");
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit"), "\"default\";r=1;t=10");
    assert_null(uvhttp_response_header_get(&ex.res, "Retry-After").data);
    assert_true(ask(limit, "192.0.2.1:2"));
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit"), "\"default\";r=0;t=10");
    assert_false(ask(limit, "192.0.2.1:3"));
    assert_int_equal(uvhttp_response_status(&ex.res), 429);
    assert_int_equal(ex.res.body.size, strlen("Too Many Requests\n"));
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit-Policy"), "\"default\";q=2;w=20");
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit"), "\"default\";r=0;t=10");
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "10");
    time_now_ns += 1;
    assert_false(ask(limit, "192.0.2.1:4"));
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "10"); /* 9.999999999 s, up */
    time_now_ns += 9 * SECOND - 1;
    assert_false(ask(limit, "192.0.2.1:4"));
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
    time_now_ns += SECOND - 1;
    assert_false(ask(limit, "192.0.2.1:4"));
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
    time_now_ns += 1;
    assert_true(ask(limit, "192.0.2.1:4"));
    uvhttp_rate_limit_stats_t stats = stats_of(limit);
    assert_int_equal(stats.allowed, 3);
    assert_int_equal(stats.refused, 4);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.evicted + stats.exempt + stats.store_errors, 0);
    end(limit);
}

static void test_the_defaults_are_a_hundred_a_second(void **state) {
    (void)state;
    uvhttp_middleware_t limit = uvhttp_rate_limit(NULL);
    for (int i = 0; i < 100; i++) assert_true(ask(limit, "192.0.2.1:1"));
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit-Policy"), "\"default\";q=100;w=1");
    assert_false(ask(limit, "192.0.2.1:1"));
    time_now_ns += SECOND / 100 - 1;
    assert_false(ask(limit, "192.0.2.1:1"));
    time_now_ns += 1;
    assert_true(ask(limit, "192.0.2.1:1"));
    assert_false(ask(limit, "192.0.2.1:1"));
    assert_true(ask(limit, "192.0.2.2:1"));
    end(limit);
}

static void test_rates_become_whole_ns(void **state) {
    (void)state;
    const struct {
        double per_second;
        uint64_t interval_ns;
        uint32_t burst;
    } rates[] = {{1, SECOND, 1},
                 {3, 333333334, 3},
                 {5.0 / 60, 12 * SECOND, 1},
                 {10.0 / 3600, 360 * SECOND, 1},
                 {1e6, 1000, 1000000},
                 {999999, 1001, 999999},
                 {1.9, 526315790, 1},
                 {0.00001, 100000 * SECOND, 1},
                 {1.0 / 86400, 86400 * SECOND, 1},
                 {100.0 / 7, 70000000, 14}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = rates[i].per_second});
        const uvhttp__rate_limiter_t *limiter = limit.user;
        assert_int_equal(limiter->interval_ns, rates[i].interval_ns);
        assert_int_equal(limiter->burst, rates[i].burst);
        end(limit);
    }
}

static void test_the_status_and_the_fields_can_be_chosen(void **state) {
    (void)state;
    char name[] = "per client";
    uvhttp_middleware_t limit =
        make((uvhttp_rate_limit_options_t){.per_second = 1000, .burst = 1500, .status = 503, .name = name});
    memset(name, 'x', sizeof name - 1); /* it was copied */
    for (int i = 0; i < 1500; i++) assert_true(ask(limit, "192.0.2.1:1"));
    assert_false(ask(limit, "192.0.2.1:1"));
    assert_int_equal(uvhttp_response_status(&ex.res), 503);
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit-Policy"), "\"per client\";q=1500;w=2");
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
    end(limit);

    limit = make((uvhttp_rate_limit_options_t){.per_second = 1, .omit_headers = true});
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(limit, "192.0.2.1:1"), i == 0);
        assert_null(uvhttp_response_header_get(&ex.res, "RateLimit").data);
        assert_null(uvhttp_response_header_get(&ex.res, "RateLimit-Policy").data);
    }
    assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
    end(limit);
}

static void test_two_limiters_on_one_route_both_say_what_is_left(void **state) {
    (void)state;
    uvhttp_middleware_t outer = make((uvhttp_rate_limit_options_t){.per_second = 10, .name = "outer"});
    uvhttp_middleware_t inner = make((uvhttp_rate_limit_options_t){.per_second = 1, .name = "inner"});
    assert_true(ask(outer, "192.0.2.1:1"));
    assert_int_equal(inner.run(&ex.req, &ex.res, inner.user), UVHTTP_NEXT);
    static const char expected[] = "RateLimit-Policy: \"outer\";q=10;w=1\r\nRateLimit: \"outer\";r=9;t=1\r\n"
                                   "RateLimit-Policy: \"inner\";q=1;w=1\r\nRateLimit: \"inner\";r=0;t=1\r\n";
    assert_int_equal(ex.res.headers_size, strlen(expected));
    assert_memory_equal(ex.res.headers, expected, strlen(expected));
    end(outer);
    end(inner);
}

static void test_a_response_without_memory_is_still_a_response(void **state) {
    (void)state;
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 1});
    assert_true(ask(limit, "192.0.2.1:1"));
    for (size_t n = 1; n < 8; n++) {
        uvhttp__arena_deinit(&ex.arena);
        uvhttp__arena_init(&ex.arena, NULL, 0, 1 << 20);
        test_allocator_fail_from(n);
        (void)ask(limit, "192.0.2.1:1"); /* without its address, a client is one of the unknown */
        bool failed = test_allocator_failed();
        (void)ask(limit, "192.0.2.1:1");
        assert_int_equal(uvhttp_response_status(&ex.res), 429);
        test_allocator_fail_at(0);
        if (!failed) break;
        assert_in_range(n, 1, 6);
    }
    end(limit);
}

/* --- keys --- */

static void test_clients_are_distinguished_by_address(void **state) {
    (void)state;
    const struct {
        const char *a, *b;
        bool same;
    } pairs[] = {
        {"192.0.2.1:1", "192.0.2.1:2", true},
        {"192.0.2.1:1", "192.0.2.2:1", false},
        {"[2001:db8::1]:1", "[2001:db8::2]:1", true}, /* one /64 */
        {"[2001:db8::1]:1", "[2001:db8:0:0:ffff::2]:1", true},
        {"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
        {"[::ffff:192.0.2.1]:1", "192.0.2.1:1", true},
        {"[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:1", false}, /* not one /64 */
        {"[fe80::1%2]:1", "[fe80::2%3]:1", true},
        {"[::]:1", "0.0.0.0:1", false},
        {"unix:", "unix:/run/chosen-by-the-client", true},
        {"unix:", "unknown", false},
        {"unix:", "192.0.2.1:1", false},
        {"unknown", "300.0.0.1:1", true},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 1});
        assert_true(ask(limit, pairs[i].a));
        assert_false(ask(limit, pairs[i].a));
        assert_int_equal(ask(limit, pairs[i].b), !pairs[i].same);
        end(limit);
    }
}

static void test_the_bits_of_an_address_that_count_can_be_chosen(void **state) {
    (void)state;
    const struct {
        uint32_t ipv4, ipv6;
        const char *a, *b;
        bool same;
    } cases[] = {
        {24, 0, "192.0.2.1:1", "192.0.2.255:1", true},
        {24, 0, "192.0.2.1:1", "192.0.3.1:1", false},
        {23, 0, "192.0.2.1:1", "192.0.3.1:1", true},
        {1, 0, "1.2.3.4:1", "127.2.3.4:1", true},
        {1, 0, "1.2.3.4:1", "128.2.3.4:1", false},
        {0, 128, "[2001:db8::1]:1", "[2001:db8::2]:1", false},
        {0, 127, "[2001:db8::2]:1", "[2001:db8::3]:1", true},
        {0, 48, "[2001:db8:0:1::1]:1", "[2001:db8:0:ffff::1]:1", true},
        {0, 48, "[2001:db8:0:1::1]:1", "[2001:db8:1:1::1]:1", false},
        {24, 48, "192.0.2.1:1", "[c000:200::1]:1", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uvhttp_middleware_t limit = make(
            (uvhttp_rate_limit_options_t){.per_second = 1, .ipv4_prefix = cases[i].ipv4, .ipv6_prefix = cases[i].ipv6});
        assert_true(ask(limit, cases[i].a));
        assert_int_equal(ask(limit, cases[i].b), !cases[i].same);
        end(limit);
    }
}

static void test_a_header_can_be_the_key_and_without_it_the_address_is(void **state) {
    (void)state;
    char header[] = "X-Api-Key";
    uvhttp_middleware_t limit =
        make((uvhttp_rate_limit_options_t){.per_second = 1, .by = UVHTTP_RATE_LIMIT_BY_HEADER, .header = header});
    header[0] = 'Y';
    assert_true(ask_with(limit, "192.0.2.1:1", "x-api-key", "tea"));
    assert_false(ask_with(limit, "192.0.2.2:1", "X-API-KEY", "tea"));
    assert_true(ask_with(limit, "192.0.2.1:1", "X-Api-Key", "coffee"));
    assert_true(ask_with(limit, "192.0.2.1:1", "X-Api-Key", ""));
    assert_true(ask(limit, "192.0.2.1:1"));
    assert_false(ask(limit, "192.0.2.1:1"));
    assert_true(ask(limit, "192.0.2.2:1"));
    end(limit);
}

static void test_a_route_can_have_one_bucket_for_all(void **state) {
    (void)state;
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 2, .by = UVHTTP_RATE_LIMIT_BY_ROUTE});
    assert_true(ask(limit, "192.0.2.1:1"));
    assert_true(ask(limit, "[2001:db8::1]:1"));
    assert_false(ask(limit, "unix:"));
    assert_null(ex.req.origin); /* the address was not even asked for */
    end(limit);
}

static uvhttp_str_t key_of(uvhttp_request_t *req, void *user) {
    (void)user;
    return uvhttp_request_header(req, "X-User");
}

static void test_a_callback_can_make_the_key_or_say_that_there_is_none(void **state) {
    (void)state;
    uvhttp_middleware_t limit =
        make((uvhttp_rate_limit_options_t){.per_second = 1, .by = UVHTTP_RATE_LIMIT_BY_CALLBACK, .key = key_of});
    assert_true(ask_with(limit, "192.0.2.1:1", "X-User", "anna"));
    assert_false(ask_with(limit, "192.0.2.1:1", "X-User", "anna"));
    assert_true(ask_with(limit, "192.0.2.1:1", "X-User", "berta"));
    for (int i = 0; i < 3; i++) assert_true(ask(limit, "192.0.2.1:1"));
    assert_null(uvhttp_response_header_get(&ex.res, "RateLimit").data);
    assert_int_equal(stats_of(limit).exempt, 3);
    end(limit);
}

/* --- the allow list --- */

static void test_clients_of_the_allow_list_are_never_limited(void **state) {
    (void)state;
    const char *allow[] = {"192.0.2.1",     "10.0.0.0/8", "172.16.0.0/12",
                           "2001:db8::/33", "::1",        "::ffff:198.51.100.0/120"};
    const struct {
        const char *peer;
        bool allowed;
    } peers[] = {
        {"192.0.2.1:1", true},
        {"192.0.2.2:1", false},
        {"10.255.0.9:1", true},
        {"11.0.0.0:1", false},
        {"172.31.255.255:1", true},
        {"172.32.0.0:1", false},
        {"[::1]:1", true},
        {"[::2]:1", false},
        {"[2001:db8:7fff::1]:1", true},
        {"[2001:db8:8000::1]:1", false},
        {"[::ffff:10.0.0.1]:1", true},
        {"198.51.100.77:1", true},
        {"198.51.101.0:1", false},
        {"unix:", false},
        {"unknown", false},
    };
    const uvhttp_rate_limit_by_t kinds[] = {UVHTTP_RATE_LIMIT_BY_ADDRESS, UVHTTP_RATE_LIMIT_BY_ROUTE};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
            uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){
                .per_second = 1, .by = kinds[k], .allow = allow, .allow_count = sizeof allow / sizeof *allow});
            assert_true(ask(limit, peers[i].peer));
            assert_int_equal(ask(limit, peers[i].peer), peers[i].allowed);
            if (peers[i].allowed) assert_null(uvhttp_response_header_get(&ex.res, "RateLimit").data);
            end(limit);
        }
    const char *local[] = {"unix:", "0.0.0.0/0"};
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 1, .allow = local, .allow_count = 2});
    for (int i = 0; i < 3; i++) assert_true(ask(limit, "unix:/x"));
    for (int i = 0; i < 3; i++) assert_true(ask(limit, "255.255.255.255:1"));
    for (int i = 0; i < 3; i++) assert_int_equal(ask(limit, "[::]:1"), i == 0);
    for (int i = 0; i < 3; i++) assert_int_equal(ask(limit, "unknown"), i == 0);
    end(limit);
}

static void test_the_longest_allow_list_is_accepted(void **state) {
    (void)state;
    const char *allow[UVHTTP__RATE_LIMIT_ALLOW_MAX];
    for (size_t i = 0; i < UVHTTP__RATE_LIMIT_ALLOW_MAX; i++) allow[i] = "10.0.0.1";
    allow[UVHTTP__RATE_LIMIT_ALLOW_MAX - 1] = "10.0.0.2";
    uvhttp_middleware_t limit = make(
        (uvhttp_rate_limit_options_t){.per_second = 1, .allow = allow, .allow_count = UVHTTP__RATE_LIMIT_ALLOW_MAX});
    for (int i = 0; i < 3; i++) assert_true(ask(limit, "10.0.0.2:1"));
    end(limit);
}

/* --- options --- */

static void refused(uvhttp_rate_limit_options_t options, const char *words) {
    last_line[0] = '\0';
    uvhttp_middleware_t limit = uvhttp_rate_limit(&options);
    assert_null(limit.run);
    assert_null(limit.user);
    assert_null(limit.destroy);
    assert_true(strncmp(last_line, "middleware: rate_limit: ", 24) == 0);
    if (!strstr(last_line, words)) fail_msg("\"%s\" is not in \"%s\"", words, last_line);
    uvhttp_rate_limit_stats_t stats;
    assert_int_equal(uvhttp_rate_limit_stats(limit, &stats), UVHTTP_E_INVALID);
}

#define REFUSED(words, ...) refused((uvhttp_rate_limit_options_t){__VA_ARGS__}, words)

static void test_wrong_options_are_refused_with_a_line_that_says_which(void **state) {
    (void)state;
    REFUSED("per_second is -1", .per_second = -1);
    REFUSED("per_second is 1e+07: expected 0.00001..1000000", .per_second = 1e7);
    REFUSED("per_second is 9e-06", .per_second = 0.000009);
    REFUSED("per_second is nan", .per_second = (double)NAN);
    REFUSED("per_second is inf", .per_second = (double)INFINITY);
    REFUSED("burst is 1000000001: expected 1..1000000000", .burst = 1000000001);
    REFUSED("burst is 1000000000 at 1 per_second: an empty bucket would take more than 366 days", .per_second = 1,
            .burst = 1000000000);
    REFUSED("keys_max is 100000001", .keys_max = 100000001);
    REFUSED("ipv4_prefix is 33", .ipv4_prefix = 33);
    REFUSED("ipv6_prefix is 129", .ipv6_prefix = 129);
    REFUSED("by is 4", .by = (uvhttp_rate_limit_by_t)4);
    REFUSED("header is \"\"", .by = UVHTTP_RATE_LIMIT_BY_HEADER);
    REFUSED("header is \"a b\"", .by = UVHTTP_RATE_LIMIT_BY_HEADER, .header = "a b");
    REFUSED("key is NULL", .by = UVHTTP_RATE_LIMIT_BY_CALLBACK);
    REFUSED("status is 200", .status = 200);
    REFUSED("name is \"\"", .name = "");
    REFUSED("name is \"a\"b\"", .name = "a\"b");
    REFUSED("name is", .name = "a\\b");
    REFUSED("name is", .name = "a\r\nX: y");
    REFUSED("name is", .name = "1234567890123456789012345678901234567890123456789012345678901234+");
    REFUSED("allow_count is 1001", .allow = (const char *const[]){"::1"}, .allow_count = 1001);
    REFUSED("allow_count is 1", .allow_count = 1);
    REFUSED("store: expected one of take and take_later", .store = &(uvhttp_rate_limit_store_t){.take = NULL});
    uvhttp_middleware_t other = {.run = NULL};
    assert_int_equal(uvhttp_rate_limit_stats(other, NULL), UVHTTP_E_INVALID);
    const char *const wrong[][2] = {
        {"", "no address"},
        {"10.0.0", "no address"},
        {"10.0.0.0.0", "no address"},
        {"localhost", "no address"},
        {"10.0.0.1/33", "prefix length"},
        {"10.0.0.0/", "prefix length"},
        {"10.0.0.0/x", "prefix length"},
        {"10.0.0.0/-1", "prefix length"},
        {"2001:db8::/129", "prefix length"},
        {"10.0.0.1/8", "bits set"},
        {"2001:db8::1/64", "bits set"},
        {"::ffff:10.0.0.0/95", "prefix length"},
        {"fe80::1%2", "no address"},
        {" 10.0.0.1", "no address"},
        {"[::1]", "no address"},
        {"10.0.0.1:80", "no address"},
        {"10.0.0.0/4294967304", "prefix length"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *allow[] = {"::1", wrong[i][0]};
        REFUSED(wrong[i][1], .allow = allow, .allow_count = 2);
        assert_non_null(strstr(last_line, "allow[1] is"));
    }
    REFUSED("it is NULL", .allow = (const char *const[]){NULL}, .allow_count = 1);
}

static void make_and_free(void *user) {
    (void)user;
    static const char *const allow[] = {"::1"};
    uvhttp_middleware_t limit =
        uvhttp_rate_limit(&(uvhttp_rate_limit_options_t){.per_second = 1, .allow = allow, .allow_count = 1});
    assert_int_equal(limit.run == NULL, test_allocator_failed());
    if (!limit.run) assert_non_null(strstr(last_line, "rate_limit: out of memory"));
    if (limit.run) end(limit);
}

static void test_a_limiter_without_memory_is_not_made(void **state) {
    (void)state;
    uvhttp__response_done(&ex.res, 0);
    assert_int_equal(test_allocator_each_failure(make_and_free, NULL), 6);
}

/* --- stores --- */

typedef struct fake {
    int takes, destroyed, result;
    char kind;
    char key[16];
    size_t key_size;
    uint64_t now_ns, interval_ns;
    uint32_t burst;
} fake_t;

static int fake_take(void *user, const uvhttp_rate_limit_take_t *take, uvhttp_rate_limit_decision_t *decision) {
    fake_t *fake = user;
    fake->takes++;
    fake->kind = take->kind;
    memcpy(fake->key, take->key.data, take->key.size);
    fake->key_size = take->key.size;
    fake->now_ns = take->now_ns;
    fake->interval_ns = take->interval_ns;
    fake->burst = take->burst;
    *decision =
        (uvhttp_rate_limit_decision_t){.allowed = fake->takes % 2, .remaining = 4294967295u, .next_ns = UINT64_MAX};
    return fake->result;
}

static void fake_destroy(void *user) {
    ((fake_t *)user)->destroyed++;
}

static void test_a_store_is_asked_with_all_that_it_needs(void **state) {
    (void)state;
    fake_t fake = {.result = UVHTTP_OK};
    const uvhttp_rate_limit_store_t store = {.take = fake_take, .destroy = fake_destroy, .user = &fake};
    uvhttp_middleware_t limit = make((uvhttp_rate_limit_options_t){.per_second = 10, .burst = 7, .store = &store});
    assert_true(ask(limit, "[2001:db8:1:2:3:4:5:6]:1"));
    assert_int_equal(fake.kind, '6');
    assert_int_equal(fake.key_size, 16);
    assert_memory_equal(fake.key, "\x20\x01\x0d\xb8\0\1\0\2\0\0\0\0\0\0\0\0", 16);
    assert_int_equal(fake.now_ns, time_now_ns);
    assert_int_equal(fake.interval_ns, SECOND / 10);
    assert_int_equal(fake.burst, 7);
    assert_str(uvhttp_response_header_get(&ex.res, "RateLimit"), "\"default\";r=4294967295;t=18446744074");
    assert_false(ask(limit, "10.0.0.1:1"));
    assert_int_equal(fake.kind, '4');
    assert_memory_equal(fake.key, "\x0a\0\0\1", 4);
    uvhttp_rate_limit_stats_t stats = stats_of(limit);
    assert_int_equal(stats.allowed, 0); /* this one does not count */
    end(limit);
    assert_int_equal(fake.destroyed, 1);
}

static void test_what_a_store_cannot_decide_passes_or_not_as_the_options_say(void **state) {
    (void)state;
    for (int refuse = 0; refuse < 2; refuse++) {
        fake_t fake = {.result = UVHTTP_E_IO};
        const uvhttp_rate_limit_store_t store = {.take = fake_take, .user = &fake};
        uvhttp_middleware_t limit =
            make((uvhttp_rate_limit_options_t){.per_second = 10, .store = &store, .refuse_on_error = refuse});
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ask(limit, "10.0.0.1:1"), !refuse);
            assert_int_equal(uvhttp_response_status(&ex.res), refuse ? 503 : 0);
            if (refuse) assert_str(uvhttp_response_header_get(&ex.res, "Retry-After"), "1");
            assert_null(uvhttp_response_header_get(&ex.res, "RateLimit").data);
        }
        assert_int_equal(stats_of(limit).store_errors, 3);
        end(limit);
    }
}

static void test_a_store_is_destroyed_when_the_limiter_is_not_made(void **state) {
    (void)state;
    fake_t fake = {.result = UVHTTP_OK};
    const uvhttp_rate_limit_store_t store = {.take = fake_take, .destroy = fake_destroy, .user = &fake};
    REFUSED("per_second", .per_second = -1, .store = &store);
    assert_int_equal(fake.destroyed, 1);
    test_allocator_fail_from(1);
    REFUSED("out of memory", .store = &store);
    test_allocator_fail_at(0);
    assert_int_equal(fake.destroyed, 2);
}

int main(void) {
    test_allocator_install();
    uvhttp_log_set_rate_limit(0);
    uvhttp_log_set_callback(keep_line, NULL);
    return RUN_TESTS_WITH(
        setup, teardown, test_a_refusal_is_not_the_response_that_may_be_kept,
        test_requests_beyond_the_burst_are_refused_and_notified_when_to_come_back,
        test_the_defaults_are_a_hundred_a_second, test_rates_become_whole_ns,
        test_the_status_and_the_fields_can_be_chosen, test_two_limiters_on_one_route_both_say_what_is_left,
        test_a_response_without_memory_is_still_a_response, test_clients_are_distinguished_by_address,
        test_the_bits_of_an_address_that_count_can_be_chosen,
        test_a_header_can_be_the_key_and_without_it_the_address_is, test_a_route_can_have_one_bucket_for_all,
        test_a_callback_can_make_the_key_or_say_that_there_is_none, test_clients_of_the_allow_list_are_never_limited,
        test_the_longest_allow_list_is_accepted, test_wrong_options_are_refused_with_a_line_that_says_which,
        test_a_limiter_without_memory_is_not_made, test_a_store_is_asked_with_all_that_it_needs,
        test_what_a_store_cannot_decide_passes_or_not_as_the_options_say,
        test_a_store_is_destroyed_when_the_limiter_is_not_made);
}
