/* Owns: exhaustive checks of the arithmetic of ranges, and of what is sent for them.
 *
 * Small files: all lists of up to three specs of all numbers up to two beyond the size, against sets of bytes. Large
 * files: pairs of specs of numbers at the ends of 31, 32, 63 and 64 bits and above, against arithmetic in 128 bits.
 * Sizes and positions are only compared, subtracted and increased by one, so that what can go wrong does so at 0, next
 * to another number, or at the end of 64 bits. */
/* Needs: static. */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "handler/static.h"
#include "support/boundaries.h"
#include "support/run.h"

enum { SPECS_MAX = 3, FILE_MAX = 5, NUMBER_MAX = FILE_MAX + 1, ABSENT = -1 };

/* --- small files: a range is a set of bytes, one bit each --- */

typedef struct spec {
    char text[16];
    int first, last; /* ABSENT: no number there */
} spec_t;

static spec_t specs[128];
static unsigned spec_count;

static void add_spec(int first, int last) {
    spec_t *spec = &specs[spec_count++];
    *spec = (spec_t){.first = first, .last = last};
    char a[8] = "", b[8] = "";
    if (first != ABSENT) snprintf(a, sizeof a, "%d", first);
    if (last != ABSENT) snprintf(b, sizeof b, "%d", last);
    snprintf(spec->text, sizeof spec->text, "%s-%s", a, b);
}

static bool is_malformed(const spec_t *spec) {
    if (spec->first == ABSENT) return spec->last == ABSENT;
    return spec->last != ABSENT && spec->last < spec->first;
}

static unsigned bytes_of(const spec_t *spec, int size) {
    unsigned bytes = 0;
    for (int at = 0; at < size; at++) {
        bool in = spec->first == ABSENT ? at >= size - spec->last
                                        : at >= spec->first && (spec->last == ABSENT || at <= spec->last);
        if (in) bytes |= 1u << at;
    }
    return bytes;
}

static unsigned bytes_of_range(const uvhttp__range_t *range) {
    unsigned bytes = 0;
    for (uint64_t at = range->first; at < range->first + range->size; at++) bytes |= 1u << at;
    return bytes;
}

static uvhttp__range_outcome_t expected_outcome(const unsigned *chosen, unsigned count, int size, uint32_t max) {
    unsigned all = 0, satisfiable = 0;
    bool overlap = false;
    for (unsigned i = 0; i < count; i++) {
        if (is_malformed(&specs[chosen[i]])) return UVHTTP__RANGE_NONE;
        unsigned bytes = bytes_of(&specs[chosen[i]], size);
        overlap |= (bytes & all) != 0;
        all |= bytes;
        satisfiable += bytes != 0;
    }
    if (overlap || count > max) return UVHTTP__RANGE_ABSURD;
    if (satisfiable > 0) return UVHTTP__RANGE_SOME;
    return size > 0 ? UVHTTP__RANGE_UNSATISFIABLE : UVHTTP__RANGE_NONE; /* of an empty file all of it is sent */
}

static void expect_specs(const unsigned *chosen, unsigned count, int size, uint32_t max) {
    char text[64] = "bytes=";
    size_t used = 6;
    for (unsigned i = 0; i < count; i++) {
        const char *spec = specs[chosen[i]].text;
        if (i > 0) text[used++] = ',';
        memcpy(text + used, spec, strlen(spec));
        used += strlen(spec);
    }
    uvhttp__range_t ranges[SPECS_MAX];
    uint32_t got_count;
    uvhttp__range_outcome_t got =
        uvhttp__range_parse((uvhttp_str_t){text, used}, (uint64_t)size, ranges, max, &got_count);
    if (got != expected_outcome(chosen, count, size, max)) fail_msg("%.*s of %d: %d", (int)used, text, size, got);
    if (got != UVHTTP__RANGE_SOME) return;
    unsigned at = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned bytes = bytes_of(&specs[chosen[i]], size);
        if (bytes == 0) continue;
        assert_true(at < got_count);
        assert_int_equal(bytes_of_range(&ranges[at++]), bytes);
    }
    assert_int_equal(at, got_count);
}

static void test_every_list_of_ranges_of_a_small_file(void **state) {
    (void)state;
    spec_count = 0;
    for (int first = ABSENT; first <= NUMBER_MAX; first++)
        for (int last = ABSENT; last <= NUMBER_MAX; last++) add_spec(first, last);
    for (int size = 0; size <= FILE_MAX; size++) {
        for (unsigned a = 0; a < spec_count; a++) {
            for (uint32_t max = 1; max <= 3; max++) expect_specs(&a, 1, size, max);
            for (unsigned b = 0; b < spec_count; b++) {
                for (uint32_t max = 1; max <= 3; max++) expect_specs((unsigned[]){a, b}, 2, size, max);
                for (unsigned c = 0; c < spec_count; c++) expect_specs((unsigned[]){a, b, c}, 3, size, 2 + (c & 1));
            }
        }
    }
}

/* --- large ones --- */

static wide_t positions[64];
static unsigned position_count;
static const uint64_t sizes[] = {0,
                                 1,
                                 2,
                                 INT32_MAX,
                                 UINT32_MAX,
                                 (uint64_t)UINT32_MAX + 1,
                                 (uint64_t)INT64_MAX - 1,
                                 INT64_MAX,
                                 (uint64_t)INT64_MAX + 1,
                                 UINT64_MAX - 1,
                                 UINT64_MAX};

static void make_positions(void) {
    static const unsigned bits[] = {0, 31, 32, 63, 64};
    position_count = 0;
    for (unsigned i = 0; i < sizeof bits / sizeof *bits; i++)
        for (unsigned d = 0; d < 4; d++) positions[position_count++] = ((wide_t)1 << bits[i]) + d - (i > 0 ? 2 : 1);
    positions[position_count++] = (wide_t)UINT64_MAX * 10;      /* one digit more */
    positions[position_count++] = ((wide_t)1 << 65) + 5;        /* small again, if it wrapped */
    positions[position_count++] = (wide_t)UINT64_MAX * 1000000; /* further up */
}

/* What does not fit into 64 bits is as large as can be, which is beyond the end of every file. */
static wide_t saturated(wide_t value) {
    return value > UINT64_MAX ? UINT64_MAX : value;
}

typedef struct large {
    char text[2 * WIDE_TEXT_MAX + 2];
    bool malformed;
    wide_t from, to; /* half open */
} large_t;

/* kind: 0 "a-b", 1 "a-", 2 "-a" */
static void make_large(unsigned kind, wide_t a, wide_t b, uint64_t size, large_t *large) {
    char first[WIDE_TEXT_MAX], last[WIDE_TEXT_MAX];
    wide_print_decimal(a, first);
    wide_print_decimal(b, last);
    snprintf(large->text, sizeof large->text, kind == 0 ? "%s-%s" : kind == 1 ? "%s-" : "-%s", first, last);
    large->malformed = kind == 0 && saturated(b) < saturated(a);
    large->from = kind < 2 ? saturated(a) : a < size ? size - a : 0;
    large->to = kind == 0 ? saturated(b) + 1 : size;
    if (large->to > size) large->to = size;
    if (large->from > large->to) large->from = large->to;
}

static void expect_large(const large_t *parts, unsigned count, uint64_t size) {
    char text[6 * WIDE_TEXT_MAX];
    uvhttp__range_t ranges[2];
    uint32_t got_count, at = 0;
    int used = snprintf(text, sizeof text, "bytes=%s%s%s", parts[0].text, count > 1 ? ", " : "",
                        count > 1 ? parts[1].text : "");
    uvhttp__range_outcome_t got = uvhttp__range_parse((uvhttp_str_t){text, (size_t)used}, size, ranges, 2, &got_count),
                            expected;
    bool malformed = parts[0].malformed || (count > 1 && parts[1].malformed);
    bool some = parts[0].from < parts[0].to || (count > 1 && parts[1].from < parts[1].to);
    bool overlap = count > 1 && parts[0].from < parts[1].to && parts[1].from < parts[0].to &&
                   parts[0].from < parts[0].to && parts[1].from < parts[1].to;
    expected = malformed ? UVHTTP__RANGE_NONE
               : overlap ? UVHTTP__RANGE_ABSURD
               : some    ? UVHTTP__RANGE_SOME
               : size    ? UVHTTP__RANGE_UNSATISFIABLE
                         : UVHTTP__RANGE_NONE;
    if (got != expected) fail_msg("%s of %llu: %d", text, (unsigned long long)size, got);
    if (got != UVHTTP__RANGE_SOME) return;
    for (unsigned i = 0; i < count; i++) {
        if (parts[i].from == parts[i].to) continue;
        assert_true(at < got_count);
        assert_true(ranges[at].first == parts[i].from);
        assert_true((wide_t)ranges[at].first + ranges[at].size == parts[i].to);
        at++;
    }
    assert_int_equal(at, got_count);
}

static void expect_pairs(uint64_t size) {
    static large_t all[3 * 32 * 32];
    unsigned count = 0;
    for (unsigned a = 0; a < position_count; a++) {
        for (unsigned b = 0; b < position_count; b++) {
            make_large(0, positions[a], positions[b], size, &all[count]);
            expect_large(&all[count++], 1, size);
        }
        for (unsigned kind = 1; kind <= 2; kind++) {
            make_large(kind, positions[a], positions[a], size, &all[count]);
            expect_large(&all[count++], 1, size);
        }
    }
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = a % 3; b < count; b += 3) expect_large((large_t[]){all[a], all[b]}, 2, size);
}

static void test_ranges_at_the_ends_of_64_bits(void **state) {
    (void)state;
    make_positions();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) expect_pairs(sizes[i]);
}

/* Numbers of all lengths, with zeros in front: the digits that fit are read to the last one. */
static void test_every_power_of_ten_and_two_as_a_position(void **state) {
    (void)state;
    static boundaries_t numbers;
    for (unsigned base = 2; base <= 10; base += 8) {
        boundaries_of(base, (wide_t)1 << 70, &numbers);
        for (size_t i = 0; i < numbers.count; i++) {
            char number[WIDE_TEXT_MAX], text[128];
            uint64_t size = UINT64_MAX;
            wide_print_decimal(numbers.values[i], number);
            for (int zeros = 0; zeros <= 24; zeros += 8) {
                uvhttp__range_t range;
                uint32_t count;
                int used = snprintf(text, sizeof text, "bytes=%.*s%s-", zeros, "000000000000000000000000", number);
                uvhttp__range_outcome_t got =
                    uvhttp__range_parse((uvhttp_str_t){text, (size_t)used}, size, &range, 1, &count);
                bool there = numbers.values[i] < size;
                assert_int_equal(got, there ? UVHTTP__RANGE_SOME : UVHTTP__RANGE_UNSATISFIABLE);
                if (there) assert_true(range.first == numbers.values[i] && range.first + range.size == size);
            }
        }
    }
}

int main(void) {
    return RUN_TESTS(test_every_list_of_ranges_of_a_small_file, test_ranges_at_the_ends_of_64_bits,
                     test_every_power_of_ten_and_two_as_a_position);
}
