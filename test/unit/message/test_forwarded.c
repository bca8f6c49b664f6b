/* Owns: tests of what proxies say of a client. */
#include <cmocka.h>

#include "base/alloc.h"
#include "base/str.h"
#include "support/exchange.h"
#include "support/failing_allocator.h"

static exchange_t ex;
static uvhttp__trust_t trust;

static int setup(void **state) {
    (void)state;
    static const char *const texts[] = {"10.0.0.0/8", "2001:db8:1::/48", "unix:"};
    size_t at;
    const char *fault;
    exchange_init(&ex, SIZE_MAX);
    assert_int_equal(uvhttp__ip_ranges_new(texts, 3, &trust.ranges, &at, &fault), UVHTTP_OK);
    trust.hops_max = 16;
    trust.fields = UVHTTP__PROXY_FIELDS_ALL;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uvhttp__free(trust.ranges);
    exchange_deinit(&ex);
    return 0;
}

typedef struct vector {
    const char *fields[4]; /* values, in the order received */
    const char *client;
    const char *proto_fields[2], *host_fields[2]; /* X-Forwarded only */
    bool https;
    const char *host;
    bool ignored;
} vector_t;

static void check(const vector_t *vector, uint8_t header) {
    static const char *const names[] = {"", "Forwarded", "x-forwarded-for"};
    uvhttp__client_t client = {.address = uvhttp__peer_of_ip("\012\0\0\001", 4, 5)};
    char text[UVHTTP__IP_TEXT_MAX];
    trust.header = header;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    for (size_t i = 0; i < 4 && vector->fields[i]; i++) exchange_field(&ex, names[header], vector->fields[i]);
    for (size_t i = 0; i < 2 && vector->proto_fields[i]; i++)
        exchange_field(&ex, "X-Forwarded-Proto", vector->proto_fields[i]);
    for (size_t i = 0; i < 2 && vector->host_fields[i]; i++)
        exchange_field(&ex, "X-Forwarded-Host", vector->host_fields[i]);
    bool whole = uvhttp__forwarded_resolve(&ex.req, &trust, &client);
    (void)uvhttp__peer_text(&client.address, text);
    if (strcmp(text, vector->client) != 0 || client.https != vector->https || whole == vector->ignored)
        print_message("vector: %s\n", vector->fields[0] ? vector->fields[0] : "(none)");
    assert_string_equal(text, vector->client);
    assert_int_equal(client.https, vector->https);
    assert_int_equal(whole, !vector->ignored);
    if (vector->host)
        assert_str(client.host, vector->host);
    else
        assert_int_equal(client.host.size, 0);
}

static void test_forwarded_is_read_from_the_last_element_to_the_first_that_is_not_trusted(void **state) {
    (void)state;
    static const vector_t vectors[] = {
        {.client = "10.0.0.1"},
        {.fields = {"for=192.0.2.7"}, .client = "192.0.2.7"},
        {.fields = {"For=192.0.2.7;Proto=HTTPS;by=10.0.0.1;host=a.example:8443"},
         .client = "192.0.2.7",
         .https = true,
         .host = "a.example:8443"},
        {.fields = {"for=\"192.0.2.7:80\" ; proto=\"https\""}, .client = "192.0.2.7", .https = true},
        {.fields = {"for=\"[2001:db8::7]:80\""}, .client = "2001:db8::7"},
        {.fields = {"for=\"[2001:db8::7]\""}, .client = "2001:db8::7"},
        {.fields = {"for=\"2001:db8::7\""}, .client = "2001:db8::7"},
        /* What stands before the client's own element is the client's to write. */
        {.fields = {"for=198.51.100.9;proto=https, for=192.0.2.7"}, .client = "192.0.2.7"},
        {.fields = {"for=198.51.100.9", "for=192.0.2.7"}, .client = "192.0.2.7"},
        {.fields = {"for=\", for=192.0.2.7"}, .client = "192.0.2.7"},
        {.fields = {"\"\\\", for=192.0.2.7;host=b"}, .client = "192.0.2.7", .host = "b"},
        {.fields = {"garbage,,,;==;\", for=192.0.2.7"}, .client = "192.0.2.7"},
        /* Trusted proxies in front of one another. */
        {.fields = {"for=192.0.2.7;proto=https;host=edge, for=10.0.0.2;proto=http;host=inner"},
         .client = "192.0.2.7",
         .https = true,
         .host = "edge"},
        {.fields = {"for=198.51.100.9", "for=192.0.2.7, for=10.0.0.2", "for=\"[2001:db8:1::9]\""},
         .client = "192.0.2.7"},
        {.fields = {"for=10.0.0.3, for=10.0.0.2"},
         .client = "10.0.0.3"}, /* all are ours: the first one asks for itself */
        /* Empty elements and pairs. */
        {.fields = {"for=192.0.2.7, ,", ",,"}, .client = "192.0.2.7"},
        {.fields = {";for=192.0.2.7;;proto=https;"}, .client = "192.0.2.7", .https = true},
        /* No address: the one that somebody trusted has vouched for last. */
        {.fields = {"for=unknown;proto=https"}, .client = "10.0.0.1", .https = true},
        {.fields = {"for=_hidden, for=10.0.0.2"}, .client = "10.0.0.2"},
        {.fields = {"for=\"_gazonk:99\""}, .client = "10.0.0.1"},
        {.fields = {"for=198.51.100.9, for=unknown"}, .client = "10.0.0.1"},
        {.fields = {"for=\"unknown:99\""}, .client = "10.0.0.1"},
        {.fields = {"for=\"Unknown:_port\", for=10.0.0.2"}, .client = "10.0.0.2"},
        /* A port that is hidden (RFC 7239 section 6). */
        {.fields = {"for=\"192.0.2.7:_pA.b-c_9\""}, .client = "192.0.2.7"},
        {.fields = {"for=\"[2001:db8::7]:_1\";proto=https"}, .client = "2001:db8::7", .https = true},
        {.fields = {"for=\"192.0.2.7:_\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7:_a b\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"unknown_\""}, .client = "10.0.0.1", .ignored = true},
        /* What cannot be read. */
        {.fields = {"for=192.0.2.7, for=192.0.2.256"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=192.0.2.7, proto=https"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=192.0.2.7, for"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=192.0.2.7;for=192.0.2.8"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=192.0.2.7, for=192.0.2.7\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7:99999\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[192.0.2.7]\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[2001:db8::7\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[2001:db8::7]x\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[fe80::1%1]\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for="}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[2001:db8::7]x80\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[2001:db8::7]:\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"[]\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7:\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7:8x\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7:000080\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=\"192.0.2.7\"x"}, .client = "10.0.0.1", .ignored = true},
        /* A quote that is escaped ends nothing. */
        {.fields = {"\\\"a\""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"for=192.0.2.7;x=\"a\\\";for=\\\"b\""}, .client = "192.0.2.7"},
        {.fields = {"for=192.0.2.7;x=\"a\\\\\";proto=https"}, .client = "192.0.2.7", .https = true},
        {.fields = {"\"\\\"\", for=192.0.2.7"}, .client = "192.0.2.7"},
        {.fields = {"for=192.0.2.7;host=a/b"}, .client = "192.0.2.7"}, /* no host: the request's */
        {.fields = {"for=192.0.2.7;host=\"a[1\""}, .client = "192.0.2.7"},
        {.fields = {"for=192.0.2.7;host=\"a:99999\""}, .client = "192.0.2.7"},
        {.fields = {"for=192.0.2.7;host=\"u@a\""}, .client = "192.0.2.7"},
        {.fields = {"for=192.0.2.7;host=\"[2001:db8::1]:80\""}, .client = "192.0.2.7", .host = "[2001:db8::1]:80"},
        {.fields = {"for=192.0.2.7;proto=ftp"}, .client = "192.0.2.7"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) check(&vectors[i], UVHTTP__PROXY_HEADER_FORWARDED);
}

static void test_x_forwarded_fields_go_together_from_the_end(void **state) {
    (void)state;
    static const vector_t vectors[] = {
        {.client = "10.0.0.1"},
        {.fields = {"192.0.2.7"},
         .client = "192.0.2.7",
         .proto_fields = {"https"},
         .host_fields = {"a.example"},
         .https = true,
         .host = "a.example"},
        {.fields = {"192.0.2.7:5000"}, .client = "192.0.2.7"},
        {.fields = {"2001:db8::7"}, .client = "2001:db8::7"},
        {.fields = {"[2001:db8::7]:80"}, .client = "2001:db8::7"},
        {.fields = {"198.51.100.9, 192.0.2.7"},
         .client = "192.0.2.7",
         .proto_fields = {"https, http"},
         .host_fields = {"evil, a.example"},
         .https = false,
         .host = "a.example"},
        {.fields = {"198.51.100.9", "192.0.2.7"},
         .client = "192.0.2.7",
         .proto_fields = {"http", "https"},
         .https = true},
        {.fields = {"192.0.2.7, 10.0.0.2"},
         .client = "192.0.2.7",
         .proto_fields = {"https, http"},
         .host_fields = {"edge, inner"},
         .https = true,
         .host = "edge"},
        {.fields = {"192.0.2.7, 10.0.0.2"},
         .client = "192.0.2.7",
         .proto_fields = {"https"},
         .host_fields = {"edge"},
         .https = true,
         .host = "edge"}, /* one that replaces */
        {.fields = {"10.0.0.3, 10.0.0.2"}, .client = "10.0.0.3"},
        {.client = "10.0.0.1", .proto_fields = {"https"}, .https = true},
        {.fields = {"198.51.100.9, unknown"}, .client = "10.0.0.1"},
        {.fields = {"198.51.100.9, junk"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"198.51.100.9, \""}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"192.0.2.7 198.51.100.9"}, .client = "10.0.0.1", .ignored = true},
        {.fields = {"192.0.2.7,"}, .client = "192.0.2.7"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) check(&vectors[i], UVHTTP__PROXY_HEADER_X_FORWARDED);
}

static void test_an_authority_is_short_and_needs_memory(void **state) {
    (void)state;
    char field[400], host[300];
    for (size_t size = 255; size <= 256; size++) {
        memset(host, 'h', size);
        host[size] = '\0';
        snprintf(field, sizeof field, "for=192.0.2.7;host=%s", host);
        check(&(vector_t){.fields = {field}, .client = "192.0.2.7", .host = size == 255 ? host : NULL},
              UVHTTP__PROXY_HEADER_FORWARDED);
    }
    exchange_deinit(&ex); /* whose arena then has no block yet */
    exchange_init(&ex, SIZE_MAX);
    test_allocator_fail_from(1);
    check(&(vector_t){.fields = {"for=192.0.2.7;host=a;proto=https"}, .client = "192.0.2.7", .https = true},
          UVHTTP__PROXY_HEADER_FORWARDED);
    assert_true(test_allocator_failed());
    test_allocator_fail_at(0);
}

/* What X-Forwarded-Host says behind a quote that never began belongs to nobody. */
static void test_elements_that_cannot_be_read_are_passed_over(void **state) {
    (void)state;
    check(&(vector_t){.fields = {"192.0.2.7"}, .client = "192.0.2.7", .host_fields = {"a.example, b\""}},
          UVHTTP__PROXY_HEADER_X_FORWARDED);
    check(&(vector_t){.fields = {"192.0.2.7, 10.0.0.2"},
                      .client = "192.0.2.7",
                      .host_fields = {"\", b.example"},
                      .host = "b.example"},
          UVHTTP__PROXY_HEADER_X_FORWARDED);
}

static void test_elements_are_limited(void **state) {
    (void)state;
    for (uint8_t header = 1; header <= 2; header++) {
        char value[2048] = "";
        for (int i = 0; i < 17; i++) {
            char element[32];
            snprintf(element, sizeof element, "%s%s10.0.1.%d", i ? ", " : "", header == 1 ? "for=" : "", i);
            strcat(value, element);
        }
        check(&(vector_t){.fields = {value}, .client = "10.0.1.1", .ignored = true}, header);
        trust.hops_max = 17;
        check(&(vector_t){.fields = {value}, .client = "10.0.1.0"}, header);
        trust.hops_max = 16;
    }
}

static void test_only_the_configured_field_is_read(void **state) {
    (void)state;
    uvhttp__client_t client = {.address.kind = UVHTTP__PEER_UNIX};
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    exchange_field(&ex, "X-Forwarded-For", "192.0.2.7");
    exchange_field(&ex, "X-Forwarded-Proto", "https");
    trust.header = UVHTTP__PROXY_HEADER_FORWARDED;
    assert_true(uvhttp__forwarded_resolve(&ex.req, &trust, &client));
    trust.header = UVHTTP__PROXY_HEADER_NONE;
    assert_true(uvhttp__forwarded_resolve(&ex.req, &trust, &client));
    assert_int_equal(client.address.kind, UVHTTP__PEER_UNIX);
    assert_false(client.https);
    /* The peer of a Unix socket is trusted here. */
    trust.header = UVHTTP__PROXY_HEADER_X_FORWARDED;
    assert_true(uvhttp__forwarded_resolve(&ex.req, &trust, &client));
    assert_int_equal(client.address.kind, UVHTTP__PEER_IPV4);
    assert_true(client.https);
}

/* What is not configured passes a proxy as the client wrote it. */
static void test_each_field_is_believed_for_itself(void **state) {
    (void)state;
    static const struct {
        uint8_t fields;
        const char *client;
        bool https;
        const char *host;
    } cases[] = {
        {UVHTTP__PROXY_FOR, "192.0.2.7", false, NULL},
        {UVHTTP__PROXY_FOR | UVHTTP__PROXY_PROTO, "192.0.2.7", true, NULL},
        {UVHTTP__PROXY_FOR | UVHTTP__PROXY_HOST, "192.0.2.7", false, "evil"},
        {UVHTTP__PROXY_PROTO, "10.0.0.1", true, NULL},
        {UVHTTP__PROXY_HOST, "10.0.0.1", false, "evil"},
        {UVHTTP__PROXY_FIELDS_ALL, "192.0.2.7", true, "evil"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        trust.fields = cases[i].fields;
        check(&(vector_t){.fields = {"192.0.2.7"},
                          .client = cases[i].client,
                          .proto_fields = {"https"},
                          .host_fields = {"evil"},
                          .https = cases[i].https,
                          .host = cases[i].host},
              UVHTTP__PROXY_HEADER_X_FORWARDED);
        if (!(cases[i].fields & UVHTTP__PROXY_FOR)) continue; /* refused with the standard field */
        check(&(vector_t){.fields = {"for=192.0.2.7;proto=https;host=evil"},
                          .client = cases[i].client,
                          .https = cases[i].https,
                          .host = cases[i].host},
              UVHTTP__PROXY_HEADER_FORWARDED);
    }
    trust.fields = UVHTTP__PROXY_FIELDS_ALL;
}

static int times_asked;

static void say_client(uvhttp_request_t *req, uvhttp__client_t *client) {
    (void)req;
    times_asked++;
    client->address = uvhttp__peer_of_ip("\300\0\002\007", 4, 5);
    client->https = true;
}

static void test_a_client_is_found_out_once(void **state) {
    (void)state;
    const uvhttp__request_ops_t ops = {.client = say_client}, *before = ex.req.ops;
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    exchange_field(&ex, "Host", "c.example");
    ex.req.ops = &ops;
    times_asked = 0;
    for (int i = 0; i < 2; i++) {
        assert_str(uvhttp_request_client(&ex.req), "192.0.2.7");
        assert_str(uvhttp_request_client_scheme(&ex.req), "https");
        assert_ptr_equal(uvhttp_request_client_host(&ex.req).data, uvhttp_request_host(&ex.req).data);
    }
    assert_int_equal(times_asked, 1);
    exchange_request(&ex, UVHTTP_GET, STR("/"), NULL);
    ex.arena.size_max = ex.arena.used; /* the client is known, however much memory the application has used */
    assert_int_equal(uvhttp__request_client(&ex.req)->address.port, 5);
    assert_str(uvhttp_request_client(&ex.req), "192.0.2.7");
    assert_int_equal(times_asked, 2);
    assert_int_equal(ex.arena.used, ex.arena.size_max);
    ex.arena.size_max = SIZE_MAX;
    ex.req.ops = before;
}

int main(void) {
    test_allocator_install();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forwarded_is_read_from_the_last_element_to_the_first_that_is_not_trusted),
        cmocka_unit_test(test_x_forwarded_fields_go_together_from_the_end),
        cmocka_unit_test(test_an_authority_is_short_and_needs_memory),
        cmocka_unit_test(test_elements_that_cannot_be_read_are_passed_over),
        cmocka_unit_test(test_elements_are_limited),
        cmocka_unit_test(test_only_the_configured_field_is_read),
        cmocka_unit_test(test_each_field_is_believed_for_itself),
        cmocka_unit_test(test_a_client_is_found_out_once),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
