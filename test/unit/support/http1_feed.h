/* Owns: feeding bytes to the scanner, the parser and the chunked decoder in parts, with unmapped pages next to them,
 * at every level of vector instructions. */
#ifndef UVHTTP_TEST_UNIT_SUPPORT_HTTP1_FEED_H
#define UVHTTP_TEST_UNIT_SUPPORT_HTTP1_FEED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http1/http1.h"
#include "http1/http1_oracle.h"

enum { FEED_FIELDS_MAX = 128, FEED_PAGES = 4 };

extern const uvhttp__head_limits_t feed_limits;

/* A copy of the bytes right before the unmapped page, or right after the first one. */
const char *feed_guarded(const char *data, size_t size, bool at_end);

typedef struct feed_result {
    int code;
    size_t head_size; /* 0 unless the scan found one */
    uvhttp__head_t head;
    uvhttp__field_t fields[FEED_FIELDS_MAX];
} feed_result_t;

/* Reads data[0..cuts[0]), data[0..cuts[1]), ..., each moved to its own place between the guards. */
void feed_cuts(const char *data, const size_t *cuts, size_t cut_count, bool at_end, const uvhttp__head_limits_t *limits,
               feed_result_t *result);

/* The bytes whole with others behind them. */
void feed_with_suffix(const char *data, size_t size, const char *suffix, const uvhttp__head_limits_t *limits,
                      feed_result_t *result);

void feed_expect_same(const feed_result_t *a, const feed_result_t *b);

bool feed_select(int level);

#define FEED_EACH_LEVEL(level)                                                                                         \
    for (int level = UVHTTP__HTTP1_SIMD_SCALAR; level <= UVHTTP__HTTP1_SIMD_NEON; ++level)                             \
        if (feed_select(level))

/* Feeds the bytes whole, byte by byte, cut at every place and with others behind them, at every level and against both
 * guards: all must agree.
 * The result is of the first way; its fields point into `result`. */
void feed_all_ways(const char *data, size_t size, const uvhttp__head_limits_t *limits, feed_result_t *result);

typedef struct feed_vector {
    const char *text;
    size_t size;
    int code;
} feed_vector_t;

/* A vector; the text may hold NUL. */
#define V(text_, code_)                                                                                                \
    { text_, sizeof(text_) - 1, code_ }

void feed_vectors(const feed_vector_t *vectors, size_t count, const uvhttp__head_limits_t *limits);

#define FEED_VECTORS(vectors) feed_vectors(vectors, sizeof(vectors) / sizeof *(vectors), &feed_limits)

/* The head that must be accepted; views are into `text`. */
const uvhttp__head_t *feed_accepted(const char *text, feed_result_t *result);

void feed_expect_span(const char *text, uvhttp__span_t span, const char *expected);

#endif
