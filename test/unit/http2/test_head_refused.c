/* Owns: tests of request heads of HTTP/2 that are refused: for what, and what is shown of them. */
#include <uvhttp/method.h>

#include "head_feed.h"

static void test_malformed_requests_for_a_protocol(void **state) {
    (void)state;
#define EXTENDED ":method=CONNECT\n:scheme=https\n:path=/\n:authority=a\n"
    static const fault_t faults[] = {
        {EXTENDED ":protocol=a\n:protocol=a\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {EXTENDED "x=y\n:protocol=a\n", UVHTTP_E_HTTP2_PSEUDO_ORDER},
        {EXTENDED ":protocol=\n", UVHTTP_E_HTTP2_CONNECT_PROTOCOL},
        {EXTENDED ":protocol=a b\n", UVHTTP_E_HTTP2_CONNECT_PROTOCOL},
        {EXTENDED ":protocol=a/1\n", UVHTTP_E_HTTP2_CONNECT_PROTOCOL},
        {":method=CONNECT\n:protocol=a\n:scheme=https\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:protocol=a\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:protocol=a\n:scheme=https\n:path=/\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":protocol=a\n:scheme=https\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:protocol=a\n:scheme=https\n:path=a\n:authority=a\n", UVHTTP_E_HTTP2_PATH},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        int status = read_with(faults[i].lines, &connect_limits);
        if (status != faults[i].code) fail_msg("%s%d", faults[i].lines, status);
    }
}

/* Whatever a field means, it is one of those that are counted: as a literal, from the static table and the dynamic. */
static void test_each_kind_of_field_counts(void **state) {
    (void)state;
    static const char *const kinds[] = {"content-length=1\n",
                                        "host=a.example\n",
                                        "cookie=a\n",
                                        "priority=u=1\n",
                                        "expect=100-continue\n",
                                        "te=trailers\n",
                                        "trailer=digest\n",
                                        "accept=b\n",
                                        "accept-encoding=gzip, deflate\n",
                                        "x-y=z\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        char lines[200];
        sprintf(lines, GET "via=c\n%s", kinds[i]);
        uvhttp__http2_head_limits_t limits = {4096, 100, 3, false};
        bool is_host = strncmp(kinds[i], "host", 4) == 0;
        assert_int_equal(read_with(lines, &limits), 0);
        assert_int_equal(head.header_count, is_host ? 2 : 3);
        limits.header_count_max = is_host ? 1 : 2;
        assert_int_equal(read_with(lines, &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        assert_string_equal(text(head.path), "/");
        limits.header_count_max = 1;
        assert_int_equal(read_with(lines, &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        /* The size of the list. */
        uint32_t size = 0;
        for (const char *at = lines; *at; at = strchr(at, '\n') + 1) size += (uint32_t)(strcspn(at, "\n") - 1 + 32);
        limits = (uvhttp__http2_head_limits_t){size, 100, 3, false};
        assert_int_equal(read_with(lines, &limits), 0);
        limits.list_size_max--;
        assert_int_equal(read_with(lines, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    }
}

/* The same from the dynamic table, which the second block names. */
static void test_each_kind_of_field_counts_from_the_table(void **state) {
    (void)state;
    static const char *const kinds[] = {"content-length=1\n", "host=a.example\n", "cookie=a\n",   "te=trailers\n",
                                        "trailer=digest\n",   "accept=b\n",       ":path=/abc\n", ":authority=a\n",
                                        ":method=PUT\n",      ":status=200\n"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
        uvhttp__hpack_decoder_t other;
        uvhttp__hpack_decoder_init(&other);
        free(scratch);
        scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
        head.headers = fields;
        size_t size = head_block(block, kinds[i], 0x40, form);
        (void)uvhttp__http2_read_request(&other, block, size, &default_limits, scratch, &head, &request);
        static const uint8_t again[] = {0x80 + 62, 0x80 + 62};
        int once = uvhttp__http2_read_request(&other, again, 1, &default_limits, scratch, &head, &request);
        bool pseudo = *kinds[i] == ':', status_field = strncmp(kinds[i], ":s", 2) == 0;
        assert_int_equal(once, status_field ? UVHTTP_E_HTTP2_PSEUDO_FIELD : UVHTTP_E_HTTP2_PSEUDO_MISSING);
        int twice = uvhttp__http2_read_request(&other, again, 2, &default_limits, scratch, &head, &request);
        if (pseudo && !status_field) assert_int_equal(twice, UVHTTP_E_HTTP2_PSEUDO_REPEATED);
        /* Too large by one byte, and one field too many. */
        uvhttp__http2_head_limits_t limits = {(uint32_t)(strlen(kinds[i]) - 2 + 32 - 1), 100, 1, false};
        assert_int_equal(uvhttp__http2_read_request(&other, again, 1, &limits, scratch, &head, &request),
                         UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
        limits = (uvhttp__http2_head_limits_t){4096, 100, 0, false};
        int none = uvhttp__http2_read_request(&other, again, 1, &limits, scratch, &head, &request);
        assert_int_equal(none, once);
        uvhttp__hpack_decoder_deinit(&other);
    }
}

static void test_the_first_priority_counts(void **state) {
    (void)state;
    assert_int_equal(read_lines(GET "priority=u=1\npriority=u=2\ntrailer=digest\n"), 0);
    assert_string_equal(text(request.priority), "u=1");
    assert_string_equal(field("trailer"), "digest");
    assert_int_equal(head.header_count, 4);
}

/* What is shown of a head that is refused for its size: never a target that would be malformed. */
static void test_what_is_shown_of_a_refused_head(void **state) {
    (void)state;
    static const struct {
        const char *lines, *method, *path;
        int code;
    } cases[] = {
        {":path=/a%20b\nexpect=x\n", NULL, "/a%20b", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {GET "expect=x\na=b\n", "GET", "/", UVHTTP_E_HTTP_EXPECTATION},
        {":method=PUT\n:scheme=https\n:authority=a\n:path=/a%20b?c\nexpect=x\n", "PUT", "/a%20b",
         UVHTTP_E_HTTP_EXPECTATION},
        {":method=PUT\n:scheme=https\n:authority=a\n:path=*\nexpect=x\n", NULL, NULL, UVHTTP_E_HTTP2_PATH},
        {GET "expect=x\nBad=1\n", NULL, NULL, UVHTTP_E_HTTP2_FIELD_NAME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        assert_int_equal(read_lines(cases[i].lines), cases[i].code);
        if (cases[i].method) assert_string_equal(text(head.method_text), cases[i].method);
        if (cases[i].method) assert_string_equal(text(head.path), cases[i].path);
    }
    /* Too large behind the path: nothing is known to be missing. */
    uvhttp__http2_head_limits_t limits = {40 + 38, 100, FIELDS_MAX, false};
    static const struct {
        const char *lines, *path;
    } large[] = {
        {":path=/a%b\n:authority=0123456789\n", "/a%b"},
        {":path=*\n:authority=0123456789\n", ""},
        {":path=a b\n:authority=0123456789\n", ""},
        {":path=/\n:authority=01234567890123456789\n", "/"},
        {":authority=01234567890123456789012345678901234567890123456789\n", ""},
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; ++i) {
        assert_int_equal(read_with(large[i].lines, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
        assert_int_equal(head.method, UVHTTP_GET);
        assert_int_equal(head.method_text.size, 0);
        assert_string_equal(text(head.path), large[i].path);
    }
}

/* Faults of a literal whose name has an index of one byte, behind a head that is good. */
static void test_literals_that_are_cut_or_faulty(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int code;
    } cases[] = {
        {"\x04", 1, UVHTTP_E_HPACK_STRING},                      /* :path and no value */
        {"\x44", 1, UVHTTP_E_HPACK_STRING},                      /* the same, for the table */
        {"\x04\x83", 2, UVHTTP_E_HPACK_STRING},                  /* one of three bytes that are not there */
        {"\x04\x81\x00", 3, UVHTTP_E_HPACK_HUFFMAN},             /* padding of zeros */
        {"\x04\x84\xff\xff\xff\xff", 6, UVHTTP_E_HPACK_HUFFMAN}, /* EOS */
        {"\x0f\x04\x82\x00", 4, UVHTTP_E_HPACK_STRING},          /* accept */
        {"\x0f\x04\x81\x00", 4, UVHTTP_E_HPACK_HUFFMAN},
        {"\x0f\x04", 2, UVHTTP_E_HPACK_STRING},
        {"\x0f", 1, UVHTTP_E_HPACK_INTEGER},
        {"\x0f\x2f\x01z", 4, UVHTTP_E_HPACK_INDEX}, /* 62, and the table is empty */
        {"\xbe", 1, UVHTTP_E_HPACK_INDEX},
        {"\x00\x01", 2, UVHTTP_E_HPACK_STRING},
    };
    scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
    head.headers = fields;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        for (int behind = 0; behind < 2; ++behind) { /* :path is the first, or repeated, which is no excuse */
            size_t size = behind ? head_block(block, GET, 0, form) : 0;
            memcpy(block + size, cases[i].bytes, cases[i].size);
            uint8_t *exact = malloc(size + cases[i].size);
            memcpy(exact, block, size + cases[i].size);
            int status = uvhttp__http2_read_request(&decoder, exact, size + cases[i].size, &default_limits, scratch,
                                                    &head, &request);
            if (status != cases[i].code) fail_msg("%zu: %s", i, uvhttp_error_name(status));
            free(exact);
        }
    }
}

static void test_scopes_of_codes(void **state) {
    (void)state;
    static const struct {
        int code;
        uvhttp__http2_scope_t scope;
    } cases[] = {
        {UVHTTP_E_NOMEM, UVHTTP__HTTP2_SCOPE_CONNECTION},
        {UVHTTP_E_HPACK_INDEX, UVHTTP__HTTP2_SCOPE_CONNECTION},
        {UVHTTP_E_HTTP2_PSEUDO_FIELD, UVHTTP__HTTP2_SCOPE_STREAM},
        {UVHTTP_E_HTTP2_CONTENT_LENGTH, UVHTTP__HTTP2_SCOPE_STREAM},
        {UVHTTP_E_HTTP_METHOD, UVHTTP__HTTP2_SCOPE_RESPONSE},
        {UVHTTP_E_HTTP_HOST_NOT_ALLOWED, UVHTTP__HTTP2_SCOPE_RESPONSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        assert_int_equal(uvhttp__http2_scope(cases[i].code), cases[i].scope);
    /* The numbers of both ranges are theirs alone. */
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HTTP2_PSEUDO_FIELD + 1), UVHTTP__HTTP2_SCOPE_CONNECTION);
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HTTP2_CONTENT_LENGTH - 1), UVHTTP__HTTP2_SCOPE_CONNECTION);
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HTTP_METHOD + 1), UVHTTP__HTTP2_SCOPE_CONNECTION);
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HTTP_HOST_NOT_ALLOWED - 1), UVHTTP__HTTP2_SCOPE_CONNECTION);
}

/* A fault of the block ends the connection, whatever the block is for. */
static void test_faults_of_blocks(void **state) {
    (void)state;
    static const struct {
        const char *block;
        int code;
    } cases[] = {
        {"\x3f\xe2\x1f", UVHTTP_E_HPACK_TABLE_SIZE}, /* 4097 */
        {"\x3f\xff\xff\xff\xff\x7f", UVHTTP_E_HPACK_INTEGER},
        {"\x80", UVHTTP_E_HPACK_INDEX},
        {"\x82\xff\xff", UVHTTP_E_HPACK_INTEGER},
        {"\x82\xff", UVHTTP_E_HPACK_INTEGER}, /* cut */
        {"\x82\x01", UVHTTP_E_HPACK_STRING},
    };
    uvhttp_str_t lines;
    scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
    head.headers = fields;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const char *bytes = cases[i].block;
        size_t size = strlen(bytes);
        assert_int_equal(uvhttp__http2_read_trailer(&decoder, bytes, size, &default_limits, scratch, &lines),
                         cases[i].code);
        assert_int_equal(uvhttp__http2_skip_block(&decoder, bytes, size, scratch), cases[i].code);
        assert_int_equal(uvhttp__http2_read_request(&decoder, bytes, size, &default_limits, scratch, &head, &request),
                         cases[i].code);
        assert_int_equal(uvhttp__http2_scope(cases[i].code), UVHTTP__HTTP2_SCOPE_CONNECTION);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_malformed_requests_for_a_protocol),
        TEST(test_each_kind_of_field_counts),
        TEST(test_each_kind_of_field_counts_from_the_table),
        TEST(test_the_first_priority_counts),
        TEST(test_what_is_shown_of_a_refused_head),
        TEST(test_literals_that_are_cut_or_faulty),
        TEST(test_scopes_of_codes),
        TEST(test_faults_of_blocks),
    };
    return run_in_each_form(tests, sizeof tests / sizeof *tests);
}
