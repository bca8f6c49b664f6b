/* Owns: exhaustive checks of the numbers that frame a body: the size of a chunk and Content-Length.
 *
 * A number is read digit by digit, each step depends on the digits so far, the bound and the next byte only. So what is
 * gone through is: all short texts over an alphabet that has each digit and the bytes next to each range of digits; and
 * around each power of the base, where a step could overflow, with leading zeros and however the bytes are cut. The
 * oracle computes in 128 bits. */
#include <assert.h>

#include "support/boundaries.h"
#include "support/http1_feed.h"
#include "support/run.h"

/* --- chunk size --- */

enum { SIZE_DIGITS_MAX = 16 };

/* What feeding a size line in two pieces comes to. */
typedef struct line {
    int code;
    uint64_t chunk_left;
    size_t consumed;
    bool at_data; /* the next byte is one of the body; else the trailer starts */
} line_t;

static bool feed_piece(uvhttp__http1_chunked_t *chunked, const char *text, size_t size, line_t *line) {
    size_t consumed;
    uvhttp_str_t body;
    line->code = uvhttp__http1_chunked_decode(chunked, text, size, &consumed, &body);
    assert_int_equal(body.size, 0);
    line->consumed += consumed;
    if (line->code == UVHTTP_E_AGAIN) assert_int_equal(consumed, size);
    return line->code == UVHTTP_E_AGAIN;
}

static line_t feed_line(const char *text, size_t size, size_t cut) {
    uvhttp__http1_chunked_t chunked;
    line_t line = {0};
    uvhttp__http1_chunked_init(&chunked, 64, 0);
    if (feed_piece(&chunked, text, cut, &line)) (void)feed_piece(&chunked, text + cut, size - cut, &line);
    line.chunk_left = chunked.chunk_left;
    if (line.code != UVHTTP_E_AGAIN) return line;
    size_t consumed;
    uvhttp_str_t body;
    int code = uvhttp__http1_chunked_decode(&chunked, "\r\n", 2, &consumed, &body);
    line.at_data = body.size > 0;
    assert_int_equal(code, line.at_data ? UVHTTP_E_AGAIN : 0);
    return line;
}

static int digit_of(char c) {
    static const char lower[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    for (int digit = 0; digit < 16; digit++)
        if (lower[digit] == c || upper[digit] == c) return digit;
    return -1;
}

/* Every text of up to four bytes: all 22 digits and what stands next to them in ASCII, signs, a prefix, bytes of other
 * alphabets. Texts of two bytes: all bytes there are. */
static void expect_text(const char *text, size_t size) {
    char wire[8];
    wide_t value = 0;
    size_t digits = 0;
    for (; digits < size && digit_of(text[digits]) >= 0; digits++)
        value = value * 16 + (unsigned)digit_of(text[digits]);
    memcpy(wire, text, size);
    memcpy(wire + size, "\r\n", 2);
    line_t line = feed_line(wire, size + 2, 0);
    if (size > 0 && digits == size) {
        assert_int_equal(line.code, UVHTTP_E_AGAIN);
        assert_true(line.chunk_left == value);
        assert_int_equal(line.at_data, value > 0);
    } else {
        assert_int_equal(line.code, UVHTTP_E_HTTP_CHUNK_SIZE);
        assert_int_equal(line.consumed, digits);
    }
}

static void expect_texts(const char *alphabet, size_t letters, size_t size_max) {
    char text[4];
    for (size_t size = 0; size <= size_max; size++) {
        size_t count = 1;
        for (size_t i = 0; i < size; i++) count *= letters;
        for (size_t n = 0; n < count; n++) {
            for (size_t i = 0, rest = n; i < size; i++, rest /= letters) text[i] = alphabet[rest % letters];
            expect_text(text, size);
        }
    }
}

static void test_every_short_chunk_size(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789abcdefABCDEF/:@G`g+-x._\"\x7f\x80\xb5\xff";
    expect_texts(alphabet, sizeof alphabet, 4); /* with its NUL */
}

static void test_every_byte_in_a_chunk_size(void **state) {
    (void)state;
    char text[5] = "7a\r\n";
    for (int at = 0; at < 2; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(text, "7a\r\n", 5);
            text[at] = (char)byte;
            line_t line = feed_line(text, 4, 0);
            bool good = digit_of((char)byte) >= 0;
            if (at == 1 && byte == ';')
                assert_int_equal(line.code, UVHTTP_E_HTTP_CHUNK_EXTENSION);
            else
                assert_int_equal(line.code, good ? UVHTTP_E_AGAIN : UVHTTP_E_HTTP_CHUNK_SIZE);
        }
    }
}

/* The error comes with the first byte that shows it: the 17th digit, or the one that makes it too large. */
static size_t fault_at(const char *text, size_t digits) {
    wide_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        value = value * 16 + (unsigned)digit_of(text[i]);
        if (i == SIZE_DIGITS_MAX || value > INT64_MAX) return i;
    }
    return digits;
}

static void expect_number(wide_t value, const char *letters, size_t zeros, const char *behind) {
    char text[128], number[WIDE_TEXT_MAX];
    size_t digits = zeros + wide_print(value, 16, letters, number);
    int size = snprintf(text, sizeof text, "%.*s%s%s\r\n", (int)zeros, "00000000000000000000", number, behind);
    size_t fault = fault_at(text, digits);
    for (size_t cut = 0; cut <= (size_t)size; cut++) {
        line_t line = feed_line(text, (size_t)size, cut);
        if (fault < digits) {
            assert_int_equal(line.code, UVHTTP_E_HTTP_CHUNK_SIZE);
            assert_int_equal(line.consumed, fault);
        } else {
            assert_int_equal(line.code, UVHTTP_E_AGAIN);
            assert_true(line.chunk_left == value && line.at_data == (value > 0));
            assert_int_equal(line.consumed, size);
        }
    }
}

/* 2^k + d up to 2^72, in small, large and mixed letters, with 0 to 18 zeros in front, with and without an extension,
 * at each split point. */
static void test_chunk_sizes_around_each_power_of_two(void **state) {
    (void)state;
    static const char *const letters[] = {"0123456789abcdef", "0123456789ABCDEF", "0123456789aBcDeF"};
    static const char *const behind[] = {"", ";a", " \t; a=\"0\""};
    static boundaries_t numbers;
    boundaries_of(2, (wide_t)1 << 72, &numbers);
    for (size_t i = 0; i < numbers.count; i++)
        for (size_t zeros = 0; zeros <= 18; zeros++)
            for (size_t j = 0; j < 3; j++) expect_number(numbers.values[i], letters[j], zeros, behind[(j + i) % 3]);
}

/* A whole body; bit i of `cuts`: it is cut behind byte i. */
static void expect_body(const char *wire, size_t size, uint64_t cuts, const char *expected) {
    uvhttp__http1_chunked_t chunked;
    char body[16];
    size_t body_size = 0, at = 0;
    int code = UVHTTP_E_AGAIN;
    uvhttp__http1_chunked_init(&chunked, 0, 0);
    for (size_t end = 1; end <= size; end++) {
        if (end < size && !(cuts >> (end - 1) & 1)) continue;
        while (at < end && code == UVHTTP_E_AGAIN) {
            size_t consumed;
            uvhttp_str_t piece;
            code = uvhttp__http1_chunked_decode(&chunked, wire + at, end - at, &consumed, &piece);
            assert_true(consumed <= end - at && body_size + piece.size < sizeof body);
            if (code == UVHTTP_E_AGAIN) assert_true(consumed > 0);
            memcpy(body + body_size, piece.data, piece.size);
            body_size += piece.size;
            at += consumed;
        }
    }
    assert_int_equal(code, 0);
    assert_int_equal(at, size);
    assert_int_equal(body_size, strlen(expected));
    assert_memory_equal(body, expected, body_size);
}

/* Bodies of a chunk of 1 to 4 bytes, and of two, in every way to cut them: 2^(size - 1) each. */
static void expect_all_cuts(const char *wire, size_t size, const char *expected) {
    for (uint64_t cuts = 0; cuts < UINT64_C(1) << (size - 1); cuts++) expect_body(wire, size, cuts, expected);
}

static void test_chunks_in_every_way_to_cut_them(void **state) {
    (void)state;
    for (int first = 1; first <= 4; first++) {
        char wire[32], body[16];
        int size = snprintf(wire, sizeof wire, "%d\r\n%.*s\r\n0\r\n\r\n", first, first, "wxyz");
        snprintf(body, sizeof body, "%.*s", first, "wxyz");
        expect_all_cuts(wire, (size_t)size, body);
    }
    static const char two[] = "1\r\nw\r\n2\r\nyz\r\n0\r\n\r\n";
    expect_all_cuts(two, sizeof two - 1, "wyz");
}

/* Each has as many digits as there may be. */
static void test_digits_are_counted_for_each_chunk_anew(void **state) {
    (void)state;
    static const char wire[] = "0000000000000001\r\nw\r\n0000000000000002\r\nyz\r\n0000000000000000\r\n\r\n";
    static_assert(sizeof wire - 1 <= 64, "a bit for each byte");
    for (unsigned i = 0; i < sizeof wire - 1; i++)
        for (unsigned j = i; j < sizeof wire - 1; j++)
            expect_body(wire, sizeof wire - 1, UINT64_C(1) << i | UINT64_C(1) << j, "wyz");
    expect_body(wire, sizeof wire - 1, UINT64_MAX, "wyz");
}

/* What is written is the shortest text, and what is read. All sizes of small chunks, and all powers of two. */
static void expect_written(uint64_t value) {
    char out[UVHTTP__HTTP1_CHUNK_HEAD_MAX], expected[WIDE_TEXT_MAX + 2];
    size_t digits = wide_print(value, 16, "0123456789abcdef", expected);
    memcpy(expected + digits, "\r\n", 2);
    assert_int_equal(uvhttp__http1_write_chunk_head(out, value), digits + 2);
    assert_memory_equal(out, expected, digits + 2);
}

static void test_every_chunk_size_that_is_written(void **state) {
    (void)state;
    static boundaries_t numbers;
    boundaries_of(2, (wide_t)1 << 64, &numbers);
    for (uint64_t value = 0; value < 70000; value++) expect_written(value);
    for (size_t i = 0; i < numbers.count; i++)
        if (numbers.values[i] <= UINT64_MAX) expect_written((uint64_t)numbers.values[i]);
}

/* --- Content-Length --- */

#define BEFORE "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:"

/* Digits and nothing else between the blanks (RFC 9110 section 8.6), no more than INT64_MAX. */
static bool good_length(const char *text, size_t size, wide_t *value) {
    size_t start = 0;
    while (start < size && (text[start] == ' ' || text[start] == '\t')) start++;
    while (size > start && (text[size - 1] == ' ' || text[size - 1] == '\t')) size--;
    *value = 0;
    for (size_t i = start; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (*value <= INT64_MAX) *value = *value * 10 + (unsigned)(text[i] - '0');
    }
    return size > start && *value <= INT64_MAX;
}

static size_t make_head(const char *value, size_t size, char out[256]) {
    assert_true(size < 128);
    memcpy(out, BEFORE, sizeof BEFORE - 1);
    memcpy(out + sizeof BEFORE - 1, value, size);
    memcpy(out + sizeof BEFORE - 1 + size, "\r\n\r\n", 4);
    return sizeof BEFORE - 1 + size + 4;
}

/* cut: how much comes first, 0: all at once. exact: an error is the one of a length. */
static void expect_length(const char *text, size_t size, size_t cut, bool exact) {
    static uvhttp__field_t fields[FEED_FIELDS_MAX];
    char head_text[256];
    wide_t value;
    size_t all = make_head(text, size, head_text);
    uvhttp__http1_scan_t scan = {0};
    uvhttp__head_t head = {.headers = fields};
    int code = UVHTTP_E_AGAIN;
    if (cut > 0) code = uvhttp__http1_read_request(&scan, head_text, cut, &feed_limits, &head);
    if (code == UVHTTP_E_AGAIN) code = uvhttp__http1_read_request(&scan, head_text, all, &feed_limits, &head);
    if (good_length(text, size, &value)) {
        assert_int_equal(code, 0);
        assert_true(head.has_content_length && head.content_length == value);
    } else if (exact) {
        assert_int_equal(code, UVHTTP_E_HTTP_CONTENT_LENGTH);
    } else {
        assert_true(code != 0 && code != UVHTTP_E_AGAIN);
    }
}

/* Every text of up to four bytes of digits, blanks, signs, list separators and what stands next to the digits. */
static void test_every_short_content_length(void **state) {
    (void)state;
    static const char alphabet[] = "0123456789 \t+-,/:;.xe\"\xb2";
    enum { LETTERS = sizeof alphabet - 1 };
    for (size_t size = 0, count = 1; size <= 4; size++, count *= LETTERS) {
        for (size_t n = 0; n < count; n++) {
            char text[4];
            for (size_t i = 0, rest = n; i < size; i++, rest /= LETTERS) text[i] = alphabet[rest % LETTERS];
            expect_length(text, size, 0, true);
        }
    }
}

static void test_every_byte_in_a_content_length(void **state) {
    (void)state;
    for (size_t at = 0; at < 3; at++) {
        for (int byte = 0; byte < 256; byte++) {
            char text[] = "123";
            text[at] = (char)byte;
            expect_length(text, 3, 0, false);
        }
    }
}

static void expect_decimal(wide_t value, size_t zeros) {
    char text[128], number[WIDE_TEXT_MAX];
    wide_print_decimal(value, number);
    static const char *const forms[] = {"%.*s%s", " %.*s%s", "\t %.*s%s \t"}, *const wrong[] = {"+%.*s%s", "-%.*s%s"};
    for (size_t i = 0; i < 3; i++) {
        int size = snprintf(text, sizeof text, forms[i], (int)zeros, "0000000000000000000000", number);
        expect_length(text, (size_t)size, 0, true);
        for (size_t cut = sizeof BEFORE - 1; i == 1 && zeros % 10 == 0 && cut < sizeof BEFORE + 3 + (size_t)size; cut++)
            expect_length(text, (size_t)size, cut, true);
    }
    for (size_t i = 0; i < 2; i++) {
        int size = snprintf(text, sizeof text, wrong[i], (int)zeros, "0000000000000000000000", number);
        expect_length(text, (size_t)size, 0, true);
    }
}

/* 2^k + d and 10^k + d up to 2^72 and 10^22, multiples of 2^64 among them, with up to 22 zeros, blanks and signs, at
 * each level of vector instructions; cut everywhere in the value and behind it. */
static void test_content_lengths_around_each_power(void **state) {
    (void)state;
    static boundaries_t numbers;
    static const struct {
        unsigned base;
        wide_t highest;
    } kinds[] = {{2, (wide_t)1 << 72}, {10, (wide_t)10000000000 * 1000000000000}};
    FEED_EACH_LEVEL(level) {
        for (size_t kind = 0; kind < 2; kind++) {
            boundaries_of(kinds[kind].base, kinds[kind].highest, &numbers);
            for (size_t i = 0; i < numbers.count; i++)
                for (size_t zeros = 0; zeros <= 22; zeros += zeros < 3 ? 1 : 7)
                    expect_decimal(numbers.values[i], zeros);
        }
        for (unsigned factor = 1; factor < 300; factor++) expect_decimal(((wide_t)factor << 64) + 5, 0);
    }
    feed_select(UVHTTP__HTTP1_SIMD_AUTO);
}

/* The same number twice, in two fields or in a list, with any blanks, is not one number to a request. */
static void test_lists_of_content_lengths_are_refused(void **state) {
    (void)state;
    static const char *const numbers[] = {"0", "1", "5", "05", "9223372036854775807", "9223372036854775808", ""};
    static const char *const between[] = {",", ", ", " ,\t", ";", " ", "\r\nContent-Length:", "\r\ncontent-length: "};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (size_t j = 0; j < sizeof numbers / sizeof *numbers; j++) {
            for (size_t k = 0; k < sizeof between / sizeof *between; k++) {
                if (k == 4 && (*numbers[i] == '\0' || *numbers[j] == '\0')) continue; /* that is one number */
                char text[128], head_text[256];
                uvhttp__http1_scan_t scan = {0};
                uvhttp__field_t fields[8];
                uvhttp__head_t head = {.headers = fields};
                int size = snprintf(text, sizeof text, "%s%s%s", numbers[i], between[k], numbers[j]);
                size_t all = make_head(text, (size_t)size, head_text);
                assert_int_equal(uvhttp__http1_read_request(&scan, head_text, all, &feed_limits, &head),
                                 UVHTTP_E_HTTP_CONTENT_LENGTH);
            }
        }
    }
}

int main(void) {
    return RUN_TESTS(test_every_short_chunk_size, test_every_byte_in_a_chunk_size,
                     test_chunk_sizes_around_each_power_of_two, test_chunks_in_every_way_to_cut_them,
                     test_digits_are_counted_for_each_chunk_anew, test_every_chunk_size_that_is_written,
                     test_every_short_content_length, test_every_byte_in_a_content_length,
                     test_content_lengths_around_each_power, test_lists_of_content_lengths_are_refused);
}
