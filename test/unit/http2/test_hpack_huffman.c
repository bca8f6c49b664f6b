/* Owns: tests of the Huffman code of strings (RFC 7541 section 5.2), against a decoder that looks at one bit at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/chars.h"
#include "http2/hpack_huffman.h"
#include "http2/hpack_static.h"

enum { SYMBOLS = 256, CODED_MAX = 256, TEXT_MAX = CODED_MAX * 8 / 5 + UVHTTP__HUFFMAN_SLACK };

static size_t bits_of[SYMBOLS];
static uint32_t code_of[SYMBOLS];

/* Eight times the same character are as many bytes as its code has bits. */
static int set_up(void **state) {
    (void)state;
    uvhttp__hpack_prepare();
    for (unsigned symbol = 0; symbol < SYMBOLS; ++symbol) {
        uint8_t coded[32] = {0};
        char text[8];
        memset(text, (int)symbol, sizeof text);
        bits_of[symbol] = uvhttp__huffman_size(text, sizeof text);
        uvhttp__huffman_encode(text, 1, coded);
        uint32_t code = (uint32_t)coded[0] << 24 | (uint32_t)coded[1] << 16 | (uint32_t)coded[2] << 8 | coded[3];
        code_of[symbol] = code >> (32 - bits_of[symbol]);
    }
    return 0;
}

/* --- the reference --- */

typedef struct reference {
    bool good, odd;
    size_t size;
    char text[TEXT_MAX];
} reference_t;

static int find_code(uint32_t code, size_t bits) {
    for (int symbol = 0; symbol < SYMBOLS; ++symbol)
        if (bits_of[symbol] == bits && code_of[symbol] == code) return symbol;
    return -1;
}

static void decode_bits(const uint8_t *in, size_t size, reference_t *reference) {
    uint32_t code = 0;
    size_t bits = 0;
    *reference = (reference_t){.good = true};
    for (size_t at = 0; at < 8 * size; ++at) {
        code = code << 1 | (in[at / 8] >> (7 - at % 8) & 1u);
        int symbol = find_code(code, ++bits);
        if (symbol < 0) continue;
        reference->text[reference->size++] = (char)symbol;
        reference->odd |= !uvhttp__char_is((char)symbol, UVHTTP__CHAR_VALUE);
        code = 0;
        bits = 0;
    }
    if (bits > 7 || code != (1u << bits) - 1) reference->good = false;
}

/* --- both --- */

/* In memory of its size, so that a read behind it is seen. The memory for the text is as large as is promised. */
static void compare(const uint8_t *coded, size_t size) {
    static reference_t reference;
    size_t capacity = UVHTTP__HUFFMAN_DECODED_MAX(size), measured;
    uint8_t *in = malloc(size + (size == 0));
    char *out = malloc(capacity + UVHTTP__HUFFMAN_SLACK);
    memcpy(in, coded, size);
    decode_bits(in, size, &reference);
    uvhttp__huffman_text_t text = uvhttp__huffman_decode(in, size, out);
    assert_int_equal(text.end != NULL, reference.good);
    assert_int_equal(uvhttp__huffman_measure(in, size, &measured), reference.good);
    if (reference.good) {
        assert_int_equal(text.end - out, reference.size);
        assert_memory_equal(out, reference.text, reference.size);
        assert_int_equal(text.odd, reference.odd);
        assert_int_equal(measured, reference.size);
    }
    free(out);
    free(in);
}

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* A text of characters that `usual` has, with one of any kind in so many. Returns its size when coded. */
static size_t make(uint8_t *coded, size_t size, const char *usual, unsigned rarely, uint32_t *seed) {
    char text[TEXT_MAX];
    for (size_t i = 0; i < size; ++i)
        text[i] = draw(seed) % rarely == 0 ? (char)draw(seed) : usual[draw(seed) % strlen(usual)];
    return (size_t)(uvhttp__huffman_encode(text, size, coded) - coded);
}

static void test_every_character_alone_and_among_others(void **state) {
    (void)state;
    for (unsigned symbol = 0; symbol < SYMBOLS; ++symbol) {
        for (size_t before = 0; before < 40; ++before) {
            uint8_t coded[CODED_MAX];
            char text[80];
            memset(text, 'a', sizeof text);
            text[before] = (char)symbol;
            compare(coded, (size_t)(uvhttp__huffman_encode(text, before + 1, coded) - coded));
            compare(coded, (size_t)(uvhttp__huffman_encode(text, before + 30, coded) - coded));
        }
    }
}

static void test_texts_of_all_sizes(void **state) {
    (void)state;
    static const char *const usual[] = {"0", "aeiost", "/?=&;.-_abc0123456789", "ABCXYZ&*,;XZjkqvwxyz:", "!\"()'+|#>"};
    uint32_t seed = 1;
    for (size_t size = 0; size < 120; ++size) {
        for (size_t kind = 0; kind < sizeof usual / sizeof *usual; ++kind) {
            for (unsigned rarely = 2; rarely < 2000; rarely *= 5) {
                uint8_t coded[120 * 4 + 1];
                size_t coded_size = make(coded, size, usual[kind], rarely, &seed);
                if (coded_size <= CODED_MAX) compare(coded, coded_size);
            }
        }
    }
}

/* Each bit of a good text turned over, and each of its ends. */
static void test_faults(void **state) {
    (void)state;
    uint32_t seed = 2;
    for (size_t size = 0; size < 48; ++size) {
        uint8_t coded[CODED_MAX];
        size_t coded_size = make(coded, size, "abcde/=?0123456789", 20, &seed);
        if (coded_size + 5 > CODED_MAX) continue;
        for (size_t bit = 0; bit < 8 * coded_size; ++bit) {
            coded[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
            compare(coded, coded_size);
            coded[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
        }
        for (size_t end = 0; end < coded_size; ++end) compare(coded, end);
        memset(coded + coded_size, 0xff, 5);
        for (size_t more = 1; more <= 5; ++more) compare(coded, coded_size + more);
    }
}

static void test_bytes_of_any_kind(void **state) {
    (void)state;
    uint32_t seed = 3;
    for (unsigned round = 0; round < 20000; ++round) {
        uint8_t coded[64];
        size_t size = draw(&seed) % sizeof coded;
        unsigned ones = draw(&seed) % 3;
        for (size_t i = 0; i < size; ++i) coded[i] = (uint8_t)(draw(&seed) | (ones > 0 ? draw(&seed) : 0u));
        compare(coded, size);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_character_alone_and_among_others),
        cmocka_unit_test(test_texts_of_all_sizes),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bytes_of_any_kind),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
