/* Owns: exhaustive checks of the arithmetic of ranges, and of what is sent for them.
 *
 * Small files: all lists of up to three specs of all numbers up to two beyond the size, against sets of bytes. Large
 * files: pairs of specs of numbers at the ends of 31, 32, 63 and 64 bits and above, against arithmetic in 128 bits.
 * Sizes and positions are only compared, subtracted and increased by one, so that what can go wrong does so at 0, next
 * to another number, or at the end of 64 bits. */
/* Needs: static. */
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handler/static.h"
#include "support/boundaries.h"
#include "support/exchange.h"
#include "support/run.h"

enum { SPECS_MAX = 3, FILE_MAX = 4, NUMBER_MAX = FILE_MAX + 1, ABSENT = -1 };

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

static void make_specs(void) {
    spec_count = 0;
    for (int first = ABSENT; first <= NUMBER_MAX; first++)
        for (int last = ABSENT; last <= NUMBER_MAX; last++) add_spec(first, last);
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
    make_specs();
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
        for (unsigned b = a % 7; b < count; b += 7) expect_large((large_t[]){all[a], all[b]}, 2, size);
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

/* --- what is sent --- */

static const char content[] = "abcdef";

static struct {
    exchange_t exchange;
    uvhttp__static_site_t site;
    uvhttp__static_cache_t cache;
    uvhttp__static_file_t *file;
} sent;

/* A file in memory, or one that has a descriptor, of which the response names parts only. */
static void respond(const char *range, uint64_t size, bool in_memory) {
    exchange_request(&sent.exchange, UVHTTP_GET, STR("/f"), NULL);
    exchange_field(&sent.exchange, "Range", range);
    uvhttp__ref_init(&sent.file->ref);
    sent.file->size = size;
    sent.file->content = in_memory ? content : NULL;
    sent.file->fd = in_memory ? -1 : 77;
    const uvhttp__static_found_t found = {.status = 200, .files = {[UVHTTP__STATIC_PLAIN] = sent.file}};
    uvhttp__static_respond_file(&sent.cache, &found, &sent.exchange.req, &sent.exchange.res);
}

static void expect_content_range(uvhttp_str_t text, uint64_t first, uint64_t size, uint64_t all) {
    char expected[96];
    snprintf(expected, sizeof expected, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, first + size - 1, all);
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.data, expected, text.size);
}

/* What stands behind "Content-Range: " in the head of a part. */
static uvhttp_str_t range_of_part(const uvhttp__body_part_t *head) {
    static const char name[] = "\r\nContent-Range: ";
    const char *at = memmem(head->data, head->size, name, sizeof name - 1);
    assert_non_null(at);
    assert_memory_equal(head->data + head->size - 4, "\r\n\r\n", 4);
    at += sizeof name - 1;
    return (uvhttp_str_t){at, (size_t)(head->data + head->size - 4 - at)};
}

static void expect_part(const uvhttp__body_part_t *part, uint64_t first, uint64_t size) {
    assert_true(part->held && part->offset == first && part->size == size);
    assert_ptr_equal(part->data, sent.file->content ? content + first : NULL);
}

/* One range: its bytes alone. Several: each behind a head that names it, and as many bytes as all of them are. */
static void expect_sent(const uvhttp__range_t *ranges, unsigned count, uint64_t size) {
    const uvhttp_response_t *res = &sent.exchange.res;
    const uvhttp__body_t *body = &res->body;
    assert_int_equal(res->status, 206);
    if (count == 1) {
        expect_content_range(uvhttp_response_header_get(res, "Content-Range"), ranges[0].first, ranges[0].size, size);
        assert_true(body->size == ranges[0].size);
        if (body->kind == UVHTTP__BODY_REF)
            assert_ptr_equal(body->data, content + ranges[0].first);
        else
            expect_part(&body->parts->parts[0], ranges[0].first, ranges[0].size);
        return;
    }
    uint64_t sum = 0;
    assert_null(uvhttp_response_header_get(res, "Content-Range").data);
    assert_int_equal(body->parts->count, 2 * count + 1);
    for (unsigned i = 0; i < body->parts->count; i++) sum += body->parts->parts[i].size;
    assert_true(body->size == sum);
    for (unsigned i = 0; i < count; i++) {
        expect_content_range(range_of_part(&body->parts->parts[2 * i]), ranges[i].first, ranges[i].size, size);
        expect_part(&body->parts->parts[2 * i + 1], ranges[i].first, ranges[i].size);
    }
}

static void expect_not_satisfiable(uint64_t size) {
    char expected[64];
    snprintf(expected, sizeof expected, "bytes */%" PRIu64, size);
    assert_int_equal(sent.exchange.res.status, 416);
    assert_str(uvhttp_response_header_get(&sent.exchange.res, "Content-Range"), expected);
}

static void expect_response(const unsigned *chosen, unsigned count, int size, bool in_memory) {
    char text[64];
    uvhttp__range_t ranges[2];
    unsigned some = 0;
    snprintf(text, sizeof text, "bytes=%s%s%s", specs[chosen[0]].text, count > 1 ? "," : "",
             count > 1 ? specs[chosen[1]].text : "");
    respond(text, (uint64_t)size, in_memory);
    for (unsigned i = 0; i < count; i++) {
        unsigned bytes = bytes_of(&specs[chosen[i]], size);
        if (bytes == 0) continue;
        uint64_t first = (uint64_t)__builtin_ctz(bytes);
        ranges[some++] = (uvhttp__range_t){first, (uint64_t)__builtin_popcount(bytes)};
    }
    switch (expected_outcome(chosen, count, size, 2)) {
        case UVHTTP__RANGE_SOME: expect_sent(ranges, some, (uint64_t)size); break;
        case UVHTTP__RANGE_UNSATISFIABLE: expect_not_satisfiable((uint64_t)size); break;
        default:
            assert_int_equal(sent.exchange.res.status, 200);
            assert_int_equal(sent.exchange.res.body.size, size);
            assert_null(uvhttp_response_header_get(&sent.exchange.res, "Content-Range").data);
    }
    uvhttp__response_done(&sent.exchange.res, 0);
}

static uint64_t no_time(const uvhttp_request_t *req) {
    (void)req;
    return 0;
}

static const uvhttp__request_ops_t request_ops = {.time_ns = no_time};

static void start_responding(void) {
    memset(&sent, 0, sizeof sent);
    exchange_init(&sent.exchange, SIZE_MAX);
    sent.exchange.req.ops = &request_ops; /* a boundary is made of the time */
    sent.site.settings.options.ranges_max = 2;
    sent.cache.site = &sent.site;
    sent.cache.counters = aligned_alloc(64, (sizeof *sent.cache.counters + 63) / 64 * 64);
    assert_non_null(sent.cache.counters);
    memset(sent.cache.counters, 0, sizeof *sent.cache.counters);
    sent.file = calloc(1, sizeof *sent.file);
    assert_non_null(sent.file);
    sent.file->type = "text/plain";
    sent.file->etag = STR("\"e\"");
    sent.file->fields = STR("Accept-Ranges: bytes\r\n"); /* there are always some */
}

static void stop_responding(void) {
    exchange_deinit(&sent.exchange);
    free(sent.cache.counters);
    free(sent.file);
}

/* One range and two, of a file in memory and of one that is not. */
static void test_every_response_for_a_small_file(void **state) {
    (void)state;
    start_responding();
    make_specs();
    for (int size = 0; size <= FILE_MAX; size++) {
        for (unsigned a = 0; a < spec_count; a++) {
            for (int in_memory = 0; in_memory <= 1; in_memory++) expect_response(&a, 1, size, in_memory);
            for (unsigned b = 0; b < spec_count; b++) expect_response((unsigned[]){a, b}, 2, size, (a + b) & 1);
        }
    }
    stop_responding();
}

/* The first, the last and all bytes, and the first with the last, of files as large as can be. */
static void test_responses_for_large_files(void **state) {
    (void)state;
    start_responding();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t size = sizes[i];
        if (size < 3 || size > INT64_MAX) continue; /* no file is larger */
        char text[96];
        respond("bytes=0-0", size, false);
        expect_sent(&(uvhttp__range_t){0, 1}, 1, size);
        respond("bytes=-1", size, false);
        expect_sent(&(uvhttp__range_t){size - 1, 1}, 1, size);
        respond("bytes=0-", size, false);
        expect_sent(&(uvhttp__range_t){0, size}, 1, size);
        snprintf(text, sizeof text, "bytes=0-1,%" PRIu64 "-%" PRIu64, size - 1, UINT64_MAX);
        respond(text, size, false);
        expect_sent((uvhttp__range_t[]){{0, 2}, {size - 1, 1}}, 2, size);
        snprintf(text, sizeof text, "bytes=%" PRIu64 "-", size);
        respond(text, size, false);
        expect_not_satisfiable(size);
    }
    stop_responding();
}

int main(void) {
    return RUN_TESTS(test_every_list_of_ranges_of_a_small_file, test_ranges_at_the_ends_of_64_bits,
                     test_every_power_of_ten_and_two_as_a_position, test_every_response_for_a_small_file,
                     test_responses_for_large_files);
}
