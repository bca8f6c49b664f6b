/* Owns: tests of request heads and trailer sections of HTTP/2 (RFC 9113 sections 8.1 to 8.3). */
#include <uvhttp/method.h>

#include "head_feed.h"

static void test_request_becomes_the_record_of_http1(void **state) {
    (void)state;
    assert_int_equal(read_lines(":method=POST\n:scheme=https\n:path=/a/b?c=d\n:authority=a.example:8\n"
                                "content-length=42\nuser-agent=test\nexpect=100-continue\nte=trailers\npriority=u=1\n"),
                     0);
    assert_int_equal(head.method, UVHTTP_POST);
    assert_string_equal(text(head.method_text), "POST");
    assert_string_equal(text(head.target), "/a/b?c=d");
    assert_string_equal(text(head.path), "/a/b");
    assert_string_equal(text(head.query), "c=d");
    assert_string_equal(text(head.authority), "a.example:8");
    assert_int_equal(head.form, UVHTTP__FORM_ORIGIN);
    assert_int_equal(head.version, UVHTTP_HTTP_2);
    assert_true(head.path_plain && head.keep_alive && head.has_content_length && head.expect_continue);
    assert_false(head.chunked || head.upgrade);
    assert_int_equal(head.content_length, 42);
    assert_int_equal(head.header_count, 6);
    assert_string_equal(field("user-agent"), "test");
    assert_string_equal(field("host"), "a.example:8");
    assert_string_equal(text(request.priority), "u=1");
    assert_int_equal(request.protocol.size, 0);
}

static void test_paths(void **state) {
    (void)state;
    static const struct {
        const char *path, *shown, *query;
        bool plain;
    } cases[] = {
        {"/", "/", "", true},
        {"/a.b/c", "/a.b/c", "", true},
        {"/a?", "/a", "", true},
        {"/a%20b", "/a%20b", "", false},
        {"/a/../b?x", "/a/../b", "x", false},
        {"/a//b", "/a//b", "", false},
        {"/.a", "/.a", "", true},
        {"/?/..", "/", "/..", true},
        {"/0123456789012345/789/.", "/0123456789012345/789/.", "", false},
        {"/0123456789012345678", "/0123456789012345678", "", true},
        {"/0123456789abcde?q?r", "/0123456789abcde", "q?r", true},
        {"/0123456789abcd?", "/0123456789abcd", "", true},
        {"/0123456789abcd/", "/0123456789abcd/", "", true},
        {"/0123456789abcd//", "/0123456789abcd//", "", false},
        {"/it's!?x='!'", "/it's!", "x='!'", true},
        {"/~\"<>\\^`{|}@[]:;,$&()*+", "/~\"<>\\^`{|}@[]:;,$&()*+", "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char lines[200];
        sprintf(lines, ":method=GET\n:scheme=https\n:authority=a\n:path=%s\n", cases[i].path);
        assert_int_equal(read_lines(lines), 0);
        assert_string_equal(text(head.target), cases[i].path);
        assert_string_equal(text(head.path), cases[i].shown);
        assert_string_equal(text(head.query), cases[i].query);
        assert_int_equal(head.path_plain, cases[i].plain);
    }
    static const char *const bad[] = {"", "a", "*", "http://a/", "/a b", "/a#b", "/a\x7f", "/\xc3\xa4", "?a", "//\x01"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        char lines[200];
        sprintf(lines, ":method=GET\n:scheme=https\n:authority=a\n:path=%s\n", bad[i]);
        int code = read_lines(lines);
        assert_true(code == UVHTTP_E_HTTP2_PATH || code == UVHTTP_E_HTTP2_FIELD_VALUE);
    }
    assert_int_equal(read_lines(":method=OPTIONS\n:scheme=https\n:path=*\n:authority=a\n"), 0);
    assert_int_equal(head.form, UVHTTP__FORM_ASTERISK);
    assert_string_equal(text(head.path), "*");
}

/* Fields that the static table has whole are read as their texts are, in each form. */
static void test_pseudo_fields_of_the_static_table(void **state) {
    (void)state;
    static const char *const methods[] = {"GET", "POST"}, *const paths[] = {"/", "/index.html"},
                             *const schemes[] = {"http", "https"};
    for (unsigned i = 0; i < 8; ++i) {
        const char *method = methods[i & 1], *path = paths[i >> 1 & 1], *scheme = schemes[i >> 2];
        char lines[200];
        sprintf(lines, ":authority=a\n:method=%s\n:path=%s\n:scheme=%s\n", method, path, scheme);
        uvhttp__http2_head_limits_t limits = {(uint32_t)(strlen(lines) - 8 + 4 * 32), 11, 1, false};
        assert_int_equal(read_with(lines, &limits), 0);
        assert_string_equal(text(head.method_text), method);
        assert_int_equal(head.method, i & 1 ? UVHTTP_POST : UVHTTP_GET);
        assert_string_equal(text(head.target), path);
        assert_string_equal(text(head.path), path);
        assert_string_equal(text(head.query), "");
        assert_true(head.path_plain);
        assert_string_equal(text(fields[0].name), "host");
        assert_string_equal(text(fields[0].value), "a");
        limits.list_size_max--;
        assert_int_equal(read_with(lines, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    }
}

/* A block may begin with two, and has to begin with one after the limit has become lower. */
static void test_updates_of_the_table_size(void **state) {
    (void)state;
    static const struct {
        const char *updates;
        int code;
    } cases[] = {
        {"", 0},
        {"\x20", 0},
        {"\x3f\xe1\x1f", 0}, /* 4096 */
        {"\x20\x3f\xe1\x1f", 0},
        {"\x20\x20\x20", UVHTTP_E_HPACK_TABLE_SIZE},
        {"\x3f\xe2\x1f", UVHTTP_E_HPACK_TABLE_SIZE}, /* 4097 */
        {"\x82\x20", UVHTTP_E_HPACK_TABLE_SIZE},
    };
    for (unsigned lowered = 0; lowered < 2; ++lowered) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
            uvhttp__hpack_decoder_t other;
            uvhttp__hpack_decoder_init(&other);
            if (lowered) uvhttp__hpack_decoder_set_limit(&other, 0);
            free(scratch);
            scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
            head.headers = fields;
            size_t size = strlen(cases[i].updates);
            memcpy(block, cases[i].updates, size);
            size += head_block(block + size, cases[i].code == 0 ? GET : "a=b\n", 0, form);
            bool says_zero = cases[i].code == 0 && size > 0 && block[0] == 0x20 && block[1] != 0x3f;
            int code = lowered && !says_zero ? UVHTTP_E_HPACK_TABLE_SIZE : cases[i].code;
            assert_int_equal(uvhttp__http2_read_request(&other, block, size, &default_limits, scratch, &head, &request),
                             code);
            if (code == 0) assert_string_equal(field("host"), "a.example");
            uvhttp__hpack_decoder_deinit(&other);
        }
    }
}

/* `lines` twice, the second time from the table: what an entry remembers must not lose a fault. */
static void expect_fault(const char *lines, int code) {
    int status = read_lines(lines);
    if (status != code) print_error("%s", lines);
    assert_int_equal(status, code);
    uint8_t indexed[FIELDS_MAX];
    size_t count = 0, size = head_block(block, lines, 0x40, form);
    for (const char *at = lines; *at; ++at) count += *at == '\n';
    uvhttp__hpack_decoder_t other;
    uvhttp__hpack_decoder_init(&other);
    assert_int_equal(uvhttp__http2_read_request(&other, block, size, &default_limits, scratch, &head, &request), code);
    for (size_t i = 0; i < count; ++i) indexed[i] = (uint8_t)(0x80 + 61 + count - i);
    assert_int_equal(uvhttp__http2_read_request(&other, indexed, count, &default_limits, scratch, &head, &request),
                     code);
    uvhttp__hpack_decoder_deinit(&other);
}

static void test_malformed_requests(void **state) {
    (void)state;
    static const fault_t faults[] = {
        {"", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":scheme=https\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=GET\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=GET\n:scheme=https\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {GET ":status=200\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {GET ":other=1\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {GET ":=1\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {GET ":Path=/\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {":method=GET\n:scheme=https\n:path=/\na=b\n:authority=a\n", UVHTTP_E_HTTP2_PSEUDO_ORDER},
        {":scheme=https\n:path=/\n:authority=a\na=b\n:method=GET\n", UVHTTP_E_HTTP2_PSEUDO_ORDER},
        {":method=GET\n:path=/\n:authority=a\na=b\n:scheme=https\n", UVHTTP_E_HTTP2_PSEUDO_ORDER},
        {":method=GET\n:scheme=https\n:authority=a\na=b\n:path=/\n", UVHTTP_E_HTTP2_PSEUDO_ORDER},
        {GET ":method=GET\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {GET ":scheme=https\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {GET ":path=/\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {GET ":authority=a\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {GET ":authority=\n", UVHTTP_E_HTTP2_PSEUDO_REPEATED},
        {":method=GET\n:scheme=https\n:path= /\n:authority=a\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {":method=GET\n:scheme=https\n:path=/a%20 \n:authority=a\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {":method=GET\n:scheme=https\n:path= \n:authority=a\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {":method=G T\n:scheme=https\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_METHOD},
        {":method=\n:scheme=https\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_METHOD},
        {":method=GET\n:scheme=\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=1a\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=a/b\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=a:b\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=a`b\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=a{b\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=+a\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme={a\n:path=/\n:authority=a\n", UVHTTP_E_HTTP2_SCHEME},
        {":method=GET\n:scheme=https\n:path=/\n", UVHTTP_E_HTTP2_AUTHORITY},
        {":method=GET\n:scheme=https\n:path=/\n:authority=\n", UVHTTP_E_HTTP2_AUTHORITY},
        {":method=GET\n:scheme=https\n:path=/\n:authority=u@a\n", UVHTTP_E_HTTP2_AUTHORITY},
        {":method=GET\n:scheme=https\n:path=/\n:authority=a:65536\n", UVHTTP_E_HTTP2_AUTHORITY},
        {GET "host=b.example\n", UVHTTP_E_HTTP2_AUTHORITY},
        {GET "host=a.example\nhost=a.example\n", UVHTTP_E_HTTP2_AUTHORITY},
        {GET "host=a/b\n", UVHTTP_E_HTTP2_AUTHORITY},
        {":method=GET\n:scheme=https\n:path=/\nhost=\n", UVHTTP_E_HTTP2_AUTHORITY},
        {":method=GET\n:scheme=https\n:path=/\n:authority=\nhost=a\n", UVHTTP_E_HTTP2_AUTHORITY}, /* RFC 9110 4.2.1 */
        {":method=GET\n:scheme=https\n:path=/\n:authority=\nhost=\n", UVHTTP_E_HTTP2_AUTHORITY},
        {GET "Upper=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "a b=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "a:b=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "a\x80=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "content_length=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "transfer_encoding=chunked\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {GET "accept= b\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "accept=b \n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a= b\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a=b \n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a=\tb\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a=b\t\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a=b\rc\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "a=0123456789012345\x7f\n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {GET "connection=close\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {GET "keep-alive=1\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {GET "proxy-connection=close\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {GET "upgrade=h2c\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {GET "transfer-encoding=chunked\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {GET "te=gzip\n", UVHTTP_E_HTTP2_TE},
        {GET "te=\n", UVHTTP_E_HTTP2_TE},
        {GET "content-length=1\ncontent-length=1\n", UVHTTP_E_HTTP2_CONTENT_LENGTH},
        {GET "content-length=\n", UVHTTP_E_HTTP2_CONTENT_LENGTH},
        {GET "content-length=+1\n", UVHTTP_E_HTTP2_CONTENT_LENGTH},
        {GET "content-length=1,1\n", UVHTTP_E_HTTP2_CONTENT_LENGTH},
        {GET "content-length=9223372036854775808\n", UVHTTP_E_HTTP2_CONTENT_LENGTH},
        {":method=CONNECT\n:scheme=https\n:path=/\n:authority=a:1\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:scheme=https\n:authority=a:1\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:path=/\n:authority=a:1\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n", UVHTTP_E_HTTP2_PSEUDO_MISSING},
        {":method=CONNECT\n:authority=a\n", UVHTTP_E_HTTP2_AUTHORITY},
        {GET ":protocol=websocket\n", UVHTTP_E_HTTP2_CONNECT_PROTOCOL},
        {":method=CONNECT\n:protocol=websocket\n:scheme=https\n:path=/\n:authority=a\n",
         UVHTTP_E_HTTP2_CONNECT_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        expect_fault(faults[i].lines, faults[i].code);
        assert_int_equal(uvhttp__http2_scope(faults[i].code), UVHTTP__HTTP2_SCOPE_STREAM);
    }
}

static void test_schemes_and_names_that_are_unusual(void **state) {
    (void)state;
    assert_int_equal(read_lines(":method=GET\n:scheme=Coap+tcp-1.0z9\n:path=/\n:authority=a\n"), 0);
    assert_int_equal(read_lines(GET "x-content_len=1\nfield_names_of_17=1\ncontent_lengthy=1\n"), 0);
    assert_string_equal(field("x-content_len"), "1");
    assert_string_equal(field("field_names_of_17"), "1");
    assert_int_equal(read_lines(GET "0123456789abcd=14\n"), 0); /* as long as "content_length" */
    assert_string_equal(field("0123456789abcd"), "14");
}

static void test_values_with_lf_and_nul(void **state) {
    (void)state;
    static const char bytes[] = {'\n', '\0'};
    for (size_t i = 0; i < 2; ++i) {
        assert_int_equal(read_lines(GET), 0);
        size_t size = head_block(block, GET "a=bcd\n", 0, HEAD_TEXT);
        block[size - 2] = (uint8_t)bytes[i];
        assert_int_equal(uvhttp__http2_read_request(&decoder, block, size, &default_limits, scratch, &head, &request),
                         UVHTTP_E_HTTP2_FIELD_VALUE);
    }
}

static void test_authority_and_host(void **state) {
    (void)state;
    assert_int_equal(read_lines(GET "host=A.Example\n"), 0);
    assert_string_equal(text(head.authority), "a.example");
    assert_string_equal(field("host"), "A.Example");
    assert_int_equal(head.header_count, 1);
    assert_int_equal(read_lines(":method=GET\n:scheme=https\n:path=/\nhost=b\n"), 0);
    assert_string_equal(text(head.authority), "b");
}

static void test_connect(void **state) {
    (void)state;
    assert_int_equal(read_lines(":method=CONNECT\n:authority=a:443\n"), 0);
    assert_int_equal(head.form, UVHTTP__FORM_AUTHORITY);
    assert_string_equal(text(head.target), "a:443");
    assert_int_equal(head.path.size, 0);
    assert_false(request.extended_connect);
    assert_int_equal(read_with(":method=CONNECT\n:protocol=websocket\n:scheme=https\n:path=/chat?a\n:authority=a\n",
                               &connect_limits),
                     0);
    assert_true(request.extended_connect);
    assert_string_equal(text(request.protocol), "websocket");
    assert_string_equal(text(head.path), "/chat");
    assert_int_equal(head.form, UVHTTP__FORM_ORIGIN);
    assert_int_equal(read_with(GET ":protocol=websocket\n", &connect_limits), UVHTTP_E_HTTP2_CONNECT_PROTOCOL);
    assert_int_equal(read_with(":method=CONNECT\n:protocol=a\n:authority=a:1\n", &connect_limits),
                     UVHTTP_E_HTTP2_PSEUDO_MISSING);
}

static void test_cookie_crumbs_are_joined(void **state) {
    (void)state;
    static const struct {
        const char *lines, *cookie;
        unsigned count;
    } cases[] = {
        {GET "cookie=a=1\n", "a=1", 2},
        {GET "cookie=a=1\ncookie=b=2\ncookie=c=3\nx=y\n", "a=1; b=2; c=3", 3},
        {GET "cookie=a=1\nx=y\ncookie=b=2\ncookie=c=3\n", "a=1; b=2; c=3", 3},
        {GET "x=y\ncookie=a=1\nz=1\ncookie=b=2\nz=2\ncookie=c=3\n", "a=1; b=2; c=3", 5},
        {GET "cookie=\ncookie=\n", "; ", 2},
        {GET "cookie=a=1\naccept=x\ncookie=b=2\n", "a=1; b=2", 3}, /* a name of six letters in between */
        {GET "expect=100-continue\ncookie=a=1\ncookie=b=2\n", "a=1; b=2", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        assert_int_equal(read_lines(cases[i].lines), 0);
        assert_string_equal(field("cookie"), cases[i].cookie);
        assert_int_equal(head.header_count, cases[i].count);
        assert_string_equal(field("host"), "a.example");
    }
}

static void test_limits(void **state) {
    (void)state;
    /* 42 + 44 + 38 + 51 */
    const uint32_t list_size = 7 + 3 + 7 + 5 + 5 + 1 + 10 + 9 + 4 * 32;
    uvhttp__http2_head_limits_t limits = {list_size, 1, 1, false};
    assert_int_equal(read_with(GET, &limits), 0);
    limits.list_size_max--;
    assert_int_equal(read_with(GET, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_string_equal(text(head.method_text), "GET");
    assert_string_equal(text(head.path), "/");
    assert_int_equal(head.header_count, 0);
    limits.list_size_max = 4096;
    assert_int_equal(read_with(GET "a=b\n", &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS); /* host is one */
    assert_int_equal(read_with(GET "accept=b\n", &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
    uvhttp__http2_head_limits_t exact = {list_size + 6 + 1 + 32, 1, 2, false};
    assert_int_equal(read_with(GET "accept=b\n", &exact), 0);
    exact.list_size_max--;
    assert_int_equal(read_with(GET "accept=b\n", &exact), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_int_equal(read_with(GET "accept=b\nvia=c\nage=d\n", &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
    assert_int_equal(head.header_count, 0);
    assert_int_equal(read_with(":method=PUT\n:scheme=https\n:path=/a\n:authority=a\n", &limits),
                     UVHTTP_E_HTTP_LINE_TOO_LONG);
    assert_int_equal(head.method, UVHTTP_PUT);
    assert_int_equal(head.path.size, 0);
    assert_int_equal(read_with(":method=PUT\n:scheme=https\n:path=/%41\n:authority=a\n", &limits),
                     UVHTTP_E_HTTP_LINE_TOO_LONG);
    assert_int_equal(head.path.size, 0);
    assert_int_equal(read_with(GET "cookie=a\nx=y\ncookie=b\n", &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
    limits.header_count_max = 2;
    assert_int_equal(read_with(GET "cookie=a\nx=y\ncookie=b\n", &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
    limits.header_count_max = 1;
    assert_int_equal(read_lines(GET "expect=200-maybe\n"), UVHTTP_E_HTTP_EXPECTATION);
    assert_string_equal(text(head.path), "/");
    /* Crumbs are one field, however many they are, and count each for the size of the list. */
    limits.header_count_max = 2;
    assert_int_equal(read_with(GET "cookie=a\ncookie=b\ncookie=c\n", &limits), 0);
    limits.list_size_max = list_size + 3 * 39;
    assert_int_equal(read_with(GET "cookie=a\ncookie=b\ncookie=c\n", &limits), 0);
    limits.list_size_max--;
    assert_int_equal(read_with(GET "cookie=a\ncookie=b\ncookie=c\n", &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HTTP_HEADERS_TOO_LARGE), UVHTTP__HTTP2_SCOPE_RESPONSE);
    assert_int_equal(uvhttp__http2_scope(UVHTTP_E_HPACK_HUFFMAN), UVHTTP__HTTP2_SCOPE_CONNECTION);
}

static void test_refused_block_still_fills_the_table(void **state) {
    (void)state;
    size_t size = head_block(block, "Bad=1\na=b\n", 0x40, form);
    scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
    head.headers = fields;
    assert_int_equal(uvhttp__http2_read_request(&decoder, block, size, &default_limits, scratch, &head, &request),
                     UVHTTP_E_HTTP2_FIELD_NAME);
    assert_int_equal(decoder.table.count, 2);
    assert_int_equal(uvhttp__http2_skip_block(&decoder, block, size, scratch), 0);
    assert_int_equal(decoder.table.count, 4);
    assert_int_equal(uvhttp__http2_skip_block(&decoder, "\x80", 1, scratch), UVHTTP_E_HPACK_INDEX);
    block[size] = 0x80; /* a fault of the block outweighs that of the head */
    assert_int_equal(uvhttp__http2_read_request(&decoder, block, size + 1, &default_limits, scratch, &head, &request),
                     UVHTTP_E_HPACK_INDEX);
}

static void test_trailers(void **state) {
    (void)state;
    uvhttp_str_t lines;
    static const fault_t faults[] = {
        {":path=/\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {":x=/\n", UVHTTP_E_HTTP2_PSEUDO_FIELD},
        {"A=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {"=1\n", UVHTTP_E_HTTP2_FIELD_NAME},
        {"A=1\nb=2\n:path=/\n", UVHTTP_E_HTTP2_FIELD_NAME}, /* the first fault counts */
        {"a=1 \n", UVHTTP_E_HTTP2_FIELD_VALUE},
        {"connection=close\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {"keep-alive=1\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {"proxy-connection=close\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {"transfer-encoding=chunked\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {"upgrade=h2c\n", UVHTTP_E_HTTP2_CONNECTION_FIELD},
        {"content-length=1\n", UVHTTP_E_HTTP_TRAILER},
        {"host=a\n", UVHTTP_E_HTTP_TRAILER},
        {"trailer=a\n", UVHTTP_E_HTTP_TRAILER},
        {"expect=100-continue\n", UVHTTP_E_HTTP_TRAILER},
        {"te=trailers\n", UVHTTP_E_HTTP_TRAILER},
    };
    scratch = malloc(uvhttp__http2_scratch_size(&default_limits));
    size_t size = head_block(block, "grpc-status=0\ndigest=\n", 0, form);
    assert_int_equal(uvhttp__http2_read_trailer(&decoder, block, size, &default_limits, scratch, &lines), 0);
    assert_int_equal(lines.size, 26);
    assert_memory_equal(lines.data, "grpc-status: 0\r\ndigest: \r\n", 26);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        size = head_block(block, faults[i].lines, 0, form);
        assert_int_equal(uvhttp__http2_read_trailer(&decoder, block, size, &default_limits, scratch, &lines),
                         faults[i].code);
    }
    uvhttp__http2_head_limits_t small = {40, 1, 1, false};
    size = head_block(block, "long-name=long-value\n", 0, form);
    assert_int_equal(uvhttp__http2_read_trailer(&decoder, block, size, &small, scratch, &lines),
                     UVHTTP_E_HTTP_TRAILER_TOO_LARGE);
    size = head_block(block, "A=1\nlong-name=long-value\n", 0, form); /* what is malformed is not only too large */
    assert_int_equal(uvhttp__http2_read_trailer(&decoder, block, size, &small, scratch, &lines),
                     UVHTTP_E_HTTP2_FIELD_NAME);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_request_becomes_the_record_of_http1),
        TEST(test_paths),
        TEST(test_pseudo_fields_of_the_static_table),
        TEST(test_updates_of_the_table_size),
        TEST(test_malformed_requests),
        TEST(test_schemes_and_names_that_are_unusual),
        TEST(test_values_with_lf_and_nul),
        TEST(test_authority_and_host),
        TEST(test_connect),
        TEST(test_cookie_crumbs_are_joined),
        TEST(test_limits),
        TEST(test_refused_block_still_fills_the_table),
        TEST(test_trailers),
    };
    return run_in_each_form(tests, sizeof tests / sizeof *tests);
}
