#include "support/http1_feed.h"

#include <sys/mman.h>
#include <unistd.h>

const uvhttp__head_limits_t feed_limits = {.line_size_max = 1024, .headers_size_max = 4096, .header_count_max = 64};

/* FEED_PAGES pages with an unmapped one before and one after. */
static char *feed_pages(size_t *size) {
    static char *pages;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *size = FEED_PAGES * page;
    if (pages == NULL) {
        char *all = mmap(NULL, *size + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(all != MAP_FAILED);
        assert_int_equal(mprotect(all + page, *size, PROT_READ | PROT_WRITE), 0);
        pages = all + page;
    }
    return pages;
}

const char *feed_guarded(const char *data, size_t size, bool at_end) {
    size_t all;
    char *pages = feed_pages(&all);
    assert_true(size <= all);
    char *copy = at_end ? pages + all - size : pages;
    memcpy(copy, data, size);
    return copy;
}

void feed_cuts(const char *data, const size_t *cuts, size_t cut_count, bool at_end, const uvhttp__head_limits_t *limits,
               feed_result_t *result) {
    static unsigned char left; /* by the request before: what the reader leaves alone differs from call to call */
    uvhttp__http1_scan_t scan = {0};
    memset(result, ++left, sizeof *result);
    result->head_size = 0;
    result->head.headers = result->fields;
    for (size_t i = 0; i < cut_count; ++i) {
        const char *moved = feed_guarded(data, cuts[i], at_end);
        result->code = uvhttp__http1_read_request(&scan, moved, cuts[i], limits, &result->head);
        if (result->code == UVHTTP_E_AGAIN) continue;
        if (result->code != 0) return;
        result->head_size = result->head.size;
        assert_true(result->head_size <= cuts[i]);
        return;
    }
}

void feed_with_suffix(const char *data, size_t size, const char *suffix, const uvhttp__head_limits_t *limits,
                      feed_result_t *result) {
    size_t suffix_size = strlen(suffix), all = size + suffix_size;
    char *both = malloc(all);
    assert_non_null(both);
    memcpy(both, data, size);
    memcpy(both + size, suffix, suffix_size);
    feed_cuts(both, &all, 1, true, limits, result);
    free(both);
}

void feed_expect_same(const feed_result_t *a, const feed_result_t *b) {
    assert_int_equal(a->code, b->code);
    assert_int_equal(a->head_size, b->head_size);
    if (a->code != 0) return;
    uvhttp__head_t x = a->head, y = b->head;
    assert_int_equal(x.header_count, y.header_count);
    assert_memory_equal(a->fields, b->fields, x.header_count * sizeof a->fields[0]);
    x.headers = y.headers = NULL;
    assert_memory_equal(&x, &y, sizeof x);
}

bool feed_select(int level) {
    return uvhttp__http1_simd_select((uvhttp__http1_simd_t)level) == 0;
}

void feed_all_ways(const char *data, size_t size, const uvhttp__head_limits_t *limits, feed_result_t *result) {
    feed_result_t other;
    size_t *cuts = malloc((size + 1) * sizeof *cuts);
    assert_non_null(cuts);
    assert_true(feed_select(UVHTTP__HTTP1_SIMD_SCALAR));
    feed_cuts(data, &size, 1, true, limits, result);
    FEED_EACH_LEVEL(level) {
        for (int at_end = 0; at_end <= 1; ++at_end) {
            feed_cuts(data, &size, 1, at_end, limits, &other);
            feed_expect_same(result, &other);
            for (size_t i = 0; i <= size; ++i) cuts[i] = i;
            feed_cuts(data, cuts, size + 1, at_end, limits, &other);
            feed_expect_same(result, &other);
            for (size_t i = 1; i < size; ++i) {
                feed_cuts(data, (size_t[]){i, size}, 2, at_end, limits, &other);
                feed_expect_same(result, &other);
            }
        }
        static const char *const suffixes[] = {
            "\r", "\n", "\r\n\r\n", "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
            "\x01\xff : \r\n0123456789012345678901234567890123456789012345678901234"};
        for (size_t i = 0; result->code != UVHTTP_E_AGAIN && i < sizeof suffixes / sizeof *suffixes; ++i) {
            feed_with_suffix(data, size, suffixes[i], limits, &other);
            feed_expect_same(result, &other);
        }
    }
    free(cuts);
    feed_select(UVHTTP__HTTP1_SIMD_AUTO);
    if (result->code != 0) return;
    const char *wrong = oracle_accepted(data, result->head_size, &result->head);
    if (wrong == NULL) wrong = oracle_spans(data, result->head_size, &result->head);
    if (wrong != NULL) fail_msg("accepted in spite of: %s\n%.*s", wrong, (int)size, data);
}

void feed_vectors(const feed_vector_t *vectors, size_t count, const uvhttp__head_limits_t *limits) {
    feed_result_t result;
    for (size_t i = 0; i < count; ++i) {
        feed_all_ways(vectors[i].text, vectors[i].size, limits, &result);
        if (result.code != vectors[i].code) {
            fail_msg("expected %d, got %d (head size %zu) for vector %zu:\n%.*s", vectors[i].code, result.code,
                     result.head_size, i, (int)vectors[i].size, vectors[i].text);
        }
    }
}

const uvhttp__head_t *feed_accepted(const char *text, feed_result_t *result) {
    feed_all_ways(text, strlen(text), &feed_limits, result);
    if (result->code != 0) fail_msg("expected acceptance, got %d for:\n%s", result->code, text);
    return &result->head;
}

void feed_expect_span(const char *text, uvhttp__span_t span, const char *expected) {
    if (span.size != strlen(expected) || memcmp(text + span.offset, expected, span.size) != 0)
        fail_msg("expected \"%s\", got \"%.*s\"", expected, (int)span.size, text + span.offset);
}
