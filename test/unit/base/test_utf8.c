/* Owns: tests of the UTF-8 check: all code points, all that is none, every cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"
#include "support/run.h"

/* How many bytes are accepted before the check fails, byte by byte; SIZE_MAX: none fails. */
static size_t first_bad(const char *data, size_t size, bool *complete) {
    uvhttp__utf8_t state = {0};
    for (size_t i = 0; i < size; i++)
        if (!uvhttp__utf8_take(&state, data + i, 1)) return i;
    *complete = uvhttp__utf8_complete(&state);
    return SIZE_MAX;
}

/* The textbook: decode, then compare with what the shortest form of the number is. */
static size_t encode(uint32_t point, char *out) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)(lead[size] | point);
    return size;
}

static void test_every_code_point_but_surrogates_is_text(void **state) {
    (void)state;
    for (uint32_t point = 0; point < 0x200000; point++) {
        char bytes[4];
        size_t size = encode(point, bytes);
        uvhttp__utf8_t utf8 = {0};
        bool good = uvhttp__utf8_take(&utf8, bytes, size) && uvhttp__utf8_complete(&utf8);
        bool expected = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        if (good != expected) fail_msg("U+%04X: %d", point, good);
    }
}

static void test_every_code_point_is_read(void **state) {
    (void)state;
    for (uint32_t point = 0; point < 0x200000; point++) {
        char bytes[5] = "";
        uint32_t code;
        size_t size = encode(point, bytes), read = uvhttp__utf8_read(bytes, size + 1, &code);
        bool good = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        if (good ? read != size || code != point : code != UVHTTP__UTF8_MALFORMED) fail_msg("U+%04X: %zu", point, read);
        if (!good || size == 1) continue;
        assert_int_equal(uvhttp__utf8_read(bytes, size - 1, &code), size - 1);
        assert_int_equal(code, UVHTTP__UTF8_MALFORMED);
    }
}

/* Unicode 15, section 3.9, table 3-8 and its like. */
static void test_of_what_is_malformed_the_longest_part_is_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"\xc0\xaf", 1},     {"\xe0\x80\xbf", 1},     {"\xf0\x81\x82\x41", 1}, {"\xed\xa0\x80", 1},
                 {"\xf4\x91\x92", 1}, {"\xe1\x80\xe2", 2},     {"\xf0\x91\x92\xf1", 3}, {"\xf1\xbf\x41", 2},
                 {"\xff", 1},         {"\xf5\x80\x80\x80", 1}, {"\xe2\x82", 2},         {"\xf0\x9f\x98", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t code;
        assert_int_equal(uvhttp__utf8_read(cases[i].text, strlen(cases[i].text), &code), cases[i].size);
        assert_int_equal(code, UVHTTP__UTF8_MALFORMED);
    }
}

static void test_every_two_bytes_agree_with_the_table(void **state) {
    (void)state;
    unsigned complete_count = 0;
    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            char bytes[2] = {(char)a, (char)b};
            bool complete = false;
            if (first_bad(bytes, 2, &complete) == SIZE_MAX && complete) complete_count++;
        }
    }
    assert_int_equal(complete_count, 128 * 128 + (0xdf - 0xc2 + 1) * 64);
}

static void test_what_is_wrong_is_seen_at_its_first_byte(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t bad;
    } cases[] = {{"a\x80", 1},
                 {"\xc0\x80", 0},
                 {"\xc1\xbf", 0},
                 {"\xc3(", 1},
                 {"\xe0\x9f\xbf", 1},
                 {"\xe0\xa0(", 2},
                 {"\xed\xa0\x80", 1},
                 {"\xf0\x8f\xbf\xbf", 1},
                 {"\xf4\x90\x80\x80", 1},
                 {"\xf5\x80\x80\x80", 0},
                 {"\xff", 0},
                 {"\xfe", 0},
                 {"\xf0\x90\x80(", 3},
                 {"ok \xe2\x82\xac \xbf", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool complete;
        assert_int_equal(first_bad(cases[i].text, strlen(cases[i].text), &complete), cases[i].bad);
    }
}

static void test_every_cut_of_a_long_text_gives_the_same(void **state) {
    (void)state;
    /* Long runs of ASCII take the fast paths; a character of four bytes stands at each place in turn. */
    for (size_t at = 0; at < 70; at++) {
        char text[80];
        memset(text, 'x', sizeof text);
        memcpy(text + at, "\xf0\x9f\x98\x80", 4);
        for (int broken = 0; broken < 2; broken++) {
            if (broken) text[at + 3] = 'x';
            for (size_t cut = 0; cut <= sizeof text; cut++) {
                uvhttp__utf8_t utf8 = {0};
                bool good = uvhttp__utf8_take(&utf8, text, cut) &&
                            uvhttp__utf8_take(&utf8, text + cut, sizeof text - cut) && uvhttp__utf8_complete(&utf8);
                if (good == (broken != 0)) fail_msg("at %zu, cut %zu, broken %d", at, cut, broken);
            }
        }
    }
}

int main(void) {
    return RUN_TESTS(test_every_code_point_but_surrogates_is_text, test_every_code_point_is_read,
                     test_of_what_is_malformed_the_longest_part_is_read, test_every_two_bytes_agree_with_the_table,
                     test_what_is_wrong_is_seen_at_its_first_byte, test_every_cut_of_a_long_text_gives_the_same);
}
