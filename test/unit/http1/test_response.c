/* Owns: tests of the pieces of a response head, each against a slower or independent way of making it. */
#include "support/http1_feed.h"
#include "support/run.h"

#include <inttypes.h>
#include <time.h>

/* xorshift64: the same numbers everywhere. */
static uint64_t random_next(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static void test_status_lines_of_all_codes(void **state) {
    (void)state;
    int known = 0;
    for (int status = 100; status <= 999; ++status) {
        char out[UVHTTP__HTTP1_STATUS_LINE_MAX + 1], expected[128];
        memset(out, 'x', sizeof out);
        size_t size = uvhttp__http1_write_status_line(out, status);
        const char *reason = uvhttp__http1_reason(status);
        int expected_size = snprintf(expected, sizeof expected, "HTTP/1.1 %d %s\r\n", status, reason);
        assert_int_equal(size, expected_size);
        assert_memory_equal(out, expected, size);
        assert_true(out[UVHTTP__HTTP1_STATUS_LINE_MAX] == 'x');
        known += reason[0] != '\0';
    }
    assert_int_equal(known, 62);
    assert_string_equal(uvhttp__http1_reason(200), "OK");
    assert_string_equal(uvhttp__http1_reason(100), "Continue");
    assert_string_equal(uvhttp__http1_reason(404), "Not Found");
    assert_string_equal(uvhttp__http1_reason(511), "Network Authentication Required");
    assert_string_equal(uvhttp__http1_reason(599), "");
    assert_string_equal(uvhttp__http1_reason(600), "");
    assert_string_equal(uvhttp__http1_reason(99), "");
    assert_string_equal(uvhttp__http1_reason(-1), "");
}

static void expect_numbers(uint64_t n) {
    char out[64], expected[64];
    memset(out, 'x', sizeof out);
    size_t size = uvhttp__http1_write_chunk_head(out, n);
    assert_true(size <= UVHTTP__HTTP1_CHUNK_HEAD_MAX);
    assert_int_equal(size, snprintf(expected, sizeof expected, "%" PRIx64 "\r\n", n));
    assert_memory_equal(out, expected, size);
    assert_true(out[size] == 'x');
}

static void test_chunk_head_against_printf(void **state) {
    (void)state;
    for (uint64_t n = 0; n < 20000; ++n) expect_numbers(n);
    for (uint64_t power = 1;; power *= 10) {
        expect_numbers(power - 1);
        expect_numbers(power);
        expect_numbers(power + 1);
        if (power > UINT64_MAX / 10) break;
    }
    for (int bit = 0; bit < 64; ++bit) {
        expect_numbers(UINT64_C(1) << bit);
        expect_numbers((UINT64_C(1) << bit) - 1);
    }
    expect_numbers(UINT64_MAX);
    uint64_t seed = 42;
    for (int i = 0; i < 20000; ++i) expect_numbers(random_next(&seed) >> (i % 64));
}

int main(void) {
    return RUN_TESTS(test_status_lines_of_all_codes, test_chunk_head_against_printf);
}
