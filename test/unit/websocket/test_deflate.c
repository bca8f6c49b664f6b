/* Owns: tests of compressed messages: RFC 7692's examples at every cut, contexts, bombs, malformed bytes, memory that
 * runs out. */
/* Needs: websocket compression. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/failing_allocator.h"
#include "support/random.h"
#include "support/run.h"
#include "websocket/deflate.h"

static const uvhttp__ws_deflate_settings_t settings = {.level = 4, .memory_level = 8, .bits = 15};

typedef struct inflated {
    char data[8192];
    size_t size;
    int status;
} inflated_t;

/* Input in memory of exactly its size, through an outlet of `capacity` bytes. */
static int feed(uvhttp__ws_inflater_t *inflater, const char *data, size_t size, bool end, size_t capacity,
                inflated_t *out) {
    char *copy = malloc(size + 1), *hole = malloc(capacity);
    memcpy(copy, data, size);
    copy = realloc(copy, size > 0 ? size : 1);
    const char *at = copy;
    size_t left = size;
    do {
        size_t written;
        out->status = uvhttp__ws_inflate(inflater, &at, &left, end, hole, capacity, &written);
        assert_true(written <= capacity && out->size + written <= sizeof out->data);
        memcpy(out->data + out->size, hole, written);
        out->size += written;
    } while (out->status == UVHTTP_E_AGAIN);
    if (out->status == UVHTTP_OK) assert_int_equal(left, 0);
    free(copy);
    free(hole);
    return out->status;
}

/* A message cut at two places. */
static void inflate_cut(uvhttp__ws_inflater_t *inflater, const char *data, size_t size, size_t first, size_t second,
                        size_t capacity, inflated_t *out) {
    *out = (inflated_t){0};
    if (feed(inflater, data, first, false, capacity, out) != UVHTTP_OK) return;
    if (feed(inflater, data + first, second - first, false, capacity, out) != UVHTTP_OK) return;
    (void)feed(inflater, data + second, size - second, true, capacity, out);
}

/* Sections 7.2.3.1 to 7.2.3.5: one block, stored, BFINAL, two blocks. */
static const struct {
    const char *data;
    size_t size;
} hellos[] = {{"\xf2\x48\xcd\xc9\xc9\x07\x00", 7},
              {"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", 11},
              {"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", 8},
              {"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", 13}};

static void test_the_examples_of_the_rfc_at_every_cut(void **state) {
    (void)state;
    uvhttp__ws_codecs_t codecs = {0};
    inflated_t out;
    for (size_t i = 0; i < sizeof hellos / sizeof *hellos; i++) {
        for (size_t first = 0; first <= hellos[i].size; first++) {
            for (size_t second = first; second <= hellos[i].size; second++) {
                for (size_t capacity = 1; capacity <= 7; capacity++) {
                    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(&codecs);
                    inflate_cut(inflater, hellos[i].data, hellos[i].size, first, second, capacity, &out);
                    assert_int_equal(out.status, UVHTTP_OK);
                    assert_int_equal(out.size, 5);
                    assert_memory_equal(out.data, "Hello", 5);
                    uvhttp__ws_inflater_give(&codecs, inflater);
                }
            }
        }
    }
    assert_int_equal(codecs.inflater_count, 1);
    uvhttp__ws_codecs_clear(&codecs);
}

static void test_a_context_is_kept_over_messages_and_blocks_that_end(void **state) {
    (void)state;
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    inflated_t out;
    /* Section 7.2.3.2: the second message refers to the first, which may have ended with BFINAL. */
    for (size_t i = 0; i < sizeof hellos / sizeof *hellos; i++) {
        inflate_cut(inflater, hellos[i].data, hellos[i].size, 0, 3, 16, &out);
        assert_int_equal(out.status, UVHTTP_OK);
        inflate_cut(inflater, "\xf2\x00\x11\x00\x00", 5, 1, 2, 16, &out);
        assert_int_equal(out.status, UVHTTP_OK);
        assert_int_equal(out.size, 5);
        assert_memory_equal(out.data, "Hello", 5);
    }
    uvhttp__ws_inflater_give(NULL, inflater);
}

static void test_a_shared_context_forgets(void **state) {
    (void)state;
    uvhttp__ws_codecs_t codecs = {0};
    inflated_t out;
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(&codecs);
    inflate_cut(inflater, hellos[0].data, hellos[0].size, 0, 0, 16, &out);
    uvhttp__ws_inflater_give(&codecs, inflater);
    assert_ptr_equal(uvhttp__ws_inflater_take(&codecs), inflater);
    inflate_cut(inflater, "\xf2\x00\x11\x00\x00", 5, 0, 0, 16, &out);
    assert_int_equal(out.status, UVHTTP_E_WS_DEFLATE);
    uvhttp__ws_inflater_give(&codecs, inflater);
    uvhttp__ws_codecs_clear(&codecs);
}

static void test_malformed_messages_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *data;
        size_t size;
    } cases[] = {{"", 0},                             /* an empty message is a byte 0 */
                 {"\x07", 1},                         /* no such block */
                 {"\xf2\x48\xcd\xc9", 4},             /* cut */
                 {"\xf3\x48\xcd\xc9\xc9\x07\x00", 7}, /* BFINAL without what follows it */
                 {"\x00\x05\x00\xfa\xfe", 5},         /* lengths that differ */
                 {"\xff\xff\xff\xff", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t cut = 0; cut <= cases[i].size; cut++) {
            inflated_t out;
            uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
            inflate_cut(inflater, cases[i].data, cases[i].size, cut, cut, 16, &out);
            assert_int_equal(out.status, UVHTTP_E_WS_DEFLATE);
            uvhttp__ws_inflater_give(NULL, inflater);
        }
    }
    inflated_t out;
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    inflate_cut(inflater, "\x00", 1, 0, 0, 16, &out);
    assert_int_equal(out.status, UVHTTP_OK);
    assert_int_equal(out.size, 0);
    uvhttp__ws_inflater_give(NULL, inflater);
}

/* --- both ways --- */

static void there_and_back(uvhttp__ws_deflater_t *deflater, uvhttp__ws_inflater_t *inflater, const char *text,
                           size_t size, size_t *packed_size) {
    char packed[4096 + 4];
    inflated_t out;
    *packed_size = uvhttp__ws_deflate(deflater, text, size, packed);
    if (*packed_size == 0) return;
    assert_true(*packed_size < size);
    inflate_cut(inflater, packed, *packed_size, *packed_size / 2, *packed_size / 2, 100, &out);
    assert_int_equal(out.status, UVHTTP_OK);
    assert_int_equal(out.size, size);
    assert_memory_equal(out.data, text, size);
}

static void test_messages_come_back_with_every_window(void **state) {
    (void)state;
    char text[4096];
    for (uint8_t bits = 9; bits <= 15; bits++) {
        uvhttp__ws_deflater_t *deflater =
            uvhttp__ws_deflater_new((uvhttp__ws_deflate_settings_t){.level = 9, .memory_level = 1, .bits = bits});
        uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
        for (size_t size = 1; size <= sizeof text; size = size * 3 / 2 + 1) {
            size_t packed;
            for (size_t i = 0; i < size; i++) text[i] = (char)('a' + i * i % 7);
            there_and_back(deflater, inflater, text, size, &packed);
            if (size > 1000) assert_true(packed > 0);
        }
        uvhttp__ws_deflater_free(deflater);
        uvhttp__ws_inflater_give(NULL, inflater);
    }
}

static void test_what_does_not_shrink_is_said_so_and_forgotten(void **state) {
    (void)state;
    char noise[512], text[512];
    test_random_t random = {7};
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)test_random_next(&random);
    memset(text, 'x', sizeof text);
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_new(settings);
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    size_t packed;
    there_and_back(deflater, inflater, text, sizeof text, &packed);
    assert_in_range(packed, 1, 20);
    there_and_back(deflater, inflater, noise, sizeof noise, &packed);
    assert_int_equal(packed, 0);
    there_and_back(deflater, inflater, "", 0, &packed);
    assert_int_equal(packed, 0);
    there_and_back(deflater, inflater, text, sizeof text, &packed); /* the other side has not seen the noise */
    assert_in_range(packed, 1, 20);
    uvhttp__ws_deflater_free(deflater);
    uvhttp__ws_inflater_give(NULL, inflater);
}

/* What a message is does not depend on the space that its bytes find. When the last byte of this one has been read, a
 * match is still to be copied, and what ends the block is in the same byte: an outlet whose size divides 7,327 is full
 * in the very call that consumes the tail, and nothing is left for another. (Found by fuzzing.) */
static void test_the_size_of_the_outlet_decides_nothing(void **state) {
    (void)state;
    static const char message[] = "\xec\xc6\xb1\x09\x00\x20\x0c\x04\x40\x47\xc9\x6a\x0f\x82\xd8\x64\xff\x32\x53\x08"
                                  "\x16\x77\xd5\xe5\xe4\x76\x00\x00\x00\x00\xa5\xed\xed\x00\xdf\x1b\x00\x06";
    enum { INFLATED = 7327 };
    for (size_t capacity = 1; capacity <= INFLATED + 1; capacity += capacity < 500 ? 1 : INFLATED - 500) {
        inflated_t out = {0};
        uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
        (void)feed(inflater, message, sizeof message - 1, true, capacity, &out);
        uvhttp__ws_inflater_give(NULL, inflater);
        assert_int_equal(out.status, UVHTTP_OK);
        assert_int_equal(out.size, INFLATED);
    }
}

static void test_a_bomb_comes_out_a_piece_at_a_time(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    char *zeros = calloc(1, SIZE), *packed = malloc(SIZE + 4), out[64];
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_new(settings);
    const char *at = packed;
    size_t left = uvhttp__ws_deflate(deflater, zeros, SIZE, packed), written, sum = 0;
    assert_in_range(left, 1, 2048);
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    while (sum < 10000) {
        assert_int_equal(uvhttp__ws_inflate(inflater, &at, &left, true, out, sizeof out, &written), UVHTTP_E_AGAIN);
        assert_int_equal(written, sizeof out);
        sum += written;
    }
    assert_true(left > 500);
    uvhttp__ws_inflater_give(NULL, inflater);
    uvhttp__ws_deflater_free(deflater);
    free(zeros);
    free(packed);
}

/* zlib counts in 32 bits. What is said to be more is given to it in parts: here it sees that the first are wrong, and
 * does not look at the rest, which is not there. */
static void test_sizes_above_32_bits(void **state) {
    (void)state;
    char wrong[64], out[64];
    const char *at = wrong;
    size_t left = (size_t)UINT32_MAX + 10, written;
    memset(wrong, 7, sizeof wrong); /* no such block */
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(NULL);
    assert_int_equal(uvhttp__ws_inflate(inflater, &at, &left, true, out, (size_t)UINT32_MAX + 10, &written),
                     UVHTTP_E_WS_DEFLATE);
    assert_int_equal(written, 0);
    uvhttp__ws_inflater_give(NULL, inflater);
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_new(settings);
    assert_int_equal(uvhttp__ws_deflate(deflater, wrong, UINT32_MAX, out), 0); /* sent as it is */
    uvhttp__ws_deflater_free(deflater);
}

static void test_codecs_are_kept_by_their_settings(void **state) {
    (void)state;
    const uvhttp__ws_deflate_settings_t other = {.level = 1, .memory_level = 1, .bits = 9};
    uvhttp__ws_codecs_t codecs = {0};
    uvhttp__ws_inflater_t *inflaters[9];
    size_t before = test_allocator_live();
    uvhttp__ws_deflater_t *first = uvhttp__ws_deflater_of(&codecs, settings);
    uvhttp__ws_deflater_t *second = uvhttp__ws_deflater_of(&codecs, other);
    assert_ptr_not_equal(first, second);
    assert_ptr_equal(uvhttp__ws_deflater_of(&codecs, settings), first);
    assert_ptr_equal(uvhttp__ws_deflater_of(&codecs, other), second);
    for (size_t i = 0; i < 9; i++) inflaters[i] = uvhttp__ws_inflater_take(&codecs);
    size_t with_nine = test_allocator_live();
    for (size_t i = 0; i < 8; i++) uvhttp__ws_inflater_give(&codecs, inflaters[i]);
    assert_int_equal(test_allocator_live(), with_nine);
    uvhttp__ws_inflater_give(&codecs, inflaters[8]); /* one more than is kept */
    assert_true(test_allocator_live() < with_nine);
    assert_ptr_equal(uvhttp__ws_inflater_take(&codecs), inflaters[7]);
    uvhttp__ws_inflater_give(&codecs, inflaters[7]);
    uvhttp__ws_codecs_clear(&codecs);
    uvhttp__ws_deflater_free(NULL);
    assert_int_equal(test_allocator_live(), before);
}

static void attempt(void *user) {
    (void)user;
    char text[300], packed[304];
    memset(text, 'y', sizeof text);
    uvhttp__ws_codecs_t codecs = {0};
    uvhttp__ws_deflater_t *deflater = uvhttp__ws_deflater_of(&codecs, settings);
    uvhttp__ws_inflater_t *inflater = uvhttp__ws_inflater_take(&codecs);
    if (deflater) {
        assert_ptr_equal(uvhttp__ws_deflater_of(&codecs, settings), deflater);
        size_t size = uvhttp__ws_deflate(deflater, text, sizeof text, packed);
        assert_true(size > 0);
        inflated_t out;
        if (inflater) inflate_cut(inflater, packed, size, 1, 3, 20, &out);
        if (inflater) assert_true(out.status == UVHTTP_OK || out.status == UVHTTP_E_NOMEM);
    }
    uvhttp__ws_inflater_give(&codecs, inflater);
    uvhttp__ws_codecs_clear(&codecs);
}

static void test_any_allocation_may_fail(void **state) {
    (void)state;
    assert_true(test_allocator_each_failure(attempt, NULL) > 5);
}

int main(void) {
    test_allocator_install();
    return RUN_TESTS(test_the_examples_of_the_rfc_at_every_cut,
                     test_a_context_is_kept_over_messages_and_blocks_that_end, test_a_shared_context_forgets,
                     test_malformed_messages_are_refused, test_messages_come_back_with_every_window,
                     test_what_does_not_shrink_is_said_so_and_forgotten, test_the_size_of_the_outlet_decides_nothing,
                     test_a_bomb_comes_out_a_piece_at_a_time, test_sizes_above_32_bits,
                     test_codecs_are_kept_by_their_settings, test_any_allocation_may_fail);
}
