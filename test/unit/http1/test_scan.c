/* Owns: tests of where a head ends: limits, pipelined heads, heads that are not whole. */
#include "support/http1_feed.h"
#include "support/run.h"

/* A head whose request line and header section have exactly these sizes. */
static size_t make_head(char *out, size_t line_size, size_t headers_size) {
    size_t n = (size_t)sprintf(out, "GET /%*s HTTP/1.1\r\nHost: a\r\nX: ", (int)line_size - 14, "");
    for (size_t i = 5; i < line_size - 9; ++i) out[i] = 'p';
    size_t padding = headers_size - strlen("Host: a\r\nX: \r\n\r\n");
    memset(out + n, 'v', padding);
    memcpy(out + n + padding, "\r\n\r\n", 4);
    return n + padding + 4;
}

static int code_for(const char *text, size_t size, const uvhttp__head_limits_t *limits) {
    feed_result_t result;
    feed_all_ways(text, size, limits, &result);
    return result.code;
}

static void test_request_line_limit_is_exact(void **state) {
    (void)state;
    char text[1024];
    for (uint32_t size = 20; size < 200; size += 7) {
        size_t total = make_head(text, size, 60);
        uvhttp__head_limits_t limits = {size, 4096, 64};
        assert_int_equal(code_for(text, total, &limits), 0);
        assert_int_equal(code_for(text, size, &limits), UVHTTP_E_AGAIN);
        limits.line_size_max = size - 1;
        assert_int_equal(code_for(text, total, &limits), UVHTTP_E_HTTP_LINE_TOO_LONG);
        /* It is known at the byte that should have been the LF, and not before. */
        assert_int_equal(code_for(text, size + 1, &limits), UVHTTP_E_HTTP_LINE_TOO_LONG);
        assert_int_equal(code_for(text, size, &limits), UVHTTP_E_AGAIN);
    }
}

static void test_header_section_limit_is_exact(void **state) {
    (void)state;
    char text[1024];
    for (uint32_t size = 20; size < 300; size += 7) {
        size_t total = make_head(text, 30, size);
        uvhttp__head_limits_t limits = {1024, size, 64};
        assert_int_equal(code_for(text, total, &limits), 0);
        limits.headers_size_max = size - 1;
        assert_int_equal(code_for(text, total, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
        assert_int_equal(code_for(text, total - 1, &limits), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
        assert_int_equal(code_for(text, total - 2, &limits), UVHTTP_E_AGAIN);
    }
    const uvhttp__head_limits_t none = {1024, 2, 0};
    assert_int_equal(code_for("GET / HTTP/1.0\r\n\r\n", 18, &none), 0);
    assert_int_equal(code_for("GET / HTTP/1.0\r\nA: b\r\n\r\n", 24, &none), UVHTTP_E_HTTP_HEADERS_TOO_LARGE);
}

static void test_field_count_limit_is_exact(void **state) {
    (void)state;
    char text[1024];
    for (uint32_t count = 1; count <= 40; count += 3) {
        int n = sprintf(text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (uint32_t i = 1; i < count; ++i) n += sprintf(text + n, "%.*s: %u\r\n", (int)(i % 9) + 1, "abcdefghij", i);
        n += sprintf(text + n, "\r\n");
        uvhttp__head_limits_t limits = {1024, 4096, count};
        assert_int_equal(code_for(text, (size_t)n, &limits), 0);
        limits.header_count_max = count - 1;
        assert_int_equal(code_for(text, (size_t)n, &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        assert_int_equal(code_for(text, (size_t)n - 2, &limits), UVHTTP_E_HTTP_TOO_MANY_HEADERS);
        assert_int_equal(code_for(text, (size_t)n - 3, &limits), UVHTTP_E_AGAIN);
    }
}

static void test_the_first_of_several_faults_wins(void **state) {
    (void)state;
    static const feed_vector_t vectors[] = {
        V("GET /pppp\n", UVHTTP_E_HTTP_BARE_LF),                                    /* LF before the limit */
        V("GET /ppppppppppppppppppppppppppppppppp\n", UVHTTP_E_HTTP_LINE_TOO_LONG), /* after */
        V("GET /ppppppppppppppppp\rp\n", UVHTTP_E_HTTP_BARE_CR),
        V("GET /ppppppppppppppppppp\rp", UVHTTP_E_HTTP_BARE_CR), /* at the last byte that may be in the line */
        V("GET /ppppppppppppppppppppp\rp\n", UVHTTP_E_HTTP_LINE_TOO_LONG),
        V("GET / HTTP/1.1\r\nA: b\r\nB: c\r\nC: d\nD: e\r\n", UVHTTP_E_HTTP_BARE_LF),
        V("GET / HTTP/1.1\r\nA: b\r\nB: c\r\nC: d\r\nD: e\n", UVHTTP_E_HTTP_TOO_MANY_HEADERS),
        V("GET / HTTP/1.1\r\nA: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\r\n\n", UVHTTP_E_HTTP_HEADERS_TOO_LARGE),
        V("GET / HTTP/1.1\r\nA: bbbbbbbbbbbbbb\n\r\n", UVHTTP_E_HTTP_BARE_LF),
    };
    const uvhttp__head_limits_t limits = {24, 32, 2};
    feed_vectors(vectors, sizeof vectors / sizeof *vectors, &limits);
}

static void test_reading_stops_at_the_first_of_pipelined_heads(void **state) {
    (void)state;
    const char *text = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\n\n\n\n";
    feed_result_t result;
    feed_expect_span(text, feed_accepted(text, &result)->path, "/1");
    assert_int_equal(result.head_size, 28);
    text += 28;
    feed_expect_span(text, feed_accepted(text, &result)->path, "/2");
}

static void test_a_head_that_is_not_whole_asks_for_more(void **state) {
    (void)state;
    static const char text[] = "GET /1 HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
    feed_result_t result = {0};
    result.head.headers = result.fields;
    FEED_EACH_LEVEL(level) {
        for (size_t size = 0; size < sizeof text; ++size) {
            uvhttp__http1_scan_t scan = {0};
            int code =
                uvhttp__http1_read_request(&scan, feed_guarded(text, size, true), size, &feed_limits, &result.head);
            assert_int_equal(code, size == sizeof text - 1 ? 0 : UVHTTP_E_AGAIN);
        }
    }
}

static void test_levels_can_be_selected_and_named(void **state) {
    (void)state;
    assert_int_equal(uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_SCALAR), 0);
    assert_string_equal(uvhttp__http1_simd_name(), "scalar");
#if defined(__x86_64__)
    assert_int_equal(uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_NEON), UVHTTP_E_UNSUPPORTED);
    assert_string_equal(uvhttp__http1_simd_name(), "scalar");
    if (uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_AVX2) == 0) {
        assert_string_equal(uvhttp__http1_simd_name(), "avx2");
        assert_int_equal(uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_SSE42), 0);
        assert_string_equal(uvhttp__http1_simd_name(), "sse4.2");
        uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_AUTO);
        assert_string_equal(uvhttp__http1_simd_name(), "avx2");
    }
#elif defined(__aarch64__)
    assert_int_equal(uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_AVX2), UVHTTP_E_UNSUPPORTED);
    assert_int_equal(uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_NEON), 0);
    assert_string_equal(uvhttp__http1_simd_name(), "neon");
    uvhttp__http1_simd_select(UVHTTP__HTTP1_SIMD_AUTO);
    assert_string_equal(uvhttp__http1_simd_name(), "neon");
#endif
}

int main(void) {
    return RUN_TESTS(test_request_line_limit_is_exact, test_header_section_limit_is_exact,
                     test_field_count_limit_is_exact, test_the_first_of_several_faults_wins,
                     test_reading_stops_at_the_first_of_pipelined_heads, test_a_head_that_is_not_whole_asks_for_more,
                     test_levels_can_be_selected_and_named);
}
